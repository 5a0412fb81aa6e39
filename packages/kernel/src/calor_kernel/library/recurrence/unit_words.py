"""What the cubes of a group tell each other in a recurrent scan by units.

Requirements: a *word* in memory has a number in its lower half, and the number of the step in the
upper one. Who reads a word with the step's number has the number itself, so there is no count of
arrivals and no fence in a step. Words are cleared before the first step, and a cube writes a word
again when it has read those of the step after from all cubes. Flags are 0 before and after the
launch.
"""

from __future__ import annotations

from collections.abc import Sequence

from calor.dtypes import uint32, uint64
from calor_kernel import language as kl
from calor_kernel.library.arrivals import arrive, is_last, leave, wait_for
from calor_kernel.library.recurrence.cell import Cell
from calor_kernel.library.recurrence.stacks import Extent, Item
from calor_kernel.library.recurrence.unit_plan import UnitPlan

# Flags of a group: who left, and the count of arrivals.
LEFT, ARRIVED, FLAGS = 0, 1, 2
# Words that a unit reads together.
_TOGETHER = 8


class Told:
    """What the cubes of a group tell each other: words with factors and the step's number."""

    def __init__(
        self,
        words: kl.Pointer | None,
        flags: kl.Pointer | None,
        group: kl.Number,
        extent: Extent[kl.Number],
        plan: UnitPlan,
        cell: Cell,
    ) -> None:
        self.plan, self.cell, self.extent = plan, cell, extent
        self.group = group
        self.flags = flags
        self.words = None if words is None else words.at(self.group * (2 * plan.room))

    def clear(self, mine: Sequence[Item], begin: kl.Number) -> None:
        """Clear a cube's own words, and tell the others."""
        words, flags = self.words, self.flags
        assert words is not None
        assert flags is not None
        zero = kl.constant(0, uint64)
        for one in mine:
            for block in range(self.cell.factors):
                term = block * self.extent.features + begin + one.whole.own
                at = one.sample * self.plan.pitch + term
                for place in (at, at + self.plan.room):
                    words.store(place, zero, mask=one.whole.exists, order="relaxed", scope="device")
        arrived(flags, self.group * FLAGS + ARRIVED)

    def wait(self) -> None:
        """Wait until all cubes of the group have cleared their words."""
        assert self.flags is not None
        wait_for(self.flags, self.group * FLAGS + ARRIVED, kl.cube_count(0))

    def tell(self, one: Item, term: kl.Number, value: kl.Number, step: kl.Number) -> None:
        """Write a factor of a step."""
        assert self.words is not None
        word = kl.bitcast(value, uint32).to(uint64) | ((step + 1).to(uint64) << 32)
        at = step % 2 * self.plan.room + one.sample * self.plan.pitch + term
        self.words.store(at, word, mask=one.whole.exists, order="relaxed", scope="device")

    def hear(self, target: kl.Pointer, step: kl.Number) -> None:
        """Read the factors of a step into shared memory, as soon as they are there."""
        assert self.words is not None
        plan = self.plan
        source = self.words.at(step % 2 * plan.room)
        turns = -(-plan.room // plan.units)
        for begin in range(0, turns, _TOGETHER):
            some = range(begin, min(begin + _TOGETHER, turns))
            numbers = [kl.unit_index() + turn * plan.units for turn in some]
            exist = [self._exists(number) for number in numbers]
            places = [
                kl.select(there, number, 0) for there, number in zip(exist, numbers, strict=True)
            ]
            read = kl.registers(len(some), uint64)
            wait_for_words(read, source, places, (step + 1).to(uint64))
            for k, number in enumerate(numbers):
                value = kl.bitcast(read[k].to(uint32), plan.dtype)
                target.store(number, value, mask=exist[k])

    def _exists(self, number: kl.Number) -> kl.Mask:
        plan = self.plan
        sample, term = number // plan.pitch, number % plan.pitch
        inside = (term < self.cell.factors * self.extent.features) & (number < plan.room)
        return inside & (self.group * plan.samples + sample < self.extent.samples)

    def leave(self) -> None:
        """Reset the count of arrivals, as the last cube of the group."""
        assert self.flags is not None
        gone(self.flags, self.group * FLAGS, kl.cube_count(0))


@kl.helper
def arrived(flags: kl.Pointer, place: kl.Index) -> None:
    """Count a cube, with what its units stored."""
    kl.barrier()
    if kl.unit_index() == 0:
        arrive(flags, place)


@kl.helper
def gone(flags: kl.Pointer, place: kl.Index, count: kl.Number) -> None:
    """Reset a count of arrivals, as the last of ``count`` cubes; ``place``: of its flags."""
    if is_last(flags, place + LEFT, count) & (kl.unit_index() == 0):
        leave(flags, place + ARRIVED)


@kl.helper
def wait_for_words(
    read: kl.Registers, source: kl.Pointer, places: Sequence[kl.Number], tag: kl.Number
) -> None:
    """Read words until all have the tag, in all units of a plane.

    A plane waits as one. A unit that leaves the loop before its neighbours may run on alone, past
    the next barrier: the compiler of an NVIDIA GPU omitted the wait for them there.
    """
    left = kl.constant(1, uint64)
    while left != 0:
        # All are read before one is looked at.
        for k, place in enumerate(places):
            read[k] = source.load(place, order="relaxed", scope="device")
        differ = kl.constant(0, uint64)
        for k in range(len(places)):
            differ = differ | ((read[k] >> 32) ^ tag)
        left = kl.plane_ballot(differ != 0)
