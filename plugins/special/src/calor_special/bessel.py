"""Bessel functions of order 0 and 1, the spherical one of order 0, and Airy's function.

Requirements: absolute accuracy of the size of the wave around it, and relative accuracy close to
the first zeros. Far out each is a cosine and a sine with factors in 1/x² (DLMF 10.17, 9.7), whose
angles need no subtraction: cos(x − π/4) is (cos x + sin x) / √2.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

import math
from typing import Any

from calor.functions.rows import elementwise
from calor.ops import elementwise as e
from calor.ops import rules
from calor.ops.movement import fill
from calor.tensor.tensor import Operand, Tensor
from calor_special import tables
from calor_special.tools import fitted, infinite, minus_root, series, slope_over

__all__ = ["airy_ai", "j0", "j1", "spherical_j0", "y0", "y1"]

_NEAR = 6.0
_TWO_OVER_PI = 2 / math.pi
_ROOT_INVERSE_PI = 1 / math.sqrt(math.pi)
# Zeros of J₀ and J₁, and what float64 rounds off.
J0_ZEROS = ((2.404825557695773, -1.176691651530894e-16), (5.520078110286311, 8.088597146146722e-17))
J1_ZEROS = ((3.8317059702075125, -1.5269184090088067e-16),)
_AIRY_LOW, _AIRY_HIGH = -4.5, 2.25
_AIRY_MOST = 1e38
_AIRY_WAVES = 1 / (2 / 3 * 4.5**1.5) ** 2


def _with_zeros(x: Any, zeros: Any, table: Any) -> Any:
    """Return the even part of a Bessel function for |x| ≤ 6."""
    size = e.abs(x)
    made = fitted(x * x, table, 0, _NEAR * _NEAR)
    for root, low in zeros:
        made = made * minus_root(size, root, low) * (size + root)
    return made


def _j0_near(x: Any) -> Any:
    close = series(x * x * 0.25, lambda k: (-1) ** k / math.factorial(k) ** 2, 6, 10)
    return e.where(e.abs(x) < 1, close, _with_zeros(x, J0_ZEROS, tables.J0_NEAR))


def _j1_near(x: Any) -> Any:
    return _with_zeros(x, J1_ZEROS, tables.J1_NEAR) * x


def _factors(size: Any, cosine: Any, sine: Any) -> tuple[Any, Any]:
    """Return the factors of the two waves for x > 6, divided by √(π x)."""
    u = 1 / size
    square = u * u
    end = 1 / (_NEAR * _NEAR)
    scale = _ROOT_INVERSE_PI / e.sqrt(size)
    return fitted(square, cosine, 0, end) * scale, fitted(square, sine, 0, end) * u * scale


def _finite(x: Any) -> Any:
    """Return x with 6 for what lies nearer or is infinite: waves of that are not used."""
    inside = e.bit_and(x > _NEAR, e.isfinite(x))
    return e.where(e.bit_or(inside, e.isnan(x)), x, fill(x, _NEAR))


def _far(x: Any, order: int, second: bool) -> Any:
    """Return J or Y of order 0 or 1 for x > 6; 0 at infinity."""
    size = _finite(x)
    table = (
        (tables.WAVE0_COSINE, tables.WAVE0_SINE)
        if order == 0
        else (tables.WAVE1_COSINE, tables.WAVE1_SINE)
    )
    p, q = _factors(size, *table)
    c, s = e.cos(size), e.sin(size)
    cosine, sine = (c + s, s - c) if order == 0 else (s - c, -(s + c))
    made = p * sine + q * cosine if second else p * cosine - q * sine
    return e.where(infinite(x), fill(x, 0), made)


def _j0(x: Any) -> Any:
    size = e.abs(x)
    return e.where(size <= _NEAR, _j0_near(x), _far(size, 0, False))


def _j1(x: Any) -> Any:
    size = e.abs(x)
    far = _far(size, 1, False)
    return e.where(size <= _NEAR, _j1_near(x), e.where(x < 0, -far, far))


def _y(x: Any, near: Any, far: Any) -> Any:
    made = e.where(x <= _NEAR, near, far)
    made = e.where(e.equal(x, fill(x, 0)), fill(x, -math.inf), made)
    return e.where(x < 0, fill(x, math.nan), made)


def _y0(x: Any) -> Any:
    near = fitted(x * x, tables.Y0_NEAR, 0, _NEAR * _NEAR)
    return _y(x, near + e.log(x) * _j0_near(x) * _TWO_OVER_PI, _far(x, 0, True))


def _y1(x: Any) -> Any:
    near = fitted(x * x, tables.Y1_NEAR, 0, _NEAR * _NEAR) * x
    # 1 / x overflows earlier than the result.
    near = near + (e.log(x) * _j1_near(x) * _TWO_OVER_PI - _TWO_OVER_PI / x)
    return _y(x, near, _far(x, 1, True))


def _spherical_j0(x: Any) -> Any:
    none = e.bit_or(e.equal(x, fill(x, 0)), infinite(x))
    safe = e.where(none, fill(x, 1), x)
    edge = e.where(infinite(x), fill(x, 0), fill(x, 1))
    return e.where(none, edge, e.sin(safe) / safe)


def _spherical_slope(y: Any, x: Any) -> Any:
    close = e.abs(x) < 1
    near = series(x * x, lambda k: (-1) ** (k + 1) * (2 * k + 2) / math.factorial(2 * k + 3), 6, 10)
    none = e.bit_or(close, infinite(x))
    safe = e.where(none, fill(x, 1), x)
    far = (e.cos(safe) - y) / safe
    return e.where(close, near * x, e.where(infinite(x), fill(x, 0), far))


def _airy_ai(x: Any) -> Any:
    low = fitted(x, tables.AIRY_LOW, _AIRY_LOW, 0)
    high = fitted(x, tables.AIRY_HIGH, 0, _AIRY_HIGH)
    size = e.abs(x)
    size = e.where(e.bit_or(size < _AIRY_HIGH, infinite(x)), fill(x, _AIRY_HIGH), size)
    root = e.sqrt(size)
    # The phase of farther waves is not known; they have one, so that they are no NaN.
    zeta = e.minimum(size * root * (2 / 3), fill(x, _AIRY_MOST))
    scale = _ROOT_INVERSE_PI / e.sqrt(root)
    u = 1 / zeta
    far = fitted(u, tables.AIRY_FAR, 0, 1 / _AIRY_HIGH) * e.exp(-zeta) * scale * 0.5
    p = fitted(u * u, tables.AIRY_COSINE, 0, _AIRY_WAVES)
    q = fitted(u * u, tables.AIRY_SINE, 0, _AIRY_WAVES) * u
    c, s = e.cos(zeta), e.sin(zeta)
    waves = (p * (c + s) + q * (s - c)) * scale * math.sqrt(0.5)
    made = e.where(x < _AIRY_LOW, waves, e.where(x < 0, low, e.where(x <= _AIRY_HIGH, high, far)))
    return e.where(infinite(x), fill(x, 0), made)


@elementwise(
    rules.real_floats,
    _j0,
    derivatives=(lambda y, x: -j1(x),),  # type: ignore[has-type]
    saves=("0",),
    package="special",
)
def j0(x: Operand, /) -> Tensor:
    """Return the Bessel function of the first kind of order 0, J₀(x).

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. 0 at ±∞.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.special.j0(calor.asarray([0.0, calor.inf])).tolist()
    [1.0, 0.0]
    """


@elementwise(
    rules.real_floats,
    _j1,
    derivatives=(lambda y, x: j0(x) - slope_over(y, x),),
    saves=("0y",),
    package="special",
)
def j1(x: Operand, /) -> Tensor:
    """Return the Bessel function of the first kind of order 1, J₁(x).

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. Odd in ``x``.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.special.j1(calor.asarray([0.0, calor.inf])).tolist()
    [0.0, 0.0]
    """


@elementwise(
    rules.real_floats,
    _y0,
    derivatives=(lambda y, x: -y1(x),),  # type: ignore[has-type]
    saves=("0",),
    package="special",
)
def y0(x: Operand, /) -> Tensor:
    """Return the Bessel function of the second kind of order 0, Y₀(x).

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. −inf at 0, NaN for negative
        numbers.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.special.y0(calor.asarray([0.0, calor.inf])).tolist()
    [-inf, 0.0]
    """


@elementwise(
    rules.real_floats,
    _y1,
    derivatives=(lambda y, x: y0(x) - y / x,),
    saves=("0y",),
    package="special",
)
def y1(x: Operand, /) -> Tensor:
    """Return the Bessel function of the second kind of order 1, Y₁(x).

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. −inf at 0, NaN for negative
        numbers.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.special.y1(calor.asarray([0.0, calor.inf])).tolist()
    [-inf, 0.0]
    """


@elementwise(
    rules.real_floats,
    _spherical_j0,
    derivatives=(_spherical_slope,),
    saves=("0y",),
    package="special",
)
def spherical_j0(x: Operand, /) -> Tensor:
    """Return the spherical Bessel function of order 0, sin(x) / x.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. 1 at 0, and 0 at ±∞.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.special.spherical_j0(calor.asarray([0.0, calor.inf])).tolist()
    [1.0, 0.0]
    """


@elementwise(
    rules.real_floats,
    _airy_ai,
    no_gradient="calor has no Ai′, which it would be",
    package="special",
)
def airy_ai(x: Operand, /) -> Tensor:
    """Return Airy's function Ai(x).

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. 0 at ±∞. It has no
        gradient.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> round(calor.special.airy_ai(calor.asarray(0.0)).item(), 6)
    0.355028
    """
