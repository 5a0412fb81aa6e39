"""Ranks of elements within a cube, by one digit.

Requirements: stable; for cubes of many units. The lanes of a plane with the same digit are found by
one ballot a bit, and count together in the histogram of the plane (Ashkiani et al., "GPU
multisplit", 2016); on a device without planes each unit counts as a plane. Elements are numbered
plane by plane and in a plane item by item, so accesses are coalesced; padding beyond the end has
the last digit and the last ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

from calor.dtypes import DType, int32, uint32, uint64
from calor_kernel import language as kl


@dataclass(frozen=True, slots=True)
class RadixPlan:
    """A pass of a radix sort in cubes.

    ``source``: the dtype of elements; ``word``: of keys; ``bits``: of a digit, which begins at the
    bit ``shift``; ``items``: elements of a unit. The ``first`` pass reads elements, the ``last``
    one writes them; others have keys.
    """

    source: DType
    word: DType
    bits: int
    items: int
    descending: bool
    first: bool = False
    last: bool = False
    shift: int = 0

    @property
    def digits(self) -> int:
        """The number of digits."""
        return 1 << self.bits


def planes() -> int:
    """Return the planes of a cube."""
    return kl.cube_size() // kl.plane_size()


def item_indices(items: int) -> list[kl.Number]:
    """Return the indices of a unit's elements in the cube's tile."""
    plane = kl.plane_size()
    first = (kl.plane_position() * (plane * items) + kl.lane_position()).to(int32)
    return [first + i * plane for i in range(items)]


def digit_of(key: kl.Number, shift: kl.Index, bits: int) -> kl.Number:
    """Return a digit of a key as an index."""
    if isinstance(shift, int):
        return ((key >> shift) & ((1 << bits) - 1)).to(int32)
    return ((key >> shift.to(key.dtype)) & ((1 << bits) - 1)).to(int32)


@dataclass(slots=True)
class Bins:
    """Histograms of a cube's planes, and the first index of each digit in the cube."""

    counts: kl.Pointer
    starts: kl.Pointer
    slots: kl.Pointer

    @staticmethod
    def of(digits: int) -> Bins:
        """Return the shared memory of histograms."""
        count = planes()
        return Bins(
            kl.shared(count * digits, int32),
            kl.shared(digits, int32),
            kl.shared(kl.max(count, 1), int32),
        )


@kl.helper
def ranks_of(bins: Bins, digits: list[kl.Number], bits: int) -> list[kl.Number]:
    """Count digits; return the rank of each element among equal digits of its plane."""
    size, plane = 1 << bits, kl.plane_size()
    own = (kl.plane_position() * size).to(int32)
    for i in kl.loop_range(kl.unit_position(), planes() * size, kl.cube_size()):
        bins.counts[i] = kl.constant(0, int32)
    kl.barrier()
    ranks = []
    for digit in digits:
        if plane == 1:
            rank = bins.counts[own + digit]
            bins.counts[own + digit] = rank + 1
        else:
            same = lanes_with_digit(digit, bits)
            lane = kl.lane_position().to(same.dtype)
            lower = kl.popcount(same & ((kl.constant(1, same.dtype) << lane) - 1))
            leader = kl.ctz(same)
            before = kl.constant(0, int32)
            if leader == lane:
                before = bins.counts.atomic("add", own + digit, kl.popcount(same).to(int32))
            rank = kl.plane_shuffle(before, leader.to(int32)) + lower.to(int32)
        ranks.append(rank)
    kl.barrier()
    return ranks


def lanes_with_digit(digit: kl.Number, bits: int) -> kl.Number:
    """Return the lanes of the plane with the same digit, a bit each."""
    plane = kl.plane_size()
    word, every = (uint64, (1 << 64) - 1) if plane > 32 else (uint32, (1 << 32) - 1)
    same = kl.constant((1 << plane) - 1, word)
    for bit in range(bits):
        on = ((digit >> bit) & 1) != 0
        voted = (kl.plane_ballot(on) & every).to(word)
        same = same & kl.select(on, voted, voted ^ kl.constant(every, word))
    return same


@kl.helper
def scan_bins(bins: Bins, bits: int) -> kl.Number:
    """Replace counts by their exclusive scan over planes, and write the first index of digits.

    Return the count of the digit with the unit's number; a cube has a unit for each digit.
    """
    size, unit = 1 << bits, kl.unit_position()
    total = kl.constant(0, int32)
    if unit < size:
        for p in kl.loop_range(planes()):
            count = bins.counts[p * size + unit]
            bins.counts[p * size + unit] = total
            total = total + count
    start = exclusive_in_cube(total, bins.slots)
    if unit < size:
        bins.starts[unit] = start
    kl.barrier()
    return total


@kl.helper
def exclusive_in_cube(value: kl.Number, slots: kl.Pointer) -> kl.Number:
    """Return the exclusive scan of an int32 over the units of the cube."""
    count, unit, plane = planes(), kl.unit_position(), kl.plane_size()
    upto = value
    before = kl.constant(0, int32)
    if plane > 1:
        upto = kl.plane_scan("add", value)
        if kl.lane_position() == plane - 1:
            slots[kl.plane_position()] = upto
        kl.barrier()
        for p in range(count - 1):
            before = before + kl.select(kl.plane_position() > p, slots[p], 0)
    else:
        slots[unit] = value
        distance = 1
        while distance < count:
            kl.barrier()
            other = slots[kl.select(unit >= distance, unit - distance, unit)]
            upto = upto + kl.select(unit >= distance, other, 0)
            kl.barrier()
            slots[unit] = upto
            distance *= 2
    kl.barrier()
    return before + upto - value


def sorted_indices(
    bins: Bins, digits: list[kl.Number], ranks: list[kl.Number], bits: int
) -> list[kl.Number]:
    """Return the index of each element in the tile sorted by the digits."""
    own = (kl.plane_position() * (1 << bits)).to(int32)
    return [bins.starts[d] + bins.counts[own + d] + r for d, r in zip(digits, ranks, strict=True)]
