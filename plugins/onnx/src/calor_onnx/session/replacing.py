"""calor-onnx as ``onnxruntime`` in programs that import that name.

The folder ``stand_in`` beside this package holds a package ``onnxruntime`` and its metadata. If the
folder comes first on the path, Python's import finds it, and so do ``importlib.metadata`` and
``find_spec``; processes started with it on PYTHONPATH find it too. No import hook is needed. Three
ways use it:

- ``calor_onnx.replace_onnxruntime()`` in a program, before it imports onnxruntime,
- ``python -m calor_onnx run-program script.py …`` for an unchanged program,
- ``PYTHONPATH=$(python -m calor_onnx stand-in)`` for programs started by others.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Final

from calor_onnx.session.providers import VARIABLE

# Version of the interface; packages require a minimum.
API_VERSION: Final = "1.31.1"


def stand_in() -> Path:
    """Return the folder with the package ``onnxruntime`` that is calor-onnx."""
    return Path(__file__).resolve().parent.parent / "stand_in"


def replace_onnxruntime(device: str | None = None) -> None:
    """Make ``import onnxruntime`` import calor-onnx, in this process and its child processes.

    An installed onnxruntime stays on disk unchanged. Modules that have imported it before keep it,
    so call this function first.

    Parameters
    ----------
    device : str, default None
        Device that replaces all requested providers, as the environment variable
        CALOR_ONNXRUNTIME_DEVICE does. None keeps the program's providers.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.replace_onnxruntime()
    >>> import onnxruntime
    >>> onnxruntime.InferenceSession is calor_onnx.InferenceSession
    True
    """
    folder = str(stand_in())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    if folder not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, *paths])
    if device is not None:
        os.environ[VARIABLE] = device
    found = sys.modules.get("onnxruntime")
    if found is not None and not str(found.__file__).startswith(folder):
        for name in [n for n in sys.modules if n.partition(".")[0] == "onnxruntime"]:
            del sys.modules[name]
    importlib.invalidate_caches()
    importlib.import_module("onnxruntime")
