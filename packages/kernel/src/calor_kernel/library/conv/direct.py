"""The general direct convolution, element by element.

Requirements: any rank, dtype, stride, view and device. The order of a sum depends on the problem
alone. On a CPU a unit computes a vector of elements and gathers their operands.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import DType
from calor_kernel.language import (
    absolute_position,
    constant,
    fma,
    helper,
    kernel,
    quotient,
    registers,
    select,
    splat,
    unravel,
)

# The count of numbers of a lead axis and of a spatial axis, in the order of their fields.
LEAD, AXIS = 3, 9


@kernel
def direct(
    a: Any,
    b: Any,
    c: Any,
    count: Any,
    *numbers: Any,
    rank: int,
    width: int,
    complexes: bool,
    divided: bool,
    accumulate: DType,
) -> None:
    """Compute ``width`` elements of the result: three lead axes, then the spatial ones.

    ``numbers``: three lead axes, the summed axis, and ``rank`` spatial axes. ``complexes``:
    elements are pairs. ``divided``: whether an axis has a divisor.
    """
    leads = [numbers[i * LEAD : i * LEAD + LEAD] for i in range(4)]
    axes = [numbers[4 * LEAD + i * AXIS : 4 * LEAD + (i + 1) * AXIS] for i in range(rank)]
    first = absolute_position() * width
    index = first + constant(tuple(range(width)), first.dtype) if width > 1 else first
    inside = index < count
    sizes = [lead[0] for lead in leads[:3]] + [axis[0] for axis in axes]
    # An index beyond the end is clamped to the last element, so that it is valid.
    place = unravel(select(inside, index, count - 1), sizes)
    a_at = index * 0
    b_at = index * 0
    for position, lead in zip(place[:3], leads[:3], strict=True):
        a_at = a_at + position * lead[1]
        b_at = b_at + position * lead[2]
    starts = [p * axis[2] + axis[4] for p, axis in zip(place[3:], axes, strict=True)]
    total = registers(2 if complexes else 1, accumulate, width)
    depth = leads[3]
    for d in range(depth[0]):
        add_terms(
            total, a, b, axes, starts, a_at + d * depth[1], b_at + d * depth[2], inside, divided
        )
    if complexes:
        for part in range(2):
            c.store(2 * index + part, total[part].to(c.dtype), mask=inside)
    else:
        c.store(first, total[0].to(c.dtype), mask=inside)


@helper
def add_terms(
    total: Any,
    a: Any,
    b: Any,
    axes: list[Any],
    starts: list[Any],
    a_at: Any,
    b_at: Any,
    inside: Any,
    divided: bool,
) -> None:
    """Add the products over the spatial axes from a given one on."""
    if not axes:
        add_product(total, a, b, a_at, b_at, inside)
    else:
        _, terms, _, summed, _, by, size, a_stride, b_stride = axes[0]
        for j in range(terms):
            place = starts[0] + j * summed
            valid = inside & (place >= 0)
            if divided:
                whole = quotient(place, splat(by, place.width))
                valid = valid & (whole * by == place)
                place = whole
            valid = valid & (place < size)
            add_terms(
                total,
                a,
                b,
                axes[1:],
                starts[1:],
                a_at + place * a_stride,
                b_at + j * b_stride,
                valid,
                divided,
            )


def add_product(total: Any, a: Any, b: Any, a_at: Any, b_at: Any, valid: Any) -> None:
    """Add a valid product; of complex numbers if there are two totals."""
    wide = total.type.dtype
    if len(total) == 1:
        x = a.load(a_at, mask=valid).to(wide)
        y = b.load(b_at, mask=valid).to(wide)
        total[0] = fma(x, y, total[0]) if wide.kind == "float" else total[0] + x * y
        return
    real, imaginary = (a.load(2 * a_at + i, mask=valid) for i in range(2))
    other, rest = (b.load(2 * b_at + i, mask=valid) for i in range(2))
    total[0] = fma(-imaginary, rest, fma(real, other, total[0]))
    total[1] = fma(imaginary, other, fma(real, rest, total[1]))
