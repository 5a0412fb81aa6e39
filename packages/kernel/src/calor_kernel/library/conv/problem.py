"""The problem of a convolution and its gradients: one sum of products over strided axes.

Requirements: the three ops are the three transposes of one trilinear form, so they share one
problem and one general body. The position in the windowed operand is an integer function of an
output position and a tap; it covers stride, dilation, padding and cropping.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, prod
from typing import Generic

from calor.dtypes import DType, complex64, complex128, float32, float64
from calor.specs import Spec
from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Request, View
from calor_kernel.language.declared import N
from calor_kernel.library.gemm.epilogue import Tail
from calor_kernel.library.reduce.reduction_ops import working

TF32 = "image_tf32"
"""The attribute of a convolution whose images are rounded to TF32 already."""
PARTS = {complex64: float32, complex128: float64}


@dataclass(frozen=True, slots=True)
class Lead(Generic[N]):
    """An axis with the same index in result and operands: its size and strides (0 if absent)."""

    size: kl.SizeOf[N]
    a: kl.StrideOf[N]
    b: kl.StrideOf[N]


@dataclass(frozen=True, slots=True)
class Axis(Generic[N]):
    """A spatial axis: output i sums over j the product of b at j and a at their position.

    That position is ``(result * i + summed * j + start) / divide``, if it is an integer below
    ``size``.
    """

    count: kl.SizeOf[N]
    terms: kl.SizeOf[N]
    result: kl.SizeOf[N]
    summed: kl.StrideOf[N]
    start: kl.StrideOf[N]
    divide: kl.SizeOf[N]
    size: kl.SizeOf[N]
    a: kl.StrideOf[N]
    b: kl.StrideOf[N]


@dataclass(frozen=True, slots=True)
class Correlation:
    """``c[lead, i] = Σ a[lead, depth, place(i, j)] · b[lead, depth, j]`` over depth and j."""

    leads: tuple[Lead[int], Lead[int], Lead[int]]
    depth: Lead[int]
    axes: tuple[Axis[int], ...]
    a: View
    b: View
    by_weight: bool = False

    @property
    def roles(self) -> tuple[int, int, int]:
        """The lead axes of the groups, of b alone and of a alone.

        For a convolution and its input gradient they are groups, rows and images. For a weight
        gradient the axis of a alone is the input channels.
        """
        return (0, 1, 2) if self.by_weight else (1, 2, 0)

    @property
    def size(self) -> int:
        """The number of elements of the result."""
        return prod(lead.size for lead in self.leads) * prod(axis.count for axis in self.axes)

    @property
    def terms(self) -> int:
        """The number of products of an element, including padding."""
        return self.depth.size * prod(axis.terms for axis in self.axes)

    @property
    def nbytes(self) -> int:
        """The least traffic: what a meets a tap of is read once, and so is b; c is written once."""
        met = prod(least(axis.size, axis.count * axis.terms) for axis in self.axes)
        whole = prod(axis.size for axis in self.axes)
        read = self.a.size * met // greatest(whole, 1)
        nbytes: int = (read + self.b.size + self.size) * self.a.dtype.itemsize
        return nbytes


def accumulator(dtype: DType) -> DType:
    """Return the dtype of the sums: wider than half types, 32 or 64 bits for integers."""
    return PARTS[dtype] if dtype in PARTS else working("sum", dtype, dtype)


def _grouped(view: View, groups: int) -> tuple[int, int]:
    """Return a group's number of channels (axis 1), and the stride of groups."""
    per = view.shape[1] // groups
    return per, per * view.strides[1]


def _axes(
    request: Request, outputs: Spec | View, w: Spec | View, inputs: Spec | View, a: View, b: View
) -> Iterator[tuple[int, ...]]:
    """Yield, of each spatial axis, (output pixels, taps, input pixels, strides of a and b, stride,
    padding before the image, dilation).
    """
    given = request.attributes
    low = [before for before, _ in given["padding"]]
    shapes = (spec.shape[2:] for spec in (outputs, w, inputs))
    strides = a.strides[2:], b.strides[2:]
    return zip(*shapes, *strides, given["stride"], low, given["dilation"], strict=True)


def forward(request: Request) -> Correlation:
    """Return the problem of ``conv``."""
    x, w = request.inputs
    groups = request.attributes["groups"]
    outputs = w.shape[0] // groups
    channels, step = _grouped(x, groups)
    leads = (
        Lead(x.shape[0], x.strides[0], 0),
        Lead(groups, step, outputs * w.strides[0]),
        Lead(outputs, 0, w.strides[0]),
    )
    axes = tuple(
        Axis(m, k, s, d, -low, 1, n, a, b)
        for m, k, n, a, b, s, low, d in _axes(request, request.outputs[0], w, x, x, w)
    )
    return Correlation(leads, Lead(channels, x.strides[1], w.strides[1]), axes, x, w)


def for_input(request: Request) -> Correlation:
    """Return the problem of ``conv_input_gradient``: all uses of each input element."""
    g, w = request.inputs
    groups = request.attributes["groups"]
    outputs, step = _grouped(g, groups)
    leads = (
        Lead(g.shape[0], g.strides[0], 0),
        Lead(groups, step, outputs * w.strides[0]),
        Lead(w.shape[1], 0, w.strides[1]),
    )
    axes = tuple(
        Axis(n, k, 1, -d, low, s, m, a, b)
        for m, k, n, a, b, s, low, d in _axes(request, g, w, request.outputs[0], g, w)
    )
    return Correlation(leads, Lead(outputs, g.strides[1], w.strides[0]), axes, g, w)


def for_weight(request: Request) -> Correlation:
    """Return the problem of ``conv_weight_gradient``: a sum over images and pixels."""
    x, g = request.inputs
    groups = request.attributes["groups"]
    (result,) = request.outputs
    outputs, jump = _grouped(g, groups)
    leads = (
        Lead(groups, _grouped(x, groups)[1], jump),
        Lead(outputs, 0, g.strides[1]),
        Lead(result.shape[1], x.strides[1], 0),
    )
    axes = tuple(
        Axis(k, m, d, s, -low, 1, n, a, b)
        for m, k, n, a, b, s, low, d in _axes(request, g, result, x, x, g)
    )
    return Correlation(leads, Lead(x.shape[0], x.strides[0], g.strides[0]), axes, x, g, True)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a correlation: output positions ``offset + step * i`` of each spatial axis."""

    problem: Correlation
    offsets: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution or one of its gradients, for the ways of the family.

    ``seen``: the problem without padding that no window reads. ``rounded``: whether float32
    operands may be rounded to TF32; ``before``: whether those of images are. ``tail``: the
    epilogue, with images as products, channels as rows and pixels as columns.
    """

    problem: Correlation
    seen: Correlation
    info: DeviceInfo
    rounded: bool = False
    tail: Tail | None = None
    before: bool = False


def thinned(problem: Correlation) -> Correlation:
    """Return a problem whose one-tap axes have only the positions that are read.

    A strided window of one tap becomes one without stride, on an operand with larger strides.
    """
    axes, start = [], problem.a.offset
    for axis in problem.axes:
        count, step = (axis.count, axis.result)
        if problem.by_weight:
            count, step = (axis.terms, axis.summed)
        alone = (axis.count if problem.by_weight else axis.terms) == axis.divide == 1
        if alone and count and 0 <= axis.start < axis.size - (count - 1) * step:
            start += axis.start * axis.a
            moves = {"result": 1, "summed": 1, "start": 0, "size": count, "a": step * axis.a}
            axis = replace(axis, **moves)
        axes.append(axis)
    a = replace(problem.a, offset=start)
    return replace(problem, axes=tuple(axes), a=a)


def undivided(problem: Correlation) -> list[Part]:
    """Return the parts of a problem without divisors, with taps in ascending order.

    With a divisor s, every s-th output position has the same taps. A part without taps has depth 0.
    """
    options = [_parts(axis) for axis in problem.axes]
    found = []
    for chosen in product(*options):
        axes = tuple(axis for axis, _, _ in chosen)
        view = problem.b
        start = view.offset + sum(first for _, _, first in chosen)
        b = View(view.shape, view.strides, view.dtype, start)
        depth = problem.depth
        if any(axis.terms == 0 for axis in axes):
            depth = Lead(0, depth.a, depth.b)
            axes = tuple(replace(axis, terms=1) for axis in axes)
        part = replace(problem, axes=axes, b=b, depth=depth)
        offsets = tuple(offset for _, offset, _ in chosen)
        found.append(Part(part, offsets, tuple(axis.divide for axis in problem.axes)))
    return found


def _parts(axis: Axis[int]) -> list[tuple[Axis[int], int, int]]:
    """Return the axis of each part, its first output position and its first element of b.

    Output position i has tap j if s divides ``i + summed * j + start``; that holds for each ``s /
    gcd(s, summed)``-th tap.
    """
    s, d = axis.divide, -axis.summed
    period = s // gcd(s, d)
    made = []
    for first in range(min(s, axis.count)):
        count = -(-(axis.count - first) // s)
        tap = next((j for j in range(period) if (first + axis.start - d * j) % s == 0), None)
        taps = 0 if tap is None else max(-(-(axis.terms - tap) // period), 0)
        if tap is None or not taps:
            made.append((replace(axis, count=count, terms=0, summed=1, divide=1), first, 0))
            continue
        # The last tap reads the first position; taps are counted from it.
        step = d * period // s
        last = tap + period * (taps - 1)
        start = (first + axis.start - d * tap) // s - step * (taps - 1)
        made.append(
            (
                Axis(count, taps, 1, step, start, 1, axis.size, axis.a, -period * axis.b),
                first,
                last * axis.b,
            )
        )
    return made
