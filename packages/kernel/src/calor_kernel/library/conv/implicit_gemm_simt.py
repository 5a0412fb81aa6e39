"""Implicit GEMM convolutions and weight gradients in float32 by SIMT register tiles.

Requirements: operands are read in place along pixels, and neighbouring units read neighbouring
elements. A unit has the same pixels, or the same lines of both operands, in all steps, so their
coordinates are computed once. The copy fills padding with zeros. A step's terms are channels of one
tap where possible, and later steps are loaded while this one is multiplied. (Implicit GEMM, as in
Chetlur et al., "cuDNN: efficient primitives for deep learning", 2014.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from calor.dtypes import float32
from calor_kernel import language as kl
from calor_kernel.language.declared import D, N
from calor_kernel.language.pipelines import How
from calor_kernel.library.conv.windows import (
    PhaseOnDevice,
    Reader,
    ResultStrides,
    Start,
    chosen,
)
from calor_kernel.library.gemm.epilogue import After, Epilogue, writer
from calor_kernel.library.gemm.joined_parts import add_parts, completes
from calor_kernel.library.gemm.pipeline import Loader
from calor_kernel.library.gemm.simt import SimtTile, multiply, simt_tile
from calor_kernel.library.gemm.simt_plan import FOUR, SimtPlan


def _way(x: kl.Pointer) -> How:
    """Return how units copy: those of half types convert what they load."""
    return kl.way_of_units() if x.dtype is float32 else "stores"


@dataclass(frozen=True, slots=True)
class Groups(Generic[N, D]):
    """The groups, which are adjacent cubes along z; the distance of one's weights and channels.

    ``w``: in the operand whose rows are the result's, ``x``: in the other one.
    """

    count: kl.DivisorOf[D]
    w: kl.StrideOf[N]
    x: kl.StrideOf[N]


GroupsOnDevice = Groups[kl.Number, kl.FastDivmod]


@kl.helper
def part_of_group(groups: GroupsOnDevice | None) -> tuple[kl.Number, kl.Index, kl.Index, kl.Index]:
    """Return a cube's part of a sum, its group, and where that one's operands begin: w, x."""
    if groups is None:
        return kl.cube_position(2), 0, 0, 0
    split, group = groups.count.divmod(kl.cube_position(2))
    return split, group, group * groups.w, group * groups.x


@kl.kernel
def conv_simt(
    w: kl.In,
    x: kl.In,
    c: kl.Out,
    rows_total: kl.Size,
    part_step: kl.Size,
    result: ResultStrides[kl.Number],
    w_channel: kl.Size,
    x_channel: kl.Stride,
    strides: tuple[kl.Stride, ...],
    phases: tuple[PhaseOnDevice, ...],
    groups: GroupsOnDevice | None,
    left_sums: kl.InOut | None,
    flags: kl.InOut | None,
    many: kl.Size | None,
    after: After | None,
    *,
    plan: SimtPlan,
    even: bool,
    run: int,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute a tile: output channels from y, pixels and phase from x, part and group from z.

    In ``w`` output channels are dense; ``w_channel``, ``x_channel``: the strides of input channels.
    ``left_sums``: room for those of ``many`` parts, which the last cube of a tile adds. ``even``:
    whether a step has channels of one tap. ``run``: adjacent output pixels of an access.
    """
    kl.launch_attributes(cubes_per_core=plan.together)
    # Neighbouring cubes have alternate phases, since these read and write neighbouring memory.
    split, group, w_start, x_start = part_of_group(groups)
    number = kl.cube_position(0) % len(phases)
    first_row = kl.cube_position(1) * plan.rows
    first_column = kl.cube_position(0) // len(phases) * plan.columns
    phase = chosen(phases, number)
    reader = Reader(phase.windows, strides)
    begin, end = split * phase.share, kl.min((split + 1) * phase.share, phase.terms)
    near = kl.min(plan.units, plan.columns)
    mine = []
    for far in kl.range(0, plan.columns, near):
        place = reader.start(first_column + far + kl.unit_index() % near, phase.columns)
        mine.append((place[0] + x_start, place[1], place[2]))
    pipe = kl.Pipeline(plan.stages, *plan.tiles, how=_way(x))
    tile = simt_tile(plan)
    terms = Terms(reader, end, plan, even)
    weights = weights_loader(w, phase, w_channel, w_start, first_row, rows_total, terms)
    multiply(tile, pipe, (weights, pixels_loader(x, mine, x_channel, terms)), begin, end)
    to = Place(phase, result, first_row, first_column, rows_total, group)
    if left_sums is None or flags is None or many is None:
        write_pixels(to, tile, c, split * part_step, after, run, epilogue)
        return
    count = kl.cube_count(2) // many
    if completes(tile, left_sums, flags, many, count):
        add_parts(tile, left_sums, many, count)
        write_pixels(to, tile, c, 0, after, run, epilogue)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a cube's tile is in the result: its phase, first row and column, and its group."""

    phase: PhaseOnDevice
    result: ResultStrides[kl.Number]
    row: kl.Number
    column: kl.Number
    rows: kl.Number
    group: kl.Index


@kl.helper
def write_pixels(
    place: Place,
    tile: SimtTile,
    c: kl.Pointer,
    start: kl.Index,
    after: After | None,
    run: int,
    epilogue: Epilogue | None,
) -> None:
    """Write a unit's sums of output pixels, or what follows them; ``start``: of a part."""
    phase, result = place.phase, place.result
    for j, column in tile.columns(place.column, run):
        lead, within = phase.windows.pixels.divmod(column)
        at = within
        if run == 1:
            high, wide = phase.windows.row.divmod(within)
            at = phase.start + high * result.row + wide * result.pixel
        at = start + lead * result.image + at
        if column < phase.columns:
            ends = writer(epilogue, after, c, lead)
            for i, row in tile.rows(place.row):
                if row < place.rows:
                    found, channel = tile.value(i, j, run), place.group * place.rows + row
                    to = kl.assume_multiple(at + channel * result.channel, run)
                    if ends is None:
                        c.store(to, found.to(c.dtype))
                    else:
                        ends.write(to, found, channel, kl.assume_multiple(within, run))


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a phase up to ``end``: a block of channels of each tap, then the next block."""

    reader: Reader
    end: kl.Number
    plan: SimtPlan
    even: bool

    @kl.helper
    def of(self, term: kl.Number) -> Start:
        """Return the channel of a term, and the coordinates of its tap."""
        windows = self.reader.windows
        if self.even:
            step = term // self.plan.depth
            some, tap = windows.taps.divmod(step)
            channel = some * self.plan.depth
        else:
            tap, channel = windows.channels.divmod(term)
        down, across = windows.tap_row.divmod(tap)
        return channel, down, across

    @kl.helper
    def seen(
        self,
        place: Start,
        channel_step: kl.Number,
        channel: kl.Number,
        down: kl.Number,
        across: kl.Number,
    ) -> tuple[kl.Number, kl.Number]:
        """Return the position of a term in a pixel's window, and whether it is not padding."""
        (at, top, left), windows = place, self.reader.windows
        y, x = down * windows.down.move, across * windows.across.move
        strides = self.reader.strides
        far = y * strides[1] + x * strides[2] + channel * channel_step
        return at + far, self.reader.inside(top + y, left + x)


@kl.helper
def weights_loader(
    w: kl.Pointer,
    phase: PhaseOnDevice,
    channel_step: kl.Number,
    start: kl.Index,
    first: kl.Number,
    count: kl.Number,
    terms: Terms,
) -> Loader:
    """Return what copies a step's weights, which begin at ``start`` in ``w``.

    Neighbouring units copy neighbouring accesses.
    """
    plan, even = terms.plan, terms.even
    lines = plan.rows // FOUR
    whole = lines * plan.depth

    def load(pipe: kl.Pipeline, begin: kl.Number) -> None:
        base = phase.first + start + first
        if even:
            channel, down, across = terms.of(begin)
            base = base + channel * channel_step + down * phase.down + across * phase.across
        for turn in kl.range(-(-whole // plan.units)):
            piece = kl.unit_index() + turn * plan.units
            place, deep = piece % lines * FOUR, piece // lines
            index = base + place
            if even:
                index = index + deep * channel_step
            else:
                channel, down, across = terms.of(begin + deep)
                index = index + channel * channel_step + down * phase.down + across * phase.across
            inside = (first + place < count) & (begin + (0 if even else deep) < terms.end)
            among = None
            if whole % plan.units:
                among = piece < whole
            to, index = place + deep * (plan.rows + FOUR), kl.assume_multiple(index, FOUR)
            pipe.copy(0, to, w, index, FOUR, inside, among=among)

    return load


@kl.helper
def pixels_loader(
    x: kl.Pointer, mine: list[Start], channel_step: kl.Number, terms: Terms
) -> Loader:
    """Return what copies a step's inputs; a unit copies those of the same pixels in each step."""
    plan, even = terms.plan, terms.even
    near = kl.min(plan.units, plan.columns)
    apart = plan.units // near

    def load(pipe: kl.Pipeline, begin: kl.Number) -> None:
        column, first = kl.unit_index() % near, kl.unit_index() // near
        if even:
            channel, down, across = terms.of(begin)
            found = [terms.seen(one, channel_step, channel + first, down, across) for one in mine]
        for turn in kl.range(0, plan.depth, apart):
            deep = first + turn
            last = begin
            if not even:
                last = begin + deep
                channel, down, across = terms.of(last)
                found = [terms.seen(one, channel_step, channel, down, across) for one in mine]
            for number, (index, inside) in enumerate(found):
                source = index + turn * channel_step if even else index
                to = column + number * near + deep * (plan.columns + FOUR)
                pipe.copy(1, to, x, source, 1, inside & (last < terms.end), near=True)

    return load


@dataclass(frozen=True, slots=True)
class GradientAxis(Generic[N]):
    """Tap j sees pixel i of g at ``i * move + j * step + start`` of x; strides of x and of g."""

    step: kl.StrideOf[N]
    move: kl.StrideOf[N]
    start: kl.StrideOf[N]
    size: kl.SizeOf[N]
    x: kl.StrideOf[N]
    g: kl.StrideOf[N]


@kl.kernel
def conv_weight_simt(
    g: kl.In,
    x: kl.In,
    c: kl.Out,
    rows_total: kl.Size,
    columns_total: kl.Size,
    terms: kl.Size,
    share: kl.Size,
    part_step: kl.Size,
    c_row: kl.Size,
    g_row: kl.Stride,
    x_channel: kl.Stride,
    channels: kl.Size,
    down_axis: GradientAxis[kl.Number],
    across_axis: GradientAxis[kl.Number],
    x_image: kl.Stride,
    g_image: kl.Stride,
    pixels: kl.FastDivmod,
    pixel_row: kl.FastDivmod,
    columns: kl.FastDivmod,
    tap_row: kl.FastDivmod,
    groups: GroupsOnDevice | None,
    *,
    plan: SimtPlan,
    alike: int,
    ragged: tuple[bool, bool],
    padded: bool,
    run: int,
) -> None:
    """Compute a tile: g's channels from y, taps of x's from x, a part of pixels and group from z.

    Columns are the channels of a tap, without those from ``channels`` on, then those of the next
    tap; each ``alike`` adjacent columns share a tap. If ``alike`` is 0, columns are the taps of a
    channel, then those of the next. ``ragged``: whether tiles have rows beyond the last one, and
    ``alike`` columns channels beyond it. ``padded``: whether windows reach padding. ``run``: the
    result's columns of one access.
    """
    kl.launch_attributes(cubes_per_core=plan.together)
    first_row, first_column = kl.cube_position(1) * plan.rows, kl.cube_position(0) * plan.columns
    split, group, g_first, x_first = part_of_group(groups)
    begin, end = split * share, kl.min((split + 1) * share, terms)
    deep, line = kl.unit_index() % plan.depth, kl.unit_index() // plan.depth
    apart = plan.units // plan.depth
    together = alike or apart
    mine = []
    for begun in kl.range(0, plan.columns, together):
        column = first_column + begun + line
        outer, inner = columns.divmod(first_column + begun if alike else column)
        tap, channel = (outer, inner + line) if alike else (inner, outer)
        down, right = tap_row.divmod(tap)
        y = down * down_axis.step + down_axis.start
        z = right * across_axis.step + across_axis.start
        at = x_first + channel * x_channel + y * down_axis.x + z * across_axis.x
        left = kl.min(columns_total - column, channels - channel)
        mine.append((y, z, at, left))
    pipe = kl.Pipeline(plan.stages, *plan.tiles, how=_way(x))
    tile = simt_tile(plan)
    g_start = g_first + (first_row + line) * g_row

    def load(pipe: kl.Pipeline, at: kl.Number) -> None:
        term = at + deep
        there = term < end
        lead, place = pixels.divmod(term)
        down, right = pixel_row.divmod(place)
        source = g_start + lead * g_image + down * down_axis.g + right * across_axis.g
        for turn in kl.range(0, plan.rows, apart):
            inside = there
            if ragged[0]:
                inside = inside & (first_row + line + turn < rows_total)
            to = line + turn + deep * (plan.rows + FOUR)
            pipe.copy(0, to, g, source + turn * g_row, 1, inside, near=True)
        y, z = down * down_axis.move, right * across_axis.move
        source = lead * x_image + y * down_axis.x + z * across_axis.x
        for number, (top, far, start, left) in enumerate(mine):
            inside = there & (left > 0)
            if padded:
                inside = inside & within(y + top, down_axis.size)
                inside = inside & within(z + far, across_axis.size)
            for turn in kl.range(0, together, apart):
                seen = inside
                if ragged[1] and turn:
                    seen = seen & (left > turn)
                to = line + turn + number * together + deep * (plan.columns + FOUR)
                pipe.copy(1, to, x, source + start + turn * x_channel, 1, seen, near=True)

    # Both operands have the same pixels: one loader computes their coordinates for both.
    multiply(tile, pipe, (load,), begin, end)
    to = split * part_step
    for i, row in tile.rows(first_row):
        for j, column in tile.columns(first_column, run):
            if (row < rows_total) & (column < columns_total):
                found, at = tile.value(i, j, run), to + (group * rows_total + row) * c_row + column
                c.store(kl.assume_multiple(at, run), found.to(c.dtype))


@kl.helper
def within(place: kl.Number, size: kl.Number) -> kl.Number:
    """Return whether a position is not padding."""
    return (place >= 0) & (place < size)
