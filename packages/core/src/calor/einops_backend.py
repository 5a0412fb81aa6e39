"""calor as a backend of einops: what ``rearrange``, ``reduce``, ``repeat`` and ``einsum`` call.

Requirements: einops finds a backend by its class, once the package named ``framework_name`` is
imported. It is imported with einops (:mod:`calor.companions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from einops._backends import AbstractBackend

from calor.functions import creation, joining, manipulation, ranges, repeating
from calor.functions.linear_algebra_einsum import einsum
from calor.tensor.tensor import Tensor


class CalorBackend(AbstractBackend):  # type: ignore[misc]
    """einops's operations on tensors; results stay on their device, and gradients flow."""

    framework_name = "calor"

    def is_appropriate_type(self, tensor: Any) -> bool:
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: np.ndarray[Any, Any]) -> Tensor:
        # As einops's backend of PyTorch does: its tests take gradients of what they make.
        return creation.asarray(x, requires_grad=x.dtype.kind == "f")

    def to_numpy(self, x: Tensor) -> np.ndarray[Any, Any]:
        return x.numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        return ranges.arange(start, stop)

    def reduce(self, x: Tensor, operation: str, axes: Sequence[int]) -> Tensor:
        made: Tensor = getattr(x, operation)(axis=tuple(axes))
        return made

    def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
        return joining.stack(tensors)

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        return manipulation.expand_dims(x, axis=new_position)

    def tile(self, x: Tensor, repeats: Sequence[int]) -> Tensor:
        return repeating.tile(x, tuple(repeats))

    def concat(self, tensors: list[Tensor], axis: int) -> Tensor:
        return joining.concat(tensors, axis=axis)

    def is_float_type(self, x: Tensor) -> bool:
        return x.dtype.is_floating

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        return einsum(pattern, *x)
