"""Special functions by series, integrals, recurrences and identities in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.polynomial import chebyshev, hermite, hermite_e, laguerre, legendre

from ...language import Array
from ..drawing import Arguments, Rng, a_shape, fitting, floats, of_one
from .language import Function, Row

# Numbers of a domain are drawn here, so these asks would draw them again.
_SAME: Final = "infinite zeros equal large small limits"


def _numbers(rng: Rng, shape: tuple[int, ...], low: float, high: float) -> Array:
    made = rng.uniform(low, high, shape)
    if rng.ask == "ties":
        whole = np.clip(np.round(made), math.ceil(low), math.floor(high))
        made = whole if math.ceil(low) <= math.floor(high) else made
    if rng.ask == "nan":
        made = np.where(rng.random(shape) < 0.3, np.nan, made)
    return np.asarray(made, np.float32)


def _within(*ends: tuple[float, float]) -> Callable[[Rng], Arguments]:
    """Return what draws one tensor between each pair of ends; they broadcast."""

    def drawn(rng: Rng) -> Arguments:
        shape = a_shape(rng)
        shapes = [shape, *(fitting(rng, shape) for _ in ends[1:])]
        return [_numbers(rng, s, *pair) for s, pair in zip(shapes, ends, strict=True)], {}

    return drawn


def _each(function: Callable[..., float]) -> Function:
    def of(*given: float) -> float:
        return math.nan if any(math.isnan(v) for v in given) else function(*given)

    return np.vectorize(of, otypes=[float])


def _sum_of(terms: Function, low: float, high: float, count: int) -> Function:
    """Return an integral by the trapezoid rule, which is exact for smooth periods and tails."""
    places = np.linspace(low, high, count + 1)
    weights = np.full(count + 1, (high - low) / count)
    weights[[0, -1]] /= 2
    return lambda x: (terms(np.asarray(x)[..., None], places) * weights).sum(-1)


def _bessel_i(n: int, scaled: bool) -> Function:
    return _sum_of(
        lambda x, t: np.exp(x * np.cos(t) - (np.abs(x) if scaled else 0)) * np.cos(n * t) / math.pi,
        0.0, math.pi, 200,
    )  # fmt: skip


def _bessel_j(n: int) -> Function:
    return _sum_of(lambda x, t: np.cos(n * t - x * np.sin(t)) / math.pi, 0.0, math.pi, 200)


def _bessel_k(n: int, scaled: bool) -> Function:
    return _sum_of(
        lambda x, t: np.exp(-x * (np.cosh(t) - (1 if scaled else 0))) * np.cosh(n * t),
        0.0, 9.0, 900,
    )  # fmt: skip


def _wronskian(package: Any, x: Any) -> Any:
    return package.j1(x) * package.y0(x) - package.j0(x) * package.y1(x)


def _zeta(s: float, q: float) -> float:
    """Return the sum of (q + k)^−s by the formula of Euler and Maclaurin."""
    n = 20
    a = q + n
    made = sum((q + k) ** -s for k in range(n)) + a ** (1 - s) / (s - 1) + 0.5 * a**-s
    return float(made + s * a ** (-s - 1) / 12 - s * (s + 1) * (s + 2) * a ** (-s - 3) / 720)


def _digamma(x: float) -> float:
    if x <= 0:
        return _digamma(1 - x) - math.pi / math.tan(math.pi * x)
    lower = sum(1 / (x + k) for k in range(20))
    z = x + 20
    return math.log(z) - 0.5 / z - 1 / (12 * z**2) + 1 / (120 * z**4) - lower


def _lower_gamma(a: float, x: float) -> float:
    """Return the share of the gamma function below x, by its series."""
    if x == 0:
        return 0.0
    term = made = 1.0
    for k in range(1, 400):
        term *= x / (a + k)
        made += term
        if term < 1e-17 * made:
            break
    return made * math.exp(a * math.log(x) - x - math.lgamma(a + 1))


def _lower_slope(a: float, x: float) -> float:
    step = 1e-4
    return (_lower_gamma(a + step, x) - _lower_gamma(a - step, x)) / (2 * step)


def _airy(x: float) -> float:
    """Return Ai(x) by its series about 0."""
    f = g = 0.0
    up, across = 1.0, x
    for k in range(60):
        f, g = f + up, g + across
        up *= x**3 / ((3 * k + 2) * (3 * k + 3))
        across *= x**3 / ((3 * k + 3) * (3 * k + 4))
    return f * 0.355028053887817239 - g * 0.258819403792806798


def _of_degree(n: int) -> list[float]:
    return [0.0] * n + [1.0]


def _recurred(first: Function) -> Function:
    """Return the polynomials whose next is 2x times one less the one before."""

    def meaning(x: Array, n: int) -> Any:
        before, now = np.ones_like(x), first(x)
        for _ in range(n):
            before, now = now, 2 * x * now - before
        return before

    return meaning


def _degrees(low: float, high: float) -> Callable[[Rng], Arguments]:
    def drawn(rng: Rng) -> Arguments:
        return [_numbers(rng, a_shape(rng), low, high), int(rng.integers(0, 9))], {}

    return drawn


_POLYNOMIALS: Final[dict[str, Function]] = {
    "chebyshev_polynomial_t": lambda x, n: chebyshev.chebval(x, _of_degree(n)),
    "chebyshev_polynomial_u": _recurred(lambda x: 2 * x),
    "chebyshev_polynomial_v": _recurred(lambda x: 2 * x - 1),
    "chebyshev_polynomial_w": _recurred(lambda x: 2 * x + 1),
    "hermite_polynomial_h": lambda x, n: hermite.hermval(x, _of_degree(n)),
    "hermite_polynomial_he": lambda x, n: hermite_e.hermeval(x, _of_degree(n)),
    "laguerre_polynomial_l": lambda x, n: laguerre.lagval(x, _of_degree(n)),
    "legendre_polynomial_p": lambda x, n: legendre.legval(x, _of_degree(n)),
}


def _shifted(of: Function) -> Function:
    return lambda x, n: of(2 * x - 1, n)


def _orders(rng: Rng) -> Arguments:
    return [int(rng.integers(1, 5)), _numbers(rng, a_shape(rng), 0.5, 9)], {}


def _entr(x: Array) -> Any:
    inside = np.where(x > 0, x, 1)
    return np.where(x > 0, -x * np.log(inside), np.where(x == 0, 0.0, np.where(x < 0, -np.inf, x)))


def _sphere(x: Array) -> Any:
    return np.where(np.isinf(x), 0.0, np.sinc(x / math.pi))


def _polygamma(n: int, x: float) -> float:
    """Return the derivative of order n by its sum, which has the sign of its terms below 0."""
    terms = sum((x + k) ** -(n + 1) for k in range(20))
    return float((-1) ** (n + 1) * math.factorial(n) * (terms + _zeta(n + 1.0, x + 20)))


def _below(rng: Rng) -> Arguments:
    whole = rng.integers(-6, 0, a_shape(rng))
    inside = whole + rng.uniform(0.2, 0.8, whole.shape)
    return [int(rng.integers(1, 5)), np.asarray(inside, np.float32)], {}


def _far_bell(x: float) -> float:
    if x > -30:
        return math.log(math.erfc(-x / math.sqrt(2)) / 2)
    series = 1 - 1 / x**2 + 3 / x**4 - 15 / x**6
    return -x * x / 2 - math.log(-x * math.sqrt(2 * math.pi)) + math.log(series)


def _far_tail(x: float) -> float:
    return (1 - 1 / (2 * x * x) + 3 / (4 * x**4)) / (x * math.sqrt(math.pi))


def _tiny(rng: Rng) -> Arguments:
    return [np.asarray(10.0 ** rng.uniform(-30, -2, a_shape(rng)), np.float32)], {}


# Where other series, tables and reflections hold than about the middle.
_FAR: Final[list[Row]] = [
    Row("polygamma", _below, lambda n, x: np.vectorize(_polygamma, otypes=[float])(n, x),
        "below 0", near=2e-4),
    *(Row("digamma", _within((low, low + 0.5)), _each(_digamma), f"about {low}", near=2e-4)
      for low in (-0.75, -8.75)),
    *(Row("gammaln", _within((low, low + 0.5)), _each(math.lgamma), f"about {low}", near=1e-4)
      for low in (-0.75, -4.75)),
    Row("gammaln", _within((20, 400)), _each(math.lgamma), "far"),
    Row("digamma", _within((20, 400)), _each(_digamma), "far"),
    Row("betaln", _within((20, 200), (0.2, 200)), _each(
        lambda a, b: math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)), "far", near=2e-4),
    Row("zeta", _within((1.05, 1.5), (0.5, 60)), _each(_zeta), "near 1", near=1e-4),
    Row("zeta", _within((9, 30), (0.5, 60)), _each(_zeta), "far", near=1e-4),
    *(Row(name, _within((20, 70)), of, "far", near=1e-4) for name, of in (
        ("i0", _bessel_i(0, False)), ("i1", _bessel_i(1, False)), ("i0e", _bessel_i(0, True)),
        ("i1e", _bessel_i(1, True)), ("j0", _bessel_j(0)), ("j1", _bessel_j(1)))),
    *(Row(name, _within((0.01, 0.2)), of, "near 0", near=1e-4) for name, of in (
        ("k0", _bessel_k(0, False)), ("k1", _bessel_k(1, False)), ("k0e", _bessel_k(0, True)))),
    *(Row(name, _within((9, 60)), of, "far") for name, of in (
        ("k0e", _bessel_k(0, True)), ("k1e", _bessel_k(1, True)))),
    Row("y0", _within((20, 60)), lambda x: 2 / (math.pi * x), "far", call=_wronskian),
    Row("ndtri", _tiny, lambda p: np.log(p), "far", call=lambda p, x: p.log_ndtr(p.ndtri(x)),
        near=1e-4),
    Row("erfinv", _within((0.99, 0.9999)), np.asarray, "far",
        call=lambda p, x: p.erf(p.erfinv(x))),
    Row("erfinv", _within((-0.9999, -0.99)), np.asarray, "far below",
        call=lambda p, x: p.erf(p.erfinv(x))),
    Row("log_ndtr", _within((-80, -9)), _each(_far_bell), "far", near=1e-5, smooth=True),
    Row("erfcx", _within((12, 900)), _each(_far_tail), "far"),
    Row("gammainc", _within((20, 100), (20, 100)), _each(_lower_gamma), "far", near=2e-4),
    Row("gammaincc", _within((20, 100), (20, 100)), _each(
        lambda a, x: 1 - _lower_gamma(a, x)), "far", near=2e-4),
]  # fmt: skip
# Of degree 0, polynomials are 1 at NaN for some and NaN for others.
_ROWS: Final[list[Row]] = [
    *(Row(name, _within((-9, 9)), of, smooth=True) for name, of in (
        ("i0", _bessel_i(0, False)), ("i1", _bessel_i(1, False)), ("i0e", _bessel_i(0, True)),
        ("i1e", _bessel_i(1, True)), ("j0", _bessel_j(0)), ("j1", _bessel_j(1)))),
    *(Row(name, _within((0.2, 9)), of, smooth=True) for name, of in (
        ("k0", _bessel_k(0, False)), ("k1", _bessel_k(1, False)), ("k0e", _bessel_k(0, True)),
        ("k1e", _bessel_k(1, True)), ("digamma", _each(_digamma)),
        ("gammaln", _each(math.lgamma)))),
    *(Row(name, _within((0.2, 9)), lambda x: 2 / (math.pi * x), call=_wronskian)
      for name in ("y0", "y1")),
    Row("digamma", _within((-3.8, -3.2)), _each(_digamma), "by reflection", near=1e-4),
    Row("airy_ai", _within((-4, 4)), _each(_airy)),
    Row("erf", _within((-4, 4)), _each(math.erf), smooth=True),
    Row("erfc", _within((-4, 4)), _each(math.erfc), smooth=True),
    Row("erfcx", _within((-3, 9)), _each(lambda v: math.exp(v * v) * math.erfc(v)), smooth=True),
    Row("ndtr", _within((-5, 5)), _each(lambda v: math.erfc(-v / math.sqrt(2)) / 2), smooth=True),
    Row("log_ndtr", _within((-9, 5)),
        _each(lambda v: math.log(math.erfc(-v / math.sqrt(2)) / 2)), smooth=True),
    Row("erfinv", _within((-0.99, 0.99)), np.asarray, call=lambda p, x: p.erf(p.erfinv(x))),
    Row("ndtri", _within((0.01, 0.99)), np.asarray, call=lambda p, x: p.ndtr(p.ndtri(x))),
    Row("logit", _within((0.02, 0.98)), lambda x: np.log(x / (1 - x)), smooth=True),
    Row("gammainc", _within((0.2, 9), (0, 12)), _each(_lower_gamma)),
    Row("gammaincc", _within((0.2, 9), (0, 12)), _each(lambda a, x: 1 - _lower_gamma(a, x))),
    Row("gammainc_slope", _within((0.3, 9), (0.1, 12)), _each(_lower_slope), near=1e-4),
    Row("betaln", _within((0.2, 9), (0.2, 9)), _each(
        lambda a, b: math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)), smooth=True),
    Row("zeta", _within((1.5, 9), (0.5, 9)), _each(_zeta)),
    Row("polygamma", _orders, lambda n, x: (-1) ** (n + 1) * math.factorial(n) * _each(_zeta)(
        n + 1.0, x)),
    Row("multigammaln", lambda rng: ([_numbers(rng, a_shape(rng), 1.5, 9), 3], {}), _each(
        lambda x, d: 1.5 * math.log(math.pi) + sum(math.lgamma(x - j / 2) for j in range(3)))),
    *(Row(name, _degrees(-1, 1), of, smooth=True, near=1e-4, without="nan")
      for name, of in _POLYNOMIALS.items()),
    *(Row(f"shifted_{name}", _degrees(0, 1), _shifted(of), smooth=True, near=1e-4,
        without="nan")
      for name, of in _POLYNOMIALS.items() if name.startswith("cheb")),
    Row("xlogy", _within((-1, 1), (0, 1)), lambda x, y: np.where(
        (x == 0) & (y == y), 0.0, x * np.log(y))),
    Row("xlog1py", _within((-3, 3), (-0.5, 5)), lambda x, y: np.where(
        (x == 0) & (y == y), 0.0, x * np.log1p(y))),
]  # fmt: skip
ROWS: Final[list[Row]] = [
    *(replace(row, without=f"{row.without} {_SAME}".strip()) for row in _ROWS),
    *(replace(row, without=f"{_SAME} nan ties", least=2) for row in _FAR),
    Row("entr", of_one(floats), _entr),
    Row("sinc", of_one(floats), np.sinc, without="large infinite"),
    Row("spherical_j0", of_one(floats), _sphere, without="large"),
    Row("logaddexp2", lambda rng: ([floats(rng, (s := a_shape(rng))), floats(rng, s)], {}),
        np.logaddexp2),
]  # fmt: skip
