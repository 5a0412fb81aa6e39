"""Which steps of which tiles a cube computes: whole tiles, or equal shares of all steps of some.

Requirements: tiles that are no multiple of the cubes leave cubes idle in the last round, and few
tiles leave most of them idle always; so the steps of tiles along the summed axis are put one after
another and cut into as many equal shares as there are cubes (Osama et al., "Stream-K: Work-centric
Parallel Decomposition for Dense Matrix-Matrix Multiplication on the GPU", PPoPP 2023). Of many
tiles, those of all rounds but the last two are computed whole (its hybrid of two tiles).

A share ends where the next one begins, and is walked from its last tile to its first, so that the
one tile which it does not end is its first. Its sums go to memory, and who ends the tile adds those
of the cubes below it, in their order, for the same bits each time. A cube waits
only for cubes of lower numbers, which began before it, and for what these do first of all, so that
the launch ends in whatever order cubes get their turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor_kernel.language import (
    assume_multiple,
    barrier,
    constant,
    fence,
    helper,
    loop_range,
    pack,
    quotient,
    select,
    shuffle,
)

# Sums of a unit that are written and read at a time.
_WIDE = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """Steps of a tile: from the element ``start`` of the summed axis on, ``length`` of them.

    ``begin``: how many steps of the tile others do before. ``ends``: whether the tile is done then.
    """

    tile: Any
    start: Any
    length: Any
    begin: Any
    ends: Any


class WholeTiles:
    """Cube ``first`` computes every ``step``-th of ``tiles``, all ``deep`` elements of each."""

    shared = False

    def __init__(self, first: Any, step: Any, tiles: Any, deep: Any) -> None:
        self.first, self.step, self.tiles, self.deep = first, step, tiles, deep

    def turns(self) -> Any:
        """Return what a cube does one after another."""
        return loop_range(self.first, self.tiles, self.step)

    def piece(self, turn: Any) -> Piece:
        """Return what a turn computes."""
        return Piece(turn, 0, self.deep, 0, True)


class Shares:
    """Cube ``first`` computes a share of the steps of some tiles, and ``rounds`` whole ones after.

    ``sums`` is memory for the sums of a tile of each cube, and ``flags`` say of each of its warp
    groups whether they are there. A share has ``each`` steps of ``depth`` elements, and those of
    the first ``more`` cubes one more; whole tiles begin with the one of number ``tiles``.
    """

    shared = True

    def __init__(
        self, first: Any, cubes: Any, deep: Any, depth: int, memory: tuple[Any, ...]
    ) -> None:
        self.sums, self.flags, self.tiles, self.each, self.more, self.rounds = memory
        self.cube, self.cubes, self.depth = first, cubes, depth
        self.steps = -(-deep // depth)
        self.begin, self.end = self.share(first), self.share(first + 1)
        self.last = quotient(self.end - 1, self.steps)
        self.pieces = self.last - quotient(self.begin, self.steps) + 1

    def share(self, cube: Any) -> Any:
        """Return the step at which a cube's share begins."""
        return cube * self.each + select(cube < self.more, cube, self.more)

    def turns(self) -> Any:
        """Return what a cube does one after another."""
        return loop_range(0, self.pieces + self.rounds, 1)

    def piece(self, turn: Any) -> Piece:
        """Return what a turn computes: at least one step."""
        shared = turn < self.pieces
        # Tiles of shares go down, so that what others wait for comes first.
        tile = select(
            shared, self.last - turn, self.tiles + self.cube + (turn - self.pieces) * self.cubes
        )
        at = select(shared, tile, 0) * self.steps
        begin = select(shared & (self.begin > at), self.begin - at, 0)
        end = select(shared & (self.end - at < self.steps), self.end - at, self.steps)
        count = select(end > begin, end - begin, 1)
        return Piece(tile, begin * self.depth, count * self.depth, begin, end == self.steps)


@helper
def hand_over(schedule: Any, sums: Any, group: Any, unit: Any, plan: Any) -> None:
    """Write a warp group's sums of the steps of a tile that another cube ends, and say so."""
    at = place_of_sums(schedule, schedule.cube, group, unit, plan)
    put_sums(schedule.sums, at, sums, 0, sums.width)
    barrier("warpgroup")
    if unit == 0:
        flags = schedule.flags
        place = schedule.cube * plan.groups + group
        flags.store(place, constant(1, flags.dtype), order="release", scope="device")


@helper
def take_over(schedule: Any, sums: Any, piece: Any, group: Any, unit: Any, plan: Any) -> None:
    """Add to a warp group's sums those of the steps before, in the order of the steps.

    Units wait for one cube each, since one wait after another would take as long as the sums.
    Flags are set back, so that the next launch finds them as this one did.
    """
    cube, left = schedule.cube, piece.begin
    while left > 0:
        cube = cube - 1
        left = schedule.share(cube) - piece.tile * schedule.steps
    if piece.begin > 0:
        flags = schedule.flags
        for one in range(cube + unit, schedule.cube, 128):
            place = one * plan.groups + group
            while flags.load(place, order="relaxed", scope="device") == 0:
                pass
            fence("device", "acquire")
            flags.store(place, constant(0, flags.dtype), order="relaxed", scope="device")
        barrier("warpgroup")
        # Of narrow tiles there are registers for two cubes' sums on their way.
        for one in loop_range(cube, schedule.cube, unroll=2 if sums.width <= 64 else 1):
            at = place_of_sums(schedule, one, group, unit, plan)
            sums.parts[0] = sums.parts[0] + taken_sums(schedule.sums, at, 0, sums.width)


def place_of_sums(schedule: Any, cube: Any, group: Any, unit: Any, plan: Any) -> Any:
    """Return where a unit's first sums lie; those of a warp group's units lie side by side."""
    return (cube * plan.groups + group) * (64 * plan.columns) + unit * _WIDE


def put_sums(memory: Any, at: Any, sums: Any, first: int, count: int) -> None:
    """Write some of a unit's registers of sums, of which ``at`` is the place of the first one."""
    for q in range(first, first + count, _WIDE):
        part = shuffle(sums.parts[0], range(q, q + _WIDE))
        memory.store(assume_multiple(at + q * 128, _WIDE), part, align=16)


def taken_sums(memory: Any, at: Any, first: int, count: int) -> Any:
    """Return what another unit wrote so."""
    parts = [
        memory.load(assume_multiple(at + q * 128, _WIDE), _WIDE, align=16)
        for q in range(first, first + count, _WIDE)
    ]
    return pack([part[i] for part in parts for i in range(_WIDE)])
