"""Roots, exponentials, logarithms, circular and hyperbolic functions, special functions.

Integers and booleans are computed in the default floating type.
"""

from __future__ import annotations

from calor.functions.operands import pair, single
from calor.ops import elementwise as e
from calor.tensor.tensor import Operand, Tensor


def sqrt(x: Operand, /) -> Tensor:
    """Return the square root; NaN for negative real numbers.

    >>> import calor
    >>> calor.sqrt(calor.asarray([4.0, 9.0])).tolist()
    [2.0, 3.0]
    """
    return single(e.sqrt, x)


def exp(x: Operand, /) -> Tensor:
    """Return e to the power of each element.

    >>> import calor
    >>> calor.exp(calor.asarray([0.0])).tolist()
    [1.0]
    """
    return single(e.exp, x)


def exp2(x: Operand, /) -> Tensor:
    """Return 2 to the power of each element, of real tensors.

    >>> import calor
    >>> calor.exp2(calor.asarray([3.0, -1.0])).tolist()
    [8.0, 0.5]
    """
    return single(e.exp2, x)


def expm1(x: Operand, /) -> Tensor:
    """Return exp(x) − 1, accurate near 0.

    >>> import calor
    >>> calor.expm1(calor.asarray([0.0])).tolist()
    [0.0]
    """
    return single(e.expm1, x)


def log(x: Operand, /) -> Tensor:
    """Return the natural logarithm; −inf at 0, NaN for negative real numbers.

    >>> import calor
    >>> calor.log(calor.asarray([1.0, 0.0])).tolist()
    [0.0, -inf]
    """
    return single(e.log, x)


def log2(x: Operand, /) -> Tensor:
    """Return the logarithm to base 2.

    >>> import calor
    >>> calor.log2(calor.asarray([8.0])).tolist()
    [3.0]
    """
    return single(e.log2, x)


def log10(x: Operand, /) -> Tensor:
    """Return the logarithm to base 10.

    >>> import calor
    >>> calor.log10(calor.asarray([1000.0], dtype="float64")).tolist()
    [3.0]
    """
    return single(e.log10, x)


def log1p(x: Operand, /) -> Tensor:
    """Return log(1 + x), accurate near 0.

    >>> import calor
    >>> calor.log1p(calor.asarray([0.0, -1.0])).tolist()
    [0.0, -inf]
    """
    return single(e.log1p, x)


def logaddexp(x1: Operand, x2: Operand, /) -> Tensor:
    """Return log(exp(x1) + exp(x2)) without overflow, of real tensors.

    >>> import calor
    >>> calor.logaddexp(calor.asarray([0.0]), -calor.inf).tolist()
    [0.0]
    """
    return pair(e.logaddexp, x1, x2)


def sin(x: Operand, /) -> Tensor:
    """Return the sine of angles in radians.

    >>> import calor
    >>> calor.sin(calor.asarray([0.0])).tolist()
    [0.0]
    """
    return single(e.sin, x)


def cos(x: Operand, /) -> Tensor:
    """Return the cosine of angles in radians.

    >>> import calor
    >>> calor.cos(calor.asarray([0.0])).tolist()
    [1.0]
    """
    return single(e.cos, x)


def tan(x: Operand, /) -> Tensor:
    """Return the tangent of angles in radians.

    >>> import calor
    >>> calor.tan(calor.asarray([0.0])).tolist()
    [0.0]
    """
    return single(e.tan, x)


def asin(x: Operand, /) -> Tensor:
    """Return the angle in [−π/2, π/2] whose sine is x; NaN for real numbers outside [−1, 1].

    >>> import calor
    >>> calor.asin(calor.asarray([0.0])).tolist()
    [0.0]
    """
    return single(e.asin, x)


def acos(x: Operand, /) -> Tensor:
    """Return the angle in [0, π] whose cosine is x; NaN for real numbers outside [−1, 1].

    >>> import calor
    >>> calor.acos(calor.asarray([1.0])).tolist()
    [0.0]
    """
    return single(e.acos, x)


def atan(x: Operand, /) -> Tensor:
    """Return the angle in [−π/2, π/2] whose tangent is x.

    >>> import calor
    >>> calor.atan(calor.asarray([0.0])).tolist()
    [0.0]
    """
    return single(e.atan, x)


def atan2(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the angle in [−π, π] of the points (x2, x1), the quadrant chosen by both signs.

    >>> import calor
    >>> calor.atan2(calor.asarray([0.0]), 1.0).tolist()
    [0.0]
    """
    return pair(e.atan2, x1, x2)


def sinh(x: Operand, /) -> Tensor:
    """Return the hyperbolic sine.

    >>> import calor
    >>> calor.sinh(calor.asarray([0.0])).tolist()
    [0.0]
    """
    return single(e.sinh, x)


def cosh(x: Operand, /) -> Tensor:
    """Return the hyperbolic cosine.

    >>> import calor
    >>> calor.cosh(calor.asarray([0.0])).tolist()
    [1.0]
    """
    return single(e.cosh, x)


def tanh(x: Operand, /) -> Tensor:
    """Return the hyperbolic tangent.

    >>> import calor
    >>> calor.tanh(calor.asarray([0.0, calor.inf])).tolist()
    [0.0, 1.0]
    """
    return single(e.tanh, x)


def asinh(x: Operand, /) -> Tensor:
    """Return the inverse hyperbolic sine.

    >>> import calor
    >>> calor.asinh(calor.asarray([0.0])).tolist()
    [0.0]
    """
    return single(e.asinh, x)


def acosh(x: Operand, /) -> Tensor:
    """Return the inverse hyperbolic cosine; NaN for real numbers below 1.

    >>> import calor
    >>> calor.acosh(calor.asarray([1.0])).tolist()
    [0.0]
    """
    return single(e.acosh, x)


def atanh(x: Operand, /) -> Tensor:
    """Return the inverse hyperbolic tangent; NaN for real numbers outside [−1, 1].

    >>> import calor
    >>> calor.atanh(calor.asarray([0.0, 1.0])).tolist()
    [0.0, inf]
    """
    return single(e.atanh, x)


def erf(x: Operand, /) -> Tensor:
    """Return the error function 2/√π ∫₀ˣ exp(−t²) dt, of real tensors.

    >>> import calor
    >>> calor.erf(calor.asarray([0.0, calor.inf])).tolist()
    [0.0, 1.0]
    """
    return single(e.erf, x)


def erfinv(x: Operand, /) -> Tensor:
    """Return the number whose error function is x; NaN outside [−1, 1].

    >>> import calor
    >>> calor.erfinv(calor.asarray([0.0, 1.0])).tolist()
    [0.0, inf]
    """
    return single(e.erfinv, x)


def lgamma(x: Operand, /) -> Tensor:
    """Return log |Γ(x)|, of real tensors.

    >>> import calor
    >>> calor.lgamma(calor.asarray([0.0, calor.inf])).tolist()
    [inf, inf]
    """
    return single(e.lgamma, x)


def digamma(x: Operand, /) -> Tensor:
    """Return the derivative of log Γ(x), of real tensors; NaN at negative integers.

    >>> import calor
    >>> calor.digamma(calor.asarray([calor.inf])).tolist()
    [inf]
    """
    return single(e.digamma, x)
