"""The operations of reductions and scans: identity, dtype, and combination of values and units.

Requirements: half types accumulate in float32 and round once. A sum or product whose result has
another type than its terms accumulates in their common type, by NumPy's promotion. Integers wrap,
so those smaller than 32 bits may accumulate in 32.

The error of a sum of floats does not grow with its length. Blocks of terms are added plainly. Each
block's sum is added to the total set aside, with the error of that addition beside it (Neumaier,
1974). So the error is at most (depth of a block + 2) · u · Σ|x|, where u is half an ulp of 1.
Infinite sums stay infinite.

Units of a team join neighbours first, so that the order depends on the number of units alone, and
results are the same on devices with planes and without. A team is a power of two of neighbouring
units, and a cube has whole teams; a single unit is a team.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Final

import numpy as np

from calor.dtypes import DType, as_dtype, bool_, float32, int32, int64, uint32
from calor_kernel import language as kl
from calor_kernel.language.builder import current
from calor_kernel.library.math.base import exactly, two_sum

TOTALS: Final = ("sum", "prod")
EXTREMES: Final = ("max", "min")
INDICES: Final = ("argmax", "argmin")
TRUTHS: Final = ("any", "all")
LANES: Final = {
    "sum": "add",
    "prod": "mul",
    "max": "max",
    "peak": "max",
    "min": "min",
    "any": "or",
    "all": "and",
}
"""The reduction of a vector's lanes by kind."""


@dataclass(frozen=True, slots=True)
class ReductionOp:
    """A reduction: its kind, and the dtype of the accumulation.

    Kinds are sum, prod, max, min, any, all, argmax, argmin, and peak: a maximum that ignores NaN,
    which costs less.
    """

    kind: str
    dtype: DType

    @property
    def identity(self) -> float:
        """The identity, as a number of Python."""
        kind, dtype = self.kind, self.dtype
        if kind in ("sum", "any"):
            return False if dtype is bool_ else 0
        if kind in ("prod", "all"):
            return True if dtype is bool_ else 1
        largest = kind in ("min", "argmin")
        if dtype is bool_:
            return largest
        if dtype.kind == "float":
            return inf if largest else -inf
        bits: int = 8 * dtype.itemsize - (dtype.kind == "int")
        if largest:
            return (1 << bits) - 1
        return -(1 << bits) if dtype.kind == "int" else 0

    @property
    def rounds(self) -> bool:
        """Whether the order of the operations changes bits of the result."""
        return self.kind in TOTALS and self.dtype.kind == "float"

    @property
    def compensated(self) -> bool:
        """Whether the sums of blocks are set aside, with their rounding errors."""
        return self.kind == "sum" and self.dtype.kind == "float"

    def neutral(self, width: int = 1) -> kl.Number:
        """Return the identity in each lane."""
        return kl.constant(self.identity, self.dtype, width)

    def combine(self, a: kl.Number, b: kl.Number) -> kl.Number:
        """Return two values combined lane by lane; for extremes NaN if one is NaN."""
        if self.kind == "sum":
            return a + b
        if self.kind == "prod":
            return a * b
        if self.kind == "peak":
            return kl.select(b > a, b, a)
        if a.dtype is bool_:
            return a | b if self.kind in ("any", "max") else a & b
        return current().binary(self.kind, a, b)

    def tree(self, values: Sequence[kl.Number]) -> kl.Number:
        """Return the values combined in a tree, neighbours first."""
        made = list(values)
        while len(made) > 1:
            pairs = [self.combine(a, b) for a, b in zip(made[::2], made[1::2], strict=False)]
            made = pairs + ([made[-1]] if len(made) % 2 else [])
        return made[0]

    @exactly
    def put_aside(
        self, total: kl.Number, rest: kl.Number, block: kl.Number
    ) -> tuple[kl.Number, kl.Number]:
        """Return the total set aside and its rounding error, after adding a block's total."""
        if not self.compensated:
            return self.combine(total, block), rest
        total, lost = two_sum(total, block)
        return total, rest + lost

    @exactly
    def taken_together(self, total: kl.Number, rest: kl.Number) -> kl.Number:
        """Return the total set aside plus its rounding error."""
        if not self.compensated:
            return total
        # The error of an infinite sum is NaN and is ignored.
        return total + kl.select(rest == rest, rest, 0.0)

    def over_lanes(self, vector: kl.Number) -> kl.Number:
        """Return the lanes of a vector reduced to one value, halves first."""
        name = LANES[self.kind]
        if vector.dtype is bool_:
            name = {"max": "or", "min": "and"}.get(name, name)
        return kl.vreduce(name, vector)

    def beats(self, value: kl.Number, best: kl.Number) -> kl.Number:
        """Return whether a value beats the best one so far, which has the lower index."""
        largest = self.kind in ("max", "argmax")
        if value.dtype.kind == "float":
            # A value that is not at most the best is above it, or one of the two is NaN.
            under = value <= best if largest else value >= best
            return ~under & (best == best)
        return value > best if largest else value < best


@cache
def working(kind: str, source: DType, result: DType) -> DType:
    """Return the dtype of the accumulation."""
    if kind in TRUTHS:
        return bool_
    wide = float32 if source.kind == "float" and source.itemsize < 4 else source
    if kind in EXTREMES:
        return wide
    if kind in INDICES:
        return int32 if wide is bool_ else wide
    made = float32 if result.kind == "float" and result.itemsize < 4 else result
    if wide.is_inexact:
        made = as_dtype(np.result_type(made.numpy, wide.numpy))
    if made.is_integer and made.itemsize < 4:
        return int32 if made.kind == "int" else uint32
    return made


def index_type(terms: int) -> DType:
    """Return the dtype of indices."""
    return int32 if terms < 1 << 31 else int64


# Values that a unit of a device without planes reads between two barriers.
_AT_ONCE = 8


def over_each(op: ReductionOp, vectors: Sequence[kl.Number]) -> kl.Number:
    """Return each vector's reduced lanes, in the lane of its index; for as many vectors as lanes.

    Neighbouring lanes of two vectors are joined at a time, until one vector is left.
    """
    made, width, distance = list(vectors), vectors[0].width, 1
    while len(made) > 1:
        # Lanes with this bit 0 get the first vector's results, the others the second's.
        even = [(n & ~distance) + (width if n & distance else 0) for n in range(width)]
        odd = [n + distance for n in even]
        pairs = zip(made[::2], made[1::2], strict=True)
        made = [op.combine(kl.shuffle(a, even, b), kl.shuffle(a, odd, b)) for a, b in pairs]
        distance *= 2
    return made[0]


@kl.helper
def over_team(op: ReductionOp, value: kl.Number, team: int) -> kl.Number:
    """Return the reduced values of a team's units; every unit of the cube calls it."""
    plane = kl.plane_size()
    distance = 1
    while distance < kl.min(team, plane):
        value = op.combine(value, kl.plane_shuffle(value, distance, "xor"))
        distance *= 2
    if distance < team:
        if plane > 1:
            value = over_planes(op, value, team // plane)
        else:
            place = kl.unit_position() % team
            room = kl.shared(kl.cube_size(), value.dtype)
            mine = room.at(kl.unit_position() - place)
            while distance < team:
                several = kl.min(_AT_ONCE, team // distance)
                mine[place] = value
                kl.barrier()
                first = place - place % (distance * several)
                value = op.tree([mine[first + k * distance] for k in range(several)])
                kl.barrier()
                distance *= several
    return value


@kl.helper
def over_planes(op: ReductionOp, value: kl.Number, planes: int) -> kl.Number:
    """Return the reduced values of a team's planes, neighbours first."""
    room = kl.shared(kl.cube_size() // kl.plane_size(), value.dtype)
    own = kl.plane_position()
    if kl.lane_position() == 0:
        room[own] = value
    kl.barrier()
    first = own - own % planes
    if planes > _AT_ONCE and planes <= kl.plane_size():
        # Each unit reads one value, and units exchange them in the order of the tree.
        value = room[first + kl.lane_position() % planes]
        distance = 1
        while distance < planes:
            value = op.combine(value, kl.plane_shuffle(value, distance, "xor"))
            distance *= 2
    else:
        value = op.tree([room[first + p] for p in range(planes)])
    kl.barrier()
    return value


@kl.helper
def over_rows(op: ReductionOp, value: kl.Number, down: int) -> kl.Number:
    """Return the joined values of the units of one vector; every unit of the cube calls it."""
    if down == 1:
        return value
    span, width = kl.cube_size() // down, value.width
    align = width * value.dtype.itemsize if width > 1 else 0
    unit = kl.unit_position()
    room = kl.shared(kl.cube_size() * width, value.dtype, align=align)
    distance = down // 2
    while distance:
        room.store(unit * width, value, align=align)
        kl.barrier()
        other = room.load((unit ^ (distance * span)) * width, width, align=align)
        value = op.combine(value, other)
        kl.barrier()
        distance //= 2
    return value
