"""Ranks of digits within a cube: where each of its elements goes when it is sorted by one digit.

Requirements: stable; for cubes of many units. Lanes of a plane that have the same digit find each
other by ballots, one a bit, and count together in a histogram of their plane (Ashkiani et al., "GPU
multisplit", 2016); a unit without a plane is one by itself. Elements are numbered plane by plane
and in a plane item by item, so that accesses are whole lines; what lies beyond the end has the last
digit and the last places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType, int32, uint32, uint64
from calor_kernel.language import (
    Pointer,
    barrier,
    constant,
    ctz,
    cube_size,
    helper,
    lane_position,
    loop_range,
    plane_ballot,
    plane_position,
    plane_scan,
    plane_shuffle,
    plane_size,
    popcount,
    select,
    shared,
    unit_position,
)


@dataclass(frozen=True, slots=True)
class RadixPlan:
    """How cubes sort by a digit.

    ``word``: the type of keys; ``bits``: of a digit; ``items``: elements of a unit. ``source``: the
    type of the elements. ``first`` and ``last``: whether elements are read, or keys, and whether
    elements are written. ``looks_back``: whether tiles find their places by looking back.
    """

    source: DType
    word: DType
    bits: int
    items: int
    descending: bool
    first: bool = False
    last: bool = False
    looks_back: bool = False
    shift: int = 0

    @property
    def digits(self) -> int:
        """The number of digits."""
        return 1 << self.bits


def planes() -> int:
    """Return how many planes a cube has."""
    return cube_size() // plane_size()


def item_places(items: int) -> list[Any]:
    """Return the numbers of a unit's elements in the cube's tile."""
    plane = plane_size()
    first = (plane_position() * (plane * items) + lane_position()).to(int32)
    return [first + i * plane for i in range(items)]


def digit_of(key: Any, shift: Any, bits: int) -> Any:
    """Return a digit of a key as an index."""
    if isinstance(shift, int):
        return ((key >> shift) & ((1 << bits) - 1)).to(int32)
    return ((key >> shift.to(key.dtype)) & ((1 << bits) - 1)).to(int32)


@dataclass(slots=True)
class Bins:
    """Histograms of a cube's planes, and where each digit begins among the cube's elements."""

    counts: Pointer
    starts: Pointer
    room: Pointer

    @staticmethod
    def of(digits: int) -> Bins:
        """Return the shared memory of histograms."""
        count = planes()
        return Bins(
            shared(count * digits, int32), shared(digits, int32), shared(max(count, 1), int32)
        )


@helper
def ranks_of(bins: Bins, digits: list[Any], bits: int) -> list[Any]:
    """Count digits, and return how many equal ones of its plane come before each element."""
    size, plane = 1 << bits, plane_size()
    own = (plane_position() * size).to(int32)
    for i in loop_range(unit_position(), planes() * size, cube_size()):
        bins.counts[i] = constant(0, int32)
    barrier()
    ranks = []
    for digit in digits:
        if plane == 1:
            rank = bins.counts[own + digit]
            bins.counts[own + digit] = rank + 1
        else:
            alike = lanes_alike(digit, bits)
            lane = lane_position().to(alike.dtype)
            lower = popcount(alike & ((constant(1, alike.dtype) << lane) - 1))
            leader = ctz(alike)
            before = constant(0, int32)
            if leader == lane:
                before = bins.counts.atomic("add", own + digit, popcount(alike).to(int32))
            rank = plane_shuffle(before, leader.to(int32)) + lower.to(int32)
        ranks.append(rank)
    barrier()
    return ranks


def lanes_alike(digit: Any, bits: int) -> Any:
    """Return the lanes of the plane that have the same digit, a bit each."""
    plane = plane_size()
    word, every = (uint64, (1 << 64) - 1) if plane > 32 else (uint32, (1 << 32) - 1)
    alike = constant((1 << plane) - 1, word)
    for bit in range(bits):
        on = ((digit >> bit) & 1) != 0
        voted = (plane_ballot(on) & every).to(word)
        alike = alike & select(on, voted, voted ^ constant(every, word))
    return alike


@helper
def settle_bins(bins: Bins, bits: int) -> Any:
    """Turn counts into where planes begin in each digit, and write where digits begin.

    Returns the count of the digit that has the unit's number; a cube has a unit for each.
    """
    size, unit = 1 << bits, unit_position()
    total = constant(0, int32)
    if unit < size:
        for p in loop_range(planes()):
            count = bins.counts[p * size + unit]
            bins.counts[p * size + unit] = total
            total = total + count
    start = exclusive_in_cube(total, bins.room)
    if unit < size:
        bins.starts[unit] = start
    barrier()
    return total


@helper
def exclusive_in_cube(value: Any, room: Any) -> Any:
    """Return the sum of an int32 of all units before this one."""
    count, unit, plane = planes(), unit_position(), plane_size()
    upto = value
    before = constant(0, int32)
    if plane > 1:
        upto = plane_scan("add", value)
        if lane_position() == plane - 1:
            room[plane_position()] = upto
        barrier()
        for p in range(count - 1):
            before = before + select(plane_position() > p, room[p], 0)
    else:
        room[unit] = value
        distance = 1
        while distance < count:
            barrier()
            other = room[select(unit >= distance, unit - distance, unit)]
            upto = upto + select(unit >= distance, other, 0)
            barrier()
            room[unit] = upto
            distance *= 2
    barrier()
    return before + upto - value


def places_of(bins: Bins, digits: list[Any], ranks: list[Any], bits: int) -> list[Any]:
    """Return each element's place in the tile, sorted by the digits."""
    own = (plane_position() * (1 << bits)).to(int32)
    return [bins.starts[d] + bins.counts[own + d] + r for d, r in zip(digits, ranks, strict=True)]
