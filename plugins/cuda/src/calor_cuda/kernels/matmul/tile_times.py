"""The cycles of a core for its tiles of a product by TMA, and the tile with the fewest.

Requirements: the choice counts whole waves, since the core with the most tiles ends last, and what
follows the sums, since units that write do not multiply. Warp groups that compute tiles in turns
(ping-pong) hide it behind each other's products, all but the last. Constants are fitted to times of
an H100 and an H200.
"""

from __future__ import annotations

from collections.abc import Mapping

from calor_cuda.kernels.matmul.warpgroup_tma_plan import TmaPlan
from calor_kernel.contract.choices import choice
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.library.matmul.problem import Product
from calor_kernel.library.matmul.ranking import lack

# Bytes that a core multiplies in a cycle with as many others, at the rate of the largest tile.
_BYTES = 3700
# Instructions for each sum that is written, beside those of an epilogue, and the lanes of a core.
_WRITING, _LANES = 4, 128
# Cycles from the last product of a tile to the first of the next, beside its instructions.
_BETWEEN = 1500
# An epilogue of one warp group, which waits for its own results, beside that of several; products
# beside an epilogue, which takes part of the accesses to shared memory.
_ALONE, _BESIDE = 3.5, 1.15
# Rows and columns of a tile, the rate of its products, and whether it is ping-pong.
Tiles = tuple[tuple[int, int, float, bool], ...]


def first_plan(
    rates: Mapping[TmaPlan, float], product: Product, weight: int, info: DeviceInfo
) -> TmaPlan | None:
    """Return the plan whose last core ends first, of those that fit; None if none fits.

    ``rates``: each plan's rate of products relative to the best. ``weight``: the instructions of
    the epilogue for a sum.
    """
    fitting = [plan for plan in rates if lack(plan, info) is None]
    if not fitting:
        return None
    tiles = tuple((plan.rows, plan.columns, rates[plan], plan.pingpong) for plan in fitting)
    p = product
    nbytes = p.k * int(p.a.dtype.itemsize)
    return fitting[_first(tiles, p.m, p.n, nbytes, p.batches, info.cores, weight)]


def _cycles(
    number: int, tiles: Tiles, m: int, n: int, nbytes: int, batches: int, cores: int, weight: int
) -> float:
    """Return the cycles of the core with the most tiles of a kind."""
    rows, columns, rate, pingpong = tiles[number]
    count = -(-m // rows) * -(-n // columns) * batches
    waves, sums = -(-count // cores), rows * columns
    products = sums * nbytes / (_BYTES * rate)
    if not pingpong:
        return waves * (products + sums * (weight + _WRITING) / _LANES + _BETWEEN)
    end = sums * (_ALONE * weight + _WRITING) / _LANES + _BETWEEN
    # Of two tiles, one is written while the other is multiplied.
    longer = _BESIDE * products
    return products + (waves - 1) * max(longer, (longer + end) / 2) + end


@choice(cost=_cycles)
def _first(tiles: Tiles, m: int, n: int, nbytes: int, batches: int, cores: int, weight: int) -> int:
    """Return the index of the tile with the fewest cycles, the first of equals."""
    given = m, n, nbytes, batches, cores, weight
    return min(range(len(tiles)), key=lambda number: _cycles(number, tiles, *given))
