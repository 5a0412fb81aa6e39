"""Copies of rectangular regions: concat, pad, dynamic slices and updates.

Requirements: elements are copied as bits, so one kernel serves every dtype of a size; source and
target have their own strides, so pieces are written directly to the result; starts in device memory
are read by the kernel and clamped as the operations define.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from calor_kernel.contract.choices import greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import (
    Input,
    Launch,
    Request,
    View,
    Work,
    row_major,
)
from calor_kernel.library.copying import DynamicPart, dense_copy, transfer_launches, transposes
from calor_kernel.library.copying.concat_rows import concat_rows_launch
from calor_kernel.library.copying.joining import PARTS, joining_launch
from calor_kernel.library.copying.padding import padding_launch


def share(rows: int, row_bytes: int, info: DeviceInfo, grain: int) -> tuple[int, int]:
    """Return the units of a cube and the rows of a unit; a cube of one unit has ``grain`` bytes."""
    if info.max_units > 1:
        return min(info.max_units, 64), 1
    return 1, greatest(1, least(rows, grain // greatest(row_bytes, 1)))


def lower_concat(request: Request) -> Sequence[Work]:
    """Copy each operand to its part of the result; units of large cubes copy several at once."""
    axis, info = request.attributes["axis"], request.info
    by_rows = concat_rows_launch(request.inputs, axis, info)
    if by_rows is not None:
        return [Work((by_rows,))]
    strides = row_major(request.outputs[0].shape)
    launches: list[Launch] = []
    start = 0
    for run in _runs(request, strides):
        views = [request.inputs[k] for k in run]
        if len(run) == 1:
            at, source = start * strides[axis], Input(run[0])
            launches += transfer_launches(views[0], source, strides, at, info, "concat")
        else:
            launches.append(joining_launch(views, run, axis, strides, start, info))
        start += sum(view.shape[axis] for view in views)
    return [Work(tuple(launches))]


def _runs(request: Request, strides: Sequence[int]) -> Iterator[list[int]]:
    """Yield the operands with elements, as many together as one launch takes."""
    run: list[int] = []
    for number, view in enumerate(request.inputs):
        if not view.size:
            continue
        alone = request.info.max_units == 1 or transposes(view, strides, request.info)
        if run and (alone or len(run) == PARTS):
            yield run
            run = []
        run.append(number)
        if alone:
            yield run
            run = []
    if run:
        yield run


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


def lower_dynamic_slice(request: Request) -> Sequence[Work]:
    """Copy the part of x that begins at the starts."""
    x, starts = request.inputs
    sizes = tuple(request.attributes["sizes"])
    view, part = replace(x, shape=sizes), DynamicPart(1, starts, x, sizes, False)
    strides, info = row_major(sizes), request.info
    made = transfer_launches(view, Input(0), strides, 0, info, "dynamic slice", part)
    return [Work(tuple(made))]


def lower_dynamic_update_slice(request: Request) -> Sequence[Work]:
    """Copy x, unless the result is in its place, and the update over it at the starts."""
    x, update, starts = request.inputs
    (result,) = request.outputs
    whole, info = View.dense(result), request.info
    part = DynamicPart(2, starts, whole, update.shape, True)
    launches = dense_copy(x, result, info)
    launches += transfer_launches(update, Input(1), whole.strides, 0, info, "dynamic update", part)
    return [Work(tuple(launches), in_place=((0, 0),))]
