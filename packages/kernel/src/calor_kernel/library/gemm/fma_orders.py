"""Orders in which a unit adds to its sums of one part of the summed axis.

Requirements: each order is of the same sums, each once, so that results do not depend on it. What
depends on it is how often registers are read: those of an NVIDIA GPU lie in two banks, of which
each gives a register a cycle, a multiply-add takes three, and only what the one before it took to
the same place, and said to keep, is not read again. (Zhang et al., "Understanding the GPU
Microarchitecture", 2017; Huerta et al., "Analyzing Modern NVIDIA GPU cores", 2025; orders to and
fro are CUTLASS'.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

Place = tuple[int, int]


def _rows(high: int, wide: int) -> list[Place]:
    return [(i, j) for i in range(high) for j in range(wide)]


def _columns(high: int, wide: int) -> list[Place]:
    """Down one column and up the next: between two columns, the row is the same."""
    return [(high - 1 - i if j % 2 else i, j) for j in range(wide) for i in range(high)]


def _row_pairs(high: int, wide: int) -> list[Place]:
    """Along two rows together and back along the next two."""
    found = []
    for top in range(0, high, 2):
        for number in range(wide):
            j = wide - 1 - number if top % 4 else number
            found += [(top + (number + q) % 2, j) for q in range(2)]
    return found


def _column_pairs(high: int, wide: int) -> list[Place]:
    return [(i, j) for j, i in _row_pairs(wide, high)]


ORDERS: Final[Mapping[str, Callable[[int, int], list[Place]]]] = MappingProxyType(
    {
        "rows": _rows,
        "columns": _columns,
        "row pairs": _row_pairs,
        "column pairs": _column_pairs,
    }
)


@cache
def numbers(order: str, high: int, wide: int) -> Mapping[Place, int]:
    """Return which in turn each of ``high`` by ``wide`` sums is, even numbers of both, in order.

    >>> dict(numbers("columns", 2, 2))
    {(0, 0): 0, (1, 0): 1, (1, 1): 2, (0, 1): 3}
    """
    return MappingProxyType({place: n for n, place in enumerate(ORDERS[order](high, wide))})
