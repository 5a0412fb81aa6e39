"""Comparisons, truth values and bits."""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor_onnx.call import Call
from calor_onnx.computing import binary, like, unary
from calor_onnx.errors import ModelError
from calor_onnx.registry import operator
from calor_onnx.types import STRING

binary("Less", calor.less)
binary("Greater", calor.greater)
binary("And", calor.logical_and)
binary("Or", calor.logical_or)
binary("Xor", calor.logical_xor)
binary("LessOrEqual", calor.less_equal)
binary("GreaterOrEqual", calor.greater_equal)
binary("BitwiseAnd", calor.bitwise_and)
binary("BitwiseOr", calor.bitwise_or)
binary("BitwiseXor", calor.bitwise_xor)
binary("Equal", calor.equal, newer=7)
unary("Not", calor.logical_not)
unary("BitwiseNot", calor.bitwise_invert)


@operator("Equal", since=19, raw=True)
def equal(call: Call, a: Any, b: Any) -> Any:
    """Whether elements are equal; texts are compared at the host."""
    if call.dtype_of(a) == STRING:
        return np.equal(call.host(a), call.host(b)).astype(np.bool_)
    if call.is_host(a) and call.is_host(b):
        return np.equal(a, b)
    return calor.equal(call.tensor(a), call.tensor(b))


@operator("BitShift", since=11)
def bit_shift(call: Call, x: Any, count: Any, *, direction: str) -> Any:
    """The bits moved; counts outside of the type's bits leave what the sign alone gives."""
    if direction not in ("LEFT", "RIGHT"):
        raise ModelError(f"BitShift: direction is {direction!r}; it must be LEFT or RIGHT")
    bits = x.dtype.itemsize * 8
    inside = calor.less(count, bits)
    if count.dtype.kind == "int":
        inside = calor.logical_and(inside, calor.greater_equal(count, 0))
    count = calor.where(inside, count, 0)
    if direction == "LEFT":
        moved = calor.bitwise_left_shift(x, count)
        return calor.where(inside, moved, 0)
    moved = calor.bitwise_right_shift(x, count)
    if x.dtype.kind == "uint":
        return calor.where(inside, moved, 0)
    return calor.where(inside, moved, calor.negative(like(calor.less(x, 0), x)))
