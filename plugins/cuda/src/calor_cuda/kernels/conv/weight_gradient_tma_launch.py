"""Launches of weight gradients by TMA, and the weight gradients that it can feed.

Requirements: TMA takes rows that begin at multiples of 16 bytes, and a line of pixels has no gaps.
Where most pixels of the lines would lie beyond the rows, and where copies with each tap as a row
stay in the cache, another way comes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from calor.dtypes import float32, int32
from calor_cuda.kernels.conv.weight_gradient_gemm import copies_first
from calor_cuda.kernels.conv.weight_gradient_tma import Taps, WeightPlan, conv_weight_tma
from calor_cuda.kernels.warpgroup import LINE
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Effort, Grid, Multiple, launch, operand
from calor_kernel.contract.work import Request, Work
from calor_kernel.library.conv.implicit_gemm_operands import two_axes
from calor_kernel.library.conv.problem import Convolution, Correlation
from calor_kernel.library.conv.split_sums import ALIGN, WHOLE, launch_sum, target_of
from calor_kernel.library.steps import Steps

_NEEDED = ("async_matrix", "tensor_copy", "mbarrier", "barrier", "planes")
# Elements of 16 bytes, and the pixels of a line.
_ACCESS, _PIXELS = 4, LINE // 4
# With fewer channels most of a tile would be empty; the share of a line's pixels that rows have.
_LEAST, _FILLED = 64, 0.75
# Columns of sums of a tile, its stages, and the minimum of lines of a part.
_COLUMNS, _STAGES, _LINES = 256, 6, 8
# Maximum of parts, and the number of plans to time.
_PARTS, _TIMED = 128, 3
# Positions in tensors and results are 32-bit numbers.
_MOST = 1 << 31
# For a core of an H200: bytes of products computed in a cycle, and bytes read from the cache; the
# overhead cycles of a tile, and the bytes of parts moved in a cycle.
_COMPUTED, _READ, _TILE, _MOVED = 4096, 40, 2500, 10


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
        if view.offset % _ACCESS or any(s % _ACCESS or s < row for s in strides):
            return False
    return True


def weight_tma_works(one: Convolution, request: Request) -> Iterator[Work]:
    """Yield the works of a suitable weight gradient, the likeliest first."""
    problem, info = one.seen, one.info
    found = sorted(_plans(problem, info), key=lambda made: made[0])
    best: dict[WeightPlan, int] = {}
    for _, plan, share in found:
        best.setdefault(plan, share)
    first = not copies_first(problem)
    for plan, share in list(best.items())[: _TIMED if request.candidates else 1]:
        splits = -(-_lines(problem) // share)
        name = f"lines, {plan.rows}x{plan.channels} of {plan.taps} taps in {splits}"
        yield replace(_work(problem, plan, share, info), variant=name, group=int(not first))


def _lines(problem: Correlation) -> int:
    down, across = two_axes(problem)
    return int(problem.depth.size * down.terms * -(-across.terms // _PIXELS))


def _plans(problem: Correlation, info: DeviceInfo) -> Iterator[tuple[float, WeightPlan, int]]:
    """Yield plans with the lines of a part, and their cycles."""
    (_, outputs, channels), (down, across) = problem.leads, two_axes(problem)
    lines = _lines(problem)
    for rows in (64, 128) if outputs.size > _LEAST else (64,):
        for some in (64, 128, 256):
            together = [n for n in range(1, 5) if across.count % n == 0 and n * some <= _COLUMNS]
            if not together or some >= 2 * channels.size:
                continue
            made = WeightPlan(problem.a.dtype, rows, some, together[-1], 2)
            stages = (info.shared_bytes - 1024) // (LINE * (rows + made.columns))
            if stages < 2 or made.units > info.max_units:
                continue
            plan = replace(made, stages=min(stages, _STAGES))
            tiles = -(-outputs.size // rows) * -(-channels.size // some)
            tiles *= down.count * (across.count // plan.taps)
            computed = rows * plan.columns / _COMPUTED
            step = LINE * max(computed, (rows + plan.columns) / _READ)
            for parts in range(1, _PARTS + 1):
                share = -(-lines // parts)
                if parts > 1 and (share < _LINES or share * (parts - 1) >= lines):
                    continue
                cycles = -(-tiles * parts // info.cores) * (share * step + _TILE)
                moved = 8 * parts * outputs.size * channels.size * down.count * across.count
                yield cycles + _TILE + moved / (info.cores * _MOVED), plan, share


def _work(problem: Correlation, plan: WeightPlan, share: int, info: DeviceInfo) -> Work:
    """Return the work of a plan; ``share``: the lines of a part."""
    p, steps, (down, across) = problem, Steps(), two_axes(problem)
    (_, outputs, channels), images = p.leads, p.depth
    taps, splits = down.count * across.count, -(-_lines(p) // share)
    room = -(-channels.size // WHOLE) * WHOLE
    count = outputs.size * taps * room
    # Sums in the result's layout are written to it directly.
    same = taps == 1 and room == channels.size
    target = target_of(steps, p.a.dtype, 0 if same and splits == 1 else splits * count)
    x_strides, g_strides = (
        [Multiple(stride if size > 1 else _ACCESS, _ACCESS) for size, stride in axes]
        for axes in _axes(p)
    )
    tiles = -(-outputs.size // plan.rows) * -(-room // plan.channels)
    tiles *= down.count * (across.count // plan.taps)
    pixels = images.size * down.terms * across.terms
    made = launch(
        conv_weight_tma,
        Grid((tiles, splits, 1), (plan.units, 1, 1), info.planes[0], int32, alone=True),
        Effort(
            f"conv weight tma {plan.rows}x{plan.columns}",
            2 * outputs.size * channels.size * taps * pixels,
        ),
        g=operand(1, p.b).aligned(ALIGN), x=operand(0, p.a).aligned(ALIGN),
        c=target.aligned(ALIGN),
        g_sizes=(images.size, outputs.size, down.terms, across.terms), g_strides=g_strides,
        x_sizes=(images.size, channels.size, down.size, across.size), x_strides=x_strides,
        taps=Taps(
            down.count, across.count, down.start, across.start, down.result, across.result,
            down.summed,
        ),
        share=share, room=Multiple(room, WHOLE), part_step=Multiple(count, WHOLE), plan=plan,
    )  # fmt: skip
    steps.launches.append(made)
    sizes = (1, 1, count, count) if same else (outputs.size, taps, channels.size, room)
    launch_sum(steps, target, p.a.dtype, sizes, splits, count, info)
    return steps.work()
