"""DLPack both ways: handing tensors to other frameworks, and taking theirs.

Requirements: no tensor aliases memory that somebody else can write. An export is read-only where
the consumer understands that (DLPack 1.0 and later) and a copy where it does not. An import is a
copy unless ``copy=False``: what is recorded is computed later, so a producer that writes to its
array after the import, and nothing in DLPack forbids it (its flag for read-only memory binds the
consumer alone), would change results that were asked for before. NumPy's exchange covers every type
but bfloat16 and float8; those travel as unsigned integers whose type code is put right in the
exchanged structure.

Source: the DLPack specification, https://dmlc.github.io/dlpack/latest/c_api.html
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from calor import dtypes
from calor.backends.selection import as_device, current_device
from calor.dtypes import DType
from calor.errors import DTypeError, ExchangeError, UnsupportedError
from calor.graph.trace import Handle, computed, exports, materialize
from calor.specs import spec

if TYPE_CHECKING:
    from calor.tensor.tensor import Tensor

HOST: Final = 1
# Type codes of the types that NumPy does not exchange.
_CODES: Final[dict[DType, int]] = {
    dtypes.bfloat16: 4,
    dtypes.float8_e4m3fn: 10,
    dtypes.float8_e5m2: 12,
}
_UNSIGNED: Final = 1
_READ_ONLY: Final = 1  # The flag of DLPack 1.0.


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


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes, _is_valid.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_int
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p


def _type_in(capsule: Any) -> _Type:
    """Return the type field inside an unused capsule, to read or to put right."""
    if _is_valid(capsule, b"dltensor_versioned"):
        kind: Any = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned")).tensor.dtype
    else:
        kind = _Tensor.from_address(_pointer(capsule, b"dltensor")).dtype
    found: _Type = kind
    return found


class Exchange(Handle):
    """The DLPack protocol of tensors."""

    __slots__ = ()

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a capsule: read-only and shared for DLPack 1.0, a copy for older consumers.

        With ``copy=False`` an older consumer shares the memory too, and must not write to it.
        Raises ExchangeError where ``copy=False`` cannot be kept, or ``dl_device`` is elsewhere.
        """
        device = self._value.device
        home = self.__dlpack_device__()
        moves = dl_device is not None and tuple(dl_device) != home
        if moves and dl_device[0] != HOST:  # type: ignore[index]
            raise ExchangeError(
                f"a tensor on {device.name} cannot be exported to device {dl_device}"
            )
        shares = bool(device.info.feature("dlpack"))
        old = max_version is None or max_version[0] < 1
        if copy is False and (moves or not shares):
            raise ExchangeError(
                f"a tensor on {device.name} is exported without a copy only on its own device, "
                f"and only by a device that exchanges buffers through DLPack"
            )
        copies = (old and copy is None) or bool(copy)
        if home[0] != HOST and not moves:
            return self._export_there(copies, stream, max_version)
        if shares and not (moves or copies or self._value.spec.dtype in _CODES):
            exports.count += 1
            options = {"stream": stream, "max_version": max_version}
            return device.backend.dlpack(
                device.index, materialize(self._value), self._value.spec, **options
            )
        return self._export_host(bool(copy) or (old and copy is None), max_version)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the DLPack device type and number."""
        device = self._value.device
        return device.backend.dlpack_device(device.index)

    def _export_there(self, copy: bool, stream: Any, max_version: tuple[int, int] | None) -> Any:
        """Return a capsule of memory that is not the host's, read-only where it is shared."""
        device, found = self._value.device, self._value.spec
        backend, buffer = device.backend, materialize(self._value)
        exports.count += 1
        if copy:
            buffer = backend.copy(device.index, buffer, found, device.index)
        bits = dtypes.as_dtype(f"uint{8 * found.dtype.itemsize}")
        plain = spec(found.shape, bits) if found.dtype in _CODES else found
        options = {"stream": stream, "max_version": max_version}
        capsule = backend.dlpack(device.index, buffer, plain, **options)
        if found.dtype in _CODES:
            _type_in(capsule).code = _CODES[found.dtype]
        if not copy and _is_valid(capsule, b"dltensor_versioned"):
            _Versioned.from_address(_pointer(capsule, b"dltensor_versioned")).flags |= _READ_ONLY
        return capsule

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory of a tensor on a CUDA device, as Numba's protocol says it; read-only."""
        device = self._value.device
        # A device of the host answers without computing anything.
        found = None
        if device.backend.dlpack_device(device.index)[0] != HOST:
            exports.count += 1
            value, spec_ = materialize(self._value), self._value.spec
            found = device.backend.cuda_array_interface(device.index, value, spec_)
        if found is None:
            raise AttributeError(f"a tensor on {device.name} has no __cuda_array_interface__")
        return found

    def _export_host(self, copy: bool, max_version: tuple[int, int] | None) -> Any:
        array = self.numpy(copy=copy)  # type: ignore[attr-defined]
        dtype = self._value.spec.dtype
        if dtype not in _CODES:
            return array.__dlpack__(max_version=max_version)
        raw = array.view(np.dtype(f"u{dtype.itemsize}"))
        capsule = raw.__dlpack__(max_version=max_version)
        _type_in(capsule).code = _CODES[dtype]
        return capsule


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a tensor with the elements of a foreign array; see :func:`calor.from_dlpack`."""
    target = current_device() if device is None else as_device(device)
    if isinstance(x, Handle):
        from calor.functions.creation import asarray

        if copy is False and device is not None and target is not x._value.device:
            raise ExchangeError(
                f"from_dlpack: copy=False cannot bring a tensor from {x._value.device.name} to "
                f"{target.name}; pass copy=None"
            )
        return asarray(x, device=device, copy=copy)
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
    kind = _type_in(capsule)
    coded = {code: dtype for dtype, code in _CODES.items()}.get(kind.code)
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
