"""The reduction family: sums, extremes, their indices, truths, softmax and norms."""

from __future__ import annotations

from calor_kernel.library.reduce.lowering import lower_composite, lower_reduction
from calor_kernel.library.reduce.row_fuser import RowFuser

__all__ = ["RowFuser", "lower_composite", "lower_reduction"]
