"""Convolutions fed by the copy engine as launches: which suit, and the box of a tile.

Requirements: a tile's places are a box, so that tiles of images whose rows do not fit waste what
lies outside; the box is what a model of the steps and of idle cores says is quickest; of a gradient
of which one place of each stride sees taps, tiles are of those places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from calor.dtypes import bfloat16, float16, float32, int32
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.conv.boxes import PlaceBoxes, conv_boxes
from calor_kernel.library.conv.cells import Cells, access_of
from calor_kernel.library.conv.fragment_operands import last, two_axes, weights_of
from calor_kernel.library.conv.fragment_sums import ALIGN, sums_launch
from calor_kernel.library.conv.lines import Steps
from calor_kernel.library.conv.places_by_fragments import phases_of
from calor_kernel.library.conv.problem import Correlation, Part, in_cells
from calor_kernel.library.matmul.boxes import LINE
from calor_kernel.library.work import Argument, Build, Input, Launch, Output, Work
from calor_kernel.runtime.device import DeviceInfo

_NEEDED = ("async_matrix", "tensor_copy", "mbarrier", "barrier", "planes")
_COLUMNS, _STAGES, _SPLITS = 256, 6, (1, 2, 3, 4, 6, 8, 9)
# Places in tensors and in results are numbers of 32 bits.
_MOST = 1 << 31
_WHOLE = ALIGN // float32.itemsize
# Of a core of an H200 in cycles: sums of a step that it computes, with one warp group and two, and
# rows that it reads; what a step and a tile take beside, and bytes of parts that it moves.
_COMPUTED, _READ, _STEP, _TILE, _MOVED = {1: 23, 2: 33}, 0.5, 100, 2500, 10


@dataclass(frozen=True, slots=True)
class _Result:
    """What a plan writes: its rows and columns where places are cells, and elements of a channel.

    ``size``: all elements; ``pairs``: whether two places are one access.
    """

    plan: PlaceBoxes
    whole: tuple[int, ...]
    plane: int
    size: int
    pairs: bool


def by_boxes(problem: Correlation, info: DeviceInfo, wanted: bool, rounded: bool) -> Iterator[Work]:
    """Yield the works of a problem that the copy engine can feed, the likeliest first."""
    part = in_cells(problem)
    seen = part.problem if part is not None else problem
    if not suits(seen, problem.size, info, rounded):
        return
    found = sorted(_plans(seen, problem.size, info), key=lambda made: made[0])
    few = _few(seen, found[0][1], found[0][2], info) if found else True
    if few and not wanted:
        return
    for _, plan, splits in found[: 4 if wanted else 1]:
        steps = Steps()
        _of_places(seen, _result_of(problem, part, plan), splits, steps, info)
        box = "x".join(map(str, plan.box))
        name = f"boxes {plan.rows}x({box}) by {plan.units}{f' in {splits}' if splits > 1 else ''}"
        yield replace(steps.work(), variant=name, group=int(few))


def _result_of(problem: Correlation, part: Part | None, plan: PlaceBoxes) -> _Result:
    """Return how a plan writes the result of a problem, of which a part may be all that is seen."""
    high, wide = (axis.count for axis in two_axes(problem))
    if part is None:
        return _Result(plan, (), high * wide, problem.size, wide % 2 == plan.box[2] % 2 == 0)
    missing = 2 - len(part.steps)
    down, across = (1,) * missing + part.steps
    pairs = -(-wide // across) % 2 == plan.box[2] % 2 == 0
    top, left = (0,) * missing + part.offsets
    access = access_of(across, wide, 2 if pairs else 1)
    cells = Cells((down, across), (top, left), access)
    return _Result(replace(plan, cells=cells), (high, wide), high * wide, problem.size, pairs)


def suits(problem: Correlation, size: int, info: DeviceInfo, rounded: bool) -> bool:
    """Return whether boxes are what a problem's windows see; ``size``: of what is written."""
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


def _few(problem: Correlation, plan: PlaceBoxes, splits: int, info: DeviceInfo) -> bool:
    """Return whether smaller tiles of cubes that share a core are done sooner."""
    taps = two_axes(problem)[0].terms * two_axes(problem)[1].terms
    return taps > 1 and 2 * _tiles(problem, plan) * splits < info.cores


def _tiles(problem: Correlation, plan: PlaceBoxes) -> int:
    images, _, outputs = problem.leads
    down, across = two_axes(problem)
    some, high, wide = plan.box
    tiles = -(-outputs.size // plan.rows) * -(-images.size // some)
    return tiles * -(-down.count // high) * -(-across.count // wide)


def _plans(
    problem: Correlation, size: int, info: DeviceInfo
) -> Iterator[tuple[float, PlaceBoxes, int]]:
    """Yield plans with their splits, and the cycles that they take; ``size``: of the result."""
    outputs = problem.leads[2]
    down, across = two_axes(problem)
    item = problem.a.dtype.itemsize
    rows = 128 if outputs.size > 64 else 64
    steps = problem.depth.size * item // LINE * down.terms * across.terms
    pieces = -(-across.count // _COLUMNS)
    wide = -(-across.count // pieces)
    wide += wide % 2 if pieces > 1 else 0
    for high in range(1, min(down.count, _COLUMNS // wide) + 1):
        whole = high == down.count and pieces == 1
        for some in range(1, _COLUMNS // (high * wide) + 1 if whole else 2):
            plan = PlaceBoxes(problem.a.dtype, problem.a.dtype, rows, (some, high, wide), 2)
            if plan.units <= info.max_units and (plan.columns * 4 >= _COLUMNS or whole):
                yield from _divided(plan, _tiles(problem, plan), steps, size, info)


def _divided(
    plan: PlaceBoxes, tiles: int, steps: int, size: int, info: DeviceInfo
) -> Iterator[tuple[float, PlaceBoxes, int]]:
    """Yield a plan with each number of parts that the steps may be cut into."""
    computed = plan.rows * plan.columns / _COMPUTED[plan.groups]
    step = max(computed, (plan.rows + plan.columns) / _READ) + _STEP
    for splits in _SPLITS:
        made = replace(plan, result=float32) if splits > 1 else plan
        room = info.shared_bytes - made.shared_bytes
        if room < 0 or (splits > 1 and (steps < 8 * splits or steps % splits)):
            continue
        stages = 2 + room // (LINE * (plan.rows + plan.columns))
        rounds = -(-tiles * splits // info.cores)
        cycles = rounds * (-(-steps // splits) * step + _TILE)
        if splits > 1:
            cycles += _TILE + 8 * splits * size / (info.cores * _MOVED)
        yield float(cycles), replace(made, stages=min(stages, _STAGES)), splits


def _of_places(
    problem: Correlation, made: _Result, splits: int, steps: Steps, info: DeviceInfo
) -> None:
    p, dtype, plan, pairs = problem, problem.a.dtype, made.plan, made.pairs
    images, _, outputs = p.leads
    axes = two_axes(p)
    x = last(
        Input(0, p.a.offset), dtype, (images.size, p.depth.size, (axes[0].size, axes[1].size)),
        (images.a, p.depth.a, (axes[0].a, axes[1].a)), steps, info,
    )  # fmt: skip
    weights = weights_of(p, x.room, plan.depth, steps, info, False)
    (phase,) = phases_of(p, weights)
    down, across = two_axes(phase.problem)
    high, wide, taps = down.count, across.count, down.terms * across.terms
    terms = x.room * taps
    share = terms // (plan.depth * splits)
    part_step = -(-made.size // _WHOLE) * _WHOLE
    result: Argument = Output(0)
    if splits > 1:
        result = steps.memory(splits * part_step * float32.itemsize)
    strides = (down.result, across.result)
    size, number = Scalar(int32, nonnegative=True), Scalar(int32)
    line = Scalar(int32, divisible=16 // dtype.itemsize, nonnegative=True)
    even = Scalar(int32, nonnegative=True, divisible=2 if pairs else 1)
    of_rows = even if plan.cells is None else replace(even, divisible=plan.cells.access)
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
            *(size, even, of_rows, of_rows, size, of_rows),
            *(size, of_rows)[: len(made.whole)],
        ),
        (("pairs", pairs), ("plan", plan), ("strides", strides)),
        (plan.units, 1, 1),
        info.planes[0],
        int32,
    )
    numbers = (
        *(outputs.size, terms, weights.row),
        *(images.size, axes[0].size // strides[0], strides[0], axes[1].size // strides[1]),
        *((strides[1] - 1) * x.strides[2] + x.room, x.strides[0], strides[0] * x.strides[1]),
        *(x.strides[1], strides[1] * x.strides[2], x.strides[2]),
        *(taps, across.terms),
        phase.problem.b.offset // plan.depth,
        *(down.b // plan.depth, across.b // plan.depth),
        *(down.start, across.start, down.summed, across.summed),
        *(high, wide, made.plane, outputs.size * made.plane),
        *(share, part_step),
        *made.whole,
    )
    flops = 2 * outputs.size * images.size * high * wide * terms
    label = f"conv boxes {plan.rows}x{plan.columns}"
    cubes = (min(_tiles(p, plan), max(info.cores // splits, 1)), splits, 1)
    arguments = (weights.place, x.place, result, *numbers)
    steps.launches.append(Launch(build, cubes, arguments, flops, 0, label))
    if splits > 1:
        sizes = (1, 1, made.size, part_step)
        steps.launches.append(sums_launch(result, dtype, sizes, splits, part_step, info))
