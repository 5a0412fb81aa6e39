"""Few large groups, one after another, as convolutions of one group.

Requirements: matrix instructions have ways of one group only. A group is a slice of channels, so
nothing is copied before; results with other groups between their images are copied once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

from calor.dtypes import float32
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
from calor_kernel.library.steps import Steps

# Maximum of groups, minimum of channels of a group on each side, and of its operations, which take
# longer block by block than the launches of a group, or of float32 than tiles of all groups.
_GROUPS, _CHANNELS, _FLOPS = 16, 16, {True: 10**8, False: 2 * 10**7}
# Elements at whose multiples the result of each group begins.
_WHOLE = 64


def each_group_refusal(one: Convolution, request: Request) -> str | None:
    """Return why groups are not computed one after another, None if they are."""
    p = one.problem
    group, row, column = (p.leads[i].size for i in p.roles)
    if not 2 <= group <= _GROUPS:
        return f"it has one group, or more than {_GROUPS}"
    channels = column if p.by_weight else p.depth.size
    if min(hinted(row), hinted(channels)) < _CHANNELS:
        return f"a group has fewer than {_CHANNELS} channels on a side"
    divides = prod(axis.divide for axis in p.axes)
    least = _FLOPS[p.a.dtype is float32]
    few = 2 * hinted(p.size) * hinted(p.terms) // (group * divides) < least
    return "a group has few operations" if few else None


def each_group_works(one: Convolution, request: Request) -> list[Work]:
    """Return the work of a convolution that :func:`each_group_refusal` accepts."""
    p, steps = one.problem, Steps()
    count, (result,) = request.attributes["groups"], request.outputs
    # The axis of a result's groups, and the elements of a group in it.
    axis = 0 if p.by_weight else 1
    shape = list(result.shape)
    shape[axis] //= count
    size, weight = prod(shape), 1 if not p.by_weight else None
    # The ways of a group expect results that begin at whole accesses.
    room = -(-size // _WHOLE) * _WHOLE
    direct = (p.by_weight or hinted(shape[0]) == 1 == shape[0]) and room == size
    target: Output | Scratch = Output(0)
    if not direct:
        target = steps.memory(count * room * result.dtype.itemsize)
    for number in range(count):
        operands: list[tuple[View, Argument]] = [
            (_slice(view, 0 if k == weight else 1, number, count), Input(k))
            for k, view in enumerate(request.inputs)
        ]
        place = replace(target, offset=number * room)
        given: Mapping[str, Any] = {**request.attributes, "groups": 1}
        alone = replace(request, candidates=False)
        results = [(spec_of(tuple(shape), result.dtype), place)]
        steps.include(alone, request.op, given, operands, results)
    if not direct:
        inner = row_major(shape)
        whole = (*shape[:axis], count, *shape[axis:])
        strides = (*inner[:axis], room, *inner[axis:])
        steps.copy(View(whole, strides, result.dtype), target, Output(0), request.info)
    return [steps.work()]


def _slice(view: View, axis: int, number: int, count: int) -> View:
    """Return one of several equal parts of a view along an axis."""
    shape = list(view.shape)
    shape[axis] //= count
    start = view.offset + number * shape[axis] * view.strides[axis]
    return View(tuple(shape), view.strides, view.dtype, start)
