"""Copying boxes of elements: concat, pad, dynamic slices and updates.

Requirements: elements are bits, so one kernel serves every dtype of a size; source and target have
strides each, so that pieces of a result are written where they belong; starts that only the device
knows are read there and clamped as the rows say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from calor.dtypes import int64
from calor.specs import Spec
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import (
    Argument,
    Build,
    Input,
    Launch,
    Output,
    Refusal,
    Request,
    View,
    Work,
    lowering,
    row_major,
)
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import absolute_position, helper, kernel, loop_range, unravel
from calor_kernel.library.copying import as_bits, lower_copy

_SIZE = Scalar(int64, nonnegative=True)
_STRIDE = Scalar(int64)
# Bytes that a unit copies on a device of cubes of one unit.
_GRAIN = 1 << 16


@kernel
def copy_box(
    source: Any,
    target: Any,
    rows: Any,
    turns: Any,
    *numbers: Any,
    width: int,
    fill: bool,
) -> None:
    """Copy rows of a box; ``numbers`` are sizes, strides of the source and of the target.

    ``width``: lanes of a copy where rows are contiguous in both, else 1; ``fill``: the source is
    one element.
    """
    rank = len(numbers) // 3
    sizes, steps, places = numbers[:rank], numbers[rank : 2 * rank], numbers[2 * rank :]
    start = absolute_position() * turns
    for row in loop_range(start, min(start + turns, rows)):
        copy_row(source, 0, target, 0, row, sizes, steps, places, width, fill)


@helper
def copy_row(
    source: Any,
    source_at: Any,
    target: Any,
    target_at: Any,
    row: Any,
    sizes: Sequence[Any],
    steps: Sequence[Any],
    places: Sequence[Any],
    width: int,
    fill: bool,
) -> None:
    """Copy one row of a box, its number counted over all axes but the last."""
    for i, at in enumerate(unravel(row, sizes[:-1])):
        source_at = source_at + at * steps[i]
        target_at = target_at + at * places[i]
    length, step, place = sizes[-1], steps[-1], places[-1]
    if width > 1:
        whole = length // width * width
        for i in loop_range(0, whole, width):
            value = source[0] if fill else source.load(source_at + i, width)
            target.store(target_at + i, value if not fill else splatted(value, width))
        for i in loop_range(whole, length):
            target[target_at + i] = source[0] if fill else source[source_at + i]
    else:
        for i in loop_range(length):
            target[target_at + i * place] = source[source_at + i * step]


def splatted(value: Any, width: int) -> Any:
    """Return a vector of one value."""
    return value.builder.splat(value, width)


@kernel
def copy_dynamic(
    source: Any,
    starts: Any,
    target: Any,
    rows: Any,
    turns: Any,
    starts_step: Any,
    *numbers: Any,
    width: int,
    into: bool,
    axes: int,
) -> None:
    """Copy a box whose first element is moved by starts, in the target (``into``) or the source.

    ``numbers`` are sizes, strides of the source and of the target, then per axis of the starts the
    largest start that fits and the stride of a step of it; ``axes`` are the starts' number.
    """
    rank = (len(numbers) - 2 * axes) // 3
    sizes, steps = numbers[:rank], numbers[rank : 2 * rank]
    places = numbers[2 * rank : 3 * rank]
    limits, moves = numbers[3 * rank : 3 * rank + axes], numbers[3 * rank + axes :]
    moved: Any = 0
    for axis in range(axes):
        first = as_index(starts[axis * starts_step], limits[axis])
        moved = moved + max(first, 0) * moves[axis]
    begin = absolute_position() * turns
    for row in loop_range(begin, min(begin + turns, rows)):
        if into:
            copy_row(source, 0, target, moved, row, sizes, steps, places, width, False)
        else:
            copy_row(source, moved, target, 0, row, sizes, steps, places, width, False)


@helper
def as_index(start: Any, limit: Any) -> Any:
    """Return a start as an index, at most the limit; an unsigned one beyond int64 is the limit."""
    if start.dtype.kind == "uint" and start.dtype.itemsize == 8:
        low = min(start, limit.to(start.dtype))
        result = low.to(int64)
    else:
        result = min(start.to(int64), limit)
    return result


def box(
    shape: Sequence[int], steps: Sequence[int], places: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return sizes and both strides with axes merged where both allow it, at least one axis.

    >>> box((2, 3, 4), (12, 4, 1), (24, 4, 1))
    ((2, 12), (12, 1), (24, 1))
    """
    merged: list[tuple[int, int, int]] = []
    for n, s, t in zip(shape, steps, places, strict=True):
        if n == 1:
            continue
        if merged and merged[-1][1] == n * s and merged[-1][2] == n * t:
            merged[-1] = (merged[-1][0] * n, s, t)
        else:
            merged.append((n, s, t))
    merged = merged or [(1, 1, 1)]
    return tuple(zip(*merged, strict=True))  # type: ignore[return-value]


def copy_launch(
    view: View,
    source: Argument,
    target: Argument,
    places: Sequence[int],
    start: int,
    info: DeviceInfo,
    label: str,
) -> list[Launch]:
    """Return the launches that copy a view to a strided box of a buffer of the same dtype.

    ``places`` and ``start``: strides and first element of the box in the target, in elements.
    """
    bits = as_bits(view, info)
    parts = bits.dtype.itemsize
    count = view.dtype.itemsize // parts
    wide = [p * count for p in places] + ([1] if len(bits.shape) > len(view.shape) else [])
    sizes, steps, targets = box(bits.shape, bits.strides, wide)
    if prod(sizes) == 0:
        return []
    rows = prod(sizes[:-1])
    fill = len(sizes) == 1 and steps[-1] == 0 and targets[-1] == 1
    dense = targets[-1] == 1 and (steps[-1] == 1 or fill)
    width = max(1, info.vector_bytes // parts) if dense else 1
    units, turns = _share(rows, sizes[-1] * parts, info)
    axes = (*(_SIZE,) * len(sizes), *(_STRIDE,) * (2 * len(sizes)))
    build = Build(
        copy_box,
        (Buffer(bits.dtype, writable=False), Buffer(bits.dtype), _SIZE, _SIZE, *axes),
        (("fill", fill and width > 1), ("width", width)),
        (units, 1, 1),
    )
    moved = (_moved(source, bits.offset), _moved(target, start * count))
    return [
        Launch(
            build,
            (-(-rows // (units * turns)), 1, 1),
            (*moved, rows, turns, *sizes, *steps, *targets),
            0,
            2 * prod(sizes) * parts,
            label,
        )
    ]


def _moved(place: Argument, offset: int) -> Argument:
    assert isinstance(place, Input | Output)
    return replace(place, offset=place.offset + offset)


def _share(rows: int, row_bytes: int, info: DeviceInfo) -> tuple[int, int]:
    """Return the units of a cube and the rows of a unit."""
    if info.max_units > 1:
        return min(info.max_units, 64), 1
    return 1, max(1, min(rows, _GRAIN // max(row_bytes, 1)))


def dense_copy(view: View, number: int, result: Spec, info: DeviceInfo) -> list[Launch]:
    """Return the launches that copy an operand whole to the result, left out where it is that."""
    candidates = lower_copy(Request("copy", {}, (view,), (result,), info))
    assert not isinstance(candidates, Refusal)
    return [
        replace(
            launch,
            arguments=tuple(
                replace(a, number=number) if isinstance(a, Input) else a for a in launch.arguments
            ),
            copies=number,
        )
        for launch in candidates[0].launches
    ]


@lowering("concat", strided=True)
def lower_concat(request: Request) -> Sequence[Work]:
    """Copy each operand to its part of the result."""
    axis = request.attributes["axis"]
    places = row_major(request.outputs[0].shape)
    launches: list[Launch] = []
    start = 0
    for number, view in enumerate(request.inputs):
        at = start * places[axis]
        launches += copy_launch(view, Input(number), Output(0), places, at, request.info, "concat")
        start += view.shape[axis]
    return [Work(tuple(launches))]


@lowering("pad", strided=True)
def lower_pad(request: Request) -> Sequence[Work]:
    """Fill the result with the value, and copy the operand to its places."""
    x, value = request.inputs
    (result,) = request.outputs
    low, interior = request.attributes["low"], request.attributes["interior"]
    whole = row_major(result.shape)
    everywhere = View(result.shape, (0,) * len(result.shape), value.dtype, value.offset)
    launches: list[Launch] = []
    if x.size != result.size:
        launches += copy_launch(everywhere, Input(1), Output(0), whole, 0, request.info, "pad fill")
    start = sum(n * p for n, p in zip(low, whole, strict=True))
    places = [p * (i + 1) for p, i in zip(whole, interior, strict=True)]
    launches += copy_launch(x, Input(0), Output(0), places, start, request.info, "pad")
    return [Work(tuple(launches))]


@lowering("dynamic_slice", strided=True)
def lower_dynamic_slice(request: Request) -> Sequence[Work]:
    """Copy the part of x that begins at the starts."""
    x, starts = request.inputs
    sizes = request.attributes["sizes"]
    part = replace(x, shape=tuple(sizes))
    places = row_major(sizes)
    launches = _dynamic(part, Input(0), x, starts, Input(1), places, False, request.info)
    return [Work(tuple(launches))]


@lowering("dynamic_update_slice", strided=True)
def lower_dynamic_update_slice(request: Request) -> Sequence[Work]:
    """Copy x, unless the result is in its place, and the update over it at the starts."""
    x, update, starts = request.inputs
    (result,) = request.outputs
    launches = dense_copy(x, 0, result, request.info)
    whole = View.dense(result)
    launches += _dynamic(
        update, Input(1), whole, starts, Input(2), whole.strides, True, request.info
    )
    return [Work(tuple(launches), in_place=((0, 0),))]


def _dynamic(
    part: View,
    source: Input,
    whole: View,
    starts: View,
    starts_place: Input,
    places: Sequence[int],
    into: bool,
    info: DeviceInfo,
) -> list[Launch]:
    """Return the launch that moves a box by starts, of the target or of the source."""
    if part.size == 0:
        return []
    bits = as_bits(part, info)
    size = bits.dtype.itemsize
    count = part.dtype.itemsize // size
    wide = [p * count for p in places] + ([1] if len(bits.shape) > len(part.shape) else [])
    sizes, steps, targets = box(bits.shape, bits.strides, wide)
    limits = [n - m for n, m in zip(whole.shape, part.shape, strict=True)]
    moves = [s * count for s in whole.strides]
    rows = prod(sizes[:-1])
    width = max(1, info.vector_bytes // size) if steps[-1] == targets[-1] == 1 else 1
    units, turns = _share(rows, sizes[-1] * size, info)
    numbers = (*sizes, *steps, *targets, *limits, *moves)
    build = Build(
        copy_dynamic,
        (
            Buffer(bits.dtype, writable=False),
            Buffer(starts.dtype, writable=False),
            Buffer(bits.dtype),
            _SIZE,
            _SIZE,
            _STRIDE,
            *(_SIZE,) * len(sizes),
            *(_STRIDE,) * (2 * len(sizes) + 2 * len(limits)),
        ),
        (("axes", len(limits)), ("into", into), ("width", width)),
        (units, 1, 1),
    )
    first = replace(source, offset=source.offset + bits.offset)
    second = replace(starts_place, offset=starts_place.offset + starts.offset)
    step = starts.strides[0] if starts.shape and starts.shape[0] else 1
    return [
        Launch(
            build,
            (-(-rows // (units * turns)), 1, 1),
            (first, second, Output(0), rows, turns, step, *numbers),
            0,
            2 * prod(sizes) * size,
            "dynamic update" if into else "dynamic slice",
        )
    ]
