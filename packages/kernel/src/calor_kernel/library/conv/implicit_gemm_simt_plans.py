"""The first SIMT plan of a convolution, and the number of parts of its sums.

Requirements: a core computes several tiles at a time if its registers suffice, so the cost is the
time of the core with most tiles. With few tiles, sums are cut into parts that balance the cores, if
this saves more than adding the parts costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import prod

from calor.dtypes import bfloat16, float16, float32
from calor_kernel.contract.choices import choice
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.library.conv.problem import Correlation
from calor_kernel.library.gemm.simt_plan import Patches, sums_of
from calor_kernel.library.matmul.ranking import lack

# With fewer rows, or products of an element, most of a tile would be empty.
_LEAST = 24
# Maximum of parts of a sum, and minimum of terms of a part.
PARTS, _SHARE = 256, 128
# Clock cycles: of a tile beside its products, of a launch, and the bytes that a core moves in one.
_TILE, _LAUNCH, _MOVED = 2500, 5000, 20
# The products of a core in a cycle; the share of them that a core loses with fewer cubes than it
# has room for; and the maximum of cubes of a core for which sums are cut into parts.
_PRODUCTS, _WAITING, _CUBES = 128, 0.3, 12

Tile = tuple[int, int, int, int, float]
"""Rows, columns and depth of a tile, the cubes of it that a core has room for, and the rate."""


def suits(problem: Correlation, info: DeviceInfo) -> bool:
    """Return whether SIMT tiles may compute a problem on a device."""
    p = problem
    # Asynchronous copies convert no types.
    types = (float32,) if info.has("async_copy") else (float32, float16, bfloat16)
    if p.a.dtype not in types or len(p.axes) > 2 or not info.has("barrier"):
        return False
    groups, rows, columns = (p.leads[i].size for i in p.roles)
    columns *= prod(axis.count for axis in p.axes)
    # The copy cannot represent rows of weights that are one in memory.
    spread = p.by_weight or p.depth.b != 0 or p.depth.size == 1
    return bool(groups == 1 and min(rows, columns, p.terms) >= _LEAST and spread)


def plans_of(table: dict[tuple[int, ...], float], info: DeviceInfo) -> dict[Patches, float]:
    """Return the plans of a table that fit a device, with their rates."""
    ahead = info.has("async_copy")
    found = {}
    for made, rate in table.items():
        down, across, high, wide, depth, stages = made
        plan = Patches(down, across, high, wide, depth, False, False, stages)
        # Loads through registers are one step ahead.
        fits = lack(plan if ahead else replace(plan, stages=0), info) is None
        if fits and (ahead or stages == 2) and len(plan.numbers) <= sums_of(info):
            found[plan] = rate
    return found


def in_order(
    usual: dict[Patches, float],
    more: Iterable[Patches],
    sizes: tuple[int, int, int, int, int],
    cores: int,
    wanted: bool,
) -> Iterator[tuple[Patches, int, int]]:
    """Yield plans with the parts of their sums and their group, the likeliest first.

    ``sizes``: as for ``first_plan``; ``wanted``: whether to yield more than that one.
    """
    number = first_plan(tiles_of(usual), *sizes, cores)
    first = [*usual][number // PARTS]
    yield first, number % PARTS + 1, 0
    for plan in dict.fromkeys((*usual, *more)) if wanted else ():
        if plan != first:
            yield plan, first_plan(tiles_of({plan: 1.0}), *sizes, cores) % PARTS + 1, 1


def tiles_of(plans: Mapping[Patches, float]) -> tuple[Tile, ...]:
    """Return plans with their rates as tiles of numbers, the form of a symbolic choice."""
    return tuple(
        (plan.rows, plan.columns, plan.depth, plan.together, rate) for plan, rate in plans.items()
    )


def _cycles(
    number: int,
    tiles: tuple[Tile, ...],
    rows: int,
    places: int,
    terms: int,
    phases: int,
    size: int,
    cores: int,
) -> float:
    """Return the cycles of the busiest core, for a plan and a number of parts."""
    (high, wide, depth, together, rate), parts = tiles[number // PARTS], number % PARTS + 1
    steps = -(-terms // (parts * depth))
    each = high * wide * steps * depth / (_PRODUCTS * rate) + _TILE
    mine = -(-_count(high, wide, rows, places) * phases * parts // cores)
    rest = mine % together
    cycles = each * (mine - rest)
    if rest:
        cycles += each * rest / (1 - _WAITING * (1 - rest / together))
    if parts > 1:
        moved = (2 * parts + 1) * size * float32.itemsize
        cycles += _LAUNCH + moved / (cores * _MOVED)
    return cycles


def _count(high: int, wide: int, rows: int, places: int) -> int:
    return -(-rows // high) * -(-places // wide)


@choice(cost=_cycles)
def first_plan(
    tiles: tuple[Tile, ...],
    rows: int,
    places: int,
    terms: int,
    phases: int,
    size: int,
    cores: int,
) -> int:
    """Return the index of the plan and the number of parts whose last core finishes first."""
    most = max(1, min(PARTS, terms // _SHARE))
    numbers = []
    for i, (high, wide, *_) in enumerate(tiles):
        count = _count(high, wide, rows, places) * phases
        # Numbers of parts that give each core the same number of tiles.
        full = {max(1, min(cubes * cores // count, most)) for cubes in range(1, _CUBES + 1)}
        numbers += [i * PARTS + parts - 1 for parts in sorted(full)]
    return min(numbers, key=lambda n: _cycles(n, tiles, rows, places, terms, phases, size, cores))
