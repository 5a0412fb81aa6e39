"""The problem of a reduction: kept axes and reduced axes, as few of each as possible.

Requirements: every view is one problem, whatever its strides. Adjacent axes are merged, so that
kernels meet few ranks. The order of the reduced elements may change only if no index is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from calor_kernel.contract.work import View


@dataclass(frozen=True, slots=True)
class Axis:
    """Elements ``stride`` apart; strides are counted in elements of the operand."""

    size: int
    stride: int


@dataclass(frozen=True, slots=True)
class Reduction:
    """The kept axes, in the order of the dense result, and the reduced ones; at least one of each.

    ``offset``: the position of the first element.
    """

    kept: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    offset: int

    @property
    def results(self) -> int:
        """The number of results."""
        return prod(a.size for a in self.kept)

    @property
    def terms(self) -> int:
        """The number of elements of one result."""
        return prod(a.size for a in self.reduced)


def reduction_of(view: View, axes: Sequence[int], *, ordered: bool = False) -> Reduction:
    """Return the problem of reducing a view over axes.

    ``ordered``: whether the order of elements matters, as for argmax. Otherwise they are taken in
    the order of memory, forwards.

    >>> from calor.dtypes import float32
    >>> reduction_of(View((2, 3, 4), (12, 4, 1), float32), (1, 2)).reduced
    (Axis(size=12, stride=1),)
    """
    kept = [
        Axis(n, s)
        for i, (n, s) in enumerate(zip(view.shape, view.strides, strict=True))
        if i not in axes
    ]
    reduced = [Axis(view.shape[i], view.strides[i]) for i in sorted(axes)]
    offset = view.offset
    if not ordered:
        offset += sum(a.stride * (a.size - 1) for a in reduced if a.stride < 0 < a.size)
        reduced = [Axis(a.size, abs(a.stride)) for a in reduced]
        reduced.sort(key=lambda a: -a.stride)
    return Reduction(merged(kept), merged(reduced), offset)


def merged(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """Return axes without those of size 1, with adjacent axes merged; at least one axis."""
    found: list[Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        if found and found[-1].stride == axis.size * axis.stride:
            found[-1] = Axis(found[-1].size * axis.size, axis.stride)
        else:
            found.append(axis)
    return tuple(found) or (Axis(1, 0),)
