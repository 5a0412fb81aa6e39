"""Row programs in stages: one or more launches for each pass, with results in memory.

Requirements: every pass reads memory in order, which no single launch could if rows are strided,
and is divided among cubes if rows are few. Results along rows are left to the elementwise family,
which reads the reductions as broadcast values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from calor_kernel.contract.choices import spec_of
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Input, Launch, Output, View
from calor_kernel.library.elementwise.expression import Expression
from calor_kernel.library.elementwise.lower import lower_expression
from calor_kernel.library.elementwise.step import Step
from calor_kernel.library.redirection import redirected
from calor_kernel.library.reduce.launch_operands import Job, Placed
from calor_kernel.library.reduce.parts import Part, part_of
from calor_kernel.library.reduce.program import Fold, Program, Schedule


def found_by(program: Program, schedule: Schedule, walk: int) -> list[int]:
    """Return the values that a pass must store: results, and values needed later.

    A value known before all passes is computed where needed, and written with the first pass.
    """
    mine = {n for n in range(program.values) if _is_found(program, schedule, n, walk)}
    early = {n for n in mine if schedule.walks[n] < walk}
    wanted = {n for n in program.results if n in mine}
    for n in range(program.values):
        step = program.step(n)
        if step is None or n in mine or schedule.walks[n] < walk:
            continue
        read = [step.operand] if isinstance(step, Fold) else step.operands
        wanted.update(v for v in read if v in mine - early)
    return sorted(wanted)


def _is_found(program: Program, schedule: Schedule, number: int, walk: int) -> bool:
    known = not schedule.along[number] and max(schedule.walks[number], 0) == walk
    return known and program.step(number) is not None


def numbers_along(program: Program, schedule: Schedule) -> list[int]:
    """Return the launch's scalars for the values that are written along rows."""
    written = [n for n in program.results if schedule.along[n]]
    rows = [n for n in range(program.values) if not schedule.along[n] and program.step(n)]
    part = part_of(program, written, rows)
    return [n for n in part.operands if program.step(n) is None and n in program.numbers]


def writing(program: Program, schedule: Schedule, known: Mapping[int, Placed]) -> Part:
    """Return the part that writes along rows, from known values."""
    return part_of(program, [n for n in program.results if schedule.along[n]], known)


def written(
    part: Part, job: Job, known: Mapping[int, Placed], targets: list[Placed], info: DeviceInfo
) -> list[Launch]:
    """Return the launches of a part without reductions."""
    steps = tuple(s for s in part.program.steps if isinstance(s, Step))
    operands = tuple(o.dtype for o in part.program.operands)
    expression = Expression(operands, steps, part.program.results)
    sources = [known[n] for n in part.operands]
    views = [
        placed.view if operand.place == "along" else repeated(placed.view, job)
        for placed, operand in zip(sources, part.program.operands, strict=True)
    ]
    outputs = [spec_of(job.shape, placed.view.dtype) for placed in targets]
    (work,) = lower_expression(expression, views, outputs, info)
    places: dict[Argument, Argument] = {Input(k): p.memory for k, p in enumerate(sources)}
    places |= {Output(k): p.memory for k, p in enumerate(targets)}
    return [replace(redirected(one, places), label=job.label) for one in work.launches]


def repeated(view: View, job: Job) -> View:
    """Return a view of one value a row, broadcast to all elements."""
    strides = iter(view.strides)
    whole = tuple(0 if a in job.axes else next(strides) for a in range(len(job.shape)))
    return View(job.shape, whole, view.dtype, view.offset)
