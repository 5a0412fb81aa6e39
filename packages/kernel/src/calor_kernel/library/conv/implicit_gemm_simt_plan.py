"""The first SIMT plan of a convolution, and the number of parts of its sums.

Requirements: a core computes several tiles at a time if its registers suffice, so the cost is the
time of the core with most tiles. With few tiles, sums are cut into parts that balance the cores, if
this saves more than adding the parts costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Final

from calor.dtypes import bfloat16, float16, float32
from calor_kernel.contract.choices import choice
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Request
from calor_kernel.library.conv.implicit_gemm_operands import pixels_of
from calor_kernel.library.conv.problem import Convolution, Correlation
from calor_kernel.library.gemm.simt_plan import Patches, sums_of
from calor_kernel.library.matmul.ranking import lack

# Units down and across, register tiles of each down and across, terms of a step, and stages.
Row = tuple[int, int, int, int, int, int]
# The rate of each plan relative to the best, by whether it is for weight gradients and whether
# copies are asynchronous. The latter rates were measured on ResNet-50's convolutions on an H200,
# where larger tiles were slower; the others are estimates from the share of instructions that
# multiply.
RATES: Final[dict[tuple[bool, bool], dict[Row, float]]] = {
    (False, True): {
        (16, 16, 2, 2, 16, 3): 1.0,
        (16, 16, 1, 2, 16, 3): 0.95,
        (8, 16, 2, 2, 16, 3): 0.94,
        (16, 8, 1, 2, 16, 3): 0.9,
    },
    (False, False): {
        (16, 16, 4, 2, 8, 2): 1.0,
        (16, 16, 2, 4, 8, 2): 1.0,
        (16, 16, 2, 2, 8, 2): 0.92,
        (16, 16, 1, 2, 8, 2): 0.85,
        (8, 16, 2, 2, 8, 2): 0.89,
        (16, 8, 1, 2, 8, 2): 0.8,
    },
    (True, True): {
        (16, 16, 4, 2, 16, 3): 1.0,
        (16, 16, 2, 2, 16, 3): 0.99,
        (8, 16, 2, 2, 16, 3): 0.97,
        (16, 8, 2, 2, 16, 3): 0.97,
        (8, 16, 2, 3, 16, 3): 0.97,
        (16, 8, 1, 2, 16, 3): 0.87,
    },
    (True, False): {
        (16, 16, 4, 2, 8, 2): 1.0,
        (16, 16, 2, 4, 8, 2): 1.0,
        (16, 16, 2, 2, 8, 2): 0.92,
        (8, 16, 2, 2, 8, 2): 0.89,
        (16, 8, 2, 2, 8, 2): 0.89,
        (16, 8, 1, 2, 8, 2): 0.8,
    },
}
# Further plans for timing: of convolutions, and of weight gradients.
MORE: Final[dict[bool, tuple[Row, ...]]] = {
    False: (
        *((16, 16, 4, 2, 16, 3), (16, 16, 2, 4, 16, 3), (8, 16, 2, 4, 16, 3), (16, 16, 2, 2, 8, 4)),
        *((16, 16, 2, 2, 8, 2), (8, 16, 2, 2, 8, 4), (16, 16, 1, 2, 8, 4), (8, 16, 2, 4, 8, 3)),
    ),
    True: (
        *((16, 16, 2, 4, 16, 3), (8, 16, 2, 4, 16, 3)),
        *((16, 16, 2, 2, 8, 2), (16, 16, 2, 2, 8, 4), (16, 16, 1, 2, 16, 3)),
        *((8, 16, 2, 2, 8, 4), (16, 8, 2, 2, 8, 4)),
    ),
}
# With fewer rows, or products of an element, most of a tile would be empty. Terms of a short step.
_LEAST, _SHORT = 24, 8
# Maximum of parts of a sum, and minimum of terms of a part.
PARTS, _SHARE = 256, 128
# Clock cycles: of a tile beside its products, of a launch, and the bytes that a core moves in one.
_TILE, _LAUNCH, _MOVED = 2500, 5000, 20
# The products of a core in a cycle; the share of them that a core loses with fewer cubes than it
# has room for; and the maximum of cubes of a core for which sums are cut into parts.
_PRODUCTS, _WAITING, _CUBES = 128, 0.3, 12

Tile = tuple[int, int, int, int, float]
"""Rows, columns and depth of a tile, the cubes of it that a core has room for, and the rate."""
Sizes = tuple[int, int, int, int, int]


def simt_refusal(one: Convolution, request: Request) -> str | None:
    """Return why SIMT tiles do not suit a problem, None if they do."""
    p, info = one.seen, one.info
    # Asynchronous copies convert no types.
    types = (float32,) if info.has("async_copy") else (float32, float16, bfloat16)
    if p.a.dtype not in types:
        return f"register tiles sum no products of {p.a.dtype}"
    if len(p.axes) > 2 or not info.has("barrier"):
        return "it has more than two spatial axes, or units of a cube cannot wait for each other"
    groups, rows, columns = (p.leads[i].size for i in p.roles)
    columns *= prod(axis.count for axis in p.axes)
    if groups != 1 or min(rows, columns, p.terms) < _LEAST:
        return f"it has groups, or fewer than {_LEAST} rows, columns or terms"
    # The copy cannot represent rows of weights that are one in memory.
    spread = p.by_weight or p.depth.b != 0 or p.depth.size == 1
    return None if spread else "its weights are broadcast along channels"


def plans_of(problem: Correlation, info: DeviceInfo) -> Iterator[tuple[Patches, int, int]]:
    """Yield plans with the parts of their sums and their group, the likeliest first."""
    by_weight = problem.by_weight
    usual = _fitting(RATES[by_weight, info.has("async_copy")], info)
    if not by_weight:
        usual = {_evened(plan, problem): rate for plan, rate in usual.items()}
    if not usual:
        return
    sizes = _sizes(problem)
    number = first_plan(tiles_of(usual), *sizes, info.cores)
    first = [*usual][number // PARTS]
    yield first, number % PARTS + 1, 0
    for plan in dict.fromkeys((*usual, *_fitting(dict.fromkeys(MORE[by_weight], 1.0), info))):
        if plan != first:
            number = first_plan(tiles_of({plan: 1.0}), *sizes, info.cores)
            yield plan, number % PARTS + 1, 1


def _fitting(table: Mapping[Row, float], info: DeviceInfo) -> dict[Patches, float]:
    """Return the plans of a table that fit a device, with their rates."""
    ahead = info.has("async_copy")
    found = {}
    for (down, across, high, wide, depth, stages), rate in table.items():
        plan = Patches(down, across, high, wide, depth, False, False, stages)
        # Loads through registers are one step ahead.
        fits = lack(plan if ahead else replace(plan, stages=0), info) is None
        if fits and (ahead or stages == 2) and len(plan.numbers) <= sums_of(info):
            found[plan] = rate
    return found


def _evened(plan: Patches, problem: Correlation) -> Patches:
    """Return a plan with shorter steps if only then each step has channels of one tap."""
    channels = problem.depth.size
    if channels % plan.depth == 0 or channels % _SHORT:
        return plan
    return replace(plan, depth=_SHORT, stages=min(plan.stages + 1, 4) if plan.stages > 2 else 2)


def _sizes(problem: Correlation) -> Sizes:
    """Return rows, columns and terms of the problem for the cost model, phases and the size.

    A phase has the mean of the pixels, and of the terms of the phases with taps.
    """
    p = problem
    if p.by_weight:
        taps = prod(axis.count for axis in p.axes)
        return p.leads[1].size, p.leads[2].size * taps, p.terms, 1, p.size
    phases, seen = 1, 1
    for axis in p.axes:
        phases, seen = phases * axis.divide, seen * min(axis.divide, axis.terms)
    return p.leads[2].size, -(-pixels_of(p) // phases), -(-p.terms // seen), seen, p.size


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
