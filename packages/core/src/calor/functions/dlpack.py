"""Taking arrays of other frameworks by DLPack, and the structures of its capsules.

Requirements: an import is a copy unless ``copy=False``: what is recorded is computed later, so a
producer that writes to its array after the import, and nothing in DLPack forbids it (its flag for
read-only memory binds the consumer alone), would change results that were asked for before. NumPy's
exchange covers every type but bfloat16 and float8; those travel as unsigned integers whose type
code is put right in the exchanged structure.

Source: the DLPack specification, https://dmlc.github.io/dlpack/latest/c_api.html
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

from calor import dtypes
from calor.backends.device import Device
from calor.dtypes import DType
from calor.errors import DTypeError, ExchangeError, UnsupportedError
from calor.recording.trace import computed
from calor.specs import spec
from calor.tensor.tensor import Tensor

HOST: Final = 1
# Type codes of the types that NumPy does not exchange.
CODES: Final[dict[DType, int]] = {
    dtypes.bfloat16: 4,
    dtypes.float8_e4m3fn: 10,
    dtypes.float8_e5m2: 12,
}
_UNSIGNED: Final = 1
READ_ONLY: Final = 1  # The flag of DLPack 1.0.


class _Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", _Type),
    ]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


is_valid = ctypes.pythonapi.PyCapsule_IsValid
is_valid.argtypes, is_valid.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_int
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.argtypes, pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p


def type_in(capsule: Any) -> _Type:
    """Return the type field inside an unused capsule, to read or to put right."""
    if is_valid(capsule, b"dltensor_versioned"):
        kind: Any = Versioned.from_address(pointer(capsule, b"dltensor_versioned")).tensor.dtype
    else:
        kind = _Tensor.from_address(pointer(capsule, b"dltensor")).dtype
    found: _Type = kind
    return found


def import_array(x: Any, target: Device, copy: bool | None) -> Tensor:
    """Return a tensor on a device with the elements of a foreign array."""
    if not hasattr(x, "__dlpack_device__"):
        raise ExchangeError(
            f"from_dlpack: x is a {type(x).__name__}, which has no __dlpack__; pass an array of a "
            f"library that has it, or use calor.asarray(x)"
        )
    backend = target.backend
    home = backend.dlpack_device(target.index)
    if home[0] != HOST and home == tuple(map(int, x.__dlpack_device__())):
        buffer, there = backend.from_dlpack(target.index, x, copy is not False)
        taken: Tensor = computed(there, target, buffer)
        return taken
    array, dtype = _host_array(x, copy is False)
    if copy is False:
        if not target.info.feature("host_views") or not array.flags.c_contiguous:
            raise ExchangeError(
                f"from_dlpack: copy=False needs dense row-major memory and a device that shares "
                f"host memory, which {target.name} does not; pass copy=None"
            )
        buffer = backend.adopt(target.index, array)
    else:
        buffer = backend.upload(target.index, np.ascontiguousarray(array).reshape(array.shape))
    made: Tensor = computed(spec(array.shape, dtype), target, buffer)
    return made


def _host_array(x: Any, in_place: bool) -> tuple[np.ndarray[Any, Any], DType]:
    """Return the exporter's elements as a host array, without a copy from host memory.

    ``in_place`` says that a copy is not wanted at any price.
    """
    place = x.__dlpack_device__()
    elsewhere = place[0] != HOST
    if elsewhere and in_place:
        raise ExchangeError(
            f"from_dlpack: copy=False needs host memory, and the {type(x).__name__} is on DLPack "
            f"device {tuple(map(int, place))}; pass copy=None"
        )
    options: dict[str, Any] = {"dl_device": (HOST, 0)} if elsewhere else {}
    if in_place:
        options["copy"] = False
    try:
        capsule = x.__dlpack__(max_version=(1, 0), **options)
    except TypeError:
        if elsewhere:
            raise UnsupportedError(
                f"the {type(x).__name__} is not in host memory and cannot be brought there by "
                f"DLPack; move it to the host first"
            ) from None
        capsule = x.__dlpack__()
    except BufferError as error:
        raise ExchangeError(
            f"from_dlpack: the {type(x).__name__} cannot be exchanged ({error}); convert it to an "
            f"array of numbers first"
        ) from None
    kind = type_in(capsule)
    coded = {code: dtype for dtype, code in CODES.items()}.get(kind.code)
    if coded is not None:
        if kind.bits != 8 * coded.itemsize:
            raise DTypeError(f"from_dlpack: a {kind.bits}-bit {coded.name} does not exist")
        kind.code = _UNSIGNED
    array = np.from_dlpack(_Once(capsule))
    if coded is not None:
        array = array.view(coded.numpy)
    return array, dtypes.as_dtype(array.dtype)


class _Once:
    """A capsule as an exporter, for NumPy's importer."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (HOST, 0)
