"""The choice of matrix instructions and tiles for convolutions.

Requirements: the device's features decide between warp-group, plane and named instructions. For
each, the first tiles fill large problems and the next ones smaller problems; the rest is for
timing.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from calor.dtypes import bfloat16, float16, float32
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Request
from calor_kernel.library.conv.implicit_gemm_mma import units_of_place
from calor_kernel.library.conv.problem import Convolution, Correlation
from calor_kernel.library.gemm.mma import Fragments, instruction_for, loads_together

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
# Tiles for warp groups, each with 64 rows and all columns of a tile; for weight gradients, whose
# sums are cut into parts that fill the device, in another order.
GROUPED: Tiles = ((128, 128, 64, 8, 1, 3), (64, 128, 64, 4, 1, 4), (64, 64, 64, 4, 1, 4))
GROUPED_WEIGHTS: Tiles = (GROUPED[1], GROUPED[0], GROUPED[2])
MORE_GROUPED: Tiles = (
    (64, 256, 64, 4, 1, 3),
    (128, 256, 64, 8, 1, 3),
    (128, 64, 64, 8, 1, 4),
    (256, 128, 64, 16, 1, 3),
)
# Tiles for named instructions; loads through registers are one stage ahead.
NAMED: dict[str, Tiles] = {
    "mfma_32x32x8": ((128, 128, 32, 2, 2, 2), (64, 128, 32, 2, 2, 2), (64, 64, 32, 2, 2, 2)),
    "mfma_32x32x2": ((128, 64, 64, 2, 2, 2), (64, 64, 64, 2, 2, 2)),
    "wmma_16x16x16": ((128, 128, 32, 4, 2, 2), (64, 128, 32, 2, 4, 2), (64, 64, 32, 2, 2, 2)),
    "simdgroup_8x8x8": ((64, 64, 32, 2, 2, 2), (32, 64, 32, 2, 2, 2), (32, 32, 32, 2, 2, 2)),
}
_NEEDED = ("matrix", "barrier", "planes")
# With fewer rows, columns or terms most of a tile would be empty.
_LEAST = 16
_HALVES = (float16, bfloat16)
# Units whose sums fit a core's registers.
_REGISTERS = 512


def mma_refusal(one: Convolution, request: Request) -> str | None:
    """Return why matrix instructions of planes do not suit a problem, None if they do."""
    p, info = one.seen, one.info
    if not all(map(info.has, _NEEDED)):
        return "the device has no matrix instructions of planes"
    # Named instructions take full float32.
    named = bool(instruction_for({p.a.dtype}, info))
    if not named and not loads_together(info):
        return "planes neither copy asynchronously nor load operands together"
    if p.a.dtype not in _HALVES and not ((one.rounded or named) and p.a.dtype is float32):
        return f"no matrix instruction takes {p.a.dtype}"
    if len(p.axes) > 2:
        return "it has more than two spatial axes"
    groups, rows, columns = (p.leads[i].size for i in p.roles)
    channels = columns if p.by_weight else p.depth.size
    if groups != 1:
        return "it has groups"
    if channels < 3 or rows < _LEAST:
        return f"it has fewer than {_LEAST} rows or 3 channels"
    taps = prod(a.terms for a in p.axes)
    deep = p.depth.size if p.by_weight else channels
    enough = columns * prod(a.count for a in p.axes) >= _LEAST and deep * taps >= _LEAST
    return None if enough else f"it has fewer than {_LEAST} columns or terms"


def plans_of(problem: Correlation, info: DeviceInfo) -> list[tuple[Fragments, bool]]:
    """Return the plans that fit, the likeliest first, and whether each is a likely one.

    Plans of warp groups stand before those of planes.
    """
    found: list[tuple[Fragments, bool]] = []
    named = instruction_for({problem.a.dtype}, info)
    for grouped, usual, more in tiles_of(problem, info, named):
        plans = [_plan(problem, made, grouped, named) for made in (*usual, *more)]
        likely = [plan for plan in plans[: len(usual)] if fits(plan, info)]
        if not likely:
            continue
        first = next((plan for plan in likely if _fills(problem, plan, info)), likely[-1])
        others = (plan for plan in plans if plan != first and fits(plan, info))
        found += [(plan, plan in likely) for plan in (first, *others)]
    return found


def tiles_of(problem: Correlation, info: DeviceInfo, named: str) -> list[tuple[bool, Tiles, Tiles]]:
    """Return the likely tiles and further ones, and whether they are of warp groups.

    ``named``: the instruction, if it has a name.
    """
    if named:
        return [(False, NAMED[named.rpartition("_")[0]], ())]
    planes = (False, TILES, MORE)
    # TF32 operands have to be dense along the K axis; those of a weight gradient are not.
    beside = problem.a.dtype in _HALVES or not problem.by_weight
    if not (info.has("async_matrix") and beside):
        return [planes]
    return [(True, GROUPED_WEIGHTS if problem.by_weight else GROUPED, MORE_GROUPED), planes]


def _plan(
    problem: Correlation, made: tuple[int, int, int, int, int, int], grouped: bool, named: str
) -> Fragments:
    # Both operands of a weight gradient are dense along channels, which are not summed.
    along = not problem.by_weight
    plan = Fragments(problem.a.dtype, *made, along, along, grouped, named)
    # A float32 tile has half as many terms.
    return replace(plan, depth=plan.depth * 2 // plan.dtype.itemsize)


def _fills(problem: Correlation, plan: Fragments, info: DeviceInfo) -> bool:
    """Return whether tiles are little wider than the problem and fill the device."""
    _, row, column = (problem.leads[i] for i in problem.roles)
    columns = column.size * prod(a.count for a in problem.axes)
    if row.size <= plan.rows // 2:
        return False
    tiles = -(-row.size // plan.rows) * -(-columns // plan.columns)
    # A weight gradient's long sums are split for any tile.
    return problem.by_weight or bool(tiles >= info.cores)


def fits(plan: Fragments, info: DeviceInfo) -> bool:
    """Return whether cubes of a plan fit a device.

    Each unit has the same number of copies of both tiles of a step.
    """
    if plan.shared_bytes > info.shared_bytes or plan.units > info.max_units:
        return False
    if plan.a_along:
        apart = plan.units * plan.access // plan.depth
        return plan.rows % apart == plan.columns % apart == 0
    beside = units_of_place(plan)
    line = beside * plan.access
    return plan.rows % line == plan.columns % line == plan.depth % (plan.units // beside) == 0


def together(plan: Fragments, info: DeviceInfo) -> int:
    """Return how many cubes of a plan fit the memory and registers of a core."""
    return max(1, min(info.shared_bytes // plan.shared_bytes, _REGISTERS // plan.units))
