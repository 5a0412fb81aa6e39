"""The reduction family: sums, extremes, places and truths over axes, and what is made of rows."""

from __future__ import annotations

from calor_kernel.library.reduce.lowering import lower_reduction

__all__ = ["lower_reduction"]
