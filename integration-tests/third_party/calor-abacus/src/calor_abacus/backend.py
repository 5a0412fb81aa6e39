"""Memory of the C library, and one function for each operation."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any

import numpy as np

import calor
from calor.backends.op_table import OpTable
from calor.backends.protocol import FULL, Buffer, Info, MemoryFigures
from calor.dtypes import as_dtype
from calor.errors import OutOfMemoryError, UnsupportedError
from calor.specs import Spec

Array = np.ndarray[Any, Any]
CAPACITY = 1 << 31
C = ctypes.CDLL(None)
C.malloc.restype, C.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
C.free.argtypes = (ctypes.c_void_p,)
INFO = Info(
    description="An abacus of the C library",
    dtypes=dict.fromkeys((calor.float32, calor.int32, calor.bool), FULL),
    features=dict.fromkeys(("interactive", "dynamic_shapes", "in_place", "fork"), FULL),
)


class AbacusBuffer:
    """A piece of memory, freed when the last tensor that needs it dies."""

    exported = False

    # At the end of the process a module may be cleared before its objects: they keep ``free``.
    def __init__(self, backend: AbacusBackend, nbytes: int, free: Any = C.free) -> None:
        self.backend, self.nbytes, self.free = backend, nbytes, free
        self.address = C.malloc(max(nbytes, 1))
        if not self.address:
            self.free = None
            raise OutOfMemoryError(f"the C library has no {nbytes} bytes")
        backend.count(nbytes)

    def __del__(self) -> None:
        if self.free is not None:
            self.free(self.address)
            self.backend.count(-self.nbytes)

    def array(self, spec: Spec) -> Array:
        """Return the elements as an array that shares the memory."""
        raw: Any = (ctypes.c_char * self.nbytes).from_address(self.address)
        return np.frombuffer(raw, spec.dtype.numpy, spec.size).reshape(spec.shape)


class AbacusBackend(OpTable):
    """One device, ``abacus:0``."""

    name = "abacus"

    def __init__(self) -> None:
        self.lock = RLock()
        self.in_use = self.peak = 0
        self.functions = {name: dense(function) for name, function in FUNCTIONS.items()}

    def enumerate(self) -> int:
        return 1

    def info(self, index: int) -> Info:
        return INFO

    def count(self, nbytes: int) -> None:
        with self.lock:
            self.in_use += nbytes
            self.peak = max(self.peak, self.in_use)

    def reserve(self, index: int, nbytes: int) -> None:
        if self.in_use + nbytes > CAPACITY:
            raise OutOfMemoryError(f"{nbytes} bytes beside {self.in_use} exceed {CAPACITY}")
        with self.lock:
            self.peak = max(self.peak, self.in_use + nbytes)

    def upload(self, index: int, array: Array) -> Buffer:
        if as_dtype(array.dtype) not in INFO.dtypes:
            raise UnsupportedError(f"abacus:{index} stores no {array.dtype}; cast on the host")
        self.reserve(index, array.nbytes)
        buffer = AbacusBuffer(self, array.nbytes)
        ctypes.memmove(buffer.address, array.ctypes.data, array.nbytes)
        return buffer

    def download(self, index: int, buffer: Any, spec: Spec) -> Array:
        return np.array(buffer.array(spec))

    def copy(self, index: int, buffer: Any, spec: Spec, target: int) -> Buffer:
        return self.upload(target, buffer.array(spec))

    def synchronize(self, index: int) -> None:
        pass

    def memory(self, index: int) -> MemoryFigures:
        return MemoryFigures(self.in_use, self.peak, None)

    def table(self, index: int) -> Mapping[str, Callable[..., Any]]:
        return self.functions

    def enter(self, index: int, given: Any, spec: Spec) -> Array:
        if isinstance(given, AbacusBuffer):
            return given.array(spec)
        return np.array(given, spec.dtype.numpy)

    def own(self, index: int, values: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        # An input would change while `leave` writes the others.
        return [np.array(v) if any(v is x for x in inputs) else v for v in values]

    def leave(self, index: int, value: Array, spec: Spec, into: Buffer | None) -> Buffer:
        made = into if isinstance(into, AbacusBuffer) else AbacusBuffer(self, spec.nbytes)
        ctypes.memmove(made.address, value.ctypes.data, spec.nbytes)
        return made


def dense(function: Callable[..., Any]) -> Callable[..., Array]:
    """Return a function whose result is dense in its order."""

    def call(*operands: Array, **attributes: Any) -> Array:
        with np.errstate(all="ignore"):
            return np.array(function(*operands, **attributes), order="C")

    return call


def slice_(x: Array, *, starts: Any, stops: Any, steps: Any) -> Array:
    """Return every step-th element; a stop below 0 is before the first."""
    return x[tuple(map(slice, starts, (None if b < 0 else b for b in stops), steps))]


def dot_general(x: Array, y: Array, *, contract: Any, batch: Any, dtype: Any) -> Array:
    """Return sums of products; of bool, whether any product is true."""
    left, right = list(range(x.ndim)), list(range(x.ndim, x.ndim + y.ndim))
    for i, j in zip((*contract[0], *batch[0]), (*contract[1], *batch[1]), strict=True):
        right[j] = left[i]
    kept = [left[i] for i in batch[0]] + [n for n in left + right if (n in left) != (n in right)]
    kind = np.dtype(np.int32) if dtype.kind == "bool" else dtype.numpy
    made: Any = np.einsum(x.astype(kind), left, y.astype(kind), right, kept)
    return np.asarray(made, dtype.numpy)


def total(x: Array, *, axes: Any, dtype: Any) -> Array:
    """Return a sum; of floats in float64, since a long one would lose digits."""
    wide = np.float64 if dtype.kind == "float" else dtype.numpy
    return np.asarray(x.sum(axis=axes, dtype=wide), dtype.numpy)


def cast(x: Array, *, dtype: Any) -> Array:
    """Return x in another dtype; from a float to an integer, the nearest there is."""
    if x.dtype.kind == "f" and dtype.is_integer:
        ends = np.iinfo(dtype.numpy)
        x = np.clip(np.nan_to_num(x.astype(np.float64), nan=0), ends.min, ends.max)
    return x.astype(dtype.numpy)


def maximum(x: Array, y: Array) -> Array:
    """Return the larger number; 0.0 of 0.0 and -0.0."""
    return np.where((x == 0) & (y == 0), x + y, np.maximum(x, y))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "maximum": maximum,
    "reshape": lambda x, *, shape: x.reshape(shape),
    "permute": lambda x, *, axes: x.transpose(axes),
    "expand": lambda x, *, shape: np.broadcast_to(x, shape),
    "full": lambda *, value, shape, dtype: np.full(shape, value.number, dtype.numpy),
    "slice": slice_,
    "sum": total,
    "max": lambda x, *, axes: x.max(axis=axes),
    "dot_general": dot_general,
    "cast": cast,
    "where": np.where,
}
