"""Launches of TMA implicit GEMM convolutions: the suitable problems, and the box of a tile.

Requirements: a tile's pixels are a box, so images whose rows do not fit it waste the pixels
outside. A model of steps and idle cores chooses the fastest box. If only one pixel of each stride
cell of an input gradient has taps, tiles hold those pixels alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from calor.dtypes import bfloat16, float16, float32, int32
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Input, Launch, Output, Work
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.conv.implicit_gemm_mma_launch import phases_of
from calor_kernel.library.conv.implicit_gemm_tma import PlaceBoxes, conv_boxes
from calor_kernel.library.conv.implicit_gemm_tma_store import Cells, Writes
from calor_kernel.library.conv.mma_operands import Last, Weights, last, two_axes, weights_of
from calor_kernel.library.conv.padded_rows import Steps
from calor_kernel.library.conv.problem import Correlation, Part, in_cells
from calor_kernel.library.conv.split_sums import ALIGN, sums_launch
from calor_kernel.library.gemm.warpgroup import LINE

_NEEDED = ("async_matrix", "tensor_copy", "mbarrier", "barrier", "planes")
_COLUMNS, _STAGES, _SPLITS = 256, 6, (1, 2, 3, 4, 6, 8, 9)
# Minimum of steps of a part of a sum; a lower minimum and more numbers of parts, which are timed
# too if cores are idle; the number of plans to time.
SHARE, _LITTLE, _MORE_SPLITS, TIMED = 8, 2, (12, 16, 18, 24), 4
# Positions in tensors and results are 32-bit numbers.
_MOST = 1 << 31
_WHOLE = ALIGN // float32.itemsize
# For a core of an H200, in cycles: the rate of sums with one warp group and two, and of rows read;
# the overhead of a step and of a tile; bytes of parts moved.
_COMPUTED, _READ, _STEP, _TILE, _MOVED = {1: 23, 2: 33}, 0.5, 100, 2500, 10


# The cycles of a plan, the plan, and the parts of its sums.
Made = tuple[float, PlaceBoxes, int]


@dataclass(frozen=True, slots=True)
class Result:
    """A plan's result: rows and columns if pixels are cells, and elements of a channel.

    ``size``: all elements; ``unit``: rows begin at multiples of this many elements.
    """

    plan: PlaceBoxes
    whole: tuple[int, ...]
    plane: int
    size: int
    unit: int


def by_boxes(problem: Correlation, info: DeviceInfo, wanted: bool, rounded: bool) -> Iterator[Work]:
    """Yield the works of a problem that TMA can feed, the likeliest first."""
    part = in_cells(problem)
    seen = part.problem if part is not None else problem
    if not suits(seen, problem.size, info, rounded):
        return
    rows = 128 if seen.leads[2].size > 64 else 64
    found = sorted(plans_of(seen, problem.size, info, rows, SHARE), key=cycles_of)
    several = two_axes(seen)[0].terms * two_axes(seen)[1].terms > 1
    # With several taps, smaller tiles of cubes that share a core finish sooner.
    few = not found or (several and idle(seen, found[0], info))
    if few and not wanted:
        return
    likely = found[: TIMED if wanted else 1]
    timed = wanted and found and idle(seen, found[0], info)
    more = _smaller(seen, problem.size, info, likely) if timed else []
    for made in (*likely, *more):
        _, plan, splits = made
        steps = Steps()
        _of_places(seen, _result_of(problem, part, plan), splits, steps, info)
        box = "x".join(map(str, plan.box))
        name = f"boxes {plan.rows}x({box}) by {plan.units}{f' in {splits}' if splits > 1 else ''}"
        group = int(few or made not in likely)
        yield replace(steps.work(), variant=name, group=group)


def _smaller(
    problem: Correlation, size: int, info: DeviceInfo, likely: Sequence[Made]
) -> list[Made]:
    """Return plans of small tiles and of short parts beside the likely ones, best first.

    Of plans that differ in the box alone only the first is returned.
    """
    made: dict[tuple[int, int], Made] = {}
    for rows in (64, 128) if problem.leads[2].size > 64 else (64,):
        for one in sorted(plans_of(problem, size, info, rows, _LITTLE), key=cycles_of):
            made.setdefault((rows, one[2]), one)
    known = {(plan.rows, plan.box, splits) for _, plan, splits in likely}
    new = [m for m in made.values() if (m[1].rows, m[1].box, m[2]) not in known]
    return sorted(new, key=cycles_of)[:TIMED]


def cycles_of(made: Made) -> float:
    return made[0]


def idle(problem: Correlation, made: Made, info: DeviceInfo) -> bool:
    """Return whether most cores have no cube of a plan."""
    return bool(2 * _tiles(problem, made[1]) * made[2] < info.cores)


def _result_of(problem: Correlation, part: Part | None, plan: PlaceBoxes) -> Result:
    """Return the result's layout for a plan; ``part``: the only phase with taps, if any."""
    high, wide = (axis.count for axis in two_axes(problem))
    plane, ragged = high * wide, problem.leads[2].size % plan.rows != 0
    most = 16 // plan.result.itemsize
    _, rows, columns = plan.box
    if part is None:
        # Rows of all columns are adjacent.
        whole = columns == wide
        run = together(most, columns * rows if whole else columns, plane if whole else wide)
        return Result(replace(plan, writes=Writes(run, ragged)), (), plane, problem.size, run)
    down, across = (1, *part.steps)[-2:]
    top, left = (0, *part.offsets)[-2:]
    run = together(max(most // across, 1), columns, -(-wide // across))
    access = together(most, run * across, wide)
    cells = Cells((down, across), (top, left), access, bool(high % down or wide % across))
    made = replace(plan, writes=Writes(run, ragged, cells))
    return Result(made, (high, wide), plane, problem.size, access)


def together(most: int, *counts: int) -> int:
    """Return the most elements of an access that divides all counts."""
    return next(n for n in (8, 4, 2, 1) if n <= most and all(count % n == 0 for count in counts))


def suits(problem: Correlation, size: int, info: DeviceInfo, rounded: bool) -> bool:
    """Return whether boxes cover a problem's windows; ``size``: elements of the result."""
    p = problem
    if not all(map(info.has, _NEEDED)) or info.planes[0] != 32 or p.by_weight:
        return False
    if not (p.a.dtype in (float16, bfloat16) or (rounded and p.a.dtype is float32)):
        return False
    known = all(type(axis.count) is int for axis in p.axes)
    moves = all(axis.divide == 1 and axis.size % axis.result == 0 for axis in p.axes)
    _, groups, outputs = p.leads
    fits = groups.size == 1 and outputs.size >= 64 and len(p.axes) <= 2
    fits = fits and max(_SPLITS) * max(size, p.a.size, p.b.size) < _MOST
    return bool(known and moves and fits and p.depth.size % (LINE // p.a.dtype.itemsize) == 0)


def _tiles(problem: Correlation, plan: PlaceBoxes) -> int:
    images, _, outputs = problem.leads
    down, across = two_axes(problem)
    some, high, wide = plan.box
    tiles = -(-outputs.size // plan.channels) * -(-images.size // some)
    return tiles * -(-down.count // high) * -(-across.count // wide)


def plans_of(
    problem: Correlation, size: int, info: DeviceInfo, rows: int, share: int
) -> Iterator[Made]:
    """Yield plans with ``rows``; ``size``: of the result; ``share``: minimum of steps of a part.

    With a small share, tiles of few pixels are among them.
    """
    down, across = two_axes(problem)
    item = problem.a.dtype.itemsize
    steps = problem.depth.size * item // LINE * down.terms * across.terms
    pieces = -(-across.count // _COLUMNS)
    least = _COLUMNS // (4 if share == SHARE else 8)
    wide = -(-across.count // pieces)
    wide += wide % 2 if pieces > 1 else 0
    images = problem.leads[0].size
    most = images if type(images) is int else _COLUMNS
    for high in range(1, min(down.count, _COLUMNS // wide) + 1):
        whole = high == down.count and pieces == 1
        for some in range(1, min(_COLUMNS // (high * wide), most) + 1 if whole else 2):
            plan = PlaceBoxes(problem.a.dtype, problem.a.dtype, rows, (some, high, wide), 2)
            if plan.units <= info.max_units and (plan.columns >= least or whole):
                yield from _divided(plan, _tiles(problem, plan), steps, size, share, info)


def _divided(
    plan: PlaceBoxes, tiles: int, steps: int, size: int, share: int, info: DeviceInfo
) -> Iterator[Made]:
    """Yield a plan with each possible number of parts of its steps."""
    computed = plan.rows * plan.columns / _COMPUTED[plan.groups]
    step = max(computed, (plan.rows + plan.columns) / _READ) + _STEP
    more = _MORE_SPLITS if share < SHARE else ()
    for splits in (*_SPLITS, *more):
        made = replace(plan, result=float32) if splits > 1 else plan
        room = info.shared_bytes - made.shared_bytes
        if room < 0 or (splits > 1 and (steps < share * splits or steps % splits)):
            continue
        if splits * size >= _MOST:
            continue
        stages = 2 + room // (LINE * (plan.rows + plan.columns))
        rounds = -(-tiles * splits // info.cores)
        cycles = rounds * (-(-steps // splits) * step + _TILE)
        if splits > 1:
            cycles += _TILE + 8 * splits * size / (info.cores * _MOVED)
        yield float(cycles), replace(made, stages=min(stages, _STAGES)), splits


def _of_places(
    problem: Correlation, made: Result, splits: int, steps: Steps, info: DeviceInfo
) -> None:
    p, dtype, plan = problem, problem.a.dtype, made.plan
    x, weights = copies_of(p, plan, steps, info)
    (phase,) = phases_of(p, weights)
    part_step = _part_step(made)
    result: Argument = Output(0)
    if splits > 1:
        result = steps.memory(splits * part_step * float32.itemsize)
    steps.launches.append(launch_of(phase.problem, made, splits, x, weights, result, info))
    if splits > 1:
        sizes = (1, 1, made.size, part_step)
        steps.launches.append(sums_launch(result, dtype, sizes, splits, part_step, info))


def _part_step(made: Result) -> int:
    """Return the stride of the parts of sums."""
    unit = max(made.unit, int(_WHOLE))
    return -(-made.size // unit) * unit


def copies_of(
    problem: Correlation, plan: PlaceBoxes, steps: Steps, info: DeviceInfo
) -> tuple[Last, Weights]:
    """Add the launches that copy both operands for TMA, and return the copies."""
    p, axes, images = problem, two_axes(problem), problem.leads[0]
    x = last(
        Input(0, p.a.offset), p.a.dtype, (images.size, p.depth.size, (axes[0].size, axes[1].size)),
        (images.a, p.depth.a, (axes[0].a, axes[1].a)), steps, info,
    )  # fmt: skip
    return x, weights_of(p, x.room, plan.depth, steps, info, False)


def launch_of(
    problem: Correlation,
    made: Result,
    splits: int,
    x: Last,
    weights: Weights,
    result: Argument,
    info: DeviceInfo,
) -> Launch:
    """Return the launch for copied operands; the weights' strides are those of the copy."""
    p, dtype, plan = problem, problem.a.dtype, made.plan
    images, _, outputs = p.leads
    down, across = two_axes(p)
    high, wide, taps = down.count, across.count, down.terms * across.terms
    share = x.room * taps // (plan.depth * splits)
    every = taps if plan.turns is None else plan.turns.taps
    strides = (down.result, across.result)
    size, number = Scalar(int32, nonnegative=True), Scalar(int32)
    line = Scalar(int32, divisible=16 // dtype.itemsize, nonnegative=True)
    of_rows = Scalar(int32, nonnegative=True, divisible=made.unit)
    read = Buffer(dtype, writable=False, align=16)
    target = Buffer(plan.result, align=16)
    build = Build(
        conv_boxes,
        (
            *(read, read, target),
            *(size, line, line),
            *(size, size, size, size, line),
            *(line,) * 5,
            *(size, size),
            *(number,) * 7,
            *(size, size, of_rows, of_rows, size, of_rows),
            *(size, of_rows)[: len(made.whole)],
        ),
        (("plan", plan), ("strides", strides)),
        (plan.units, 1, 1),
        info.planes[0],
        int32,
    )
    numbers = (
        *(outputs.size, x.room * every, weights.row),
        *(images.size, down.size // strides[0], strides[0], across.size // strides[1]),
        *((strides[1] - 1) * x.strides[2] + x.room, x.strides[0], strides[0] * x.strides[1]),
        *(x.strides[1], strides[1] * x.strides[2], x.strides[2]),
        *(taps, across.terms),
        p.b.offset // plan.depth,
        *(down.b // plan.depth, across.b // plan.depth),
        *(down.start, across.start, down.summed, across.summed),
        *(high, wide, made.plane, outputs.size * made.plane),
        *(share, _part_step(made)),
        *made.whole,
    )
    flops = 2 * outputs.size * images.size * high * wide * x.room * taps
    label = f"conv boxes {plan.rows}x{plan.columns}"
    cubes = (min(_tiles(p, plan), max(info.cores // splits, 1)), splits, 1)
    return Launch(build, cubes, (weights.place, x.place, result, *numbers), flops, 0, label)
