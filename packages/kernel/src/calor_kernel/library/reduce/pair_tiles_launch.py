"""Launches of reductions over all pairs of two sets of short rows.

Requirements: the way is for cubes of many units, and for rows that are read again by many pairs;
other rows have teams of units. A unit's tile is smaller if pairs are few, so that units are enough.
A block is all terms of very short rows, such as points in space.
"""

from __future__ import annotations

from typing import Final

from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds
from calor_kernel.contract.launching import Grid
from calor_kernel.contract.work import Launch
from calor_kernel.library.elementwise.values import stored
from calor_kernel.library.reduce.job import Placed, Problem
from calor_kernel.library.reduce.launches import is_even, steps_of
from calor_kernel.library.reduce.pair_tiles import PAD, PairPlan, Pairs, Side, reduce_pairs

# The longest row, the fewest rows of each set, and the fewest pairs.
_LONGEST: Final = 1024
_AGAIN: Final = 8
_FEW: Final = 1 << 15
# Rows of a unit's tile if pairs are many, and few, and its columns; units of a cube, and those of
# them beside each other. Pairs of a core from which tiles are large.
_LARGE, _SMALL, _COLUMNS = 4, 2, 4
_UNITS, _ACROSS = 256, 16
# Terms of a block, in order of preference.
_BLOCKS: Final = (16, 8)
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
    plan = _plan(problem) if _is_of_pairs(problem) else None
    if plan is None:
        return None
    found, units = problem.layout, _units(problem)
    *outer, rows, columns = found.kept.sizes
    down = plan.rows * (units // plan.across)
    blocks = -(-columns // (plan.columns * plan.across)), -(-rows // down)
    cubes = blocks[0] * blocks[1]
    for size in outer:
        cubes = cubes * size
    over = Pairs(rows, columns, *blocks, found.along.sizes[0], tuple(outer))
    index = kl.index_dtype(cubes * units, *map(_reach, problem.job.placed))
    grid = Grid.line(cubes, units, index=index)
    views = tuple(problem.views())
    return problem.launch(reduce_pairs, grid, problem.program, over=over, views=views, plan=plan)


def _is_of_pairs(problem: Problem) -> bool:
    """Return whether rows are short and each is read by many pairs."""
    found, info = problem.layout, problem.info
    if not (problem.many and info.has("barrier")) or len(found.kept.sizes) < 2:
        return False
    if len(found.along.sizes) > 1 or exceeds(found.along.count, _LONGEST):
        return False
    if not all(exceeds(size, _AGAIN - 1) for size in found.kept.sizes[-2:]):
        return False
    pairs = zip(sides_of(problem), problem.along, strict=False)
    sides = [side for side, varies in pairs if varies]
    several = "both" not in sides and {"rows", "columns"} <= set(sides)
    return several and exceeds(found.kept.count, _FEW)


def _units(problem: Problem) -> int:
    return min(_UNITS, problem.info.max_units)


def _plan(problem: Problem) -> PairPlan | None:
    """Return the plan of pairs, None if their blocks do not fit shared memory."""
    found, info, units = problem.layout, problem.info, _units(problem)
    sides, length = sides_of(problem), found.along.sizes[0]
    steps = steps_of(problem)[: len(sides)]
    block = next((b for b in _BLOCKS if length % b == 0), 0)
    whole = bool(block) or length < _BLOCKS[0]
    block = block or (int(length) if whole else _BLOCKS[0])
    across = min(_ACROSS, units)
    rows = _LARGE if exceeds(found.kept.count, _MANY * info.cores) else _SMALL
    lines = max(_COLUMNS * across, rows * (units // across)) + PAD
    operands = [o for o in problem.program.operands if o.role == "along"]
    room = sum(info.shared_room(block * lines, stored(o.dtype).itemsize) for o in operands)
    if room > info.shared_bytes:
        return None
    near = all(step == 1 for step, varies in zip(steps, problem.along, strict=False) if varies)
    width = problem.width if near and is_even(problem, problem.width) else 1
    width = 1 if block % width else width
    return PairPlan(sides, steps, width, rows, _COLUMNS, across, block, whole, *_writing(problem))


def _reach(placed: Placed) -> int:
    """Return the elements of memory from a view's first one to its last one."""
    axes = zip(placed.view.shape, placed.view.strides, strict=True)
    return sum(((n - 1) * abs(step) for n, step in axes), start=1)


def _writing(problem: Problem) -> tuple[tuple[bool, ...], bool]:
    """Return which results have adjacent columns, and whether all of them are whole vectors."""
    found, sources = problem.layout, len(problem.job.sources)
    strides = found.kept.strides[sources:]
    places = [found.kept.sizes[-1]]
    for placed, steps in zip(problem.job.targets, strides, strict=True):
        places += [placed.memory.offset + placed.view.offset, *steps[:-1]]
    dense = tuple(bool(steps[-1] == 1) for steps in strides)
    return dense, all(dense) and not any(place % _COLUMNS for place in places)
