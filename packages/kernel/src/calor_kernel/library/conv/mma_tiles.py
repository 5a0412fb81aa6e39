"""Tiles of convolutions for each kind of matrix instruction, the likeliest first.

Requirements: the first tiles fill large problems, the next ones smaller problems. The rest is for
timing.
"""

from __future__ import annotations

from calor_kernel.contract.info import DeviceInfo
from calor_kernel.library.conv.weight_gradient_mma import units_of_place
from calor_kernel.library.gemm.mma import Fragments

# Rows and columns of a tile, terms of a step, planes down and across, stages.
Tiles = tuple[tuple[int, int, int, int, int, int], ...]
TILES: Tiles = ((128, 128, 64, 2, 2, 3), (64, 128, 64, 2, 2, 3), (64, 64, 64, 2, 2, 3))
MORE: Tiles = (
    (128, 128, 32, 2, 2, 4),
    (64, 128, 32, 2, 2, 4),
    (128, 256, 32, 2, 4, 3),
    (128, 64, 64, 2, 2, 3),
    (64, 256, 32, 1, 4, 4),
)
# Tiles for warp groups, each with 64 rows and all columns of a tile.
GROUPED: Tiles = (
    (128, 128, 64, 8, 1, 3),
    (64, 128, 64, 4, 1, 4),
    (64, 64, 64, 4, 1, 4),
)
MORE_GROUPED: Tiles = (
    (64, 256, 64, 4, 1, 3),
    (128, 256, 64, 8, 1, 3),
    (128, 64, 64, 8, 1, 4),
    (256, 128, 64, 16, 1, 3),
)
# Tiles of weight gradients, whose sums are cut into parts that fill the device.
WEIGHTS: Tiles = ((128, 128, 64, 2, 2, 3), (64, 128, 64, 2, 2, 3), (64, 64, 64, 2, 2, 3))
GROUPED_WEIGHTS: Tiles = (
    (64, 128, 64, 4, 1, 4),
    (128, 128, 64, 8, 1, 3),
    (64, 64, 64, 4, 1, 4),
)
# Tiles for named instructions; loads through registers are one stage ahead.
NAMED: dict[str, Tiles] = {
    "mfma_32x32x8": ((128, 128, 32, 2, 2, 2), (64, 128, 32, 2, 2, 2), (64, 64, 32, 2, 2, 2)),
    "mfma_32x32x2": ((128, 64, 64, 2, 2, 2), (64, 64, 64, 2, 2, 2)),
    "wmma_16x16x16": ((128, 128, 32, 4, 2, 2), (64, 128, 32, 2, 4, 2), (64, 64, 32, 2, 2, 2)),
    "simdgroup_8x8x8": ((64, 64, 32, 2, 2, 2), (32, 64, 32, 2, 2, 2), (32, 32, 32, 2, 2, 2)),
}

Sides = list[tuple[bool, Tiles, Tiles]]
# Units whose sums fit a core's registers.
_REGISTERS = 512


def tiles_of(by_weight: bool, named: str, beside: bool) -> Sides:
    """Return the likely tiles and further ones; of warp groups if products are asynchronous.

    ``beside`` says that they are; ``named`` is the instruction, if it has a name.
    """
    if named:
        return [(False, NAMED[named.rpartition("_")[0]], ())]
    planes = (False, WEIGHTS if by_weight else TILES, MORE)
    if not beside:
        return [planes]
    return [(True, GROUPED_WEIGHTS if by_weight else GROUPED, MORE_GROUPED), planes]


def fits(plan: Fragments, info: DeviceInfo) -> bool:
    """Return whether cubes of a plan fit a device and their units copy whole tiles."""
    room = plan.shared_bytes <= info.shared_bytes and plan.units <= info.max_units
    return room and _shared_out(plan)


def _shared_out(plan: Fragments) -> bool:
    """Return whether each unit has the same number of copies of both tiles of a step."""
    if plan.a_along:
        apart = plan.units * plan.access // plan.depth
        return plan.rows % apart == plan.columns % apart == 0
    beside = units_of_place(plan)
    line = beside * plan.access
    return plan.rows % line == plan.columns % line == plan.depth % (plan.units // beside) == 0


def together(plan: Fragments, info: DeviceInfo) -> int:
    """Return how many cubes of a plan fit the memory and registers of a core."""
    return max(1, min(info.shared_bytes // plan.shared_bytes, _REGISTERS // plan.units))
