"""Operands that are dense along another axis than the results, such as transposes: tiles.

Requirements: every line of memory is read once and used whole. Cubes of one unit transpose squares
in registers, cubes of many units in shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calor_kernel import language as kl
from calor_kernel.library.elementwise.strided import Blueprint, moved
from calor_kernel.library.elementwise.values import Value, load, stored
from calor_kernel.library.transposition import SharedTile, partial_square, transpose


@dataclass(frozen=True, slots=True)
class Tiling:
    """The build of tiles of the last axis and of ``axis``, along which operands are dense.

    ``across``: the operands to transpose. ``masked``: whether the device masks lanes.
    """

    axis: int
    across: tuple[int, ...]
    masked: bool = False

    def outer(self, rank: int) -> list[int]:
        """Return the axes that number the planes of tiles."""
        return [a for a in range(rank - 1) if a != self.axis]

    def pitch(self, sizes: Sequence[kl.FastDivmod]) -> kl.Number:
        """Return the stride of the results along the axis."""
        pitch = sizes[-1].divisor
        for size in sizes[self.axis + 1 : -1]:
            pitch = pitch * size.divisor
        return pitch

    def corner(
        self,
        plane: kl.Number,
        top: kl.Number,
        left: kl.Index,
        sizes: Sequence[kl.FastDivmod],
        strides: Sequence[Sequence[kl.Number]],
    ) -> tuple[list[kl.Number], kl.Index]:
        """Return the first positions of a tile in the operands, and in its plane of results."""
        outer = self.outer(len(sizes))
        position = kl.unravel(plane, [sizes[a] for a in outer])
        starts = [
            kl.offset_of(position, [s[a] for a in outer]) + top * s[self.axis] + left * s[-1]
            for s in strides
        ]
        places = dict(zip(outer, position, strict=True))
        base: kl.Index = 0
        for a, size in enumerate(sizes):
            base = base * size.divisor + places.get(a, 0)
        return starts, base


@kl.kernel
def elementwise_tiles(
    sources: tuple[kl.In, ...],
    targets: tuple[kl.Out, ...],
    bands: kl.Size,
    turns: kl.Size,
    sizes: tuple[kl.FastDivmod, ...],
    strides: tuple[tuple[kl.Stride, ...], ...],
    *,
    by: Blueprint,
    tiling: Tiling,
) -> None:
    """Compute squares, for cubes of one unit; a band is ``width`` rows along the axis."""
    width, axis, operands = by.width, tiling.axis, by.expression.operands
    length, height = sizes[-1].divisor, sizes[axis].divisor
    pitch = tiling.pitch(sizes)
    tiles = {k: kl.private(width * width, stored(operands[k])) for k in tiling.across}
    first = kl.cube_position() * turns
    for band in kl.loop_range(first, kl.min(first + turns, bands)):
        down = (height + width - 1) // width
        plane = band // down
        top = (band - plane * down) * width
        starts, base = tiling.corner(plane, top, 0, sizes, strides)
        base = base + top * pitch
        rows = kl.min(height - top, width)
        for i in kl.loop_range(0, length, width):
            columns = kl.min(length - i, width)
            for k in tiling.across:
                stride = strides[k][-1]
                place = starts[k] + i * stride
                transpose_tile(
                    sources[k], tiles[k], place, stride, rows, columns, width, tiling.masked
                )
            for row in kl.loop_range(rows):
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


@kl.helper
def transpose_tile(
    source: kl.Pointer,
    tile: kl.Pointer,
    place: kl.Number,
    stride: kl.Number,
    rows: kl.Number,
    columns: kl.Number,
    width: int,
    masked: bool,
) -> None:
    """Read a square whose rows are columns of memory, and store it row by row."""
    if (rows >= width) & (columns >= width):
        taken = [source.load(place + c * stride, width) for c in range(width)]
        for r, values in enumerate(transpose(taken, largest_first=True)):
            tile.store(r * width, values)
    elif masked:
        for r, values in enumerate(partial_square(source, place, stride, rows, columns, width)):
            tile.store(r * width, values)
    else:
        for r in kl.loop_range(rows):
            for c in kl.loop_range(columns):
                tile[r * width + c] = source[place + c * stride + r]


@kl.kernel
def elementwise_shared_tiles(
    sources: tuple[kl.In, ...],
    targets: tuple[kl.Out, ...],
    wide: kl.Size,
    tall: kl.Size,
    sizes: tuple[kl.FastDivmod, ...],
    strides: tuple[tuple[kl.Stride, ...], ...],
    *,
    by: Blueprint,
    tiling: Tiling,
    tile: SharedTile,
    units: int,
) -> None:
    """Compute tiles in shared memory, one a cube; a unit writes ``by.width`` adjacent values.

    ``wide`` and ``tall``: the numbers of tiles along the last axis and along the other.
    """
    axis, operands = tiling.axis, by.expression.operands
    length, height = sizes[-1].divisor, sizes[axis].divisor
    pitch = tiling.pitch(sizes)
    number = kl.cube_position()
    band = number // wide
    left = (number - band * wide) * tile.columns
    plane = band // tall
    top = (band - plane * tall) * tile.rows
    starts, base = tiling.corner(plane, top, left, sizes, strides)
    base = base + top * pitch + left
    rows, columns = height - top, length - left
    staged = {k: kl.shared(tile.size, stored(operands[k])) for k in tiling.across}
    for k in tiling.across:
        for i, j in tile.by_rows(units):
            if (i < rows) & (j < columns):
                staged[k][j * tile.pitch + i] = sources[k][starts[k] + j * strides[k][-1] + i]
    kl.barrier()
    for i, j in tile.by_columns(units, by.width):
        if (i < rows) & (j < columns):
            values: list[Value] = []
            for k, dtype in enumerate(operands):
                if k in tiling.across:
                    run = [staged[k][(j + e) * tile.pitch + i] for e in range(by.width)]
                    values.append(kl.pack(run))
                else:
                    place = starts[k] + i * strides[k][axis] + j * strides[k][-1]
                    step = strides[k][-1] if by.steps[k] < 0 else by.steps[k]
                    values.append(load(sources[k], dtype, place, by.width, step=step))
            made = by.expression.evaluate(values)
            by.write(targets, base + i * pitch + j, made, dense=by.width > 1)
