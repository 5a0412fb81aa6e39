"""The device: slabs of bytes, and the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any

import numpy as np

from calor.backends.op_table import OpTable
from calor.backends.protocol import FULL, Info, MemoryFigures
from calor.specs import Spec

from .table import DTYPES, TABLE, Array

WORKING = ("interactive", "dynamic_shapes", "in_place", "fork")
INFO = Info("A slate of bytes", DTYPES, dict.fromkeys(WORKING, FULL))


class Slab:
    """A piece of the slate, given back when it dies."""

    exported = False

    def __init__(self, slate: Slate, data: bytearray) -> None:
        self.slate, self.data, self.nbytes = slate, data, len(data)
        slate.count(self.nbytes)

    def __del__(self) -> None:
        self.slate.count(-self.nbytes)


class Slate(OpTable):
    """One device, ``slate:0``."""

    name = "slate"

    def __init__(self) -> None:
        # A slab may die at any time, also while its own thread counts another one.
        self.lock = RLock()
        self.in_use = self.peak = 0

    def enumerate(self) -> int:
        return 1

    def info(self, index: int) -> Info:
        return INFO

    def table(self, index: int) -> Mapping[str, Callable[..., Array]]:
        return TABLE

    def count(self, nbytes: int) -> None:
        with self.lock:
            self.in_use += nbytes

    def reserve(self, index: int, nbytes: int) -> None:
        with self.lock:
            self.peak = max(self.peak, self.in_use + nbytes)

    def enter(self, index: int, given: Any, spec: Spec) -> Array:
        data = given.data if isinstance(given, Slab) else np.asarray(given, spec.dtype.numpy)
        return np.ndarray(spec.shape, spec.dtype.numpy, data)

    def own(self, index: int, values: Sequence[Array], inputs: Sequence[Array]) -> list[bytearray]:
        return [bytearray(value.tobytes()) for value in values]

    def leave(self, index: int, value: bytearray, spec: Spec, into: Any) -> Any:
        if into is None:
            return Slab(self, value)
        into.data[:] = value
        return into

    def upload(self, index: int, array: Array) -> Slab:
        self.reserve(index, array.nbytes)
        return Slab(self, bytearray(array.tobytes()))

    def download(self, index: int, buffer: Slab, spec: Spec) -> Array:
        return self.enter(index, buffer, spec).copy()

    def copy(self, index: int, buffer: Slab, spec: Spec, target: int) -> Slab:
        return self.upload(target, self.enter(index, buffer, spec))

    def synchronize(self, index: int) -> None:
        """Every call has finished when it returns."""

    def memory(self, index: int) -> MemoryFigures:
        return MemoryFigures(self.in_use, self.peak, None)
