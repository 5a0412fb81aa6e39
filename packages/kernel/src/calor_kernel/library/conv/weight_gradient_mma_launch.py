"""Launches of weight gradients by matrix instructions, with parts of long sums.

Requirements: the pixels of all images are summed, so there are few tiles with long sums. They are
cut into as many parts as cubes run at the same time, and not one more.
"""

from __future__ import annotations

from dataclasses import replace

from calor.dtypes import float32
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Input, Output
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import index_dtype
from calor_kernel.library.conv.mma_operands import last, launch, two_axes, wide, windows
from calor_kernel.library.conv.mma_tiles import together
from calor_kernel.library.conv.padded_rows import Steps
from calor_kernel.library.conv.problem import Correlation
from calor_kernel.library.conv.split_sums import sums_launch
from calor_kernel.library.conv.weight_gradient_mma import conv_weight_fragments
from calor_kernel.library.gemm.mma import Fragments

# Minimum of pixels of a part of a sum.
_SHARE = 256


def of_weights(problem: Correlation, plan: Fragments, steps: Steps, info: DeviceInfo) -> None:
    """Add the launches of the weight gradient."""
    p, dtype = problem, problem.a.dtype
    _, outputs, channels = p.leads
    axes, images = two_axes(p), p.depth
    x = last(
        Input(0, p.a.offset), dtype,
        (images.size, channels.size, (axes[0].size, axes[1].size)),
        (images.a, channels.a, (axes[0].a, axes[1].a)), steps, info,
    )  # fmt: skip
    taps = axes[0].count * axes[1].count
    places = axes[0].terms * axes[1].terms
    g = last(
        Input(1, p.b.offset), dtype,
        (images.size, outputs.size, (axes[0].terms, axes[1].terms)),
        (images.b, outputs.b, (axes[0].b, axes[1].b)), steps, info, whole=True,
    )  # fmt: skip
    terms, columns = images.size * places, taps * x.room
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
    parts = splits > 1 or taps > 1 or x.room != channels.size
    result: Argument = Output(0)
    if parts:
        result = steps.memory(splits * count * float32.itemsize)
    index = index_dtype(images.size * x.strides[0], terms * g.room, splits * count, columns)
    seen = tuple(replace(a, count=a.terms, terms=a.count) for a in axes)
    whole, numbers = windows(x, seen, [(a.summed, a.result) for a in axes], x.room, index)
    size, access = Scalar(index, nonnegative=True), wide(index, plan)
    own = (outputs.size, columns, terms, splits, share, count, g.room, *x.strides)
    signature = (
        size,
        access,
        size,
        size,
        size,
        access,
        access,
        *(Scalar(index, divisible=plan.access),) * 3,
    )
    cubes = (-(-columns // plan.columns), -(-outputs.size // plan.rows), splits)
    flops = 2 * outputs.size * columns * terms
    steps.launches.append(
        launch(
            conv_weight_fragments, (("plan", plan),), plan, (g.place, x.place, result),
            Buffer(float32 if parts else dtype, align=16),
            ((*signature, *whole), (*own, *numbers)), index, cubes, flops, info,
        )
    )  # fmt: skip
    if parts:
        sizes = (outputs.size, taps, channels.size, x.room)
        if taps == 1 and x.room == channels.size:
            sizes = (1, 1, count, count)
        steps.launches.append(sums_launch(result, dtype, sizes, splits, count, info))
