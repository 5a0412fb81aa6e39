"""The two sides of DLPack as other libraries have them: one that lends arrays, one that borrows.

Source: the DLPack specification, https://dmlc.github.io/dlpack/latest/c_api.html
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

from calor.dtypes import ALL, DType, as_dtype

from .base import Array

_OLD, _NEW = b"dltensor", b"dltensor_versioned"
# Codes of kinds of numbers, and of the dtypes that have codes of their own.
KINDS: Final = {"int": 0, "uint": 1, "float": 2, "complex": 5, "bool": 6}
OWN: Final = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}


class _Described(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("number", ctypes.c_int32),
        ("rank", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64),
    )  # fmt: skip


class _Managed(ctypes.Structure):
    _fields_ = (
        ("tensor", _Described), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    )  # fmt: skip


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Described),
    )  # fmt: skip


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_valid = ctypes.pythonapi.PyCapsule_IsValid
_valid.restype, _valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.restype, _rename.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
# Deleters may drop objects of Python, so the interpreter stays locked.
_DELETER: Final = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
# Names of capsules that were used; a capsule keeps only their address.
_USED: Final = {_OLD: b"used_dltensor", _NEW: b"used_dltensor_versioned"}


def _managed(capsule: Any) -> tuple[bytes, int, Any]:
    name = _NEW if _valid(capsule, _NEW) else _OLD
    at = _pointer(capsule, name)
    return name, at, (_Versioned if name == _NEW else _Managed).from_address(at)


class Borrowed:
    """What a consumer has of a capsule; it gives back once, at the latest when it dies.

    Parameters
    ----------
    capsule : object
        A capsule that nobody used, of memory of the host.
    """

    def __init__(self, capsule: Any) -> None:
        name, self._at, made = _managed(capsule)
        _rename(capsule, _USED[name])
        self.versioned = name == _NEW
        self._delete: Any = _DELETER(made.deleter) if made.deleter else None
        told = made.tensor
        self.read_only = bool(made.flags & 1) if self.versioned else False
        assert not self.versioned or made.major == 1, f"DLPack {made.major}.{made.minor}"
        assert told.device == 1, f"a capsule of device {told.device}"
        assert told.lanes == 1, f"a capsule of {told.lanes} lanes"
        self.dtype = _dtype_of(told.code, told.bits)
        shape = tuple(told.shape[k] for k in range(told.rank))
        size = self.dtype.itemsize
        strides = [size * n for n in _dense(shape)]
        if told.strides:
            strides = [size * told.strides[k] for k in range(told.rank)]
        count = int(np.prod(shape))
        self.array: Array = np.empty(shape, self.dtype.numpy)
        if count:
            dense = [size * n for n in _dense(shape)]
            apart = [(a, b) for a, b, n in zip(strides, dense, shape, strict=True) if n > 1]
            assert all(a == b for a, b in apart), f"strides {strides} of {shape}"
            raw: Any = (ctypes.c_uint8 * (count * size)).from_address(told.data + told.offset)
            self.array = np.frombuffer(raw, self.dtype.numpy).reshape(shape)

    def give_back(self) -> None:
        """Call the deleter of the lender."""
        delete, self._delete = self._delete, None
        if delete is not None:
            del self.array
            delete(self._at)

    def __del__(self) -> None:
        self.give_back()


def _dense(shape: tuple[int, ...]) -> list[int]:
    made = [1]
    for n in reversed(shape[1:]):
        made.append(made[-1] * n)
    return made[::-1][: len(shape)]


def _dtype_of(code: int, bits: int) -> DType:
    for dtype in ALL:
        own = OWN.get(dtype.name, KINDS.get(dtype.kind))
        if own == code and 8 * dtype.itemsize == bits:
            return dtype
    raise AssertionError(f"a capsule of code {code} and {bits} bits")


class Lender:
    """An array of another library, which knows DLPack and nothing of NumPy.

    Parameters
    ----------
    array : numpy.ndarray
        The elements, of any dtype that calor has.
    old : bool
        Whether the library is older than DLPack 1.0: it knows no versions and no copies.
    """

    def __init__(self, array: Array, *, old: bool) -> None:
        self._array, self._old = array, old

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return that of the host."""
        return (1, 0)

    def __dlpack__(self, **options: Any) -> Any:
        """Return a capsule of the protocol that the library knows."""
        if self._old and options:
            raise TypeError(f"__dlpack__() got unexpected keyword arguments {sorted(options)}")
        dtype = as_dtype(self._array.dtype)
        code = OWN.get(dtype.name)
        raw = self._array if code is None else self._array.view(f"u{dtype.itemsize}")
        capsule = raw.__dlpack__(**{k: v for k, v in options.items() if k == "max_version"})
        if code is not None:
            _managed(capsule)[2].tensor.code = code
        return capsule
