"""Parts of programs: those that compute some of its values, and those that join partial results.

Requirements: a reduction of few long rows is divided among cubes, and another launch joins their
totals. A program whose passes do not fit one launch becomes one launch a pass, with its
intermediate values in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from calor_kernel.library.elementwise.step import Step
from calor_kernel.library.reduce.program import Fold, Operand, Program, Schedule, moved


@dataclass(frozen=True, slots=True)
class Part:
    """A program whose operands are values of another one, by index."""

    program: Program
    operands: tuple[int, ...]


def part_of(program: Program, wanted: Sequence[int], known: Collection[int]) -> Part:
    """Return the program that computes some values from known ones and operands."""
    schedule = Schedule.of(program)
    needed: set[int] = set()
    todo = list(wanted)
    leaves: set[int] = set()
    while todo:
        number = todo.pop()
        step = program.step(number)
        if step is None or number in known:
            leaves.add(number)
        elif number not in needed:
            needed.add(number)
            todo += [step.operand] if isinstance(step, Fold) else step.operands
    order = sorted(leaves)
    places = {n: i for i, n in enumerate(order)}
    operands = [_operand(program, schedule, n) for n in order]
    steps: list[Step | Fold] = []
    for number in sorted(needed):
        steps.append(moved(_made(program, number), places))
        places[number] = len(places)
    made = Program(tuple(operands), tuple(steps), tuple(places[n] for n in wanted))
    return Part(made, tuple(order))


def joining(program: Program) -> Part:
    """Return the program that joins partial results of a one-pass program's reductions.

    Its operands are the reductions, by their indices, then the other operands it needs.
    """
    folds = program.folds
    rest = part_of(program, program.results, folds)
    others = [n for n in rest.operands if n not in folds]
    operands = [Operand(program.dtype(n)) for n in folds]
    operands += [program.operands[n] for n in others]
    places = {n: len(operands) + k for k, n in enumerate(folds)}
    places |= {n: len(folds) + k for k, n in enumerate(others)}
    steps: list[Step | Fold] = [replace(program.fold(n), operand=k) for k, n in enumerate(folds)]
    inner = {i: places[n] for i, n in enumerate(rest.operands)}
    first = len(rest.program.operands)
    for k, step in enumerate(rest.program.steps):
        inner[first + k] = len(operands) + len(steps)
        steps.append(moved(step, inner))
    results = tuple(inner[n] for n in rest.program.results)
    return Part(Program(tuple(operands), tuple(steps), results), (*folds, *others))


def _operand(program: Program, schedule: Schedule, number: int) -> Operand:
    if program.step(number) is None:
        return program.operands[number]
    return Operand(program.dtype(number), "along" if schedule.along[number] else "row")


def _made(program: Program, number: int) -> Step | Fold:
    step = program.step(number)
    assert step is not None
    return step
