"""Launches of SIMT weight gradients.

Requirements: nothing is copied first. If the channels of a tap fill lines of a tile, many lines
share the tap's coordinates. Sums over the pixels of all images are cut into parts; one launch adds
them in a fixed order and transposes them to the layout of the weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd
from typing import Any, Final

from calor.dtypes import float32
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Input, Launch, Output, Work
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import FastDivmod, index_dtype
from calor_kernel.library.conv.implicit_gemm_simt_plans import in_order, plans_of, suits
from calor_kernel.library.conv.mma_operands import two_axes
from calor_kernel.library.conv.padded_rows import Steps
from calor_kernel.library.conv.problem import Axis, Correlation
from calor_kernel.library.conv.split_sums import ALIGN, sums_launch
from calor_kernel.library.conv.weight_gradient_simt import conv_weight_patches
from calor_kernel.library.gemm.simt_plan import FOUR, Patches
from calor_kernel.library.matmul.ranking import name_of

# Plans and rates, as in ``implicit_gemm_simt_launch``.
_AHEAD: Final[dict[tuple[int, ...], float]] = {
    (16, 16, 4, 2, 16, 3): 1.0,
    (16, 16, 2, 2, 16, 3): 0.99,
    (8, 16, 2, 2, 16, 3): 0.97,
    (16, 8, 2, 2, 16, 3): 0.97,
    (8, 16, 2, 3, 16, 3): 0.97,
    (16, 8, 1, 2, 16, 3): 0.87,
}
_LOADED: Final[dict[tuple[int, ...], float]] = {
    (16, 16, 4, 2, 8, 2): 1.0,
    (16, 16, 2, 4, 8, 2): 1.0,
    (16, 16, 2, 2, 8, 2): 0.92,
    (8, 16, 2, 2, 8, 2): 0.89,
    (16, 8, 2, 2, 8, 2): 0.89,
    (16, 8, 1, 2, 8, 2): 0.8,
}
_MORE: Final[tuple[tuple[int, ...], ...]] = (
    *((16, 16, 2, 4, 16, 3), (8, 16, 2, 4, 16, 3)),
    *((16, 16, 2, 2, 8, 2), (16, 16, 2, 2, 8, 4), (16, 16, 1, 2, 16, 3)),
    *((8, 16, 2, 2, 8, 4), (16, 8, 2, 2, 8, 4)),
)


def weights_by_patches(problem: Correlation, info: DeviceInfo, wanted: bool) -> Iterator[Work]:
    """Yield the works of a problem, the likeliest first; ``wanted``: more than one."""
    if not problem.by_weight or not suits(problem, info):
        return
    usual = plans_of(_AHEAD if info.has("async_copy") else _LOADED, info)
    if not usual:
        return
    axes = two_axes(problem)
    taps = axes[0].count * axes[1].count
    sizes = (problem.leads[1].size, problem.leads[2].size * taps, problem.terms, 1, problem.size)
    more = plans_of(dict.fromkeys(_MORE, 1.0), info)
    for plan, parts, group in in_order(usual, more, sizes, info.cores, wanted):
        yield _work(problem, plan, parts, info, group)


def _inside(axis: Axis) -> bool:
    """Return whether all positions that an axis reads are inside the image."""
    last = (axis.count - 1) * axis.result + (axis.terms - 1) * axis.summed + axis.start
    forward = axis.result >= 0 and axis.summed >= 0
    return bool(forward and axis.start >= 0 and last < axis.size)


def _work(problem: Correlation, plan: Patches, splits: int, info: DeviceInfo, group: int) -> Work:
    """Return the launches of a plan, with sums in ``splits`` parts."""
    p, steps, axes = problem, Steps(), two_axes(problem)
    _, outputs, channels = p.leads
    taps = axes[0].count * axes[1].count
    # Adjacent lines of the units' copies; those of a tap in a tile, or 0 if others lie between.
    apart = plan.units // plan.depth
    alike = 0
    room = -(-channels.size // FOUR) * FOUR
    if taps == 1:
        alike, room = plan.columns, -(-room // plan.columns) * plan.columns
    elif room % apart == 0:
        alike = gcd(room, plan.columns)
    columns = taps * (room if alike else channels.size)
    if taps == 1:
        columns = channels.size
    wide = -(-columns // FOUR) * FOUR
    parted = splits > 1 or (taps > 1 and alike > 0)
    result: Argument = Output(0)
    row = wide if parted else columns
    part_step = outputs.size * row
    if parted:
        result = steps.memory(splits * part_step * float32.itemsize)
    share = -(-p.terms // (splits * plan.depth)) * plan.depth
    reach = [
        sum((n - 1) * abs(s) for n, s in zip(v.shape, v.strides, strict=True)) for v in (p.a, p.b)
    ]
    index = index_dtype(*reach, splits * part_step, p.terms + 4 * plan.depth)
    run = FOUR if row % FOUR == 0 else 1
    size, stride = Scalar(index, nonnegative=True), Scalar(index)
    together = Scalar(index, nonnegative=True, divisible=run)
    own: list[tuple[Scalar, int]] = [
        *((size, outputs.size), (size, columns), (size, p.terms), (size, share)),
        *((together, part_step), (together, row), (stride, outputs.b), (stride, channels.a)),
        (size, channels.size),
    ]
    for axis in axes:
        own += [(stride, axis.result), (stride, axis.summed), (stride, axis.start)]
        own += [(size, axis.size), (stride, axis.a), (stride, axis.b)]
    own += [(stride, p.depth.a), (stride, p.depth.b)]
    signature, numbers = [kind for kind, _ in own], [n for _, n in own]
    inner = room if alike else taps
    for n in (axes[0].terms * axes[1].terms, axes[1].terms, inner, axes[1].count):
        signature += FastDivmod.declared(index)
        numbers += FastDivmod.arguments(n, index)
    told: dict[str, Any] = {
        "alike": alike,
        "padded": not all(map(_inside, axes)),
        "plan": plan,
        "ragged": (outputs.size % plan.rows != 0, bool(alike) and channels.size % alike != 0),
        "run": run,
    }
    dtype = p.a.dtype
    read, target = Buffer(dtype, writable=False), Buffer(float32 if parted else dtype, align=ALIGN)
    build = Build(
        conv_weight_patches, (read, read, target, *signature),
        tuple(sorted(told.items())), (plan.units, 1, 1), info.planes[0], index,
    )  # fmt: skip
    splits = -(-p.terms // share)
    cubes = (-(-columns // plan.columns), -(-outputs.size // plan.rows), splits)
    flops = 2 * p.size * p.terms
    nbytes = (p.a.size + p.b.size + p.size) * dtype.itemsize
    label = f"conv patches {plan.rows}x{plan.columns}"
    arguments = (Input(1, p.b.offset), Input(0, p.a.offset), result, *numbers)
    steps.launches.append(Launch(build, cubes, arguments, flops, nbytes, label))
    if parted:
        sizes = (outputs.size, 1, columns, wide)
        if alike and taps > 1:
            sizes = (outputs.size, taps, channels.size, room)
        steps.launches.append(sums_launch(result, dtype, sizes, splits, part_step, info))
    # The number of parts follows from sizes, so it makes no further candidate.
    return replace(steps.work(), variant=name_of(plan), group=group)
