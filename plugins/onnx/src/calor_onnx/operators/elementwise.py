"""Arithmetic, one element at a time."""

from __future__ import annotations

from typing import Any

import calor
from calor_onnx.call import Call
from calor_onnx.registry import operator


@operator("Add", since=7)
def add(call: Call, a: Any, b: Any) -> Any:
    """The sum, broadcast."""
    return calor.add(a, b)


@operator("Sub", since=7)
def sub(call: Call, a: Any, b: Any) -> Any:
    """The difference, broadcast."""
    return calor.subtract(a, b)


@operator("Mul", since=7)
def mul(call: Call, a: Any, b: Any) -> Any:
    """The product, broadcast."""
    return calor.multiply(a, b)


@operator("Exp")
def exp(call: Call, x: Any) -> Any:
    """The exponential."""
    return calor.exp(x)


@operator("Less", since=7)
def less(call: Call, a: Any, b: Any) -> Any:
    """Whether a < b, broadcast."""
    return calor.less(a, b)
