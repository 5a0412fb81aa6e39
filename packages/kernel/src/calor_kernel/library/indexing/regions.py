"""Copies of rectangular regions: concat, pad, dynamic slices and updates.

Requirements: elements are copied as bits, so one kernel serves every dtype of a size; source and
target have their own strides, so pieces are written directly to the result; starts in device memory
are read by the kernel and clamped as the operations define.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import (
    Input,
    Launch,
    Request,
    View,
    Work,
    lowering,
    row_major,
)
from calor_kernel.library.copying import DynamicPart, dense_copy, transfer_launches
from calor_kernel.library.copying.padding import padding_launch


def share(rows: int, row_bytes: int, info: DeviceInfo, grain: int) -> tuple[int, int]:
    """Return the units of a cube and the rows of a unit; a cube of one unit has ``grain`` bytes."""
    if info.max_units > 1:
        return min(info.max_units, 64), 1
    return 1, max(1, min(rows, grain // max(row_bytes, 1)))


@lowering("concat", strided=True)
def lower_concat(request: Request) -> Sequence[Work]:
    """Copy each operand to its part of the result."""
    axis = request.attributes["axis"]
    strides = row_major(request.outputs[0].shape)
    launches: list[Launch] = []
    start = 0
    for number, view in enumerate(request.inputs):
        at = start * strides[axis]
        launches += transfer_launches(view, Input(number), strides, at, request.info, "concat")
        start += view.shape[axis]
    return [Work(tuple(launches))]


@lowering("pad", strided=True)
def lower_pad(request: Request) -> Sequence[Work]:
    """Write each element of the result once, from the operand or with the value."""
    x, value = request.inputs
    (result,) = request.outputs
    low, interior = request.attributes["low"], request.attributes["interior"]
    info = request.info
    if x.size:
        return [Work((padding_launch(x, value, result.shape, low, interior, info),))]
    everywhere = View(result.shape, (0,) * len(result.shape), value.dtype, value.offset)
    strides = row_major(result.shape)
    return [Work(tuple(transfer_launches(everywhere, Input(1), strides, 0, info, "pad")))]


@lowering("dynamic_slice", strided=True)
def lower_dynamic_slice(request: Request) -> Sequence[Work]:
    """Copy the part of x that begins at the starts."""
    x, starts = request.inputs
    sizes = tuple(request.attributes["sizes"])
    view, part = replace(x, shape=sizes), DynamicPart(1, starts, x, sizes, False)
    strides, info = row_major(sizes), request.info
    made = transfer_launches(view, Input(0), strides, 0, info, "dynamic slice", part)
    return [Work(tuple(made))]


@lowering("dynamic_update_slice", strided=True)
def lower_dynamic_update_slice(request: Request) -> Sequence[Work]:
    """Copy x, unless the result is in its place, and the update over it at the starts."""
    x, update, starts = request.inputs
    (result,) = request.outputs
    whole, info = View.dense(result), request.info
    part = DynamicPart(2, starts, whole, update.shape, True)
    launches = dense_copy(x, result, info)
    launches += transfer_launches(update, Input(1), whole.strides, 0, info, "dynamic update", part)
    return [Work(tuple(launches), in_place=((0, 0),))]
