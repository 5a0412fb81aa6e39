"""Implicit GEMM by matrix instructions: the choice of tiles, and launches.

Requirements: the device's features decide between warp-group, plane and named instructions. For
each, the first tiles fill large problems and the next ones smaller problems; the rest is for
timing. The phases of an input gradient share the copies of both operands and one launch, since each
phase alone is too short to fill a device. Few tiles with long sums are split into parts. A weight
gradient sums over the pixels of all images, so its parts are as many as cubes run at the same time,
and not one more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from calor.dtypes import bfloat16, float16, float32
from calor_kernel import language as kl
from calor_kernel.contract.choices import is_size
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, Multiple
from calor_kernel.contract.work import Request, Work, row_major
from calor_kernel.library.conv.implicit_gemm_mma import (
    conv_mma,
    conv_weight_mma,
    run_of,
    units_of_pixel,
)
from calor_kernel.library.conv.implicit_gemm_operands import (
    ACCESS,
    Last,
    Weights,
    alternates,
    gradient_of,
    image_of,
    numbers_of,
    phases_of,
    pixels_of,
    terms_of,
    two_axes,
    weights_of,
    windows_of,
)
from calor_kernel.library.conv.problem import Convolution, Correlation
from calor_kernel.library.conv.split_sums import WHOLE, ending, launch_sum, target_of
from calor_kernel.library.conv.windows import ResultStrides, Volumes
from calor_kernel.library.gemm.epilogue import Tail
from calor_kernel.library.gemm.mma import MmaPlan, instruction_for, loads_together
from calor_kernel.library.steps import Steps

# Rows and columns of a tile, terms of a step, planes down and across, stages.
Tiles = tuple[tuple[int, int, int, int, int, int], ...]
TILES: Tiles = ((128, 128, 64, 2, 2, 3), (64, 128, 64, 2, 2, 3), (64, 64, 64, 2, 2, 3))
MORE: Tiles = (
    (128, 128, 32, 2, 2, 4),
    (64, 128, 32, 2, 2, 4),
    (128, 256, 32, 2, 4, 3),
    (128, 64, 64, 2, 2, 3),
    (64, 256, 32, 1, 4, 4),
)
# Tiles for warp groups, each with 64 rows and all columns of a tile; for weight gradients, whose
# sums are cut into parts that fill the device, in another order.
GROUPED: Tiles = ((128, 128, 64, 8, 1, 3), (64, 128, 64, 4, 1, 4), (64, 64, 64, 4, 1, 4))
GROUPED_WEIGHTS: Tiles = (GROUPED[1], GROUPED[0], GROUPED[2])
MORE_GROUPED: Tiles = (
    (64, 256, 64, 4, 1, 3),
    (128, 256, 64, 8, 1, 3),
    (128, 64, 64, 8, 1, 4),
    (256, 128, 64, 16, 1, 3),
)
# Tiles for named instructions; loads through registers are one stage ahead.
NAMED: dict[str, Tiles] = {
    "mfma_32x32x8": ((128, 128, 32, 2, 2, 2), (64, 128, 32, 2, 2, 2), (64, 64, 32, 2, 2, 2)),
    "mfma_32x32x2": ((128, 64, 64, 2, 2, 2), (64, 64, 64, 2, 2, 2)),
    "wmma_16x16x16": ((128, 128, 32, 4, 2, 2), (64, 128, 32, 2, 4, 2), (64, 64, 32, 2, 2, 2)),
    "simdgroup_8x8x8": ((64, 64, 32, 2, 2, 2), (32, 64, 32, 2, 2, 2), (32, 32, 32, 2, 2, 2)),
}
_NEEDED = ("matrix", "barrier", "planes")
# With fewer rows, columns or terms most of a tile would be empty.
_LEAST = 16
# The tiles of a core from which wide ones of mostly empty rows, which read the operand of rows
# seldom, are as well spread over the device as others.
_WAVES = 4
# Terms of a sum from which tiles with mostly empty rows are faster than units that multiply alone.
_LONG = 256
_HALVES = (float16, bfloat16)
# Minimum of terms of a part of a sum, and maximum of phases of a launch. Terms of a part that
# outweigh the launch of the sums, and how many times the cubes that mostly fill a device fill it.
_SHARE, _PHASES = 256, 4
_LONG_PART, _MOSTLY = 1024, 1.15
# Units whose sums fit a core's registers.
_REGISTERS = 512


def mma_refusal(one: Convolution, request: Request) -> str | None:
    """Return why matrix instructions of planes do not suit a problem, None if they do."""
    p, info = one.seen, one.info
    if not all(map(info.has, _NEEDED)):
        return "the device has no matrix instructions of planes"
    # Named instructions take full float32.
    named = bool(instruction_for({p.a.dtype}, info))
    if not named and not loads_together(info):
        return "planes neither copy asynchronously nor load operands together"
    if p.a.dtype not in _HALVES and not ((one.rounded or named) and p.a.dtype is float32):
        return f"no matrix instruction takes {p.a.dtype}"
    if len(p.axes) > 2:
        return "it has more than two spatial axes"
    groups, rows, columns = (p.leads[i].size for i in p.roles)
    channels = columns if p.by_weight else p.depth.size
    if groups != 1 and (p.by_weight or not adjacent(p)):
        return "it has groups whose channels fill no accesses, or is their weight gradient"
    taps = prod(a.terms for a in p.axes)
    deep = p.depth.size if p.by_weight else channels
    if channels < 3 or (rows < _LEAST and deep * taps < _LONG):
        return f"it has fewer than {_LEAST} rows or 3 channels"
    enough = columns * prod(a.count for a in p.axes) >= _LEAST and deep * taps >= _LEAST
    return None if enough else f"it has fewer than {_LEAST} columns or terms"


def adjacent(problem: Correlation) -> bool:
    """Return whether groups are adjacent channels of the image, each of whole accesses."""
    p, (_, groups, _) = problem, problem.leads
    access = ACCESS // p.a.dtype.itemsize
    return bool(groups.a == p.depth.size * p.depth.a and p.depth.size % access == 0)


def plans_of(problem: Correlation, info: DeviceInfo) -> Iterator[tuple[MmaPlan, bool]]:
    """Yield the plans that fit, the likeliest first, and whether each is a likely one.

    Plans of warp groups stand before those of planes.
    """
    named = instruction_for({problem.a.dtype}, info)
    for grouped, usual, more in tiles_of(problem, info, named):
        plans = [_plan(problem, made, grouped, named) for made in (*usual, *more)]
        likely = [plan for plan in plans[: len(usual)] if fits(plan, info)]
        if not likely:
            continue
        lowest = min(plan.rows for plan in likely)
        fill = (plan for plan in likely if _fills(problem, plan, lowest, info))
        first = next(fill, likely[-1])
        others = (plan for plan in plans if plan != first and fits(plan, info))
        yield from ((plan, plan in likely) for plan in (first, *others))


def tiles_of(problem: Correlation, info: DeviceInfo, named: str) -> list[tuple[bool, Tiles, Tiles]]:
    """Return the likely tiles and further ones, and whether they are of warp groups.

    ``named``: the instruction, if it has a name.
    """
    if named:
        return [(False, NAMED[named.rpartition("_")[0]], ())]
    planes = (False, TILES, MORE)
    # TF32 operands have to be dense along the K axis; those of a weight gradient are not.
    beside = problem.a.dtype in _HALVES or not problem.by_weight
    if not (info.has("async_matrix") and beside):
        return [planes]
    return [(True, GROUPED_WEIGHTS if problem.by_weight else GROUPED, MORE_GROUPED), planes]


def _plan(
    problem: Correlation, made: tuple[int, int, int, int, int, int], grouped: bool, named: str
) -> MmaPlan:
    # Both operands of a weight gradient are dense along channels, which are not summed.
    along = not problem.by_weight
    plan = MmaPlan(problem.a.dtype, *made, along, along, grouped, named)
    # A float32 tile has half as many terms.
    return replace(plan, depth=plan.depth * 2 // plan.dtype.itemsize)


def _fills(problem: Correlation, plan: MmaPlan, lowest: int, info: DeviceInfo) -> bool:
    """Return whether tiles are little larger than the problem and fill the device.

    ``lowest``: the rows of the lowest tile, which may be mostly empty.
    """
    _, row, column = (problem.leads[i] for i in problem.roles)
    columns = column.size * prod(a.count for a in problem.axes)
    few = row.size <= plan.rows // 2
    if few and plan.rows > lowest:
        return False
    tiles = -(-row.size // plan.rows) * -(-columns // plan.columns)
    if not problem.by_weight:
        tiles *= problem.leads[1].size
    if few and not problem.by_weight:
        return bool(tiles >= _WAVES * info.cores)
    # A weight gradient's long sums are split for any tile.
    if problem.by_weight or tiles >= info.cores:
        return True
    # Larger tiles read less, and parts of long sums fill the device too.
    terms = problem.terms // prod(axis.divide for axis in problem.axes)
    if is_size(tiles) or is_size(terms):
        return False
    parts = min(info.cores // max(tiles, 1), terms // _LONG_PART)
    return bool(_MOSTLY * tiles * parts >= info.cores)


def fits(plan: MmaPlan, info: DeviceInfo) -> bool:
    """Return whether cubes of a plan fit a device.

    Each unit has the same number of copies of both tiles of a step.
    """
    if plan.shared_bytes > info.shared_bytes or plan.units > info.max_units:
        return False
    if plan.a_along:
        apart = plan.units * plan.access // plan.depth
        return plan.rows % apart == plan.columns % apart == 0
    beside = units_of_pixel(plan)
    line = beside * plan.access
    return plan.rows % line == plan.columns % line == plan.depth % (plan.units // beside) == 0


def together(plan: MmaPlan, info: DeviceInfo) -> int:
    """Return how many cubes of a plan fit the memory and registers of a core."""
    return max(1, min(info.shared_bytes // plan.shared_bytes, _REGISTERS // plan.units))


def mma_works(one: Convolution, request: Request) -> Iterator[Work]:
    """Yield the works of a problem, the likeliest first."""
    problem, info = one.seen, one.info
    for plan, likely in plans_of(problem, info):
        name = f"{plan.kind} {plan.rows}x{plan.columns}x{plan.depth} by {plan.units}"
        if problem.by_weight:
            work = _of_weights(problem, plan, info)
        else:
            work = _of_pixels(problem, plan, info, tail=one.tail, before=one.before)
        yield replace(work, variant=name, group=0 if likely else 1)
        both = plan.grouped and likely and not problem.by_weight and alternates(problem)
        if both and not joins(problem):
            work = _of_pixels(problem, plan, info, joined=True, before=one.before)
            yield replace(work, variant=f"{name}, joined", group=1)


def joins(problem: Correlation) -> bool:
    """Return whether computing alternating phases together is the first choice."""
    # For half types the gain of pairs is less than the cost of two phases' sums in registers.
    return bool(problem.a.dtype.itemsize == float32.itemsize)


def _of_pixels(
    problem: Correlation,
    plan: MmaPlan,
    info: DeviceInfo,
    joined: bool = False,
    tail: Tail | None = None,
    before: bool = False,
) -> Work:
    """Return the launches of a convolution, or of an input gradient with its phases.

    ``joined``: whether two phases are computed together where possible, for any dtype. ``tail``:
    the epilogue of a convolution. ``before``: whether images are rounded to TF32 already.
    """
    steps, groups = Steps(), problem.leads[1].size
    # Warp-group instructions truncate float32 to TF32.
    rounded = plan.grouped and plan.dtype is float32
    # Groups are adjacent channels of one copy.
    whole = replace(problem.depth, size=groups * problem.depth.size)
    x = image_of(replace(problem, depth=whole), steps, info, rounded and not before)
    room = x.room if groups == 1 else problem.depth.size
    block = plan.depth if room % plan.depth == 0 else room
    weights = weights_of(problem, room, block, steps, info, rounded)
    halves = 2 if alternates(problem) and (joined or joins(problem)) else 1
    operands = Operands(x, room, block, weights)
    add_pixels(problem, plan, operands, halves, steps, info, tail)
    return steps.work()


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands of a product of windows: images with ``room`` channels of a tap, and weights.

    ``block``: the channels of a tap before the next one. ``volumes``: whose planes are images.
    """

    x: Last
    room: int
    block: int
    weights: Weights
    volumes: Volumes[int | Multiple, int] | None = None


def add_pixels(
    problem: Correlation,
    plan: MmaPlan,
    operands: Operands,
    halves: int,
    steps: Steps,
    info: DeviceInfo,
    tail: Tail | None,
) -> None:
    """Add the product of windows, and the sums of its parts; ``halves``: phases of a tile."""
    p, dtype, x, weights = problem, problem.a.dtype, operands.x, operands.weights
    (images, groups, outputs), axes, volumes = p.leads, two_axes(p), operands.volumes
    phases = phases_of(p, weights)
    rows = groups.size * outputs.size
    tiles = (
        groups.size
        * -(-outputs.size // plan.rows)
        * sum(-(-pixels_of(phase.problem) // plan.columns) for phase in phases)
    )
    least = min(terms_of(phase.problem, operands.room) for phase in phases)
    splits = max(1, min(info.cores // max(tiles, 1), least // _SHARE))
    part_step = -(-p.size // WHOLE) * WHOLE
    target = target_of(steps, dtype, splits * part_step if splits > 1 else 0)
    planes = 1 if volumes is None else volumes.count
    channel = planes * axes[0].count * axes[1].count
    strides = row_major([axis.count for axis in axes])
    steps_of = ((1,) * (2 - len(p.axes)) + phases[0].steps) if phases else (1, 1)
    to = tuple(s * by for s, by in zip(strides, steps_of, strict=True))
    spans = (images.size * x.strides[0], rows * weights.row, splits * part_step)
    index = kl.index_dtype(*spans, *(pixels_of(phase.problem) for phase in phases))
    pairs = run_of(plan.shape) == 2 and halves == 2 and to[1] == 2 and axes[1].count % 4 == 0
    if len(phases) == 1:
        dense = to == (axes[1].count, 1) and run_of(plan.shape) == 2
        pairs = dense and axes[0].count * axes[1].count % 2 == 0
    run = halves * (2 if pairs else 1)
    to_result, following = ending(target.aligned(ACCESS if run > 1 else 0), tail, run)
    for first in range(0, len(phases), _PHASES):
        some = phases[first : first + _PHASES]
        columns = max(pixels_of(phase.problem) for phase in some)
        # Channels that fill accesses are no work that is asked for.
        work = sum(pixels_of(one.problem) * terms_of(one.problem, p.depth.size) for one in some)
        steps.add(
                conv_mma,
                Grid(
                    (
                        *(-(-columns // plan.columns), -(-outputs.size // plan.rows)),
                        splits * (len(some) // halves) * groups.size,
                    ),
                    (plan.units, 1, 1), info.planes[0], index,
                ),
                Effort(
                    f"conv mma {plan.rows}x{plan.columns}", 2 * rows * work,
                    p.nbytes * len(some) // len(phases),
                ),
                w=weights.bound.aligned(ACCESS), x=x.bound.aligned(ACCESS),
                c=to_result,
                rows_total=outputs.size, w_row=Multiple(weights.row, plan.access), splits=splits,
                part_step=Multiple(part_step, run),
                result=ResultStrides(
                    Multiple(channel, run), Multiple(rows * channel, run), *to
                ),
                strides=[Multiple(n, plan.access) for n in x.strides],
                phases=[
                    numbers_of(
                        phase, operands.room, operands.block, weights, splits, plan.depth, strides
                    )
                    for phase in some
                ],
                volumes=volumes, groups=(
                    Multiple(weights.group, plan.access), Multiple(p.depth.size, plan.access)
                ) if groups.size > 1 else (), plan=plan, pairs=pairs, halves=halves,
                ragged=outputs.size % plan.rows != 0, **following,
            )  # fmt: skip
    sizes = (1, 1, p.size, part_step)
    image = rows, channel
    launch_sum(steps, target, dtype, sizes, splits, part_step, info, tail, image)


def _of_weights(problem: Correlation, plan: MmaPlan, info: DeviceInfo) -> Work:
    """Return the launches of a weight gradient."""
    steps = Steps()
    sums = add_weights(problem, plan, info, steps)
    launch_sum(steps, sums.target, problem.a.dtype, sums.sizes, sums.splits, sums.part_step, info)
    return steps.work()


@dataclass(frozen=True, slots=True)
class Sums:
    """The parts of a weight gradient: where they are, their sizes, number and distance.

    ``sizes``: those of :func:`.split_sums.launch_sum`.
    """

    target: Bound
    sizes: tuple[int, int, int, int]
    splits: int
    part_step: int


def add_weights(problem: Correlation, plan: MmaPlan, info: DeviceInfo, steps: Steps) -> Sums:
    """Add the launches of the parts of a weight gradient, and return the parts.

    Several groups have channels that fill whole accesses.
    """
    p, dtype = problem, problem.a.dtype
    (groups, outputs, channels), axes, images = p.leads, two_axes(p), p.depth
    # Groups are adjacent channels of one copy.
    several = bool(groups.size > 1)
    every, all_channels = (
        replace(lead, size=groups.size * lead.size) for lead in (outputs, channels)
    )
    whole = replace(p, leads=(groups, every, all_channels))
    x = image_of(whole, steps, info)
    g = gradient_of(whole, steps, info)
    room = channels.size if several else x.room
    taps = axes[0].count * axes[1].count
    terms, columns = images.size * axes[0].terms * axes[1].terms, taps * room
    tiles = groups.size * -(-outputs.size // plan.rows) * -(-columns // plan.columns)
    # One cube more than run at the same time would double the time.
    slots = info.cores * together(plan, info)
    splits = slots // tiles
    if splits == 1 and info.cores < tiles < slots * 3 // 4:
        # Some cores have one cube more than others; with two parts a cube is half as long.
        splits = 2
    splits = max(1, min(splits, terms // _SHARE))
    share = -(-terms // (splits * plan.depth)) * plan.depth
    splits = max(1, -(-terms // share))
    rows = groups.size * outputs.size
    count = rows * columns
    # Sums in the result's layout are written to it directly.
    same = taps == 1 and room == channels.size and not several
    target = target_of(steps, dtype, splits * count if splits > 1 or not same else 0)
    index = kl.index_dtype(images.size * x.strides[0], terms * g.room, splits * count, columns)
    down, across = (
        replace(a, count=a.terms, terms=a.count, result=a.summed, summed=a.result) for a in axes
    )

    def wide(n: int) -> Multiple:
        return Multiple(n, plan.access)

    apart = outputs.size, channels.size, outputs.size * columns
    steps.add(
            conv_weight_mma,
            Grid(
                (
                    *(-(-columns // plan.columns), -(-outputs.size // plan.rows)),
                    splits * groups.size,
                ),
                (plan.units, 1, 1), info.planes[0], index,
            ),
            Effort(
                f"conv weight mma {plan.rows}x{plan.columns}",
                2 * rows * taps * channels.size * terms, p.nbytes,
            ),
            g=g.bound.aligned(ACCESS), x=x.bound.aligned(ACCESS), c=target.aligned(ACCESS),
            rows_total=outputs.size, columns_total=wide(columns), terms=terms, splits=splits,
            share=share, part_step=wide(count), g_pixel=wide(g.room),
            strides=[*map(wide, x.strides)], windows=windows_of((down, across), room),
            groups=[*map(wide, apart)] if several else (), plan=plan,
        )  # fmt: skip
    sizes = (1, 1, count, count) if same else (rows, taps, channels.size, room)
    return Sums(target, sizes, splits, count)
