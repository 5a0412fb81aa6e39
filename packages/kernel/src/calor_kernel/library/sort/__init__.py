"""Sorting along an axis, stable, with NaN last."""

from calor_kernel.library.sort.fusing import SortFuser
from calor_kernel.library.sort.lowering import lower_sort
from calor_kernel.library.sort.parts import lower_part

__all__ = ["SortFuser", "lower_part", "lower_sort"]
