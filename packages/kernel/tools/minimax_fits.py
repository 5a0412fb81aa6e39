"""The polynomials of ``calor_kernel.library.math``, as fits for ``minimax.py``."""

from __future__ import annotations

import mpmath as mp
from minimax import Fit, Real, away

HALF_LOG2 = float(mp.log(2) / 2) * 1.0001
ROOT = float(mp.sqrt(2))


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
        "(sin(r) − r) / r³ as polynomial of r², for |r| ≤ π/2.",
        both(
            off_zero(lambda x: (mp.sin(x) - x) / x**3),
            0.0,
            float(mp.pi / 2) * 1.02,
            (5, 9),
            lambda x: x**3 / mp.sin(away(x)),
            2,
        ),
    ),
}
