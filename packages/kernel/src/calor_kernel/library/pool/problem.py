"""The problem of sliding windows: leading axes, and axes along which windows slide.

Requirements: one form for reductions, their gradients and values at extremes. Any strides of the
operands. Leading axes are merged if possible, so that kernels meet few ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Generic

from calor.dtypes import DType, int32, uint8
from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, operand
from calor_kernel.contract.work import Request, Scratch, View, row_major
from calor_kernel.language.declared import N
from calor_kernel.library.conv.vector_tiles import Slide
from calor_kernel.library.reduce.reduction_ops import ReductionOp, working


@dataclass(frozen=True, slots=True)
class Lead(Generic[N]):
    """An axis along which windows do not slide, and the strides of the operands along it."""

    size: kl.SizeOf[N]
    strides: tuple[kl.StrideOf[N], ...]


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows over the last axes; ``lead`` is the shape of the others."""

    lead: tuple[int, ...]
    slides: tuple[Slide[int], ...]

    @property
    def rank(self) -> int:
        """The number of axes along which windows slide."""
        return len(self.slides)

    @property
    def windows(self) -> int:
        """The number of windows."""
        return prod(self.lead) * prod(s.count for s in self.slides)

    @property
    def elements(self) -> int:
        """The number of elements that the windows slide over."""
        return prod(self.lead) * prod(s.size for s in self.slides)

    @property
    def places(self) -> int:
        """The number of positions in a window."""
        return prod(s.window for s in self.slides)

    @property
    def whole(self) -> bool:
        """Whether each window is all of its plane."""
        return all(
            s.count == 1 and s.start == 0 and s.dilation == 1 and s.window == s.size
            for s in self.slides
        )


@dataclass(frozen=True, slots=True)
class Seen:
    """An array over which windows slide: its view, and the memory of a launch with its elements."""

    view: View
    bound: Bound

    @staticmethod
    def operand(number: int, view: View) -> Seen:
        """Return an operand of the request."""
        return Seen(view, operand(number, view))

    @staticmethod
    def scratch(number: int, shape: tuple[int, ...], dtype: DType) -> Seen:
        """Return dense scratch memory."""
        return Seen(View(shape, row_major(shape), dtype), Bound(Scratch(number), dtype))


def windows_of(request: Request) -> Windows:
    """Return the problem of a window op; its last operand is the array."""
    shape, attributes = request.inputs[-1].shape, request.attributes
    window = attributes["window"]
    lead = len(shape) - len(window)
    slides = []
    given = zip(
        shape[lead:],
        window,
        attributes["stride"],
        attributes["padding"],
        attributes["dilation"],
        strict=True,
    )
    for size, k, stride, (low, high), dilation in given:
        rest = size + low + high - dilation * (k - 1) - 1
        count = rest // stride + 1 if rest >= 0 else 0
        slides.append(Slide(count, k, stride, dilation, -low, size))
    return Windows(tuple(shape[:lead]), tuple(slides))


def leading(views: Sequence[View], lead: int) -> list[Lead[int]]:
    """Return the first axes of views of one shape, merged; at least one axis."""
    found: list[Lead[int]] = []
    for axis in range(lead):
        n = views[0].shape[axis]
        if n == 1:
            continue
        strides = tuple(v.strides[axis] for v in views)
        if found and all(s == t * n for s, t in zip(found[-1].strides, strides, strict=True)):
            found[-1] = Lead(found[-1].size * n, strides)
        else:
            found.append(Lead(n, strides))
    return found or [Lead(1, (0,) * len(views))]


def reduction(kind: str, dtype: DType) -> ReductionOp:
    """Return the reduction of a window's elements; its identity is that of padding alone."""
    return ReductionOp(kind, working(kind, dtype, dtype))


def number_type(places: int, info: DeviceInfo) -> DType:
    """Return the type of positions counted from 1, and 0 for none."""
    return uint8 if places < 255 and uint8 in info.dtypes else int32
