"""Sliding windows over dense rows, with vectors along the rows.

Requirements: the input is read once, in order, at the speed of memory. The rows of a window are
reduced onto each other first, in blocks in memory of the unit, and the result is then reduced along
the row. A stride of two costs a shuffle. The order of a sum depends on the windows alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from calor.dtypes import DType, int32
from calor_kernel import language as kl
from calor_kernel.library.conv.row_windows import (
    AHEAD,
    Along,
    Back,
    GivenRows,
    SeenRows,
    ask_ahead,
    each_row,
    masks_of,
    read_taps,
    write_phases,
)
from calor_kernel.library.conv.vector_tiles import below, within
from calor_kernel.library.reduce.reduction_ops import ReductionOp

# Windows of a row that are reduced together.
_BLOCK = 256


@kl.kernel
def reduce_rows(
    x: kl.In,
    c: kl.Out,
    over: SeenRows[kl.Number],
    plane_step: kl.Stride,
    row_step: kl.Stride,
    *,
    along: Along,
    dilation: int,
    lanes: int,
    by: ReductionOp,
    stream: bool,
) -> None:
    """Reduce rows of windows; ``stream``: results bypass the caches."""
    # Reads are whole vectors of windows, with two elements of each window.
    size = _BLOCK * along.stride + (along.taps - 1) * along.dilation + 2 * lanes
    buffer = kl.private(size, by.dtype, align=64)

    def reduce_row(row: kl.Number, plane: kl.Number, group: kl.Index, y: kl.Number) -> None:
        top = y * over.stride + over.high.start
        begin, end = over.inside(top, dilation)
        at = plane * plane_step + (top + begin * dilation) * row_step
        for o in kl.range(0, over.wide.count, _BLOCK):
            count = kl.min(over.wide.count - o, _BLOCK)
            left = o * along.stride + over.wide.start
            full = (count + (lanes - 1)) // lanes * lanes
            spread = full * along.stride + (along.taps - 1) * along.dilation
            for i in kl.range(0, spread, lanes):
                step, rows = dilation * row_step, end - begin
                value = fold(x, at, left + i, over.wide.size, rows, step, lanes, by)
                buffer.store(i, value)
            for i in kl.range(0, count, lanes):
                taps = read_taps(buffer, i * along.stride, along, lanes)
                value = reduce(by.combine, taps).to(c.dtype)
                place = row * over.wide.count + o + i
                if i + lanes <= count:
                    align = lanes * c.dtype.itemsize if stream else 0
                    c.store(place, value, nontemporal=stream, align=align)
                else:
                    c.store(place, value, mask=below(count - i, lanes))

    each_row(over, over.high.count, None, reduce_row)


@kl.helper
def fold(
    x: kl.Pointer,
    at: kl.Number,
    column: kl.Number,
    width: kl.Number,
    count: kl.Number,
    step: kl.Number,
    lanes: int,
    by: ReductionOp,
) -> kl.Number:
    """Return a vector of ``count`` rows reduced onto each other; the identity beyond the row."""
    total = kl.constant(by.identity, by.dtype, lanes)
    # Hardware does not predict reads of rows below each other well.
    ahead = AHEAD // x.dtype.itemsize
    if (column >= 0) and (column + lanes <= width):
        for k in kl.range(count):
            x.prefetch(at + k * step + column + ahead, locality=3)
            total = by.combine(total, x.load(at + k * step + column, lanes).to(by.dtype))
    else:
        inside = within(column, lanes, width)
        for k in kl.range(count):
            value = x.load(at + k * step + column, lanes, mask=inside, other=by.identity)
            total = by.combine(total, value.to(by.dtype))
    return total


@kl.kernel
def choose_rows(
    x: kl.In,
    chosen: kl.Out,
    over: SeenRows[kl.Number],
    plane_step: kl.Stride,
    row_step: kl.Stride,
    *,
    along: Along,
    dilation: int,
    lanes: int,
    by: ReductionOp,
) -> None:
    """Write the index of each window's extreme, counted from 1; 0 if all is padding."""
    width = over.wide.size

    def choose(row: kl.Number, plane: kl.Number, group: kl.Index, y: kl.Number) -> None:
        top = y * over.stride + over.high.start
        begin, end = over.inside(top, dilation)
        at = plane * plane_step + top * row_step
        for o in kl.range(0, over.wide.count, lanes):
            left = o * along.stride + over.wide.start
            ask_ahead(x, at + left, row_step, over.stride, along, lanes)
            # If nothing beats the identity, the first position is the choice.
            best = kl.registers(1, by.dtype, lanes, by.identity)
            number = kl.registers(1, int32, lanes)
            if (left >= 0) and (left + along.spread(lanes) <= width):
                number[0] = kl.splat(kl.cast(begin * along.taps + 1, int32), lanes)
                for k in kl.range(begin, end):
                    places = read_taps(x, at + k * dilation * row_step + left, along, lanes)
                    compare(best, number, places, k * along.taps, None, by)
            else:
                masks = masks_of(left, along, lanes, width)
                firsts = [left + k * along.dilation for k in kl.range(along.taps)]
                there = [within(first, lanes, width, along.stride) for first in firsts]
                for tap in reversed(kl.range(along.taps)):
                    mark = kl.splat(kl.cast(begin * along.taps + (tap + 1), int32), lanes)
                    number[0] = kl.select(there[tap], mark, number[0])
                for k in kl.range(begin, end):
                    places = read_taps(x, at + k * dilation * row_step + left, along, lanes, masks)
                    compare(best, number, places, k * along.taps, there, by)
            if begin >= end:
                number[0] = kl.constant(0, int32, lanes)
            inside = below(over.wide.count - o, lanes)
            chosen.store(row * over.wide.count + o, number[0].to(chosen.dtype), mask=inside)

    each_row(over, over.high.count, None, choose)


def compare(
    best: kl.Registers,
    number: kl.Registers,
    places: Iterable[kl.Number],
    first: kl.Index,
    there: list[kl.Mask] | None,
    by: ReductionOp,
) -> None:
    """Update the extremes by the taps of a row; their indices follow ``first``."""
    # All taps are read before the first is compared.
    for k, value in enumerate(list(places)):
        value = value.to(by.dtype)
        better = by.beats(value, best[0])
        if there is not None:
            better = better & there[k]
        best[0] = kl.select(better, value, best[0])
        mark = kl.splat(kl.cast(first + (k + 1), int32), value.width)
        number[0] = kl.select(better, mark, number[0])


@kl.kernel
def gather_rows(
    g: kl.In,
    chosen: kl.In,
    c: kl.Out,
    over: GivenRows[kl.Number],
    plane_step: kl.Stride,
    row_step: kl.Stride,
    *,
    back: Back,
    down: Along,
    lanes: int,
    all_positions: bool,
    wide: DType,
) -> None:
    """Sum, for rows of elements, the gradients of the windows that read each of them.

    ``chosen`` is dense. Unless ``all_positions``, a window's gradient goes to its chosen position.
    """
    high, width, out_width, span = over.high, over.width, over.out_width, back.stride

    def gather(line: kl.Number, plane: kl.Number, group: kl.Index, y: kl.Number) -> None:
        for j in kl.range(0, (width + (span - 1)) // span, lanes):
            acc = kl.registers(span, wide, lanes)
            for k in kl.range(down.taps):
                place = y - high.start - k * down.dilation
                if (place >= 0) & (place % down.stride == 0) & (place < high.count * down.stride):
                    row = place // down.stride
                    at = plane * plane_step + row * row_step
                    of = (plane * high.count + row) * out_width
                    mark = k * back.taps + 1
                    add_chosen(acc, g, at, chosen, of, j, out_width, mark, back, all_positions)
            write_phases(list(acc), c, line * width + j * span, width - j * span)

    each_row(over, high.size, None, gather)


def add_chosen(
    acc: kl.Registers,
    g: kl.Pointer,
    at: kl.Number,
    chosen: kl.Pointer,
    of: kl.Number,
    j: kl.Number,
    out_width: kl.Number,
    mark: int,
    back: Back,
    all_positions: bool,
) -> None:
    """Add a row of windows' gradients to each phase of the elements from ``stride * j`` on."""
    lanes, wide = acc.type.width, acc.type.dtype
    values: dict[int, kl.Number] = {}
    marks: dict[int, kl.Number] = {}
    none = kl.constant(0, wide, lanes)
    for phase in kl.range(back.stride):
        for k, further in back.phase(phase):
            begin = j + further
            if further not in values:
                inside = within(begin, lanes, out_width)
                values[further] = g.load(at + begin, lanes, mask=inside).to(wide)
                if not all_positions:
                    marks[further] = chosen.load(of + begin, lanes, mask=inside)
            value = values[further]
            if not all_positions:
                value = kl.select(marks[further] == mark + k, value, none)
            acc[phase] = acc[phase] + value
