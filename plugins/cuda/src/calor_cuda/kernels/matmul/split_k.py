"""Schedules of cubes: whole tiles, or equal shares of the steps of the tiles (split-K).

Requirements: with fewer tiles than cores, most cubes would idle. So the K steps of the tiles are
concatenated and cut into as many equal shares as there are cubes, after Osama et al., "Stream-K:
Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the GPU", PPoPP 2023.
The launches choose shares that are the same part of each tile.

A share ends where the next one begins, and is computed from its last tile to its first, so the only
tile that it does not end is its first. The sums of that tile go to memory. The cube that ends a
tile adds the sums of the cubes before it, in their order, for reproducible bits. A cube waits only
for cubes of lower index, which started before it, and for their first piece of work. So the launch
ends in whatever order cubes are scheduled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from calor_cuda.kernels.matmul.warpgroup_tma_plan import TmaPlan
from calor_kernel import language as kl
from calor_kernel.language.loops import DeviceRange

N = TypeVar("N")
# Sums of a unit in one access.
_WIDE = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """Steps of a tile: ``length`` elements of the K axis from ``start`` on.

    ``begin``: the number of the tile's steps before this piece. ``ends``: whether the piece ends
    the tile.
    """

    tile: kl.Index
    start: kl.Index
    length: kl.Index
    begin: kl.Index
    ends: kl.Mask


@dataclass(frozen=True, slots=True)
class Split(Generic[N]):
    """Shares of ``tiles``: ``each`` steps, and one more for the first ``more`` cubes.

    Further ``rounds`` of whole tiles begin with the tile of index ``tiles``.
    """

    tiles: kl.SizeOf[N]
    each: kl.SizeOf[N]
    more: kl.SizeOf[N]
    rounds: kl.SizeOf[N]


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
        return Piece(turn, 0, self.deep, 0, True)


class Shares:
    """Cube ``first`` computes a share of the steps of some tiles, then ``rounds`` whole tiles.

    A step has ``depth`` elements. ``sums`` is memory for the sums of a tile of each cube, and
    ``flags`` has one word for each of its warp groups.
    """

    def __init__(
        self,
        first: kl.Number,
        cubes: kl.Number,
        deep: kl.Number,
        depth: int,
        sums: kl.Pointer,
        flags: kl.Pointer,
        split: Split[kl.Number],
    ) -> None:
        self.sums, self.flags = sums, flags
        self.tiles, self.rounds = split.tiles, split.rounds
        self.each, self.more = split.each, split.more
        self.cube, self.cubes, self.depth = first, cubes, depth
        self.steps = -(-deep // depth)
        self.begin, self.end = self.share(first), self.share(first + 1)
        self.last = kl.quotient(self.end - 1, self.steps)
        self.pieces = self.last - kl.quotient(self.begin, self.steps) + 1

    def share(self, cube: kl.Number) -> kl.Number:
        """Return the first step of a cube's share."""
        return cube * self.each + kl.select(cube < self.more, cube, self.more)

    def turns(self) -> DeviceRange:
        """Return the number of a cube's pieces."""
        return kl.loop_range(0, self.pieces + self.rounds, 1)

    def piece(self, turn: kl.Number) -> Piece:
        """Return the piece with index ``turn``: at least one step."""
        shared = turn < self.pieces
        # Tiles of shares go down, so that sums for other cubes are computed first.
        tile = kl.select(
            shared, self.last - turn, self.tiles + self.cube + (turn - self.pieces) * self.cubes
        )
        at = kl.select(shared, tile, 0) * self.steps
        begin = kl.select(shared & (self.begin > at), self.begin - at, 0)
        end = kl.select(shared & (self.end - at < self.steps), self.end - at, self.steps)
        count = kl.select(end > begin, end - begin, 1)
        return Piece(tile, begin * self.depth, count * self.depth, begin, end == self.steps)


@kl.helper
def hand_over(
    schedule: Shares, sums: kl.Fragment, group: kl.Index, unit: kl.Index, plan: TmaPlan
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
    schedule: Shares,
    sums: kl.Fragment,
    piece: Piece,
    group: kl.Index,
    unit: kl.Index,
    plan: TmaPlan,
) -> None:
    """Add the sums of the steps before to a warp group's sums, in the order of the steps.

    Each unit waits for one cube, since consecutive waits would take as long as the sums. Flags are
    reset for the next launch.
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
