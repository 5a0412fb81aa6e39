"""Indices of extremes by cubes of many units: a team of units finds one index.

Requirements: as for single units, the first of equal extremes, and NaN before any number. Any
strides. Neighbouring units read neighbouring elements, along the axis or across it.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import int64
from calor_kernel.language import (
    barrier,
    cast,
    constant,
    cube_position,
    cube_size,
    helper,
    kernel,
    loop_range,
    offset_of,
    select,
    shared,
    unit_position,
    unravel,
)
from calor_kernel.library.elementwise.conversions import converted
from calor_kernel.library.elementwise.values import load
from calor_kernel.library.reduce.argminmax import PlacePlan
from calor_kernel.library.reduce.reduction_ops import beats, identity


@kernel
def places_of_teams(*arguments: Any, plan: PlacePlan, team: int, along: bool) -> None:
    """Find indices; ``team`` units share one, neighbours along the axis or across it.

    Arguments: x, the values if ``partial``, the indices; results, results of all parts, terms of a
    result and of a part, the stride of the axis; sizes of the other axes, and strides.
    """
    x, *targets = arguments[: 2 + plan.partial]
    results, tasks, terms, chunk, step, *numbers = arguments[2 + plan.partial :]
    sizes, strides = numbers[: plan.kept], numbers[plan.kept :]
    unit, span = unit_position(), cube_size() // team
    across, mine = (unit // team, unit % team) if along else (unit % span, unit // span)
    task = cube_position() * span + across
    row = min(task, tasks - 1)
    row, part = row % results, row // results
    base = offset_of(unravel(row, sizes), strides)
    begin = part * chunk
    end = min(begin + chunk, terms)
    best = constant(identity(plan.kind, plan.wide), plan.wide)
    place = constant(identity("min", plan.index), plan.index)
    first = begin + mine
    if first < end:
        best, place = value_at(x, plan, base + first * step), cast(first, plan.index)
    for t in loop_range(first + team, end, team):
        value = value_at(x, plan, base + t * step)
        better = beats(plan.kind, value, best)
        best, place = select(better, value, best), select(better, cast(t, plan.index), place)
    best, place = over_units(plan, best, place, team, 1 if along else span)
    if (mine == 0) & (task < tasks):
        if plan.partial:
            targets[0][task] = best
            targets[1][task] = place
        else:
            targets[0][task] = cast(place, int64)


def value_at(x: Any, plan: PlacePlan, at: Any) -> Any:
    """Return an element in the type of the comparison."""
    return converted(load(x, plan.source, at, 1), plan.source, plan.wide)


@helper
def over_units(plan: PlacePlan, best: Any, place: Any, team: int, apart: int) -> Any:
    """Return the best value of a team's units and its first index; every unit calls it."""
    unit = unit_position()
    values, places = shared(cube_size(), plan.wide), shared(cube_size(), plan.index)
    distance = team // 2
    while distance:
        values[unit], places[unit] = best, place
        barrier()
        other = unit ^ (distance * apart)
        value, number = values[other], places[other]
        barrier()
        better, worse = beats(plan.kind, value, best), beats(plan.kind, best, value)
        taken = better | (~worse & (number < place))
        best, place = select(taken, value, best), select(taken, number, place)
        distance //= 2
    return best, place
