"""The first tile of a product: the one whose last core finishes first.

Requirements: a core computes one tile after another, so the time is that of the core with the most
tiles. Larger tiles read less for their sums, so each has a rate, measured with all cores busy. For
symbolic sizes the choice is among known kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from calor_kernel.contract.choices import choice
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.library.matmul.problem import Product
from calor_kernel.library.matmul.ranking import Plan, lack

P = TypeVar("P", bound=Plan)
# Rows and columns of a tile, and the rate of its sums relative to the best.
Tiles = tuple[tuple[int, int, float], ...]


def by_waves(rates: Mapping[P, float], product: Product, info: DeviceInfo) -> P | None:
    """Return the plan whose last core finishes first, of those that fit; None if none fits.

    ``rates``: each plan's rate of sums relative to the best. A tile that would be half empty is
    never chosen: a tile of half its rows has more than half its rate.
    """
    fitting = [plan for plan in rates if lack(plan, info) is None]
    if not fitting:
        return None
    tiles = tuple((plan.rows, plan.columns, rates[plan]) for plan in fitting)
    return fitting[first_tile(tiles, product.m, product.n, product.batches, info.cores)]


def _last_is_done(number: int, tiles: Tiles, m: int, n: int, batches: int, cores: int) -> float:
    """Return the time of the core with the most tiles, for one of several kinds."""
    rows, columns, rate = tiles[number]
    count = -(-m // rows) * -(-n // columns) * batches
    return -(-count // cores) * rows * columns / rate


@choice(cost=_last_is_done)
def first_tile(tiles: Tiles, m: int, n: int, batches: int, cores: int) -> int:
    """Return the index of the tile whose last core finishes first, the first of equals.

    >>> first_tile(((256, 128, 1.0), (64, 64, 0.9)), 1024, 1024, 1, 132)
    1
    """
    return min(
        range(len(tiles)), key=lambda number: _last_is_done(number, tiles, m, n, batches, cores)
    )
