"""The complementary error function and the normal distribution function, with their scaled forms.

Requirements: relative accuracy in the tails, where 1 − erf(x) has no digits left: there each is
exp(−x²) times the scaled function, one polynomial for all x ≥ 0, and the square is split so that
its rounding does not show (W. J. Cody, "Rational Chebyshev approximations for the error function",
Mathematics of Computation 23, 1969).
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

import math
from typing import Any

from calor.dtypes import float32
from calor.functions.rows import elementwise, polynomial
from calor.ops import elementwise as e
from calor.ops import rules
from calor.ops.base import Check
from calor.ops.movement import fill
from calor.reference import error_functions as reference
from calor.tensor.tensor import Operand, Tensor

__all__ = ["erfc", "erfcx", "log_ndtr", "ndtr"]

_ROOT_HALF = math.sqrt(0.5)
_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
_DENSITY = 1 / math.sqrt(2 * math.pi)
# (−1)ⁿ (2n − 1)!! / 2ⁿ for n from 1 on: the terms of √π · x · exp(x²) erfc(x) − 1 in 1/x².
_ASYMPTOTIC = tuple(math.prod(range(1, 2 * n, 2)) * (-0.5) ** n for n in range(1, 13))


def _at_most(x: Any, limit: float) -> Any:
    return e.minimum(x, fill(x, limit))


def _scaled(x: Any) -> Any:
    """Return exp(x²) · erfc(x) for x ≥ 0."""
    near = _at_most(x, reference.FAR)
    short = x.dtype is float32
    table = reference.ERFCX_FLOAT32 if short else reference.ERFCX
    return polynomial((near - 3) / (near + 3), table) / (x + 0.5)


def _power(x: Any, factor: float) -> Any:
    """Return exp(factor · x²); the square of the leading digits is exact."""
    lead = e.floor(x * 64) * (1 / 64)
    return e.exp(lead * lead * factor) * e.exp((x - lead) * (x + lead) * factor)


def _tail(x: Any, factor: float) -> Any:
    """Return exp(−factor · x²) · erfcx(√factor · x) for x ≥ 0."""
    inside = _at_most(x, reference.END)
    return _power(inside, -factor) * _scaled(inside * math.sqrt(factor))


def _erfc(x: Any) -> Any:
    return e.where(x > 0.5, _tail(e.abs(x), 1.0), 1 - e.erf(x))


def _erfcx(x: Any) -> Any:
    size = e.abs(x)
    positive = _scaled(size)
    # No infinite power is in the branch that is not taken, for gradients' sake.
    inside = e.where(x < 0, _at_most(size, reference.END), fill(x, 0))
    return e.where(x < 0, _power(inside, 1.0) * 2 - positive, positive)


def _erfcx_slope(y: Any, x: Any) -> Any:
    # 2 x y − 2/√π, whose terms cancel for large x; there it is a series in 1/x².
    far = x > 8
    safe = 1 / e.where(far, x, fill(x, 8))
    square = safe * safe
    series = polynomial(square, _ASYMPTOTIC) * square * _TWO_OVER_ROOT_PI
    nothing = fill(x, 0)
    return e.where(
        far, series, e.where(far, nothing, x) * e.where(far, nothing, y) * 2 - _TWO_OVER_ROOT_PI
    )


def _ndtr(x: Any) -> Any:
    size = e.abs(x)
    tail = _tail(size, 0.5) * 0.5
    outer = e.where(x < 0, tail, 1 - tail)
    return e.where(size > 0.7, outer, e.erf(x * _ROOT_HALF) * 0.5 + 0.5)


def _log_ndtr(x: Any) -> Any:
    low = x < -1
    size = e.where(low, e.abs(x), fill(x, 1))
    left = e.log(_scaled(size * _ROOT_HALF) * 0.5) - (size * 0.5) * size
    return e.where(low, left, e.log1p(-ndtr(-e.where(low, fill(x, 0), x))))


@elementwise(
    rules.real_floats,
    _erfc,
    reference=reference.erfc,
    derivatives=(lambda y, x: e.exp(-(x * x)) * -_TWO_OVER_ROOT_PI,),
    saves=("0",),
    checks=(Check(((-3, 3),)), Check(((2, 9),), 6, name="tail")),
    method=True,
)
def erfc(x: Operand, /) -> Tensor:
    """Return 1 − erf(x), the complementary error function, accurate where it is close to 0.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.

    Returns
    -------
    Tensor
        Values in [0, 2]; the shape of ``x``; its dtype if that is floating, else float32.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.erfc(calor.asarray([0.0, calor.inf])).tolist()
    [1.0, 0.0]
    """


@elementwise(
    rules.real_floats,
    _erfcx,
    reference=reference.erfcx,
    derivatives=(_erfcx_slope,),
    saves=("0y",),
    checks=(Check(((-3, 3),), 6), Check(((3, 100),), name="large")),
)
def erfcx(x: Operand, /) -> Tensor:
    """Return exp(x²) · erfc(x), the scaled complementary error function.

    It is close to 1 / (√π · x) for large x, where erfc is 0.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. It overflows to infinity
        below −9.4 in float32 and −26.6 in float64.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.erfcx(calor.asarray([0.0, calor.inf, -calor.inf])).tolist()
    [1.0, 0.0, inf]
    """


@elementwise(
    rules.real_floats,
    _ndtr,
    reference=reference.ndtr,
    derivatives=(lambda y, x: e.exp(x * x * -0.5) * _DENSITY,),
    saves=("0",),
    checks=(Check(((-3, 3),)), Check(((-12, -2),), 6, name="tail")),
)
def ndtr(x: Operand, /) -> Tensor:
    """Return the probability that a standard normal number is below x.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.

    Returns
    -------
    Tensor
        Values in [0, 1]; the shape of ``x``; its dtype if that is floating, else float32.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    See Also
    --------
    log_ndtr : Its logarithm, which does not underflow.

    Examples
    --------
    >>> import calor
    >>> calor.ndtr(calor.asarray([-calor.inf, 0.0])).tolist()
    [0.0, 0.5]
    """


@elementwise(
    rules.real_floats,
    _log_ndtr,
    reference=reference.log_ndtr,
    # The density over the probability; the scaled function holds both tails.
    derivatives=(lambda y, x: math.sqrt(2 / math.pi) / erfcx(x * -_ROOT_HALF),),
    saves=("0",),
    checks=(Check(((-3, 3),)), Check(((-100, -2),), name="tail")),
)
def log_ndtr(x: Operand, /) -> Tensor:
    """Return the logarithm of the probability that a standard normal number is below x.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.

    Returns
    -------
    Tensor
        Values of at most 0; the shape of ``x``; its dtype if that is floating, else float32.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.log_ndtr(calor.asarray(-100.0)).item()
    -5005.5244140625
    """
