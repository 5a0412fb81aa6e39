"""Long windows over dense rows, whose number of taps a kernel does not know.

Requirements: a reduction takes the logarithm of the taps, not their number. Reductions of adjacent
taps, whose number is a power of two, come from those of half as many, and a window joins those
of the bits of its length. A search for extremes compares each tap, in vectors of windows.
"""

from __future__ import annotations

from calor.dtypes import int32
from calor_kernel import language as kl
from calor_kernel.library.conv.row_windows import Along, SeenRows, each_row, masks_of, read_taps
from calor_kernel.library.conv.vector_tiles import below, within
from calor_kernel.library.pool.rows import fold
from calor_kernel.library.reduce.reduction_ops import ReductionOp


@kl.kernel
def reduce_long_rows(
    x: kl.In,
    c: kl.Out,
    over: SeenRows[kl.Number],
    plane_step: kl.Stride,
    row_step: kl.Stride,
    taps: kl.Size,
    gap: kl.Size,
    bits: kl.Size,
    block: kl.Size,
    *,
    stride: int,
    dilation: int,
    lanes: int,
    by: ReductionOp,
    room: int,
) -> None:
    """Reduce rows of windows of ``taps`` positions, ``gap`` apart, ``block`` windows at a time.

    ``bits``: those of ``taps``. ``room``: the elements that the windows of a block span, at most.
    """
    parts = kl.private(room, by.dtype, align=64)
    totals = kl.private(room, by.dtype, align=64)

    def reduce_row(row: kl.Number, plane: kl.Number, group: kl.Index, y: kl.Number) -> None:
        top = y * over.stride + over.high.start
        begin, end = over.inside(top, dilation)
        at = plane * plane_step + (top + begin * dilation) * row_step
        for o in kl.range(0, over.wide.count, block):
            count = kl.min(over.wide.count - o, block)
            left = o * stride + over.wide.start
            places = (count + (lanes - 1)) // lanes * lanes * stride
            spread = places + (taps - 1) * gap
            for i in kl.range(0, spread + lanes, lanes):
                step, rows = dilation * row_step, end - begin
                value = fold(x, at, left + i, over.wide.size, rows, step, lanes, by)
                parts.store(i, value)
                totals.store(i, kl.constant(by.identity, by.dtype, lanes))
            join(parts, totals, places, spread, taps, gap, bits, lanes, by)
            for i in kl.range(0, count, lanes):
                (value,) = read_taps(totals, i * stride, Along(1, stride, 1), lanes)
                inside = below(count - i, lanes)
                c.store(row * over.wide.count + o + i, value.to(c.dtype), mask=inside)

    each_row(over, over.high.count, None, reduce_row)


@kl.helper
def join(
    parts: kl.Pointer,
    totals: kl.Pointer,
    places: kl.Number,
    spread: kl.Number,
    taps: kl.Number,
    gap: kl.Number,
    bits: kl.Number,
    lanes: int,
    by: ReductionOp,
) -> None:
    """Reduce the taps behind each of the first places; the parts of one tap are those of many."""
    length, done = taps * 0 + 1, taps * 0
    for _ in kl.range(bits):
        if taps // length % 2 == 1:
            for i in kl.range(0, places, lanes):
                value = parts.load(i + done * gap, lanes)
                totals.store(i, by.combine(totals.load(i, lanes), value))
            done += length
        for i in kl.range(0, spread - length * gap, lanes):
            value = parts.load(i + length * gap, lanes)
            parts.store(i, by.combine(parts.load(i, lanes), value))
        length = length * 2


@kl.kernel
def choose_long_rows(
    x: kl.In,
    chosen: kl.Out,
    over: SeenRows[kl.Number],
    plane_step: kl.Stride,
    row_step: kl.Stride,
    taps: kl.Size,
    gap: kl.Size,
    *,
    stride: int,
    dilation: int,
    lanes: int,
    by: ReductionOp,
) -> None:
    """Write the index of each window's extreme, counted from 1; 0 if all is padding."""
    width, tap_of = over.wide.size, Along(1, stride, 1)

    def choose(row: kl.Number, plane: kl.Number, group: kl.Index, y: kl.Number) -> None:
        top = y * over.stride + over.high.start
        begin, end = over.inside(top, dilation)
        at = plane * plane_step + top * row_step
        for o in kl.range(0, over.wide.count, lanes):
            left = o * stride + over.wide.start
            best = kl.registers(1, by.dtype, lanes, by.identity)
            number = kl.registers(1, int32, lanes)
            whole = (left >= 0) and (left + tap_of.spread(lanes) + (taps - 1) * gap <= width)
            for k in kl.range(begin, end):
                of = at + k * dilation * row_step + left
                for tap in kl.range(taps):
                    mark = kl.splat(kl.cast(k * taps + tap + 1, int32), lanes)
                    if whole:
                        (value,) = read_taps(x, of + tap * gap, tap_of, lanes)
                        keep_better(best, number, value.to(by.dtype), mark, None, by)
                    else:
                        masks = masks_of(left + tap * gap, tap_of, lanes, width)
                        there = within(left + tap * gap, lanes, width, stride)
                        (value,) = read_taps(x, of + tap * gap, tap_of, lanes, masks)
                        keep_better(best, number, value.to(by.dtype), mark, there, by)
            inside = below(over.wide.count - o, lanes)
            chosen.store(row * over.wide.count + o, number[0].to(chosen.dtype), mask=inside)

    each_row(over, over.high.count, None, choose)


def keep_better(
    best: kl.Registers,
    number: kl.Registers,
    value: kl.Number,
    mark: kl.Number,
    there: kl.Mask | None,
    by: ReductionOp,
) -> None:
    """Keep a tap of each window if it beats those before, or is the first."""
    better = by.beats(value, best[0]) | (number[0] == 0)
    if there is not None:
        better = better & there
    best[0] = kl.select(better, value, best[0])
    number[0] = kl.select(better, mark, number[0])
