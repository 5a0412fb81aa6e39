"""Sorting along an axis: stable, with NaN last, and no more of it than is read.

Requirements: few programs sort, so what does is imported with the first question.
"""

from __future__ import annotations

from calor_kernel.contract import work
from calor_kernel.library.sort.sort_fuser import PART, SortFuser

__all__ = ["SortFuser"]

work.lowering("sort", dense=(0,))(work.deferred("calor_kernel.library.sort.lowering", "sort_whole"))
work.lowering(PART, dense=(0,))(
    work.deferred("calor_kernel.library.sort.partial_sort", "sort_part")
)
