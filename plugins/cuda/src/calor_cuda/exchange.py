"""Memory of an NVIDIA GPU for other libraries: DLPack, and Numba's array interface."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from calor.dtypes import bool_
from calor.specs import Spec
from calor_cuda.pycuda_capsules import CapsuleExchange
from calor_cupy.driver.exchange import CupyExchange

CUDA: Final = 2  # The device type of DLPack.


class ByCupy(CupyExchange):
    """Exchange by CuPy's capsules."""

    def cuda_array_interface(self, handle: int, spec: Spec) -> dict[str, Any]:
        """Return version 3 of the interface."""
        return _interface(handle, spec, self.stream.stream)


class ByCapsules(CapsuleExchange):
    """Exchange without CuPy."""

    def cuda_array_interface(self, handle: int, spec: Spec) -> dict[str, Any]:
        """Return version 3 of the interface."""
        return _interface(handle, spec, self.stream)


def _interface(handle: int, spec: Spec, stream: int) -> dict[str, Any]:
    """Return the array interface; consumers order their work after the stream."""
    dtype = np.dtype(bool) if spec.dtype is bool_ else np.dtype(spec.dtype.numpy)
    said = {"shape": spec.shape, "typestr": dtype.str, "data": (handle, True), "strides": None}
    return {**said, "stream": stream, "version": 3}
