"""Several groups of few channels as one, with zeros for the weights between different groups.

Requirements: matrix instructions multiply tiles of which a group of few channels fills a part, so
the products with zeros cost nothing up to the width of a tile, and beyond it less than one product
at a time. Weights are copied with the zeros; of a weight gradient the products of channels of
different groups are left out.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from calor.dtypes import bfloat16, float16, float32
from calor_kernel import language as kl
from calor_kernel.contract.choices import hinted, is_size
from calor_kernel.contract.launching import Bound, Effort, Grid, operand
from calor_kernel.contract.work import Argument, Input, Output, Request, View, Work, row_major
from calor_kernel.library.conv.direct_blocks_launch import blocks_refusal, reach
from calor_kernel.library.conv.each_group import add_each, each_group_refusal, multiplied
from calor_kernel.library.conv.problem import Convolution
from calor_kernel.library.gemm.mma import instruction_for
from calor_kernel.library.steps import Steps

_UNITS = 256
# Channels of joined groups at most; the least channels of a group; groups that are joined at most,
# of half types and of others: so much faster are products with zeros than one at a time.
_WIDE, _CHANNELS, _MOST = 64, 4, {True: 16, False: 8}
# Names of instructions that multiply little faster than units do alone.
_SLOW = ("simdgroup",)
# Maximum of joined groups, and minimum of the operations of one, which take longer one by one than
# the launches.
_JOINED, _FLOPS = 16, 10**8


@kl.kernel
def join_weights(
    w: kl.In,
    y: kl.Out,
    count: kl.Size,
    sizes: tuple[kl.FastDivmod, ...],
    steps: tuple[kl.Stride, ...],
) -> None:
    """Copy weights of groups to (rows, channels of the joined groups, taps), with zeros between.

    ``sizes``: the groups that are joined, rows of a group, these groups again, channels of a group,
    and taps along each axis. ``steps``: of groups, rows, channels and taps.
    """
    index = kl.absolute_position()
    if index < count:
        joined, group, row, other, channel, *taps = kl.unravel(index, (0, *sizes))
        at = (joined * sizes[0].divisor + group) * steps[0] + row * steps[1] + channel * steps[2]
        for tap, step in zip(taps, steps[3:], strict=True):
            at = at + tap * step
        y[index] = w.load(at, mask=group == other)


def _together(one: Convolution) -> int:
    """Return how many groups are joined: the most that fill a tile, of all groups a whole part."""
    p = one.problem
    groups, row, column = (p.leads[role].size for role in p.roles)
    widest = max(row, column if p.by_weight else p.depth.size)
    most = min(_WIDE // widest, _MOST[p.a.dtype in (float16, bfloat16)])
    return next((n for n in range(most, 1, -1) if groups % n == 0), 1)


def joined_refusal(one: Convolution, request: Request) -> str | None:
    """Return why groups are not joined, None if they are."""
    p = one.problem
    groups, row, column = (p.leads[role].size for role in p.roles)
    channels = column if p.by_weight else p.depth.size
    if groups == 1 or any(map(is_size, (groups, row, channels))):
        return "it has one group, or numbers of channels that are not known"
    if not multiplied(one) or len(p.axes) > 3:
        return f"no matrix instruction takes {p.a.dtype}, or it has more than three spatial axes"
    slow = instruction_for({p.a.dtype}, one.info).startswith(_SLOW)
    if slow or (p.a.dtype is float32 and not one.rounded):
        return "matrix instructions are little faster than one product at a time"
    if min(row, channels) < _CHANNELS:
        return f"a group has fewer than {_CHANNELS} channels on a side"
    together = _together(one)
    if together == 1:
        return "no two groups are joined by a tile"
    joined = groups // together
    if joined > _JOINED:
        return f"more than {_JOINED} joined groups are left"
    if each_group_refusal(one, request) is not None and blocks_refusal(one, request) is None:
        return "few channels and taps are computed in blocks"
    divides = prod(axis.divide for axis in p.axes)
    few = 2 * hinted(p.size) * hinted(p.terms) // (joined * divides) < _FLOPS
    return "joined groups have few operations" if few else None


def joined_works(one: Convolution, request: Request) -> list[Work]:
    """Return the work of a convolution that :func:`joined_refusal` accepts."""
    p, steps, dtype = one.problem, Steps(), one.problem.a.dtype
    together, (result,), groups = _together(one), request.outputs, request.attributes["groups"]
    count = groups // together
    operands: list[tuple[View, Argument]] = [(v, Input(k)) for k, v in enumerate(request.inputs)]
    if not p.by_weight:
        operands[1] = _joined_weights(one, request, together, steps)
        add_each(request, steps, count, operands, result.shape)
        return [steps.work()]
    filters, channels, *taps = result.shape
    shape = (filters, channels * together, *taps)
    made = steps.memory(1)
    room = add_each(request, steps, count, operands, shape, made)
    # Of joined groups, the products of channels of one group.
    line = row_major(shape)
    rows = filters // groups
    sizes = (count, together, rows, channels, *taps)
    inner = (rows * line[0] + channels * line[1], line[0], *line[1:])
    steps.copy(View(sizes, (room, *inner), dtype), made, Output(0), request.info)
    return [steps.work()]


def _joined_weights(
    one: Convolution, request: Request, together: int, steps: Steps
) -> tuple[View, Argument]:
    """Add the copy of weights with zeros between groups, and return it."""
    view, groups, info = request.inputs[1], request.attributes["groups"], one.info
    filters, channels, *taps = view.shape
    rows = filters // groups
    shape = (filters, channels * together, *taps)
    count = prod(shape)
    target = steps.memory(max(count, 1) * view.dtype.itemsize)
    sizes = (together, rows, together, channels, *taps)
    steps.add(
        join_weights,
        Grid.line(
            -(-count // _UNITS), _UNITS, info.planes[0], kl.index_dtype(count + _UNITS, reach(view))
        ),
        Effort("conv join weights", 0, (view.size + count) * view.dtype.itemsize),
        w=operand(1, view),
        y=Bound(target, view.dtype),
        count=count,
        sizes=sizes,
        steps=(rows * view.strides[0], *view.strides),
    )
    steps.launches[-1] = replace(steps.launches[-1], prepares=True)
    return View(shape, row_major(shape), view.dtype), target
