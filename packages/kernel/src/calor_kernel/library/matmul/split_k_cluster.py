"""Split-K in a cluster: its cubes compute parts of one tile's sums, and each of them ends some.

Requirements: where tiles are so few that a cube has one alone, who ends a tile reads as much as the
tile had cubes, while they have nothing left to do; so the blocks of a tile, of 64 rows and a line
of columns, are dealt out to its cubes, and each adds up its own, in one order, for the same bits
each time. Cubes wait for each other, which those of a cluster may, since a device begins them
together; flags and memory are those of :mod:`stream_k`.
"""

from __future__ import annotations

from typing import Any

from calor_kernel.language import (
    barrier,
    constant,
    fence,
    fragment,
    helper,
    pack,
    select,
)
from calor_kernel.library.matmul.stream_k import Piece, place_of_sums, put_sums, taken_sums
from calor_kernel.library.matmul.tma_store import write_part


class Parts:
    """Cube ``first`` computes a part of the steps of a tile, as the others of its cluster do."""

    shared = True

    def __init__(
        self, first: Any, deep: Any, depth: int, parts: int, memory: tuple[Any, ...]
    ) -> None:
        self.sums, self.flags = memory
        self.cube, self.depth, self.parts = first, depth, parts
        self.part, self.steps = first % parts, -(-deep // depth)

    def turns(self) -> Any:
        """Return what a cube does: one thing."""
        return (0,)

    def piece(self, turn: Any) -> Piece:
        """Return what a cube computes: at least one step."""
        begin, end = (part * self.steps // self.parts for part in (self.part, self.part + 1))
        count = select(end > begin, end - begin, 1)
        tile = self.cube // self.parts
        return Piece(tile, begin * self.depth, count * self.depth, begin, True)


@helper
def exchange(
    schedule: Any, sums: Any, c_map: Any, parts: Any, there: Any, group: Any, unit: Any, plan: Any
) -> None:
    """Hand over a warp group's blocks that others end, and add up and write its own."""
    blocks, flags = plan.columns // plan.part, schedule.flags
    # Registers of a block.
    width = plan.part // 2
    first = schedule.cube - schedule.part
    at = place_of_sums(schedule, schedule.cube, group, unit, plan)
    for block in range(blocks):
        if (group * blocks + block) % plan.parts != schedule.part:
            put_sums(schedule.sums, at, sums, block * width, width)
    barrier("warpgroup")
    if (unit < blocks) & ((group * blocks + unit) % plan.parts != schedule.part):
        place = (schedule.cube * plan.groups + group) * blocks + unit
        flags.store(place, constant(1, flags.dtype), order="release", scope="device")
    for block in range(blocks):
        if (group * blocks + block) % plan.parts == schedule.part:
            if (unit < plan.parts) & (unit != schedule.part):
                place = ((first + unit) * plan.groups + group) * blocks + block
                while flags.load(place, order="relaxed", scope="device") == 0:
                    pass
                fence("device", "acquire")
                flags.store(place, constant(0, flags.dtype), order="relaxed", scope="device")
            barrier("warpgroup")
            own = fragment(plan.shape, "c")
            whole = sums.parts[0]
            total = pack([whole[block * width + i] for i in range(width)])
            for further in range(1, plan.parts):
                other = first + (schedule.part + further) % plan.parts
                at = place_of_sums(schedule, other, group, unit, plan)
                total = total + taken_sums(schedule.sums, at, block * width, width)
            rest = own.parts[0]
            own.parts[0] = pack(
                [
                    total[i - block * width] if i // width == block else rest[i]
                    for i in range(sums.width)
                ]
            )
            write_part(c_map, parts, own, there, group, block, 0, plan)
