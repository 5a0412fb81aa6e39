"""Sliding windows over dense rows, with vectors along the rows.

Requirements: the input is read once, in order, at the speed of memory. The rows of a window are
reduced onto each other first, in blocks in memory of the unit, and the result is then reduced along
the row. A stride of two costs a shuffle. The order of a sum depends on the windows alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from calor.dtypes import int32
from calor_kernel.language import (
    In,
    Number,
    Out,
    Pointer,
    SizeOf,
    StrideOf,
    constant,
    cube_position,
    helper,
    kernel,
    max,
    min,
    private,
    range,
    shuffle,
    splat,
)
from calor_kernel.library.conv.phase_planes import iota
from calor_kernel.library.conv.row_windows import AHEAD, Along
from calor_kernel.library.pool.problem import Reduction

N = TypeVar("N")


@dataclass(frozen=True, slots=True)
class SeenRows(Generic[N]):
    """Rows of windows, and the rows and positions that they read.

    A cube has ``turns`` of the ``rows``; a plane has ``windows`` of them. ``window``, ``stride``,
    ``start`` and ``height`` say which rows of an operand a row of windows reads; that operand has
    planes ``plane_step`` apart, and rows of ``width`` elements ``row_step`` apart. A row of
    ``out_width`` windows begins at ``width_start``.
    """

    rows: SizeOf[N]
    turns: SizeOf[N]
    windows: SizeOf[N]
    window: SizeOf[N]
    stride: SizeOf[N]
    start: StrideOf[N]
    height: SizeOf[N]
    plane_step: StrideOf[N]
    row_step: StrideOf[N]
    out_width: SizeOf[N]
    width_start: StrideOf[N]
    width: SizeOf[N]


@helper
def taken(kind: str, total: Number, value: Number) -> Number:
    """Return a total with a value added to it."""
    if kind == "sum":
        return total + value
    return max(total, value) if kind == "max" else min(total, value)


@kernel
def reduce_rows(
    x: In,
    c: Out,
    over: SeenRows[Number],
    *,
    along: Along,
    dilation: int,
    lanes: int,
    block: int,
    by: Reduction,
    stream: bool,
) -> None:
    """Reduce rows of windows, ``block`` windows together; ``stream``: results bypass the caches."""
    first = cube_position(0) * over.turns
    last = min(first + over.turns, over.rows)
    plane, y = first // over.windows, first % over.windows
    buffer = private(
        block * along.stride + (along.taps - 1) * along.dilation + 2 * lanes, by.wide, align=64
    )
    for row in range(first, last):
        top = y * over.stride + over.start
        begin, end = seen(top, over.window, over.height, dilation)
        at = plane * over.plane_step + (top + begin * dilation) * over.row_step
        for o in range(0, over.out_width, block):
            count = min(over.out_width - o, block)
            left = o * along.stride + over.width_start
            # Reads are whole vectors of windows, with two elements of each window.
            full = (count + (lanes - 1)) // lanes * lanes
            spread = full * along.stride + (along.taps - 1) * along.dilation
            for i in range(0, spread, lanes):
                step, rows = dilation * over.row_step, end - begin
                value = fold(x, at, left + i, over.width, rows, step, lanes, by)
                buffer.store(i, value)
            for i in range(0, count, lanes):
                value = reduced(buffer, i * along.stride, along, lanes, by.kind).to(c.dtype)
                place = row * over.out_width + o + i
                if i + lanes <= count:
                    align = lanes * c.dtype.itemsize if stream else 0
                    c.store(place, value, nontemporal=stream, align=align)
                else:
                    c.store(place, value, mask=iota(lanes) < splat((count - i).to(int32), lanes))
        y += 1
        if y == over.windows:
            y = y * 0
            plane += 1


@helper
def seen(top: Number, window: Number, height: Number, dilation: int) -> tuple[Number, Number]:
    """Return the first position of a window inside the array, and the first one beyond it."""
    begin = (max(-top, 0) + (dilation - 1)) // dilation
    end = min(window, (max(height - top, 0) + (dilation - 1)) // dilation)
    return begin, max(begin, end)


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
            total = taken(by.kind, total, x.load(at + k * step + column, lanes).to(by.wide))
    else:
        place = iota(lanes) + splat(column.to(int32), lanes)
        inside = (place >= 0) & (place < splat(width.to(int32), lanes))
        for k in range(count):
            value = x.load(at + k * step + column, lanes, mask=inside, other=by.identity)
            total = taken(by.kind, total, value.to(by.wide))
    return total


def reduced(buffer: Pointer, at: Number, along: Along, lanes: int, kind: str) -> Number:
    """Return the reduced windows of a row, from the one that begins at ``at`` on."""
    total: Number | None = None
    pair: list[Number] = []
    for k in range(along.taps):
        place = at + k * along.dilation
        if along.stride == 1:
            value = buffer.load(place, lanes)
        elif along.stride == 2:
            odd = along.dilation == 1 and k % 2
            if not odd:
                pair = [buffer.load(place + part * lanes, lanes) for part in range(2)]
            value = shuffle(pair[0], range(1 if odd else 0, 2 * lanes, 2), pair[1])
        else:
            steps = tuple(i * along.stride for i in range(lanes))
            value = buffer.load(place + constant(steps, place.dtype))
        total = value if total is None else taken(kind, total, value)
    assert total is not None
    return total
