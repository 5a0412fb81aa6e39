"""Large windows that overlap, for cubes of many units: along lines first, then across them.

Requirements: a window of k by k positions costs 2 k terms instead of k². A line's extreme is the
same for all windows across it, so the extreme of a window is the first line's with the best one,
and the gradients of a line's windows have one place: its elements and its windows are gathered as
those of windows along one axis. The first of equal extremes in the window's row-major order counts.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Final

from calor.dtypes import int32
from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds, is_size
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Launch, Output, View, Work
from calor_kernel.library.conv.vector_tiles import Slide
from calor_kernel.library.copying.transfer import index_of
from calor_kernel.library.pool.blocks import UNITS, gradient_of_blocks, span_of
from calor_kernel.library.pool.general import Sliding
from calor_kernel.library.pool.long_rows import keep_better
from calor_kernel.library.pool.problem import Seen, Windows, leading, number_type, reduction
from calor_kernel.library.pool.window_blocks import reduction_of_blocks
from calor_kernel.library.reduce.reduction_ops import ReductionOp

# Positions of a window from which it is taken apart, those of its lines at most, which are
# unrolled, and the least number of windows.
PLACES: Final = 64
_LINES: Final = 64
WINDOWS: Final = 1 << 13


@kl.kernel
def choose_lines(
    x: kl.In,
    columns: kl.In,
    chosen: kl.Out,
    over: Sliding[kl.Number, kl.FastDivmod],
    *,
    taps: tuple[int, ...],
    by: ReductionOp,
) -> None:
    """Write which line of each window has its extreme, counted from 1; 0 if all is padding.

    ``columns``: the positions of the lines' extremes, counted from 1. ``over.strides``: those of x
    and of ``columns``. ``taps``: the lines along each axis.
    """
    first, _, inside, place, bases = over.results(1)
    *outer, column = place
    last = over.slides[-1]
    found: list[tuple[kl.Number, kl.Number, kl.Mask]] = []
    for down in product(*map(range, taps)):
        at, of, valid = *bases, inside
        for axis, (index, tap) in enumerate(zip(outer, down, strict=True)):
            slide = over.slides[axis]
            element = index * slide.stride + tap * slide.dilation + slide.start
            valid = valid & (element >= 0) & (element < slide.size)
            at = at + element * over.strides[0][axis]
            of = of + element * over.strides[1][axis]
        number = columns.load(of + column * over.strides[1][-1], mask=valid).to(first.dtype)
        element = column * last.stride + (number - 1) * last.dilation + last.start
        found.append((at + element * over.strides[0][-1], number, valid & (number > 0)))
    values = [x.load(at, mask=valid).to(by.dtype) for at, _, valid in found]
    best, line = kl.registers(1, by.dtype, 1, by.identity), kl.registers(1, int32)
    for k, (value, (_, _, valid)) in enumerate(zip(values, found, strict=True)):
        keep_better(best, line, value, kl.constant(k + 1, int32), valid, by)
    chosen.store(first, line[0].to(chosen.dtype), mask=inside)


def apart(windows: Windows, info: DeviceInfo) -> tuple[Windows, Windows] | None:
    """Return the windows along lines, and those of lines; None if taking apart does not pay."""
    *outer, last = windows.slides
    if info.max_units == 1 or not outer or any(is_size(s.window) for s in windows.slides):
        return None
    lines = prod(s.window for s in outer)
    if windows.places <= PLACES or lines > _LINES or not exceeds(windows.windows, WINDOWS):
        return None
    along = Windows((*windows.lead, *(s.size for s in outer)), (last,))
    across = Windows(windows.lead, (*outer, Slide(last.count, 1, 1, 1, 0, last.count)))
    terms = along.windows * last.window + windows.windows * lines
    return (along, across) if exceeds(windows.windows * windows.places, 2 * terms) else None


def reduction_of_lines(windows: Windows, x: View, kind: str, info: DeviceInfo) -> Work | None:
    """Return the work that reduces large windows of operand 0, or None."""
    found = apart(windows, info)
    if found is None:
        return None
    along, across = found
    dtype = reduction(kind, x.dtype).dtype if kind == "sum" else x.dtype
    lines = Seen.scratch(0, (*along.lead, along.slides[-1].count), dtype)
    made = [
        reduction_of_blocks(along, Seen.operand(0, x), kind, lines.bound, False, info),
        reduction_of_blocks(across, lines, kind, Bound(Output(), x.dtype), False, info),
    ]
    return _work(made, (lines,))


def gradient_of_lines(
    windows: Windows, g: View, x: View, kind: str, info: DeviceInfo
) -> Work | None:
    """Return the work of the gradient of large windows' elements, or None.

    Operands are the windows' gradients and the elements.
    """
    found = apart(windows, info)
    if found is None:
        return None
    along, across = found
    shape = (*along.lead, along.slides[-1].count)
    every, small = kind == "sum", number_type(windows.places, info)
    sums = Seen.scratch(0, shape, reduction("sum", g.dtype).dtype)
    columns = Seen.scratch(1, shape, small)
    lines = Seen.scratch(2, g.shape, small)
    made: list[Launch | None] = []
    if not every:
        seen = Seen.operand(1, x)
        made += [
            reduction_of_blocks(along, seen, kind, columns.bound, True, info),
            _choice_of_lines(windows, seen, columns, lines, kind, info),
        ]
    given = Seen.operand(0, g)
    # Of a sum nothing reads the positions.
    marks = (given, sums) if every else (lines, columns)
    result = Bound(Output(), g.dtype)
    made += [
        gradient_of_blocks(across, given, marks[0], sums.bound, every, info),
        gradient_of_blocks(along, sums, marks[1], result, every, info),
    ]
    return _work(made, (sums,) if every else (sums, columns, lines))


def _work(made: list[Launch | None], rooms: tuple[Seen, ...]) -> Work | None:
    launches = tuple(one for one in made if one is not None)
    sizes = tuple(room.view.size * room.view.dtype.itemsize for room in rooms)
    return Work(launches, sizes) if len(launches) == len(made) else None


def _choice_of_lines(
    windows: Windows, seen: Seen, columns: Seen, lines: Seen, kind: str, info: DeviceInfo
) -> Launch:
    lead, views = len(windows.lead), (seen.view, columns.view)
    leads = tuple(leading(views, lead))
    units = min(info.max_units, UNITS)
    count = windows.windows
    sizes = (*(axis.size for axis in leads), *(s.count for s in windows.slides))
    ends = [2 * windows.elements, 2 * columns.view.size, count + units, span_of(seen.view)]
    taps = tuple(s.window for s in windows.slides[:-1])
    nbytes = windows.elements * seen.view.dtype.itemsize + lines.view.size
    return launch(
        choose_lines,
        Grid.line(-(-count // units), units, index=index_of(ends, info)),
        Effort("window lines", count * prod(taps), nbytes),
        x=seen.bound,
        columns=columns.bound,
        chosen=lines.bound,
        over=Sliding(count, sizes, windows.slides, tuple(v.strides[lead:] for v in views), leads),
        taps=taps,
        by=reduction(kind, seen.view.dtype),
    )
