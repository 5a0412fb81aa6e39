"""The exponential of what is at most 0, as attention needs it.

Requirements: within an ulp where the result is a normal number, and 0 below: beside the largest
weight of a row, which is 1, nothing smaller counts. Without the ends that the function of the
library has to serve, it costs a third less.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import float32, float64
from calor_kernel.language import bitcast, fma, select
from calor_kernel.library.math.base import exactly, format_of, polynomial
from calor_kernel.library.math.coefficients import EXP
from calor_kernel.library.math.exponential import LOG2_E, LOG_2

# Where the result is no normal number any more.
_ENDS = {float32: -87.0, float64: -708.0}


@exactly
def weight(x: Any) -> Any:
    """Return e**x of x ≤ 0, within an ulp; NaN for NaN, and 0 for what is next to nothing."""
    form = format_of(x)
    # The integer nearest to x / log 2, moved up by the bias, is in the low bits of the sum.
    magic = form.magic + form.bias
    total = fma(x, LOG2_E, magic)
    n = total - magic
    first, second = LOG_2[form.number]
    r = fma(n, -second, fma(n, -first, x))
    p = fma(r * r, polynomial(r, EXP[form.number]), r) + 1.0
    power = bitcast(bitcast(total, form.signed) << form.fraction, form.dtype)
    return select(x < _ENDS[form.dtype], 0.0, p * power)
