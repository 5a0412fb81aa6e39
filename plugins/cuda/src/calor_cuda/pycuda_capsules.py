"""DLPack capsules of device memory, without CuPy.

Requirements: this replaces CuPy if it is not installed. NumPy makes a capsule of the address, never
read by the host, and the device fields are patched afterwards. The host waits for the stream before
the hand-over, because the consumer knows no event of this driver.

Source: the DLPack specification, https://dmlc.github.io/dlpack/latest/c_api.html
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from calor.dtypes import ALL, DType, bool_
from calor.errors import ExchangeError
from calor.specs import Spec, spec
from calor_kernel.device.protocol import Exchange

# DLPack's type codes by NumPy's dtype kinds, and by name for dtypes that NumPy lacks.
_KINDS: Final = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_OTHERS: Final = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}
_VERSION: Final = (1, 0)


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


# The header of a versioned capsule before its tensor: version, context, deleter and flags.
_AHEAD: Final = 32
_valid = ctypes.pythonapi.PyCapsule_IsValid
_valid.argtypes, _valid.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_int
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p


def _tensor_in(capsule: Any) -> _Tensor:
    """Return the tensor of an unused capsule."""
    for name, ahead in ((b"dltensor_versioned", _AHEAD), (b"dltensor", 0)):
        if _valid(capsule, name):
            return _Tensor.from_address(_pointer(capsule, name) + ahead)
    raise ExchangeError("from_dlpack: the capsule was used before, or is of another kind")


def capsule_of(address: int, known: Spec, place: tuple[int, int], owner: Any, **asked: Any) -> Any:
    """Return a capsule of dense device memory; the capsule keeps ``owner`` alive.

    ``asked``: the consumer's arguments to ``__dlpack__``, at most a version.

    >>> from calor.dtypes import float32
    >>> memory = np.zeros(6, np.float32)
    >>> made = capsule_of(memory.ctypes.data, spec((2, 3), float32), (2, 0), memory)
    >>> contents(made)[1].shape
    (2, 3)
    """
    held: Any = (ctypes.c_char * max(known.nbytes, 1)).from_address(address)
    held.owner = owner
    array = np.frombuffer(held, known.dtype.numpy, known.size).reshape(known.shape)
    capsule = array.__dlpack__(max_version=asked.get("max_version"))
    said = _tensor_in(capsule)
    said.device_type, said.device_id = place
    return capsule


def contents(capsule: Any) -> tuple[int, Spec]:
    """Return address and spec of a capsule's memory; ExchangeError if it is not dense."""
    said = _tensor_in(capsule)
    shape = tuple(said.shape[i] for i in range(said.ndim))
    dtype = _dtype(said)
    step = 1
    for axis in reversed(range(said.ndim)):
        if said.strides and shape[axis] != 1 and said.strides[axis] != step and 0 not in shape:
            raise ExchangeError(
                "from_dlpack needs dense row-major memory where CuPy is not installed; pass a "
                "dense copy"
            )
        step *= shape[axis]
    return (said.data or 0) + said.byte_offset, spec(shape, dtype)


def _dtype(said: _Tensor) -> DType:
    for dtype in ALL:
        code = _OTHERS.get(dtype.name, _KINDS.get(np.dtype(dtype.numpy).kind))
        bits = 8 if dtype is bool_ else 8 * dtype.itemsize
        if (code, bits, 1) == (said.code, said.bits, said.lanes):
            return dtype
    raise ExchangeError(f"from_dlpack: no dtype has DLPack's code {said.code} and {said.bits} bits")


class CapsuleExchange(Exchange):
    """Exchange on the stream of a handle; ``finish`` waits for it."""

    def __init__(self, place: tuple[int, int], stream: int, finish: Callable[[], None]) -> None:
        self.place = place
        self.stream = stream
        self.finish = finish

    def dlpack(self, handle: int, spec: Spec, owner: Any, **options: Any) -> Any:
        """Return a capsule of memory after all queued work is done."""
        self.finish()
        return capsule_of(handle, spec, self.place, owner, **options)

    def take(self, array: Any, copy: bool) -> tuple[int, Spec, Any]:
        """Return address, spec and owner; our stream waits for the producer's."""
        try:
            capsule = array.__dlpack__(stream=self.stream, max_version=_VERSION)
        except TypeError:
            # Producers before DLPack 1.0 do not accept a version.
            capsule = array.__dlpack__(stream=self.stream)
        # A capsule that nobody consumes releases the memory when deleted.
        return *contents(capsule), (capsule, array)
