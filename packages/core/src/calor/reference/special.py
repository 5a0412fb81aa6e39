"""Special functions in NumPy, accurate to a few units in the last place of float64.

Requirements: no dependency on SciPy, whose results differ between versions; float32 is computed
in float64 and so right to the last place; half types go through float32. The polynomials are in
``special_coefficients``; definitions and identities are from the NIST Digital Library of
Mathematical Functions (DLMF).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from calor.reference import special_coefficients as table
from calor.reference.precision import FLOAT64, Array, through_float32

_HALF_LOG_TWO_PI: Final = 0.9189385332046727418
_LOG_PI: Final = 1.1447298858494001741
# B(2k) / (2k (2k - 1)) and B(2k) / 2k: the asymptotic series of log gamma and digamma.
_STIRLING: Final = (
    1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400,
    43867 / 244188, -174611 / 125400,
)  # fmt: skip
_DIGAMMA_SERIES: Final = (
    1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160,
    43867 / 14364, -174611 / 6600,
)  # fmt: skip

Piece = tuple[Array, Callable[[Array], Array]]


def polynomial(coefficients: Sequence[float], t: Array) -> Array:
    """Return the polynomial, its constant first, by Horner's rule."""
    result = np.full(t.shape, coefficients[-1])
    for c in coefficients[-2::-1]:
        result *= t
        result += c
    return result


def pieces(x: Array, otherwise: Array, parts: Sequence[Piece]) -> Array:
    """Return each function where its mask holds; masks exclude each other."""
    result = otherwise
    for mask, function in parts:
        if mask.any():
            result[mask] = function(x[mask])
    return result


def in_float64(function: Callable[[Array], Array]) -> Callable[..., Array]:
    """Make a function of flat float64 arrays one of any shape and floating dtype."""

    def wide(x: Array) -> Array:
        flat = function(x.astype(FLOAT64).reshape(-1))
        return flat.reshape(x.shape).astype(x.dtype)

    wide.__name__, wide.__doc__ = function.__name__, function.__doc__
    return through_float32(wide)


@in_float64
def erf(x: Array) -> Array:
    """Return the error function (DLMF 7.2.1), within 2 ulp."""
    size = np.abs(x)
    result = pieces(
        size,
        np.where(np.isnan(x), x, 1.0),
        [(size <= 1.0, _erf_near), ((size > 1.0) & (size < 6.0), _erf_far)],
    )
    return np.copysign(result, x)


def _erf_near(x: Array) -> Array:
    return x * polynomial(table.ERF_NEAR, 2.0 * x * x - 1.0)


def _erf_far(x: Array) -> Array:
    t = (x - 2.5) / (x + 2.5) / 0.4375
    return np.asarray(1.0 - np.exp(-x * x) * polynomial(table.ERFC_FAR, t))


@in_float64
def erfinv(x: Array) -> Array:
    """Return the inverse of the error function, within 4 ulp; ±inf at ±1 and NaN beyond."""
    size = np.abs(x)
    result = pieces(
        size,
        np.where(size == 1.0, np.inf, np.nan),
        [
            (size * size <= 0.5, lambda s: s * polynomial(table.ERFINV_NEAR, 4.0 * s * s - 1.0)),
            ((size * size > 0.5) & (size < 1.0), _erfinv_tail),
        ],
    )
    return np.copysign(result, x)


def _erfinv_tail(x: Array) -> Array:
    s = np.sqrt(-np.log(1.0 - x))
    near = polynomial(table.ERFINV_TAIL, (s - 1.78125) / 0.71875)
    return s * np.where(s < 2.5, near, polynomial(table.ERFINV_END, (s - 4.3125) / 1.8125))


@in_float64
def lgamma(x: Array) -> Array:
    """Return log |Γ(x)| (DLMF 5.2); +inf at 0, the negative integers and ±inf.

    It is within 4 ulp for x > −0.5. Below, where Γ is computed by reflection (DLMF 5.5.3) and
    log |Γ| has a zero in every half unit, the absolute error is within 4 ulp of the larger of 1
    and log Γ(−x).
    """
    pole = (x <= 0.0) & (x == np.floor(x))
    return pieces(
        x,
        np.where(np.isnan(x), x, np.inf),
        [
            (np.abs(x) < 0.5, lambda v: _lgamma_of_one_plus(v) - np.log(np.abs(v))),
            ((x >= 0.5) & (x < 3.0), lambda v: _lgamma_of_one_plus(v - 1.0)),
            ((x >= 3.0) & (x < 8.0), _lgamma_shifted),
            ((x >= 8.0) & (x < np.inf), _lgamma_large),
            ((x <= -0.5) & ~pole, _lgamma_reflected),
        ],
    )


def _lgamma_of_one_plus(z: Array) -> Array:
    """Return log Γ(1 + z) for z in [−0.5, 2]; the factors z and z − 1 are its zeros."""
    ratio = pieces(
        z,
        np.empty(z.shape),
        [
            (z < 0.0, lambda v: polynomial(table.LGAMMA_LOW, 4.0 * v + 1.0)),
            ((z >= 0.0) & (z < 1.0), lambda v: polynomial(table.LGAMMA_MIDDLE, 2.0 * v - 1.0)),
            (z >= 1.0, lambda v: polynomial(table.LGAMMA_HIGH, 2.0 * v - 3.0)),
        ],
    )
    # Adding 0 makes the zero at z = 0 positive.
    return z * (z - 1.0) * ratio + 0.0


def _lgamma_shifted(x: Array) -> Array:
    product = np.ones(x.shape)
    for k in range(1, 6):
        product = np.where(x - k >= 2.0, product * (x - k), product)
    return _lgamma_of_one_plus(x - np.floor(x) + 1.0) + np.log(product)


def _lgamma_large(x: Array) -> Array:
    series = polynomial(_STIRLING, (1.0 / x) ** 2) / x
    return np.asarray((x - 0.5) * (np.log(x) - 1.0) + (_HALF_LOG_TWO_PI - 0.5 + series))


def _lgamma_reflected(x: Array) -> Array:
    turn = np.abs(np.sin(np.pi * (x - np.rint(x))))
    return np.asarray(_LOG_PI - np.log(np.abs(x) * turn) - lgamma(-x))


@in_float64
def digamma(x: Array) -> Array:
    """Return the derivative of log Γ (DLMF 5.2.2).

    It is within 4 ulp for x > 0. Below 0, by reflection (DLMF 5.5.4), the absolute error is within
    4 ulp of the larger of 1 and the terms π cot πx and digamma(1 − x). At ±0 the result is ∓inf,
    at the negative integers NaN, as is −inf.
    """
    result = np.where(x == np.inf, x, np.nan)
    result = np.where(x == 0.0, np.copysign(np.inf, -x), result)
    pole = (x <= 0.0) & (x == np.floor(x))
    return pieces(
        x,
        result,
        [
            ((x > 0.0) & (x < 1.0), lambda v: _digamma_unit(v + 1.0) - 1.0 / v),
            ((x >= 1.0) & (x < 12.0), _digamma_shifted),
            ((x >= 12.0) & (x < np.inf), _digamma_large),
            ((x < 0.0) & ~pole, _digamma_reflected),
        ],
    )


def _digamma_unit(x: Array) -> Array:
    """Return digamma in [1, 2] as its zero's factor times a polynomial."""
    high, low = table.DIGAMMA_ZERO
    return ((x - high) - low) * polynomial(table.DIGAMMA, 2.0 * x - 3.0)


def _digamma_shifted(x: Array) -> Array:
    total = np.zeros(x.shape)
    for k in range(10, 0, -1):
        total = np.where(x - k >= 1.0, total + 1.0 / (x - k), total)
    return _digamma_unit(x - np.floor(x) + 1.0) + total


def _digamma_large(x: Array) -> Array:
    square = (1.0 / x) ** 2
    return np.log(x) - 0.5 / x - square * polynomial(_DIGAMMA_SERIES, square)


def _digamma_reflected(x: Array) -> Array:
    return digamma(1.0 - x) - math.pi / np.tan(np.pi * (x - np.rint(x)))
