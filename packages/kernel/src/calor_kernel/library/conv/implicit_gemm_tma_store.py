"""The epilogue of TMA convolutions: sums go to adjacent pixels of each channel.

Requirements: a unit holds sums of many channels, whose pixels are far apart, so sums go through
shared memory. An access is as wide as pixels are adjacent, and common addresses and conditions are
computed once. If an input gradient's stride exceeds the window, one pixel of each stride cell has
taps and the others are zeros; whole cells are written, so that each memory line is written once.
The same holds for the pixels of two alternating phases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calor_kernel.language import (
    assume_multiple,
    barrier,
    constant,
    helper,
    lane_position,
    pack,
    unit_index,
)
from calor_kernel.library.conv.implicit_gemm_mma import columns_of, rows_of

# Columns of sums that are written at a time, and their row pitch in shared memory; the pitch puts
# the rows that a plane stores together in different banks.
PART, PITCH = 64, 72
_LANES, _PLANES = 32, 4
# Rows of sums of a warp group.
_ROWS = 64


@dataclass(frozen=True, slots=True)
class Cells:
    """Stride cells of ``sizes``, down and across; ``at``: the pixel of a cell that has the sum.

    ``access``: the elements of an access. ``cut``: whether the last cells reach beyond the result.
    """

    sizes: tuple[int, int]
    at: tuple[int, int]
    access: int
    cut: bool

    def row(self, value: Any, down: int) -> list[Any]:
        """Return the elements of a row of cells; ``value`` has their sums."""
        across, zero = self.sizes[1], constant(0, value.dtype)
        made = [zero] * (value.width * across)
        if down == self.at[0]:
            made[self.at[1] :: across] = [value[k] for k in range(value.width)]
        return made


@dataclass(frozen=True, slots=True)
class Writes:
    """The form of the result: ``run`` adjacent pixels of an access, or ``cells``.

    ``ragged``: whether tiles have rows beyond the last channel. ``phases``: the phases that
    alternate along a row of the result; a warp group has the rows of one, then those of the next.
    """

    run: int = 1
    ragged: bool = True
    cells: Cells | None = None
    phases: int = 1


ALONE = Writes()


@helper
def write(
    sums: Any, part: Any, c: Any, to: Any, first: Any, sizes: Any, plan: Any, how: Writes
) -> None:
    """Write a warp group's sums; ``first``: the channel, image, row and column of the tile.

    ``part``: shared memory of the warp group. ``sizes``: channels, images, rows and columns of
    pixels, and of the result if pixels are cells; with alternating phases, their row stride in the
    result and the first row.
    """
    start, c_row, c_lead = to
    rows_total, images, high, wide, *whole = sizes
    _, some_rows, some_columns = plan.box
    below, right = sums.lane_place()
    lane, plane = lane_position(), unit_index() // _LANES % _PLANES
    # Lanes with pixels of one channel, and channels that a plane writes at a time.
    side = min(_LANES, PART // how.run)
    together = _LANES // side
    own, near, rows = plane, lane * how.run, _ROWS // how.phases
    if together > 1:
        own, near = plane * together + lane // side, lane % side * how.run
    for begin in range(0, plan.columns, PART):
        barrier("warpgroup")
        for _, far in columns_of([sums]):
            if begin <= far < begin + PART:
                for r, *found in rows_of(sums, far):
                    place = (below + r) * PITCH + right + (far - begin)
                    part.store(assume_multiple(place, 2), pack(found).to(c.dtype))
        barrier("warpgroup")
        for far in range(0, min(PART, plan.columns - begin), side * how.run):
            place = begin + far + near
            line, x = place // some_columns, place % some_columns + first[3]
            image, y = line // some_rows + first[1], line % some_rows + first[2]
            inside = (place < plan.places) & (image < images) & (y < high) & (x < wide)
            # A mask would apply to each element and split the accesses.
            if inside:
                lead = start + image * c_lead + (first[0] + own) * c_row
                at = lead + (y * wide + x)
                if how.phases > 1:
                    at = lead + (y * whole[0] + whole[1] + x * how.phases)
                for row in range(0, rows, _PLANES * together):
                    value = in_turns(part, (own + row) * PITCH + far + near, how)
                    if not how.ragged or (first[0] + own + row < rows_total):
                        if how.cells is None:
                            there = assume_multiple(at + row * c_row, value.width)
                            c.store(there, value)
                        else:
                            store_cells(c, how.cells, value, lead + row * c_row, (y, x), whole)


@helper
def in_turns(part: Any, at: Any, how: Writes) -> Any:
    """Return the sums of a run of pixels, with all phases of each pixel."""
    step = _ROWS // how.phases * PITCH
    found = [
        part.load(assume_multiple(at + number * step, how.run), how.run)
        for number in range(how.phases)
    ]
    if how.phases == 1:
        return found[0]
    return pack([value[k] for k in range(how.run) for value in found])


@helper
def store_cells(
    c: Any, cells: Cells, value: Any, start: Any, place: Any, sizes: Sequence[Any]
) -> None:
    """Write adjacent cells from a row and column of cells on.

    ``start``: the first element of a plane of the result; ``sizes``: its rows and columns.
    """
    high, wide = sizes
    top, left = place[0] * cells.sizes[0], place[1] * cells.sizes[1]
    for down in range(cells.sizes[0]):
        made = cells.row(value, down)
        y = top + down
        for far in range(0, len(made), cells.access):
            x = left + far
            if not cells.cut or ((y < high) & (x < wide)):
                at = assume_multiple(start + (y * wide + x), cells.access)
                c.store(at, pack(made[far : far + cells.access]))
