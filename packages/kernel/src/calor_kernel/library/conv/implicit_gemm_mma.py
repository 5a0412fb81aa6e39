"""Implicit GEMM convolutions by matrix instructions of planes.

Requirements: channels are dense, so a copy is a whole access of one pixel and one tap. The copy
fills padding with zeros. A pixel's coordinates are computed once and a step's tap once; the rest is
additions and comparisons. Rows of the product are output channels and columns are output pixels, so
results are written with channels first. (Implicit GEMM, as in Chetlur et al., "cuDNN: efficient
primitives for deep learning", 2014.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor_kernel.language import (
    FastDivmod,
    MatrixShape,
    Pipeline,
    assume_multiple,
    cube_position,
    helper,
    kernel,
    pack,
    select,
    unit_index,
    way_of_units,
)
from calor_kernel.language.matrices import register_places
from calor_kernel.library.gemm.mma import Fragments
from calor_kernel.library.gemm.pipeline import pass_over


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of an operand with dense channels, along two axes.

    Terms are a block of channels of each tap, then the next block, so that overlapping windows are
    read while their shared elements are cached.
    """

    counts: Any
    taps: Any
    channels: Any
    axes: Any
    strides: Any

    @helper
    def start(self, column: Any, total: Any) -> Any:
        """Return the start and coordinates of a pixel's window; outside the image if none."""
        lead, place = self.counts[0].divmod(column)
        down, across = self.counts[1].divmod(place)
        y = down * self.axes[0][0] + self.axes[0][2]
        x = across * self.axes[1][0] + self.axes[1][2]
        at = lead * self.strides[0] + y * self.strides[1] + x * self.strides[2]
        # No tap reaches the image from there.
        return at, select(column < total, y, -(1 << 30)), x

    @helper
    def tap(self, term: Any) -> Any:
        """Return a term's distance from the window's start, along both axes and in elements."""
        step, channel = self.channels.divmod(term)
        some, tap = self.taps[0].divmod(step)
        down, across = self.taps[1].divmod(tap)
        y, x = down * self.axes[0][1], across * self.axes[1][1]
        channel = some * self.channels.divisor + channel
        return y, x, y * self.strides[1] + x * self.strides[2] + channel

    @helper
    def of(self, term: Any, strides: Any) -> Any:
        """Return a term's position in its weight row: a start, and strides of its coordinates."""
        step, channel = self.channels.divmod(term)
        some, tap = self.taps[0].divmod(step)
        down, across = self.taps[1].divmod(tap)
        start, some_step, down_step, across_step = strides
        return start + some * some_step + down * down_step + across * across_step + channel

    @helper
    def inside(self, y: Any, x: Any) -> Any:
        """Return whether a position is not padding."""
        high, wide = self.axes[0][3], self.axes[1][3]
        return (y >= 0) & (y < high) & (x >= 0) & (x < wide)


def windows_of(numbers: Any) -> Windows:
    """Return the windows of a kernel's numbers: three strides, two axes, five divisors."""
    axes = (numbers[3:7], numbers[7:11])
    counts = FastDivmod.groups(numbers[11:17])
    *taps, channels = FastDivmod.groups(numbers[17:26])
    return Windows(counts, taps, channels, axes, numbers[:3])


# The count of numbers of a phase: its own eight, and its windows' without the operand's strides.
PHASE = 8 + 23


def phase_of(numbers: Any, phase: Any, phases: int, half: int, halves: int) -> list[Any]:
    """Return the PHASE numbers of a half of a phase."""
    each = [numbers[i : i + PHASE] for i in range(half * PHASE, len(numbers), halves * PHASE)]
    chosen = list(each[0])
    for i in range(1, phases):
        here = phase == i
        chosen = [select(here, b, a) for a, b in zip(chosen, each[i], strict=True)]
    return chosen


@kernel
def conv_fragments(
    w: Any,
    x: Any,
    c: Any,
    rows_total: Any,
    w_row: Any,
    splits: Any,
    part_step: Any,
    c_row: Any,
    c_lead: Any,
    c_down: Any,
    c_across: Any,
    *numbers: Any,
    plan: Fragments,
    pairs: bool,
    phases: int,
    halves: int,
    ragged: bool,
) -> None:
    """Compute a tile: output channels from y, output pixels from x; a phase and part from z.

    A phase is the output pixels with the same taps. Its PHASE numbers are the counts of pixels and
    terms, the terms of a part, the phase's first element in the result, the positions of its terms
    in ``w``, and the windows. Pixels of two ``halves`` alternate along a row of the result, and are
    written together. ``pairs``: whether pixels are dense in the result, or halves are, and even in
    number, so that two are one access. ``ragged``: whether tiles have rows beyond the last channel.
    """
    phase, split = cube_position(2) // splits, cube_position(2) % splits
    first_row, first_column = cube_position(1) * plan.rows, cube_position(0) * plan.columns
    pipe = Pipeline(plan.stages, *plan.tiles, how=way_of_units())
    operands = (w, x, rows_total, w_row, first_row, first_column)
    made = []
    for half in range(halves):
        of_phase = phase_of(numbers[3:], phase, phases, half, halves)
        if half > 0:
            pass_over(pipe)
        made.append(sums_of_phase(pipe, plan, operands, of_phase, numbers[:3], split))
    columns_total, _, _, c_start, *rest = phase_of(numbers[3:], phase, phases, 0, halves)
    windows = windows_of([*numbers[:3], *rest[4:]])
    _, row, column = made[0]
    tiles = [sums for sums, _, _ in made]
    for j, far in columns_of(tiles[0][0]):
        down, right = tiles[0][0][j].lane_place()
        place = first_column + column + j * plan.shape.n + right + far
        for e in range(1 if pairs else run_of(plan.shape)):
            lead, within = windows.counts[0].divmod(place + e)
            high, wide = windows.counts[1].divmod(within)
            if pairs and halves == 1:
                at = assume_multiple(within, 2)
            else:
                at = c_start + high * c_down + wide * c_across
                at = assume_multiple(at, halves * (2 if pairs else 1))
            at = split * part_step + lead * c_lead + at
            # A mask would apply to each element and split the accesses.
            if place + e < columns_total:
                for i in range(len(tiles[0])):
                    several = [rows_of(sums[i][j], far) for sums in tiles]
                    for both in zip(*several, strict=True):
                        to = first_row + row + i * plan.shape.m + down + both[0][0]
                        # The halves of a pixel are adjacent.
                        pairs_of = range(1, len(both[0]))
                        values = [one for k in pairs_of for one in [half[k] for half in both]]
                        step = len(values) if pairs else halves
                        found = pack(values[e * step : (e + 1) * step])
                        if not ragged or (to < rows_total):
                            c.store(at + to * c_row, found.to(c.dtype))


@helper
def sums_of_phase(
    pipe: Any, plan: Fragments, operands: Any, of_phase: Any, strides: Any, split: Any
) -> tuple[Any, Any, Any]:
    """Return the sums of a phase's tile, and the first row and column of a plane."""
    w, x, rows_total, w_row, first_row, first_column = operands
    columns_total, terms, share, _, *rest = of_phase
    of_weights, windows = rest[:4], windows_of([*strides, *rest[4:]])
    begin, end = split * share, min((split + 1) * share, terms)
    sums, row, column = plan.sums()
    # A unit always copies the same terms of a step, for the same rows and columns.
    lines = plan.depth // plan.access
    line, term = unit_index() // lines, unit_index() % lines * plan.access
    apart = plan.units // lines
    starts = [
        windows.start(first_column + line + turn * apart, columns_total)
        for turn in range(plan.columns // apart)
    ]
    source = (w, x, windows, starts, rows_total, w_row, of_weights, end)

    def load(pipe: Any, at: Any) -> None:
        take_step(pipe, source, plan, first_row, line, term, at)

    plan.accumulate(sums, pipe, (load,), row, column, begin, end)
    return sums, row, column


def run_of(shape: MatrixShape) -> int:
    """Return how many sums of a unit are adjacent in a row: two or one."""
    places = register_places(shape, "c")
    pairs = zip(places[::2], places[1::2], strict=True)
    return 2 if all(b == (a[0], a[1] + 1) for a, b in pairs) else 1


def columns_of(tiles: Any) -> list[tuple[int, int]]:
    """Return a unit's runs of columns: the tile, and the offset in it."""
    step = run_of(tiles[0].shape)
    places = [tiles[0].register_place(r) for r in range(0, tiles[0].count, step)]
    fars = dict.fromkeys(column for _, column in places)
    return [(j, far) for j in range(len(tiles)) for far in fars]


def rows_of(tile: Any, far: int) -> list[tuple[Any, ...]]:
    """Return the rows of a unit's run of columns, with their indices."""
    step, found = run_of(tile.shape), []
    for r in range(0, tile.count, step):
        row, column = tile.register_place(r)
        if column == far:
            found.append((row, *(tile.parts[0][r + e] for e in range(step))))
    return found


@helper
def take_step(
    pipe: Any, source: Any, plan: Fragments, first_row: Any, line: Any, term: Any, begin: Any
) -> None:
    """Start copying a step's tiles, with zeros for padding and beyond the operands."""
    w, x, windows, starts, rows_total, w_row, of_weights, end = source
    left_at, right_at = plan.layout(True), plan.layout(False)
    apart = plan.units * plan.access // plan.depth
    k = begin + term
    there = k < end
    begin_of = windows.of(k, of_weights)
    for turn in range(plan.rows // apart):
        row = line + turn * apart
        inside = there & (first_row + row < rows_total)
        of = (first_row + row) * w_row + begin_of
        pipe.copy(0, left_at(row, term), w, of, plan.access, inside, near=True)
    far_y, far_x, far = windows.tap(k)
    for turn, (at, y, across) in enumerate(starts):
        place = line + turn * apart
        inside = there & windows.inside(y + far_y, across + far_x)
        pipe.copy(1, right_at(term, place), x, at + far, plan.access, inside, near=True)
