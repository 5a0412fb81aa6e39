"""Operands that are dense along another axis than the results, such as transposes: tiles.

Requirements: every line of memory is read once and used whole. Cubes of one unit transpose squares
in registers, cubes of many units in shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from calor_kernel.language import (
    FastDivmod,
    In,
    Index,
    Number,
    Out,
    Pointer,
    Size,
    Stride,
    barrier,
    cube_position,
    helper,
    kernel,
    loop_range,
    min,
    offset_of,
    private,
    shared,
    unit_position,
    unravel,
)
from calor_kernel.library.elementwise.strided import Blueprint, moved
from calor_kernel.library.elementwise.values import Value, load, stored
from calor_kernel.library.transposition import transpose

SIDE: Final = 32  # rows and columns of a tile of many units
_TALL: Final = 8  # units of their cube along its columns
CUBE: Final = (SIDE, _TALL, 1)


@dataclass(frozen=True, slots=True)
class Tiling:
    """The build of tiles of the last axis and of ``axis``, along which operands are dense.

    ``across``: the operands to transpose.
    """

    axis: int
    across: tuple[int, ...]

    def outer(self, rank: int) -> list[int]:
        """Return the axes that number the planes of tiles."""
        return [a for a in range(rank - 1) if a != self.axis]

    def pitch(self, sizes: Sequence[FastDivmod]) -> Number:
        """Return the stride of the results along the axis."""
        pitch = sizes[-1].divisor
        for size in sizes[self.axis + 1 : -1]:
            pitch = pitch * size.divisor
        return pitch

    def corner(
        self,
        plane: Number,
        top: Number,
        left: Index,
        sizes: Sequence[FastDivmod],
        strides: Sequence[Sequence[Number]],
    ) -> tuple[list[Number], Index]:
        """Return the first positions of a tile in the operands, and in its plane of results."""
        outer = self.outer(len(sizes))
        position = unravel(plane, [sizes[a] for a in outer])
        starts = [
            offset_of(position, [s[a] for a in outer]) + top * s[self.axis] + left * s[-1]
            for s in strides
        ]
        places = dict(zip(outer, position, strict=True))
        base: Index = 0
        for a, size in enumerate(sizes):
            base = base * size.divisor + places.get(a, 0)
        return starts, base


@kernel
def elementwise_tiles(
    sources: tuple[In, ...],
    targets: tuple[Out, ...],
    bands: Size,
    turns: Size,
    sizes: tuple[FastDivmod, ...],
    strides: tuple[tuple[Stride, ...], ...],
    *,
    by: Blueprint,
    tiling: Tiling,
) -> None:
    """Compute squares, for cubes of one unit; a band is ``width`` rows along the axis."""
    width, axis, operands = by.width, tiling.axis, by.expression.operands
    length, height = sizes[-1].divisor, sizes[axis].divisor
    pitch = tiling.pitch(sizes)
    tiles = {k: private(width * width, stored(operands[k])) for k in tiling.across}
    first = cube_position() * turns
    for band in loop_range(first, min(first + turns, bands)):
        down = (height + width - 1) // width
        plane = band // down
        top = (band - plane * down) * width
        starts, base = tiling.corner(plane, top, 0, sizes, strides)
        base = base + top * pitch
        rows = min(height - top, width)
        for i in loop_range(0, length, width):
            columns = min(length - i, width)
            for k in tiling.across:
                stride = strides[k][-1]
                transpose_tile(
                    sources[k], tiles[k], starts[k] + i * stride, stride, rows, columns, width
                )
            for row in loop_range(rows):
                values: list[Value] = []
                for k, dtype in enumerate(operands):
                    if k in tiling.across:
                        values.append(load(tiles[k], dtype, row * width, width, rest=columns))
                    else:
                        place = starts[k] + row * strides[k][axis]
                        place = moved(place, by.steps[k], i, strides[k][-1])
                        step = strides[k][-1] if by.steps[k] < 0 else by.steps[k]
                        values.append(
                            load(sources[k], dtype, place, width, step=step, rest=columns)
                        )
                made = by.expression.evaluate(values)
                if columns >= width:
                    by.write(targets, base + row * pitch + i, made)
                else:
                    by.write(targets, base + row * pitch + i, made, columns)


@helper
def transpose_tile(
    source: Pointer,
    tile: Pointer,
    place: Number,
    stride: Number,
    rows: Number,
    columns: Number,
    width: int,
) -> None:
    """Read a square whose rows are columns of memory, and store it row by row."""
    if (rows >= width) & (columns >= width):
        taken = [source.load(place + c * stride, width) for c in range(width)]
        for r, values in enumerate(transpose(taken, largest_first=True)):
            tile.store(r * width, values)
    else:
        for r in loop_range(rows):
            for c in loop_range(columns):
                tile[r * width + c] = source[place + c * stride + r]


@kernel
def elementwise_shared_tiles(
    sources: tuple[In, ...],
    targets: tuple[Out, ...],
    wide: Size,
    tall: Size,
    sizes: tuple[FastDivmod, ...],
    strides: tuple[tuple[Stride, ...], ...],
    *,
    by: Blueprint,
    tiling: Tiling,
) -> None:
    """Compute squares of SIDE, by cubes of SIDE by 8 units, a square each.

    ``wide`` and ``tall``: the numbers of squares along the last axis and along the other.
    """
    axis, operands = tiling.axis, by.expression.operands
    length, height = sizes[-1].divisor, sizes[axis].divisor
    pitch = tiling.pitch(sizes)
    number = cube_position()
    band = number // wide
    left = (number - band * wide) * SIDE
    plane = band // tall
    top = (band - plane * tall) * SIDE
    starts, base = tiling.corner(plane, top, left, sizes, strides)
    base = base + top * pitch + left
    rows, columns = height - top, length - left
    x, y = unit_position(0), unit_position(1)
    # One more column, so that the units of a row have no bank conflicts.
    tiles = {k: shared(SIDE * (SIDE + 1), stored(operands[k])) for k in tiling.across}
    for k in tiling.across:
        for part in range(SIDE // _TALL):
            column = y + part * _TALL
            if (x < rows) & (column < columns):
                place = starts[k] + column * strides[k][-1] + x
                tiles[k][column * (SIDE + 1) + x] = sources[k][place]
    barrier()
    for part in range(SIDE // _TALL):
        row = y + part * _TALL
        if (row < rows) & (x < columns):
            values: list[Value] = []
            for k, dtype in enumerate(operands):
                if k in tiling.across:
                    values.append(tiles[k][x * (SIDE + 1) + row])
                else:
                    place = starts[k] + row * strides[k][axis] + x * strides[k][-1]
                    values.append(load(sources[k], dtype, place, 1))
            made = by.expression.evaluate(values)
            by.write(targets, base + row * pitch + x, made)
