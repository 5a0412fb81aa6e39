"""Plans of attention whose keys are split among cubes: who holds what of a row.

Requirements: a team of lanes holds a row, a vector or several a lane, with the same lanes for its
features and its values.
"""

from __future__ import annotations

from dataclasses import dataclass

from calor_kernel import language as kl
from calor_kernel.contract.choices import choice
from calor_kernel.library.attention.mma_tiles import LOG2_E, power_of_two
from calor_kernel.library.math import exp

# The most units that share the splits of a vector.
NEIGHBOURS = 8
# Units of a core, and the bytes of each for its sums, and as many for its queries, with which
# registers hold all; with more bytes half as many units have what they need.
_CORE, _HELD = 512, 128


@choice(low=1)
def units_for(keys: int, lanes: int, plane: int, most: int) -> int:
    """Return the units of a cube: whole planes, and few without a key; ``most``: the maximum.

    >>> units_for(8, 1, 32, 256), units_for(40, 2, 32, 256), units_for(1000, 4, 32, 256)
    (32, 128, 256)
    """
    units = plane
    while 2 * units <= most and units < keys * lanes:
        units *= 2
    return units


def core_units(held: int) -> int:
    """Return the units of a core whose registers hold ``held`` bytes of sums each, and queries."""
    return _CORE if held <= _HELD else _CORE // 2


@kl.helper
def weight_of(x: kl.Number, fast: bool) -> kl.Number:
    """Return e**x; ``fast``: in the precision of half types."""
    if not fast:
        return exp(x)
    made = power_of_two(x * LOG2_E)
    assert made is not None
    return made


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """Units join ``joined`` values of a row each; ``lanes`` neighbours share the splits.

    ``fast``: whether powers need the precision of half types only.
    """

    joined: int
    fast: bool
    lanes: int = 1

    @kl.helper
    def weight(self, x: kl.Number) -> kl.Number:
        """Return e**x."""
        return weight_of(x, self.fast)


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """Cubes of ``teams`` of ``lanes``; a lane has vectors of ``access`` features.

    ``rows``: the queries of a cube. ``unroll``: the keys of a team in a step. ``features`` and
    ``values``: the vectors of a lane, for keys and values. ``full``: whether these are no more than
    there are, for each. ``fast``: whether powers need the precision of half types only.
    ``itemsize``: the bytes of a sum. ``together``: the rows whose planes are joined at a time.
    ``split``: whether there are several splits. ``even``: whether all keys of each step exist, and
    one cube has all rows of a split; ``once``: whether a split is one step then.
    """

    teams: int
    lanes: int
    access: int
    rows: int
    unroll: int
    features: int
    values: int
    full: tuple[bool, bool]
    fast: bool
    itemsize: int
    together: int
    split: bool = False
    even: bool = False
    once: bool = False

    @property
    def units(self) -> int:
        """The units of a cube."""
        return self.teams * self.lanes

    @property
    def cubes(self) -> int:
        """The cubes of a core."""
        return max(1, core_units(self.rows * self.held) // self.units)

    @property
    def held(self) -> int:
        """The bytes of a lane's part of a row."""
        return max(self.features, self.values) * self.access * self.itemsize

    @property
    def joined(self) -> int:
        """The values of a row that a unit joins."""
        return min(self.access, 4)

    @property
    def joining(self) -> int:
        """The neighbours that share the splits of a vector."""
        vectors, lanes = self.rows * self.room // self.joined, 1
        while lanes < NEIGHBOURS and 2 * lanes * vectors <= self.units:
            lanes *= 2
        return lanes

    @property
    def join(self) -> JoinPlan:
        """How the last cube of a block of rows joins its splits."""
        return JoinPlan(self.joined, self.fast, self.joining)

    @property
    def room(self) -> int:
        """The places for the values of a row."""
        return self.lanes * self.values * self.access

    @kl.helper
    def weight(self, x: kl.Number) -> kl.Number:
        """Return e**x."""
        return weight_of(x, self.fast)

    @kl.helper
    def place(self, v: int) -> kl.Number:
        """Return the first feature of a lane's vector."""
        return (kl.unit_position() % self.lanes + v * self.lanes) * self.access
