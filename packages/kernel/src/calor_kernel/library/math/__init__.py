"""Mathematical functions in the kernel language, with the same bits on every device.

Arguments and results are float32 or float64, scalars or vectors of any width. :data:`BOUNDS` states
the largest error of each.
"""

from calor_kernel.library.math.base import BOUNDS, Bound, within
from calor_kernel.library.math.circular import acos, asin, atan, atan2, cos, sin, tan
from calor_kernel.library.math.exponential import exp, exp2, expm1, log, log1p, log2, log10
from calor_kernel.library.math.hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from calor_kernel.library.math.power import floor_divide, fmod, hypot, logaddexp, power, remainder
from calor_kernel.library.math.special import digamma, erf, erfinv, lgamma

__all__ = [
    "BOUNDS",
    "Bound",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cos",
    "cosh",
    "digamma",
    "erf",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "floor_divide",
    "fmod",
    "hypot",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "power",
    "remainder",
    "sin",
    "sinh",
    "tan",
    "tanh",
    "within",
]
