"""Copying any view to dense memory, element by element as bits: what strides cannot say.

Requirements: no dtype matters but its size; sizes and strides are run-time numbers, so that one
kernel serves every shape of a rank; axes that lie one after another are one axis, and a dense copy
is as fast as memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from calor.dtypes import DType, int64, uint8, uint16, uint32, uint64
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import (
    absolute_position,
    cube_position,
    cube_size,
    kernel,
    loop_range,
    splat,
    unit_position,
)
from calor_kernel.library.work import (
    Build,
    Input,
    Launch,
    Output,
    Request,
    View,
    Work,
    lowering,
)
from calor_kernel.runtime.device import DeviceInfo

_BITS = {1: uint8, 2: uint16, 4: uint32, 8: uint64}
_SIZE = Scalar(int64, nonnegative=True)
_STRIDE = Scalar(int64)
# Bytes that a cube of one unit copies; enough that starting it does not count.
_GRAIN = 1 << 16


@kernel
def copy_dense(source: Any, target: Any, count: Any, *, width: int, turns: int, fill: bool) -> None:
    """Copy elements that lie one after another, or fill with one; units take turns."""
    step = cube_size() * width
    start = cube_position() * (step * turns) + unit_position() * width
    first = splat(source[0], width) if fill else None
    for turn in loop_range(turns):
        i = start + turn * step
        if i + width <= count:
            target.store(i, first if fill else source.load(i, width))
        else:
            for j in loop_range(i, count):
                target[j] = source[0] if fill else source[j]


@kernel
def copy_rows(source: Any, target: Any, rows: Any, turns: Any, *numbers: Any, width: int) -> None:
    """Copy rows along the last axis: whole vectors where its elements lie one after another."""
    rank = len(numbers) // 2
    sizes, strides = numbers[:rank], numbers[rank:]
    length, step = sizes[-1], strides[-1]
    start = absolute_position() * turns
    for row in loop_range(start, min(start + turns, rows)):
        place = _place(row, sizes[:-1], strides[:-1])
        if width > 1:
            whole = length // width * width
            for i in loop_range(0, whole, width):
                target.store(row * length + i, source.load(place + i, width))
            for i in loop_range(whole, length):
                target[row * length + i] = source[place + i]
        else:
            for i in loop_range(length):
                target[row * length + i] = source[place + i * step]


@kernel
def copy_elements(source: Any, target: Any, count: Any, *numbers: Any) -> None:
    """Copy an element a unit, so that neighbours write one after another."""
    rank = len(numbers) // 2
    i = absolute_position()
    if i < count:
        target[i] = source[_place(i, numbers[:rank], numbers[rank:])]


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
    source, target = Buffer(view.dtype, writable=False), Buffer(view.dtype)
    units = min(info.max_units, 256)
    cube = (units, 1, 1)
    buffers = (Input(0, view.offset), Output(0))
    count = prod(shape)
    if len(shape) == 1 and strides[0] in (0, 1):
        turns = 4 if units > 1 else max(_GRAIN // (width * view.dtype.itemsize), 1)
        keywords: tuple[tuple[str, Any], ...] = (
            ("width", width),
            ("turns", turns),
            ("fill", strides[0] == 0),
        )
        build = Build(copy_dense, (source, target, _SIZE), keywords, cube)
        cubes = -(-count // (units * width * turns))
        arguments: tuple[Any, ...] = (*buffers, count)
    elif units > 1:
        axes = (_SIZE,) * len(shape) + (_STRIDE,) * len(shape)
        build = Build(copy_elements, (source, target, _SIZE, *axes), (), cube)
        cubes = -(-count // units)
        arguments = (*buffers, count, *shape, *strides)
    else:
        rows = prod(shape[:-1])
        turns = max(_GRAIN // (shape[-1] * view.dtype.itemsize), 1)
        axes = (_SIZE,) * len(shape) + (_STRIDE,) * len(shape)
        keywords = (("width", width if strides[-1] == 1 else 1),)
        build = Build(copy_rows, (source, target, _SIZE, _SIZE, *axes), keywords, cube)
        cubes = -(-rows // turns)
        arguments = (*buffers, rows, turns, *shape, *strides)
    name = build.function.name
    launch = Launch(build, (cubes, 1, 1), arguments, 0, nbytes, name, copies=0)
    return (Work((launch,), in_place=((0, 0),)),)
