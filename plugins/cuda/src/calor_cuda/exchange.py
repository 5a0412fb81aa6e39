"""Memory of a GPU as other libraries see it, and theirs: DLPack and Numba's array interface.

Requirements: no copy where the memory lies as asked; who reads waits for who wrote, on the device
and not on the host, by the streams that both sides name; CuPy, which knows every version of both
protocols, is imported when somebody exchanges something.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from calor.dtypes import as_dtype, bool_
from calor.errors import ExchangeError
from calor.specs import Spec, spec
from calor_kernel.runtime.device import Exchange

_CUDA: Final = 2  # The device type of DLPack.


class CudaExchange(Exchange):
    """What is exchanged with the stream of a device."""

    def __init__(self, number: int, stream: int) -> None:
        self.place = (_CUDA, number)
        self.stream = stream

    def dlpack(self, handle: int, spec: Spec, owner: Any, **options: Any) -> Any:
        """Return CuPy's capsule; the consumer's stream, if it names one, waits for ours."""
        import cupy

        number = self.place[1]
        memory = cupy.cuda.UnownedMemory(handle, max(spec.nbytes, 1), owner, number)
        pointer = cupy.cuda.MemoryPointer(memory, 0)
        with cupy.cuda.Device(number), cupy.cuda.ExternalStream(self.stream, number):
            array = cupy.ndarray(spec.shape, spec.dtype.numpy, pointer)
            return array.__dlpack__(**options)

    def take(self, array: Any, copy: bool) -> tuple[int, Spec, Any]:
        """Return address, spec and owner; our stream waits for the producer's."""
        import cupy

        number = self.place[1]
        with cupy.cuda.Device(number), cupy.cuda.ExternalStream(self.stream, number):
            found = cupy.from_dlpack(array)
            if not found.flags.c_contiguous:
                if not copy:
                    raise ExchangeError(
                        "from_dlpack: copy=False needs dense row-major memory; pass copy=None"
                    )
                found = cupy.ascontiguousarray(found)
        return int(found.data.ptr), spec(found.shape, as_dtype(found.dtype)), found

    def cuda_array_interface(self, handle: int, spec: Spec) -> dict[str, Any]:
        """Return version 3 of the interface: consumers order themselves after the stream."""
        dtype = np.dtype(bool) if spec.dtype is bool_ else np.dtype(spec.dtype.numpy)
        return {
            "shape": spec.shape,
            "typestr": dtype.str,
            "data": (handle, True),
            "strides": None,
            "stream": self.stream,
            "version": 3,
        }
