"""Numbers of all units of a cube, joined in shared memory on any device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calor.dtypes import DType
from calor_kernel import language as kl

# Units whose numbers one unit joins first.
_GROUP = 16


@dataclass(frozen=True, slots=True)
class Joined:
    """Shared memory for a number of each of ``units`` units, and one of each group."""

    memory: kl.Pointer
    units: int

    @kl.helper
    def of(self, value: kl.Number, how: Literal["add", "max"]) -> kl.Number:
        """Return the sum or the largest of all units' numbers; NaN if one is NaN."""
        unit, groups = kl.unit_index(), self.units // _GROUP
        self.memory[unit] = value
        kl.barrier()
        if unit < groups:
            self.memory[self.units + unit] = self.run(unit * _GROUP, _GROUP, how)
        kl.barrier()
        return self.run(self.units, groups, how)

    @kl.helper
    def run(self, first: kl.Index, count: int, how: Literal["add", "max"]) -> kl.Number:
        """Return the sum or the largest of numbers that follow each other."""
        found = self.memory[first]
        for k in kl.loop_range(1, count):
            other = self.memory[first + k]
            found = found + other if how == "add" else kl.max(found, other)
        return found


def joined(units: int, dtype: DType) -> Joined:
    """Return new shared memory to join numbers; ``units``: a multiple of 16."""
    return Joined(kl.shared(joined_size(units), dtype), units)


def joined_size(units: int) -> int:
    """Return the elements of shared memory that join the numbers of so many units.

    >>> joined_size(64)
    68
    """
    return units + units // _GROUP
