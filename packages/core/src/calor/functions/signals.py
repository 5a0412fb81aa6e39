"""Functions of signal processing and of quotients, element by element."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calor.functions.rows import elementwise, polynomial
from calor.ops import elementwise as e
from calor.ops import rules
from calor.ops.base import Check
from calor.ops.movement import fill
from calor.reference import elementwise as reference
from calor.tensor.tensor import Operand, Tensor

__all__ = ["fmod", "heaviside", "lerp", "rsqrt", "sinc"]

# (−1)ᵏ 2k π²ᵏ / (2k + 1)! for k from 1 on: the Taylor series of sinc'(x) / x in x².
_SINC_SLOPE = tuple(
    (-1) ** k * 2 * k * math.pi ** (2 * k) / math.factorial(2 * k + 1) for k in range(1, 9)
)


def _complex_sinc(x: Any) -> Any:
    turned = e.where(e.equal(x, fill(x, 0)), fill(x, 1), x * math.pi)
    return e.where(e.equal(x, fill(x, 0)), fill(x, 1), e.sin(turned) / turned)


@elementwise(
    rules.real_floats,
    lambda x: 1 / e.sqrt(x),
    reference=reference.rsqrt,
    derivatives=(lambda y, x: y * y * y * -0.5,),
    saves=("y",),
    checks=(Check(((0.25, 4),), 2),),
    method=True,
    autocast="float32",
    of_complex=lambda x: 1 / e.sqrt(x),
)
def rsqrt(x: Operand, /) -> Tensor:
    """Return 1 / √x.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. Integers and booleans are computed in the default
        floating dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating or complex, else float32. inf at 0, NaN
        for negative numbers.

    Raises
    ------
    DTypeError
        If ``x`` is float8.

    Examples
    --------
    >>> import calor
    >>> calor.rsqrt(calor.asarray([4.0, 0.25])).tolist()
    [0.5, 2.0]
    """


def _fmod(a: Any, b: Any) -> Any:
    if a.dtype.kind == "float":
        return e.copysign(e.remainder(e.abs(a), e.abs(b)), a)
    # The remainder with the sign of b; one of the other sign is a step of b away.
    rest = e.remainder(a, b)
    nothing = fill(a, 0)
    crossed = e.bit_and(rest != 0, e.not_equal(e.less(rest, nothing), e.less(a, nothing)))
    return e.where(crossed, rest - b, rest)


@elementwise(
    rules.reals,
    _fmod,
    reference=reference.fmod,
    derivatives=(lambda y, a, b: 1.0, lambda y, a, b: -e.round((a - y) / b)),
    saves=("", "01y"),
    promotion="same",
    checks=(
        Check(((-9, 9), (1, 3)), 0, no_gradient="differences may step over a jump"),
        Check(((5, 5.4), (2.8, 3.2)), 0, name="between-jumps"),
    ),
    method=True,
)
def fmod(x1: Operand, x2: Operand, /) -> Tensor:
    """Return what is left of x1 after division by x2, with the sign of x1.

    Parameters
    ----------
    x1, x2 : Tensor, ndarray or number
        Shapes that broadcast; any real dtype other than bool.

    Returns
    -------
    Tensor
        The broadcast shape and common dtype, without rounding. Where x2 is 0 it is NaN, and 0 for
        integers.

    Raises
    ------
    DTypeError
        If an operand is bool, complex or float8.
    ShapeError
        If the shapes do not broadcast.

    See Also
    --------
    remainder : The same with the sign of x2.

    Examples
    --------
    >>> import calor
    >>> calor.fmod(calor.asarray([7, -7]), 4).tolist()
    [3, -3]
    """


def _heaviside(a: Any, b: Any) -> Any:
    zero = fill(a, 0)
    other = e.where(a > 0, fill(a, 1), e.where(a < 0, zero, a))
    return e.where(e.equal(a, zero), b, other)


@elementwise(
    rules.real_floats,
    _heaviside,
    reference=reference.heaviside,
    derivatives=(None, lambda y, a, b: e.cast(e.equal(a, fill(a, 0)), dtype=a.dtype)),
    saves=("", "0"),
    checks=(Check(((-3, 3), (0, 1)), 0, at_edges="x2 counts where x1 is 0 alone"),),
    method=True,
)
def heaviside(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the step function: 0 where x1 is negative, x2 where it is 0, 1 where it is positive.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Any shape; any real dtype. Integers are computed in the default floating dtype.
    x2 : Tensor, ndarray or number
        The values at 0; a shape that broadcasts with that of ``x1``.

    Returns
    -------
    Tensor
        The broadcast shape and common dtype; float32 for integers. NaN where x1 is NaN. No
        gradient flows to x1.

    Raises
    ------
    DTypeError
        If an operand is complex or float8.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.heaviside(calor.asarray([-1.5, 0.0, 2.0]), 0.5).tolist()
    [0.0, 0.5, 1.0]
    """


def _lerp(a: Any, b: Any, weight: Any) -> Any:
    gap = b - a
    rest = 1 - weight
    near = e.where(weight < 0.5, a + weight * gap, b - gap * rest)
    # Finite ends that are further apart than the largest number.
    far = e.bit_and(e.isinf(gap), e.bit_and(e.isfinite(a), e.isfinite(b)))
    return e.where(far, a * rest + b * weight, near)


@elementwise(
    rules.real_floats,
    _lerp,
    reference=reference.lerp,
    derivatives=(lambda y, a, b, w: 1 - w, lambda y, a, b, w: w, lambda y, a, b, w: b - a),
    saves=("2", "2", "01"),
    checks=(
        Check(
            ((-3, 3), (-3, 3), (0, 1)),
            scale=lambda a, b, w: np.abs(a * (1 - w)) + np.abs(b * w) + np.abs(a) + np.abs(b),
        ),
    ),
    method=True,
    of_complex=lambda x1, x2, weight: x1 + (x2 - x1) * weight,
)
def lerp(x1: Operand, x2: Operand, weight: Operand, /) -> Tensor:
    """Return x1 + weight · (x2 − x1), the linear interpolation between x1 and x2.

    Parameters
    ----------
    x1, x2 : Tensor, ndarray or number
        Start and end, of shapes that broadcast; any dtype except float8. Integers are computed in
        the default floating dtype.
    weight : Tensor, ndarray or number
        Where between them: 0 gives x1 and 1 gives x2, exactly.

    Returns
    -------
    Tensor
        The broadcast shape and common dtype; float32 for integers.

    Raises
    ------
    DTypeError
        If an operand is float8.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.lerp(calor.asarray([0.0, 10.0]), calor.asarray([10.0, 30.0]), 0.25).tolist()
    [2.5, 15.0]
    """


def _wave(function: Any, x: Any) -> Any:
    """Return sin(πx) or cos(πx), exact at multiples of 1/2."""
    whole = e.round(x)
    odd = whole - e.floor(whole * 0.5) * 2
    return (1 - odd * 2) * function((x - whole) * math.pi)


def _sinc(x: Any) -> Any:
    size = e.abs(x)
    zero = e.equal(size, fill(x, 0))
    one = fill(x, 1)
    return e.where(zero, one, _wave(e.sin, size) / e.where(zero, one, size * math.pi))


def _sinc_slope(y: Any, x: Any) -> Any:
    # (cos(πx) − sinc(x)) / x, whose terms cancel close to 0; there it is the Taylor series.
    near = e.abs(x) < 0.25
    zero, one = fill(x, 0), fill(x, 1)
    square = e.where(near, x * x, zero)
    series = polynomial(square, _SINC_SLOPE) * x
    far = e.where(near, one, x)
    return e.where(near, series, (_wave(e.cos, far) - e.where(near, zero, y)) / far)


@elementwise(
    rules.real_floats,
    _sinc,
    reference=reference.sinc,
    derivatives=(_sinc_slope,),
    saves=("0y",),
    checks=(Check(((-3, 3),)), Check(((-0.2, 0.2),), name="near-0")),
    method=True,
    of_complex=_complex_sinc,
)
def sinc(x: Operand, /) -> Tensor:
    """Return sin(πx) / (πx), the normalised sinc function.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8. Integers and booleans are computed in the default
        floating dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating or complex, else float32. 1 at 0 and
        exactly 0 at all other integers.

    Raises
    ------
    DTypeError
        If ``x`` is float8.

    Examples
    --------
    >>> import calor
    >>> calor.sinc(calor.asarray([0.0, 0.5])).round(decimals=3).tolist()
    [1.0, 0.6370000243186951]
    """
