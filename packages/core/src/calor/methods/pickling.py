"""Pickling and copying tensors.

Requirements: elements travel as host bytes; a tensor comes back on its device when this machine
has it, else on the default device. History does not travel, so a tensor that has one says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.device_selection import as_device, current_device
from calor.dtypes import DType
from calor.errors import DeviceError, GradientError, PluginError
from calor.functions.creation import asarray
from calor.recording.records import Leaf
from calor.tensor.tensor import Tensor, with_methods
from calor.tensor.values import Handle


@with_methods
class Pickling(Tensor):
    """The pickle and copy protocols of tensors."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        leaf = _is_leaf(self, "pickled")
        spec, device = self._value.spec, self._value.device
        array = self.numpy()
        if array.dtype.type.__module__ != "numpy":
            # The bytes of a type that is not NumPy's own: readers need no package for them.
            array = array.view(f"u{spec.dtype.itemsize}")
        return _restore, (array, spec.dtype, device.name, leaf)

    def __copy__(self) -> Tensor:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        leaf = _is_leaf(self, "copied deeply")
        made = memo[id(self)] = self.detach()
        if leaf:
            made.requires_grad_()
        if self._grad is not None:
            made.grad = self._grad.__deepcopy__(memo)
        return made


def _is_leaf(x: Handle, what: str) -> bool:
    if x._record is not None and type(x._record) is not Leaf:
        raise GradientError(
            f"a tensor that is computed from others that require gradients cannot be {what}: its "
            f"history stays behind; use x.detach()"
        )
    return x._record is not None


def _restore(array: np.ndarray[Any, Any], dtype: DType, device: str, leaf: bool) -> Tensor:
    try:
        target = as_device(device)
    except (DeviceError, PluginError):
        target = current_device()
    made = asarray(array.view(dtype.numpy), device=target)
    return made.requires_grad_() if leaf else made
