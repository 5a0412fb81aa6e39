"""Copies of any view to dense memory, as bits.

Requirements: only the size of the dtype matters; sizes and strides are run-time numbers, so one
kernel serves every shape of a rank; contiguous axes are merged, and a dense copy runs at the speed
of memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Generic, TypeVar

from calor.dtypes import DType, int32, int64, uint8, uint16, uint32, uint64
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.movement import coalesced
from calor_kernel.contract.work import Output, Request, View, Work, lowering, row_major
from calor_kernel.language import (
    In,
    Index,
    KernelFunction,
    Number,
    Out,
    Size,
    SizeOf,
    Stride,
    StrideOf,
    absolute_position,
    barrier,
    cube_position,
    cube_size,
    kernel,
    loop_range,
    min,
    offset_of,
    range,
    shared,
    splat,
    unit_position,
    unravel,
)
from calor_kernel.library.transposition import transpose

N = TypeVar("N")
_BITS = {1: uint8, 2: uint16, 4: uint32, 8: uint64}
# Elements of a cube of one unit, enough to hide the cost of its start.
_GRAIN = 1 << 14
# Vectors of a unit in a cube of many.
_TURNS = 4
# The side of the square tile of a cube.
_TILE = 32


@kernel
def copy_dense(
    source: In, target: Out, count: Size, chunk: Size, *, width: int, fill: bool
) -> None:
    """Copy adjacent elements, or fill with one element; a cube has a ``chunk``.

    A chunk is whole vectors for all units.
    """
    start = cube_position() * chunk
    stop = min(start + chunk, count)
    one = source[0] if fill else None
    first = start + unit_position() * width
    many = cube_size() > 1
    for i in loop_range(first, stop - (width - 1), cube_size() * width, unroll=4 if many else 1):
        target.store(i, splat(one, width) if fill else source.load(i, width))
    for i in loop_range(stop - stop % width + unit_position(), stop, cube_size()):
        target[i] = one if fill else source[i]


@kernel
def copy_rows(
    source: In,
    target: Out,
    rows: Size,
    turns: Size,
    sizes: tuple[Size, ...],
    strides: tuple[Stride, ...],
    *,
    width: int,
    step: int,
) -> None:
    """Copy rows along the last axis, ``turns`` of them a unit.

    ``step``: the stride in a row if it is 0 or 1; else −1, and elements are copied one by one.
    """
    length = sizes[-1]
    start = absolute_position() * turns
    for row in loop_range(start, min(start + turns, rows)):
        offset = _row_offset(row, sizes[:-1], strides[:-1])
        done: Index = 0
        if step >= 0:
            one = source[offset] if step == 0 else None
            done = length // width * width
            for i in loop_range(0, done, width):
                vector = splat(one, width) if step == 0 else source.load(offset + i, width)
                target.store(row * length + i, vector)
        for i in loop_range(done, length):
            target[row * length + i] = source[offset + i * strides[-1]]


@dataclass(frozen=True, slots=True)
class Transposition(Generic[N]):
    """A copy in which source and target have different dense axes.

    ``rows`` are dense in the source, ``columns`` in the target. ``across``: the stride of columns
    in the source; ``along``: of rows in the target. ``sizes``: of the other axes, with strides in
    the source (``read``) and in the target (``written``).
    """

    rows: SizeOf[N]
    columns: SizeOf[N]
    across: StrideOf[N]
    along: StrideOf[N]
    sizes: tuple[StrideOf[N], ...]
    read: tuple[StrideOf[N], ...]
    written: tuple[StrideOf[N], ...]


@kernel
def copy_transposed(source: In, target: Out, over: Transposition[Number], *, width: int) -> None:
    """Copy ``width`` rows of a block a unit, in square tiles transposed in registers."""
    rows, columns, across, along = over.rows, over.columns, over.across, over.along
    strips = (rows + width - 1) // width
    block, strip = absolute_position() // strips, absolute_position() % strips
    first = strip * width
    read = _row_offset(block, over.sizes, over.read) + first
    written = _row_offset(block, over.sizes, over.written) + first * along
    done: Index = 0
    if first + width <= rows:
        done = columns // width * width
        for j in loop_range(0, done, width):
            vectors = [source.load(read + (j + k) * across, width) for k in range(width)]
            for k, vector in enumerate(transpose(vectors)):
                target.store(written + k * along + j, vector)
    for j in loop_range(done, columns):
        for k in loop_range(min(rows - first, width)):
            target[written + k * along + j] = source[read + j * across + k]


@kernel
def copy_tiles(source: In, target: Out, over: Transposition[Number], *, tile: int) -> None:
    """Copy as ``copy_transposed``, in square tiles of shared memory."""
    rows, columns, across, along = over.rows, over.columns, over.across, over.along
    # One more column avoids bank conflicts.
    staged = shared(tile * (tile + 1), source.dtype)
    strips, bands = (rows + tile - 1) // tile, (columns + tile - 1) // tile
    block = cube_position() // (strips * bands)
    row = cube_position() // bands % strips * tile
    column = cube_position() % bands * tile
    read = _row_offset(block, over.sizes, over.read)
    written = _row_offset(block, over.sizes, over.written)
    x, y = unit_position(0), unit_position(1)
    for k in range(0, tile, cube_size(1)):
        if (row + x < rows) & (column + y + k < columns):
            staged[(y + k) * (tile + 1) + x] = source[read + (column + y + k) * across + row + x]
    barrier()
    for k in range(0, tile, cube_size(1)):
        if (column + x < columns) & (row + y + k < rows):
            target[written + (row + y + k) * along + column + x] = staged[x * (tile + 1) + y + k]


@kernel
def copy_elements(
    source: In,
    target: Out,
    count: Size,
    sizes: tuple[Size, ...],
    strides: tuple[Stride, ...],
    *,
    small: bool,
) -> None:
    """Copy an element a unit, so that stores are coalesced.

    ``small``: the count fits 32 bits, which makes divisions cheaper.
    """
    i = absolute_position()
    if i < count:
        if small:
            narrowed = [n.to(int32) for n in sizes]
            position = unravel(narrow(i), narrowed)
            target[i] = source[offset_of([p.to(int64) for p in position], strides)]
        else:
            target[i] = source[_row_offset(i, sizes, strides)]


def narrow(index: Number) -> Number:
    """Return a small index with 32 bits."""
    short = index.to(int32)
    short.nonnegative = True
    return short


def _row_offset(row: Number, sizes: Sequence[Number], strides: Sequence[Number]) -> Index:
    """Return the offset of a row, its number counted along the axes, the last one fastest."""
    offset: Index = 0
    for size, stride in zip(reversed(sizes[1:]), reversed(strides[1:]), strict=True):
        offset = offset + row % size * stride
        row = row // size
    return offset + row * strides[0] if strides else offset


def as_bits(view: View, info: DeviceInfo) -> View:
    """Return a view as unsigned integers of the same bits, several for elements of 16 bytes."""
    size = view.dtype.itemsize
    whole: DType | None = _BITS.get(size)
    if whole is not None and whole in info.dtypes:
        return View(view.shape, view.strides, whole, view.offset)
    part = next(d for d in (uint64, uint32) if d in info.dtypes)
    count = size // part.itemsize
    strides = (*(s * count for s in view.strides), 1)
    return View((*view.shape, count), strides, part, view.offset * count)


@lowering("copy", strided=True)
def lower_copy(request: Request) -> Sequence[Work]:
    """Copy a view of any rank."""
    info = request.info
    view = as_bits(request.inputs[0], info)
    shape, (strides,) = coalesced(view.shape, view.strides)
    if not shape:
        shape, strides = (1,), (1,)
    width = max(info.vector_bytes // view.dtype.itemsize, 1)
    if len(shape) == 1 and strides[0] in (0, 1):
        kernel, grid, given = _dense(shape[0], strides[0], width, info)
    elif _crosses(shape, strides, width):
        kernel, grid, given = _transposing(shape, strides, width, info)
    else:
        kernel, grid, given = _rows(shape, strides, width, info)
    effort = Effort(kernel.name, 0, 2 * view.size * view.dtype.itemsize)
    given |= {"source": operand(0, view), "target": Bound(Output(), view.dtype)}
    made = replace(launch(kernel, grid, effort, **given), copies=0)
    return (Work((made,), in_place=((0, 0),)),)


Parts = tuple[KernelFunction, Grid, dict[str, object]]


def _dense(count: int, stride: int, width: int, info: DeviceInfo) -> Parts:
    units = min(info.max_units, 256)
    chunk = units * width * (_TURNS if units > 1 else max(_GRAIN // width, 1))
    if units > 1 and width <= 4:
        # Addresses may be unaligned for vectors; single elements of neighbours are coalesced.
        width = 1
    given: dict[str, object] = {"count": count, "chunk": chunk, "width": width, "fill": stride == 0}
    return copy_dense, Grid.line(-(-count // chunk), units), given


def _rows(shape: tuple[int, ...], strides: tuple[int, ...], width: int, info: DeviceInfo) -> Parts:
    units = min(info.max_units, 256)
    given: dict[str, object] = {"sizes": shape, "strides": strides}
    if units > 1:
        count = prod(shape)
        given |= {"count": count, "small": count < 1 << 30}
        return copy_elements, Grid.line(-(-count // units), units), given
    rows = prod(shape[:-1])
    turns = max(_GRAIN // shape[-1], 1)
    step = strides[-1] if strides[-1] in (0, 1) else -1
    given |= {"rows": rows, "turns": turns, "width": width, "step": step}
    return copy_rows, Grid.line(-(-rows // turns)), given


def _crosses(shape: tuple[int, ...], strides: tuple[int, ...], width: int) -> bool:
    """Return whether another axis than the last is dense, and both are long."""
    if strides[-1] in (0, 1) or 1 not in strides or width < 4:
        return False
    return min(shape[strides.index(1)], shape[-1]) >= min(width, 16)


def _transposing(
    shape: tuple[int, ...], strides: tuple[int, ...], width: int, info: DeviceInfo
) -> Parts:
    axis = strides.index(1)
    dense = row_major(shape)
    rest = [i for i in range(len(shape) - 1) if i != axis]
    rows, columns = shape[axis], shape[-1]
    over = Transposition(
        rows,
        columns,
        strides[-1],
        dense[axis],
        tuple(shape[i] for i in rest),
        tuple(strides[i] for i in rest),
        tuple(dense[i] for i in rest),
    )
    blocks = prod(over.sizes)
    if info.max_units > 1 and info.has("barrier"):
        cubes = blocks * -(-rows // _TILE) * -(-columns // _TILE)
        units = max(min(info.max_units // _TILE, 8), 1)
        return copy_tiles, Grid((cubes, 1, 1), (_TILE, units, 1)), {"over": over, "tile": _TILE}
    side = min(width, 16)
    return copy_transposed, Grid.line(blocks * -(-rows // side)), {"over": over, "width": side}
