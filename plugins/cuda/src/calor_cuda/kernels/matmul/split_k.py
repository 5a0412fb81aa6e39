"""Schedules of cubes: whole tiles, or a part of a tile's steps for each cube (split-K).

Requirements: with fewer tiles than cores, most cubes would idle, so cubes share the K steps of a
tile. The sums of all parts but a tile's last go to memory. The cube of the last part adds them in
their order, for reproducible bits. A cube waits only for cubes of lower index, which started before
it, and which wait for none. So the launch ends in whatever order cubes are scheduled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from calor_cuda.kernels.matmul.warpgroup_tma_plan import TmaPlan
from calor_kernel import language as kl
from calor_kernel.language.loops import DeviceRange

# Sums of a unit in one access.
_WIDE = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """Steps of a tile: ``length`` elements of the K axis from ``start`` on.

    ``ends``: whether the piece ends the tile.
    """

    tile: kl.Index
    start: kl.Index
    length: kl.Index
    ends: kl.Mask


class WholeTiles:
    """Cube ``first`` computes every ``step``-th of ``tiles``, with all ``deep`` elements of K."""

    def __init__(
        self, first: kl.Number, step: kl.Number, tiles: kl.Number, deep: kl.Number
    ) -> None:
        self.first, self.step, self.tiles, self.deep = first, step, tiles, deep

    def turns(self) -> DeviceRange:
        """Return the number of a cube's pieces."""
        return kl.loop_range(self.first, self.tiles, self.step)

    def piece(self, turn: kl.Number) -> Piece:
        """Return the piece with index ``turn``."""
        return Piece(turn, 0, self.deep, True)


class TileParts:
    """Cube ``cube`` computes one of the ``parts`` of a tile; a tile's parts are adjacent cubes.

    Two parts differ by one step of ``depth`` elements at most. ``sums`` is memory for the sums of a
    tile of each cube, and ``flags`` has one word for each of its warp groups.
    """

    def __init__(
        self,
        cube: kl.Number,
        deep: kl.Number,
        depth: int,
        sums: kl.Pointer,
        flags: kl.Pointer,
        parts: kl.Number,
    ) -> None:
        self.sums, self.flags = sums, flags
        self.cube, self.parts = cube, parts
        self.tile = kl.quotient(cube, parts)
        self.part = cube - self.tile * parts
        steps = -(-deep // depth)
        first = kl.quotient(self.part * steps, parts)
        self.start = first * depth
        self.length = (kl.quotient((self.part + 1) * steps, parts) - first) * depth

    def turns(self) -> DeviceRange:
        """Return the number of a cube's pieces: one."""
        return kl.loop_range(0, 1, 1)

    def piece(self, turn: kl.Number) -> Piece:
        """Return the cube's part."""
        ends = self.part == self.parts - 1
        return Piece(self.tile, self.start, self.length, ends)


class Waiting(Protocol):
    """A schedule whose cube ``cube`` leaves sums for another one."""

    cube: kl.Number
    sums: kl.Pointer
    flags: kl.Pointer


@kl.helper
def hand_over(
    schedule: Waiting, sums: kl.Fragment, group: kl.Index, unit: kl.Index, plan: TmaPlan
) -> None:
    """Write a warp group's sums of a tile that another cube ends, and set its flag."""
    at = place_of_sums(schedule.cube, group, unit, plan)
    put_sums(schedule.sums, at, sums, 0, sums.width)
    kl.barrier("warpgroup")
    if unit == 0:
        flags = schedule.flags
        place = schedule.cube * plan.groups + group
        flags.store(place, kl.constant(1, flags.dtype), order="release", scope="device")


@kl.helper
def take_over(
    schedule: TileParts,
    sums: kl.Fragment,
    group: kl.Index,
    unit: kl.Index,
    plan: TmaPlan,
) -> None:
    """Add the sums of a tile's parts before to a warp group's sums, in the order of the parts.

    Each unit waits for one cube, since consecutive waits would take as long as the sums. Flags are
    reset for the next launch.
    """
    cube, flags = schedule.cube - schedule.part, schedule.flags
    for one in range(cube + unit, schedule.cube, 128):
        place = one * plan.groups + group
        while flags.load(place, order="relaxed", scope="device") == 0:
            pass
        kl.fence("device", "acquire")
        flags.store(place, kl.constant(0, flags.dtype), order="relaxed", scope="device")
    kl.barrier("warpgroup")
    # For narrow tiles, registers suffice to load the sums of two cubes at a time.
    for one in kl.loop_range(cube, schedule.cube, unroll=2 if sums.width <= 64 else 1):
        at = place_of_sums(one, group, unit, plan)
        sums.parts[0] = sums.parts[0] + taken_sums(schedule.sums, at, 0, sums.width)


def place_of_sums(cube: kl.Number, group: kl.Index, unit: kl.Index, plan: TmaPlan) -> kl.Number:
    """Return the position of a unit's first sums; a warp group's units are adjacent."""
    return (cube * plan.groups + group) * (64 * plan.columns) + unit * _WIDE


def put_sums(memory: kl.Pointer, at: kl.Number, sums: kl.Fragment, first: int, count: int) -> None:
    """Write some of a unit's registers of sums, the first of them to ``at``."""
    for q in range(first, first + count, _WIDE):
        part = kl.shuffle(sums.parts[0], range(q, q + _WIDE))
        memory.store(kl.assume_multiple(at + q * 128, _WIDE), part, align=16)


def taken_sums(memory: kl.Pointer, at: kl.Number, first: int, count: int) -> kl.Number:
    """Return sums that another unit wrote with ``put_sums``."""
    parts = [
        memory.load(kl.assume_multiple(at + q * 128, _WIDE), _WIDE, align=16)
        for q in range(first, first + count, _WIDE)
    ]
    return kl.pack([part[i] for part in parts for i in range(_WIDE)])
