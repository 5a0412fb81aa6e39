"""Implicit GEMM convolutions and weight gradients by matrix instructions of planes and warp groups.

Requirements: channels are dense, so a copy is a whole access of one pixel and one tap, and fills
padding with zeros. Rows of the product are output channels. Its columns are output pixels, so
results are written with channels first; for a weight gradient they are taps of input channels, and
its terms are pixels, which the instruction's loads transpose. (Implicit GEMM, as in Chetlur et al.,
"cuDNN: efficient primitives for deep learning", 2014.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calor_kernel import language as kl
from calor_kernel.language.matrices import register_places
from calor_kernel.library.conv.windows import (
    PhaseOnDevice,
    Reader,
    ResultStrides,
    VolumesOnDevice,
    WindowsOnDevice,
    chosen,
)
from calor_kernel.library.gemm.epilogue import After, Epilogue, Writer, writer
from calor_kernel.library.gemm.mma import MmaPlan
from calor_kernel.library.gemm.pipeline import Loader, pass_over

# Minimum of units that copy one pixel: with 16-byte accesses they read a line of 128 bytes.
_UNITS = 8
# Registers of a unit for the operands of an epilogue that its rows' columns share.
_HELD = 16


@kl.kernel
def conv_mma(
    w: kl.In,
    x: kl.In,
    c: kl.Out,
    rows_total: kl.Size,
    w_row: kl.Size,
    splits: kl.Size,
    part_step: kl.Size,
    result: ResultStrides[kl.Number],
    strides: tuple[kl.Stride, ...],
    phases: tuple[PhaseOnDevice, ...],
    volumes: VolumesOnDevice | None,
    groups: tuple[kl.Size, ...],
    after: After | None,
    *,
    plan: MmaPlan,
    pairs: bool,
    halves: int,
    ragged: bool,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute a tile: output channels from y, output pixels from x; a phase and part from z.

    Pixels of two ``halves`` alternate along a row of the result, and are written together.
    ``pairs``: whether pixels are dense in the result, or halves are, and even in number, so that
    two are one access. ``ragged``: whether tiles have rows beyond the last channel. With
    ``volumes``, images are planes of these. ``groups``: the distances of groups in both operands,
    which are along z too; () for one. ``rows_total``: the output channels of a group.
    """
    number, split = kl.cube_position(2) // splits, kl.cube_position(2) % splits
    of_w: kl.Index = 0
    of_x: kl.Index = 0
    of_c: kl.Index = 0
    if groups:
        together = len(phases) // halves
        group, number = number // together, number % together
        of_w, of_x, of_c = group * groups[0], group * groups[1], group * rows_total
    first_row, first_column = kl.cube_position(1) * plan.rows, kl.cube_position(0) * plan.columns
    pipe = kl.Pipeline(plan.stages, *plan.tiles, how=kl.way_of_units())
    made = []
    for half in kl.range(halves):
        phase = chosen(phases[half::halves], number)
        if half > 0:
            pass_over(pipe)
        begin, end = split * phase.share, kl.min((split + 1) * phase.share, phase.terms)
        sums, row, column = plan.sums()
        rows = Rows(w, rows_total, w_row, first_row, of_w)
        reader = Reader(phase.windows, strides, volumes)
        load = window_loader(rows, x, reader, phase, first_column, end, plan, of_x)
        plan.accumulate(sums, pipe, (load,), row, column, begin, end)
        made.append(sums)
    phase = chosen(phases[::halves], number)
    known = row_operands(
        made[0], writer(epilogue, after, c, 0), first_row + row, rows_total, plan, of_c
    )
    for j, far in columns_of(made[0][0]):
        down, right = made[0][0][j].lane_place()
        place = first_column + column + j * plan.shape.n + right + far
        for e in kl.range(1 if pairs else run_of(plan.shape)):
            lead, within = phase.windows.pixels.divmod(place + e)
            high, wide = phase.windows.row.divmod(within)
            if volumes is not None:
                lead, plane = volumes.count.divmod(lead)
                within = within + plane * volumes.made
            if volumes is not None or (pairs and halves == 1):
                at = kl.assume_multiple(within, 2 if pairs else 1)
            else:
                at = phase.start + high * result.row + wide * result.pixel
                at = kl.assume_multiple(at, halves * (2 if pairs else 1))
            at = split * part_step + lead * result.image + at
            # A mask would apply to each element and split the accesses.
            if place + e < phase.columns:
                ends = writer(epilogue, after, c, lead)
                for i in kl.range(len(made[0])):
                    several = [rows_of(sums[i][j], far) for sums in made]
                    for both in zip(*several, strict=True):
                        of_row = known.get((i, both[0][0]))
                        to = first_row + row + i * plan.shape.m + down + both[0][0]
                        # The halves of a pixel are adjacent.
                        values = [
                            one for pair in zip(*(v for _, v in both), strict=True) for one in pair
                        ]
                        step = len(values) if pairs else halves
                        found = kl.pack(values[e * step : (e + 1) * step])
                        if not ragged or (to < rows_total):
                            channel = of_c + to
                            if ends is None:
                                c.store(at + channel * result.channel, found.to(c.dtype))
                            else:
                                pixel = kl.assume_multiple(within, found.width)
                                ends.write(
                                    at + channel * result.channel, found, channel, pixel,
                                    of_row=of_row,
                                )  # fmt: skip


@kl.helper
def row_operands(
    sums: Sequence[Sequence[kl.Fragment]],
    ends: Writer | None,
    first: kl.Number,
    rows: kl.Number,
    plan: MmaPlan,
    before: kl.Index,
) -> dict[tuple[int, int], dict[int, kl.Number]]:
    """Return what the columns of each row of a unit share, by the tile and the row in it.

    Reads behind the conditions of a column would each wait for memory. ``first``: the first row of
    the planes' part; rows from ``rows`` on repeat the last. ``before``: the rows of other groups.
    """
    found: dict[tuple[int, int], dict[int, kl.Number]] = {}
    if ends is None:
        return found
    down, _ = sums[0][0].lane_place()
    places = [
        (i, r) for i in range(len(sums)) for r, _ in rows_of(sums[i][0], columns_of(sums[0])[0][1])
    ]
    shared = sum(along.rows and along.step == 0 and not along.batch for along in ends.by.along)
    if shared * len(places) > _HELD:
        return found
    for i, r in places:
        near = kl.min(first + i * plan.shape.m + down + r, rows - 1)
        found[i, r] = ends.of_row(before + near)
    return found


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of an operand, ``step`` apart; a tile begins at row ``first`` of ``total``.

    ``begin``: where the first row begins.
    """

    memory: kl.Pointer
    total: kl.Number
    step: kl.Number
    first: kl.Number
    begin: kl.Index = 0


@kl.helper
def window_loader(
    rows: Rows,
    x: kl.Pointer,
    reader: Reader,
    phase: PhaseOnDevice,
    first_column: kl.Number,
    end: kl.Number,
    plan: MmaPlan,
    begin_of_x: kl.Index = 0,
) -> Loader:
    """Return what copies a step's tiles, with zeros for padding and beyond the operands.

    A unit always copies the same terms of a step, for the same rows and columns.
    """
    lines = plan.depth // plan.access
    line, term = kl.unit_index() // lines, kl.unit_index() % lines * plan.access
    apart = plan.units // lines
    columns = [first_column + line + turn * apart for turn in kl.range(plan.columns // apart)]
    starts = [(*reader.start(c, phase.columns), reader.plane(c)) for c in columns]
    left_at, right_at = plan.layout(True), plan.layout(False)

    def load(pipe: kl.Pipeline, begin: kl.Number) -> None:
        k = begin + term
        there = k < end
        begin_of = reader.of(k, phase)
        for turn in kl.range(plan.rows // apart):
            row = line + turn * apart
            inside = there & (rows.first + row < rows.total)
            of = rows.begin + (rows.first + row) * rows.step + begin_of
            pipe.copy(0, left_at(row, term), rows.memory, of, plan.access, inside, near=True)
        far_y, far_x, far = reader.tap(k)
        far_plane = reader.tap_plane(k)
        for turn, (at, y, across, plane) in enumerate(starts):
            place = line + turn * apart
            inside = there & reader.inside(y + far_y, across + far_x, plane, far_plane)
            pipe.copy(
                1, right_at(term, place), x, begin_of_x + at + far, plan.access, inside, near=True
            )

    return load


def run_of(shape: kl.MatrixShape) -> int:
    """Return how many sums of a unit are adjacent in a row: two or one."""
    places = register_places(shape, "c")
    pairs = zip(places[::2], places[1::2], strict=True)
    return 2 if all(b == (a[0], a[1] + 1) for a, b in pairs) else 1


def columns_of(tiles: Sequence[kl.Fragment]) -> list[tuple[int, int]]:
    """Return a unit's runs of columns: the tile, and the offset in it."""
    step = run_of(tiles[0].shape)
    places = [tiles[0].register_place(r) for r in kl.range(0, tiles[0].count, step)]
    fars = dict.fromkeys(column for _, column in places)
    return [(j, far) for j in kl.range(len(tiles)) for far in fars]


def rows_of(tile: kl.Fragment, far: int) -> list[tuple[int, tuple[kl.Number, ...]]]:
    """Return the rows of a unit's run of columns, with their sums."""
    step, found = run_of(tile.shape), []
    for r in kl.range(0, tile.count, step):
        row, column = tile.register_place(r)
        if column == far:
            found.append((row, tuple(tile.parts[0][r + e] for e in kl.range(step))))
    return found


@kl.kernel
def conv_weight_mma(
    g: kl.In,
    x: kl.In,
    c: kl.Out,
    rows_total: kl.Size,
    columns_total: kl.Size,
    terms: kl.Size,
    splits: kl.Size,
    share: kl.Size,
    part_step: kl.Size,
    g_pixel: kl.Size,
    strides: tuple[kl.Stride, ...],
    windows: WindowsOnDevice,
    groups: tuple[kl.Stride, ...],
    *,
    plan: MmaPlan,
) -> None:
    """Compute a tile: g's channels from y, taps of x's channels from x, a part of pixels from z.

    ``g_pixel``: the stride of pixels of g, of all images. In the windows, columns are pixels of g,
    which are the terms of this product. A part is dense, and has an even number of columns. z has
    the parts of each group; ``groups``: the distances of groups of g, of x and of a part, if there
    are several.
    """
    split = kl.cube_position(2)
    of_group: kl.Index = 0
    if groups:
        group, split = split // splits, split % splits
        of_group = group * groups[2]
        g, x = g.at(group * groups[0]), x.at(group * groups[1])
    first_row, first_column = kl.cube_position(1) * plan.rows, kl.cube_position(0) * plan.columns
    begin, end = split * share, kl.min((split + 1) * share, terms)
    pipe = kl.Pipeline(plan.stages, *plan.tiles, how=kl.way_of_units())
    sums, row, column = plan.sums()
    rows = Rows(g, rows_total, g_pixel, first_row)
    load = pixel_loader(rows, x, Reader(windows, strides), first_column, columns_total, end, plan)
    plan.accumulate(sums, pipe, (load,), row, column, begin, end)
    for j, far_in in columns_of(sums[0]):
        down, right = sums[0][j].lane_place()
        place = first_column + column + j * plan.shape.n + right + far_in
        for i in kl.range(len(sums)):
            for r, found in rows_of(sums[i][j], far_in):
                at = first_row + row + i * plan.shape.m + down + r
                to = split * part_step + of_group + at * columns_total + place
                if len(found) > 1:
                    to = kl.assume_multiple(to, len(found))
                there = (place < columns_total) & (at < rows_total)
                if there:
                    # A mask would apply to each element and split the access.
                    c.store(to, kl.pack(found).to(c.dtype))


@kl.helper
def pixel_loader(
    rows: Rows,
    x: kl.Pointer,
    reader: Reader,
    first_column: kl.Number,
    columns_total: kl.Number,
    end: kl.Number,
    plan: MmaPlan,
) -> Loader:
    """Return what copies both tiles of some pixels, with zeros for padding and beyond the end.

    A unit always copies the same columns, of different pixels; some units share a pixel's line.
    """
    beside = units_of_pixel(plan)
    wide, apart = beside * plan.access, plan.units // beside
    mine = kl.unit_index() % beside * plan.access
    fars = [reader.tap(first_column + mine + c) for c in kl.range(0, plan.columns, wide)]
    left_at, right_at = plan.layout(True), plan.layout(False)

    def load(pipe: kl.Pipeline, begin: kl.Number) -> None:
        for turn in kl.range(plan.depth // apart):
            deep = kl.unit_index() // beside + turn * apart
            there = begin + deep < end
            for first in kl.range(0, plan.rows, wide):
                row = mine + first
                of = (begin + deep) * rows.step + rows.first + row
                inside = there & (rows.first + row < rows.total)
                pipe.copy(0, left_at(row, deep), rows.memory, of, plan.access, inside)
            at, y, place = reader.start(begin + deep, end)
            for c, (far_y, far_x, far) in enumerate(fars):
                column = mine + c * wide
                inside = reader.inside(y + far_y, place + far_x)
                inside = inside & (first_column + column < columns_total)
                pipe.copy(1, right_at(deep, column), x, at + far, plan.access, inside, near=True)

    return load


def units_of_pixel(plan: MmaPlan) -> int:
    """Return the units that copy one pixel; more if a cube has units to spare."""
    return max(_UNITS, plan.units // plan.depth)
