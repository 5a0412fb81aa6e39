"""The Hurwitz zeta function and the derivatives of digamma.

Requirements: relative accuracy for every exponent above 1: the first terms of the series, and
Euler's and Maclaurin's sum of the rest (DLMF 25.11.28). Its terms are ratios of the term before, so
that none overflows where the result does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from calor.errors import ArgumentError
from calor.functions.arguments import integer
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
from calor.ops.sources import HostArray, constant
from calor.recording.record import unary
from calor.tensor.tensor import Operand, Tensor
from calor_special.tools import BERNOULLI, floating, nan

if TYPE_CHECKING:
    from calor.specs import Spec

# mypy: disable-error-code="empty-body"

__all__ = ["polygamma", "zeta"]

_TERMS = 10
# Orders with a row in the table of `_weighed_each`.
_ORDERS = 257
# Up to it the polynomials of the reflection have numbers of float32 as coefficients.
_REFLECTED = 20


def hurwitz(s: Any, q: Any) -> Any:
    """Return Σ (q + k)⁻ˢ for s > 1 and q > 0."""
    # A factor alone may overflow or vanish where their product does not.
    return _summed(s, q, lambda a: e.power(a, -s), lambda a: e.power(a, 1 - s) / (s - 1))


def _summed(s: Any, q: Any, of: Callable[[Any], Any], integral: Callable[[Any], Any]) -> Any:
    """Return Σ f(q + k) of a multiple f of a⁻ˢ, with its integral from a on."""
    total = fill(q, 0)
    for k in range(_TERMS):
        total = total + of(q + k)
    a = q + _TERMS
    power, first = of(a), integral(a)
    small = e.equal(power, fill(power, 0))
    inverse = 1 / a
    rest = power * 0.5
    rise = s * inverse * power
    for k, b in enumerate(BERNOULLI):
        rest = rest + rise * b
        rise = rise * ((s + (2 * k + 1)) * inverse) * ((s + (2 * k + 2)) * inverse)
    # Where the first terms overflow, those of the series may be infinite in both directions.
    return e.where(e.isinf(total), total, total + first + e.where(small, power, rest))


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


def _scale(n: int) -> tuple[int, float]:
    """Return m and a logarithm: n! is 2ᵐ to the power n + 1, times what the logarithm is of."""
    exact = math.lgamma(n + 1)
    m = round(exact / math.log(2) / (n + 1))
    if n > 1000:
        return m, exact - m * (n + 1) * math.log(2)
    return m, math.log(math.factorial(n) / 2 ** (m * (n + 1)))


def _weighed(n: int, a: Any) -> Any:
    """Return n! a⁻⁽ⁿ⁺¹⁾ as a product of factors that are numbers where it is one."""
    m, weight = _scale(n)
    count = 1 + (n > 10) + n // 64
    low, high = divmod(n + 1, count)
    scaled, root = a * 2.0**-m, math.exp(weight / count)
    part = e.power(scaled, fill(a, -low)) * root
    more = e.power(scaled, fill(a, -low - 1)) * root if high else part
    made = more if high else part
    for k in range(1, count):
        made = made * (more if k < high else part)
    return made


def _weighed_each(n: Any, a: Any) -> Any:
    """Return `_weighed` of orders that are elements."""
    t, root = a / _table(n, 0), _table(n, 1)
    low = e.floor((n + 1) * 0.25)
    part = e.power(t, -low) * root
    return part * e.power(t, 4 * low - (n + 1)) * part * part * part


def _table(n: Any, column: int) -> Any:
    """Return of orders the 2ᵐ of `_scale`, or the fourth root of what is left."""
    rows = [_scale(k) for k in range(_ORDERS)]
    known = [(2.0**m, math.exp(weight / 4))[column] for m, weight in rows]
    array = HostArray.of(np.asarray(known).astype(n.dtype.numpy))
    found = take(constant(array=array, weak=False), clip(n, 0, _ORDERS - 1).astype("int64"))
    # n! is the power of one number, which may be rounded: x as much changes the result as much.
    beyond = e.exp(e.lgamma(n + 1) / (n + 1)) if column == 0 else fill(n, 1)
    return e.where(n < _ORDERS, found, beyond)


def _about_poles(x: Any, s: Any, odd: Any, of: Callable[[Any], Any], rest: Any) -> Any:
    """Return Σ f(x + k) for negative x: all whole numbers k, and without those below 0."""
    f = x - e.round(x)
    nearest = of(e.abs(f))
    nearest = e.where(e.bit_and(odd, f < 0), -nearest, nearest)
    above, below = (_summed(s, 1 + part, of, rest) for part in (f, -f))
    others = _summed(s, 1 - x, of, rest)
    whole = nearest + (above + e.where(odd, others - below, below - others))
    whole = e.where(e.isinf(nearest), nearest, whole)
    # Half way between two poles odd powers of all whole numbers add up to 0.
    return e.where(e.bit_and(odd, e.equal(e.abs(f), fill(f, 0.5))), others, whole)


def _polygamma(x: Any, *, order: int) -> Any:
    wanted, x = x, wide(x)
    sign = -1.0 if order % 2 == 0 else 1.0
    pole = e.bit_and(x <= 0, e.equal(x, e.floor(x)))
    negative = e.bit_and(x < 0, e.bit_not(pole))
    s = fill(x, order + 1)

    def of(a: Any) -> Any:
        return _weighed(order, a)

    def rest(a: Any) -> Any:
        return _weighed(order - 1, a)

    if order > _REFLECTED:
        odd = fill(x, float(order % 2 == 0)) > 0
        inside = e.where(negative, x, fill(x, -0.25))
        made = _summed(s, e.where(x > 0, x, fill(x, 1)), of, rest)
        made = e.where(negative, _about_poles(inside, s, odd, of, rest), made) * sign
    else:
        upper = e.where(negative, 1 - x, e.where(pole, fill(x, 1), x))
        made = _summed(s, upper, of, rest) * sign
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


def _each_order(n: Any, x: Any) -> Any:
    """Return polygamma of orders that are whole numbers above 0."""
    odd = e.equal(e.floor(n * 0.5) * 2, n)
    pole = e.bit_and(x <= 0, e.equal(x, e.floor(x)))
    negative = e.bit_and(x < 0, e.bit_not(pole))

    def of(a: Any) -> Any:
        return _weighed_each(n, a)

    def rest(a: Any) -> Any:
        return _weighed_each(n - 1, a)

    inside = e.where(negative, x, fill(x, -0.25))
    made = _summed(n + 1, e.where(x > 0, x, fill(x, 1)), of, rest)
    made = e.where(negative, _about_poles(inside, n + 1, odd, of, rest), made)
    made = e.where(pole, fill(x, math.inf), made)
    made = e.where(e.bit_or(e.isnan(x), e.equal(x, fill(x, -math.inf))), nan(x), made)
    return e.where(odd, -made, made)


@elementwise(
    rules.real_floats,
    _each_order,
    derivatives=(None, lambda y, n, x: _polygamma_each(n + 1, x)),  # type: ignore[has-type]
    saves=("", "01"),
    package="special",
)
def _polygamma_each(n: Operand, x: Operand, /) -> Tensor:
    """Return polygamma of orders that are whole numbers above 0, elements of a tensor."""


def _of_orders(n: Tensor, x: Tensor) -> Tensor:
    """Return polygamma of orders that are elements; NaN where one is no whole number above -1."""
    given, x = x, wide(x)
    x, n = broadcast_arrays(x, n.astype(x.dtype))
    good = (n > 0) & (floor(n) == n)
    made = where(good, _polygamma_each(where(good, n, 1), x), math.nan)
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
