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
from calor_kernel.language import (
    In,
    Index,
    Mask,
    Number,
    Out,
    Pointer,
    Registers,
    Size,
    Stride,
    cube_position,
    helper,
    kernel,
    max,
    min,
    private,
    range,
    registers,
    splat,
)
from calor_kernel.library.conv.row_axes import Line, LineNumbers
from calor_kernel.library.conv.vector_tiles import Strides, add_products, iota, share, unrolled


@dataclass(frozen=True, slots=True)
class RowTiles:
    """What a kernel of :func:`direct_rows` is built for.

    Tiles have ``tile`` or ``rest`` (rows, vectors). ``room``: the taps that memory holds (1 for a
    window of one tap). ``ordered``: whether the weights of a channel are adjacent, or those of a
    row for a window of one tap. ``row_step_of_weights``: the stride of rows of weights if it is
    known at build time, else 0. ``masked``: whether taps read padding; a vector spans up to
    ``wraps`` ends of rows then. ``ragged``: whether the memory ends with a line. In the result a
    vector has at most ``pieces`` rows; 0 says that line and result have the same layout.
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
    ragged: bool
    pieces: int
    wraps: int
    element_step: int
    unroll: int


@kernel
def direct_rows(
    x: In,
    w: In,
    c: Out,
    rows_total: Size,
    channels: Size,
    panels: Size,
    whole: Size,
    groups: Size,
    x_steps: Strides[Number],
    w_steps: Strides[Number],
    c_steps: Strides[Number],
    c_plane: Stride,
    c_row: Stride,
    block_rows: Size,
    block_panels: Size,
    pixels: LineNumbers[Number],
    *,
    how: RowTiles,
) -> None:
    """Compute a block of the result: panels of pixels from x, rows from y.

    A row is an output channel; the axes of w are groups, rows and input channels. The first
    ``whole`` panels have tiles ``how.tile``, the others ``how.rest``; z counts images and groups.
    """
    lanes, most = how.lanes, max(how.tile[1], how.rest[1])
    image = cube_position(2)
    outer, group = image // groups, image % groups
    line = Line(pixels, how.strides)
    at = private(how.room, int64) if how.room > 1 else None
    of = private(how.room, int64) if how.room > 1 and not how.ordered else None
    seen = private(how.room * most * lanes, bool_, align=64) if how.masked else None
    x_start = x_steps.at(outer, group)
    if at is not None:
        list_taps(line, at, of)
    else:
        x_start += line.shift(*(axis.taps - 1 for axis in pixels.axes))
    w_start, c_start = group * w_steps.outer, c_steps.at(outer, group)
    # The last block takes the remaining rows, so that each block has a whole tile of rows.
    first_row, last_row = share(cube_position(1), block_rows, rows_total)
    # A stride known at build time needs no registers.
    w_row = how.row_step_of_weights or w_steps.middle

    def add(
        acc: Registers, x_at: Number, w_at: list[Number], to: Number, mask: Sequence[Mask | None]
    ) -> None:
        """Add the products of one term to a tile of sums."""
        columns = [x.load(x_at + v * lanes, lanes, mask=mask[v]) for v in range(acc.shape[1])]
        weights = (w[start + to] for start in w_at)
        add_products(acc, weights, [column.to(how.accumulate) for column in columns])

    def add_channels(
        acc: Registers, x_at: Number, w_at: list[Number], plain: Sequence[Mask | None]
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
        acc: Registers,
        x_at: Number,
        w_at: list[Number],
        to: Number,
        at: Pointer,
        plain: Sequence[Mask | None],
    ) -> None:
        """Add the products of all taps of a channel, whose weights begin at ``to``."""

        def add_tap(k: Number) -> None:
            tap = to + (k if of is None else of[k])
            add(acc, x_at + at[k], w_at, tap, masks_at(seen, k, plain, lanes))

        unrolled(line.taps, how.unroll, add_tap)

    def compute(shape: tuple[int, int], first: Number) -> None:
        """Compute rows of one panel of pixels, which begins at ``first`` on the line."""
        rows, vectors = shape
        starts = [first + v * lanes for v in range(vectors)]
        targets = [targets_of(line, start, c_plane, c_row, how) for start in starts]
        plain = [line.near(start, lanes) if how.ragged else None for start in starts]
        if seen is not None:
            for v, start in enumerate(starts):
                places = line.places(start, lanes, how.wraps)
                inside = line.near(start, lanes)
                line.list_masks(inside, places, seen, v * lanes, vectors * lanes)
        x_first = x_start + first
        tiles = (last_row - first_row + (rows - 1)) // rows
        part = (channels + tiles - 1) // tiles
        asked = x_first * 0
        for step in range(first_row, last_row, rows):
            # The last tile overlaps the one before where no whole tile is left.
            row = min(step, last_row - rows)
            w_at = [w_start + row * w_row + r * w_row for r in range(rows)]
            next_asked = min(asked + part, channels)
            for channel in range(asked, next_asked):
                start = x_first + vectors * lanes + channel * x_steps.inner
                ask_ahead(line, x, at, start, vectors, lanes)
            asked = next_asked
            acc = registers(shape, how.accumulate, lanes)
            if at is None:
                add_channels(acc, x_first, w_at, plain)
            else:
                for channel in range(channels):
                    x_at, to = x_first + channel * x_steps.inner, channel * w_steps.inner
                    add_taps(acc, x_at, w_at, to, at, plain)
            for r in range(rows):
                for v in range(vectors):
                    write(c, c_start + (row + r) * c_steps.inner, acc[r, v], targets[v], how)

    first_panel = cube_position(0) * block_panels
    for panel in range(first_panel, min(first_panel + block_panels, panels)):
        if panel < whole:
            compute(how.tile, panel * (how.tile[1] * lanes))
        else:
            rest = (panel - whole) * (how.rest[1] * lanes)
            compute(how.rest, whole * (how.tile[1] * lanes) + rest)


@helper
def list_taps(line: Line, at: Pointer, of: Pointer | None) -> None:
    """Write the start of each tap, on the line and in the weights of a channel."""
    deep, high, wide = line.of.axes
    tap = 0
    for kd in range(deep.taps):
        for kh in range(high.taps):
            for kw in range(wide.taps):
                at[tap] = line.shift(kd, kh, kw)
                if of is not None:
                    of[tap] = kd * deep.weight + kh * high.weight + kw * wide.weight
                tap += 1


def masks_at(
    seen: Pointer | None, tap: Index, plain: Sequence[Mask | None], lanes: int
) -> Sequence[Mask | None]:
    """Return the masks of a tap for the vectors of a panel."""
    if seen is None:
        return plain
    return [seen.load((tap * len(plain) + v) * lanes, lanes) for v in range(len(plain))]


@helper
def ask_ahead(
    line: Line, x: Pointer, at: Pointer | None, start: Number, vectors: int, lanes: int
) -> None:
    """Prefetch a channel's part of the next panel to the second-level cache."""
    deep, high, wide = line.of.axes
    if at is None:
        for v in range(vectors):
            x.prefetch(start + v * lanes, locality=2)
    else:
        for row in range(deep.taps * high.taps):
            place = start + at[row * wide.taps]
            for v in range(vectors + 1):
                x.prefetch(place + v * lanes, locality=2)


@helper
def targets_of(
    line: Line, first: Number, c_plane: Number, c_row: Number, how: RowTiles
) -> list[tuple[Number, Mask]]:
    """Return, for each row in a vector, the position of its lane 0, and its lanes."""
    _, high, wide = line.axes
    near = line.near(first, how.lanes)
    if how.pieces == 0:
        return [(first * how.element_step, near)]
    row, column = first // line.of.length, first % line.of.length
    made: list[tuple[Number, Mask]] = []
    for _ in range(how.pieces):
        place = column.to(int32) + iota(how.lanes)
        plane, y = row // line.of.rows, row % line.of.rows
        at = plane * c_plane + y * c_row + column * how.element_step
        inside = (place >= 0) & wide.has(place) & splat(y < high.of.count, how.lanes)
        made.append((at, inside & near))
        row, column = row + 1, column - line.of.length
    return made


def write(
    c: Pointer, at: Number, value: Number, targets: list[tuple[Number, Mask]], how: RowTiles
) -> None:
    """Write a vector of the result."""
    value = value.to(c.dtype)
    for place, inside in targets:
        if how.element_step == 1:
            c.store(at + place, value, mask=inside)
        else:
            lane = iota(value.width).to(place.dtype)
            c.store(at + place + lane * how.element_step, value, mask=inside)
