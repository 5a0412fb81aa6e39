"""The choice of teams for rows in registers: units that share a row, and their vectors.

Requirements: for cubes of many units, a row with several passes is read once. Enough accesses are
in flight, and a unit's values stay in its registers. A kernel is for a power of two of vectors, so
that few are compiled. A lone sum has the same order as a sum with fused work around it, so it is
held in registers too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calor_kernel.contract.info import DeviceInfo
from calor_kernel.library.reduce.launch_operands import Job
from calor_kernel.library.reduce.layout import Layout
from calor_kernel.library.reduce.program import Fold, Program, Schedule
from calor_kernel.library.reduce.reduction_ops import TOTALS
from calor_kernel.library.reduce.row_state import RowPlan

# Maximum of bytes of all operands in a unit, in vectors of 16 bytes.
_HELD: Final = 192
# Vectors of a unit, in order of preference, and the least number of units for several.
_VECTORS: Final = (4, 2, 1, 8)
_PLANE: Final = 32
_LONGEST: Final = 1 << 13


def held_team(
    program: Program, found: Layout, along: Sequence[bool], width: int, info: DeviceInfo
) -> tuple[int, int] | None:
    """Return the units of a row and their vectors; None if no team's registers suffice."""
    if info.max_units == 1 or found.along.rank > 1:
        return None
    if any(program.dtype(n).is_complex for n in range(program.values)):
        return None
    steps = [s[-1] for s, varies in zip(found.along.strides, along, strict=True) if varies]
    if any(step not in (0, 1) for step in steps):
        return None
    operands = sum(1 for o in program.operands if o.place == "along")
    most = _HELD // (info.vector_bytes * max(operands, 1))
    if Schedule.of(program).count(program) == 1:
        if not any(_has_order(program.fold(n)) for n in program.folds):
            return None
        # Fused programs have more operands than the lone reduction; too many are not held.
        most = min(most, _VECTORS[0])
    capacity = 1
    while capacity <= _LONGEST:
        if found.along.sizes[-1] <= capacity * width:
            for held in _VECTORS:
                team = capacity // held
                several = held == 1 or team >= _PLANE
                if held <= most and several and 0 < team <= info.max_units:
                    return team, held
        capacity *= 2
    return None


def _has_order(fold: Fold) -> bool:
    """Return whether a reduction rounds, so that the order affects the bits."""
    return fold.kind in TOTALS and fold.dtype.kind == "float"


def holding(
    plan: RowPlan, team: tuple[int, int], found: Layout, along: Sequence[bool], job: Job
) -> RowPlan:
    """Return the plan of rows in registers, from a plan with axes, steps and width."""
    even = found.along.sizes[-1] % plan.width == 0
    for k, placed in enumerate((*job.sources, *job.targets)):
        if along[k] and plan.steps[k]:
            places = (placed.memory.offset + placed.view.offset, *found.kept.strides[k])
            even = even and all(place % plan.width == 0 for place in places)
    units, held = team
    return RowPlan(plan.kept, plan.axes, plan.steps, plan.width, team=units, held=held, even=even)
