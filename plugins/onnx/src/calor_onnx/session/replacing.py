"""calor-onnx in the place of onnxruntime, in programs that import that name.

The folder ``stand_in`` beside this package holds a package ``onnxruntime`` and its metadata.
Where that folder comes first on the path, Python's ordinary import finds it, and so do
``importlib.metadata`` and ``find_spec``; a process that is started with it on PYTHONPATH has it
too. So there is one mechanism and no hook at the interpreter's start. Three ways lead to it:

- ``calor_onnx.replace_onnxruntime()`` in a program, before others import onnxruntime,
- ``python -m calor_onnx run-program script.py …`` for a program that is not to be changed,
- ``PYTHONPATH=$(python -m calor_onnx stand-in)`` for programs that are started by others.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Final

from calor_onnx.session.providers import VARIABLE

# The interface that is followed; packages ask for a minimum.
API_VERSION: Final = "1.31.1"


def stand_in() -> Path:
    """Return the folder in which a package of the name ``onnxruntime`` is calor-onnx."""
    return Path(__file__).resolve().parent.parent / "stand_in"


def replace_onnxruntime(device: str | None = None) -> None:
    """Make ``import onnxruntime`` give calor-onnx, in this process and those that it starts.

    An onnxruntime that is installed stays as it is on disk; modules that have imported it before
    keep it, so call this first. ``device`` takes the place of whatever provider a program asks
    for, as the environment variable CALOR_ONNXRUNTIME_DEVICE does.

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
