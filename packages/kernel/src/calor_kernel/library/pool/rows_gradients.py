"""Extremes of sliding windows over dense rows, and their gradients.

Requirements: one pass finds the first extreme of a window, in row-major order, and stores its index
as a small number. The unit that writes an element gathers its gradient, so that its sum has a fixed
order. Rows are read and written in order, with strides too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from calor.dtypes import DType, int32
from calor_kernel.language import (
    In,
    Index,
    Mask,
    Number,
    Out,
    Pointer,
    Registers,
    SizeOf,
    StrideOf,
    cast,
    constant,
    cube_position,
    helper,
    kernel,
    min,
    range,
    registers,
    select,
    splat,
)
from calor_kernel.library.conv.phase_planes import iota
from calor_kernel.library.conv.row_windows import (
    Along,
    Back,
    ask_ahead,
    masks_of,
    read_taps,
    write_phases,
)
from calor_kernel.library.pool.problem import Reduction
from calor_kernel.library.pool.rows import SeenRows, seen


@kernel
def choose_rows(
    x: In,
    chosen: Out,
    over: SeenRows[Number],
    *,
    along: Along,
    dilation: int,
    lanes: int,
    by: Reduction,
) -> None:
    """Write the index of each window's extreme, counted from 1; 0 if all is padding."""
    row_step, width = over.row_step, over.width
    first = cube_position(0) * over.turns
    last = min(first + over.turns, over.rows)
    plane, y = first // over.windows, first % over.windows
    for row in range(first, last):
        top = y * over.stride + over.start
        begin, end = seen(top, over.window, over.height, dilation)
        at = plane * over.plane_step + top * row_step
        for o in range(0, over.out_width, lanes):
            left = o * along.stride + over.width_start
            ask_ahead(x, at + left, row_step, over.stride, along, lanes)
            # If nothing beats the identity, the first position is the choice.
            best = registers(1, by.wide, lanes, by.identity)
            number = registers(1, int32, lanes)
            middle = (left >= 0) and (left + along.spread(lanes) <= width)
            if middle:
                number[0] = splat(cast(begin * along.taps + 1, int32), lanes)
                for k in range(begin, end):
                    places = read_taps(x, at + k * dilation * row_step + left, along, lanes, None)
                    compare(best, number, places, k * along.taps, None, by.kind)
            else:
                masks = masks_of(left, along, lanes, width)
                there = [tap_mask(left, k, along, lanes, width) for k in range(along.taps)]
                for tap in reversed(range(along.taps)):
                    mark = splat(cast(begin * along.taps + (tap + 1), int32), lanes)
                    number[0] = select(there[tap], mark, number[0])
                for k in range(begin, end):
                    places = read_taps(x, at + k * dilation * row_step + left, along, lanes, masks)
                    compare(best, number, places, k * along.taps, there, by.kind)
            if begin == end:
                number[0] = constant(0, int32, lanes)
            inside = iota(lanes) < splat(cast(over.out_width - o, int32), lanes)
            chosen.store(row * over.out_width + o, number[0].to(chosen.dtype), mask=inside)
        y += 1
        if y == over.windows:
            y = y * 0
            plane += 1


def tap_mask(left: Number, k: int, along: Along, lanes: int, width: Number) -> Mask:
    """Return the windows for which a tap reads no padding."""
    steps = constant(tuple(i * along.stride + k * along.dilation for i in range(lanes)), int32)
    place = splat(cast(left, int32), lanes) + steps
    return (place >= 0) & (place < splat(cast(width, int32), lanes))


def compare(
    best: Registers,
    number: Registers,
    places: list[Number],
    first: Index,
    there: list[Mask] | None,
    kind: str,
) -> None:
    """Update the extremes by the taps of a row; their indices follow ``first``."""
    for k, value in enumerate(places):
        value = value.to(best.type.dtype)
        if best.type.dtype.kind == "float":
            # Not less or equal means greater or NaN; after a NaN nothing is taken.
            within = value <= best[0] if kind == "max" else value >= best[0]
            better = ~within & (best[0] == best[0])
        else:
            better = value > best[0] if kind == "max" else value < best[0]
        if there is not None:
            better = better & there[k]
        best[0] = select(better, value, best[0])
        mark = splat(cast(first + (k + 1), int32), value.width)
        number[0] = select(better, mark, number[0])


N = TypeVar("N")


@dataclass(frozen=True, slots=True)
class GivenRows(Generic[N]):
    """Rows of elements, and the rows of windows that read them.

    A cube has ``turns`` of the ``rows``; a plane has ``height`` of them, with ``width`` elements
    each. Windows begin at the row ``start``; a plane has ``out_height`` rows of ``out_width``
    windows. Their gradients have planes ``plane_step`` and rows ``row_step`` apart.
    """

    rows: SizeOf[N]
    turns: SizeOf[N]
    start: StrideOf[N]
    height: SizeOf[N]
    width: SizeOf[N]
    out_height: SizeOf[N]
    out_width: SizeOf[N]
    plane_step: StrideOf[N]
    row_step: StrideOf[N]


@kernel
def gather_rows(
    g: In,
    chosen: In,
    c: Out,
    over: GivenRows[Number],
    *,
    back: Back,
    taps: int,
    stride: int,
    dilation: int,
    lanes: int,
    all_places: bool,
    wide: DType,
) -> None:
    """Sum, for rows of elements, the gradients of the windows that read each of them.

    ``chosen`` is dense. Unless ``all_places``, a window's gradient goes to its chosen position.
    """
    height, width, out_width = over.height, over.width, over.out_width
    first = cube_position(0) * over.turns
    last = min(first + over.turns, over.rows)
    plane, y = first // height, first % height
    span = back.stride
    for line in range(first, last):
        for j in range(0, (width + (span - 1)) // span, lanes):
            acc = registers(span, wide, lanes)
            for k in range(taps):
                place = y - over.start - k * dilation
                if (place >= 0) & (place % stride == 0) & (place < over.out_height * stride):
                    row = place // stride
                    at = plane * over.plane_step + row * over.row_step
                    of = (plane * over.out_height + row) * out_width
                    mark = k * back.taps + 1
                    add_chosen(acc, g, at, chosen, of, j, out_width, mark, back, all_places)
            write_phases(acc, c, line * width + j * span, width - j * span)
        y += 1
        if y == height:
            y = y * 0
            plane += 1


@helper
def add_chosen(
    acc: Registers,
    g: Pointer,
    at: Number,
    chosen: Pointer,
    of: Number,
    j: Number,
    out_width: Number,
    mark: int,
    back: Back,
    all_places: bool,
) -> None:
    """Add a row of windows' gradients to each phase of the elements from ``stride * j`` on."""
    lanes, wide = acc.type.width, acc.type.dtype
    values: dict[int, Number] = {}
    marks: dict[int, Number] = {}
    none = constant(0, wide, lanes)
    for phase in range(back.stride):
        for k, further in back.phase(phase):
            if further not in values:
                place = splat(cast(j + further, int32), lanes) + iota(lanes)
                inside = (place >= 0) & (place < splat(cast(out_width, int32), lanes))
                begin = j + further
                values[further] = g.load(at + begin, lanes, mask=inside).to(wide)
                if not all_places:
                    marks[further] = chosen.load(of + begin, lanes, mask=inside)
            value = values[further]
            if not all_places:
                value = select(marks[further] == mark + k, value, none)
            acc[phase] = acc[phase] + value
