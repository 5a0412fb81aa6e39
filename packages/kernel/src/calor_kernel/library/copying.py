"""Copying any view to dense memory, element by element as bits: what strides cannot say.

Requirements: no dtype matters but its size; sizes and strides are run-time numbers, so that one
kernel serves every shape of a rank; axes that lie one after another are one axis, and a dense copy
is as fast as memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from calor.dtypes import DType, int32, int64, uint8, uint16, uint32, uint64
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import (
    Argument,
    Build,
    Input,
    Launch,
    Output,
    Request,
    View,
    Work,
    lowering,
    row_major,
)
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import (
    KernelFunction,
    absolute_position,
    barrier,
    cube_position,
    cube_size,
    kernel,
    loop_range,
    offset_of,
    shared,
    shuffle,
    splat,
    unit_position,
    unravel,
)

_BITS = {1: uint8, 2: uint16, 4: uint32, 8: uint64}
_SIZE = Scalar(int64, nonnegative=True)
_STRIDE = Scalar(int64)
# Elements that a cube of one unit copies; enough that starting it does not count.
_GRAIN = 1 << 14
# Vectors that a unit among many copies.
_TURNS = 4
# The side of a square that the units of a cube transpose.
_TILE = 32


@kernel
def copy_dense(source: Any, target: Any, count: Any, chunk: Any, *, width: int, fill: bool) -> None:
    """Copy elements that lie one after another, or fill with one, ``chunk`` of them a cube.

    A chunk has whole vectors for all units.
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
    source: Any, target: Any, rows: Any, turns: Any, *numbers: Any, width: int, step: int
) -> None:
    """Copy rows along the last axis, ``turns`` of them a unit.

    ``step``: the stride in a row where it is 0 or 1, else −1, and no vectors are read.
    """
    rank = len(numbers) // 2
    sizes, strides = numbers[:rank], numbers[rank:]
    length = sizes[-1]
    start = absolute_position() * turns
    for row in loop_range(start, min(start + turns, rows)):
        place = _place(row, sizes[:-1], strides[:-1])
        done = 0
        if step >= 0:
            one = source[place] if step == 0 else None
            done = length // width * width
            for i in loop_range(0, done, width):
                vector = splat(one, width) if step == 0 else source.load(place + i, width)
                target.store(row * length + i, vector)
        for i in loop_range(done, length):
            target[row * length + i] = source[place + i * strides[-1]]


@kernel
def copy_transposed(
    source: Any, target: Any, rows: Any, columns: Any, *numbers: Any, width: int
) -> None:
    """Copy where the elements that lie one after another are other ones in source and target.

    ``rows`` lie so in the source, ``columns`` in the target. A unit does ``width`` rows of one
    block, in squares that are transposed in registers. ``numbers``: the stride of columns in the
    source and of rows in the target, then sizes and both strides of the other axes.
    """
    across, along = numbers[:2]
    rank = (len(numbers) - 2) // 3
    sizes = numbers[2 : 2 + rank]
    strips = (rows + width - 1) // width
    block, strip = absolute_position() // strips, absolute_position() % strips
    first = strip * width
    read = _place(block, sizes, numbers[2 + rank : 2 + 2 * rank]) + first
    written = _place(block, sizes, numbers[2 + 2 * rank :]) + first * along
    done = 0
    if first + width <= rows:
        done = columns // width * width
        for j in loop_range(0, done, width):
            vectors = [source.load(read + (j + k) * across, width) for k in range(width)]
            for k, vector in enumerate(_transposed(vectors)):
                target.store(written + k * along + j, vector)
    for j in loop_range(done, columns):
        for k in loop_range(min(rows - first, width)):
            target[written + k * along + j] = source[read + j * across + k]


def _transposed(vectors: list[Any]) -> list[Any]:
    """Return a square of lanes transposed: blocks beside the diagonal change places, by halves."""
    width = len(vectors)
    step = 1
    while step < width:
        for i in (i for i in range(width) if not i & step):
            a, b = vectors[i], vectors[i | step]
            upper = [n + width - step if n & step else n for n in range(width)]
            lower = [n + width if n & step else n + step for n in range(width)]
            vectors[i], vectors[i | step] = shuffle(a, upper, b), shuffle(a, lower, b)
        step *= 2
    return vectors


@kernel
def copy_tiles(source: Any, target: Any, rows: Any, columns: Any, *numbers: Any, tile: int) -> None:
    """Copy as copy_transposed does, in squares that the units of a cube share."""
    across, along = numbers[:2]
    rank = (len(numbers) - 2) // 3
    sizes = numbers[2 : 2 + rank]
    # A column more than the square has keeps the units out of each other's banks.
    square = shared(tile * (tile + 1), source.dtype)
    strips, bands = (rows + tile - 1) // tile, (columns + tile - 1) // tile
    block = cube_position() // (strips * bands)
    row = cube_position() // bands % strips * tile
    column = cube_position() % bands * tile
    read = _place(block, sizes, numbers[2 + rank : 2 + 2 * rank])
    written = _place(block, sizes, numbers[2 + 2 * rank :])
    x, y = unit_position(0), unit_position(1)
    for k in range(0, tile, cube_size(1)):
        if (row + x < rows) & (column + y + k < columns):
            square[(y + k) * (tile + 1) + x] = source[read + (column + y + k) * across + row + x]
    barrier()
    for k in range(0, tile, cube_size(1)):
        if (column + x < columns) & (row + y + k < rows):
            target[written + (row + y + k) * along + column + x] = square[x * (tile + 1) + y + k]


@kernel
def copy_elements(source: Any, target: Any, count: Any, *numbers: Any, small: bool) -> None:
    """Copy an element a unit, so that neighbours write one after another.

    ``small``: whether 32 bits are enough for their number, which costs less to divide.
    """
    rank = len(numbers) // 2
    i = absolute_position()
    if i < count:
        sizes, strides = numbers[:rank], numbers[rank:]
        if small:
            narrowed = [n.to(int32) for n in sizes]
            position = unravel(narrow(i), narrowed)
            target[i] = source[offset_of([p.to(int64) for p in position], strides)]
        else:
            target[i] = source[_place(i, sizes, strides)]


def narrow(index: Any) -> Any:
    """Return a small index with 32 bits."""
    made = index.to(int32)
    made.nonnegative = True
    return made


def _place(row: Any, sizes: Sequence[Any], strides: Sequence[Any]) -> Any:
    """Return where a row begins, its number counted along the axes, the last one fastest."""
    place: Any = 0
    for size, stride in zip(reversed(sizes[1:]), reversed(strides[1:]), strict=True):
        place = place + row % size * stride
        row = row // size
    return place + row * strides[0] if strides else place


def coalesced(
    shape: Sequence[int], strides: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return shape and strides with axes of one element left out and axes merged where they can.

    >>> coalesced((2, 1, 3, 4), (12, 7, 4, 1))
    ((24,), (1,))
    """
    merged: list[tuple[int, int]] = []
    for n, s in zip(shape, strides, strict=True):
        if n == 1:
            continue
        if merged and merged[-1][1] == n * s:
            merged[-1] = (merged[-1][0] * n, s)
        else:
            merged.append((n, s))
    return tuple(n for n, _ in merged), tuple(s for _, s in merged)


def as_bits(view: View, info: DeviceInfo) -> View:
    """Return a view as unsigned integers of the same bits, several an element where need be."""
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
    shape, strides = coalesced(view.shape, view.strides)
    if not shape:
        shape, strides = (1,), (1,)
    nbytes = 2 * view.size * view.dtype.itemsize
    width = max(info.vector_bytes // view.dtype.itemsize, 1)
    buffers = (Input(0, view.offset), Output(0))
    bits = (Buffer(view.dtype, writable=False), Buffer(view.dtype))
    if len(shape) == 1 and strides[0] in (0, 1):
        return (_work(*_dense(shape[0], strides[0], width, info), bits, buffers, nbytes),)
    if _crosses(shape, strides, width):
        return (_work(*_transposing(shape, strides, width, info), bits, buffers, nbytes),)
    return (_work(*_rows(shape, strides, width, info), bits, buffers, nbytes),)


Keywords = tuple[tuple[str, Any], ...]
Parts = tuple[KernelFunction, Keywords, tuple[int, int, int], int, tuple[int, ...], int]


def _work(
    function: KernelFunction,
    keywords: Keywords,
    cube: tuple[int, int, int],
    cubes: int,
    numbers: tuple[int, ...],
    sizes: int,
    bits: tuple[Buffer, Buffer],
    buffers: tuple[Input, Output],
    nbytes: int,
) -> Work:
    """Return the launch of a kernel with numbers, of which the first ``sizes`` are no strides."""
    scalars = (_SIZE,) * sizes + (_STRIDE,) * (len(numbers) - sizes)
    build = Build(function, (*bits, *scalars), keywords, cube)
    arguments: tuple[Argument, ...] = (*buffers, *numbers)
    launch = Launch(build, (cubes, 1, 1), arguments, 0, nbytes, function.name, copies=0)
    return Work((launch,), in_place=((0, 0),))


def _dense(count: int, stride: int, width: int, info: DeviceInfo) -> Parts:
    units = min(info.max_units, 256)
    chunk = units * width * (_TURNS if units > 1 else max(_GRAIN // width, 1))
    if units > 1 and width <= 4:
        # Addresses need not be a vector's, and then neighbours' elements are one access.
        width = 1
    keywords = (("width", width), ("fill", stride == 0))
    return copy_dense, keywords, (units, 1, 1), -(-count // chunk), (count, chunk), 2


def _rows(shape: tuple[int, ...], strides: tuple[int, ...], width: int, info: DeviceInfo) -> Parts:
    rank, units = len(shape), min(info.max_units, 256)
    if units > 1:
        count = prod(shape)
        numbers = (count, *shape, *strides)
        small = (("small", count < 1 << 30),)
        return copy_elements, small, (units, 1, 1), -(-count // units), numbers, 1 + rank
    rows = prod(shape[:-1])
    turns = max(_GRAIN // shape[-1], 1)
    keywords = (("width", width), ("step", strides[-1] if strides[-1] in (0, 1) else -1))
    numbers = (rows, turns, *shape, *strides)
    return copy_rows, keywords, (1, 1, 1), -(-rows // turns), numbers, 2 + rank


def _crosses(shape: tuple[int, ...], strides: tuple[int, ...], width: int) -> bool:
    """Return whether another axis than the last lies densely, and both are long."""
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
    numbers = (
        rows,
        columns,
        strides[-1],
        dense[axis],
        *(shape[i] for i in rest),
        *(strides[i] for i in rest),
        *(dense[i] for i in rest),
    )
    blocks = prod(shape[i] for i in rest)
    if info.max_units > 1 and info.has("barrier"):
        cubes = blocks * -(-rows // _TILE) * -(-columns // _TILE)
        units = max(min(info.max_units // _TILE, 8), 1)
        return copy_tiles, (("tile", _TILE),), (_TILE, units, 1), cubes, numbers, 2
    side = min(width, 16)
    return copy_transposed, (("width", side),), (1, 1, 1), blocks * -(-rows // side), numbers, 2
