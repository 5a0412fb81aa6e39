"""Reading at computed places: gather, gather_nd and take_along.

Requirements: elements are bits; rows are copied as vectors, single elements are gathered as vectors
of indices; negative indices count from the end, and one out of range is an error that names its
axis, not a wrong number.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from calor.dtypes import DType, int32, int64
from calor.errors import ElementIndexError
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import (
    Build,
    Failure,
    Input,
    Launch,
    Output,
    Request,
    Status,
    View,
    Work,
    lowering,
)
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import absolute_position, kernel, loop_range, unravel
from calor_kernel.library.copying import as_bits
from calor_kernel.library.indexing.checked_index import checked, quick_unravel
from calor_kernel.library.indexing.cooperative_launch import gather_launch

SIZE = Scalar(int64, nonnegative=True)
STRIDE = Scalar(int64)
STATUS = Buffer(int32)
# Bytes that a unit reads on a device of cubes of one unit.
_GRAIN = 1 << 15
# Vectors of rows of which kernels are made of their own.
_ROWS = (1, 2, 3, 4, 6, 8, 12, 16)


@kernel
def gather_rows(
    source: Any,
    indices: Any,
    target: Any,
    status: Any,
    rows: Any,
    turns: Any,
    length: Any,
    picks: Any,
    outer_step: Any,
    step: Any,
    pick_step: Any,
    part_step: Any,
    *axes: Any,
    width: int,
    parts: int,
    vectors: int,
    flat: bool,
) -> None:
    """Write row r of the target: ``length`` elements of the source at the indices of r.

    Rows are counted over (outer, picks); ``flat``: there is one outer row. ``axes`` are sizes and
    strides of the indexed axes of the source, ``parts`` of them: an index has as many numbers,
    ``part_step`` apart. ``vectors``: how many of ``width`` elements make a row; 0 where the build
    does not know.
    """
    sizes, strides = axes[:parts], axes[parts:]
    begin = absolute_position() * turns
    for row in loop_range(begin, min(begin + turns, rows)):
        outer, pick = (0, row) if flat else unravel(row, (1, picks))
        at = 0 * row if flat else outer * outer_step
        first = pick * pick_step
        for part in range(parts):
            index = checked(indices[first + part * part_step], sizes[part], status, part + 1)
            at = at + index * strides[part]
        if vectors > 0:
            taken = [source.load(at + i * width, width) for i in range(vectors)]
            for i in range(vectors):
                target.store(row * (vectors * width) + i * width, taken[i])
        elif width > 1:
            whole = length // width * width
            for i in loop_range(0, whole, width):
                target.store(row * length + i, source.load(at + i, width))
            for i in loop_range(whole, length):
                target[row * length + i] = source[at + i]
        else:
            for i in loop_range(length):
                target[row * length + i] = source[at + i * step]


@kernel
def gather_along(
    source: Any,
    indices: Any,
    target: Any,
    status: Any,
    count: Any,
    turns: Any,
    picks: Any,
    inner: Any,
    size: Any,
    outer_step: Any,
    step: Any,
    inner_step: Any,
    *,
    words: int,
    small: bool,
) -> None:
    """Write element (o, p, i) of the target: the source at (o, index at (o, p, i), i).

    An element is ``words`` items of memory.
    """
    begin = absolute_position() * turns
    for n in loop_range(begin, min(begin + turns, count)):
        outer, _, i = quick_unravel(n, (1, picks, inner), small)
        index = checked(indices[n], size, status, 1)
        at = (outer * outer_step + index * step + i * inner_step) * words
        for word in range(words):
            target[n * words + word] = source[at + word]


def failures(op: str, sizes: Sequence[int], axes: Sequence[int]) -> tuple[Failure, ...]:
    """Return the errors of indices out of range, one per indexed axis, and one where none is."""
    return tuple(
        (ElementIndexError, f"{op}: an index is out of range for axis {axis} of size {size}")
        for axis, size in zip(axes, sizes, strict=True)
    ) or ((ElementIndexError, f"{op}: an index is out of range"),)


def share(rows: int, row_bytes: int, info: DeviceInfo) -> tuple[int, int]:
    """Return the units of a cube and the rows of a unit."""
    if info.max_units > 1:
        return min(info.max_units, 64), 1
    return 1, max(1, min(rows, _GRAIN // max(row_bytes, 1)))


def _read(dtype: DType) -> Buffer:
    return Buffer(dtype, writable=False)


@lowering("gather", dense=(0, 1))
def lower_gather(request: Request) -> Sequence[Work]:
    """Take rows of x along an axis at indices of any shape."""
    x, indices = request.inputs
    axis = request.attributes["axis"]
    inner = prod(x.shape[axis + 1 :])
    outer = prod(x.shape[:axis])
    return _rows(
        request, x, indices, outer, indices.size, inner, (x.shape[axis],), (inner,), (axis,), 1
    )


@lowering("gather_nd", dense=(0, 1))
def lower_gather_nd(request: Request) -> Sequence[Work]:
    """Take parts of x at indices of its first axes."""
    x, indices = request.inputs
    depth = indices.shape[-1]
    inner = prod(x.shape[depth:])
    picks = prod(indices.shape[:-1])
    strides = x.strides[:depth] if x.size else (0,) * depth
    return _rows(
        request, x, indices, 1, picks, inner, x.shape[:depth], strides, range(depth), depth
    )


def _rows(
    request: Request,
    x: View,
    indices: View,
    outer: int,
    picks: int,
    inner: int,
    sizes: Sequence[int],
    strides: Sequence[int],
    axes: Sequence[int],
    parts: int,
) -> Sequence[Work]:
    info = request.info
    rows = outer * picks
    bits = as_bits(x, info)
    count = x.dtype.itemsize // bits.dtype.itemsize
    length = inner * count
    if rows * length == 0:
        # Nothing is read, but an index out of range is an error of its own; there is no index.
        return [Work(())]
    if info.max_units > 1:
        steps = tuple(s * count for s in strides)
        whole = prod(sizes) * length
        made = gather_launch(request, bits, indices, rows, length, picks, whole, (sizes, steps))
        return [Work((made,), failures=failures(request.op, sizes, axes))]
    width = max(1, info.vector_bytes // bits.dtype.itemsize)
    width = width if length >= width else 1
    vectors = length // width if width > 1 and length in [width * v for v in _ROWS] else 0
    units, turns = share(rows, length * bits.dtype.itemsize, info)
    whole = prod(sizes) * length
    numbers = (rows, turns, length, picks, whole if outer > 1 else 0, 1, parts, 1)
    steps = tuple(s * count for s in strides)
    build = Build(
        gather_rows,
        (
            _read(bits.dtype),
            _read(indices.dtype),
            Buffer(bits.dtype),
            STATUS,
            *(SIZE,) * (len(numbers) + 2 * parts),
        ),
        (("flat", outer == 1), ("parts", parts), ("vectors", vectors), ("width", width)),
        (units, 1, 1),
    )
    launch = Launch(
        build,
        (-(-rows // (units * turns)), 1, 1),
        (
            Input(0, bits.offset),
            Input(1, indices.offset),
            Output(0),
            Status(),
            *numbers,
            *sizes,
            *steps,
        ),
        0,
        2 * rows * length * bits.dtype.itemsize,
        "gather",
    )
    return [Work((launch,), failures=failures(request.op, sizes, axes))]


@lowering("take_along", dense=(0, 1))
def lower_take_along(request: Request) -> Sequence[Work]:
    """Take the element at each index along an axis."""
    x, indices = request.inputs
    info = request.info
    axis = request.attributes["axis"]
    if indices.size == 0:
        return [Work(())]
    bits = as_bits(x, info)
    count = x.dtype.itemsize // bits.dtype.itemsize
    inner, size = prod(x.shape[axis + 1 :]), x.shape[axis]
    units, turns = share(indices.size, x.dtype.itemsize, info)
    numbers = (
        indices.size,
        turns,
        indices.shape[axis],
        inner,
        size,
        size * inner,
        inner,
        1,
    )
    build = Build(
        gather_along,
        (
            _read(bits.dtype),
            _read(indices.dtype),
            Buffer(bits.dtype),
            STATUS,
            *(SIZE,) * len(numbers),
        ),
        (("small", info.max_units > 1 and indices.size < 1 << 30), ("words", count)),
        (units, 1, 1),
    )
    launch = Launch(
        build,
        (-(-indices.size // (units * turns)), 1, 1),
        (Input(0, bits.offset), Input(1, indices.offset), Output(0), Status(), *numbers),
        0,
        2 * indices.size * x.dtype.itemsize + indices.size * indices.dtype.itemsize,
        "take along",
    )
    return [Work((launch,), failures=failures(request.op, (size,), (axis,)))]
