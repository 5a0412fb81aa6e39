"""Mathematical functions as functions of the kernel language, the same bits on every device."""

from calor_kernel.library.math.exponential import exp, exp2, expm1
from calor_kernel.library.math.logarithm import log, log1p, log2, log10

__all__ = ["exp", "exp2", "expm1", "log", "log1p", "log2", "log10"]
