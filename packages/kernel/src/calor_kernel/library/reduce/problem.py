"""The problem of a reduction: axes that stay, and axes that vanish, with as few of each as can be.

Requirements: every view is one problem, whatever its strides; axes are merged where they lie one
after another, so that kernels meet few ranks; the order of the elements that are reduced may change
only where nobody asks for a place.
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
    """What stays, in the order of the dense result, and what vanishes; each has an axis at least.

    ``offset``: where the first element lies.
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
        """The number of elements that become one result."""
        return prod(a.size for a in self.reduced)


def reduction_of(view: View, axes: Sequence[int], *, ordered: bool = False) -> Reduction:
    """Return the problem of reducing a view over axes.

    ``ordered``: whether the places along the axes count, as they do for argmax. Else they are
    walked in the order of memory, forwards.

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
    """Return axes with those of one element left out, and joined where they follow each other.

    At least one axis comes back.
    """
    found: list[Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        if found and found[-1].stride == axis.size * axis.stride:
            found[-1] = Axis(found[-1].size * axis.size, axis.stride)
        else:
            found.append(axis)
    return tuple(found) or (Axis(1, 0),)
