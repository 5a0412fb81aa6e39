"""The complementary error function, scaled or not, and the normal distribution function, in NumPy.

Requirements: those of :mod:`calor.reference.special`. All are made of one polynomial,
(x + 1/2) · exp(x²) · erfc(x) of t = (x − 3) / (x + 3), which maps [0, ∞) to [−1, 1) (M. M. Shepherd
and J. G. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x²) erfc x in 0 ≤ x < ∞",
Mathematics of Computation 36, 1981); ``fit_special.py`` beside the tests makes it. Squares in
exponents are split, so that the tails keep their digits.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from calor.reference.precision import Array
from calor.reference.special import erf, in_float64, pieces, polynomial

# (x + 1/2) exp(x²) erfc(x) of t in [−1, 1]: 9e-17; and the shorter one for float32: 7e-9.
ERFCX: Final = (
    0.6265040291348648, -0.0678105530622906, -0.023781147176709486, 0.06482257935138132,
    -0.05963683170840797, 0.03415401367196072, -0.011885257445331136, 0.0012646959083998314,
    0.0009443450454166452, -0.00038991613863712736, -5.257914042733627e-05,
    6.254968717957911e-05, 2.472015607441464e-06, -1.0050313832203054e-05,
    -3.593074698151811e-07, 1.7362601400327595e-06, 1.6824516982649127e-07,
    -3.083854746775482e-07, -6.019356961808263e-08, 5.097858687895447e-08,
    1.3889530799854317e-08, -6.680976652202009e-09, -1.584796019776761e-09,
    4.974410473768597e-10,
)  # fmt: skip
ERFCX_FLOAT32: Final = (
    0.626504, -0.06781055, -0.023781078, 0.06482236, -0.05963764, 0.0341566, -0.01188178,
    0.0012533893, 0.00093753013, -0.00036704104, -4.6268844e-05, 4.0037274e-05,
)  # fmt: skip
# Beyond, exp(−x²) is 0 and the tail below the smallest number.
END: Final = 40.0
# From here on t is 1.
FAR: Final = 1e17


def _scaled(x: Array) -> Array:
    """Return exp(x²) · erfc(x) for x ≥ 0."""
    near = np.minimum(x, FAR)
    t = (near - 3.0) / (near + 3.0)
    return np.asarray(polynomial(ERFCX, t) / (x + 0.5))


def _power(x: Array, factor: float) -> Array:
    """Return exp(factor · x²) to the last digits: the square of the leading digits is exact."""
    lead = np.floor(x * 64.0) / 64.0
    return np.asarray(np.exp(factor * lead * lead) * np.exp(factor * (x - lead) * (x + lead)))


def _tail(x: Array, factor: float) -> Array:
    """Return exp(−factor · x²) · erfcx(√factor · x) for x ≥ 0."""
    inside = np.minimum(x, END)
    return _power(inside, -factor) * _scaled(inside * math.sqrt(factor))


@in_float64
def erfc(x: Array) -> Array:
    """Return 1 − erf(x) (DLMF 7.2.2), within 4 ulp, also where it is close to 0."""
    return pieces(x, 1.0 - erf(x), [(x > 0.5, lambda v: _tail(v, 1.0))])


@in_float64
def erfcx(x: Array) -> Array:
    """Return exp(x²) · erfc(x) (DLMF 7.7), within 5 ulp; +inf for x below −26.7."""
    return pieces(
        x,
        x + np.nan,
        [
            (x >= 0.0, _scaled),
            (x < 0.0, lambda v: 2.0 * _power(np.minimum(-v, END), 1.0) - _scaled(-v)),
        ],
    )


@in_float64
def ndtr(x: Array) -> Array:
    """Return the normal distribution function, erfc(−x / √2) / 2, within 4 ulp."""
    return pieces(
        x,
        0.5 + 0.5 * erf(x * math.sqrt(0.5)),
        [
            (x > 0.7, lambda v: 1.0 - 0.5 * _tail(v, 0.5)),
            (x < -0.7, lambda v: 0.5 * _tail(-v, 0.5)),
        ],
    )


@in_float64
def log_ndtr(x: Array) -> Array:
    """Return the logarithm of ``ndtr``, within 4 ulp."""
    return pieces(
        x,
        np.log1p(-ndtr(-x)),
        [(x < -1.0, lambda v: np.log(0.5 * _scaled(-v * math.sqrt(0.5))) - (0.5 * v) * v)],
    )
