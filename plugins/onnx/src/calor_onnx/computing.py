"""Helpers of several families of operators: constants, half types, broadcasting before opset 7."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import calor
from calor import Tensor
from calor.device_selection import as_device
from calor.dtypes import DType, float32
from calor.errors import ShapeError
from calor.ops.sources import HostArray
from calor.ops.sources import constant as constant_op
from calor_onnx.call import Call
from calor_onnx.registry import operator

Array = np.ndarray[Any, Any]


def constant(array: Any, device: Any) -> Tensor:
    """Return a host array as a constant of the graph. It may depend on sizes and attributes only.

    >>> import numpy as np
    >>> from calor_onnx.computing import constant
    >>> constant(np.arange(2.0), "numpy").tolist()
    [0.0, 1.0]
    """
    with as_device(device):
        made: Tensor = constant_op(array=HostArray.of(np.asarray(array)), weak=False)
    return made


def wide(x: Any) -> Any:
    """Return a tensor of a half type as float32, any other unchanged."""
    return calor.astype(x, float32) if x.dtype.kind == "float" and x.dtype.itemsize == 2 else x


def like(x: Any, other: Any) -> Any:
    """Return x in the dtype of another tensor, or in a dtype."""
    dtype = other if isinstance(other, DType) else other.dtype
    return x if x.dtype is dtype else calor.astype(x, dtype)


def aligned(a: Any, b: Any, axis: int | None) -> Any:
    """Return b broadcast to a as before opset 7: its axes begin at ``axis``."""
    if axis is None:
        return b
    axis %= max(a.ndim, 1)
    after = a.ndim - axis - b.ndim
    if after < 0:
        raise ShapeError(f"an operand of shape {b.shape} at axis {axis} does not fit {a.shape}")
    return calor.reshape(b, (*b.shape, *(1,) * after))


def binary(name: str, function: Callable[[Any, Any], Any], newer: int = 7) -> None:
    """Register an operator of two operands; before opset 7 attributes control broadcasting."""

    def old(
        call: Call, a: Any, b: Any, *, axis: int | None = None, broadcast: int = 0,
        consumed_inputs: Any = None,
    ) -> Any:  # fmt: skip
        return function(a, aligned(a, b, axis) if broadcast else b)

    operator(name)(old)
    operator(name, since=newer)(lambda call, a, b: function(a, b))


def unary(name: str, function: Callable[[Any], Any]) -> None:
    """Register an operator of one operand whose attributes have no effect."""

    def made(call: Call, x: Any, *, consumed_inputs: Any = None) -> Any:
        return function(x)

    operator(name)(made)
