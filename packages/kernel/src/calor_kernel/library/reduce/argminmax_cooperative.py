"""Indices of extremes by teams: units of a cube that share a result.

Requirements: neighbouring units read neighbouring elements, along the axis or across it, and whole
aligned vectors of a dense row, wherever it begins; single elements before and after them are its
edges. Loads of several vectors are on their way before the first is compared. A lane has its own
best value and the place of its vector, so elements are compared once and no chain crosses lanes.
The index is that of the first extreme, and a NaN is before any number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from calor_kernel import language as kl
from calor_kernel.library.arrivals import is_last
from calor_kernel.library.elementwise.values import stored
from calor_kernel.library.reduce.argminmax import ArgPlan, Best, write_best
from calor_kernel.library.reduce.reduction_ops import ReductionOp

N = TypeVar("N")
# Values that a unit reads between two barriers.
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class ArgTasks(Generic[N]):
    """Results of ``terms`` elements ``step`` apart, in parts of ``chunk`` elements.

    ``blocks``: of the results of a cube; those of each part follow one another. ``shift``: elements
    of the memory before its first one, after an aligned place. ``sizes`` and ``strides``: of the
    axes of the results.
    """

    results: kl.SizeOf[N]
    blocks: kl.SizeOf[N]
    terms: kl.SizeOf[N]
    chunk: kl.SizeOf[N]
    step: kl.StrideOf[N]
    shift: kl.SizeOf[N]
    sizes: tuple[kl.StrideOf[N], ...]
    strides: tuple[kl.StrideOf[N], ...]


@dataclass(frozen=True, slots=True)
class Team:
    """The units of a result: ``units`` neighbours of a cube, or as many apart as it has results."""

    units: int
    along: bool

    @property
    def results(self) -> int:
        """Results of a cube."""
        return kl.cube_size() // self.units

    @property
    def apart(self) -> int:
        """The distance of a result's units."""
        return 1 if self.along else self.results


@kl.kernel
def argminmax_teams(
    x: kl.In,
    values: kl.Out | None,
    indices: kl.Out,
    over: ArgTasks[kl.Number],
    *,
    plan: ArgPlan,
    team: Team,
) -> None:
    """Find indices, each by a team of units; ``values`` are written for parts of results."""
    block, part = kl.cube_position() % over.blocks, kl.cube_position() // over.blocks
    row, mine = of_unit(team)
    row = block * team.results + row
    found = best_of_part(x, plan, over, team, kl.min(row, over.results - 1), part, mine)
    if (mine == 0) & (row < over.results):
        write_best(values, indices, part * over.results + row, found, None)


@kl.kernel
def argminmax_joined(
    x: kl.In,
    values: kl.InOut,
    indices: kl.InOut,
    out: kl.Out,
    flags: kl.InOut,
    over: ArgTasks[kl.Number],
    parts: kl.Size,
    *,
    plan: ArgPlan,
    team: Team,
) -> None:
    """Find the indices of parts of results, and of all parts in the last cube of a block.

    ``values``, ``indices``: of the parts. ``flags`` counts the cubes of each block. No cube waits.
    """
    block, part = kl.cube_position() % over.blocks, kl.cube_position() // over.blocks
    row, mine = of_unit(team)
    row = block * team.results + row
    inside = row < over.results
    row = kl.min(row, over.results - 1)
    found = best_of_part(x, plan, over, team, row, part, mine)
    if (mine == 0) & inside:
        write_best(values, indices, part * over.results + row, found, None)
    if is_last(flags, block, parts):
        found = best_of_parts(values, indices, over.results, parts, plan, team, row, mine)
        if (mine == 0) & inside:
            write_best(None, out, row, found, None)


@kl.kernel
def join_indices_in_teams(
    values: kl.In,
    indices: kl.In,
    out: kl.Out,
    results: kl.Size,
    parts: kl.Size,
    *,
    plan: ArgPlan,
    team: Team,
) -> None:
    """Write the index of the best of ``parts`` values; parts follow one another."""
    row, mine = of_unit(team)
    row = kl.cube_position() * team.results + row
    at = kl.min(row, results - 1)
    found = best_of_parts(values, indices, results, parts, plan, team, at, mine)
    if (mine == 0) & (row < results):
        write_best(None, out, row, found, None)


@kl.helper
def of_unit(team: Team) -> tuple[kl.Number, kl.Number]:
    """Return which of the cube's results a unit has, and its place in the team."""
    unit = kl.unit_position()
    if team.along:
        return unit // team.units, unit % team.units
    return unit % team.results, unit // team.results


@kl.helper
def best_of_parts(
    values: kl.Pointer,
    indices: kl.Pointer,
    results: kl.Number,
    parts: kl.Number,
    plan: ArgPlan,
    team: Team,
    row: kl.Number,
    mine: kl.Number,
) -> Best:
    """Return the best of the values that parts of a result left, and its index."""
    best, index = plan.op.neutral(), ReductionOp("min", plan.index).neutral()
    for part in kl.loop_range(mine, parts, team.units):
        at = part * results + row
        best, index = better_of(plan.op, (best, index), (values[at], indices[at]))
    return over_units(plan, (best, index), team)


@kl.helper
def best_of_part(
    x: kl.Pointer,
    plan: ArgPlan,
    over: ArgTasks[kl.Number],
    team: Team,
    row: kl.Number,
    part: kl.Number,
    mine: kl.Number,
) -> Best:
    """Return the best value of a part of a result and its first index; every unit calls it."""
    base = kl.offset_of(kl.unravel(row, over.sizes), over.strides)
    begin = part * over.chunk
    end = kl.min(begin + over.chunk, over.terms)
    first, stop, width = begin, end, plan.width
    if plan.uneven:
        before = (-(over.shift + base + begin)) & (width - 1)
        first = kl.min(begin + before, end)
    if width > 1:
        stop = first + (end - first) // width * width
    if not plan.uneven:
        return over_units(plan, best_vector(x, plan, over, team, base, first, stop, mine), team)
    # One unit has one edge at most; it is on its way while vectors are read.
    lead = first - begin
    edge = kl.min(kl.select(mine < lead, begin + mine, stop + (mine - lead)), end - 1)
    value = replace(plan, width=1).element(x, base + edge)
    found = best_vector(x, plan, over, team, base, first, stop, mine)
    inside = mine < lead + (end - stop)
    beyond = ReductionOp("min", plan.index).neutral()
    one = (
        kl.select(inside, value, plan.op.neutral()),
        kl.select(inside, kl.cast(edge, plan.index), beyond),
    )
    return over_units(plan, better_of(plan.op, found, one), team)


@kl.helper
def best_vector(
    x: kl.Pointer,
    plan: ArgPlan,
    over: ArgTasks[kl.Number],
    team: Team,
    base: kl.Number,
    first: kl.Number,
    stop: kl.Number,
    mine: kl.Number,
) -> Best:
    """Return the best value of a unit's vectors from ``first`` on, and its first index.

    Beyond the last vector a unit compares that one again, which changes nothing.
    """
    op, width, step = plan.op, plan.width, team.units * plan.width
    align = width * stored(plan.source).itemsize if width > 1 else 0
    start = first + mine * width
    # Of a unit without vectors the index is after all others.
    beyond = int(ReductionOp("min", plan.index).identity) - width
    index = kl.select(start < stop, kl.cast(start, plan.index), beyond)
    best, index = op.neutral(width), kl.splat(index, width)
    for t in kl.loop_range(start, stop, step * plan.unroll):
        places = [t] + [kl.min(t + u * step, stop - width) for u in range(1, plan.unroll)]
        taken = [plan.element(x, base + place * over.step, align=align) for place in places]
        for place, value in zip(places, taken, strict=True):
            better = op.beats(value, best)
            best = kl.select(better, value, best)
            index = kl.select(better, kl.splat(kl.cast(place, plan.index), width), index)
    return over_lanes(op, (best, index))


@kl.helper
def over_lanes(op: ReductionOp, found: Best) -> Best:
    """Return the best of a vector's lanes, of which each has its vector's index, and its own."""
    best, index = found
    width = best.width
    if width == 1:
        return found
    index = index + kl.constant(tuple(range(width)), index.dtype)
    while width > 1:
        width //= 2
        low, high = range(width), range(width, 2 * width)
        best, index = better_of(
            op,
            (kl.shuffle(best, low), kl.shuffle(index, low)),
            (kl.shuffle(best, high), kl.shuffle(index, high)),
        )
    return best, index


@kl.helper
def over_units(plan: ArgPlan, found: Best, team: Team) -> Best:
    """Return the best value of a team's units and its first index; every unit calls it.

    Neighbours in a plane exchange values without shared memory, if they are of 32 bits.
    """
    op, unit, apart = plan.op, kl.unit_position(), team.apart
    best, index = found
    distance, plane = 1, 1
    if apart == 1 and op.dtype.itemsize == plan.index.itemsize == 4:
        plane = kl.plane_size()
    while distance < kl.min(team.units, plane):
        value = kl.plane_shuffle(best, distance, "xor")
        number = kl.plane_shuffle(index, distance, "xor")
        best, index = better_of(op, (best, index), (value, number))
        distance *= 2
    if distance < team.units:
        size = kl.cube_size()
        values, indices = kl.shared(size, op.dtype), kl.shared(size, plan.index)
        place = unit // apart % team.units
        while distance < team.units:
            several = min(_AT_ONCE, team.units // distance)
            values[unit], indices[unit] = best, index
            kl.barrier()
            first = unit - place % (distance * several) // distance * (distance * apart)
            best, index = values[first], indices[first]
            for k in range(1, several):
                at = first + k * (distance * apart)
                best, index = better_of(op, (best, index), (values[at], indices[at]))
            kl.barrier()
            distance *= several
    return best, index


@kl.helper
def better_of(op: ReductionOp, one: Best, other: Best) -> Best:
    """Return the better one of two values with their indices, or the first of equals."""
    (best, index), (value, number) = one, other
    better, worse = op.beats(value, best), op.beats(best, value)
    taken = better | (~worse & (number < index))
    return kl.select(taken, value, best), kl.select(taken, number, index)
