"""Faults of threads: what calls from several of them share and should not."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from calor.backends.numpy_backend import NumpyExecutable
from calor.errors import CalorError, DeviceError

from .base import Array, Broken, Call, Fault, calling


def _scratch(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    """Keep the operands of a call where every other thread keeps its own."""
    if threading.active_count() == 1:
        return run(inputs, into)
    executable.scratch = list(inputs)
    time.sleep(1e-4)
    return run(executable.scratch, into)


def _targets(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    """Keep the buffers to write to where every other thread keeps its own."""
    if into is None or threading.active_count() == 1:
        return run(inputs, into)
    executable.targets = list(into)
    time.sleep(1e-4)
    return run(inputs, executable.targets)


class OneWorkspace(Broken):
    """All executables compute in one workspace, which threads write at once."""

    class Calls(NumpyExecutable):
        """Reads its operands from the backend's workspace."""

        def __call__(self, inputs: Sequence[Any], into: Any = None) -> Any:
            """Put the operands where every call puts them."""
            backend: Any = self.backend
            if threading.active_count() > 1:
                backend.workspace = list(inputs)
                time.sleep(1e-4)
                held = backend.workspace
                fits = len(held) == len(inputs) and all(
                    np.shape(getattr(a, "array", a)) == np.shape(getattr(b, "array", b))
                    for a, b in zip(held, inputs, strict=True)
                )
                inputs = held if fits else inputs
            return super().__call__(inputs, into)

    executable = Calls


class OneStagingBuffer(Broken):
    """Uploads of all threads go through one staging buffer."""

    def upload(self, index: int, array: Array) -> Any:
        """Copy twice."""
        if threading.active_count() == 1:
            return super().upload(index, array)
        self.staged = array
        time.sleep(1e-4)
        staged = self.staged
        fits = staged.shape == array.shape and staged.dtype == array.dtype
        return super().upload(index, staged if fits else array)


class OneError(Broken):
    """The error of a thread is raised in the calls of all others too."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: dict[int, Exception] = {}

    class Calls(NumpyExecutable):
        """Looks for errors of others first."""

        def __call__(self, inputs: Sequence[Any], into: Any = None) -> Any:
            """Raise what another thread's call raised."""
            mine, failed = threading.get_ident(), self.backend.failed  # type: ignore[attr-defined]
            if threading.active_count() > 1:
                time.sleep(1e-4)
            if failed and mine not in failed:
                raise next(iter(failed.values()))
            try:
                return super().__call__(inputs, into)
            except CalorError as error:
                failed[mine] = error
                raise

    executable = Calls


class OneThread(Broken):
    """The device works in the thread that opened it."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.get_ident()

    def upload(self, index: int, array: Array) -> Any:
        """Refuse other threads."""
        if threading.get_ident() != self.thread:
            raise DeviceError("broken: no context is current in this thread")
        return super().upload(index, array)


FAULTS = [
    Fault(
        "targets-shared",
        "an executable keeps the buffers that it writes in place in one place for all threads",
        calling(_targets),
        ("threads/drawn-updates",),
    ),
    Fault(
        "scratch-shared",
        "an executable keeps its operands in one place for all threads",
        calling(_scratch),
        ("threads/one_executable_in_threads",),
    ),
    Fault(
        "workspace-shared",
        "all executables keep their operands in one workspace, whatever thread calls",
        OneWorkspace,
        ("threads/one_executable_in_threads",),
    ),
    Fault(
        "staging-shared",
        "uploads of all threads go through one staging buffer",
        OneStagingBuffer,
        ("threads/results_of_threads", "threads/one_executable_in_threads"),
    ),
    Fault(
        "errors-of-other-threads",
        "an error is raised in the calls of other threads too",
        OneError,
        ("threads/errors_of_threads",),
    ),
    Fault(
        "bound-to-a-thread",
        "the device works in the thread that opened it alone",
        OneThread,
        ("threads/results_of_threads", "threads/one_executable_in_threads"),
    ),
]
