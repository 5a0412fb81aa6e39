"""Launches of implicit GEMM convolutions and input gradients by matrix instructions.

Requirements: for an input gradient with a stride, pixels with the same taps are a phase, so there
are no products with the zeros between strides. The phases share the copies of both operands and one
launch, since each phase alone is too short to fill a device. Few tiles with long sums are split
into parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calor.dtypes import DType, float32
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Input, Output, View, row_major
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import index_dtype
from calor_kernel.library.conv.implicit_gemm_mma import conv_fragments, run_of
from calor_kernel.library.conv.mma_operands import (
    Last,
    Numbers,
    Weights,
    last,
    launch,
    two_axes,
    weights_of,
    wide,
    windows,
)
from calor_kernel.library.conv.padded_rows import Steps
from calor_kernel.library.conv.problem import Axis, Correlation, Part, undivided
from calor_kernel.library.conv.split_sums import ALIGN, sums_launch
from calor_kernel.library.gemm.mma import ACCESS, Fragments

# Minimum of terms of a part of a sum.
_SHARE = 256
# Parts of sums begin at multiples of this many elements.
_WHOLE = ALIGN // float32.itemsize
# Maximum of phases of a launch.
_PHASES = 4


def of_places(
    problem: Correlation, plan: Fragments, steps: Steps, info: DeviceInfo, joined: bool = False
) -> None:
    """Add the launches of a convolution, or of an input gradient with its phases.

    ``joined``: whether two phases are computed together where possible, for any dtype.
    """
    p, dtype = problem, problem.a.dtype
    images, _, outputs = p.leads
    axes = two_axes(p)
    # Warp-group instructions truncate float32 to TF32.
    rounded = plan.grouped and plan.dtype is float32
    x = last(
        Input(0, p.a.offset), dtype, (images.size, p.depth.size, (axes[0].size, axes[1].size)),
        (images.a, p.depth.a, (axes[0].a, axes[1].a)), steps, info, rounded=rounded,
    )  # fmt: skip
    block = plan.depth if x.room % plan.depth == 0 else x.room
    weights = weights_of(p, x.room, block, steps, info, rounded)
    phases = phases_of(p, weights)
    halves = 2 if in_turn(p) and (joined or joins(p)) else 1
    tiles = -(-outputs.size // plan.rows) * sum(
        -(-places_of(phase.problem) // plan.columns) for phase in phases
    )
    least = min(terms_of(phase.problem, x.room) for phase in phases)
    splits = max(1, min(info.cores // max(tiles, 1), least // _SHARE))
    result: Argument = Output(0)
    part_step = -(-p.size // _WHOLE) * _WHOLE
    if splits > 1:
        result = steps.memory(splits * part_step * float32.itemsize)
    strides = row_major([lead.size for lead in p.leads] + [axis.count for axis in axes])
    steps_of = ((1,) * (2 - len(p.axes)) + phases[0].steps) if phases else (1, 1)
    to = tuple(s * by for s, by in zip(strides[3:], steps_of, strict=True))
    spans = (images.size * x.strides[0], outputs.size * weights.row, splits * part_step)
    index = index_dtype(*spans, *(places_of(phase.problem) for phase in phases))
    size = Scalar(index, nonnegative=True)
    for first in range(0, len(phases), _PHASES):
        some = phases[first : first + _PHASES]
        made = [
            numbers_of(phase, x, weights, block, splits, strides[3:], plan.depth, index)
            for phase in some
        ]
        of_phases = [s for signature, _ in made for s in signature]
        numbers = [n for _, values in made for n in values]
        columns = max(places_of(phase.problem) for phase in some)
        pairs = run_of(plan.shape) == 2 and halves == 2 and to[1] == 2 and axes[1].count % 4 == 0
        if len(phases) == 1:
            dense = to == (axes[1].count, 1) and run_of(plan.shape) == 2
            pairs = dense and strides[2] % 2 == 0
        together = halves * (2 if pairs else 1)
        own = (outputs.size, weights.row, splits, part_step, strides[2], strides[0], *to)
        even = Scalar(index, nonnegative=True, divisible=together)
        signature = (size, wide(index, plan), size, even, even, even, size, size)
        strided = (Scalar(index, divisible=plan.access),) * 3
        kind = float32 if splits > 1 else dtype
        target = Buffer(kind, align=16) if together > 1 else Buffer(kind)
        count = len(some) // halves
        ragged = outputs.size % plan.rows != 0
        told = (
            *(("halves", halves), ("pairs", pairs), ("phases", count), ("plan", plan)),
            ("ragged", ragged),
        )
        cubes = (-(-columns // plan.columns), -(-outputs.size // plan.rows), splits * count)
        work = sum(places_of(one.problem) * terms_of(one.problem, x.room) for one in some)
        steps.launches.append(
            launch(
                conv_fragments, told, plan, (weights.place, x.place, result), target,
                ((*signature, *strided, *of_phases), (*own, *x.strides, *numbers)),
                index, cubes, 2 * outputs.size * work, info,
            )
        )  # fmt: skip
    if splits > 1:
        sizes = (1, 1, p.size, part_step)
        steps.launches.append(sums_launch(result, dtype, sizes, splits, part_step, info))


def phases_of(problem: Correlation, weights: Weights) -> list[Part]:
    """Return the phases of output pixels, those with most taps first.

    The taps are those of the copied weights.
    """
    taps = weights.taps[2 - len(problem.axes) :]
    axes = tuple(replace(axis, b=step) for axis, step in zip(problem.axes, taps, strict=True))
    p = replace(problem, axes=axes, b=View(problem.b.shape, problem.b.strides, problem.b.dtype))
    if all(axis.divide == 1 and axis.summed > 0 for axis in axes):
        return [Part(p, (0,) * len(axes), (1,) * len(axes))]
    found = [part for part in undivided(p) if places_of(part.problem)]
    terms: dict[tuple[int, ...], int] = {}
    for part in found:
        row = part.offsets[:-1]
        terms[row] = terms.get(row, 0) + terms_of(part.problem, 1)
    # Phases of one row of pixels stay together.
    return sorted(found, key=lambda part: (-terms[part.offsets[:-1]], part.offsets))


def in_turn(problem: Correlation) -> bool:
    """Return whether the pixels of two phases alternate along a row."""
    axis = problem.axes[-1]
    return bool(axis.divide == 2 and axis.count % 2 == 0)


def joins(problem: Correlation) -> bool:
    """Return whether computing alternating phases together is the first choice."""
    # For half types the gain of pairs is less than the cost of two phases' sums in registers.
    return bool(problem.a.dtype.itemsize == float32.itemsize)


def places_of(problem: Correlation) -> int:
    """Return the output pixels of all images."""
    axes = two_axes(problem)
    return problem.leads[0].size * axes[0].count * axes[1].count


def terms_of(problem: Correlation, room: int) -> int:
    """Return the terms of a pixel with ``room`` for the channels of a tap."""
    axes = two_axes(problem)
    return room * axes[0].terms * axes[1].terms if problem.depth.size else 0


def numbers_of(
    phase: Part,
    x: Last,
    weights: Weights,
    block: int,
    splits: int,
    strides: Sequence[int],
    depth: int,
    index: DType,
) -> tuple[tuple[Scalar, ...], Numbers]:
    """Return the parameters and the numbers of a phase, in the order of the kernel.

    ``depth``: the terms of a step; each of the ``splits`` parts has whole steps.
    """
    p = phase.problem
    axes: tuple[Axis, Axis] = two_axes(p)
    terms = terms_of(p, x.room)
    share = max(-(-terms // (splits * depth)) * depth, depth)
    offsets = (0,) * (2 - len(p.axes)) + phase.offsets
    start = sum(s * by for s, by in zip(strides, offsets, strict=True))
    of_weights = (p.b.offset, weights.block, axes[0].b, axes[1].b)
    whole, numbers = windows(x, axes, [(a.result, a.summed) for a in axes], block, index)
    size = Scalar(index, nonnegative=True)
    access = Scalar(index, divisible=ACCESS // p.b.dtype.itemsize)
    own = (places_of(p), terms, share, start, *of_weights)
    return (*(size,) * 4, *(access,) * 4, *whole), (*own, *numbers)
