"""Convolutions by matrix instructions as launches: what is copied, and which tiles suit a device.

Requirements: the input, or what comes back from the result, is copied once so that channels lie
dense, unless it lies so; weights are copied as constants are, once for all calls; a window of one
tap is a product of matrices as they lie. Few tiles with long sums are split into parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from calor.dtypes import DType, bfloat16, float16, float32, int64
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import FastDivmod, index_dtype
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.conv.channels_last import last_launch
from calor_kernel.library.conv.fragment_tiles import (
    GROUPED,
    MORE,
    MORE_GROUPED,
    NAMED,
    TILES,
    Tiles,
)
from calor_kernel.library.conv.fragment_weights import UNITS, conv_weight_fragments
from calor_kernel.library.conv.fragments import conv_fragments, run_of
from calor_kernel.library.conv.lines import Steps, moved, three
from calor_kernel.library.conv.problem import Axis, Correlation, Part, undivided
from calor_kernel.library.conv.tiled import add_parts
from calor_kernel.library.panels import Fragments, instruction_for, loads_together
from calor_kernel.library.work import Argument, Build, Input, Launch, Output, Work, row_major
from calor_kernel.runtime.device import DeviceInfo

_NEEDED = ("matrix", "barrier", "planes")
# Fewer rows, columns or terms leave most of a tile empty.
_LEAST = 16
_HALVES = (float16, bfloat16)
# Terms that a part of a sum has at least.
_SHARE = 256
_Numbers = Sequence[int]


@dataclass(frozen=True, slots=True)
class Last:
    """An operand whose channels lie dense: strides of leads and both axes, in whole accesses."""

    place: Argument
    strides: tuple[int, int, int]
    room: int


def suits(problem: Correlation, info: DeviceInfo, rounded: bool) -> bool:
    """Return whether a device and a problem let matrix instructions convolve.

    ``rounded``: whether factors of float32 may be rounded to TF32.
    """
    p = problem
    if not all(map(info.has, _NEEDED)):
        return False
    # Instructions by name take float32 as it is.
    named = bool(instruction_for({p.a.dtype}, info))
    if not named and not loads_together(info):
        return False
    if p.a.dtype not in _HALVES and not ((rounded or named) and p.a.dtype is float32):
        return False
    if len(p.axes) > 2:
        return False
    groups, rows, columns = (p.leads[i].size for i in p.roles)
    channels = columns if p.by_weight else p.depth.size
    if groups != 1 or channels < 3 or rows < _LEAST:
        return False
    places = prod(a.count for a in p.axes)
    taps = prod(a.terms for a in p.axes)
    if p.by_weight:
        return bool(columns * places >= _LEAST and p.depth.size * taps >= _LEAST)
    return bool(columns * places >= _LEAST and channels * taps >= _LEAST)


def by_fragments(problem: Correlation, info: DeviceInfo, wanted: bool) -> Iterator[Work]:
    """Yield the works of a problem that suits, the likeliest first; ``wanted``: more than one."""
    make = _of_weights if problem.by_weight else _of_places
    sides: list[tuple[bool, Tiles, Tiles]] = [(False, TILES, MORE)]
    # Factors of TF32 lie along the summed axis, which those of the weights' gradient do not.
    named = instruction_for({problem.a.dtype}, info)
    if named:
        sides = [(False, NAMED[named.rpartition("_")[0]], ())]
    elif info.has("async_matrix") and (problem.a.dtype in _HALVES or not problem.by_weight):
        sides.insert(0, (True, GROUPED, MORE_GROUPED))
    for grouped, usual, more in sides:
        plans = [_plan(problem, made, grouped, named) for made in (*usual, *more)]
        likely = [plan for plan in plans[: len(usual)] if _fits(plan, info)]
        if not likely:
            continue
        first = next((plan for plan in likely if _fills(problem, plan, info)), likely[-1])
        for plan in (first, *(plan for plan in plans if plan != first and _fits(plan, info))):
            steps = Steps()
            make(problem, plan, steps, info)
            name = f"{plan.kind} {plan.rows}x{plan.columns}x{plan.depth} by {plan.units}"
            yield replace(steps.work(), variant=name, group=0 if plan in likely else 1)
            if not wanted:
                return


def _plan(
    problem: Correlation, made: tuple[int, int, int, int, int, int], grouped: bool, named: str
) -> Fragments:
    # Both operands of the weights' gradient are dense along channels, which are not summed.
    along = not problem.by_weight
    plan = Fragments(problem.a.dtype, *made, along, along, grouped, named)
    # A tile of float32 has half as many terms.
    return replace(plan, depth=plan.depth * 2 // plan.dtype.itemsize)


def _fits(plan: Fragments, info: DeviceInfo) -> bool:
    # Of the weights' gradient, units that copy a place take whole lines.
    line = 1 if plan.a_along else UNITS * plan.access
    whole = plan.rows % line == plan.columns % line == 0
    return whole and plan.shared_bytes <= info.shared_bytes and plan.units <= info.max_units


def _fills(problem: Correlation, plan: Fragments, info: DeviceInfo) -> bool:
    """Return whether tiles of a plan are little wider than the problem, and fill the device."""
    _, row, column = (problem.leads[i] for i in problem.roles)
    columns = column.size * prod(a.count for a in problem.axes)
    if row.size <= plan.rows // 2:
        return False
    tiles = -(-row.size // plan.rows) * -(-columns // plan.columns)
    # Long sums of places are split, whatever the tiles are.
    return problem.by_weight or bool(tiles >= info.cores)


def _two(problem: Correlation) -> tuple[Axis, Axis]:
    _, down, across = three(problem)
    return down, across


def _last(
    place: Argument,
    dtype: DType,
    sizes: tuple[int, int, tuple[int, int]],
    strides: tuple[int, int, tuple[int, int]],
    steps: Steps,
    info: DeviceInfo,
    block: int = 0,
    whole: bool = False,
    rounded: bool = False,
) -> Last:
    """Return (leads, channels, places) with dense channels, copied where they are not.

    ``block``: of weights, how many channels of each tap come before the next. ``whole``: whether
    places have to follow each other without gaps. ``rounded``: to TF32.
    """
    access = 16 // dtype.itemsize
    leads, channels, (down, across) = sizes
    outer, channel, (high, wide) = strides
    assert isinstance(place, Input)
    numbers = (channels, place.offset, outer, high, wide)
    gaps = whole and (wide, high, outer) != (channels, across * wide, down * high)
    if (
        not block
        and not gaps
        and not rounded
        and channel == 1
        and all(n % access == 0 for n in numbers)
    ):
        return Last(place, (outer, high, wide), channels)
    room = -(-channels // access) * access
    count = leads * down * across * room
    target = steps.memory(max(count, 1) * dtype.itemsize)
    if count:
        size = block or room
        launch = last_launch(
            place, target, dtype, sizes, strides, size, room // size, info, block > 0, rounded
        )
        steps.launches.append(launch)
    return Last(target, (down * across * room, across * room, room), room)


def _of_places(problem: Correlation, plan: Fragments, steps: Steps, info: DeviceInfo) -> None:
    """Add the launches of a convolution, or of the gradient of its input, which has parts."""
    p, dtype = problem, problem.a.dtype
    images, _, outputs = p.leads
    whole = _two(p)
    x = _last(
        Input(0, p.a.offset), dtype,
        (images.size, p.depth.size, (whole[0].size, whole[1].size)),
        (images.a, p.depth.a, (whole[0].a, whole[1].a)), steps, info, rounded=_rounded(plan),
    )  # fmt: skip
    divided = any(axis.divide > 1 or axis.summed < 0 for axis in p.axes)
    rank = len(p.axes)
    parts = undivided(p) if divided else [Part(p, (0,) * rank, (1,) * rank)]
    tiles = -(-outputs.size // plan.rows) * sum(_column_tiles(part.problem, plan) for part in parts)
    least = min(_terms(part.problem, x.room) for part in parts)
    splits = max(1, min(info.cores // max(tiles, 1), least // _SHARE))
    result: Argument = Output(0)
    if splits > 1:
        result = steps.memory(splits * p.size * float32.itemsize)
    strides = row_major([lead.size for lead in p.leads] + [axis.count for axis in whole])
    for part in parts:
        step = ((1,) * (2 - rank) + part.steps, (0,) * (2 - rank) + part.offsets)
        to = tuple(s * by for s, by in zip(strides[3:], step[0], strict=True))
        start = sum(s * by for s, by in zip(strides[3:], step[1], strict=True))
        placed = (result, start, splits, (strides[2], strides[0], *to))
        steps.launches += _part(part.problem, p, x, plan, placed, steps, info)
    _add(result, p, splits, steps, info)


def _rounded(plan: Fragments) -> bool:
    """Return whether copies are rounded, since groups' products cut off what does not count."""
    return plan.grouped and plan.dtype is float32


def _block(room: int, plan: Fragments) -> int:
    """Return how many channels of each tap follow each other among the terms."""
    return plan.depth if room % plan.depth == 0 else room


def _terms(problem: Correlation, room: int) -> int:
    return room * prod(axis.terms for axis in problem.axes) if problem.depth.size else 0


def _column_tiles(problem: Correlation, plan: Fragments) -> int:
    columns = problem.leads[0].size * prod(axis.count for axis in problem.axes)
    return -(-columns // plan.columns)


def _part(
    part: Correlation,
    whole: Correlation,
    x: Last,
    plan: Fragments,
    placed: tuple[Argument, int, int, Any],
    steps: Steps,
    info: DeviceInfo,
) -> list[Launch]:
    """Return the launch of a part of a convolution, after the copy of its weights is added."""
    images, _, outputs = part.leads
    axes = _two(part)
    count = images.size * axes[0].count * axes[1].count
    if not count:
        return []
    terms = _terms(part, x.room)
    weights = _last(
        Input(1, part.b.offset), part.b.dtype,
        (outputs.size, part.depth.size if terms else 0, (axes[0].terms, axes[1].terms)),
        (outputs.b, part.depth.b, (axes[0].b, axes[1].b)), steps, info, _block(x.room, plan),
        rounded=_rounded(plan),
    )  # fmt: skip
    result, start, splits, to = placed
    places = axes[0].count * axes[1].count
    pairs = to[3] == 1 and to[2] == axes[1].count and places % 2 == start == 0
    pairs = pairs and run_of(plan.shape) == 2
    share = -(-terms // (splits * plan.depth)) * plan.depth
    spans = (images.size * x.strides[0], outputs.size * max(terms, 1), splits * whole.size, count)
    index = index_dtype(*spans)
    numbers = (outputs.size, count, terms, splits, max(share, plan.depth), whole.size, *to)
    block = _block(x.room, plan)
    windows = _windows(x, axes, [(a.result, a.summed) for a in axes], block, index, plan)
    kind = float32 if splits > 1 else part.a.dtype
    target = Buffer(kind, align=16) if pairs else Buffer(kind)
    two = Scalar(index, nonnegative=True, divisible=2 if pairs else 1)
    size, wide = Scalar(index, nonnegative=True), _wide(index, plan)
    signature = (size, size, wide, size, wide, two, two, two, size, size)
    told = (("pairs", pairs), ("plan", plan))
    cubes = (-(-count // plan.columns), -(-outputs.size // plan.rows), splits)
    return [
        _launch(
            conv_fragments, told, plan, (weights.place, x.place, moved(result, start)), target,
            (signature, numbers), windows, index, cubes, 2 * outputs.size * count * terms, info,
        )
    ]  # fmt: skip


def _of_weights(problem: Correlation, plan: Fragments, steps: Steps, info: DeviceInfo) -> None:
    """Add the launches of the gradient of the weights."""
    p, dtype = problem, problem.a.dtype
    _, outputs, channels = p.leads
    axes, images = _two(p), p.depth
    x = _last(
        Input(0, p.a.offset), dtype,
        (images.size, channels.size, (axes[0].size, axes[1].size)),
        (images.a, channels.a, (axes[0].a, axes[1].a)), steps, info,
    )  # fmt: skip
    taps = axes[0].count * axes[1].count
    places = axes[0].terms * axes[1].terms
    g = _last(
        Input(1, p.b.offset), dtype,
        (images.size, outputs.size, (axes[0].terms, axes[1].terms)),
        (images.b, outputs.b, (axes[0].b, axes[1].b)), steps, info, whole=True,
    )  # fmt: skip
    terms, columns = images.size * places, taps * x.room
    tiles = -(-outputs.size // plan.rows) * -(-columns // plan.columns)
    splits = max(1, min(-(-2 * info.cores // tiles), terms // _SHARE))
    share = -(-terms // (splits * plan.depth)) * plan.depth
    splits = max(1, -(-terms // share))
    result: Argument = Output(0)
    if splits > 1:
        result = steps.memory(splits * p.size * float32.itemsize)
    index = index_dtype(images.size * x.strides[0], terms * g.room, splits * p.size, columns)
    seen = tuple(replace(a, count=a.terms, terms=a.count) for a in axes)
    windows = _windows(x, seen, [(a.summed, a.result) for a in axes], x.room, index, plan)
    size, wide = Scalar(index, nonnegative=True), _wide(index, plan)
    sizes = (outputs.size, columns, terms, splits, share, p.size, g.room)
    numbers = (*sizes, channels.size * taps, taps, channels.size)
    signature = (size, wide, size, size, size, size, wide, size, size, size)
    target = Buffer(float32 if splits > 1 else dtype)
    cubes = (-(-columns // plan.columns), -(-outputs.size // plan.rows), splits)
    steps.launches.append(
        _launch(
            conv_weight_fragments, (("plan", plan),), plan, (g.place, x.place, result), target,
            (signature, numbers), windows, index, cubes, 2 * outputs.size * columns * terms, info,
        )
    )  # fmt: skip
    _add(result, p, splits, steps, info)


def _windows(
    x: Last,
    axes: Sequence[Axis],
    moves: Sequence[tuple[int, int]],
    block: int,
    index: DType,
    plan: Fragments,
) -> tuple[tuple[Scalar, ...], _Numbers]:
    """Return the parameters and the numbers of ``fragments.Windows``."""
    size, stride = Scalar(index, nonnegative=True), Scalar(index)
    wide = Scalar(index, divisible=plan.access)
    numbers: list[int] = [*x.strides]
    for axis, (result, summed) in zip(axes, moves, strict=True):
        numbers += [result, summed, axis.start, axis.size]
    places = axes[0].count * axes[1].count
    taps = axes[0].terms * axes[1].terms
    divisors = (places, axes[1].count, taps, axes[1].terms, block)
    for n in divisors:
        numbers += FastDivmod.arguments(max(n, 1), index)
    signature = (wide, wide, wide, *(stride, stride, stride, size) * 2)
    return (*signature, *FastDivmod.declared(index) * 5), numbers


def _wide(index: DType, plan: Fragments) -> Scalar:
    return Scalar(index, divisible=plan.access, nonnegative=True)


def _launch(
    function: KernelFunction,
    told: tuple[tuple[str, Any], ...],
    plan: Fragments,
    places: tuple[Argument, Argument, Argument],
    target: Buffer,
    own: tuple[Sequence[Scalar], _Numbers],
    windows: tuple[Sequence[Scalar], _Numbers],
    index: DType,
    cubes: tuple[int, int, int],
    flops: int,
    info: DeviceInfo,
) -> Launch:
    read = Buffer(plan.dtype, writable=False, align=16)
    build = Build(
        function,
        (read, read, target, *own[0], *windows[0]),
        told,
        (plan.units, 1, 1),
        info.planes[0],
        index,
    )
    label = f"{function.name} {plan.rows}x{plan.columns}"
    arguments = (*places, *own[1], *windows[1])
    return Launch(build, cubes, arguments, flops, 0, label)


def _add(
    parts: Argument, problem: Correlation, splits: int, steps: Steps, info: DeviceInfo
) -> None:
    """Add the launch that adds up parts of sums, where there are any."""
    if splits == 1:
        return
    units, count = min(info.max_units, 128), problem.size
    kind = (Buffer(float32, writable=False), Buffer(problem.a.dtype), *(Scalar(int64),) * 2)
    build = Build(add_parts, kind, (), (units, 1, 1), info.planes[0])
    nbytes = count * splits * float32.itemsize
    arguments = (parts, Output(0), count, splits)
    cubes = (-(-count // units), 1, 1)
    steps.launches.append(Launch(build, cubes, arguments, count * splits, nbytes, "conv parts"))
