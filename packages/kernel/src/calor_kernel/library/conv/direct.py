"""The general direct convolution, element by element.

Requirements: any rank, dtype, stride, view and device. The order of a sum depends on the problem
alone. On a CPU a unit computes a vector of elements and gathers their operands.
"""

from __future__ import annotations

from collections.abc import Sequence

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Input, Output, Work
from calor_kernel.library.conv.problem import PARTS, Axis, Correlation, Lead, accumulator
from calor_kernel.library.conv.vector_tiles import multiply_add

Axes = Sequence[Axis[kl.Number]]


@kl.kernel
def direct(
    a: kl.In,
    b: kl.In,
    c: kl.Out,
    count: kl.Size,
    leads: tuple[Lead[kl.Number], ...],
    axes: tuple[Axis[kl.Number], ...],
    *,
    width: int,
    complexes: bool,
    divided: bool,
    accumulate: DType,
) -> None:
    """Compute ``width`` elements of the result: three lead axes, then the spatial ones.

    ``leads``: three lead axes and the summed axis. ``complexes``: elements are pairs. ``divided``:
    whether an axis has a divisor.
    """
    *outer, depth = leads
    first = kl.absolute_position() * width
    index = first + kl.constant(tuple(kl.range(width)), first.dtype) if width > 1 else first
    inside = index < count
    # An index beyond the end is clamped to the last element, so that it is valid.
    place = kl.unravel(
        kl.select(inside, index, count - 1), [lead.size for lead in outer] + [x.count for x in axes]
    )
    a_at = index * 0
    b_at = index * 0
    for position, lead in zip(place[:3], outer, strict=True):
        a_at = a_at + position * lead.a
        b_at = b_at + position * lead.b
    starts = [p * axis.result + axis.start for p, axis in zip(place[3:], axes, strict=True)]
    total = kl.registers(2 if complexes else 1, accumulate, width)
    for d in kl.range(depth.size):
        add_terms(
            total, a, b, axes, starts, a_at + d * depth.a, b_at + d * depth.b, inside, divided
        )
    if complexes:
        for part in kl.range(2):
            c.store(2 * index + part, total[part].to(c.dtype), mask=inside)
    else:
        c.store(first, total[0].to(c.dtype), mask=inside)


@kl.helper
def add_terms(
    total: kl.Registers,
    a: kl.Pointer,
    b: kl.Pointer,
    axes: Axes,
    starts: list[kl.Number],
    a_at: kl.Number,
    b_at: kl.Number,
    inside: kl.Mask,
    divided: bool,
) -> None:
    """Add the products over the spatial axes from a given one on."""
    if not axes:
        add_product(total, a, b, a_at, b_at, inside)
    else:
        axis = axes[0]
        for j in kl.range(axis.terms):
            place = starts[0] + j * axis.summed
            valid = inside & (place >= 0)
            if divided:
                whole = kl.quotient(place, kl.splat(axis.divide, place.width))
                valid = valid & (whole * axis.divide == place)
                place = whole
            valid = valid & (place < axis.size)
            a_next, b_next = a_at + place * axis.a, b_at + j * axis.b
            add_terms(total, a, b, axes[1:], starts[1:], a_next, b_next, valid, divided)


def add_product(
    total: kl.Registers,
    a: kl.Pointer,
    b: kl.Pointer,
    a_at: kl.Number,
    b_at: kl.Number,
    valid: kl.Mask,
) -> None:
    """Add a valid product; of complex numbers if there are two totals."""
    wide = total.type.dtype
    if len(total) == 1:
        x = a.load(a_at, mask=valid).to(wide)
        y = b.load(b_at, mask=valid).to(wide)
        total[0] = multiply_add(x, y, total[0])
        return
    real, imaginary = (a.load(2 * a_at + i, mask=valid) for i in kl.range(2))
    other, rest = (b.load(2 * b_at + i, mask=valid) for i in kl.range(2))
    total[0] = kl.fma(-imaginary, rest, kl.fma(real, other, total[0]))
    total[1] = kl.fma(imaginary, other, kl.fma(real, rest, total[1]))


def direct_work(problem: Correlation, info: DeviceInfo) -> Work:
    """Return the work of the general direct convolution."""
    count = problem.size
    if not count:
        return Work(())
    a, b = problem.a, problem.b
    part = PARTS.get(a.dtype, a.dtype)
    parts = 2 if a.dtype in PARTS else 1
    units = min(info.max_units, 128)
    width = 1 if units > 1 else max(1, info.vector_bytes // 8)
    made = launch(
        direct,
        Grid.line(-(-count // (units * width)), units),
        Effort(
            "conv direct",
            2 * count * problem.terms * parts * parts,
            (a.size + b.size + count) * a.dtype.itemsize,
        ),
        a=Bound(Input(0, a.offset * parts), part),
        b=Bound(Input(1, b.offset * parts), part),
        c=Bound(Output(), part),
        count=count,
        leads=(*problem.leads, problem.depth),
        axes=problem.axes,
        width=width,
        complexes=parts == 2,
        divided=any(axis.divide > 1 for axis in problem.axes),
        accumulate=accumulator(a.dtype),
    )
    return Work((made,))
