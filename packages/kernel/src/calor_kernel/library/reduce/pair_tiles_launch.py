"""Launches of reductions over all pairs of two sets of short rows.

Requirements: the way is for cubes of many units, and for rows that are read again by many pairs;
other rows have teams of units. A unit's tile is smaller if pairs are few, so that units are enough.
"""

from __future__ import annotations

from typing import Final

from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds
from calor_kernel.contract.launching import Grid
from calor_kernel.contract.work import Launch
from calor_kernel.library.reduce.job import Problem
from calor_kernel.library.reduce.launches import is_even, span_of, steps_of
from calor_kernel.library.reduce.pair_tiles import PairPlan, Pairs, Side, reduce_pairs

# The longest row, the fewest rows of each set, and the fewest pairs.
_LONGEST: Final = 1024
_AGAIN: Final = 8
_FEW: Final = 1 << 15
# Rows and columns of a unit's tile if pairs are many, and few; units of a cube, and those of them
# beside each other. Pairs of a core from which tiles are large.
_LARGE, _SMALL = (4, 4), (2, 4)
_UNITS, _ACROSS = 256, 16
_MANY: Final = 1 << 13


def sides_of(problem: Problem) -> tuple[Side, ...]:
    """Return the sets that each operand in memory varies with: rows, columns, both or neither."""
    names: dict[tuple[bool, bool], Side] = {
        (True, True): "both",
        (True, False): "rows",
        (False, True): "columns",
        (False, False): "neither",
    }
    strides = problem.layout.kept.strides[: len(problem.program.memory)]
    return tuple(names[steps[-2] != 0, steps[-1] != 0] for steps in strides)


def pairs_launch(problem: Problem) -> Launch | None:
    """Return the launch of a program of one pass on pairs of rows, None if it has none."""
    found, info = problem.layout, problem.info
    if not problem.many or len(found.kept.sizes) < 2 or len(found.along.sizes) > 1:
        return None
    *outer, rows, columns = found.kept.sizes
    (length,) = found.along.sizes
    if exceeds(length, _LONGEST) or not exceeds(found.kept.count, _FEW):
        return None
    if not (exceeds(rows, _AGAIN - 1) and exceeds(columns, _AGAIN - 1)):
        return None
    sides = sides_of(problem)
    along = [side for side, varies in zip(sides, problem.along, strict=False) if varies]
    if "both" in along or not {"rows", "columns"} <= set(along):
        return None
    width = problem.width if is_even(problem, problem.width) else 1
    steps = steps_of(problem)[: len(sides)]
    if any(varies and step != 1 for varies, step in zip(problem.along, steps, strict=False)):
        width = 1
    units = min(_UNITS, info.max_units)
    across = min(_ACROSS, units)
    large = exceeds(found.kept.count, _MANY * info.cores)
    tall, wide = _LARGE if large else _SMALL
    plan = PairPlan(sides, steps, width, tall, wide, across)
    blocks = -(-columns // (wide * across)), -(-rows // (tall * (units // across)))
    cubes = blocks[0] * blocks[1]
    for size in outer:
        cubes = cubes * size
    over = Pairs(rows, columns, *blocks, length, tuple(outer))
    index = kl.index_dtype(cubes * units, *(span_of(p.view) for p in problem.job.placed))
    grid = Grid.line(cubes, units, index=index)
    views = tuple(problem.views())
    return problem.launch(reduce_pairs, grid, problem.program, over=over, views=views, plan=plan)
