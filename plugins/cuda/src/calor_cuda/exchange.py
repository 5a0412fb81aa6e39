"""Memory of an NVIDIA GPU as other libraries see it: DLPack, and Numba's array interface."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from calor.dtypes import bool_
from calor.specs import Spec
from calor_kernel.runtime.cupy_driver.device import Stream
from calor_kernel.runtime.cupy_driver.exchange import CupyExchange

from .bindings import arrays

_CUDA: Final = 2  # The device type of DLPack.


class CudaExchange(CupyExchange):
    """What is exchanged with the stream of a device, which says itself which it is."""

    def __init__(self, number: int, stream: Stream) -> None:
        super().__init__((_CUDA, number), stream, arrays)

    def cuda_array_interface(self, handle: int, spec: Spec) -> dict[str, Any]:
        """Return version 3 of the interface: consumers order themselves after the stream."""
        dtype = np.dtype(bool) if spec.dtype is bool_ else np.dtype(spec.dtype.numpy)
        return {
            "shape": spec.shape,
            "typestr": dtype.str,
            "data": (handle, True),
            "strides": None,
            "stream": self.stream.stream,
            "version": 3,
        }
