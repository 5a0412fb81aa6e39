"""Sorting along an axis: stable, with NaN last, and no more of it than is read.

Requirements: few programs sort, so what does is imported with the first question.
"""

from __future__ import annotations

from collections.abc import Sequence

from calor_kernel.contract import work
from calor_kernel.library.sort.sort_fuser import PART, SortFuser

__all__ = ["SortFuser", "lower_part", "lower_sort"]


@work.lowering("sort", dense=(0,))
def lower_sort(request: work.Request) -> Sequence[work.Work] | work.Refusal:
    """Sort along an axis; values are copied bit for bit."""
    from calor_kernel.library.sort.lowering import sort_whole

    return sort_whole(request)


@work.lowering(PART, dense=(0,))
def lower_part(request: work.Request) -> Sequence[work.Work] | work.Refusal:
    """Sort for ``values``, ``indices`` or both, the first ``count`` of them along the axis."""
    from calor_kernel.library.sort.partial_sort import sort_part

    return sort_part(request)
