"""Launches of implicit GEMM by matrix instructions: convolutions and both gradients.

Requirements: the phases of an input gradient share the copies of both operands and one launch,
since each phase alone is too short to fill a device. Few tiles with long sums are split into parts.
A weight gradient sums over the pixels of all images, so its parts are as many as cubes run at the
same time, and not one more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from calor.dtypes import float32
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Effort, Grid, Multiple, launch
from calor_kernel.contract.work import Request, Work, row_major
from calor_kernel.language import index_dtype
from calor_kernel.library.conv.implicit_gemm_mma import (
    conv_fragments,
    conv_weight_fragments,
    run_of,
)
from calor_kernel.library.conv.implicit_gemm_mma_plan import plans_of, together
from calor_kernel.library.conv.implicit_gemm_operands import (
    ACCESS,
    gradient_of,
    image_of,
    in_turn,
    numbers_of,
    phases_of,
    pixels_of,
    terms_of,
    two_axes,
    weights_of,
    windows_of,
)
from calor_kernel.library.conv.padded_rows import Steps
from calor_kernel.library.conv.problem import Convolution, Correlation
from calor_kernel.library.conv.split_sums import WHOLE, add_parts, target_of
from calor_kernel.library.conv.windows import ResultStrides, Strides
from calor_kernel.library.gemm.mma import Fragments

# Minimum of terms of a part of a sum, and maximum of phases of a launch.
_SHARE, _PHASES = 256, 4


def mma_works(one: Convolution, request: Request) -> Iterator[Work]:
    """Yield the works of a problem, the likeliest first."""
    problem, info = one.seen, one.info
    make = _of_weights if problem.by_weight else _of_pixels
    for plan, likely in plans_of(problem, info):
        name = f"{plan.kind} {plan.rows}x{plan.columns}x{plan.depth} by {plan.units}"
        yield replace(make(problem, plan, info), variant=name, group=0 if likely else 1)
        both = plan.grouped and likely and not problem.by_weight and in_turn(problem)
        if both and not joins(problem):
            work = _of_pixels(problem, plan, info, joined=True)
            yield replace(work, variant=f"{name}, joined", group=1)


def joins(problem: Correlation) -> bool:
    """Return whether computing alternating phases together is the first choice."""
    # For half types the gain of pairs is less than the cost of two phases' sums in registers.
    return bool(problem.a.dtype.itemsize == float32.itemsize)


def _of_pixels(
    problem: Correlation, plan: Fragments, info: DeviceInfo, joined: bool = False
) -> Work:
    """Return the launches of a convolution, or of an input gradient with its phases.

    ``joined``: whether two phases are computed together where possible, for any dtype.
    """
    p, dtype, steps = problem, problem.a.dtype, Steps()
    (images, _, outputs), axes = p.leads, two_axes(p)
    # Warp-group instructions truncate float32 to TF32.
    rounded = plan.grouped and plan.dtype is float32
    x = image_of(p, steps, info, rounded)
    block = plan.depth if x.room % plan.depth == 0 else x.room
    weights = weights_of(p, x.room, block, steps, info, rounded)
    phases = phases_of(p, weights)
    halves = 2 if in_turn(p) and (joined or joins(p)) else 1
    tiles = -(-outputs.size // plan.rows) * sum(
        -(-pixels_of(phase.problem) // plan.columns) for phase in phases
    )
    least = min(terms_of(phase.problem, x.room) for phase in phases)
    splits = max(1, min(info.cores // max(tiles, 1), least // _SHARE))
    part_step = -(-p.size // WHOLE) * WHOLE
    target = target_of(steps, dtype, splits * part_step if splits > 1 else 0)
    strides = row_major([lead.size for lead in p.leads] + [axis.count for axis in axes])
    steps_of = ((1,) * (2 - len(p.axes)) + phases[0].steps) if phases else (1, 1)
    to = tuple(s * by for s, by in zip(strides[3:], steps_of, strict=True))
    spans = (images.size * x.strides[0], outputs.size * weights.row, splits * part_step)
    index = index_dtype(*spans, *(pixels_of(phase.problem) for phase in phases))
    pairs = run_of(plan.shape) == 2 and halves == 2 and to[1] == 2 and axes[1].count % 4 == 0
    if len(phases) == 1:
        dense = to == (axes[1].count, 1) and run_of(plan.shape) == 2
        pairs = dense and strides[2] % 2 == 0
    run = halves * (2 if pairs else 1)
    for first in range(0, len(phases), _PHASES):
        some = phases[first : first + _PHASES]
        columns = max(pixels_of(phase.problem) for phase in some)
        work = sum(pixels_of(one.problem) * terms_of(one.problem, x.room) for one in some)
        steps.launches.append(
            launch(
                conv_fragments,
                Grid(
                    (
                        *(-(-columns // plan.columns), -(-outputs.size // plan.rows)),
                        splits * (len(some) // halves),
                    ),
                    (plan.units, 1, 1), info.planes[0], index,
                ),
                Effort(f"conv_fragments {plan.rows}x{plan.columns}", 2 * outputs.size * work),
                w=weights.bound.aligned(ACCESS), x=x.bound.aligned(ACCESS),
                c=target.aligned(ACCESS if run > 1 else 0),
                rows_total=outputs.size, w_row=Multiple(weights.row, plan.access), splits=splits,
                part_step=Multiple(part_step, run),
                result=ResultStrides(Multiple(strides[2], run), Multiple(strides[0], run), *to),
                strides=Strides(*(Multiple(n, plan.access) for n in x.strides)),
                phases=[
                    numbers_of(phase, x.room, block, weights, splits, plan.depth, strides[3:])
                    for phase in some
                ],
                plan=plan, pairs=pairs, halves=halves, ragged=outputs.size % plan.rows != 0,
            )
        )  # fmt: skip
    add_parts(steps, target, dtype, (1, 1, p.size, part_step), splits, part_step, info)
    return steps.work()


def _of_weights(problem: Correlation, plan: Fragments, info: DeviceInfo) -> Work:
    """Return the launches of a weight gradient."""
    p, dtype, steps = problem, problem.a.dtype, Steps()
    (_, outputs, channels), axes, images = p.leads, two_axes(p), p.depth
    x = image_of(p, steps, info)
    g = gradient_of(p, steps, info)
    taps = axes[0].count * axes[1].count
    terms, columns = images.size * axes[0].terms * axes[1].terms, taps * x.room
    tiles = -(-outputs.size // plan.rows) * -(-columns // plan.columns)
    # One cube more than run at the same time would double the time.
    slots = info.cores * together(plan, info)
    splits = slots // tiles
    if splits == 1 and info.cores < tiles < slots * 3 // 4:
        # Some cores have one cube more than others; with two parts a cube is half as long.
        splits = 2
    splits = max(1, min(splits, terms // _SHARE))
    share = -(-terms // (splits * plan.depth)) * plan.depth
    splits = max(1, -(-terms // share))
    count = outputs.size * columns
    # Sums in the result's layout are written to it directly.
    same = taps == 1 and x.room == channels.size
    target = target_of(steps, dtype, splits * count if splits > 1 or not same else 0)
    index = index_dtype(images.size * x.strides[0], terms * g.room, splits * count, columns)
    down, across = (
        replace(a, count=a.terms, terms=a.count, result=a.summed, summed=a.result) for a in axes
    )

    def wide(n: int) -> Multiple:
        return Multiple(n, plan.access)

    steps.launches.append(
        launch(
            conv_weight_fragments,
            Grid(
                (-(-columns // plan.columns), -(-outputs.size // plan.rows), splits),
                (plan.units, 1, 1), info.planes[0], index,
            ),
            Effort(
                f"conv_weight_fragments {plan.rows}x{plan.columns}",
                2 * outputs.size * columns * terms,
            ),
            g=g.bound.aligned(ACCESS), x=x.bound.aligned(ACCESS), c=target.aligned(ACCESS),
            rows_total=outputs.size, columns_total=wide(columns), terms=terms, splits=splits,
            share=share, part_step=wide(count), g_place=wide(g.room),
            strides=Strides(*map(wide, x.strides)), windows=windows_of((down, across), x.room),
            plan=plan,
        )
    )  # fmt: skip
    sizes = (1, 1, count, count) if same else (outputs.size, taps, channels.size, x.room)
    add_parts(steps, target, dtype, sizes, splits, count, info)
    return steps.work()
