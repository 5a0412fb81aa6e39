"""Comparison with ONNX Runtime: differences of results, and times."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import calor
from calor import Tensor
from calor.errors import PluginError
from calor_onnx.errors import InputError
from calor_onnx.model import Model
from calor_onnx.session.replacing import stand_in

# Timed runs after the first, which compiles.
REPEATS = 20


@dataclass(frozen=True)
class Difference:
    """The difference of an output from that of ONNX Runtime.

    Parameters
    ----------
    name : str
        Name of the output.
    largest : float
        Largest difference, relative to the largest magnitude of the output.
    shape : tuple of int
        Shape of the output.
    """

    name: str
    largest: float
    shape: tuple[int, ...]


def real_onnxruntime() -> Any:
    """Return the module of ONNX Runtime itself, even if calor-onnx replaces it.

    Raises
    ------
    PluginError
        If ONNX Runtime is not installed.
    """
    folder = str(stand_in())
    found = sys.modules.get("onnxruntime")
    if found is not None and not str(found.__file__).startswith(folder):
        return found
    kept = {n: sys.modules.pop(n) for n in [*sys.modules] if n.partition(".")[0] == "onnxruntime"}
    path = sys.path[:]
    try:
        sys.path[:] = [entry for entry in path if entry != folder]
        importlib.invalidate_caches()
        return importlib.import_module("onnxruntime")
    except ImportError:
        raise PluginError(
            "ONNX Runtime is not installed; to compare, pip install onnxruntime"
        ) from None
    finally:
        sys.path[:] = path
        if kept:
            for name in [n for n in sys.modules if n.partition(".")[0] == "onnxruntime"]:
                del sys.modules[name]
            sys.modules.update(kept)


def session_of(path: str) -> Any:
    """Return a silent session of ONNX Runtime on the CPU."""
    runtime = real_onnxruntime()
    runtime.set_default_logger_severity(4)
    return runtime.InferenceSession(path, providers=["CPUExecutionProvider"])


def on_host(value: Any) -> Any:
    """Return an output with its tensors as host arrays."""
    if isinstance(value, list):
        return [on_host(item) for item in value]
    return value.numpy() if isinstance(value, Tensor) else value


def differences(model: Model, path: str, given: Mapping[str, Any]) -> list[Difference]:
    """Return the difference of each output from ONNX Runtime for the same inputs."""
    theirs = session_of(path).run(None, dict(given))
    ours = model.run(given)
    return [
        Difference(
            name, apart(on_host(a), b), tuple(np.shape(b)) if not isinstance(b, list) else ()
        )
        for (name, a), b in zip(ours.items(), theirs, strict=True)
    ]


def apart(ours: Any, theirs: Any) -> float:
    """Return the largest difference, relative to the largest magnitude; infinite if shapes differ.

    Examples
    --------
    >>> from calor_onnx.comparing import apart
    >>> apart([1.0, 2.0], [1.0, 2.5])
    0.2
    """
    if isinstance(theirs, list) and theirs and isinstance(theirs[0], dict | list | np.ndarray):
        if len(ours) != len(theirs):
            return float("inf")
        return max(apart(a, b) for a, b in zip(ours, theirs, strict=True))
    if isinstance(theirs, dict):
        same = isinstance(ours, dict) and ours.keys() == theirs.keys()
        return apart([ours[k] for k in theirs], [*theirs.values()]) if same else float("inf")
    a, b = np.asarray(ours), np.asarray(theirs)
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf")
    if b.dtype.kind not in "fiub" or not b.size:
        return 0.0 if np.array_equal(a, b) else float("inf")
    a, b = a.astype(np.float64), b.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        far = np.where(same, 0.0, np.abs(a - b))
    if np.isnan(far).any():
        return float("inf")
    return float(far.max() / max(float(np.abs(b[np.isfinite(b)]).max(initial=0)), 1e-30))


def shortest(functions: list[Callable[[], Any]], repeats: int = REPEATS) -> list[float]:
    """Return the shortest time of each function in seconds; they take turns after one warm-up."""
    best = [float("inf")] * len(functions)
    for function in functions:
        function()
    for _ in range(repeats):
        for place, function in enumerate(functions):
            start = time.perf_counter()
            function()
            best[place] = min(best[place], time.perf_counter() - start)
    return best


def times(
    model: Model, path: str, given: Mapping[str, Any], repeats: int = REPEATS
) -> tuple[float, float | None]:
    """Return the shortest time of a run here and in ONNX Runtime, None if that is not installed."""
    if repeats < 1:
        raise InputError(f"repeats is {repeats}; pass at least 1")

    def ours() -> None:
        made = model.run(given)
        calor.eval(*[x for x in made.values() if isinstance(x, Tensor)])
        calor.synchronize(model.device)

    try:
        session = session_of(path)
    except PluginError:
        return shortest([ours], repeats)[0], None
    found = shortest([ours, partial(session.run, None, dict(given))], repeats)
    return found[0], found[1]
