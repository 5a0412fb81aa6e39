"""Few windows along dense rows, far apart: vectors along each window.

Requirements: where a row has fewer windows than a vector has lanes, as of adaptive pooling to a few
pixels, lanes of neighbouring windows would be empty, and the elements between them as many as
lanes. Each window is read in order instead, and its lanes are joined once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from calor.dtypes import int32
from calor_kernel import language as kl
from calor_kernel.library.conv.row_windows import SeenRows, each_row
from calor_kernel.library.conv.vector_tiles import below
from calor_kernel.library.reduce.argminmax_cooperative import over_lanes
from calor_kernel.library.reduce.reduction_ops import ReductionOp


@dataclass(frozen=True, slots=True)
class FewWindow:
    """A window: its ``number``, and its rows and positions that are inside the plane.

    ``at``: the first position of its first row, which may be outside.
    """

    number: kl.Number
    begin: kl.Number
    end: kl.Number
    first: kl.Number
    last: kl.Number
    at: kl.Number


@kl.helper
def each_window(
    over: SeenRows[kl.Number],
    plane_step: kl.Number,
    row_step: kl.Number,
    taps: kl.Number,
    stride: kl.Number,
    dilation: int,
    body: Callable[[FewWindow], None],
) -> None:
    """Call ``body`` for each window of the rows of a cube."""

    def windows_of(row: kl.Number, plane: kl.Number, group: kl.Index, y: kl.Number) -> None:
        top = y * over.stride + over.high.start
        begin, end = over.inside(top, dilation)
        at = plane * plane_step + top * row_step
        for o in kl.range(over.wide.count):
            left = o * stride + over.wide.start
            first, last = kl.max(-left, 0), kl.min(over.wide.size - left, taps)
            number = row * over.wide.count + o
            body(FewWindow(number, begin, end, first, last, at + left))

    each_row(over, over.high.count, None, windows_of)


@kl.kernel
def reduce_few_windows(
    x: kl.In,
    c: kl.Out,
    over: SeenRows[kl.Number],
    plane_step: kl.Stride,
    row_step: kl.Stride,
    taps: kl.Size,
    stride: kl.Size,
    *,
    dilation: int,
    lanes: int,
    by: ReductionOp,
) -> None:
    """Reduce rows of windows of ``taps`` adjacent positions, ``stride`` apart."""

    def reduce(window: FewWindow) -> None:
        total = kl.constant(by.identity, by.dtype, lanes)
        for k in kl.range(window.begin, window.end):
            line = window.at + k * dilation * row_step
            for t in kl.range(window.first, window.last, lanes):
                value = some_taps(x, line + t, window.last - t, lanes, by)
                total = by.combine(total, value)
        c.store(window.number, by.over_lanes(total).to(c.dtype))

    each_window(over, plane_step, row_step, taps, stride, dilation, reduce)


@kl.kernel
def choose_few_windows(
    x: kl.In,
    chosen: kl.Out,
    over: SeenRows[kl.Number],
    plane_step: kl.Stride,
    row_step: kl.Stride,
    taps: kl.Size,
    stride: kl.Size,
    *,
    dilation: int,
    lanes: int,
    by: ReductionOp,
) -> None:
    """Write the index of each window's extreme, counted from 1; 0 if all is padding."""

    def choose(window: FewWindow) -> None:
        begin, first = window.begin, window.first
        # If nothing beats the identity, the first position is the choice. A lane has the number of
        # its vector.
        best = kl.constant(by.identity, by.dtype, lanes)
        number = kl.splat(kl.cast(begin * taps + first + 1, int32), lanes)
        for k in kl.range(begin, window.end):
            line = window.at + k * dilation * row_step
            for t in kl.range(first, window.last, lanes):
                value = some_taps(x, line + t, window.last - t, lanes, by)
                better = by.beats(value, best)
                mark = kl.splat(kl.cast(k * taps + t + 1, int32), lanes)
                best = kl.select(better, value, best)
                number = kl.select(better, mark, number)
        _, found = over_lanes(by, (best, number))
        padding = (begin >= window.end) | (first >= window.last)
        found = kl.select(padding, kl.constant(0, int32), found)
        chosen.store(window.number, found.to(chosen.dtype))

    each_window(over, plane_step, row_step, taps, stride, dilation, choose)


@kl.helper
def some_taps(
    x: kl.Pointer, at: kl.Number, rest: kl.Number, lanes: int, by: ReductionOp
) -> kl.Number:
    """Return a vector of taps, of which ``rest`` exist; the identity beyond."""
    value = kl.constant(by.identity, by.dtype, lanes)
    if rest >= lanes:
        value = x.load(at, lanes).to(by.dtype)
    else:
        value = x.load(at, lanes, mask=below(rest, lanes), other=by.identity).to(by.dtype)
    return value
