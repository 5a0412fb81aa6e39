"""Programs of rows as launches: which axes, vectors, teams and memory of a unit's own.

Requirements: a kernel is built for a program and for classes of sizes, not for sizes; rows short
enough that a unit waits for its own results are computed several at a time; a cube has some
microseconds of work; what a program keeps between walks stays in the nearest cache, or is computed
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from calor.dtypes import int64
from calor.specs import Spec
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.elementwise.values import parts, stored
from calor_kernel.library.reduce.layout import Layout, layout_of
from calor_kernel.library.reduce.program import Fold, Program, Schedule
from calor_kernel.library.reduce.rows import RowPlan, reduce_rows
from calor_kernel.library.work import Argument, Build, Input, Launch, Output, View
from calor_kernel.runtime.device import DeviceInfo

_SIZE: Final = Scalar(int64, nonnegative=True)
_STRIDE: Final = Scalar(int64)
# Bytes that a cube of one unit reads and writes: some microseconds of work.
_CHUNK: Final = 1 << 16
# Bytes of a row that a unit keeps in memory of its own.
_KEPT: Final = 1 << 14
# Vectors that an accumulator adds up before the sum is put aside.
_DEPTH: Final = 64


def rows_launch(
    program: Program,
    shape: Sequence[int],
    axes: Sequence[int],
    views: Sequence[View],
    outputs: Sequence[Spec],
    numbers: Sequence[float],
    info: DeviceInfo,
    label: str,
) -> Launch:
    """Return the launch of a program on views of a shape, along its axes.

    ``views``: the operands in memory; those that are one value a row lack the axes.
    """
    schedule = Schedule.of(program)
    memory = [o for o in program.operands if o.place != "number"]
    along = [o.place == "along" for o in memory] + [schedule.along[n] for n in program.results]
    free = not any(along[len(memory) :])
    every = [*views, *map(View.dense, outputs)]
    layout = layout_of(shape, axes, every, along, free=free)
    plan = _plan(program, schedule, layout, along, info)
    if not plan.keep:
        program = replace(program, kept=())
    rows = layout.kept.count
    units = plan.team
    turns = 1
    if info.max_units > 1:
        units = max(min(128, info.max_units), plan.team)
        cubes = -(-rows // (units // plan.team))
    else:
        nbytes = sum(v.dtype.itemsize for v, a in zip(every, along, strict=True) if a)
        turns = max(_CHUNK // max(nbytes * layout.along.count, 1), 1)
        turns = min(-(-turns // plan.together) * plan.together, rows)
        cubes = -(-rows // turns)
    signature: list[Buffer | Scalar] = [Buffer(stored(o.dtype), writable=False) for o in memory]
    signature += [Buffer(stored(s.dtype)) for s in outputs]
    signature += [Scalar(o.dtype) for o in program.operands if o.place == "number"]
    signature += [_SIZE, _SIZE] + [_SIZE] * (plan.kept + plan.axes)
    arguments: list[Argument] = [Input(k, v.offset * parts(v.dtype)) for k, v in enumerate(views)]
    arguments += [Output(k) for k in range(len(outputs))]
    arguments += [*numbers, rows, turns, *layout.kept.sizes, *layout.along.sizes]
    for k, varies in enumerate(along):
        arguments += layout.kept.strides[k]
        signature += [_STRIDE] * plan.kept
        if varies:
            arguments += layout.along.strides[k]
            signature += [_STRIDE] * plan.axes
    plane = info.planes[0] if units > 1 else 1
    build = Build(
        reduce_rows,
        tuple(signature),
        (("program", program), ("plan", plan)),
        (units, 1, 1),
        plane,
    )
    flops = rows * layout.along.count * len(program.steps)
    nbytes = sum(v.size * v.dtype.itemsize for v in every)
    return Launch(build, (cubes, 1, 1), tuple(arguments), flops, nbytes, label)


def _plan(
    program: Program,
    schedule: Schedule,
    layout: Layout,
    along: Sequence[bool],
    info: DeviceInfo,
) -> RowPlan:
    length, terms = layout.along.sizes[-1], layout.along.count
    steps = tuple(
        -1 if not varies or s[-1] not in (0, 1) else s[-1]
        for varies, s in zip(along, layout.along.strides, strict=True)
    )
    width = vector_width(program, schedule, info)
    many = info.max_units > 1
    simple = len(program.steps) <= 3
    plan = RowPlan(layout.kept.rank, layout.along.rank, steps, width)
    if many:
        plan = replace(plan, team=_team(length, width, info))
    elif length <= 32 * width:
        plan = replace(plan, together=4 if simple else 2, unroll=1)
    else:
        plan = replace(plan, unroll=8 if simple else 2)
    exact = [s for s in program.steps if isinstance(s, Fold) and s.kind == "sum"]
    block = _DEPTH * plan.unroll * width * plan.team
    if any(s.dtype.kind == "float" for s in exact) and terms > block:
        if length * 4 > block or layout.along.rank == 1:
            plan = replace(plan, block=block)
        else:
            plan = replace(plan, block=block // max(length, 1), outer=True)
    return _keeping(program, schedule, plan, terms, many)


def _keeping(
    program: Program, schedule: Schedule, plan: RowPlan, terms: int, many: bool
) -> RowPlan:
    """Return the plan with a place for kept values, if there is one."""
    if not program.kept:
        return plan
    dtype = program.dtype(program.kept[0])
    capacity = _KEPT // dtype.itemsize
    if not many and terms <= capacity:
        return replace(plan, keep="private", capacity=capacity)
    first, count = program.results[0], sum(o.place != "number" for o in program.operands)
    same = program.dtype(first) is dtype and schedule.along[first]
    if same and len(program.kept) == 1 and plan.steps[count] == 1:
        return replace(plan, keep="result")
    return plan


def vector_width(program: Program, schedule: Schedule, info: DeviceInfo) -> int:
    """Return the lanes that fill a vector of the widest type that varies along a row."""
    widest = max(
        stored(program.dtype(n)).itemsize for n in range(program.values) if schedule.along[n]
    )
    return max(info.vector_bytes // widest, 1)


def _team(length: int, width: int, info: DeviceInfo) -> int:
    """Return the units that share a row: a power of two, of at least two vectors each."""
    wanted = max(-(-length // (2 * width)), 1)
    team = 1 << (wanted - 1).bit_length()
    most: int = min(info.max_units, 256)
    while team > most:
        team //= 2
    return team
