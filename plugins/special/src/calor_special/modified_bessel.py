"""Modified Bessel functions of order 0 and 1, and the same scaled by exp(∓x).

Requirements: relative accuracy everywhere. Close to 0 the power series (DLMF 10.25.2, 10.31.1)
have terms of one sign; farther out √x exp(∓x) times the function is a polynomial in 1/x.
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
from calor_special.tools import EULER, fitted, harmonic, series, slope_over

__all__ = ["i0", "i0e", "i1", "i1e", "k0", "k0e", "k1", "k1e"]

_NEAR = 8.0
# exp overflows to infinity here in every dtype.
_END = 800.0


def _quarter_square(x: Any) -> Any:
    half = x * 0.5
    return half * half


def _i0_near(x: Any) -> Any:
    return series(_quarter_square(x), lambda k: 1 / math.factorial(k) ** 2, 18, 30)


def _i1_near(x: Any) -> Any:
    terms = series(
        _quarter_square(x), lambda k: 1 / (math.factorial(k) * math.factorial(k + 1)), 18, 30
    )
    return terms * (x * 0.5)


def _far(size: Any, table: Any) -> Any:
    """Return exp(−x) I(x) for x > 8."""
    return fitted(1 / size, table, 0, 1 / _NEAR) / e.sqrt(size)


def _grown(size: Any, scaled: Any) -> Any:
    """Return exp(x) · scaled in two steps, which overflow no earlier than the result."""
    half = e.exp(e.minimum(size, fill(size, _END)) * 0.5)
    return scaled * half * half


def _i0(x: Any) -> Any:
    size = e.abs(x)
    far = _far(e.minimum(size, fill(x, _END)), tables.I0_FAR)
    return e.where(size <= _NEAR, _i0_near(x), _grown(size, far))


def _i0e(x: Any) -> Any:
    size = e.abs(x)
    return e.where(size <= _NEAR, _i0_near(x) * e.exp(-size), _far(size, tables.I0_FAR))


def _i1(x: Any) -> Any:
    size = e.abs(x)
    far = _far(e.minimum(size, fill(x, _END)), tables.I1_FAR)
    return e.where(size <= _NEAR, _i1_near(x), e.copysign(_grown(size, far), x))


def _i1e(x: Any) -> Any:
    size = e.abs(x)
    far = e.copysign(_far(size, tables.I1_FAR), x)
    return e.where(size <= _NEAR, _i1_near(x) * e.exp(-size), far)


def _log_half(x: Any) -> Any:
    """Return log(x / 2), also of the smallest number, of which there is no half."""
    return e.log(x) - math.log(2)


def _k0_near(x: Any) -> Any:
    z = _quarter_square(x)
    rest = series(z, lambda k: harmonic(k) / math.factorial(k) ** 2, 6, 11)
    return rest - (_log_half(x) + EULER) * _i0_near(x)


def _k1_near(x: Any) -> Any:
    z = _quarter_square(x)
    rest = series(
        z,
        lambda k: (
            (harmonic(k) + harmonic(k + 1) - 2 * EULER)
            / (math.factorial(k) * math.factorial(k + 1))
        ),
        6,
        11,
    )
    return 1 / x + (_log_half(x) * _i1_near(x) - x * 0.25 * rest)


def _k_far(x: Any, middle: Any, far: Any) -> Any:
    """Return exp(x) K(x) for x ≥ 1."""
    u = 1 / x
    return e.where(x <= 4, fitted(u, middle, 0.25, 1), fitted(u, far, 0, 0.25)) / e.sqrt(x)


def _decayed(x: Any, scaled: Any) -> Any:
    return scaled * e.exp(-x)


def _k(x: Any, near: Any, far: Any) -> Any:
    known = e.where(x <= 1, near, far)
    # At 0 the series have ∞ · 0.
    return e.where(e.equal(x, fill(x, 0)), fill(x, math.inf), known)


def _k0(x: Any) -> Any:
    return _k(x, _k0_near(x), _decayed(x, _k_far(x, tables.K0_MIDDLE, tables.K0_FAR)))


def _k0e(x: Any) -> Any:
    return _k(x, _k0_near(x) * e.exp(x), _k_far(x, tables.K0_MIDDLE, tables.K0_FAR))


def _k1(x: Any) -> Any:
    return _k(x, _k1_near(x), _decayed(x, _k_far(x, tables.K1_MIDDLE, tables.K1_FAR)))


def _k1e(x: Any) -> Any:
    return _k(x, _k1_near(x) * e.exp(x), _k_far(x, tables.K1_MIDDLE, tables.K1_FAR))


@elementwise(
    rules.real_floats,
    _i0,
    derivatives=(lambda y, x: i1(x),),  # type: ignore[has-type]
    saves=("0",),
    package="special",
)
def i0(x: Operand, /) -> Tensor:
    """Return the modified Bessel function of the first kind of order 0, I₀(x).

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. At least 1.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.special.i0(calor.asarray([0.0, calor.inf])).tolist()
    [1.0, inf]
    """


@elementwise(
    rules.real_floats,
    _i0e,
    derivatives=(lambda y, x: i1e(x) - e.sign(x) * y,),  # type: ignore[has-type]
    saves=("0y",),
    package="special",
)
def i0e(x: Operand, /) -> Tensor:
    """Return exp(−|x|) I₀(x), which does not overflow.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. In [0, 1].

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.special.i0e(calor.asarray([0.0, calor.inf])).tolist()
    [1.0, 0.0]
    """


@elementwise(
    rules.real_floats,
    _i1,
    derivatives=(lambda y, x: i0(x) - slope_over(y, x),),
    saves=("0y",),
    package="special",
)
def i1(x: Operand, /) -> Tensor:
    """Return the modified Bessel function of the first kind of order 1, I₁(x).

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
    >>> calor.special.i1(calor.asarray([0.0, -calor.inf])).tolist()
    [0.0, -inf]
    """


@elementwise(
    rules.real_floats,
    _i1e,
    derivatives=(lambda y, x: i0e(x) - e.sign(x) * y - slope_over(y, x),),
    saves=("0y",),
    package="special",
)
def i1e(x: Operand, /) -> Tensor:
    """Return exp(−|x|) I₁(x), which does not overflow.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. In [−1, 1].

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.special.i1e(calor.asarray([0.0, calor.inf])).tolist()
    [0.0, 0.0]
    """


@elementwise(
    rules.real_floats,
    _k0,
    derivatives=(lambda y, x: -k1(x),),  # type: ignore[has-type]
    saves=("0",),
    package="special",
)
def k0(x: Operand, /) -> Tensor:
    """Return the modified Bessel function of the second kind of order 0, K₀(x).

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. inf at 0, NaN for negative
        numbers.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.special.k0(calor.asarray([0.0, calor.inf])).tolist()
    [inf, 0.0]
    """


@elementwise(
    rules.real_floats,
    _k0e,
    derivatives=(lambda y, x: y - k1e(x),),  # type: ignore[has-type]
    saves=("0y",),
    package="special",
)
def k0e(x: Operand, /) -> Tensor:
    """Return exp(x) K₀(x), which does not underflow.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. inf at 0, NaN for negative
        numbers.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.special.k0e(calor.asarray([0.0, calor.inf])).tolist()
    [inf, 0.0]
    """


@elementwise(
    rules.real_floats,
    _k1,
    derivatives=(lambda y, x: -k0(x) - y / x,),
    saves=("0y",),
    package="special",
)
def k1(x: Operand, /) -> Tensor:
    """Return the modified Bessel function of the second kind of order 1, K₁(x).

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. inf at 0, NaN for negative
        numbers.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.special.k1(calor.asarray([0.0, calor.inf])).tolist()
    [inf, 0.0]
    """


@elementwise(
    rules.real_floats,
    _k1e,
    derivatives=(lambda y, x: y - k0e(x) - y / x,),
    saves=("0y",),
    package="special",
)
def k1e(x: Operand, /) -> Tensor:
    """Return exp(x) K₁(x), which does not underflow.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. inf at 0, NaN for negative
        numbers.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.special.k1e(calor.asarray([0.0, calor.inf])).tolist()
    [inf, 0.0]
    """
