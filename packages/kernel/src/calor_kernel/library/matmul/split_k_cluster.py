"""Split-K in a cluster: its cubes compute parts of one tile's sums, and each ends a share.

Requirements: with few tiles, a cube that added all parts of a tile would read as many tiles as
there are cubes, while the others idle. So the tile's blocks, of 64 rows and a line of columns, are
distributed over its cubes, and each cube adds its own blocks in a fixed order, for reproducible
bits. Cubes of a cluster may wait for each other, since a device starts them together. Flags and
memory are those of :mod:`stream_k`.
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
        """Return the number of a cube's pieces: one."""
        return (0,)

    def piece(self, turn: Any) -> Piece:
        """Return a cube's piece: at least one step."""
        begin, end = (part * self.steps // self.parts for part in (self.part, self.part + 1))
        count = select(end > begin, end - begin, 1)
        tile = self.cube // self.parts
        return Piece(tile, begin * self.depth, count * self.depth, begin, True)


@helper
def exchange(
    schedule: Any, sums: Any, c_map: Any, parts: Any, there: Any, group: Any, unit: Any, plan: Any
) -> None:
    """Write a warp group's blocks that other cubes add; add and write its own blocks."""
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
