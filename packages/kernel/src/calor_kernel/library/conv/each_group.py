"""Few large groups, one after another, as convolutions of one group.

Requirements: the fastest ways by matrix instructions are of one group. A group is a slice of
channels, so nothing is copied before; results with other groups between their images are copied
once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from calor.dtypes import bfloat16, float16, float32
from calor_kernel.contract.choices import hinted, spec_of
from calor_kernel.contract.work import (
    Argument,
    Input,
    Output,
    Request,
    Scratch,
    View,
    Work,
    row_major,
)
from calor_kernel.library.conv.problem import Convolution
from calor_kernel.library.gemm.mma import instruction_for
from calor_kernel.library.steps import Steps

# Maximum of groups, minimum of channels of a group on each side, with matrix instructions and
# without, and of its operations, which take longer block by block than the launches of a group, or
# of float32 than tiles of all groups.
_GROUPS, _CHANNELS, _FLOPS = 16, {True: 16, False: 24}, {True: 10**8, False: 2 * 10**7}
# Elements at whose multiples the result of each group begins.
_WHOLE = 64


def each_group_refusal(one: Convolution, request: Request) -> str | None:
    """Return why groups are not computed one after another, None if they are."""
    p = one.problem
    group, row, column = (p.leads[i].size for i in p.roles)
    if not 2 <= group <= _GROUPS:
        return f"it has one group, or more than {_GROUPS}"
    channels = column if p.by_weight else p.depth.size
    fewest = _CHANNELS[multiplied(one)]
    if min(hinted(row), hinted(channels)) < fewest:
        return f"a group has fewer than {fewest} channels on a side"
    divides = prod(axis.divide for axis in p.axes)
    least = _FLOPS[p.a.dtype is float32]
    few = 2 * hinted(p.size) * hinted(p.terms) // (group * divides) < least
    return "a group has few operations" if few else None


def multiplied(one: Convolution) -> bool:
    """Return whether matrix instructions multiply the operands of a convolution."""
    dtype, info = one.problem.a.dtype, one.info
    rounded = dtype in (float16, bfloat16) or (one.rounded and dtype is float32)
    return info.has("matrix") and (rounded or bool(instruction_for({dtype}, info)))


def each_group_works(one: Convolution, request: Request) -> list[Work]:
    """Return the work of a convolution that :func:`each_group_refusal` accepts."""
    steps, groups = Steps(), request.attributes["groups"]
    operands: list[tuple[View, Argument]] = [(v, Input(k)) for k, v in enumerate(request.inputs)]
    add_each(request, steps, groups, operands, request.outputs[0].shape)
    return [steps.work()]


def add_each(
    request: Request,
    steps: Steps,
    count: int,
    operands: Sequence[tuple[View, Argument]],
    shape: tuple[int, ...],
    made: Scratch | None = None,
) -> int:
    """Add the convolutions of ``count`` groups, one after another, with a result of this shape.

    They are parts of the operands, and are written to the result, or to ``made``, scratch memory
    that is extended as needed. Returns the distance of groups there.
    """
    dtype, by_weight = operands[0][0].dtype, request.op == "conv_weight_gradient"
    # The axis of a result's groups, and the elements of a group in it.
    axis, weight = (0, None) if by_weight else (1, 1)
    part = [*shape]
    part[axis] //= count
    size = prod(part)
    # The ways of a group expect results that begin at whole accesses.
    room = -(-size // _WHOLE) * _WHOLE
    direct = count == 1 or ((by_weight or hinted(part[0]) == 1 == part[0]) and room == size)
    target: Output | Scratch = Output(0) if made is None else made
    if made is not None:
        steps.scratch[made.number] = count * room * dtype.itemsize
    elif not direct:
        target = steps.memory(count * room * dtype.itemsize)
    for number in range(count):
        parts: list[tuple[View, Argument]] = [
            (_slice(view, 0 if k == weight else 1, number, count), where)
            for k, (view, where) in enumerate(operands)
        ]
        place = replace(target, offset=number * room)
        given: Mapping[str, Any] = {**request.attributes, "groups": 1}
        alone = replace(request, candidates=False)
        results = [(spec_of(tuple(part), dtype), place)]
        steps.include(alone, request.op, given, parts, results)
    if made is None and not direct:
        inner = row_major(part)
        whole = (*part[:axis], count, *part[axis:])
        strides = (*inner[:axis], room, *inner[axis:])
        steps.copy(View(whole, strides, dtype), target, Output(0), request.info)
    return room


def _slice(view: View, axis: int, number: int, count: int) -> View:
    """Return one of several equal parts of a view along an axis."""
    shape = list(view.shape)
    shape[axis] //= count
    start = view.offset + number * shape[axis] * view.strides[axis]
    return View(tuple(shape), view.strides, view.dtype, start)
