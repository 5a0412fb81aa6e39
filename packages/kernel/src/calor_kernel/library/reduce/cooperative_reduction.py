"""Reductions over a team of units: every unit gets the same result.

Requirements: neighbours are joined first, so that the order depends on the number of units alone,
and results are the same on devices with planes and without. A cube has few barriers. A team is a
power of two of neighbouring units, and a cube has whole teams; a single unit is a team.
"""

from __future__ import annotations

from collections.abc import Sequence

from calor_kernel.language import (
    Number,
    Pointer,
    barrier,
    cube_size,
    helper,
    lane_position,
    min,
    plane_position,
    plane_shuffle,
    plane_size,
    shared,
    shuffle,
    unit_position,
)
from calor_kernel.library.reduce.reduction_ops import ReductionOp

# Values that a unit of a device without planes reads between two barriers.
_AT_ONCE = 8


def over_each(op: ReductionOp, vectors: Sequence[Number]) -> Number:
    """Return each vector's reduced lanes, in the lane of its index; for as many vectors as lanes.

    Neighbouring lanes of two vectors are joined at a time, until one vector is left.
    """
    made, width, distance = list(vectors), vectors[0].width, 1
    while len(made) > 1:
        # Lanes with this bit 0 get the first vector's results, the others the second's.
        even = [(n & ~distance) + (width if n & distance else 0) for n in range(width)]
        odd = [n + distance for n in even]
        pairs = zip(made[::2], made[1::2], strict=True)
        made = [op.combine(shuffle(a, even, b), shuffle(a, odd, b)) for a, b in pairs]
        distance *= 2
    return made[0]


@helper
def over_team(op: ReductionOp, value: Number, team: int) -> Number:
    """Return the reduced values of a team's units; every unit of the cube calls it."""
    plane = plane_size()
    distance = 1
    while distance < min(team, plane):
        value = op.combine(value, plane_shuffle(value, distance, "xor"))
        distance *= 2
    if distance < team:
        if plane > 1:
            value = over_planes(op, value, team // plane)
        else:
            place = unit_position() % team
            room: Pointer = shared(cube_size(), value.dtype)
            mine = room.at(unit_position() - place)
            while distance < team:
                several = min(_AT_ONCE, team // distance)
                mine[place] = value
                barrier()
                first = place - place % (distance * several)
                value = op.tree([mine[first + k * distance] for k in range(several)])
                barrier()
                distance *= several
    return value


@helper
def over_planes(op: ReductionOp, value: Number, planes: int) -> Number:
    """Return the reduced values of a team's planes, neighbours first."""
    room: Pointer = shared(cube_size() // plane_size(), value.dtype)
    own = plane_position()
    if lane_position() == 0:
        room[own] = value
    barrier()
    first = own - own % planes
    value = op.tree([room[first + p] for p in range(planes)])
    barrier()
    return value
