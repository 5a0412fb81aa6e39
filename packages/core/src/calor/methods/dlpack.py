"""Handing tensors to other frameworks by DLPack.

Requirements: no tensor aliases memory that somebody else can write. An export is read-only where
the consumer understands that (DLPack 1.0 and later) and a copy where it does not.

Source: the DLPack specification, https://dmlc.github.io/dlpack/latest/c_api.html
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor import dtypes
from calor.errors import ExchangeError
from calor.functions.dlpack import CODES, HOST, READ_ONLY, Versioned, is_valid, pointer, type_in
from calor.recording.trace import exports, materialize
from calor.specs import spec
from calor.tensor.tensor import Tensor, with_methods


@with_methods
class Exchange(Tensor):
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
        coded = self._value.spec.dtype in CODES
        if not shares or moves or copies or (coded and not old):
            return self._export_host(copies, max_version)
        try:
            if coded:
                raise BufferError(f"{self._value.spec.dtype.name} has no code in NumPy")
            return self._export_there(False, stream, max_version)
        except BufferError as error:
            # For a consumer that might write: memory of somebody else that may not be written to.
            raise ExchangeError(
                f"a tensor on {device.name} cannot be exported without a copy: {error}; "
                f"pass copy=None"
            ) from None

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the DLPack device type and number."""
        device = self._value.device
        return device.backend.dlpack_device(device.index)

    def _export_there(self, copy: bool, stream: Any, max_version: tuple[int, int] | None) -> Any:
        """Return a capsule of the device's memory, read-only where it is shared."""
        device, found = self._value.device, self._value.spec
        backend, buffer = device.backend, materialize(self._value)
        exports.count += 1
        if copy:
            buffer = backend.copy(device.index, buffer, found, device.index)
        plain = found
        if found.dtype in CODES:
            plain = spec(found.shape, dtypes.as_dtype(f"uint{8 * found.dtype.itemsize}"))
        options = {"stream": stream, "max_version": max_version}
        capsule = backend.dlpack(device.index, buffer, plain, **options)
        if found.dtype in CODES:
            type_in(capsule).code = CODES[found.dtype]
        if not copy and is_valid(capsule, b"dltensor_versioned"):
            Versioned.from_address(pointer(capsule, b"dltensor_versioned")).flags |= READ_ONLY
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
        array = self.numpy(copy=copy)
        dtype = self._value.spec.dtype
        if dtype not in CODES:
            return array.__dlpack__(max_version=max_version)
        raw = array.view(np.dtype(f"u{dtype.itemsize}"))
        capsule = raw.__dlpack__(max_version=max_version)
        type_in(capsule).code = CODES[dtype]
        return capsule
