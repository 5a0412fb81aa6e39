"""How many units share a row in memory, and how many lines of a row they see together.

Requirements: a row has two vectors a unit, as long as a cube has units for it. Of a core, a row may
use all units that run at a time if rows are few. Rows that several passes read are of a core each
as well, if the last cache then holds them all, and would not hold those of smaller teams: memory is
read once.
"""

from __future__ import annotations

from typing import Final

from calor_kernel.contract.choices import choice, exceeds
from calor_kernel.library.elementwise.operations import ROWS, Step
from calor_kernel.library.reduce.job import Problem
from calor_kernel.library.reduce.program import Program

# Maximum of units of a row, for many rows and for those that have a core each, and cubes of so many
# units that a core runs.
_TEAM, _ALONE = 256, 1024
_BESIDE: Final = 8


def team_of(length: int, width: int, units: int, alone: bool) -> int:
    """Return the units of a row, which may have a core: a power of two, for two vectors each."""
    wanted = max(-(-length // (2 * width)), 1)
    team = 1 << (wanted - 1).bit_length()
    # Of a core a row may use all units that run at a time.
    most = min(units, _ALONE if alone else _TEAM)
    while team > most:
        team //= 2
    return team


def read_again(problem: Problem) -> bool:
    """Return whether later passes find rows in the last cache only if a core has few at a time."""
    # What all rows share, such as positions in a row, is there once.
    sources = zip(problem.job.sources, problem.along, problem.layout.kept.strides, strict=False)
    size = sum(one.view.dtype.itemsize for one, along, kept in sources if along and any(kept))
    row, info = problem.layout.along.count * size, problem.info
    if problem.schedule.count == 1 or not info.caches:
        return False
    cache = info.caches[-1] // info.cores
    return exceeds(row, cache // _BESIDE) and not exceeds(row, cache)


@choice(low=1)
def lines_of(most: int, count: int) -> int:
    """Return how many of ``count`` lines a team sees at the same time, a power of two."""
    lines = 1
    while 2 * lines <= most and lines < count:
        lines *= 2
    return lines


def weight_of(program: Program) -> int:
    """Return the approximate number of instructions of an element."""
    steps = (step for step in program.steps if isinstance(step, Step) and step.op in ROWS)
    return sum(ROWS[step.op].weight for step in steps)
