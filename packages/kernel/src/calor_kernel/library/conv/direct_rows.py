"""Direct convolutions over rows: a tap is a shift of the line, and vectors run along pixels.

Requirements: channels first in and out, and input and weights in place, so little is packed or
padded. Output pixels are counted along the input's own rows. Masks hide what a tap reads beyond a
row, at nearly no cost. The sums of a tile stay in registers, as in a matrix product (Goto and van
de Geijn, 2008).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType, bool_, int64
from calor_kernel.language import (
    cube_position,
    fma,
    helper,
    kernel,
    loop_range,
    private,
    registers,
    splat,
)
from calor_kernel.library.conv.row_axes import Line, line_axes


@dataclass(frozen=True, slots=True)
class Operands:
    """Lines and weights: strides of channels, and starts of taps in memory of the unit.

    ``seen`` has a mask for each tap and vector of a panel; None without padding.
    """

    x: Any
    w: Any
    x_step: Any
    w_step: Any
    at: Any
    of: Any
    seen: Any

    def multiply(
        self,
        acc: Any,
        x_at: Any,
        w_at: list[Any],
        of: Any,
        masks: list[Any],
    ) -> None:
        """Add the products of one term to a tile of sums."""
        rows, vectors = acc.shape
        lanes, wide = acc.type.width, acc.type.dtype
        columns = [
            self.x.load(x_at + v * lanes, lanes, mask=masks[v]).to(wide) for v in range(vectors)
        ]
        for r in range(rows):
            value = splat(self.w[w_at[r] + of].to(wide), lanes)
            for v in range(vectors):
                if wide.kind == "float":
                    acc[r, v] = fma(value, columns[v], acc[r, v])
                else:
                    acc[r, v] = acc[r, v] + value * columns[v]

    def weight(self, start: Any, tap: Any) -> Any:
        """Return the position of a tap's weights; without a list they are in order."""
        return start + (tap if self.of is None else self.of[tap])

    def masks(self, tap: Any, vectors: int, lanes: int, plain: list[Any]) -> list[Any]:
        """Return the masks of a tap."""
        if self.seen is None:
            return plain
        return [self.seen.load((tap * vectors + v) * lanes, lanes) for v in range(vectors)]


@kernel
def shifted(
    x: Any,
    w: Any,
    c: Any,
    rows_total: Any,
    channels: Any,
    panels: Any,
    whole: Any,
    groups: Any,
    x_outer: Any,
    x_group: Any,
    x_step: Any,
    w_group: Any,
    w_row: Any,
    w_step: Any,
    c_outer: Any,
    c_group: Any,
    c_row: Any,
    block_rows: Any,
    block_panels: Any,
    count: Any,
    length: Any,
    high: Any,
    plane_step: Any,
    row_step: Any,
    *axes: Any,
    tile: tuple[int, int],
    rest: tuple[int, int],
    lanes: int,
    accumulate: DType,
    strides: tuple[int, int, int],
    room: int,
    ordered: bool,
    row_step_of_weights: int,
    masked: bool,
    ragged: bool,
    pieces: int,
    wraps: int,
    element_step: int,
    unroll: int,
) -> None:
    """Compute a block of the result: panels of pixels from x, rows from y.

    A row is an output channel. The first ``whole`` panels have tiles of (rows, vectors) ``tile``,
    the others ``rest``; z counts images and groups. ``room``: the taps that memory holds (1 for a
    window of one tap). ``ordered``: whether the weights of a channel are adjacent, or those of a
    row for a window of one tap. ``row_step_of_weights``: ``w_row`` if it is known at build time,
    else 0. ``masked``: whether taps read padding. ``ragged``: whether the memory ends with a line.
    """
    image = cube_position(2)
    outer, group = image // groups, image % groups
    deep, tall, wide = line_axes(axes, strides)
    line = Line(deep, tall, wide, count, length, high, plane_step, row_step, element_step, pieces)
    at = private(room, int64) if room > 1 else None
    of = private(room, int64) if room > 1 and not ordered else None
    most = max(tile[1], rest[1])
    seen = private(room * most * lanes, bool_, align=64) if masked else None
    operands = Operands(x, w, x_step, w_step, at, of, seen)
    x_start = outer * x_outer + group * x_group
    if room > 1:
        list_taps(operands, line)
    else:
        x_start += deep.at(deep.taps - 1) + tall.at(tall.taps - 1) + wide.at(wide.taps - 1)
    w_start = group * w_group
    c_start = outer * c_outer + group * c_group
    first_row = cube_position(1) * block_rows
    # The last block takes the remaining rows, so that each block has a whole tile of rows.
    last_row = first_row + block_rows
    if last_row + block_rows > rows_total:
        last_row = rows_total
    # A stride known at build time needs no registers.
    w_row = row_step_of_weights or w_row
    first_panel = cube_position(0) * block_panels
    for panel in range(first_panel, min(first_panel + block_panels, panels)):
        first = panel * (tile[1] * lanes)
        if panel < whole:
            compute_panel(
                tile, accumulate, lanes, operands, line, c, first, x_start, w_start,
                w_row, c_start, c_row, first_row, last_row, channels, wraps, ordered, ragged,
                unroll,
            )  # fmt: skip
        else:
            first = whole * (tile[1] * lanes) + (panel - whole) * (rest[1] * lanes)
            compute_panel(
                rest, accumulate, lanes, operands, line, c, first, x_start, w_start,
                w_row, c_start, c_row, first_row, last_row, channels, wraps, ordered, ragged,
                unroll,
            )  # fmt: skip


@helper
def list_taps(operands: Operands, line: Line) -> None:
    """Write the start of each tap, on the line and in the weights of a channel."""
    deep, high, wide = line.deep, line.high, line.wide
    tap = 0
    for kd in range(deep.taps):
        for kh in range(high.taps):
            for kw in range(wide.taps):
                operands.at[tap] = deep.at(kd) + high.at(kh) + wide.at(kw)
                if operands.of is not None:
                    operands.of[tap] = kd * deep.weight + kh * high.weight + kw * wide.weight
                tap += 1


@helper
def list_masks(
    operands: Operands, line: Line, first: Any, vectors: int, lanes: int, wraps: int
) -> None:
    """Write the mask of each tap for the pixels of a panel."""
    for v in range(vectors):
        start = first + v * lanes
        near = line.near(start, lanes)
        plane, y, column = line.places(start, lanes, wraps)
        tap = 0
        for kd in range(line.deep.taps):
            deep = near & line.deep.sees(plane, kd)
            for kh in range(line.high.taps):
                high = deep & line.high.sees(y, kh)
                for kw in range(line.wide.taps):
                    inside = high & line.wide.sees(column, kw)
                    operands.seen.store((tap * vectors + v) * lanes, inside)
                    tap += 1


@helper
def ask_ahead(
    operands: Operands, line: Line, at: Any, first: Any, last: Any, vectors: int, lanes: int
) -> None:
    """Prefetch some channels' part of the next panel to the second-level cache."""
    for channel in range(first, last):
        start = at + channel * operands.x_step
        if operands.at is None:
            for v in range(vectors):
                operands.x.prefetch(start + v * lanes, locality=2)
        else:
            for row in range(line.deep.taps * line.high.taps):
                place = start + operands.at[row * line.wide.taps]
                for v in range(vectors + 1):
                    operands.x.prefetch(place + v * lanes, locality=2)


@helper
def compute_panel(
    shape: tuple[int, int],
    accumulate: DType,
    lanes: int,
    operands: Operands,
    line: Line,
    c: Any,
    first: Any,
    x_start: Any,
    w_start: Any,
    w_row: Any,
    c_start: Any,
    c_row: Any,
    first_row: Any,
    last_row: Any,
    channels: Any,
    wraps: int,
    ordered: bool,
    ragged: bool,
    unroll: int,
) -> None:
    """Compute rows of one panel of pixels, which begins at ``first`` on the line."""
    rows, vectors = shape
    starts = [first + v * lanes for v in range(vectors)]
    targets = [line.targets(start, lanes) for start in starts]
    plain = [line.near(start, lanes) if ragged else None for start in starts]
    if operands.seen is not None:
        list_masks(operands, line, first, vectors, lanes, wraps)
    x_first = x_start + first
    taps = line.deep.taps * line.high.taps * line.wide.taps
    tiles = (last_row - first_row + (rows - 1)) // rows
    share = (channels + tiles - 1) // tiles
    asked = x_first * 0
    for step in range(first_row, last_row, rows):
        # The last tile overlaps the one before where no whole tile is left.
        row = min(step, last_row - rows)
        w_at = [w_start + row * w_row + r * w_row for r in range(rows)]
        next_asked = min(asked + share, channels)
        ask_ahead(operands, line, x_first + vectors * lanes, asked, next_asked, vectors, lanes)
        asked = next_asked
        acc = registers(shape, accumulate, lanes)
        if operands.at is None:
            masks = operands.masks(0, vectors, lanes, plain)
            w_step = 1 if ordered else operands.w_step
            main = channels // unroll * unroll
            for k in loop_range(0, main, unroll):
                for u in range(unroll):
                    operands.multiply(
                        acc, x_first + (k + u) * operands.x_step, w_at, (k + u) * w_step, masks

                    )  # fmt: skip
            for k in range(main, channels):
                operands.multiply(
                    acc, x_first + k * operands.x_step, w_at, k * w_step, masks
                )  # fmt: skip
        else:
            main = taps // unroll * unroll
            for channel in range(channels):
                x_at, of = x_first + channel * operands.x_step, channel * operands.w_step
                for k in loop_range(0, main, unroll):
                    for u in range(unroll):
                        operands.multiply(
                            acc, x_at + operands.at[k + u], w_at, operands.weight(of, k + u),
                            operands.masks(k + u, vectors, lanes, plain),
                        )  # fmt: skip
                if unroll > 1:
                    for k in range(main, taps):
                        operands.multiply(
                            acc, x_at + operands.at[k], w_at, operands.weight(of, k),
                            operands.masks(k, vectors, lanes, plain),
                        )  # fmt: skip
        for r in range(rows):
            for v in range(vectors):
                line.store(c, c_start + (row + r) * c_row, acc[r, v], targets[v])
