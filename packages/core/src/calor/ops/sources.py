"""Rows of the ops without operands: numbers, ramps and host arrays that belong to a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calor.dtypes import DType, as_dtype
from calor.errors import ArgumentError
from calor.ops.base import Op, Scalar, op
from calor.specs import Spec, spec

_SOURCE = "it has no operands"


def _full_rule(*, value: Scalar, shape: tuple[int, ...], dtype: DType) -> Spec:
    if any(n < 0 for n in shape):
        raise ArgumentError(f"shape {shape} has a negative size")
    return spec(shape, dtype)


full: Op = op(
    "full",
    _full_rule,
    lambda *, value, shape, dtype: np.full(shape, np.frombuffer(value.bits, dtype.numpy)[0]),
    no_gradient=_SOURCE,
)
iota: Op = op(
    "iota",
    lambda *, length, dtype: spec((length,), dtype),
    lambda *, length, dtype: np.arange(length).astype(dtype.numpy),
    no_gradient=_SOURCE,
)


@dataclass(frozen=True, slots=True, repr=False)
class HostArray:
    """A host array as an op's attribute, compared by shape, dtype and bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def __repr__(self) -> str:
        return f"<{self.dtype}{list(self.shape)}, {len(self.data)} bytes>"

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The array, read-only."""
        return np.frombuffer(self.data, as_dtype(self.dtype).numpy).reshape(self.shape)

    @staticmethod
    def of(array: np.ndarray[Any, Any]) -> HostArray:
        """Return the attribute for an array."""
        return HostArray(as_dtype(array.dtype).name, array.shape, array.tobytes())


constant: Op = op(
    "constant",
    lambda *, array, weak: spec(array.shape, as_dtype(array.dtype), weak),
    lambda *, array, weak: array.array,
    no_gradient=_SOURCE,
)


def zeros_of(like: Spec, device: Any) -> Any:
    """Return a tensor of zeros of a spec on a device."""
    from calor.backends.selection import on_device

    with on_device(device):
        return full(value=Scalar.of(0, like.dtype), shape=like.shape, dtype=like.dtype)
