"""Single elements of rows, read at computed places along the rows, by cubes of one unit.

Requirements: a vector of indices is checked once for several rows that share it, and no element
needs a division. Rows and picks are both shared among cubes, since either may be few. Rows with
fewer picks than lanes are read several at a time, so that no lane is idle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from calor.dtypes import int32, int64
from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import Launch, Output, Status, View
from calor_kernel.library.indexing.checked_index import Failures, report_lanes

N = TypeVar("N")
# Rows that share a vector of indices, and picks and elements of a cube.
_HEIGHT, _PICKS, _ELEMENTS = 4, 1 << 12, 1 << 14


@dataclass(frozen=True, slots=True)
class PickedRows(Generic[N]):
    """Rows of ``picks`` elements, of source rows of ``size`` elements; ``turns`` rows a cube.

    ``outer_step``: the distance of rows of the source, ``pick_step`` that of rows of indices: 0 if
    all rows have the same.
    """

    rows: kl.SizeOf[N]
    turns: kl.SizeOf[N]
    picks: kl.SizeOf[N]
    size: kl.SizeOf[N]
    outer_step: kl.SizeOf[N]
    pick_step: kl.SizeOf[N]


@kl.kernel
def gather_columns(
    source: kl.In,
    indices: kl.In,
    target: kl.Out,
    status: Failures,
    over: PickedRows[kl.Number],
    *,
    lanes: int,
    height: int,
    shared: bool,
    span: int,
) -> None:
    """Write element (row, pick): that of the source's row at the index of the pick.

    ``shared``: all rows have the same indices, so ``height`` rows are read at a time; else one. A
    cube has ``span`` picks of its rows.
    """
    picks = over.picks
    begin = kl.cube_position(0) * over.turns
    end = kl.min(begin + over.turns, over.rows)
    first = kl.cube_position(1) * span
    last = kl.min(first + span, picks)
    for top in kl.loop_range(begin, end, height):
        # Rows beyond the last are the last again.
        rows = [kl.min(top + i, end - 1) for i in kl.range(height)]
        for pick in kl.loop_range(first, last, lanes):
            inside = kl.constant(tuple(kl.range(lanes)), int64) < kl.splat(last - pick, lanes)
            at = pick if shared else top * over.pick_step + pick
            place = source_places(indices, at, inside, over.size, status, lanes)
            for i in kl.range(height):
                # Lanes beyond the last pick read the first element. Processors' gathers are slower
                # than loads of single elements, or no faster.
                row = source.at(rows[i] * over.outer_step)
                value = kl.pack([row[place[lane]] for lane in kl.range(lanes)])
                target.store(rows[i] * picks + pick, value, mask=inside)


@kl.kernel
def gather_few(
    source: kl.In,
    indices: kl.In,
    target: kl.Out,
    status: Failures,
    over: PickedRows[kl.Number],
    *,
    lanes: int,
    picks: int,
) -> None:
    """Write element (row, pick): that of the source's row at an index of its own.

    ``picks`` of each row are fewer than ``lanes``: as many rows are as many vectors as picks.
    """
    begin = kl.cube_position(0) * over.turns
    end = kl.min(begin + over.turns, over.rows)
    last = end * picks
    for top in kl.loop_range(begin, end, lanes):
        for part in kl.range(picks):
            first = top * picks + part * lanes
            inside = kl.constant(tuple(kl.range(lanes)), int64) < kl.splat(last - first, lanes)
            place = source_places(indices, first, inside, over.size, status, lanes)
            rows = kl.constant(
                tuple([(part * lanes + lane) // picks for lane in kl.range(lanes)]), int64
            )
            start = kl.splat(top * over.outer_step, lanes) + rows * over.outer_step
            # Lanes beyond the last row read the first element.
            place = kl.select(inside, place + start, kl.constant(0, int64, lanes))
            value = kl.pack([source[place[lane]] for lane in kl.range(lanes)])
            target.store(first, value, mask=inside)


@kl.helper
def source_places(
    indices: kl.Pointer,
    at: kl.Number,
    inside: kl.Number,
    size: kl.Number,
    status: kl.Pointer,
    lanes: int,
) -> kl.Number:
    """Return indices counted from the start; those out of range give 0 and a failure."""
    index = indices.load(at, lanes, mask=inside)
    position, zero = index.to(int64), kl.constant(0, int64, lanes)
    wrong = (position < -size) | (position >= size)
    if index.dtype.kind == "uint" and index.dtype.itemsize == 8:
        wrong = wrong | (position < 0)
    if kl.vreduce("or", wrong):
        report_lanes(status, index, wrong, size, lanes)
    position = kl.select(position < 0, position + size, position)
    return kl.select(wrong, zero, position)


def columns_launch(
    x: View, indices: Bound, rows: int, picks: int, size: int, info: DeviceInfo, *, shared: bool
) -> Launch:
    """Return the launch that gathers ``picks`` elements for each of ``rows`` rows of ``size``."""
    lanes = max(1, info.vector_bytes // max(x.dtype.itemsize, 4))
    if not shared and picks < lanes:
        return _few_launch(x, indices, rows, picks, size, lanes)
    turns = greatest(1, least(rows, _ELEMENTS // greatest(1, least(picks, _PICKS))))
    height = _HEIGHT if shared else 1
    nbytes = 2 * rows * picks * x.dtype.itemsize
    nbytes += (picks if shared else rows * picks) * indices.dtype.itemsize
    return launch(
        gather_columns,
        Grid((-(-rows // turns), -(-picks // _PICKS), 1)),
        Effort("gather columns", 0, nbytes),
        source=operand(0, x),
        indices=indices,
        target=Bound(Output(), x.dtype),
        status=Bound(Status(), int32),
        over=PickedRows(
            rows=rows,
            turns=turns,
            picks=picks,
            size=size,
            outer_step=size if rows > 1 else 0,
            pick_step=0 if shared else picks,
        ),
        lanes=lanes,
        height=height,
        shared=shared,
        span=_PICKS,
    )


def _few_launch(x: View, indices: Bound, rows: int, picks: int, size: int, lanes: int) -> Launch:
    known = next(n for n in range(1, lanes) if picks == n)
    turns = greatest(1, least(rows, _ELEMENTS // lanes // known * lanes))
    return launch(
        gather_few,
        Grid.line(-(-rows // turns)),
        Effort("gather columns", 0, rows * picks * (2 * x.dtype.itemsize + indices.dtype.itemsize)),
        source=operand(0, x),
        indices=indices,
        target=Bound(Output(), x.dtype),
        status=Bound(Status(), int32),
        over=PickedRows(
            rows=rows, turns=turns, picks=picks, size=size, outer_step=size, pick_step=picks
        ),
        lanes=lanes,
        picks=known,
    )
