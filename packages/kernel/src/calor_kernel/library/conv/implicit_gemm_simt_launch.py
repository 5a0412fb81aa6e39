"""Launches of SIMT implicit GEMM: convolutions and both gradients.

Requirements: for float32 operands that are not rounded, or for devices without a suitable matrix
instruction. Images are read in place. Weights are read from a copy with dense rows, which is cached
for constants. The stride phases of an input gradient share a launch. For a weight gradient nothing
is copied; if the channels of a tap fill lines of a tile, many lines share the tap's coordinates.
Sums in parts are added in a fixed order, and transposed to the layout of the weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd

from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, Multiple, launch, operand
from calor_kernel.contract.work import Request, View, Work, row_major
from calor_kernel.language import index_dtype
from calor_kernel.library.conv.channels_last import last_launch
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
    conv_patches,
    conv_weight_patches,
)
from calor_kernel.library.conv.implicit_gemm_simt_plan import plans_of
from calor_kernel.library.conv.padded_rows import Steps
from calor_kernel.library.conv.problem import Axis, Convolution, Correlation
from calor_kernel.library.conv.split_sums import ALIGN, add_parts, target_of
from calor_kernel.library.conv.windows import ResultStrides, Strides
from calor_kernel.library.gemm.simt_plan import FOUR, Patches
from calor_kernel.library.matmul.ranking import name_of

# Maximum of phases of a launch.
_PHASES = 4


def simt_works(one: Convolution, request: Request) -> Iterator[Work]:
    """Yield the works of a problem, the likeliest first."""
    make = _of_weights if one.seen.by_weight else _of_pixels
    for plan, splits, group in plans_of(one.seen, one.info):
        # The number of parts follows from sizes, so it makes no further candidate.
        yield replace(make(one.seen, plan, splits, one.info), variant=name_of(plan), group=group)


def _effort(problem: Correlation, plan: Patches, flops: int) -> Effort:
    p = problem
    nbytes = (p.a.size + p.b.size + p.size) * p.a.dtype.itemsize
    return Effort(f"conv patches {plan.rows}x{plan.columns}", flops, nbytes)


def _reach(view: View) -> int:
    """Return the distance of a view's last element from its first."""
    return sum((n - 1) * abs(s) for n, s in zip(view.shape, view.strides, strict=True))


def _rows_of_weights(problem: Correlation, block: int, steps: Steps, info: DeviceInfo) -> Weights:
    """Return weights with dense output channels, copied unless they are dense; ``row``: of those.

    ``block``: the channels of a tap before the next one.
    """
    p, (down, across) = problem, two_axes(problem)
    source, rows, taps = operand(1, p.b), p.leads[2], (down.terms, across.terms)
    access = ALIGN // p.b.dtype.itemsize
    aligned = all(n % access == 0 for n in (rows.size, p.depth.b, p.b.offset))
    if taps == (1, 1) and rows.b == 1 and aligned:
        return Weights(source, p.depth.b, block * p.depth.b, (0, 0))
    room = -(-rows.size // access) * access
    channel = taps[0] * taps[1] * room
    target = steps.memory(p.depth.size * channel * p.b.dtype.itemsize)
    steps.launches.append(
        last_launch(
            source.place, target, p.b.dtype, (1, rows.size, taps), (0, rows.b, (down.b, across.b)),
            room, 1, info, True, False, (p.depth.size, p.depth.b),
        )
    )  # fmt: skip
    return Weights(Bound(target, p.b.dtype), channel, block * channel, (taps[1] * room, room))


def _of_pixels(problem: Correlation, plan: Patches, splits: int, info: DeviceInfo) -> Work:
    """Return the launches of a convolution, or of an input gradient with its phases."""
    p, dtype, steps = problem, problem.a.dtype, Steps()
    (images, _, outputs), axes, channels = p.leads, two_axes(p), p.depth
    # The channels of a tap before the next tap: those of a step, or all.
    block = plan.depth if channels.size % plan.depth == 0 else channels.size
    weights = _rows_of_weights(p, block, steps, info)
    strides = row_major([lead.size for lead in p.leads] + [axis.count for axis in axes])
    part_step = -(-p.size // FOUR) * FOUR
    target = target_of(steps, dtype, splits * part_step if splits > 1 else 0)
    spans = (_reach(p.a), channels.size * weights.row, splits * part_step)
    index = index_dtype(*spans, p.terms + 4 * plan.depth)
    phases = phases_of(p, weights)
    run = FOUR if len(phases) == 1 and axes[0].count * axes[1].count % FOUR == 0 else 1
    by = (1,) * (2 - len(p.axes)) + phases[0].steps
    to = (step * n for step, n in zip(strides[3:], by, strict=True))
    result = ResultStrides(Multiple(strides[2], run), Multiple(strides[0], run), *to)
    for begin in range(0, len(phases), _PHASES):
        some = phases[begin : begin + _PHASES]
        columns = max(pixels_of(one.problem) for one in some)
        work = sum(pixels_of(one.problem) * terms_of(one.problem, channels.size) for one in some)
        cubes = -(-columns // plan.columns) * len(some), -(-outputs.size // plan.rows), splits
        steps.launches.append(
            launch(
                conv_patches,
                Grid(cubes, (plan.units, 1, 1), info.planes[0], index),
                _effort(p, plan, 2 * outputs.size * work),
                w=weights.bound.aligned(ALIGN), x=operand(0, p.a), c=target.aligned(ALIGN),
                rows_total=outputs.size, part_step=Multiple(part_step, FOUR), result=result,
                w_channel=Multiple(weights.row, FOUR), x_channel=channels.a,
                strides=Strides(images.a, axes[0].a, axes[1].a),
                phases=[
                    numbers_of(
                        phase, channels.size, block, weights, splits, plan.depth, strides[3:]
                    )
                    for phase in some
                ],
                plan=plan, even=block == plan.depth, run=run,
            )
        )  # fmt: skip
    add_parts(steps, target, dtype, (1, 1, p.size, part_step), splits, part_step, info)
    return steps.work()


def _inside(axis: Axis) -> bool:
    """Return whether all positions that an axis reads are inside the image."""
    last = (axis.count - 1) * axis.result + (axis.terms - 1) * axis.summed + axis.start
    forward = axis.result >= 0 and axis.summed >= 0
    return bool(forward and axis.start >= 0 and last < axis.size)


def _of_weights(problem: Correlation, plan: Patches, splits: int, info: DeviceInfo) -> Work:
    """Return the launches of a weight gradient, with sums in ``splits`` parts."""
    p, dtype, steps = problem, problem.a.dtype, Steps()
    (_, outputs, channels), axes = p.leads, two_axes(p)
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
    part_step = outputs.size * row
    target = target_of(steps, dtype, splits * part_step if parted else 0)
    share = -(-p.terms // (splits * plan.depth)) * plan.depth
    index = index_dtype(_reach(p.a), _reach(p.b), splits * part_step, p.terms + 4 * plan.depth)
    run = FOUR if row % FOUR == 0 else 1
    parts = -(-p.terms // share)
    cubes = (-(-columns // plan.columns), -(-outputs.size // plan.rows), parts)
    down, across = (GradientAxis(a.result, a.summed, a.start, a.size, a.a, a.b) for a in axes)
    steps.launches.append(
        launch(
            conv_weight_patches,
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
            ),
        )
    )  # fmt: skip
    sizes = (outputs.size, 1, columns, wide)
    if alike and taps > 1:
        sizes = (outputs.size, taps, channels.size, room)
    add_parts(steps, target, dtype, sizes, parts, part_step, info)
    return steps.work()
