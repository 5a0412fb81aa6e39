"""Special functions: Bessel, gamma, zeta, Airy, normal quantile, orthogonal polynomials.

Names are those of SciPy and JAX; those that core has are here too. Every function computes in
float32 or float64 (half types in float32), on every device, and is exact at its ends: infinities,
zeros and poles have the values of their limits.
"""

from calor.functions.error_functions import erfc, erfcx, log_ndtr, ndtr
from calor.functions.logarithms import logaddexp2, logit, xlog1py, xlogy
from calor.functions.signals import sinc
from calor.functions.special import digamma, erf, erfinv
from calor.functions.special import lgamma as gammaln
from calor.keywords import explain as _explain
from calor_special.bessel import airy_ai, j0, j1, spherical_j0, y0, y1
from calor_special.gamma_functions import betaln, multigammaln
from calor_special.incomplete_gamma import gammainc, gammainc_slope, gammaincc
from calor_special.modified_bessel import i0, i0e, i1, i1e, k0, k0e, k1, k1e
from calor_special.normal import entr, ndtri
from calor_special.orthogonal import (
    chebyshev_polynomial_t,
    chebyshev_polynomial_u,
    chebyshev_polynomial_v,
    chebyshev_polynomial_w,
    hermite_polynomial_h,
    hermite_polynomial_he,
    laguerre_polynomial_l,
    legendre_polynomial_p,
    shifted_chebyshev_polynomial_t,
    shifted_chebyshev_polynomial_u,
    shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w,
)
from calor_special.zeta_functions import polygamma, zeta

__all__ = [
    "airy_ai",
    "betaln",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "gammainc",
    "gammainc_slope",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "j0",
    "j1",
    "k0",
    "k0e",
    "k1",
    "k1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log_ndtr",
    "logaddexp2",
    "logit",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "spherical_j0",
    "xlog1py",
    "xlogy",
    "y0",
    "y1",
    "zeta",
]

_explain(globals(), "calor_special.")
