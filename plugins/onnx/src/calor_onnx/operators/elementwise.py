"""Arithmetic and mathematical functions, one element at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import calor
from calor.errors import DTypeError
from calor_onnx.call import Call
from calor_onnx.computing import binary, like, unary, wide
from calor_onnx.errors import ModelError
from calor_onnx.registry import operator


def divided(a: Any, b: Any) -> Any:
    """Return a / b; integers are divided as C does, rounded towards 0."""
    if not a.dtype.is_integer:
        return calor.divide(a, b)
    quotient = calor.floor_divide(a, b)
    if a.dtype.kind == "uint":
        return quotient
    inexact = calor.not_equal(calor.multiply(quotient, b), a)
    below = calor.logical_and(inexact, calor.less(quotient, 0))
    return calor.add(quotient, like(below, quotient))


def powered(a: Any, b: Any) -> Any:
    """Return a to the power of b, in the type of a; a wide type computes where both differ."""
    if a.dtype is b.dtype:
        return calor.pow(a, b)
    return like(calor.pow(a, b), a)


binary("Add", calor.add)
binary("Sub", calor.subtract)
binary("Mul", calor.multiply)
binary("Div", divided)
binary("Pow", powered)


@operator("Mod", since=10)
def mod(call: Call, a: Any, b: Any, *, fmod: int = 0) -> Any:
    """The remainder: with the sign of b, or of a with ``fmod``."""
    if fmod:
        return calor.fmod(a, b)
    return like(calor.remainder(wide(a), wide(b)), a)


def _folded(name: str, function: Callable[[Any, Any], Any], mean: bool = False) -> None:
    """Register an operator of one operand or more."""

    def made(call: Call, *xs: Any, consumed_inputs: Any = None) -> Any:
        if not xs:
            raise ModelError(f"{name} needs an operand")
        result = xs[0]
        for x in xs[1:]:
            result = function(result, x)
        return calor.divide(result, len(xs)) if mean else result

    operator(name)(made)


_folded("Max", calor.maximum)
_folded("Min", calor.minimum)
_folded("Sum", calor.add)
_folded("Mean", calor.add, mean=True)

for _name, _function in {
    "Abs": calor.abs,
    "Neg": calor.negative,
    "Sign": calor.sign,
    "Reciprocal": calor.reciprocal,
    "Floor": calor.floor,
    "Ceil": calor.ceil,
    "Round": calor.round,
    "Sqrt": calor.sqrt,
    "Exp": calor.exp,
    "Log": calor.log,
    "Erf": calor.erf,
    "Sin": calor.sin,
    "Cos": calor.cos,
    "Tan": calor.tan,
    "Asin": calor.asin,
    "Acos": calor.acos,
    "Atan": calor.atan,
    "Sinh": calor.sinh,
    "Cosh": calor.cosh,
    "Tanh": calor.tanh,
    "Asinh": calor.asinh,
    "Acosh": calor.acosh,
    "Atanh": calor.atanh,
    "IsNaN": calor.isnan,
}.items():
    unary(_name, _function)


@operator("IsInf", since=10)
def is_inf(call: Call, x: Any, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    """Whether an element is infinite, of the signs that are asked for."""
    if x.dtype.kind == "storage":
        x = calor.astype(x, calor.float32)
    found = calor.isinf(x)
    if not detect_negative:
        found = calor.logical_and(found, calor.greater(x, 0))
    if not detect_positive:
        found = calor.logical_and(found, calor.less(x, 0))
    return found


def bounded(x: Any, low: Any, high: Any) -> Any:
    """Return x within bounds; NaN stays, and of crossed bounds the upper one counts."""
    if low is not None:
        x = calor.maximum(x, low)
    return x if high is None else calor.minimum(x, high)


@operator("Clip", since=11)
def clip(call: Call, x: Any, low: Any = None, high: Any = None) -> Any:
    """The elements within bounds that are inputs."""
    return bounded(x, low, high)


@operator("Clip")
def clip_1(
    call: Call, x: Any, *, min: float | None = None, max: float | None = None,
    consumed_inputs: Any = None,
) -> Any:  # fmt: skip
    """The elements within bounds that are attributes."""
    return bounded(x, min, max)


@operator("Affine")
def affine(call: Call, x: Any, *, alpha: float = 1.0, beta: float = 0.0) -> Any:
    """alpha · x + beta, an operator that files of the first opsets have."""
    if x.dtype.kind != "float":
        raise DTypeError("Affine computes with floating numbers")
    return calor.add(calor.multiply(x, alpha), beta)
