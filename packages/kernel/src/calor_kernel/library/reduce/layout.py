"""The layout of a reduction's operands and results: axes of the rows, and axes of a row.

Requirements: adjacent axes are merged if all views allow it, so that most problems have one axis of
each kind. The order of a row's axes is free if nothing is written along it and no index is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Generic, TypeVar

from calor_kernel.contract.work import View
from calor_kernel.language import SizeOf, StrideOf

N = TypeVar("N")


@dataclass(frozen=True, slots=True)
class Strides(Generic[N]):
    """A view's strides in elements along the axes of the rows, and of a row, () if it has none."""

    kept: tuple[StrideOf[N], ...]
    along: tuple[StrideOf[N], ...] = ()


@dataclass(frozen=True, slots=True)
class Strided(Generic[N]):
    """Axes of a view: their sizes and its strides."""

    sizes: tuple[SizeOf[N], ...]
    strides: tuple[StrideOf[N], ...]


@dataclass(frozen=True, slots=True)
class Axes:
    """Axes: their sizes, and their strides in each view, () if the view has none of them."""

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def count(self) -> int:
        """The number of elements."""
        return prod(self.sizes)

    def of(self, number: int = 0) -> Strided[int]:
        """Return the axes of one view."""
        return Strided(self.sizes, self.strides[number])


@dataclass(frozen=True, slots=True)
class Layout:
    """The axes of the rows, and those of a row."""

    kept: Axes
    along: Axes


def layout_of(
    shape: Sequence[int],
    axes: Sequence[int],
    views: Sequence[View],
    along: Sequence[bool] = (True,),
    *,
    free: bool = False,
) -> Layout:
    """Return the layout of views, which have all axes if ``along``, else only those of the rows.

    ``free``: whether a row's axes may be reordered to the first view's memory order.

    >>> from calor.dtypes import float32
    >>> layout_of((2, 3, 4), (1, 2), [View((2, 3, 4), (12, 4, 1), float32)]).along.of()
    Strided(sizes=(12,), strides=(1,))
    """
    rows = [a for a in range(len(shape)) if a not in axes]
    within = sorted(axes)
    strides = [
        dict(zip(range(len(shape)) if varies else rows, view.strides, strict=True))
        for view, varies in zip(views, along, strict=True)
    ]
    if free:
        first = next(k for k, varies in enumerate(along) if varies)
        within.sort(key=lambda a: -abs(strides[first][a]))
    kept = [[s[a] for a in rows] for s in strides]
    inner = [[s[a] for a in within if a in s] for s in strides]
    return Layout(
        _merged([shape[a] for a in rows], kept), _merged([shape[a] for a in within], inner)
    )


def _merged(sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> Axes:
    """Return axes without those of size 1, merged if they are adjacent in all views."""
    has = [bool(s) for s in strides]
    found: list[tuple[int, list[int]]] = []
    for axis, n in enumerate(sizes):
        if n == 1:
            continue
        now = [s[axis] if s else 0 for s in strides]
        if found and all(a == b * n for a, b in zip(found[-1][1], now, strict=True)):
            found[-1] = (found[-1][0] * n, now)
        else:
            found.append((n, now))
    found = found or [(1, [0] * len(strides))]
    made = tuple(tuple(now[k] if has[k] else 0 for _, now in found) for k in range(len(strides)))
    return Axes(tuple(n for n, _ in found), made)
