"""Which of several tiles a product begins with: that by which the last core is done first.

Requirements: a core computes one tile after another, so that what counts is the tiles of the core
that has most; larger tiles read less for their sums, so that each has a rate, which was measured
where all cores are busy; the answer for sizes that are not known keeps to known kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from calor_kernel.contract.choices import choice
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.library.matmul.problem import Product
from calor_kernel.library.matmul.ranking import Plan, lack

P = TypeVar("P", bound=Plan)
# Rows and columns of a tile, and the sums that a core does in a time, beside those of the best.
Tiles = tuple[tuple[int, int, float], ...]


def by_waves(rates: Mapping[P, float], product: Product, info: DeviceInfo) -> P | None:
    """Return the plan by which the last core is done first, of those that fit; None if none does.

    ``rates``: the sums that a core does in a time by each plan, beside those by the best. A tile
    that would be half empty is never the one: what has half its rows has more than half its rate.
    """
    fitting = [plan for plan in rates if lack(plan, info) is None]
    if not fitting:
        return None
    tiles = tuple((plan.rows, plan.columns, rates[plan]) for plan in fitting)
    return fitting[first_tile(tiles, product.m, product.n, product.batches, info.cores)]


def _last_is_done(number: int, tiles: Tiles, m: int, n: int, batches: int, cores: int) -> float:
    """Return how long the core computes that has most tiles, of one of several kinds."""
    rows, columns, rate = tiles[number]
    count = -(-m // rows) * -(-n // columns) * batches
    return -(-count // cores) * rows * columns / rate


@choice(cost=_last_is_done)
def first_tile(tiles: Tiles, m: int, n: int, batches: int, cores: int) -> int:
    """Return the number of the tile by which the last core is done first, the first of equals.

    >>> first_tile(((256, 128, 1.0), (64, 64, 0.9)), 1024, 1024, 1, 132)
    1
    """
    return min(
        range(len(tiles)), key=lambda number: _last_is_done(number, tiles, m, n, batches, cores)
    )
