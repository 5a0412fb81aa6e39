"""Rows of the mathematical functions."""

from __future__ import annotations

from calor_kernel.library import math
from calor_kernel.library.elementwise.operations import row

row("exp")(math.exp)
row("exp2")(math.exp2)
row("expm1")(math.expm1)
row("log")(math.log)
row("log2")(math.log2)
row("log10")(math.log10)
row("log1p")(math.log1p)
