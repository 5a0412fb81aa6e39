"""How the operands and results of a program lie: axes that number rows, and axes of a row.

Requirements: axes are merged where they follow each other in all views, so that most problems have
one axis of each; the order of the axes of a row is free where nothing is written along it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from calor_kernel.contract.work import View


@dataclass(frozen=True, slots=True)
class Axes:
    """Some axes: their sizes, and per view their strides, () where the view has none of them."""

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def count(self) -> int:
        """The number of places."""
        return prod(self.sizes)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.sizes)


@dataclass(frozen=True, slots=True)
class Layout:
    """The axes that number rows, and those of a row."""

    kept: Axes
    along: Axes


def layout_of(
    shape: Sequence[int],
    axes: Sequence[int],
    views: Sequence[View],
    along: Sequence[bool],
    *,
    free: bool = False,
) -> Layout:
    """Return the layout of views, which have all axes where ``along``, else the rows' only.

    ``free``: whether a row's axes may come in the order in which the first view has them.
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
    """Return axes without those of one place, joined where they follow each other in all views."""
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
    if not found:
        return Axes((1,), tuple((0,) for _ in strides))
    made = tuple(
        tuple(now[k] for _, now in found) if has[k] else (0,) * len(found)
        for k in range(len(strides))
    )
    return Axes(tuple(n for n, _ in found), made)
