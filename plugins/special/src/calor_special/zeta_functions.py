"""The Hurwitz zeta function and the derivatives of digamma.

Requirements: relative accuracy for every exponent above 1: the first terms of the series, and
Euler's and Maclaurin's sum of the rest (DLMF 25.11.28). Its terms are ratios of the term before, so
that none overflows where the result does not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from calor.errors import ArgumentError
from calor.functions.arguments import integer
from calor.functions.creation import asarray
from calor.functions.elementwise import remainder
from calor.functions.indexing import take
from calor.functions.manipulation import broadcast_arrays
from calor.functions.operands import as_tensor
from calor.functions.rounding import clip, floor
from calor.functions.rows import elementwise
from calor.functions.searching import where
from calor.functions.special import digamma
from calor.ops import elementwise as e
from calor.ops import reductions, rules
from calor.ops.base import op
from calor.ops.composites import like, wide
from calor.ops.movement import fill
from calor.recording.record import unary
from calor.tensor.tensor import Operand, Tensor
from calor_special.tools import BERNOULLI, floating, nan

if TYPE_CHECKING:
    from calor.specs import Spec

_FACTORIALS = (*map(float, map(math.factorial, range(171))), math.inf)

# mypy: disable-error-code="empty-body"

__all__ = ["polygamma", "zeta"]

_TERMS = 10


def hurwitz(s: Any, q: Any) -> Any:
    """Return Σ (q + k)⁻ˢ for s > 1 and q > 0."""
    total = fill(q, 0)
    for k in range(_TERMS):
        total = total + e.power(q + k, -s)
    a = q + _TERMS
    power = e.power(a, -s)
    small = e.equal(power, fill(power, 0))
    inverse = 1 / a
    # A factor alone may overflow or vanish where their product does not.
    first = e.power(a, 1 - s) / (s - 1)
    rest = power * 0.5
    rise = s * inverse * power
    for k, b in enumerate(BERNOULLI):
        rest = rest + rise * b
        rise = rise * ((s + (2 * k + 1)) * inverse) * ((s + (2 * k + 2)) * inverse)
    return total + first + e.where(small, power, rest)


def _zeta(s: Any, q: Any) -> Any:
    from calor.transforms.control import while_loop

    pole = e.bit_and(q <= 0, e.equal(q, e.floor(q)))
    branch = e.bit_and(e.bit_and(q < 0, e.bit_not(pole)), e.not_equal(s, e.floor(s)))
    shifted = e.bit_and(e.bit_and(q < 0, e.isfinite(q)), e.bit_not(e.bit_or(pole, branch)))
    inside = e.where(e.bit_or(q > 0, shifted), q, fill(q, 1))
    exponent = e.where(s > 1, s, fill(s, 2))

    def step(state: tuple[Any, Any]) -> tuple[Any, Any]:
        place, total = state
        low = place <= 0
        term = e.power(e.where(low, place, fill(place, 1)), -exponent)
        return e.where(low, place + 1, place), e.where(low, total + term, total)

    def unfinished(state: tuple[Any, Any]) -> Any:
        return reductions.any_(state[0] <= 0, axes=tuple(range(q.ndim)))

    place, before = while_loop(unfinished, step, (inside, fill(q, 0)))
    made = before + hurwitz(exponent, place)
    made = e.where(pole, fill(q, math.inf), made)
    made = e.where(e.equal(s, fill(s, 1)), fill(q, math.inf), made)
    wrong = e.bit_or(e.bit_or(s < 1, branch), e.bit_or(e.isnan(s), e.isnan(q)))
    wrong = e.bit_or(wrong, e.equal(q, fill(q, -math.inf)))
    return e.where(wrong, nan(q), made)


def _zeta_by_s(y: Any, s: Any, q: Any) -> Any:
    """Return −Σ log(q + k) (q + k)⁻ˢ, by the derivative of each term of `hurwitz`."""
    total = fill(q, 0)
    for k in range(_TERMS):
        total = total - e.log(q + k) * e.power(q + k, -s)
    a = q + _TERMS
    power = e.power(a, -s)
    logarithm, inverse, below = e.log(a), 1 / a, 1 / (s - 1)
    rest = -((power * a) * below * (logarithm + below) + power * logarithm * 0.5)
    rise, rate = s * inverse * power, 1 / s - logarithm
    for k, b in enumerate(BERNOULLI):
        rest = rest + rise * rate * b
        for j in (2 * k + 1, 2 * k + 2):
            rise, rate = rise * ((s + j) * inverse), rate + 1 / (s + j)
    return e.where(e.equal(power, fill(power, 0)), total, total + rest)


@elementwise(
    rules.real_floats,
    _zeta,
    derivatives=(_zeta_by_s, lambda y, s, q: -(s * zeta(s + 1, q))),  # type: ignore[has-type]
    saves=("01", "01"),
    package="special",
)
def zeta(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the Hurwitz zeta function Σ (q + k)⁻ˢ over k ≥ 0; Riemann's for q = 1.

    Parameters
    ----------
    x1, x2 : Tensor, ndarray or number
        The exponent s and the start q; shapes that broadcast; any real dtype. Integers are computed
        in the default floating dtype.

    Returns
    -------
    Tensor
        The broadcast shape and common dtype; float32 for integers. inf for s = 1 and where q is 0
        or a negative whole number; NaN for s < 1, and for q < 0 if s is no whole number. The
        gradient by s holds for q > 0.

    Raises
    ------
    DTypeError
        If an operand is complex or float8.
    ShapeError
        If the shapes do not broadcast.

    References
    ----------
    NIST Digital Library of Mathematical Functions, 25.11.

    Examples
    --------
    >>> import calor
    >>> round(calor.special.zeta(2.0, 1.0).item(), 5)  # π² / 6
    1.64493
    """


def _cotangent_slopes(n: int) -> list[int]:
    """Return the n-th derivative of cot as a polynomial in cot."""
    current = [0, 1]
    for _ in range(n):
        slope = [k * c for k, c in enumerate(current)][1:]
        current = [0] * (len(slope) + 2)
        for k, c in enumerate(slope):
            current[k] -= c
            current[k + 2] -= c
    return current


def _polygamma(x: Any, *, order: int) -> Any:
    wanted, x = x, wide(x)
    sign = -1.0 if order % 2 == 0 else 1.0
    pole = e.bit_and(x <= 0, e.equal(x, e.floor(x)))
    negative = e.bit_and(x < 0, e.bit_not(pole))
    upper = e.where(negative, 1 - x, e.where(pole, fill(x, 1), x))
    factor = sign * math.exp(math.lgamma(order + 1)) if order > 20 else sign * math.factorial(order)
    made = hurwitz(fill(x, order + 1), upper) * factor
    # Reflection (DLMF 5.15.6).
    angle = e.where(negative, x - e.round(x), fill(x, 0.25)) * math.pi
    cotangent = e.cos(angle) / e.sin(angle)
    turned = fill(x, 0)
    for c in _cotangent_slopes(order)[::-1]:
        turned = turned * cotangent + float(c)
    made = e.where(negative, made * (-sign) - turned * math.pi ** (order + 1), made)
    made = e.where(pole, fill(x, sign * math.inf), made)
    made = e.where(e.equal(x, fill(x, -math.inf)), nan(x), made)
    return like(made, wanted)


def _polygamma_rule(x: Spec, *, order: int) -> Spec:
    return rules.real_floats(x)


def _polygamma_vjp(g: Any, y: Any, x: Any, *, order: int) -> list[Any]:
    return [like(wide(g) * _polygamma_row(wide(x), order=order + 1), g)]


_polygamma_row = op(
    "special.polygamma",
    _polygamma_rule,
    vjp=_polygamma_vjp,
    saves="0",
    decompose=_polygamma,
    promotion="float",
)


def _factorial(n: Tensor) -> Tensor:
    """Return n! of whole numbers of at least 0, in the dtype of n; inf where it has none."""
    with np.errstate(over="ignore"):
        table = np.asarray(_FACTORIALS).astype(n.dtype.numpy)
    places = clip(n, 0, len(_FACTORIALS) - 1).astype("int64")
    return take(asarray(table, device=n.device), places)


def _of_orders(n: Tensor, x: Tensor) -> Tensor:
    """Return polygamma of orders that are elements; NaN where one is no whole number above -1."""
    given, x = x, wide(x)
    x, n = broadcast_arrays(x, n.astype(x.dtype))
    good = (n > 0) & (floor(n) == n)
    order = where(good, n, 1)
    sign = 1 - 2 * remainder(order + 1, 2)
    made = where(good, sign * _factorial(order) * zeta(order + 1, x), math.nan)
    made = where(n == 0, digamma(where(n == 0, x, 1)), made)
    return made.astype(given.dtype)


def polygamma(n: int | Tensor, x: Operand, /) -> Tensor:
    """Return the n-th derivative of digamma.

    Parameters
    ----------
    n : int or Tensor
        The order, at least 0. A tensor has an order for each element, and broadcasts with ``x``;
        between the poles of negative ``x`` it then loses the digits that cancel.
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.

    Returns
    -------
    Tensor
        The shape of ``x``, broadcast with orders; its dtype if that is floating, else float32.
        Infinite at 0 and at negative whole numbers. NaN for elements of ``n`` that are no orders.

    Raises
    ------
    ArgumentError
        If an int ``n`` is negative.
    TypeError
        If ``n`` is neither an integer nor a tensor.
    DTypeError
        If ``x`` is complex or float8.

    References
    ----------
    NIST Digital Library of Mathematical Functions, 5.15.

    Examples
    --------
    >>> import calor
    >>> round(calor.special.polygamma(1, 1.0).item(), 5)  # π² / 6
    1.64493
    """
    if isinstance(n, Tensor):
        return _of_orders(n, floating(as_tensor(x)))
    order = integer(n, "polygamma: n")
    if order < 0:
        raise ArgumentError(f"polygamma: n is {order}; pass an order of at least 0")
    given = floating(as_tensor(x))
    made: Tensor = unary(e.digamma, given) if order == 0 else _polygamma_row(given, order=order)
    return made
