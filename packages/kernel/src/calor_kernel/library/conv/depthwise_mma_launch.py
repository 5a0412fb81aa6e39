"""Launches of depthwise convolutions by matrix instructions: which problems they suit, and tiles.

Requirements: a tile's border and the lines that fill products up are a small share of it; all cores
have work; several cubes share a core, so that some compute while others wait for what they stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import gcd, prod

from calor.dtypes import bfloat16, float16
from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds, greatest, hinted
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, operand
from calor_kernel.contract.work import Output, Request, View, Work, row_major
from calor_kernel.library.conv.depthwise_mma import (
    COLUMNS,
    LINES,
    BandPlan,
    Window,
    depthwise_bands,
    depthwise_weight_bands,
)
from calor_kernel.library.conv.depthwise_tiles_launch import (
    oriented,
    wide_of,
)
from calor_kernel.library.conv.direct_blocks import Line
from calor_kernel.library.conv.direct_blocks_launch import reach
from calor_kernel.library.conv.problem import Axis, Convolution, Correlation
from calor_kernel.library.conv.split_sums import ending, launch_parts, parts_of
from calor_kernel.library.conv.vector_tiles import Strides
from calor_kernel.library.gemm.mma import ACCESS, instruction_for, loads_together
from calor_kernel.library.steps import Steps

# Taps of a window from which units that multiply alone take longer than memory, and of a line at
# most: a product has 16 inputs for 8 outputs.
_TAPS, _LINE = 25, LINES - COLUMNS + 1
# Pixels of products for five pixels of the image, beyond which they are too empty.
_PADDED = 11
# Planes of a cube; cubes of a core, also of planes with the sums of two channels; and bytes of
# shared memory of a cube at most.
_PLANES, _TOGETHER, _FEWER, _BYTES = 8, 4, 3, 40960
# Rows, columns and channels of a tile at most; a plane has the sums of two channels.
_ROWS, _COLUMNS, _CHANNELS = 64, 64, 2 * _PLANES
# Instructions for a staged element or access, of a product's lines, and of a cube beside them.
_STAGED, _PRODUCT, _WRITTEN, _FIXED = 10, 2, 24, 200


def bands_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a problem is not computed by matrix instructions, None if it is."""
    p, info = one.seen, one.info
    if len(p.axes) != 2:
        return "it has not two spatial axes"
    groups, outputs, _ = (p.leads[role] for role in p.roles)
    inputs = p.leads[2] if p.by_weight else p.depth
    if groups.size == 1 or outputs.size != 1 or inputs.size != 1:
        return "it is not depthwise"
    if p.a.dtype not in (float16, bfloat16) or p.b.dtype is not p.a.dtype:
        return f"no matrix instruction takes {p.a.dtype}"
    needed = ("matrix", "barrier", "planes")
    if not all(map(info.has, needed)) or not loads_together(info) or info.max_units < 32 * _PLANES:
        return "the device has no matrix instructions of planes that load operands together"
    if instruction_for({p.a.dtype}, info):
        return "the device's instruction has another shape"
    axes = _two(p)
    if any(a.divide != 1 or a.result != 1 or abs(a.summed) != 1 for a in axes):
        return "its windows are strided or dilated"
    if prod(a.terms for a in axes) < _TAPS or axes[1].terms > _LINE:
        return f"its window has fewer than {_TAPS} taps, or more than {_LINE} in a line"
    if axes[0].terms > _LINE:
        return f"its window has more than {_LINE} lines"
    lines, columns = (hinted(axis.count) for axis in axes)
    padded = -(-lines // LINES) * LINES * (-(-columns // COLUMNS) * COLUMNS)
    if exceeds(5 * padded, _PADDED * lines * columns):
        return "its images fill few lines of a product"
    return None if next(_fitting(p, info), None) is not None else "no tile fits shared memory"


def bands_works(one: Convolution, request: Request) -> list[Work]:
    """Return the work of a problem that :func:`bands_refusal` accepts."""
    steps = Steps()
    plan = min(_fitting(one.seen, one.info), key=lambda found: found[0])[1]
    (_weights if one.seen.by_weight else _pixels)(one, plan, steps)
    return [steps.work()]


def _two(p: Correlation) -> tuple[Axis[int], Axis[int]]:
    """Return the axes of outputs of images."""
    down, across = oriented(p)
    return down, across


def _window(axis: Axis[int], align: int) -> Window:
    """Return an axis of the window, met from a place on that is a multiple of ``align``."""
    low = axis.start + min(axis.summed * (axis.terms - 1), 0)
    shift = low % align
    return Window(axis.terms, low - shift, shift, axis.summed < 0)


def _run(view: View, line: Axis[int], size: int, step: int, low: int, others: Sequence[int]) -> int:
    """Return the adjacent columns of an access; ``others``: the strides of all other axes."""
    if step != 1:
        return 1
    run = ACCESS // int(view.dtype.itemsize)
    while run > 1 and any(n % run for n in (size, view.offset, low, *others)):
        run //= 2
    return run


def _fitting(p: Correlation, info: DeviceInfo) -> Iterator[tuple[float, BandPlan]]:
    """Yield the tiles that fit, with their estimated instructions."""
    down, across = axes = _two(p)
    images, groups = (p.depth, p.leads[0]) if p.by_weight else (p.leads[0], p.leads[1])
    # Lines begin where accesses are aligned, if a product has room for that.
    align = next(n for n in (4, 2, 1) if across.terms + _window(across, n).shift <= _LINE)
    windows = _window(down, 1), _window(across, align)
    lows = windows[0].low, windows[1].low
    wide, run = [1, 1], [1, 1]
    wide[0] = wide_of(p.a, (groups.size, groups.a), [images.a, *(axis.a for axis in axes)])
    run[0] = _run(p.a, across, across.size, across.a, lows[1], (images.a, groups.a, down.a))
    if p.by_weight:
        strides = [images.b, *(axis.b for axis in p.axes)]
        wide[1] = wide_of(p.b, (groups.size, groups.b), strides)
        run[1] = _run(p.b, across, across.count, p.axes[1].b, 0, (images.b, groups.b, p.axes[0].b))
    counts = hinted(down.count), hinted(across.count)
    channels = 1
    while channels <= min(_CHANNELS, hinted(groups.size)):
        for rows in range(LINES, min(_ROWS, counts[0] + LINES - 1) + 1, LINES):
            for columns in range(COLUMNS, min(_COLUMNS, counts[1] + COLUMNS - 1) + 1, COLUMNS):
                made = BandPlan(
                    p.a.dtype, windows, rows, columns, channels, _PLANES,
                    (gcd(wide[0], channels), gcd(wide[1], channels)),
                )  # fmt: skip
                tiles = -(-counts[0] // rows) * -(-counts[1] // columns)
                made = replace(
                    made,
                    run=(run[0] if made.wide[0] == 1 else 1, run[1] if made.wide[1] == 1 else 1),
                    whole=_whole(axes, made),
                )
                staged = [made.tile, *([made.given] if p.by_weight else [])]
                held = sum(one.channels * one.plane for one in staged) * p.a.dtype.itemsize
                taps = windows[0].taps * windows[1].taps
                room = _PLANES * (LINES * COLUMNS + taps) * 4 if p.by_weight else 0
                if held + room > min(_BYTES, info.shared_of(_TOGETHER)):
                    continue
                cubes = tiles * hinted(images.size) * -(-hinted(groups.size) // channels)
                cost = 0.0
                for one, size in zip(staged, ((down.size, across.size), counts), strict=False):
                    area = one.rows * one.columns
                    if made.whole:
                        area = hinted(size[0]) * hinted(size[1])
                    # Units store each element of adjacent channels, and copy adjacent columns.
                    each = _STAGED + 3 * one.wide if one.wide > 1 else _STAGED
                    cost += channels * area / (one.wide * one.run) / 32 * each
                    # Transactions of which a part is used are moved whole.
                    if one.wide < (wide[0] if one is staged[0] else wide[1]):
                        cost *= 2
                each = windows[0].taps * _PRODUCT + (0 if p.by_weight else _WRITTEN)
                cost += channels * made.blocks * each
                yield max(cubes, 2 * info.cores) * (cost + _PLANES * _FIXED), made
        channels *= 2


def _whole(axes: Sequence[Axis[int]], plan: BandPlan) -> bool:
    """Return whether a tile has the whole image, so that what is around it stays zero."""
    made = zip(axes, plan.windows, (plan.rows, plan.columns), strict=True)
    sizes = plan.tile.rows, plan.tile.columns
    return all(
        axis.count <= size and window.low <= 0 and axis.size - window.low <= held
        for (axis, window, size), held in zip(made, sizes, strict=True)
    )


def _counts(p: Correlation, plan: BandPlan) -> list[int]:
    """Return the tiles of an image down and across."""
    axes = zip(_two(p), (plan.rows, plan.columns), strict=True)
    return [-(-axis.count // size) for axis, size in axes]


def _name(kind: str, plan: BandPlan) -> str:
    return f"depthwise {kind} {plan.rows}x{plan.columns}x{plan.channels}"


def _aligned(number: int, view: View, plan: BandPlan) -> Bound:
    """Return an operand that is read in the accesses of a tile."""
    count = max(plan.wide[number], plan.run[number])
    return operand(number, view).aligned(count * view.dtype.itemsize if count > 1 else 0)


def _pixels(one: Convolution, plan: BandPlan, steps: Steps) -> None:
    """Add the launch of a convolution or of an input gradient."""
    p, info, axes = one.seen, one.info, _two(one.seen)
    images, groups, _ = p.leads
    dtype = p.a.dtype
    counts = [-(-groups.size // plan.channels), *_counts(p, plan)]
    strides = row_major([*(lead.size for lead in p.leads), *(axis.count for axis in axes)])
    cubes = images.size * prod(counts)
    index = kl.index_dtype(reach(p.a), reach(p.b), p.size, cubes)
    nbytes = (p.a.size + p.b.size + p.size) * dtype.itemsize
    run = 2 if axes[1].count % 2 == 0 else 1
    target, following = ending(Bound(Output(0), dtype), one.tail, run)
    steps.add(
            depthwise_bands,
            Grid((cubes, 1, 1), (plan.units, 1, 1), info.planes[0], index),
            Effort(_name("bands", plan), 2 * p.size * p.terms, nbytes),
            x=_aligned(0, p.a, plan), of_x=[axes[0].size, -(-axes[1].size // plan.run[0])],
            w=operand(1, p.b), c=target, groups=groups.size, parts=counts,
            x_steps=Strides(images.a, groups.a, 0), w_step=groups.b,
            c_steps=Strides(strides[0], strides[1], strides[2]),
            lines=[
                Line(axis.count, axis.size, axis.a, axis.b, to)
                for axis, to in zip(axes, strides[3:], strict=True)
            ],
            plan=plan, run=run, together=_TOGETHER, **following,
        )  # fmt: skip


def _weights(one: Convolution, plan: BandPlan, steps: Steps) -> None:
    """Add the launches of a weight gradient."""
    p, info, axes = one.seen, one.info, _two(one.seen)
    groups, images, dtype = p.leads[0], p.depth, p.a.dtype
    chunks, counts = -(-groups.size // plan.channels), _counts(p, plan)
    items = images.size * prod(counts)
    parts = parts_of(steps, p, items, _TOGETHER * info.cores // greatest(chunks, 1))
    index = kl.index_dtype(reach(p.a), reach(p.b), parts.size, items)
    nbytes = (p.a.size + p.b.size + p.size) * dtype.itemsize
    steps.add(
            depthwise_weight_bands,
            Grid((chunks, parts.splits, 1), (plan.units, 1, 1), info.planes[0], index),
            Effort(_name("weight bands", plan), 2 * p.size * p.terms, nbytes),
            x=_aligned(0, p.a, plan), g=_aligned(1, p.b, plan), c=parts.target,
            of_x=[axes[0].size, -(-axes[1].size // plan.run[0])],
            of_g=[axes[0].count, -(-axes[1].count // plan.run[1])], stages=1,
            groups=groups.size, items=parts.items, parts=counts,
            x_steps=Strides(images.a, groups.a, 0), g_steps=Strides(images.b, groups.b, 0),
            lines=[Line(a.count, a.size, a.a, 0, a.b) for a in axes],
            plan=plan, together=_TOGETHER if plan.turns == 1 else _FEWER,
        )  # fmt: skip
    launch_parts(steps, p, parts, info)
