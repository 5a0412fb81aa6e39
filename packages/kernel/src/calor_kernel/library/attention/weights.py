"""The exponential of numbers up to 0, for the weights of attention.

Requirements: within an ulp for normal results, and 0 below: the largest weight of a row is 1, so
smaller numbers do not matter. Without the range checks of the library's function it costs a third
less.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import float32, float64
from calor_kernel.language import bitcast, fma, select
from calor_kernel.library.math.base import exactly, format_of, polynomial
from calor_kernel.library.math.coefficients import EXP
from calor_kernel.library.math.exponential import LOG2_E, LOG_2

# Below these the result is subnormal.
_ENDS = {float32: -87.0, float64: -708.0}


@exactly
def weight(x: Any) -> Any:
    """Return e**x of x ≤ 0, within an ulp; NaN for NaN, and 0 for subnormal results."""
    form = format_of(x)
    # The low bits of the sum hold the integer nearest to x / log 2, plus the bias.
    magic = form.magic + form.bias
    total = fma(x, LOG2_E, magic)
    n = total - magic
    first, second = LOG_2[form.number]
    r = fma(n, -second, fma(n, -first, x))
    p = fma(r * r, polynomial(r, EXP[form.number]), r) + 1.0
    power = bitcast(bitcast(total, form.signed) << form.fraction, form.dtype)
    return select(x < _ENDS[form.dtype], 0.0, p * power)
