"""The incomplete gamma functions and their derivative by the shape.

Requirements: the smaller of P and Q keeps its relative accuracy. Around x = a for large a both come
from Temme's uniform expansion (DLMF 8.12); elsewhere P is a power series below (DLMF 8.7.1) and Q a
continued fraction above (DLMF 8.9.2), whose terms are added until none of a tensor's elements
changes. Derivatives by a are those of the same terms, as in W. Gautschi, "A computational procedure
for incomplete gamma functions", ACM Transactions on Mathematical Software 5, 1979.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from calor.dtypes import float32
from calor.functions.rows import elementwise, polynomial
from calor.ops import elementwise as e
from calor.ops import reductions, rules
from calor.ops.movement import fill
from calor.reference.special_coefficients import LGAMMA_MIDDLE
from calor.tensor.tensor import Operand, Tensor
from calor_special import tables
from calor_special.tools import fitted, stirling

# mypy: disable-error-code="empty-body"

__all__ = ["gammainc", "gammainc_slope", "gammaincc"]

# From this shape on Temme's expansion is accurate, where |x − a| is below this part of a.
_LARGE, _AROUND = 20.0, 0.3
_STIRLING_FROM = 8.0
_FAR = 1e5
_TINY, _LEAST = 1e-10, 1e-20
_LIMIT = 2000
_HALF_LOG_TWO_PI = 0.9189385332046727


def _epsilon(x: Any) -> float:
    """Return the change below which terms no longer count, above the noise of rounding."""
    return 2.0**-23 if x.dtype is float32 else 2.0**-52


class _Around(NamedTuple):
    """Temme's variables at x = a (1 + μ); ½ η² is μ − log(1 + μ)."""

    a: Any
    mu: Any
    eta: Any
    ratio: Any
    half_square: Any


def _around(a: Any, x: Any) -> _Around:
    mu = (x - a) / a
    rest = fitted(mu, tables.LOG_REST, -0.4, 0.4)
    root = e.sqrt(rest * 2)
    return _Around(a, mu, mu * root, 1 / root, mu * mu * rest)


def _temme_sum(t: _Around) -> Any:
    """Return Σ cₖ(η) a⁻ᵏ."""
    count, terms = (4, 9) if t.a.dtype is float32 else (11, 18)
    total = polynomial(t.eta, tables.TEMME[count - 1][:terms])
    inverse = 1 / t.a
    for row in tables.TEMME[: count - 1][::-1]:
        total = total * inverse + polynomial(t.eta, row[:terms])
    return total


def _temme_slopes(t: _Around) -> tuple[Any, Any]:
    """Return the derivatives of Σ cₖ(η) a⁻ᵏ by η and by a."""
    count, terms = (4, 9) if t.a.dtype is float32 else (11, 18)
    inverse = 1 / t.a
    by_eta = by_a = fill(t.a, 0)
    for k in range(count - 1, -1, -1):
        row = tables.TEMME[k][:terms]
        by_eta = by_eta * inverse + polynomial(t.eta, [n * c for n, c in enumerate(row)][1:])
        if k:
            by_a = by_a * inverse - polynomial(t.eta, row) * k
    return by_eta, by_a * inverse * inverse


def _temme(a: Any, x: Any, upper: bool) -> Any:
    from calor.functions.error_functions import erfc

    t = _around(a, x)
    side = t.eta if upper else -t.eta
    far = e.exp(-(t.half_square * a)) / e.sqrt(a * (2 * math.pi)) * _temme_sum(t)
    main = erfc(side * e.sqrt(a * 0.5)) * 0.5
    return main + far if upper else main - far


def _temme_slope(a: Any, x: Any) -> Any:
    """Return ∂Q/∂a."""
    t = _around(a, x)
    total = _temme_sum(t)
    by_eta, by_a = _temme_slopes(t)
    bracket = t.ratio - t.eta * 0.5
    bracket = bracket + total * (e.log1p(t.mu) - 0.5 / a) + by_a - by_eta * t.ratio / a
    return e.exp(-(t.half_square * a)) / e.sqrt(a * (2 * math.pi)) * bracket


def _density(a: Any, x: Any) -> Any:
    """Return xᵃ exp(−x) / Γ(a)."""
    # With Stirling's series for large a, whose terms are not differences of large numbers.
    large = e.maximum(a, fill(a, _STIRLING_FROM))
    mu = (x - large) / large
    close = e.abs(mu) < 0.4
    near = e.where(close, mu, fill(mu, 0))
    rest = near * near * fitted(near, tables.LOG_REST, -0.4, 0.4)
    rest = e.where(close, rest, mu - e.log(x / large))
    far = e.exp(-(rest * large) - stirling(large)) * e.sqrt(large * (0.5 / math.pi))
    small = e.minimum(a, fill(a, _STIRLING_FROM))
    return e.where(a < _STIRLING_FROM, e.exp(small * e.log(x) - x - e.lgamma(small)), far)


def _density_over_shape(a: Any, x: Any, density: Any) -> Any:
    """Return xᵃ exp(−x) / Γ(a + 1), whose parts vanish for the smallest shapes."""
    tiny = a < _TINY
    small = e.where(tiny, a, fill(a, _TINY))
    return e.where(tiny, e.exp(small * e.log(x) - x - e.lgamma(small + 1)), density / a)


def _repeat(step: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
    """Repeat a step while its last element, whether terms still count, is true anywhere."""
    from calor.transforms.control import while_loop

    def unfinished(state: tuple[Any, ...]) -> Any:
        active = state[-1]
        return reductions.any_(active, axes=tuple(range(active.ndim)))

    made: tuple[Any, ...] = while_loop(unfinished, step, state)
    return made


def _series(a: Any, x: Any, wanted: Any, slope: bool) -> tuple[Any, Any]:
    """Return Σ xⁿ / ((a + 1) … (a + n)) and its derivative by a, where wanted."""
    epsilon = _epsilon(x)

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        place, term, rates, total, slopes, active = state
        place = place + 1
        term = term * (x / place)
        total = total + term
        more = term > total * epsilon
        if slope:
            rates = rates - 1 / place
            change = term * rates
            slopes = slopes + change
            more = e.bit_or(more, e.abs(change) > e.abs(slopes) * epsilon)
        return (
            place,
            term,
            rates,
            total,
            slopes,
            e.bit_and(active, e.bit_and(more, place - a < _LIMIT)),
        )

    one, nothing = fill(x, 1), fill(x, 0)
    state = _repeat(step, (a, one, nothing, one, nothing, wanted))
    return state[3], state[4]


def _fraction(a: Any, x: Any, wanted: Any, slope: bool) -> tuple[Any, Any]:
    """Return Γ(a, x) / (xᵃ exp(−x)) and its derivative by a, where wanted."""
    epsilon = _epsilon(x)
    big = 2.0**60 if x.dtype is float32 else 2.0**500

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        n, p0, q0, p1, q1, dp0, dq0, dp1, dq1, value, slopes, active = state
        n = n + 1
        factor = (n + 1 - a) * n
        width = x + 2 - a + n * 2
        p, q = p1 * width - p0 * factor, q1 * width - q0 * factor
        fits = e.not_equal(q, fill(q, 0))
        ratio = e.where(fits, p / e.where(fits, q, fill(q, 1)), value)
        more = e.abs(ratio - value) > e.abs(ratio) * (2 * epsilon)
        scale = e.where(e.abs(p) + e.abs(q) > big, fill(p, 1 / big), fill(p, 1))
        if slope:
            dp = dp1 * width - p1 - dp0 * factor + p0 * n
            dq = dq1 * width - q1 - dq0 * factor + q0 * n
            now = e.where(fits, (dp - ratio * dq) / e.where(fits, q, fill(q, 1)), slopes)
            more = e.bit_or(more, e.abs(now - slopes) > e.abs(now) * (8 * epsilon))
            dp0, dq0, dp1, dq1, slopes = dp1 * scale, dq1 * scale, dp * scale, dq * scale, now
        active = e.bit_and(active, e.bit_and(more, n < _LIMIT))
        return (
            n, p1 * scale, q1 * scale, p * scale, q * scale, dp0, dq0, dp1, dq1, ratio, slopes,
            active,
        )  # fmt: skip

    one, nothing = fill(x, 1), fill(x, 0)
    p1, q1 = x + 1, (x + 2 - a) * x
    state = (
        nothing, one, x, p1, q1, nothing, nothing, nothing, -x, p1 / q1,
        p1 * x / (q1 * q1), wanted,
    )  # fmt: skip
    done = _repeat(step, state)
    return done[9], done[10]


class _Regions(NamedTuple):
    """Where which of the three ways is taken, and operands that suit each elsewhere too."""

    valid: Any
    around: Any
    below: Any
    above: Any
    a: Any
    x: Any


def _regions(a: Any, x: Any) -> _Regions:
    valid = e.bit_and(e.bit_and(a > 0, x > 0), e.bit_and(e.isfinite(a), e.isfinite(x)))
    # Far above the shape Q is 0 in every dtype; the terms of its fraction would overflow.
    valid = e.bit_and(valid, e.bit_not(e.bit_and(x > _FAR, x * 0.25 > a)))
    a, x = (e.where(valid, t, fill(t, 1)) for t in (a, x))
    around = e.bit_and(a > _LARGE, e.abs(x - a) < a * _AROUND)
    above = e.bit_and(e.bit_and(x > 1.1, x > a), e.bit_not(around))
    below = e.bit_not(e.bit_or(around, above))
    return _Regions(valid, e.bit_and(valid, around), below, above, a, x)


def _safe(where: Any, t: Any, other: float) -> Any:
    return e.where(where, t, fill(t, other))


def _complement(a: Any, x: Any) -> Any:
    """Return Q for a ≤ 1 and x ≤ 1.1 (DLMF 8.7.3), where P is close to 1."""
    power, total = fill(x, 1), fill(x, 0)
    for n in range(1, 12 if x.dtype is float32 else 20):
        power = power * (x * (-1 / n))
        total = total + power / (a + n)
    log_gamma = a * (a - 1) * polynomial(a * 2 - 1, LGAMMA_MIDDLE)
    exponent = a * e.log(x) - log_gamma
    return -e.expm1(exponent) - a * e.exp(exponent) * total


def _regularized(a: Any, x: Any, upper: bool) -> Any:
    r = _regions(a, x)
    middle = _temme(_safe(r.around, r.a, 100), _safe(r.around, r.x, 100), upper)
    density = _density(r.a, r.x)
    # P by the series below, Q by the fraction above.
    low_a, low_x = _safe(r.below, r.a, 1), _safe(r.below, r.x, 0.5)
    terms = _series(low_a, low_x, e.bit_and(r.valid, r.below), False)[0]
    low = _density_over_shape(low_a, r.x, density) * terms
    high_a, high_x = _safe(r.above, r.a, 1), _safe(r.above, r.x, 2)
    high = density * _fraction(high_a, high_x, e.bit_and(r.valid, r.above), False)[0]
    if upper:
        early = e.bit_and(e.bit_and(r.below, r.x <= 1.1), e.bit_and(r.a <= 1, low > 0.5))
        close = _complement(_safe(early, r.a, 0.5), _safe(early, r.x, 0.5))
        made = e.where(r.around, middle, e.where(r.below, e.where(early, close, 1 - low), high))
    else:
        made = e.where(r.around, middle, e.where(r.below, low, 1 - high))
    return e.where(r.valid, made, _edges(a, x, upper))


def _edges(a: Any, x: Any, upper: bool) -> Any:
    """Return the values where an operand is 0, negative, infinite or NaN."""
    nothing, everything = fill(x, float(upper)), fill(x, float(not upper))
    nan = fill(x, math.nan)
    zero_x, endless_a = e.equal(x, fill(x, 0)), e.equal(a, fill(a, math.inf))
    made = e.where(e.bit_or(zero_x, endless_a), nothing, everything)
    both_zero = e.bit_and(zero_x, e.equal(a, fill(a, 0)))
    both_endless = e.bit_and(endless_a, e.equal(x, fill(x, math.inf)))
    wrong = e.bit_or(e.bit_or(a < 0, x < 0), e.bit_or(both_zero, both_endless))
    wrong = e.bit_or(wrong, e.bit_or(e.isnan(a), e.isnan(x)))
    return e.where(wrong, nan, made)


def _slope(a: Any, x: Any) -> Any:
    """Return ∂P/∂a."""
    # That of smaller shapes is the same, and 1 / a does not overflow.
    least = e.where(e.bit_and(a > 0, a < _LEAST), fill(a, _LEAST), a)
    r = _regions(least, x)
    middle = -_temme_slope(_safe(r.around, r.a, 100), _safe(r.around, r.x, 100))
    density = _density(r.a, r.x)
    logarithm = e.log(r.x)
    low_a, low_x = _safe(r.below, r.a, 1), _safe(r.below, r.x, 0.5)
    total, change = _series(low_a, low_x, e.bit_and(r.valid, r.below), True)
    change = change + total * (logarithm - e.digamma(low_a + 1))
    low = _density_over_shape(low_a, r.x, density) * change
    high_a, high_x = _safe(r.above, r.a, 1), _safe(r.above, r.x, 2)
    total, change = _fraction(high_a, high_x, e.bit_and(r.valid, r.above), True)
    high = -(density * (change + total * (logarithm - e.digamma(high_a))))
    made = e.where(r.around, middle, e.where(r.below, low, high))
    wrong = e.bit_or(e.bit_or(a < 0, x < 0), e.bit_or(e.isnan(a), e.isnan(x)))
    return e.where(r.valid, made, e.where(wrong, fill(x, math.nan), fill(x, 0)))


def _by_x(a: Any, x: Any) -> Any:
    """Return ∂P/∂x, the density of the gamma distribution; at 0 its limit."""
    zero = e.equal(x, fill(x, 0))
    inside = e.bit_and(e.bit_and(x > 0, a > 0), e.isfinite(x))
    safe = e.where(inside, x, fill(x, 1))
    limit = e.where(a > 1, fill(x, 0), e.where(a < 1, fill(x, math.inf), fill(x, 1)))
    outside = e.where(zero, limit, e.where(e.isinf(x), fill(x, 0), fill(x, math.nan)))
    return e.where(inside, _density(e.where(inside, a, fill(a, 1)), safe) / safe, outside)


@elementwise(
    rules.real_floats,
    _slope,
    no_gradient="calor has no second derivative of the incomplete gamma function by its shape",
    package="special",
)
def gammainc_slope(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the derivative of gammainc by its first operand, the shape.

    Parameters
    ----------
    x1, x2 : Tensor, ndarray or number
        The shape a ≥ 0 and x ≥ 0; shapes that broadcast; any real dtype. Integers are computed in
        the default floating dtype.

    Returns
    -------
    Tensor
        The broadcast shape and common dtype; float32 for integers. It has no gradient.

    Raises
    ------
    DTypeError
        If an operand is complex or float8.
    ShapeError
        If the shapes do not broadcast.

    References
    ----------
    M. Figurnov, S. Mohamed and A. Mnih, "Implicit reparameterization gradients", NeurIPS 2018.

    Examples
    --------
    >>> import calor
    >>> round(calor.special.gammainc_slope(1.0, 2.0).item(), 4)
    -0.2208
    """


_DERIVATIVES = (
    (lambda y, a, x: gammainc_slope(a, x), lambda y, a, x: _by_x(a, x)),
    (lambda y, a, x: -gammainc_slope(a, x), lambda y, a, x: -_by_x(a, x)),
)


@elementwise(
    rules.real_floats,
    lambda a, x: _regularized(a, x, False),
    derivatives=_DERIVATIVES[0],
    saves=("01", "01"),
    package="special",
)
def gammainc(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the regularized lower incomplete gamma function P(a, x).

    It is the probability that a gamma-distributed number of shape a is below x.

    Parameters
    ----------
    x1, x2 : Tensor, ndarray or number
        The shape a ≥ 0 and x ≥ 0; shapes that broadcast; any real dtype. Integers are computed in
        the default floating dtype.

    Returns
    -------
    Tensor
        Values in [0, 1]; the broadcast shape and common dtype; float32 for integers. NaN for
        negative operands.

    Raises
    ------
    DTypeError
        If an operand is complex or float8.
    ShapeError
        If the shapes do not broadcast.

    See Also
    --------
    gammaincc : The complement, accurate where it is small.

    References
    ----------
    NIST Digital Library of Mathematical Functions, 8.2.4; N. M. Temme, "The asymptotic expansion of
    the incomplete gamma functions", SIAM Journal on Mathematical Analysis 10, 1979.

    Examples
    --------
    >>> import calor
    >>> calor.special.gammainc(1.0, calor.asarray([0.0, calor.inf])).tolist()
    [0.0, 1.0]
    """


@elementwise(
    rules.real_floats,
    lambda a, x: _regularized(a, x, True),
    derivatives=_DERIVATIVES[1],
    saves=("01", "01"),
    package="special",
)
def gammaincc(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the regularized upper incomplete gamma function Q(a, x) = 1 − P(a, x).

    Parameters
    ----------
    x1, x2 : Tensor, ndarray or number
        The shape a ≥ 0 and x ≥ 0; shapes that broadcast; any real dtype. Integers are computed in
        the default floating dtype.

    Returns
    -------
    Tensor
        Values in [0, 1]; the broadcast shape and common dtype; float32 for integers. NaN for
        negative operands.

    Raises
    ------
    DTypeError
        If an operand is complex or float8.
    ShapeError
        If the shapes do not broadcast.

    See Also
    --------
    gammainc : The complement.

    References
    ----------
    NIST Digital Library of Mathematical Functions, 8.2.4.

    Examples
    --------
    >>> import calor
    >>> calor.special.gammaincc(1.0, calor.asarray([0.0, calor.inf])).tolist()
    [1.0, 0.0]
    """
