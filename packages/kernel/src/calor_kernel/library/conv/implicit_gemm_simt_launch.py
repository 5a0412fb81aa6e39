"""Launches of SIMT implicit GEMM convolutions and input gradients.

Requirements: for float32 operands that are not rounded, or for devices without a suitable matrix
instruction. Images are read in place. Weights are read from a copy with dense rows, which is cached
for constants. The stride phases of an input gradient share a launch. The plan of tiles and parts is
the one whose last core finishes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from calor.dtypes import DType, float32
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Input, Launch, Output, Work, row_major
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import index_dtype
from calor_kernel.library.conv.channels_last import last_launch
from calor_kernel.library.conv.implicit_gemm_mma_launch import (
    numbers_of,
    phases_of,
    places_of,
    terms_of,
)
from calor_kernel.library.conv.implicit_gemm_simt import conv_patches
from calor_kernel.library.conv.implicit_gemm_simt_plans import in_order, plans_of, suits
from calor_kernel.library.conv.mma_operands import Last, Weights, two_axes
from calor_kernel.library.conv.padded_rows import Steps
from calor_kernel.library.conv.problem import Correlation, Part
from calor_kernel.library.conv.split_sums import ALIGN, sums_launch
from calor_kernel.library.gemm.simt_plan import FOUR, Patches
from calor_kernel.library.matmul.ranking import name_of

# Units down and across, register tiles of each down and across, terms of a step, and stages; the
# value is the rate relative to the best. With asynchronous copies the rates were measured on
# ResNet-50's convolutions on an H200, where larger tiles were slower. Without them the rates are
# estimates from the share of instructions that multiply.
_AHEAD: Final[dict[tuple[int, ...], float]] = {
    (16, 16, 2, 2, 16, 3): 1.0,
    (16, 16, 1, 2, 16, 3): 0.95,
    (8, 16, 2, 2, 16, 3): 0.94,
    (16, 8, 1, 2, 16, 3): 0.9,
}
_LOADED: Final[dict[tuple[int, ...], float]] = {
    (16, 16, 4, 2, 8, 2): 1.0,
    (16, 16, 2, 4, 8, 2): 1.0,
    (16, 16, 2, 2, 8, 2): 0.92,
    (16, 16, 1, 2, 8, 2): 0.85,
    (8, 16, 2, 2, 8, 2): 0.89,
    (16, 8, 1, 2, 8, 2): 0.8,
}
_MORE: Final[tuple[tuple[int, ...], ...]] = (
    *((16, 16, 4, 2, 16, 3), (16, 16, 2, 4, 16, 3), (8, 16, 2, 4, 16, 3), (16, 16, 2, 2, 8, 4)),
    *((16, 16, 2, 2, 8, 2), (8, 16, 2, 2, 8, 4), (16, 16, 1, 2, 8, 4), (8, 16, 2, 4, 8, 3)),
)
# Terms of a short step, and maximum of phases of a launch.
_SHORT, _PHASES = 8, 4


@dataclass(frozen=True, slots=True)
class Rows:
    """Weights with dense rows of length ``room``; strides of channels and taps."""

    place: Argument
    room: int
    channel: int
    taps: tuple[int, int]


def places_by_patches(problem: Correlation, info: DeviceInfo, wanted: bool) -> Iterator[Work]:
    """Yield the works of a problem, the likeliest first; ``wanted``: more than one."""
    if problem.by_weight or not suits(problem, info):
        return
    table = _AHEAD if info.has("async_copy") else _LOADED
    usual = {_evened(plan, problem): rate for plan, rate in plans_of(table, info).items()}
    if not usual:
        return
    more = plans_of(dict.fromkeys(_MORE, 1.0), info)
    for plan, parts, group in in_order(usual, more, sizes_of(problem), info.cores, wanted):
        yield _work(problem, plan, parts, info, group)


def _evened(plan: Patches, problem: Correlation) -> Patches:
    """Return a plan with shorter steps if only then each step has channels of one tap."""
    channels = problem.depth.size
    if channels % plan.depth == 0 or channels % _SHORT:
        return plan
    return replace(plan, depth=_SHORT, stages=min(plan.stages + 1, 4) if plan.stages > 2 else 2)


def sizes_of(problem: Correlation) -> tuple[int, int, int, int, int]:
    """Return rows, pixels and mean terms of a phase with taps, the phase count, and the size."""
    phases, seen = 1, 1
    for axis in problem.axes:
        phases, seen = phases * axis.divide, seen * min(axis.divide, axis.terms)
    places = -(-places_of(problem) // phases)
    return problem.leads[2].size, places, -(-problem.terms // seen), seen, problem.size


def rows_of_weights(problem: Correlation, steps: Steps, info: DeviceInfo) -> Rows:
    """Return weights as dense rows, copied unless they are dense."""
    p, axes = problem, two_axes(problem)
    rows, taps = p.leads[2], (axes[0].terms, axes[1].terms)
    access = ALIGN // p.b.dtype.itemsize
    aligned = all(n % access == 0 for n in (rows.size, p.depth.b, p.b.offset))
    if taps == (1, 1) and rows.b == 1 and aligned:
        return Rows(Input(1, p.b.offset), rows.size, p.depth.b, (0, 0))
    room = -(-rows.size // access) * access
    count = taps[0] * taps[1]
    target = steps.memory(p.depth.size * count * room * p.b.dtype.itemsize)
    steps.launches.append(
        last_launch(
            Input(1, p.b.offset), target, p.b.dtype, (1, rows.size, taps),
            (0, rows.b, (axes[0].b, axes[1].b)), room, 1, info, True, False,
            (p.depth.size, p.depth.b),
        )
    )  # fmt: skip
    return Rows(target, room, count * room, (taps[1] * room, room))


@dataclass(frozen=True, slots=True)
class _Made:
    """What the launches of a problem's phases share: plan, operands and the layout of the sums.

    ``result`` has ``splits`` parts of ``part_step`` elements, and its axes have ``strides``.
    """

    plan: Patches
    rows: Rows
    x: Last
    splits: int
    part_step: int
    result: Argument
    strides: Sequence[int]
    index: DType


def _work(problem: Correlation, plan: Patches, splits: int, info: DeviceInfo, group: int) -> Work:
    """Return the launches of a plan, with sums in ``splits`` parts."""
    p, steps, axes = problem, Steps(), two_axes(problem)
    rows = rows_of_weights(p, steps, info)
    x = Last(Input(0, p.a.offset), (p.leads[0].a, axes[0].a, axes[1].a), p.depth.size)
    strides = row_major([lead.size for lead in p.leads] + [axis.count for axis in axes])
    result: Argument = Output(0)
    part_step = -(-p.size // FOUR) * FOUR
    if splits > 1:
        result = steps.memory(splits * part_step * float32.itemsize)
    reach = sum((n - 1) * abs(s) for n, s in zip(p.a.shape, p.a.strides, strict=True))
    spans = (reach, p.depth.size * rows.channel, splits * part_step, p.terms + 4 * plan.depth)
    made = _Made(plan, rows, x, splits, part_step, result, strides, index_dtype(*spans))
    weights = Weights(rows.place, 1, _block(p, plan) * rows.channel, rows.taps)
    phases = phases_of(p, weights)
    for begin in range(0, len(phases), _PHASES):
        some = phases[begin : begin + _PHASES]
        alone = len(phases) == 1
        steps.launches.append(_launch(p, made, weights, some, alone, info))
    if splits > 1:
        sizes = (1, 1, p.size, part_step)
        steps.launches.append(sums_launch(result, p.a.dtype, sizes, splits, part_step, info))
    # The number of parts follows from sizes, so it makes no further candidate.
    return replace(steps.work(), variant=name_of(plan), group=group)


def _block(problem: Correlation, plan: Patches) -> int:
    """Return the channels of a tap before the next tap: those of a step, or all."""
    channels = problem.depth.size
    return plan.depth if channels % plan.depth == 0 else channels


def _launch(
    problem: Correlation,
    made: _Made,
    weights: Weights,
    phases: Sequence[Part],
    alone: bool,
    info: DeviceInfo,
) -> Launch:
    """Return the launch of some phases; ``alone``: whether there are no others."""
    p, plan, index, dtype = problem, made.plan, made.index, problem.a.dtype
    axes, block = two_axes(p), _block(p, plan)
    size, stride = Scalar(index, nonnegative=True), Scalar(index)
    four = Scalar(index, nonnegative=True, divisible=FOUR)
    run = FOUR if alone and axes[0].count * axes[1].count % FOUR == 0 else 1
    together = Scalar(index, nonnegative=True, divisible=run)
    by = (1,) * (2 - len(p.axes)) + phases[0].steps
    own: list[tuple[Scalar, int]] = [
        *((size, p.leads[2].size), (four, made.part_step)),
        *((together, made.strides[2]), (together, made.strides[0])),
        *((size, step * n) for step, n in zip(made.strides[3:], by, strict=True)),
        *((four, made.rows.channel), (stride, p.depth.a)),
        *((stride, n) for n in made.x.strides),
    ]
    for phase in phases:
        kinds, numbers = numbers_of(
            phase, made.x, weights, block, made.splits, made.strides[3:], plan.depth, index
        )
        own += zip(kinds, numbers, strict=True)
    kind = float32 if made.splits > 1 else dtype
    told: dict[str, Any] = {
        "even": block == plan.depth, "phases": len(phases), "plan": plan, "run": run,
    }  # fmt: skip
    signature: list[Buffer | Scalar] = [
        *(Buffer(dtype, writable=False, align=ALIGN), Buffer(dtype, writable=False)),
        Buffer(kind, align=ALIGN),
    ]
    signature += [one for one, _ in own]
    build = Build(
        conv_patches,
        tuple(signature),
        tuple(sorted(told.items())),
        (plan.units, 1, 1),
        info.planes[0],
        index,
    )
    cubes = (
        -(-max(places_of(one.problem) for one in phases) // plan.columns) * len(phases),
        -(-p.leads[2].size // plan.rows),
        made.splits,
    )
    work = sum(places_of(one.problem) * terms_of(one.problem, made.x.room) for one in phases)
    nbytes = (p.a.size + p.b.size + p.size) * dtype.itemsize
    label = f"conv patches {plan.rows}x{plan.columns}"
    arguments = (made.rows.place, made.x.place, made.result, *(n for _, n in own))
    return Launch(build, cubes, arguments, 2 * p.leads[2].size * work, nbytes, label)
