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

from calor.dtypes import DType, int32, int64, uint32, uint64
from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.movement import coalesced
from calor_kernel.contract.work import Output, Request, View, Work, lowering, row_major
from calor_kernel.ir.types import UNSIGNED
from calor_kernel.library.transposition import transpose

N = TypeVar("N")
# Elements of a cube of one unit, enough to hide the cost of its start.
_GRAIN = 1 << 14
# Vectors of a unit in a cube of many.
_TURNS = 4
# The side of the square tile of a cube.
_TILE = 32


@kl.kernel
def copy_dense(
    source: kl.In, target: kl.Out, count: kl.Size, chunk: kl.Size, *, width: int, fill: bool
) -> None:
    """Copy adjacent elements, or fill with one element; a cube has a ``chunk``.

    A chunk is whole vectors for all units.
    """
    start = kl.cube_position() * chunk
    stop = kl.min(start + chunk, count)
    one = source[0] if fill else None
    first = start + kl.unit_position() * width
    many = kl.cube_size() > 1
    for i in kl.loop_range(
        first, stop - (width - 1), kl.cube_size() * width, unroll=4 if many else 1
    ):
        target.store(i, kl.splat(one, width) if fill else source.load(i, width))
    for i in kl.loop_range(stop - stop % width + kl.unit_position(), stop, kl.cube_size()):
        target[i] = one if fill else source[i]


@kl.kernel
def copy_rows(
    source: kl.In,
    target: kl.Out,
    rows: kl.Size,
    turns: kl.Size,
    sizes: tuple[kl.Size, ...],
    strides: tuple[kl.Stride, ...],
    *,
    width: int,
    step: int,
) -> None:
    """Copy rows along the last axis, ``turns`` of them a unit.

    ``step``: the stride in a row if it is 0 or 1; else −1, and elements are copied one by one.
    """
    length = sizes[-1]
    start = kl.absolute_position() * turns
    for row in kl.loop_range(start, kl.min(start + turns, rows)):
        offset = _row_offset(row, sizes[:-1], strides[:-1])
        done: kl.Index = 0
        if step >= 0:
            one = source[offset] if step == 0 else None
            done = length // width * width
            for i in kl.loop_range(0, done, width):
                vector = kl.splat(one, width) if step == 0 else source.load(offset + i, width)
                target.store(row * length + i, vector)
        for i in kl.loop_range(done, length):
            target[row * length + i] = source[offset + i * strides[-1]]


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
    source: kl.In, target: kl.Out, over: Transposition[kl.Number], *, width: int
) -> None:
    """Copy ``width`` rows of a block a unit, in square tiles transposed in registers."""
    rows, columns, across, along = over.rows, over.columns, over.across, over.along
    strips = (rows + width - 1) // width
    block, strip = kl.absolute_position() // strips, kl.absolute_position() % strips
    first = strip * width
    read = _row_offset(block, over.sizes, over.read) + first
    written = _row_offset(block, over.sizes, over.written) + first * along
    done: kl.Index = 0
    if first + width <= rows:
        done = columns // width * width
        for j in kl.loop_range(0, done, width):
            vectors = [source.load(read + (j + k) * across, width) for k in kl.range(width)]
            for k, vector in enumerate(transpose(vectors)):
                target.store(written + k * along + j, vector)
    for j in kl.loop_range(done, columns):
        for k in kl.loop_range(kl.min(rows - first, width)):
            target[written + k * along + j] = source[read + j * across + k]


@kl.kernel
def copy_tiles(source: kl.In, target: kl.Out, over: Transposition[kl.Number], *, tile: int) -> None:
    """Copy as ``copy_transposed``, in square tiles of shared memory."""
    rows, columns, across, along = over.rows, over.columns, over.across, over.along
    # One more column avoids bank conflicts.
    staged = kl.shared(tile * (tile + 1), source.dtype)
    strips, bands = (rows + tile - 1) // tile, (columns + tile - 1) // tile
    block = kl.cube_position() // (strips * bands)
    row = kl.cube_position() // bands % strips * tile
    column = kl.cube_position() % bands * tile
    read = _row_offset(block, over.sizes, over.read)
    written = _row_offset(block, over.sizes, over.written)
    x, y = kl.unit_position(0), kl.unit_position(1)
    for k in kl.range(0, tile, kl.cube_size(1)):
        if (row + x < rows) & (column + y + k < columns):
            staged[(y + k) * (tile + 1) + x] = source[read + (column + y + k) * across + row + x]
    kl.barrier()
    for k in kl.range(0, tile, kl.cube_size(1)):
        if (column + x < columns) & (row + y + k < rows):
            target[written + (row + y + k) * along + column + x] = staged[x * (tile + 1) + y + k]


@kl.kernel
def copy_elements(
    source: kl.In,
    target: kl.Out,
    count: kl.Size,
    sizes: tuple[kl.Size, ...],
    strides: tuple[kl.Stride, ...],
    *,
    small: bool,
) -> None:
    """Copy an element a unit, so that stores are coalesced.

    ``small``: the count fits 32 bits, which makes divisions cheaper.
    """
    i = kl.absolute_position()
    if i < count:
        if small:
            narrowed = [n.to(int32) for n in sizes]
            position = kl.unravel(narrow(i), narrowed)
            target[i] = source[kl.offset_of([p.to(int64) for p in position], strides)]
        else:
            target[i] = source[_row_offset(i, sizes, strides)]


def narrow(index: kl.Number) -> kl.Number:
    """Return a small index with 32 bits."""
    short = index.to(int32)
    short.nonnegative = True
    return short


def _row_offset(
    row: kl.Number, sizes: Sequence[kl.Number], strides: Sequence[kl.Number]
) -> kl.Index:
    """Return the offset of a row, its number counted along the axes, the last one fastest."""
    offset: kl.Index = 0
    for size, stride in zip(reversed(sizes[1:]), reversed(strides[1:]), strict=True):
        offset = offset + row % size * stride
        row = row // size
    return offset + row * strides[0] if strides else offset


def as_bits(view: View, info: DeviceInfo) -> View:
    """Return a view as unsigned integers of the same bits, several for elements of 16 bytes."""
    size = view.dtype.itemsize
    whole: DType | None = UNSIGNED.get(size)
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


Parts = tuple[kl.KernelFunction, Grid, dict[str, object]]


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
