"""Sliding windows over dense rows, with vectors along the rows.

Requirements: the input is read once, in order, at the speed of memory. The rows of a window are
reduced onto each other first, in blocks in memory of the unit, and the result is then reduced along
the row. A stride of two costs a shuffle. The order of a sum depends on the windows alone.
"""

from __future__ import annotations

from functools import reduce

from calor_kernel.language import (
    In,
    Index,
    Number,
    Out,
    Pointer,
    Stride,
    constant,
    helper,
    kernel,
    min,
    private,
    range,
)
from calor_kernel.library.conv.row_windows import AHEAD, Along, SeenRows, each_row, read_taps
from calor_kernel.library.conv.vector_tiles import below, within
from calor_kernel.library.pool.problem import Reduction


@kernel
def reduce_rows(
    x: In,
    c: Out,
    over: SeenRows[Number],
    plane_step: Stride,
    row_step: Stride,
    *,
    along: Along,
    dilation: int,
    lanes: int,
    block: int,
    by: Reduction,
    stream: bool,
) -> None:
    """Reduce rows of windows, ``block`` windows together; ``stream``: results bypass the caches."""
    # Reads are whole vectors of windows, with two elements of each window.
    size = block * along.stride + (along.taps - 1) * along.dilation + 2 * lanes
    buffer = private(size, by.wide, align=64)

    def reduce_row(row: Number, plane: Number, group: Index, y: Number) -> None:
        top = y * over.stride + over.high.start
        begin, end = over.inside(top, dilation)
        at = plane * plane_step + (top + begin * dilation) * row_step
        for o in range(0, over.wide.count, block):
            count = min(over.wide.count - o, block)
            left = o * along.stride + over.wide.start
            full = (count + (lanes - 1)) // lanes * lanes
            spread = full * along.stride + (along.taps - 1) * along.dilation
            for i in range(0, spread, lanes):
                step, rows = dilation * row_step, end - begin
                value = fold(x, at, left + i, over.wide.size, rows, step, lanes, by)
                buffer.store(i, value)
            for i in range(0, count, lanes):
                value = reduced(buffer, i * along.stride, along, lanes, by).to(c.dtype)
                place = row * over.wide.count + o + i
                if i + lanes <= count:
                    align = lanes * c.dtype.itemsize if stream else 0
                    c.store(place, value, nontemporal=stream, align=align)
                else:
                    c.store(place, value, mask=below(count - i, lanes))

    each_row(over, over.high.count, None, reduce_row)


@helper
def fold(
    x: Pointer,
    at: Number,
    column: Number,
    width: Number,
    count: Number,
    step: Number,
    lanes: int,
    by: Reduction,
) -> Number:
    """Return a vector of ``count`` rows reduced onto each other; the identity beyond the row."""
    total = constant(by.identity, by.wide, lanes)
    # Hardware does not predict reads of rows below each other well.
    ahead = AHEAD // x.dtype.itemsize
    if (column >= 0) and (column + lanes <= width):
        for k in range(count):
            x.prefetch(at + k * step + column + ahead, locality=3)
            total = by.take(total, x.load(at + k * step + column, lanes).to(by.wide))
    else:
        inside = within(column, lanes, width)
        for k in range(count):
            value = x.load(at + k * step + column, lanes, mask=inside, other=by.identity)
            total = by.take(total, value.to(by.wide))
    return total


def reduced(buffer: Pointer, at: Number, along: Along, lanes: int, by: Reduction) -> Number:
    """Return the reduced windows of a row, from the one that begins at ``at`` on."""
    return reduce(by.take, read_taps(buffer, at, along, lanes))
