"""The polynomials of ``calor_kernel.library.math``, as fits for ``minimax.py``."""

from __future__ import annotations

import mpmath as mp
from minimax import Fit, Real, away

HALF_LOG2 = float(mp.log(2) / 2) * 1.0001
ROOT = float(mp.sqrt(2))
QUARTER = float(mp.pi / 4) * 1.02


def both(
    function: Real,
    low: float,
    high: float,
    terms: tuple[int, int],
    weight: Real,
    power: int = 1,
) -> list[Fit]:
    """Return the fits of one function for float32 and float64."""
    return [
        Fit(function, low, high, n, weight, b, power) for n, b in zip(terms, (24, 53), strict=True)
    ]


def _one(x: mp.mpf) -> mp.mpf:
    return mp.mpf(1)


def off_zero(function: Real) -> Real:
    """Return the function with its hole at 0 filled from next to it."""
    return lambda x: function(away(x))


def _fade(x: mp.mpf) -> mp.mpf:
    return mp.exp(-((x + 2) ** 2)) / mp.erf(x + 2)


def _erfinv(x: mp.mpf) -> mp.mpf:
    # erfc(y) = 1 − √(1 − exp(−w)), solved by Newton's method on logarithms.
    w = max(x + mp.mpf(5) / 2, mp.mpf(10) ** -20)
    size = mp.sqrt(-mp.expm1(-w))
    rest = mp.exp(-w) / (1 + size)
    if size < 0.5:
        return mp.erfinv(size) / size
    y = mp.sqrt(w)
    for _ in range(100):
        gap = mp.erfc(y)
        step = mp.log(gap / rest) * gap * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
        y += step
        if abs(step) < mp.mpf(10) ** -45:
            break
    return y / size


def _series(x: mp.mpf, first: int, power: int) -> mp.mpf:
    # What is left of the series from a term on.
    terms = (x ** (2 * k - power) / (2 * k + 1) for k in range(first, 40))
    return 2 / mp.log(2) * sum(terms)


# Where digamma is 0 above 0.
ZERO = mp.findroot(mp.digamma, mp.mpf("1.4616321449683623412626595423"))
EXP = off_zero(lambda x: (mp.exp(x) - 1 - x) / x**2)

# Name: what it is, and its fits for float32 and float64.
FITS: dict[str, tuple[str, list[Fit]]] = {
    "exp": (
        "(exp(r) − 1 − r) / r² for |r| ≤ log(2) / 2, relative to exp(r).",
        both(EXP, -HALF_LOG2, HALF_LOG2, (5, 10), lambda x: x**2 / mp.exp(x)),
    ),
    "expm1": (
        "The same relative to exp(|r|) − 1.",
        both(EXP, -HALF_LOG2, HALF_LOG2, (6, 11), lambda x: x**2 / mp.expm1(abs(away(x)))),
    ),
    "exp2": (
        "(2**r − 1) / r for |r| ≤ 1/2.",
        both(
            off_zero(lambda x: (mp.power(2, x) - 1) / x),
            -0.5,
            0.5,
            (6, 12),
            lambda x: x / mp.power(2, x),
        ),
    ),
    "log": (
        "(log(1 + f) − f + f²/2) / f³ of f, for 1 + f in [√½, √2]; (2 atanh(s) − 2 s) / s³ of s².",
        [
            Fit(
                off_zero(lambda x: (mp.log1p(x) - x + x**2 / 2) / x**3),
                ROOT / 2 - 1,
                ROOT - 1,
                8,
                lambda x: x**3 / mp.log1p(away(x)),
                24,
            ),
            Fit(
                off_zero(lambda x: (2 * mp.atanh(x) - 2 * x) / x**3),
                0.0,
                0.1716,
                7,
                lambda x: x**2,
                53,
                2,
            ),
        ],
    ),
    "sin": (
        "(sin(r) − r) / r³ of r², for |r| ≤ π/4.",
        both(
            off_zero(lambda x: (mp.sin(x) - x) / x**3),
            0.0,
            QUARTER,
            (4, 7),
            lambda x: x**3 / mp.sin(away(x)),
            2,
        ),
    ),
    "cos": (
        "(cos(r) − 1 + r²/2) / r⁴ of r², for |r| ≤ π/4.",
        both(
            lambda x: (mp.cos(away(x, 8)) - 1 + away(x, 8) ** 2 / 2) / away(x, 8) ** 4,
            0.0,
            QUARTER,
            (3, 6),
            lambda x: x**4 / mp.cos(x),
            2,
        ),
    ),
    "asin": (
        "(asin(x) − x) / x³ of x², for |x| ≤ 1/2.",
        both(
            off_zero(lambda x: (mp.asin(x) - x) / x**3),
            0.0,
            0.5,
            (5, 12),
            lambda x: x**3 / mp.asin(away(x)),
            2,
        ),
    ),
    "atan": (
        "(atan(x) − x) / x³ of x², for |x| ≤ tan(π/8).",
        both(
            off_zero(lambda x: (mp.atan(x) - x) / x**3),
            0.0,
            0.4143,
            (5, 11),
            lambda x: x**3 / mp.atan(away(x)),
            2,
        ),
    ),
    "sinh": (
        "(sinh(r) − r) / r³ of r², for |r| ≤ log(2) / 2.",
        both(
            off_zero(lambda x: (mp.sinh(x) - x) / x**3),
            0.0,
            HALF_LOG2,
            (3, 6),
            lambda x: x**3 / mp.sinh(away(x)),
            2,
        ),
    ),
    "cosh": (
        "(cosh(r) − 1) / r² of r², for |r| ≤ log(2) / 2.",
        both(
            off_zero(lambda x: (mp.cosh(x) - 1) / x**2),
            0.0,
            HALF_LOG2,
            (3, 6),
            lambda x: x**2,
            2,
        ),
    ),
    "erf_near": (
        "erf(x) / x − 1 of x², for |x| ≤ 1.",
        both(
            off_zero(lambda x: mp.erf(x) / x - 1),
            0.0,
            1.0,
            (7, 14),
            lambda x: x / mp.erf(away(x)),
            2,
        ),
    ),
    "erf_far": (
        "exp(x²) · (1 − erf(x)) of x − 2, for x in [1, 4] and [1, 6], relative to erf.",
        [
            Fit(lambda x: mp.exp((x + 2) ** 2) * mp.erfc(x + 2), -1.0, 2.0, 9, _fade, 24),
            Fit(lambda x: mp.exp((x + 2) ** 2) * mp.erfc(x + 2), -1.0, 4.0, 22, _fade, 53),
        ],
    ),
    "erfinv_middle": (
        "erfinv(x) / x of w − 5/2, where w = −log(1 − x²), for w up to 5, and to 25/4.",
        [
            Fit(_erfinv, -2.5, 2.5, 11, _one, 24),
            Fit(_erfinv, -2.5, 3.75, 25, _one, 53),
        ],
    ),
    "erfinv_tail": (
        "The same of √w − 3, for w in [5, 17], and in [25/4, 16].",
        [
            Fit(lambda x: _erfinv((x + 3) ** 2 - 2.5), -0.77, 1.13, 11, _one, 24),
            Fit(lambda x: _erfinv((x + 3) ** 2 - 2.5), -0.51, 1.01, 21, _one, 53),
        ],
    ),
    "erfinv_end": (
        "The same of √w − 5, for w in [16, 37]; float32 ends before.",
        [Fit(lambda x: _erfinv((x + 5) ** 2 - 2.5), -1.01, 1.1, 20, _one, 53)],
    ),
    "lgamma": (
        "(log Γ(2 + u) − u · digamma(2)) / u², for |u| ≤ 1/2.",
        both(
            off_zero(lambda x: (mp.loggamma(2 + x) / x - mp.digamma(2)) / x),
            -0.5,
            0.5,
            (9, 18),
            lambda x: x**2 / mp.loggamma(2 + away(x)),
        ),
    ),
    "digamma": (
        "digamma(x) / (x − x₀) of x − 3/2, for x in [1, 2], where x₀ is its zero.",
        both(
            lambda x: mp.digamma(x + 1.5) / (x + 1.5 - ZERO),
            -0.5,
            0.5,
            (11, 23),
            lambda x: (x + 1.5 - ZERO) / mp.digamma(x + 1.5),
        ),
    ),
    "power": (
        "Of 2 atanh(s) / (s log 2) what comes after the term in s² (s⁴), of s², over s⁴ (s⁶).",
        [
            Fit(lambda x: _series(x, 2, 4), 0.0, 0.1717, 3, lambda x: x**4, 24, 2),
            Fit(lambda x: _series(x, 3, 6), 0.0, 0.1717, 7, lambda x: x**6, 53, 2),
        ],
    ),
    "tanh": (
        "(tanh(x) − x) / x³ of x², for |x| ≤ 0.8; float64 takes another way.",
        [
            Fit(
                off_zero(lambda x: (mp.tanh(x) - x) / x**3),
                0.0,
                0.8,
                6,
                lambda x: x**3 / mp.tanh(away(x)),
                24,
                2,
            ),
        ],
    ),
}
