"""Copies of rectangular regions: concat, pad, dynamic slices and updates.

Requirements: elements are copied as bits, so one kernel serves every dtype of a size; source and
target have their own strides, so pieces are written directly to the result; starts in device memory
are read by the kernel and clamped as the operations define.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Generic, TypeVar

from calor.dtypes import int64
from calor.specs import Spec
from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.movement import coalesced
from calor_kernel.contract.work import (
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
from calor_kernel.library.copying import as_bits, lower_copy

N = TypeVar("N")
# Bytes that a cube of one unit copies.
_GRAIN = 1 << 16


@dataclass(frozen=True, slots=True)
class Region(Generic[N]):
    """A region of an array: sizes, strides of the source, and strides of the target."""

    sizes: tuple[kl.SizeOf[N], ...]
    source: tuple[kl.StrideOf[N], ...]
    target: tuple[kl.StrideOf[N], ...]


@dataclass(frozen=True, slots=True)
class Starts(Generic[N]):
    """Starts of a region: for each axis the largest start that fits, and the stride of a start.

    ``step``: the stride of the array of starts.
    """

    step: kl.StrideOf[N]
    region: Region[N]
    limits: tuple[kl.StrideOf[N], ...]
    strides: tuple[kl.StrideOf[N], ...]


@kl.kernel
def copy_region(
    source: kl.In,
    target: kl.Out,
    rows: kl.Size,
    turns: kl.Size,
    region: Region[kl.Number],
    *,
    width: int,
    fill: bool,
) -> None:
    """Copy rows of a region, ``turns`` of them a unit.

    ``width``: lanes of a copy if rows are contiguous in both arrays, else 1. ``fill``: the source
    is one element.
    """
    start = kl.absolute_position() * turns
    for row in kl.loop_range(start, kl.min(start + turns, rows)):
        copy_row(source, 0, target, 0, row, region, width, fill)


@kl.helper
def copy_row(
    source: kl.Pointer,
    source_at: kl.Index,
    target: kl.Pointer,
    target_at: kl.Index,
    row: kl.Number,
    region: Region[kl.Number],
    width: int,
    fill: bool,
) -> None:
    """Copy one row of a region, its number counted over all axes but the last."""
    for i, at in enumerate(kl.unravel(row, region.sizes[:-1])):
        source_at = source_at + at * region.source[i]
        target_at = target_at + at * region.target[i]
    length = region.sizes[-1]
    if width > 1:
        whole = length // width * width
        for i in kl.loop_range(0, whole, width):
            value = source[0] if fill else source.load(source_at + i, width)
            target.store(target_at + i, value if not fill else kl.splat(value, width))
        for i in kl.loop_range(whole, length):
            target[target_at + i] = source[0] if fill else source[source_at + i]
    else:
        for i in kl.loop_range(length):
            element = source[source_at + i * region.source[-1]]
            target[target_at + i * region.target[-1]] = element


@kl.kernel
def copy_dynamic(
    source: kl.In,
    starts: kl.In,
    target: kl.Out,
    rows: kl.Size,
    turns: kl.Size,
    over: Starts[kl.Number],
    *,
    width: int,
    into: bool,
) -> None:
    """Copy a region that begins at the starts, in the target (``into``) or in the source."""
    offset: kl.Index = 0
    for axis, limit in enumerate(over.limits):
        first = as_index(starts[axis * over.step], limit)
        offset = offset + kl.max(first, 0) * over.strides[axis]
    begin = kl.absolute_position() * turns
    for row in kl.loop_range(begin, kl.min(begin + turns, rows)):
        if into:
            copy_row(source, 0, target, offset, row, over.region, width, False)
        else:
            copy_row(source, offset, target, 0, row, over.region, width, False)


@kl.helper
def as_index(start: kl.Number, limit: kl.Number) -> kl.Number:
    """Return a start as an index, at most the limit; an unsigned one beyond int64 is the limit."""
    if start.dtype.kind == "uint" and start.dtype.itemsize == 8:
        low = kl.min(start, limit.to(start.dtype))
        result = low.to(int64)
    else:
        result = kl.min(start.to(int64), limit)
    return result


@dataclass(frozen=True, slots=True)
class DynamicPart:
    """A part of an array that begins at ``starts``, the operand of this ``number``.

    ``into``: whether the array is the target of a copy, or else its source.
    """

    number: int
    starts: View
    whole: View
    into: bool

    @property
    def step(self) -> int:
        """The distance of the starts."""
        return self.starts.strides[0] if self.starts.size else 1


def copy_launch(
    view: View,
    source: Input,
    strides: Sequence[int],
    start: int,
    info: DeviceInfo,
    label: str,
    part: DynamicPart | None = None,
) -> list[Launch]:
    """Return the launches that copy a view to a strided region of the result.

    ``strides`` and ``start``: strides and first element of the region in the result, in elements.
    ``part``: the array of which one side is a part with starts in memory.
    """
    bits = as_bits(view, info)
    itemsize = bits.dtype.itemsize
    count = view.dtype.itemsize // itemsize
    region_strides = [s * count for s in strides] + [1] * (len(bits.shape) - len(view.shape))
    sizes, along = coalesced(bits.shape, bits.strides, region_strides)
    region = Region(sizes, *along) if sizes else Region((1,), (1,), (1,))
    elements = prod(region.sizes)
    if elements == 0:
        return []
    rows = prod(region.sizes[:-1])
    adjacent = region.target[-1] == 1
    fill = part is None and len(region.sizes) == 1 and region.source[-1] == 0 and adjacent
    width = max(1, info.vector_bytes // itemsize)
    if not (adjacent and (region.source[-1] == 1 or fill)):
        width = 1
    units, turns = share(rows, region.sizes[-1] * itemsize, info, _GRAIN)
    given: dict[str, object] = {
        "source": Bound(replace(source, offset=source.offset + bits.offset), bits.dtype),
        "target": Bound(Output(0, start * count), bits.dtype),
        "rows": rows,
        "turns": turns,
        "width": width,
    }
    grid = Grid.line(-(-rows // (units * turns)), units)
    effort = Effort(label, 0, 2 * elements * itemsize)
    if part is None:
        return [launch(copy_region, grid, effort, region=region, fill=fill and width > 1, **given)]
    limits = tuple(n - m for n, m in zip(part.whole.shape, view.shape, strict=True))
    over = Starts(part.step, region, limits, tuple(s * count for s in part.whole.strides))
    given |= {"starts": operand(part.number, part.starts), "over": over, "into": part.into}
    return [launch(copy_dynamic, grid, effort, **given)]


def share(rows: int, row_bytes: int, info: DeviceInfo, grain: int) -> tuple[int, int]:
    """Return the units of a cube and the rows of a unit; a cube of one unit has ``grain`` bytes."""
    if info.max_units > 1:
        return min(info.max_units, 64), 1
    return 1, max(1, min(rows, grain // max(row_bytes, 1)))


def dense_copy(view: View, result: Spec, info: DeviceInfo) -> list[Launch]:
    """Return the launches that copy the first operand to the result, if they share no memory."""
    found = lower_copy(Request("copy", {}, (view,), (result,), info))
    assert not isinstance(found, Refusal)
    return list(found[0].launches)


@lowering("concat", strided=True)
def lower_concat(request: Request) -> Sequence[Work]:
    """Copy each operand to its part of the result."""
    axis = request.attributes["axis"]
    strides = row_major(request.outputs[0].shape)
    launches: list[Launch] = []
    start = 0
    for number, view in enumerate(request.inputs):
        at = start * strides[axis]
        launches += copy_launch(view, Input(number), strides, at, request.info, "concat")
        start += view.shape[axis]
    return [Work(tuple(launches))]


@lowering("pad", strided=True)
def lower_pad(request: Request) -> Sequence[Work]:
    """Fill the result with the value, and copy the operand into it."""
    x, value = request.inputs
    (result,) = request.outputs
    low, interior = request.attributes["low"], request.attributes["interior"]
    whole = row_major(result.shape)
    everywhere = View(result.shape, (0,) * len(result.shape), value.dtype, value.offset)
    launches: list[Launch] = []
    if x.size != result.size:
        launches += copy_launch(everywhere, Input(1), whole, 0, request.info, "pad fill")
    start = sum(n * p for n, p in zip(low, whole, strict=True))
    strides = [p * (i + 1) for p, i in zip(whole, interior, strict=True)]
    launches += copy_launch(x, Input(0), strides, start, request.info, "pad")
    return [Work(tuple(launches))]


@lowering("dynamic_slice", strided=True)
def lower_dynamic_slice(request: Request) -> Sequence[Work]:
    """Copy the part of x that begins at the starts."""
    x, starts = request.inputs
    sizes = request.attributes["sizes"]
    view, part = replace(x, shape=tuple(sizes)), DynamicPart(1, starts, x, False)
    strides, info = row_major(sizes), request.info
    made = copy_launch(view, Input(0), strides, 0, info, "dynamic slice", part)
    return [Work(tuple(made))]


@lowering("dynamic_update_slice", strided=True)
def lower_dynamic_update_slice(request: Request) -> Sequence[Work]:
    """Copy x, unless the result is in its place, and the update over it at the starts."""
    x, update, starts = request.inputs
    (result,) = request.outputs
    whole, info = View.dense(result), request.info
    part = DynamicPart(2, starts, whole, True)
    launches = dense_copy(x, result, info)
    launches += copy_launch(update, Input(1), whole.strides, 0, info, "dynamic update", part)
    return [Work(tuple(launches), in_place=((0, 0),))]
