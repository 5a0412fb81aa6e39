"""Launches of weight gradients by TMA, and the weight gradients that it can feed.

Requirements: TMA takes rows that begin at multiples of 16 bytes, and a line of pixels has no gaps.
Where most pixels of the lines would lie beyond the rows, and where copies with each tap as a row
stay in the cache, another way comes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod

from calor.dtypes import float32, int32
from calor_cuda.kernels.conv.weight_gradient_gemm import copies_first
from calor_cuda.kernels.conv.weight_gradient_tma import (
    ACCESS,
    CHANNELS,
    Taps,
    WeightPlan,
    conv_weight_tma,
    pitch_of,
)
from calor_cuda.kernels.warpgroup import LINE
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Effort, Grid, Multiple, launch, operand
from calor_kernel.contract.work import Request, Work
from calor_kernel.library.conv.implicit_gemm_operands import two_axes
from calor_kernel.library.conv.problem import Convolution, Correlation
from calor_kernel.library.conv.split_sums import ALIGN, WHOLE, launch_sum, target_of
from calor_kernel.library.steps import Steps

_NEEDED = ("async_matrix", "tensor_copy", "mbarrier", "barrier", "planes")
# The pixels of a line, and the maximum of a step's pixels of a channel for all taps.
_PIXELS, _SPAN = LINE // 4, 76
# With fewer channels most of a tile would be empty; the share of a line's pixels that rows have.
_LEAST, _FILLED = 64, 0.75
# Columns of an instruction and sums of a unit by the number of warp groups. With more the compiler
# finds too few registers for operands, and runs instructions one after another.
_COLUMNS, _SUMS = {1: 256, 2: 256, 3: 192}, {1: 192, 2: 168, 3: 104}
# Stages, and the minimum of lines of a part.
_STAGES, _LINES = 6, 8
# Maximum of parts, and the number of plans to time.
_PARTS, _TIMED = 128, 3
# Positions in tensors and results are 32-bit numbers.
_MOST = 1 << 31
# For a core of an H100: products of a cycle, bytes read from shared memory and from the cache; the
# cycles in which warp groups load the pixels of a tap, while none multiplies; the overhead cycles
# of a tile, and the bytes of parts moved in a cycle.
_PRODUCTS, _SHARED, _READ, _LOADING, _TILE, _MOVED = 1024, 128, 29, 160, 2500, 22


def weight_tma_refusal(one: Convolution, request: Request) -> str | None:
    """Return why TMA cannot feed a weight gradient from the images, None if it can."""
    p, info = one.seen, one.info
    if not all(map(info.has, _NEEDED)) or info.planes[0] != 32:
        return "the device has no TMA with matrix instructions of warp groups"
    if not p.by_weight or len(p.axes) > 2 or p.leads[0].size != 1:
        return "it is no weight gradient of one group with at most two spatial axes"
    sizes = [lead.size for lead in (*p.leads, p.depth)]
    sizes += [n for axis in p.axes for n in (axis.terms, axis.count, axis.size)]
    if not all(type(n) is int for n in sizes):
        return "its sizes are not known yet"
    if not (one.rounded and p.a.dtype is float32):
        return "operands of two bytes are read with channels last, which their copies are"
    across = p.axes[-1]
    if across.summed != 1 or (across.a, across.b) != (1, 1):
        return "pixels of a row are not adjacent in both operands"
    if pitch_of(_PIXELS + across.result + ACCESS - 1) > _SPAN:
        return f"a line of {_PIXELS} pixels with taps {across.result} apart is too long"
    if not _rows_of(p, 1)[1]:
        return "no tap reads a row of the images"
    if not _aligned(p):
        return "rows do not begin at multiples of 16 bytes, or overlap"
    if min(p.leads[1].size, p.leads[2].size) < _LEAST or not p.depth.size:
        return f"it has fewer than {_LEAST} channels, or no images"
    if across.terms < _FILLED * _PIXELS * -(-across.terms // _PIXELS):
        return f"rows of {across.terms} pixels leave much of lines of {_PIXELS} empty"
    if max(_PARTS * p.size, p.a.size, p.b.size) >= _MOST:
        return "its positions are no 32-bit numbers"
    if copies_first(p) and not request.candidates:
        return "copies with a row for each tap stay in the cache"
    return None


def _axes(problem: Correlation) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the size and stride of images, channels and rows of both operands."""
    p, (down, _) = problem, two_axes(problem)
    images, (_, outputs, channels) = p.depth, p.leads
    x = [(images.size, images.a), (channels.size, channels.a), (down.size, down.a)]
    g = [(images.size, images.b), (outputs.size, outputs.b), (down.terms, down.b)]
    return x, g


def _aligned(problem: Correlation) -> bool:
    """Return whether all rows of both operands begin at whole accesses and do not overlap."""
    p, (_, across) = problem, two_axes(problem)
    wide = across.size, across.terms
    for view, axes, row in zip((p.a, p.b), _axes(p), wide, strict=True):
        strides = [stride for size, stride in axes if size > 1]
        if view.offset % ACCESS or any(s % ACCESS or s < row for s in strides):
            return False
    return True


def _rows_of(problem: Correlation, downs: int) -> tuple[int, int]:
    """Return the first row of pixels of a tile's first row of taps, and the number of them.

    Tiles have ``downs`` rows of taps. One with all of them leaves out lines of padding.
    """
    down, _ = two_axes(problem)
    rows = down.terms + (downs - 1) * down.result
    if downs < down.count or down.summed != 1:
        return 0, rows
    first = max(0, -down.start)
    return first, max(min(rows, down.size - down.start) - first, 0)


def weight_tma_works(one: Convolution, request: Request) -> Iterator[Work]:
    """Yield the works of a suitable weight gradient, the likeliest first."""
    problem, info = one.seen, one.info
    found = sorted(_plans(problem, info), key=lambda made: made[0])
    best: dict[WeightPlan, int] = {}
    for _, plan, share in found:
        best.setdefault(plan, share)
    first = not copies_first(problem)
    for plan, share in list(best.items())[: _TIMED if request.candidates else 1]:
        splits = -(-_lines(problem, plan.downs) // share)
        name = f"lines, {plan.channels}x{plan.outputs} of {plan.downs}x{plan.acrosses} taps"
        name = f"{name} by {plan.groups} in {splits}"
        yield replace(_work(problem, plan, share, info), variant=name, group=int(not first))


def _lines(problem: Correlation, downs: int) -> int:
    _, across = two_axes(problem)
    return int(problem.depth.size * _rows_of(problem, downs)[1] * -(-across.terms // _PIXELS))


def _tiles(problem: Correlation, plan: WeightPlan) -> int:
    (_, outputs, channels), (down, across) = problem.leads, two_axes(problem)
    wanted = (channels.size, outputs.size, down.count, across.count)
    given = (plan.channels, plan.outputs, plan.downs, plan.acrosses)
    return prod(-(-n // some) for n, some in zip(wanted, given, strict=True))


def _shapes(problem: Correlation, info: DeviceInfo) -> Iterator[WeightPlan]:
    """Yield the plans that fit the device."""
    p, (down, across) = problem, two_axes(problem)
    _, outputs, channels = p.leads
    # With rows of pixels that alternate, rows of taps do not share a line of the input.
    most = down.count if down.summed == 1 else 1
    counts = (1, 2, 3), (1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 4)
    for beside, blocks, own, downs in product(*counts):
        groups, taps = beside * blocks, beside * own
        pitch = pitch_of(_PIXELS + (taps - 1) * across.result + ACCESS - 1)
        if groups not in _SUMS or pitch > _SPAN or downs > most:
            continue
        # No warp group is idle in all tiles.
        if taps - own >= across.count or (blocks - 1) * CHANNELS >= channels.size:
            continue
        limit = min(_COLUMNS[groups], 2 * _SUMS[groups] // (own * downs)) // 8 * 8
        if not limit:
            continue
        some = -(-outputs.size // (8 * -(-outputs.size // limit))) * 8
        whole = outputs.size % some == down.count % downs == 0
        shape = blocks, beside, own, downs, down.result, some, pitch
        made = WeightPlan(p.a.dtype, *shape, 1, 1, whole)
        if made.units <= info.max_units:
            yield from _filled(made, _rows_of(p, downs)[1], info)


def _filled(made: WeightPlan, rows: int, info: DeviceInfo) -> Iterator[WeightPlan]:
    """Yield the plan with most stages that fit; ``rows``: the steps of a column of lines."""
    for stages in range(_STAGES, 1, -1):
        # A line is in use for as many steps as it reaches rows, and copies are ahead of these. A
        # column, and a part, begins with the lines above its first one.
        steps = stages + made.reach - 1
        lines = steps + (made.reach - 1) * (1 + -(-steps // rows))
        plan = replace(made, stages=stages, lines=lines)
        if plan.shared_bytes <= info.shared_bytes:
            yield plan
            return


def step_cycles(plan: WeightPlan, read: float) -> float:
    """Return the estimated cycles of a step, of the slowest of three that work side by side.

    Warp groups load and multiply in turns: they wait for the same line, and matrix units serve them
    evenly, so they end together too. Shared memory gives each instruction its columns, the pixels
    of a fragment, and takes the boxes. The cache gives ``read`` bytes.
    """
    columns, turns = plan.downs * plan.outputs, plan.groups * plan.own
    products = turns * CHANNELS * columns * plan.depth / _PRODUCTS
    shared = turns * LINE * (CHANNELS + columns) + plan.x_bytes + plan.g_bytes
    return max(plan.own * _LOADING + products, shared / _SHARED, read / _READ)


def _read(problem: Correlation, plan: WeightPlan) -> float:
    """Return the bytes of a step in lines of the cache, of which a box's row reads whole ones."""
    _, across = two_axes(problem)
    rows, item = _rows_of(problem, plan.downs)[1], int(problem.a.dtype.itemsize)
    span = min(_PIXELS + (plan.acrosses - 1) * across.result, across.size)
    # Rows begin anywhere in a line; those of whole lines are aligned.
    ragged = LINE - ACCESS * item
    of_g: float = min(_PIXELS, across.terms) * item + (ragged if across.terms % _PIXELS else 0)
    of_g *= plan.outputs * (1 + (plan.reach - 1) / rows)
    return plan.channels * (span * item + ragged) + of_g


def _plans(problem: Correlation, info: DeviceInfo) -> Iterator[tuple[float, WeightPlan, int]]:
    """Yield plans with the lines of a part, and their cycles."""
    for plan in _shapes(problem, info):
        lines, tiles = _lines(problem, plan.downs), _tiles(problem, plan)
        step = step_cycles(plan, _read(problem, plan))
        for parts in range(1, _PARTS + 1):
            share = -(-lines // parts)
            if parts > 1 and (share < _LINES or share * (parts - 1) >= lines):
                continue
            cycles = -(-tiles * parts // info.cores) * (share * step + _TILE)
            moved = 8 * parts * problem.size
            yield cycles + _TILE + moved / (info.cores * _MOVED), plan, share


def _work(problem: Correlation, plan: WeightPlan, share: int, info: DeviceInfo) -> Work:
    """Return the work of a plan; ``share``: the lines of a part."""
    p, steps, (down, across) = problem, Steps(), two_axes(problem)
    (_, outputs, channels), images = p.leads, p.depth
    taps, splits = down.count * across.count, -(-_lines(p, plan.downs) // share)
    room = -(-channels.size // WHOLE) * WHOLE
    count = outputs.size * taps * room
    # Sums in the result's layout are written to it directly.
    same = taps == 1 and room == channels.size
    target = target_of(steps, p.a.dtype, 0 if same and splits == 1 else splits * count)
    x_strides, g_strides = (
        [Multiple(stride if size > 1 else ACCESS, ACCESS) for size, stride in axes]
        for axes in _axes(p)
    )
    first_row, rows = _rows_of(p, plan.downs)
    pixels = images.size * down.terms * across.terms
    made = launch(
        conv_weight_tma,
        Grid((_tiles(p, plan), splits, 1), (plan.units, 1, 1), info.planes[0], int32, alone=True),
        Effort(
            f"conv weight tma {plan.channels}x{plan.outputs}",
            2 * outputs.size * channels.size * taps * pixels, p.nbytes,
        ),
        g=operand(1, p.b).aligned(ALIGN), x=operand(0, p.a).aligned(ALIGN),
        c=target.aligned(ALIGN),
        g_sizes=(images.size, outputs.size, down.terms, across.terms), g_strides=g_strides,
        x_sizes=(images.size, channels.size, down.size, across.size), x_strides=x_strides,
        taps=Taps(
            down.count, across.count, down.start, across.start, down.result, across.result,
            down.summed,
        ),
        first_row=first_row, rows=rows,
        share=share, room=Multiple(room, WHOLE), part_step=Multiple(count, WHOLE), plan=plan,
    )  # fmt: skip
    steps.launches.append(made)
    sizes = (1, 1, count, count) if same else (outputs.size, taps, channels.size, room)
    launch_sum(steps, target, p.a.dtype, sizes, splits, count, info)
    return steps.work()
