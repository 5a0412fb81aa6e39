"""The reduction family: sums, extremes, places and truths over axes, and what is made of rows."""

from __future__ import annotations

from calor_kernel.library.reduce.fusing import RowFuser
from calor_kernel.library.reduce.lowering import lower_composite, lower_reduction

__all__ = ["RowFuser", "lower_composite", "lower_reduction"]
