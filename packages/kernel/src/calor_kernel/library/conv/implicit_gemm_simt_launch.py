"""SIMT implicit GEMM: the choice of tiles and of parts of sums, and launches.

Requirements: for float32 operands that are not rounded, or for devices without a suitable matrix
instruction. A core computes several tiles at a time if its registers suffice, so the cost is the
time of the core with most tiles; with few tiles, sums are cut into parts that balance the cores, if
this saves more than adding the parts costs. Images are read in place. Weights are read from a copy
with dense rows, which is cached for constants. The stride phases of an input gradient share a
launch. For a weight gradient nothing is copied; if the channels of a tap fill lines of a tile, many
lines share the tap's coordinates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import gcd, inf, prod
from typing import Final

from calor.dtypes import bfloat16, float16, float32
from calor_kernel import language as kl
from calor_kernel.contract.choices import choice
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, Multiple, operand
from calor_kernel.contract.work import Request, View, Work, row_major
from calor_kernel.library.conv.channels_last import last_launch
from calor_kernel.library.conv.each_group import each_group_refusal
from calor_kernel.library.conv.implicit_gemm_operands import (
    Weights,
    numbers_of,
    phases_of,
    pixels_of,
    terms_of,
    two_axes,
)
from calor_kernel.library.conv.implicit_gemm_simt import (
    GradientAxis,
    Groups,
    conv_simt,
    conv_weight_simt,
)
from calor_kernel.library.conv.problem import Axis, Convolution, Correlation
from calor_kernel.library.conv.split_sums import ALIGN, ending, launch_sum, target_of
from calor_kernel.library.conv.windows import ResultStrides
from calor_kernel.library.gemm.epilogue import Tail
from calor_kernel.library.gemm.joined_parts import ALONE, joins, joint_bytes, joint_memory
from calor_kernel.library.gemm.simt_plan import FOUR, SimtPlan, sums_of
from calor_kernel.library.matmul.ranking import lack
from calor_kernel.library.matmul.task import Given
from calor_kernel.library.steps import Steps

# Maximum of phases of a launch.
_PHASES = 4
# Units down and across, register tiles of each down and across, terms of a step, and stages.
Row = tuple[int, int, int, int, int, int]
# The rate of each plan relative to the best, by whether it is for weight gradients and whether
# copies are asynchronous. The latter rates were measured on ResNet-50's convolutions on an H200,
# where larger tiles were slower; the others are estimates from the share of instructions that
# multiply. Without asynchronous copies a step waits for its loads: short ones are for devices of
# little shared memory.
RATES: Final[dict[tuple[bool, bool], dict[Row, float]]] = {
    (False, True): {
        (16, 16, 2, 2, 16, 3): 1.0,
        (16, 16, 1, 2, 16, 3): 0.95,
        (8, 16, 2, 2, 16, 3): 0.94,
        (16, 8, 1, 2, 16, 3): 0.9,
    },
    (False, False): {
        (16, 16, 4, 2, 8, 2): 1.0,
        (16, 16, 2, 4, 8, 2): 1.0,
        (16, 16, 2, 2, 16, 2): 1.0,
        (16, 16, 1, 2, 16, 2): 0.93,
        (8, 16, 2, 2, 16, 2): 0.95,
        (16, 8, 1, 2, 16, 2): 0.87,
        (16, 16, 1, 2, 8, 2): 0.65,
        (16, 8, 1, 2, 8, 2): 0.6,
    },
    (True, True): {
        (16, 16, 4, 2, 16, 3): 1.0,
        (16, 16, 2, 2, 16, 3): 0.99,
        (8, 16, 2, 2, 16, 3): 0.97,
        (16, 8, 2, 2, 16, 3): 0.97,
        (8, 16, 2, 3, 16, 3): 0.97,
        (16, 8, 1, 2, 16, 3): 0.87,
    },
    (True, False): {
        (16, 16, 4, 2, 8, 2): 1.0,
        (16, 16, 2, 4, 8, 2): 1.0,
        (16, 16, 2, 2, 16, 2): 1.0,
        (8, 16, 2, 2, 16, 2): 0.95,
        (16, 8, 2, 2, 16, 2): 0.95,
        (16, 8, 1, 2, 16, 2): 0.87,
        (16, 8, 1, 2, 8, 2): 0.6,
    },
}
# The same of problems with few rows: estimates. A unit of a weight gradient has the coordinates of
# its columns in registers, beside its sums.
NARROW: Final[dict[tuple[bool, bool], dict[Row, float]]] = {
    (False, True): {
        (2, 64, 2, 2, 8, 3): 0.7,
        (4, 32, 1, 2, 16, 3): 0.65,
        (4, 32, 1, 1, 16, 3): 0.5,
    },
    (False, False): {
        (2, 64, 2, 1, 8, 2): 0.5,
        (4, 32, 1, 2, 8, 2): 0.5,
        (4, 32, 1, 1, 8, 2): 0.4,
    },
    (True, True): {(4, 32, 1, 2, 16, 3): 0.6, (4, 32, 1, 1, 16, 3): 0.5},
    (True, False): {(4, 32, 1, 2, 8, 2): 0.45, (4, 32, 1, 1, 8, 2): 0.4},
}
# Estimates for convolutions whose rows fill half of those tiles at most, such as of 32 filters.
HALF: Final[dict[bool, dict[Row, float]]] = {
    True: {(4, 32, 2, 2, 16, 3): 0.75, (4, 32, 2, 1, 16, 3): 0.65},
    False: {(4, 32, 2, 2, 8, 2): 0.7, (4, 32, 2, 1, 8, 2): 0.6},
}
# Further plans for timing: of convolutions, and of weight gradients.
MORE: Final[dict[bool, tuple[Row, ...]]] = {
    False: (
        *((16, 16, 4, 2, 16, 3), (16, 16, 2, 4, 16, 3), (8, 16, 2, 4, 16, 3), (16, 16, 2, 2, 8, 4)),
        *((16, 16, 2, 2, 8, 2), (8, 16, 2, 2, 8, 4), (16, 16, 1, 2, 8, 4), (8, 16, 2, 4, 8, 3)),
    ),
    True: (
        *((16, 16, 2, 4, 16, 3), (8, 16, 2, 4, 16, 3)),
        *((16, 16, 2, 2, 8, 2), (16, 16, 2, 2, 8, 4), (16, 16, 1, 2, 16, 3)),
        *((8, 16, 2, 2, 8, 4), (16, 8, 2, 2, 8, 4)),
    ),
}
# With fewer columns, or products of an element, most of a tile would be empty; with fewer rows, one
# of a plan for many rows, and one of any plan. Terms of a short step.
_LEAST, _FEW_ROWS, _SHORT = 24, 5, 8
# Rows that are half of a tile of the usual plans.
_HALF: Final = 32
# Maximum of parts of a sum, and minimum of terms of a part.
PARTS, _SHARE = 256, 128
# Clock cycles: of a tile beside its products, of a launch, and the bytes that a core moves in one.
_TILE, _LAUNCH, _MOVED = 2500, 5000, 20
# The products of a core in a cycle; the share of them that a core loses with fewer cubes than it
# has room for; and the maximum of cubes of a core for which sums are cut into parts.
_PRODUCTS, _WAITING, _CUBES = 128, 0.3, 12

Tile = tuple[int, int, int, int, float]
"""Rows, columns and depth of a tile, the cubes of it that a core has room for, and the rate."""
Sizes = tuple[int, int, int, int, int]


def simt_refusal(one: Convolution, request: Request) -> str | None:
    """Return why SIMT tiles do not suit a problem, None if they do."""
    p, info = one.seen, one.info
    # Half types are those of matrix instructions on such a device.
    matrices = info.has("async_copy") and info.has("matrix")
    types = (float32,) if matrices else (float32, float16, bfloat16)
    if p.a.dtype not in types:
        return f"register tiles sum no products of {p.a.dtype}"
    if len(p.axes) > 2 or not info.has("barrier"):
        return "it has more than two spatial axes, or units of a cube cannot wait for each other"
    _, rows, columns = (p.leads[i].size for i in p.roles)
    columns *= prod(axis.count for axis in p.axes)
    if min(columns, p.terms) < _LEAST or rows < _FEW_ROWS:
        return f"it has fewer than {_LEAST} columns or terms, or {_FEW_ROWS} rows"
    # The copy cannot represent rows of weights that are one in memory.
    spread = p.by_weight or p.depth.b != 0 or p.depth.size == 1
    return None if spread else "its weights are broadcast along channels"


def few_rows(problem: Correlation) -> bool:
    """Return whether only tiles of few rows are full of a problem's."""
    return bool(problem.leads[problem.roles[1]].size < _LEAST)


def groups_refusal(one: Convolution, request: Request) -> str | None:
    """Return why groups are not computed by tiles of each in one launch, None if they are."""
    if one.seen.leads[one.seen.roles[0]].size == 1:
        return "it has one group"
    if few_rows(one.seen):
        return f"a group has fewer than {_LEAST} rows"
    windows = prod(a.count if one.seen.by_weight else a.terms for a in one.seen.axes) > 1
    if (one.rounded or windows) and each_group_refusal(one, request) is None:
        return "its groups have faster ways one after another: matrix instructions, or Winograd's"
    return simt_refusal(one, request)


def plans_of(problem: Correlation, info: DeviceInfo) -> Iterator[tuple[SimtPlan, int, int]]:
    """Yield plans with the parts of their sums and their group, the likeliest first."""
    usual, sizes = _usual(problem, info), _sizes(problem)
    if not usual:
        return
    number = first_plan(tiles_of(usual), *sizes, info.cores)
    first = [*usual][number // PARTS]
    yield first, number % PARTS + 1, 0
    for plan in dict.fromkeys(
        (*usual, *_fitting(problem, dict.fromkeys(MORE[problem.by_weight], 1.0), info))
    ):
        if plan != first:
            number = first_plan(tiles_of({plan: 1.0}), *sizes, info.cores)
            yield plan, number % PARTS + 1, 1


def cycles_of(problem: Correlation, info: DeviceInfo) -> float:
    """Return the estimated cycles of the first plan for known sizes; infinity if none fits."""
    usual, sizes = _usual(problem, info), _sizes(problem)
    if not usual:
        return inf
    tiles = tiles_of(usual)
    return _cycles(first_plan(tiles, *sizes, info.cores), tiles, *sizes, info.cores)


def _usual(problem: Correlation, info: DeviceInfo) -> dict[SimtPlan, float]:
    """Return the plans among which the first is chosen, with their rates."""
    narrow, ahead = few_rows(problem), _copies_ahead(problem, info)
    table = (NARROW if narrow else RATES)[problem.by_weight, ahead]
    if not (narrow or problem.by_weight) and problem.leads[problem.roles[1]].size <= _HALF:
        table = {**HALF[ahead], **table}
    usual = _fitting(problem, table, info)
    if problem.by_weight:
        return usual
    return {_evened(plan, problem): rate for plan, rate in usual.items()}


def _copies_ahead(problem: Correlation, info: DeviceInfo) -> bool:
    """Return whether units copy asynchronously, which converts no types."""
    return info.has("async_copy") and problem.a.dtype is float32


def _fitting(
    problem: Correlation, table: Mapping[Row, float], info: DeviceInfo
) -> dict[SimtPlan, float]:
    """Return the plans of a table that fit a problem and a device, with their rates."""
    ahead = _copies_ahead(problem, info)
    found = {}
    for (down, across, high, wide, depth, stages), rate in table.items():
        plan = SimtPlan(down, across, high, wide, depth, False, False, stages)
        # Loads through registers are one step ahead.
        fits = lack(plan if ahead else replace(plan, stages=0), info) is None
        if fits and (ahead or stages == 2) and len(plan.numbers) <= sums_of(info):
            found[plan] = rate
    return found


def _evened(plan: SimtPlan, problem: Correlation) -> SimtPlan:
    """Return a plan with shorter steps if only then each step has channels of one tap."""
    channels = problem.depth.size
    if channels % plan.depth == 0 or channels % _SHORT:
        return plan
    return replace(plan, depth=_SHORT, stages=min(plan.stages + 1, 4) if plan.stages > 2 else 2)


def _sizes(problem: Correlation) -> Sizes:
    """Return rows, columns and terms of the problem for the cost model, phases and the size.

    A phase has the mean of the pixels, and of the terms of the phases with taps. Groups count as
    phases.
    """
    p, groups = problem, problem.leads[problem.roles[0]].size
    if p.by_weight:
        taps = prod(axis.count for axis in p.axes)
        return p.leads[1].size, p.leads[2].size * taps, p.terms, groups, p.size
    phases, seen = 1, 1
    for axis in p.axes:
        phases, seen = phases * axis.divide, seen * min(axis.divide, axis.terms)
    return p.leads[2].size, -(-pixels_of(p) // phases), -(-p.terms // seen), seen * groups, p.size


def tiles_of(plans: Mapping[SimtPlan, float]) -> tuple[Tile, ...]:
    """Return plans with their rates as tiles of numbers, the form of a symbolic choice."""
    return tuple(
        (plan.rows, plan.columns, plan.depth, plan.together, rate) for plan, rate in plans.items()
    )


def _cycles(
    number: int,
    tiles: tuple[Tile, ...],
    rows: int,
    places: int,
    terms: int,
    phases: int,
    size: int,
    cores: int,
) -> float:
    """Return the cycles of the busiest core, for a plan and a number of parts."""
    (high, wide, depth, together, rate), parts = tiles[number // PARTS], number % PARTS + 1
    steps = -(-terms // (parts * depth))
    each = high * wide * steps * depth / (_PRODUCTS * rate) + _TILE
    mine = -(-_count(high, wide, rows, places) * phases * parts // cores)
    rest = mine % together
    cycles = each * (mine - rest)
    if rest:
        cycles += each * rest / (1 - _WAITING * (1 - rest / together))
    if parts > 1:
        moved = (2 * parts + 1) * size * float32.itemsize
        cycles += _LAUNCH + moved / (cores * _MOVED)
    return cycles


def _count(high: int, wide: int, rows: int, places: int) -> int:
    return -(-rows // high) * -(-places // wide)


@choice(cost=_cycles)
def first_plan(
    tiles: tuple[Tile, ...],
    rows: int,
    places: int,
    terms: int,
    phases: int,
    size: int,
    cores: int,
) -> int:
    """Return the index of the plan and the number of parts whose last core finishes first."""
    most = max(1, min(PARTS, terms // _SHARE))
    numbers = []
    for i, (high, wide, *_) in enumerate(tiles):
        count = _count(high, wide, rows, places) * phases
        # Numbers of parts that give each core the same number of tiles.
        full = {max(1, min(cubes * cores // count, most)) for cubes in range(1, _CUBES + 1)}
        numbers += [i * PARTS + parts - 1 for parts in sorted(full)]
    return min(numbers, key=lambda n: _cycles(n, tiles, rows, places, terms, phases, size, cores))


def simt_works(one: Convolution, request: Request) -> Iterator[Work]:
    """Yield the works of a problem, the likeliest first."""
    for plan, splits, group in plans_of(one.seen, one.info):
        # The number of parts follows from sizes, so it makes no further candidate.
        if one.seen.by_weight:
            work = _of_weights(one.seen, plan, splits, one.info)
        else:
            work = _of_pixels(one.seen, plan, splits, one.info, one.tail)
        yield replace(work, variant=plan.title, group=group)


def _effort(problem: Correlation, plan: SimtPlan, flops: int) -> Effort:
    return Effort(f"conv simt {plan.rows}x{plan.columns}", flops, problem.nbytes)


def reach_of(view: View) -> int:
    """Return the distance of a view's last element from its first."""
    return sum((n - 1) * abs(s) for n, s in zip(view.shape, view.strides, strict=True))


def _rows_of_weights(
    problem: Correlation, block: int, steps: Steps, info: DeviceInfo
) -> tuple[Weights, int]:
    """Return weights with dense output channels, copied unless they are dense; ``row``: of those.

    The second is the distance of groups. ``block``: the channels of a tap before the next one.
    """
    p, (down, across) = problem, two_axes(problem)
    groups, rows, channels = p.leads[1], p.leads[2], p.depth
    source, taps = operand(1, p.b), (down.terms, across.terms)
    access = ALIGN // p.b.dtype.itemsize
    numbers = [rows.size, channels.b, p.b.offset, *([groups.b] if groups.size > 1 else [])]
    if taps == (1, 1) and rows.b == 1 and all(n % access == 0 for n in numbers):
        return Weights(source, channels.b, block * channels.b, (0, 0)), groups.b
    room = -(-rows.size // access) * access
    far = taps[0] * taps[1] * room
    channel = groups.size * far
    target = steps.memory(channels.size * channel * p.b.dtype.itemsize)
    steps.launches.append(
        last_launch(
            source.place, target, p.b.dtype, (groups.size, rows.size, taps),
            (groups.b if groups.size > 1 else 0, rows.b, (down.b, across.b)), room, 1, info, True,
            False, (channels.size, channels.b),
        )
    )  # fmt: skip
    made = Weights(Bound(target, p.b.dtype), channel, block * channel, (taps[1] * room, room))
    return made, far


def _groups(size: int, w: Given, x: int) -> dict[str, Groups[Given, Given] | None]:
    """Return the argument ``groups`` of a launch, None for one group."""
    return {"groups": Groups(size, w, x) if size != 1 else None}


def _of_pixels(
    problem: Correlation,
    plan: SimtPlan,
    splits: int,
    info: DeviceInfo,
    tail: Tail | None = None,
) -> Work:
    """Return the launches of a convolution, or of an input gradient with its phases.

    ``tail``: the epilogue of a convolution.
    """
    p, dtype, steps = problem, problem.a.dtype, Steps()
    (images, groups, outputs), axes, channels = p.leads, two_axes(p), p.depth
    # The channels of a tap before the next tap: those of a step, or all.
    block = plan.depth if channels.size % plan.depth == 0 else channels.size
    weights, far = _rows_of_weights(p, block, steps, info)
    strides = row_major([lead.size for lead in p.leads] + [axis.count for axis in axes])
    part_step = -(-p.size // FOUR) * FOUR
    phases, joint = phases_of(p, weights), joins(splits, plan, info)
    parted = splits > 1 and not joint
    target = target_of(steps, dtype, splits * part_step if parted else 0)
    spans = (reach_of(p.a), (channels.size + groups.size) * weights.row, splits * part_step)
    index = kl.index_dtype(*spans, p.terms + 4 * plan.depth)
    run = FOUR if len(phases) == 1 and axes[0].count * axes[1].count % FOUR == 0 else 1
    by = (1,) * (2 - len(p.axes)) + phases[0].steps
    to = (step * n for step, n in zip(strides[3:], by, strict=True))
    result = ResultStrides(Multiple(strides[2], run), Multiple(strides[0], run), *to)
    to_result, following = ending(target.aligned(ALIGN), tail, run)
    for begin in range(0, len(phases), _PHASES):
        some = phases[begin : begin + _PHASES]
        columns = max(pixels_of(one.problem) for one in some)
        work = sum(pixels_of(one.problem) * terms_of(one.problem, channels.size) for one in some)
        tiles = -(-columns // plan.columns) * len(some), -(-outputs.size // plan.rows)
        cubes = (*tiles, splits * groups.size)
        own: Mapping[str, object] = ALONE
        if joint:
            count = tiles[0] * tiles[1] * groups.size
            own = joint_memory(steps.memory(joint_bytes(splits, count, plan)), splits, count)
        steps.add(
                conv_simt,
                Grid(cubes, (plan.units, 1, 1), info.planes[0], index),
                _effort(p, plan, 2 * groups.size * outputs.size * work),
                w=weights.bound.aligned(ALIGN), x=operand(0, p.a), c=to_result,
                rows_total=outputs.size, part_step=Multiple(part_step, FOUR), result=result,
                w_channel=Multiple(weights.row, FOUR), x_channel=channels.a,
                strides=(images.a, axes[0].a, axes[1].a),
                phases=[
                    numbers_of(
                        phase, channels.size, block, weights, splits, plan.depth, strides[3:]
                    )
                    for phase in some
                ],
                plan=plan, even=block == plan.depth, run=run,
                **_groups(groups.size, Multiple(far, FOUR), groups.a), **own, **following,
            )  # fmt: skip
    image = groups.size * outputs.size, axes[0].count * axes[1].count
    sizes = (1, 1, p.size, part_step)
    launch_sum(steps, target, dtype, sizes, splits, part_step, info, tail, image)
    return steps.work()


def _inside(axis: Axis[int]) -> bool:
    """Return whether all positions that an axis reads are inside the image."""
    last = (axis.count - 1) * axis.result + (axis.terms - 1) * axis.summed + axis.start
    forward = axis.result >= 0 and axis.summed >= 0
    return bool(forward and axis.start >= 0 and last < axis.size)


def _of_weights(problem: Correlation, plan: SimtPlan, splits: int, info: DeviceInfo) -> Work:
    """Return the launches of a weight gradient, with sums in ``splits`` parts."""
    p, dtype, steps = problem, problem.a.dtype, Steps()
    (groups, outputs, channels), axes = p.leads, two_axes(p)
    taps = axes[0].count * axes[1].count
    # Adjacent lines of the units' copies; those of a tap in a tile, or 0 if others lie between.
    apart = plan.units // plan.depth
    alike = 0
    room = -(-channels.size // FOUR) * FOUR
    if taps == 1:
        alike, room = plan.columns, -(-room // plan.columns) * plan.columns
    elif room % apart == 0:
        alike = gcd(room, plan.columns)
    columns = taps * (room if alike and taps > 1 else channels.size)
    wide = -(-columns // FOUR) * FOUR
    parted = splits > 1 or (taps > 1 and alike > 0)
    row = wide if parted else columns
    rows = groups.size * outputs.size
    part_step = rows * row
    target = target_of(steps, dtype, splits * part_step if parted else 0)
    share = -(-p.terms // (splits * plan.depth)) * plan.depth
    index = kl.index_dtype(
        reach_of(p.a), reach_of(p.b), splits * part_step, p.terms + 4 * plan.depth
    )
    run = FOUR if row % FOUR == 0 else 1
    parts = -(-p.terms // share)
    cubes = (-(-columns // plan.columns), -(-outputs.size // plan.rows), parts * groups.size)
    down, across = (GradientAxis(a.result, a.summed, a.start, a.size, a.a, a.b) for a in axes)
    steps.add(
            conv_weight_simt,
            Grid(cubes, (plan.units, 1, 1), info.planes[0], index),
            _effort(p, plan, 2 * p.size * p.terms),
            g=operand(1, p.b), x=operand(0, p.a), c=target.aligned(ALIGN),
            rows_total=outputs.size, columns_total=columns, terms=p.terms, share=share,
            part_step=Multiple(part_step, run), c_row=Multiple(row, run), g_row=outputs.b,
            x_channel=channels.a, channels=channels.size, down_axis=down, across_axis=across,
            x_image=p.depth.a, g_image=p.depth.b, pixels=axes[0].terms * axes[1].terms,
            pixel_row=axes[1].terms, columns=room if alike else taps, tap_row=axes[1].count,
            plan=plan, alike=alike, padded=not all(map(_inside, axes)), run=run,
            ragged=(
                outputs.size % plan.rows != 0, bool(alike) and channels.size % alike != 0
            ), **_groups(groups.size, groups.b, groups.a),
        )  # fmt: skip
    sizes = (rows, 1, columns, wide)
    if alike and taps > 1:
        sizes = (rows, taps, channels.size, room)
    launch_sum(steps, target, dtype, sizes, parts, part_step, info)
    return steps.work()
