"""Direct convolutions over rows: a tap is a shift of the line, and vectors run along pixels.

Requirements: channels first in and out, and input and weights in place, so little is packed or
padded. Output pixels are counted along the input's own rows. Masks hide what a tap reads beyond a
row, at nearly no cost. The sums of a tile stay in registers, as in a matrix product (Goto and van
de Geijn, 2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calor.dtypes import DType, bool_, int32, int64
from calor_kernel import language as kl
from calor_kernel.library.conv.row_axes import Line, LineNumbers
from calor_kernel.library.conv.vector_tiles import Strides, add_products, iota, share, unrolled
from calor_kernel.library.gemm.epilogue import After, Epilogue, Writer, writer


@dataclass(frozen=True, slots=True)
class RowTiles:
    """What a kernel of :func:`direct_rows` is built for.

    Tiles have ``tile`` or ``rest`` (rows, vectors). ``room``: the taps that memory holds (1 for a
    window of one tap). ``ordered``: whether the weights of a channel are adjacent, or those of a
    row for a window of one tap. ``row_step_of_weights``: the stride of rows of weights if it is
    known at build time, else 0. ``masked``: whether taps read padding; a vector spans up to
    ``wraps`` ends of rows then. ``skips``: whether taps that see padding alone are skipped.
    ``ragged``: whether the memory ends with a line. In the result a vector has at most ``pieces``
    rows; 0 says that line and result have the same layout.
    """

    tile: tuple[int, int]
    rest: tuple[int, int]
    lanes: int
    accumulate: DType
    strides: tuple[int, int, int]
    room: int
    ordered: bool
    row_step_of_weights: int
    masked: bool
    skips: bool
    ragged: bool
    pieces: int
    wraps: int
    element_step: int
    unroll: int


@kl.kernel
def direct_rows(
    x: kl.In,
    w: kl.In,
    c: kl.Out,
    rows_total: kl.Size,
    channels: kl.Size,
    panels: kl.Size,
    whole: kl.Size,
    groups: kl.Size,
    x_steps: Strides[kl.Number],
    w_steps: Strides[kl.Number],
    c_steps: Strides[kl.Number],
    c_plane: kl.Stride,
    c_row: kl.Stride,
    block_rows: kl.Size,
    block_panels: kl.Size,
    pixels: LineNumbers[kl.Number],
    after: After | None,
    *,
    how: RowTiles,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute a block of the result: panels of pixels from x, rows from y.

    A row is an output channel; the axes of w are groups, rows and input channels. The first
    ``whole`` panels have tiles ``how.tile``, the others ``how.rest``; z counts images and groups.
    """
    lanes, most = how.lanes, kl.max(how.tile[1], how.rest[1])
    image = kl.cube_position(2)
    outer, group = image // groups, image % groups
    line = Line(pixels, how.strides)
    at = kl.private(how.room, int64) if how.room > 1 else None
    of = kl.private(how.room, int64) if how.room > 1 and not how.ordered else None
    seen = kl.private(how.room * most * lanes, bool_, align=64) if how.masked else None
    x_start = x_steps.at(outer, group)
    if at is not None:
        list_taps(line, at, of)
    else:
        x_start += line.shift(*(axis.taps - 1 for axis in pixels.axes))
    w_start, c_start = group * w_steps.outer, c_steps.at(outer, group)
    # The last block takes the remaining rows, so that each block has a whole tile of rows.
    first_row, last_row = share(kl.cube_position(1), block_rows, rows_total)
    ends = writer(epilogue, after, c, outer)
    held = None
    if ends is not None and ends.heavy:
        tiles = [rows * vectors * lanes for rows, vectors in (how.tile, how.rest)]
        held = kl.private(max(tiles), ends.by.dtype, align=64)
    # A stride known at build time needs no registers.
    w_row = how.row_step_of_weights or w_steps.middle

    def add(
        acc: kl.Registers,
        x_at: kl.Number,
        w_at: list[kl.Number],
        to: kl.Number,
        mask: Sequence[kl.Mask | None],
    ) -> None:
        """Add the products of one term to a tile of sums."""
        columns = [x.load(x_at + v * lanes, lanes, mask=mask[v]) for v in kl.range(acc.shape[1])]
        weights = (w[start + to] for start in w_at)
        add_products(acc, weights, [column.to(how.accumulate) for column in columns])

    def add_channels(
        acc: kl.Registers, x_at: kl.Number, w_at: list[kl.Number], plain: Sequence[kl.Mask | None]
    ) -> None:
        """Add the products of all channels, for windows of one tap."""
        masks = masks_at(seen, 0, plain, lanes)
        step = 1 if how.ordered else w_steps.inner
        unrolled(
            channels,
            how.unroll,
            lambda k: add(acc, x_at + k * x_steps.inner, w_at, k * step, masks),
        )

    def add_taps(
        acc: kl.Registers,
        x_at: kl.Number,
        w_at: list[kl.Number],
        to: kl.Number,
        at: kl.Pointer,
        plain: Sequence[kl.Mask | None],
        some: tuple[kl.Number, kl.Number] | None,
    ) -> None:
        """Add the products of all or some taps of a channel, whose weights begin at ``to``."""

        def add_tap(k: kl.Number) -> None:
            tap = to + (k if of is None else of[k])
            add(acc, x_at + at[k], w_at, tap, masks_at(seen, k, plain, lanes))

        if some is None:
            unrolled(line.taps, how.unroll, add_tap)
        else:
            for k in kl.loop_range(some[0], some[1]):
                add_tap(k)

    def compute(shape: tuple[int, int], first: kl.Number) -> None:
        """Compute rows of one panel of pixels, which begins at ``first`` on the line."""
        rows, vectors = shape
        starts = [first + v * lanes for v in kl.range(vectors)]
        targets = [targets_of(line, start, c_plane, c_row, how) for start in starts]
        plain = [line.near(start, lanes) if how.ragged else None for start in starts]
        if seen is not None:
            for v, start in enumerate(starts):
                places = line.places(start, lanes, how.wraps)
                inside = line.near(start, lanes)
                line.list_masks(inside, places, seen, v * lanes, vectors * lanes)
        some = None
        if how.skips:
            last = kl.min(first + (vectors * lanes - 1), pixels.count - 1)
            some = line.taps_seen(first, last)
        x_first = x_start + first
        tiles = (last_row - first_row + (rows - 1)) // rows
        part = (channels + tiles - 1) // tiles
        asked = x_first * 0
        for step in kl.range(first_row, last_row, rows):
            # The last tile overlaps the one before where no whole tile is left.
            row = kl.min(step, last_row - rows)
            w_at = [w_start + row * w_row + r * w_row for r in kl.range(rows)]
            next_asked = kl.min(asked + part, channels)
            for channel in kl.range(asked, next_asked):
                start = x_first + vectors * lanes + channel * x_steps.inner
                ask_ahead(line, x, at, start, vectors, lanes)
            asked = next_asked
            acc = kl.registers(shape, how.accumulate, lanes)
            if at is None:
                add_channels(acc, x_first, w_at, plain)
            else:
                for channel in kl.range(channels):
                    x_at, to = x_first + channel * x_steps.inner, channel * w_steps.inner
                    add_taps(acc, x_at, w_at, to, at, plain, some)
            if ends is not None:
                to = c_start + row * c_steps.inner
                end_tile(ends, held, acc, to, c_steps.inner, group * rows_total + row, targets)
            else:
                for r in kl.range(rows):
                    for v in kl.range(vectors):
                        write(c, c_start + (row + r) * c_steps.inner, acc[r, v], targets[v], how)

    first_panel = kl.cube_position(0) * block_panels
    for panel in kl.range(first_panel, kl.min(first_panel + block_panels, panels)):
        if panel < whole:
            compute(how.tile, panel * (how.tile[1] * lanes))
        else:
            rest = (panel - whole) * (how.rest[1] * lanes)
            compute(how.rest, whole * (how.tile[1] * lanes) + rest)


@kl.helper
def end_tile(
    ends: Writer,
    held: kl.Pointer | None,
    acc: kl.Registers,
    to: kl.Number,
    step: kl.Number,
    channel: kl.Number,
    targets: list[list[tuple[kl.Number, kl.Mask]]],
) -> None:
    """Write what follows a tile; the result's rows begin at ``to``, and are ``step`` apart.

    Where the unit has memory for them, the sums go through it, so that a long epilogue is built
    once for all rows.
    """
    (rows, vectors), lanes = acc.shape, acc.type.width
    if held is None:
        for r in kl.range(rows):
            for v in kl.range(vectors):
                for place, inside in targets[v]:
                    ends.write(to + r * step + place, acc[r, v], channel + r, place, inside)
        return
    for r in kl.range(rows):
        for v in kl.range(vectors):
            held.store((r * vectors + v) * lanes, acc[r, v].to(held.dtype))
    for r in kl.loop_range(rows):
        for v in kl.range(vectors):
            total = held.load((r * vectors + v) * lanes, lanes)
            for place, inside in targets[v]:
                ends.write(to + r * step + place, total, channel + r, place, inside)


@kl.helper
def list_taps(line: Line, at: kl.Pointer, of: kl.Pointer | None) -> None:
    """Write the start of each tap, on the line and in the weights of a channel."""
    deep, high, wide = line.of.axes
    tap = 0
    for kd in kl.range(deep.taps):
        for kh in kl.range(high.taps):
            for kw in kl.range(wide.taps):
                at[tap] = line.shift(kd, kh, kw)
                if of is not None:
                    of[tap] = kd * deep.weight + kh * high.weight + kw * wide.weight
                tap += 1


def masks_at(
    seen: kl.Pointer | None, tap: kl.Index, plain: Sequence[kl.Mask | None], lanes: int
) -> Sequence[kl.Mask | None]:
    """Return the masks of a tap for the vectors of a panel."""
    if seen is None:
        return plain
    return [seen.load((tap * len(plain) + v) * lanes, lanes) for v in kl.range(len(plain))]


@kl.helper
def ask_ahead(
    line: Line, x: kl.Pointer, at: kl.Pointer | None, start: kl.Number, vectors: int, lanes: int
) -> None:
    """Prefetch a channel's part of the next panel to the second-level cache."""
    deep, high, wide = line.of.axes
    if at is None:
        for v in kl.range(vectors):
            x.prefetch(start + v * lanes, locality=2)
    else:
        for row in kl.range(deep.taps * high.taps):
            place = start + at[row * wide.taps]
            for v in kl.range(vectors + 1):
                x.prefetch(place + v * lanes, locality=2)


@kl.helper
def targets_of(
    line: Line, first: kl.Number, c_plane: kl.Number, c_row: kl.Number, how: RowTiles
) -> list[tuple[kl.Number, kl.Mask]]:
    """Return, for each row in a vector, the position of its lane 0, and its lanes."""
    _, high, wide = line.axes
    near = line.near(first, how.lanes)
    if how.pieces == 0:
        return [(first * how.element_step, near)]
    row, column = first // line.of.length, first % line.of.length
    made: list[tuple[kl.Number, kl.Mask]] = []
    for _ in kl.range(how.pieces):
        place = column.to(int32) + iota(how.lanes)
        plane, y = row // line.of.rows, row % line.of.rows
        at = plane * c_plane + y * c_row + column * how.element_step
        inside = (place >= 0) & wide.has(place) & kl.splat(y < high.of.count, how.lanes)
        made.append((at, inside & near))
        row, column = row + 1, column - line.of.length
    return made


def write(
    c: kl.Pointer,
    at: kl.Number,
    value: kl.Number,
    targets: list[tuple[kl.Number, kl.Mask]],
    how: RowTiles,
) -> None:
    """Write a vector of the result."""
    value = value.to(c.dtype)
    for place, inside in targets:
        if how.element_step == 1:
            c.store(at + place, value, mask=inside)
        else:
            lane = iota(value.width).to(place.dtype)
            c.store(at + place + lane * how.element_step, value, mask=inside)
