"""Copies whose source and target have different dense axes, in square tiles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Generic, TypeVar

from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds, is_size, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Effort, Grid, launch
from calor_kernel.contract.work import Launch
from calor_kernel.library.copying.transfer import Transfer, row_offset
from calor_kernel.library.transposition import (
    SharedTile,
    is_small,
    lanes_below,
    masks,
    partial_square,
    shortest,
    side_of,
    transpose,
)

N = TypeVar("N")


@dataclass(frozen=True, slots=True)
class Transposition(Generic[N]):
    """A copy in which source and target have different dense axes.

    ``rows`` are dense in the source, ``columns`` in the target. ``across``: the stride of columns
    in the source; ``along``: of rows in the target. ``sizes``: of the other axes, with strides in
    the source (``read``) and in the target (``written``).
    """

    rows: kl.SizeOf[N]
    columns: kl.SizeOf[N]
    across: kl.StrideOf[N]
    along: kl.StrideOf[N]
    sizes: tuple[kl.StrideOf[N], ...]
    read: tuple[kl.StrideOf[N], ...]
    written: tuple[kl.StrideOf[N], ...]


@kl.kernel
def copy_transposed(
    source: kl.In, target: kl.Out, over: Transposition[kl.Number], *, width: int, masked: bool
) -> None:
    """Copy ``width`` rows of a block a unit, in square tiles transposed in registers.

    ``masked``: whether the device masks lanes; else parts of tiles are copied one by one.
    """
    rows, columns, across, along = over.rows, over.columns, over.across, over.along
    strips = (rows + width - 1) // width
    block, strip = kl.absolute_position() // strips, kl.absolute_position() % strips
    first = strip * width
    read = row_offset(block, over.sizes, over.read) + first
    written = row_offset(block, over.sizes, over.written) + first * along
    done: kl.Index = 0
    if first + width <= rows:
        done = columns // width * width
        for j in kl.loop_range(0, done, width):
            vectors = [source.load(read + (j + k) * across, width) for k in kl.range(width)]
            for k, vector in enumerate(transpose(vectors)):
                target.store(written + k * along + j, vector)
    left = kl.min(rows - first, width)
    if masked:
        for j in kl.loop_range(done, columns, width):
            rest = kl.min(columns - j, width)
            square = partial_square(source, read + j * across, across, left, rest, width)
            for k, vector in enumerate(square):
                mask = lanes_below(kl.select(left > k, rest, 0), width)
                target.store(written + k * along + j, vector, mask=mask)
    else:
        for j in kl.loop_range(done, columns):
            for k in kl.loop_range(left):
                target[written + k * along + j] = source[read + j * across + k]


@kl.kernel
def copy_tiles(
    source: kl.In,
    target: kl.Out,
    over: Transposition[kl.Number],
    *,
    tile: SharedTile,
    units: int,
    run: int,
) -> None:
    """Copy as ``copy_transposed``, in tiles of shared memory; a unit writes runs of elements."""
    rows, columns, across, along = over.rows, over.columns, over.across, over.along
    staged = kl.shared(tile.size, source.dtype)
    strips = (rows + tile.rows - 1) // tile.rows
    bands = (columns + tile.columns - 1) // tile.columns
    block = kl.cube_position() // (strips * bands)
    row = kl.cube_position() // bands % strips * tile.rows
    column = kl.cube_position() % bands * tile.columns
    read = row_offset(block, over.sizes, over.read)
    written = row_offset(block, over.sizes, over.written)
    # All are on their way before one is staged; those beyond the end repeat the first.
    found = []
    for i, j in tile.by_rows(units):
        inside = (row + i < rows) & (column + j < columns)
        at = kl.select(inside, (column + j) * across + row + i, 0)
        found.append((j * tile.pitch + i, source[read + at]))
    for to, value in found:
        staged[to] = value
    kl.barrier()
    align = run * int(source.dtype.itemsize) if run > 1 else 0
    for i, j in tile.by_columns(units, run):
        if (column + j < columns) & (row + i < rows):
            values = kl.pack([staged[(j + e) * tile.pitch + i] for e in range(run)])
            target.store(written + (row + i) * along + column + j, values, align=align)


def crosses(over: Transfer, info: DeviceInfo) -> bool:
    """Return whether another axis than the last is dense in the source, and both are long."""
    width: int = max(info.vector_bytes // over.dtype.itemsize, 1)
    if over.starts is not None or over.written[-1] != 1:
        return False
    if over.read[-1] in (0, 1) or 1 not in over.read or width < 4:
        return False
    beside = over.read.index(1) == len(over.sizes) - 2
    if beside and is_small(over.sizes[-1], over.read[-1], over.dtype.itemsize, info):
        return False
    fewest = min(width, 16) if info.max_units > 1 else shortest(info)
    return exceeds(least(over.sizes[over.read.index(1)], over.sizes[-1]), fewest - 1)


def transposing_launch(over: Transfer, info: DeviceInfo, label: str) -> Launch:
    """Return the launch of a copy that crosses."""
    axis = over.read.index(1)
    rest = [i for i in range(len(over.sizes) - 1) if i != axis]
    rows, columns = over.sizes[axis], over.sizes[-1]
    problem = Transposition(
        rows,
        columns,
        over.read[-1],
        over.written[axis],
        tuple(over.sizes[i] for i in rest),
        tuple(over.read[i] for i in rest),
        tuple(over.written[i] for i in rest),
    )
    blocks = prod(problem.sizes)
    tile = SharedTile.of(rows, columns, int(over.dtype.itemsize))
    shared = info.shared_room(tile.size, over.dtype.itemsize)
    if info.max_units > 1 and info.has("barrier") and shared <= info.shared_bytes:
        cubes = blocks * -(-rows // tile.rows) * -(-columns // tile.columns)
        units = tile.units(info)
        grid = Grid((cubes, 1, 1), (units, 1, 1), index=over.index(info))
        effort = Effort(label or copy_tiles.name, 0, over.nbytes)
        run = tile.run(columns, int(over.dtype.itemsize), units)
        starts = over.target.offset, problem.along, *problem.written
        given = {"tile": tile, "units": units, "run": run if _divides(run, starts) else 1}
        return launch(copy_tiles, grid, effort, **over.places, over=problem, **given)
    side = side_of(rows, columns, max(info.vector_bytes // over.dtype.itemsize, 1))
    masked = masks(info)
    effort = Effort(label or copy_transposed.name, 0, over.nbytes)
    grid = Grid.line(blocks * -(-rows // side))
    return launch(
        copy_transposed, grid, effort, **over.places, over=problem, width=side, masked=masked
    )


def _divides(run: int, numbers: Iterable[int]) -> bool:
    """Return whether a number of elements divides others at every size that a plan is for."""
    rests = [n % run for n in numbers]
    return all(not is_size(rest) and rest == 0 for rest in rests)
