"""Launches of programs along rows: axes, vectors, teams and memory of a unit.

Requirements: a kernel is built for a program and for classes of sizes. Short rows, for which a unit
would wait for its own results, are computed several at a time. A cube has some microseconds of
work. Values kept between passes stay in the nearest cache, or are recomputed. Few long rows are
divided among cubes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from calor.dtypes import int64
from calor_kernel.contract.choices import choice, exceeds, greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Launch
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.elementwise.values import stored
from calor_kernel.library.reduce.launch_operands import Job
from calor_kernel.library.reduce.layout import Layout, layout_of
from calor_kernel.library.reduce.pairwise_sums import is_rounded
from calor_kernel.library.reduce.program import Program, Schedule
from calor_kernel.library.reduce.register_rows import hold_rows
from calor_kernel.library.reduce.register_rows_launch import held_team, holding
from calor_kernel.library.reduce.row_state import RowPlan
from calor_kernel.library.reduce.rows import reduce_rows

SIZE: Final = Scalar(int64, nonnegative=True)
STRIDE: Final = Scalar(int64)
# Bytes that a cube of one unit reads and writes: some microseconds of work.
CHUNK: Final = 1 << 16
# Bytes of a row that a unit keeps in its own memory.
_KEPT: Final = 1 << 14
# Maximum of units of a row, for several rows and for a single one.
_TEAM, _ALONE = 256, 1024
# Vectors of a block, after which the sum is set aside.
_DEPTH: Final = 64


def along_of(program: Program) -> list[bool]:
    """Return which of the operands in memory, and of the results, vary along a row."""
    schedule = Schedule.of(program)
    made = [program.operands[i].place == "along" for i in program.memory]
    return made + [schedule.along[n] for n in program.results]


def layout(program: Program, job: Job) -> Layout:
    """Return the layout of a job's operands and results."""
    along = along_of(program)
    views = [placed.view for placed in (*job.sources, *job.targets)]
    free = not any(along[len(job.sources) :])
    return layout_of(job.shape, job.axes, views, along, free=free)


def rows_launch(
    program: Program, job: Job, info: DeviceInfo, parts: int = 1, chunk: int = 0
) -> Launch:
    """Return the launch of a program along rows.

    ``parts``: the number of parts of each row, with ``chunk`` positions of the first axis each; the
    views of the results have the parts as their last axis.
    """
    along, found = along_of(program), layout(program, job)
    targets = [placed.view for placed in job.targets]
    rows = found.kept.count * parts
    plan = replace(_plan(program, found, along, rows, info), split=parts > 1)
    team = held_team(program, found, along, plan.width, info) if parts == 1 else None
    if team is not None:
        plan = holding(plan, team, found, along, job)
    if not plan.keep:
        program = replace(program, kept=())
    if info.max_units == 1:
        plan = _streaming(plan, found, along, job, info)
    if plan.split:
        plan = replace(plan, together=1 if plan.transposed else plan.together, transposed=False)
    if plan.split and (plan.axes > 1 or -1 in plan.steps[: len(job.sources)]):
        plan = replace(plan, together=1)
    units, turns = plan.team, 1
    if info.max_units > 1:
        units = max(min(128, info.max_units), plan.team)
        cubes = -(-rows // (units // plan.team))
    else:
        every = (*job.sources, *job.targets)
        size = sum(p.view.dtype.itemsize for p, a in zip(every, along, strict=True) if a)
        turns = greatest(CHUNK // greatest(size * found.along.count // parts, 1), 1)
        turns = least(-(-turns // plan.together) * plan.together, rows)
        cubes = -(-rows // turns)
    signature = buffers(program, job)
    signature += [SIZE] * (4 + plan.kept + plan.axes)
    arguments: list[Argument] = [placed.argument for placed in (*job.sources, *job.targets)]
    arguments += [*job.numbers, rows, turns, parts, chunk]
    arguments += [*found.kept.sizes, *found.along.sizes]
    for k, varies in enumerate(along):
        written = k >= len(job.sources) and plan.split
        arguments += [s * (parts if written else 1) for s in found.kept.strides[k]]
        signature += [STRIDE] * plan.kept
        if varies:
            arguments += found.along.strides[k]
            signature += [STRIDE] * plan.axes
    plane = info.planes[0] if units > 1 else 1
    keywords = (("program", program), ("plan", plan))
    function = hold_rows if plan.held else reduce_rows
    build = Build(function, tuple(signature), keywords, (units, 1, 1), plane)
    flops = found.kept.count * found.along.count * len(program.steps)
    nbytes = sum(p.view.size * p.view.dtype.itemsize for p in job.sources)
    nbytes += sum(v.size * v.dtype.itemsize for v in targets)
    return Launch(build, (cubes, 1, 1), tuple(arguments), flops, nbytes, job.label)


def _streaming(
    plan: RowPlan, found: Layout, along: Sequence[bool], job: Job, info: DeviceInfo
) -> RowPlan:
    """Return the plan for data that does not fit the caches."""
    total = sum(p.view.size * p.view.dtype.itemsize for p in (*job.sources, *job.targets))
    plan = replace(plan, ahead=bool(info.caches) and exceeds(total, info.caches[-1]))
    shared = info.native.get("shared_cache", 0)
    pitch = found.along.sizes[-1]
    first = len(job.sources)
    written = [k for k in range(len(job.targets)) if along[first + k]]
    even = all(
        plan.steps[first + k] == 1 and pitch * job.targets[k].view.dtype.itemsize % info.align == 0
        for k in written
    )
    past = bool(shared and written and even and plan.keep != "result") and exceeds(total, shared)
    return replace(plan, nontemporal=past)


def buffers(program: Program, job: Job) -> list[Buffer | Scalar]:
    """Return the first parameters of a signature: buffers, and the scalar operands."""
    signature: list[Buffer | Scalar] = []
    signature += [Buffer(stored(p.view.dtype), writable=False) for p in job.sources]
    signature += [Buffer(stored(p.view.dtype)) for p in job.targets]
    return signature + [Scalar(program.operands[i].dtype) for i in program.numbers]


def _plan(
    program: Program, found: Layout, along: Sequence[bool], rows: int, info: DeviceInfo
) -> RowPlan:
    length, terms = found.along.sizes[-1], found.along.count
    steps = tuple(
        -1 if not varies or s[-1] not in (0, 1) else s[-1]
        for varies, s in zip(along, found.along.strides, strict=True)
    )
    width = vector_width(program, info)
    many = info.max_units > 1
    simple = len(program.steps) <= 3
    plan = RowPlan(found.kept.rank, found.along.rank, steps, width)
    if many:
        team = _team(length, width, info, rows)
        plan = replace(plan, team=team, unroll=4 if length >= 8 * team * width else 1)
    elif _transposes(program, found, width, rows):
        plan = replace(plan, together=width, transposed=True, short=length < width)
    elif length <= 32 * width:
        together = min(4 if simple else 2, 1 << (rows.bit_length() - 1))
        plan = replace(plan, together=together, unroll=2 if simple else 1)
    elif simple:
        plan = replace(plan, together=4 if rows >= 4 else 1, unroll=4 if rows >= 4 else 8)
    else:
        plan = replace(plan, unroll=2)
    block = _DEPTH * plan.unroll * width * plan.team
    if any(is_rounded(program.fold(n)) for n in program.folds):
        if found.along.rank > 1 and length * 4 <= block:
            # For any number of terms: one kernel for few and many.
            plan = replace(plan, block=_outer_block(block, length), outer=True)
        elif terms > block:
            plan = replace(plan, block=block)
    return _keeping(program, plan, terms, many)


@choice(low=1)
def _outer_block(block: int, length: int) -> int:
    """Return the positions of the outer axes in a block; few numbers make few kernels."""
    return max(1, block >> (length - 1).bit_length()) if length else block


def _transposes(program: Program, found: Layout, width: int, rows: int) -> bool:
    """Return whether as many rows as lanes are computed together."""
    length = found.along.sizes[-1]
    simple = len(program.steps) <= 3
    if length >= width and (rows < 2 * width or length > 8 * width or not simple):
        return False  # Rows shorter than a vector take no time, however many there are.
    folds = [program.fold(n) for n in program.folds]
    return 1 < width <= 16 and all(f.dtype.kind != "bool" for f in folds)


def _keeping(program: Program, plan: RowPlan, terms: int, many: bool) -> RowPlan:
    """Return the plan with memory for kept values, if there is any."""
    if not program.kept:
        return plan
    dtype = program.dtype(program.kept[0])
    capacity = _KEPT // dtype.itemsize
    if not many and terms <= capacity:
        return replace(plan, keep="private", capacity=capacity)
    # For a team, recomputing costs less than writing and reading memory.
    if many or len(program.kept) > 1:
        return plan
    # Only results of the last pass may hold kept values that a later pass reads.
    schedule, count = Schedule.of(program), len(program.memory)
    last = schedule.count(program) - 1
    for k, n in enumerate(program.results):
        late = schedule.along[n] and schedule.walks[n] == last
        if late and program.dtype(n) is dtype and plan.steps[count + k] == 1:
            return replace(plan, keep="result", holder=k)
    return plan


def vector_width(program: Program, info: DeviceInfo) -> int:
    """Return the vector width in the widest dtype that varies along a row."""
    schedule = Schedule.of(program)
    widest: int = max(
        stored(program.dtype(n)).itemsize for n in range(program.values) if schedule.along[n]
    )
    return max(info.vector_bytes // widest, 1)


def _team(length: int, width: int, info: DeviceInfo, rows: int) -> int:
    """Return the units of a row: a power of two, with at least two vectors each."""
    wanted = max(-(-length // (2 * width)), 1)
    team = 1 << (wanted - 1).bit_length()
    # A single row may use all units that run on a core at a time.
    most: int = min(info.max_units, _ALONE if rows == 1 else _TEAM)
    while team > most:
        team //= 2
    return team
