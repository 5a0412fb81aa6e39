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
from calor_kernel.library.conv.implicit_gemm_mma_launch import Sums, add_weights, plans_of
from calor_kernel.library.conv.implicit_gemm_operands import ACCESS
from calor_kernel.library.conv.problem import Convolution, Correlation, Lead
from calor_kernel.library.gemm.mma import MmaPlan, instruction_for
from calor_kernel.library.steps import Steps

_UNITS = 256
# Channels of joined groups at most; the least channels of a group; groups that are joined at most,
# of half types and of others: so much faster are products with zeros than one at a time.
_WIDE, _CHANNELS, _MOST = 64, 4, {True: 16, False: 8}
# Minimum of operations of all groups where blocks take them, and maximum of those of a large group.
_FEW, _LARGE = 2 * 10**8, 2 * 10**9
_HALVES = (float16, bfloat16)
# Names of instructions that multiply little faster than units do alone.
_SLOW = ("simdgroup",)
# Products by matrix instructions in the time of one by columns of taps, of half types and others;
# operations that these do in the time of the launches of joined groups, and the most of them.
_FASTER, _LAUNCHES, _JOINED = {True: 13, False: 9}, 24 * 10**7, 16


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


@kl.kernel
def add_joined_parts(
    parts: kl.In,
    c: kl.Out,
    count: kl.Size,
    splits: kl.Size,
    part_step: kl.Size,
    together: kl.Size,
    sizes: tuple[kl.FastDivmod, ...],
) -> None:
    """Add parts of (row, tap, channel of joined groups) to (row, channel, tap) of each row's group.

    ``together``: how many groups are joined; ``sizes``: rows and channels of a group, and taps.
    """
    index = kl.absolute_position()
    if index < count:
        group, row, channel, tap = kl.unravel(index, (0, *sizes))
        wide, taps = sizes[1].divisor, sizes[2].divisor
        at = (group * sizes[0].divisor + row) * taps + tap
        at = at * (together * wide) + group % together * wide + channel
        total = parts[at]
        for split in kl.loop_range(1, splits):
            total = total + parts[at + split * part_step]
        c[index] = total.to(c.dtype)


def _together(one: Convolution) -> int:
    """Return how many groups are joined: the most that fill a tile, of all groups a whole part."""
    p = one.problem
    groups, row, column = (p.leads[role].size for role in p.roles)
    widest = max(row, column if p.by_weight else p.depth.size)
    most = min(_WIDE // widest, _MOST[p.a.dtype in _HALVES])
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
    together, half = _together(one), p.a.dtype in _HALVES
    joined, at_once = groups // together, _at_once(one, together) is not None
    if together == 1 and not at_once:
        return "no two groups are joined by a tile"
    if joined > _JOINED and not at_once:
        return f"more than {_JOINED} joined groups are left"
    flops = 2 * hinted(p.size) * hinted(p.terms) // prod(axis.divide for axis in p.axes)
    if each_group_refusal(one, request) is None:
        large = together == 1 and flops // groups > _LARGE
        return "large groups have faster ways one after another" if large else None
    if blocks_refusal(one, request) is None:
        few = not (p.by_weight and half) or flops < _FEW
        return "few channels, taps or pixels are computed in blocks" if few else None
    # The rows of a tile are full, of which each column needs those of a group.
    saved = flops * (1 - _WIDE / min(row, _WIDE) / _FASTER[half])
    launches = _LAUNCHES * (1 if at_once else joined)
    return "columns of taps take less than the launches or the zeros" if saved < launches else None


def _at_once(one: Convolution, together: int) -> tuple[Correlation, MmaPlan] | None:
    """Return the problem of several joined groups and a plan, if one launch multiplies all of them.

    That is a weight gradient of half types, whose channels fill whole accesses.
    """
    p, access = one.seen, ACCESS // one.seen.a.dtype.itemsize
    groups, outputs, inputs = p.leads
    many = p.by_weight and len(p.axes) <= 2 and groups.size > together
    many = many and p.a.dtype in _HALVES
    if not many or any(together * lead.size % access for lead in (outputs, inputs)):
        return None
    leads = (
        Lead(groups.size // together, together * groups.a, together * groups.b),
        replace(outputs, size=together * outputs.size),
        replace(inputs, size=together * inputs.size),
    )
    joined = replace(p, leads=leads)
    plan, _ = next(plans_of(joined, one.info), (None, False))
    return None if plan is None else (joined, plan)


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
    rows = filters // groups
    found = _at_once(one, together)
    if found is not None:
        _add_parts(one, add_weights(*found, one.info, steps), together, steps)
        return [steps.work()]
    shape = (filters, channels * together, *taps)
    made = steps.memory(1)
    room = add_each(request, steps, count, operands, shape, made)
    # Of joined groups, the products of channels of one group.
    line = row_major(shape)
    sizes = (count, together, rows, channels, *taps)
    inner = (rows * line[0] + channels * line[1], line[0], *line[1:])
    steps.copy(View(sizes, (room, *inner), dtype), made, Output(0), request.info)
    return [steps.work()]


def _add_parts(one: Convolution, sums: Sums, together: int, steps: Steps) -> None:
    """Add the launch that adds the parts of products of channels of one group."""
    p, info = one.seen, one.info
    _, outputs, inputs = p.leads
    nbytes = p.size * (sums.splits * sums.target.dtype.itemsize + p.a.dtype.itemsize)
    index = kl.index_dtype(sums.splits * sums.part_step, p.size + _UNITS)
    steps.add(
        add_joined_parts,
        Grid.line(-(-p.size // _UNITS), _UNITS, info.planes[0], index),
        Effort("conv joined parts", p.size * sums.splits, nbytes),
        parts=sums.target,
        c=Bound(Output(0), p.a.dtype),
        count=p.size,
        splits=sums.splits,
        part_step=sums.part_step,
        together=together,
        sizes=(outputs.size, inputs.size, sums.sizes[1]),
    )


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
