"""Parts of programs: those that compute some of its values, and those that join partial results.

Requirements: a reduction of few long rows is divided among cubes, and another launch joins their
totals. A program whose passes do not fit one launch becomes one launch a pass, with its
intermediate values in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from calor_kernel.library.elementwise.operations import Step
from calor_kernel.library.reduce.program import Fold, Operand, Program, Schedule, moved


@dataclass(frozen=True, slots=True)
class Part:
    """A program whose operands are values of another one, by index."""

    program: Program
    operands: tuple[int, ...]


def part_of(
    program: Program, wanted: Sequence[int], known: Collection[int] = (), first: Sequence[int] = ()
) -> Part:
    """Return the program that computes some values from known ones and operands.

    ``first``: the values that are its first operands; others follow in their order.
    """
    schedule = Schedule(program)
    needed: set[int] = set()
    leaves: set[int] = set()
    todo = list(wanted)
    while todo:
        number = todo.pop()
        step = program.step(number)
        if step is None or number in known:
            leaves.add(number)
        elif number not in needed:
            needed.add(number)
            todo += step.operands
    order = [*first, *sorted(leaves.difference(first))]
    places = {n: i for i, n in enumerate(order)}
    steps: list[Step | Fold] = []
    for number in sorted(needed):
        step = program.step(number)
        assert step is not None
        steps.append(moved(step, places))
        places[number] = len(places)
    operands = tuple(_operand(program, schedule, n) for n in order)
    return Part(Program(operands, tuple(steps), tuple(places[n] for n in wanted)), tuple(order))


def joining(program: Program) -> Part:
    """Return the program that joins partial results of a one-pass program's reductions.

    Its operands are the reductions, by their indices, then the other operands it needs.
    """
    folds = program.folds
    rest = part_of(program, program.results, folds, folds)
    inner, count = rest.program, len(folds)
    # The joined reductions come before the other steps and take the place of the first operands.
    joined = [Fold(program.op(n), (k,)) for k, n in enumerate(folds)]
    first = len(inner.operands)
    places = {k: first + k for k in range(count)} | {k: k for k in range(count, first)}
    places |= {first + k: first + count + k for k in range(len(inner.steps))}
    made = replace(
        inner,
        operands=(*(Operand(program.dtype(n)) for n in folds), *inner.operands[count:]),
        steps=(*joined, *(moved(step, places) for step in inner.steps)),
        results=tuple(places[n] for n in inner.results),
    )
    return Part(made, rest.operands)


def _operand(program: Program, schedule: Schedule, number: int) -> Operand:
    if program.step(number) is None:
        return program.operands[number]
    return Operand(program.dtype(number), "along" if schedule.along[number] else "row")


def found_by(schedule: Schedule, walk: int) -> list[int]:
    """Return the values that a pass must store: results, and values needed later.

    A value known before all passes is computed where needed, and written with the first pass.
    """
    program, walks = schedule.program, schedule.walks
    steps = dict(program.numbered())
    mine = {n for n in steps if not schedule.along[n] and max(walks[n], 0) == walk}
    wanted = mine.intersection(program.results)
    for n, step in steps.items():
        if n not in mine and walks[n] >= walk:
            wanted.update(v for v in step.operands if v in mine and walks[v] >= walk)
    return sorted(wanted)


def numbers_along(schedule: Schedule) -> list[int]:
    """Return the launch's scalars for the values that are written along rows."""
    program = schedule.program
    written = [n for n in program.results if schedule.along[n]]
    rows = [n for n, _ in program.numbered() if not schedule.along[n]]
    return [n for n in part_of(program, written, rows).operands if n in program.numbers]
