"""Covering arrays: few scenarios in which every two values of different factors meet.

The search is greedy (Cohen, Dalal, Fredman and Patton, "The AETG system", 1997): of some random
scenarios that contain an open pair, the one with the most open pairs comes next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

Factors = Mapping[str, Sequence[Any]]
Scenario = dict[str, Any]
# Random scenarios that compete for the next place.
_RIVALS = 12
# Of fewer open pairs each rival contains one.
_FEW = 40


def pairwise(factors: Factors, rng: np.random.Generator) -> Iterator[Scenario]:
    """Yield scenarios until every two values of different factors have met.

    Parameters
    ----------
    factors : mapping of str to sequence
        The values of each factor, at least one.
    rng : numpy.random.Generator
        Chooses among equally good scenarios.

    Yields
    ------
    dict
        A value for each factor.

    Examples
    --------
    >>> factors = {"a": (0, 1, 2), "b": "xy", "c": (True, False)}
    >>> made = list(pairwise(factors, np.random.default_rng(0)))
    >>> len({(s["a"], s["b"]) for s in made}), len(made) < 12
    (6, True)
    """
    names = list(factors)
    sizes = [len(factors[name]) for name in names]
    left = {
        (i, a, j, b)
        for i, j in combinations(range(len(names)), 2)
        for a in range(sizes[i])
        for b in range(sizes[j])
    }
    if len(names) < 2:
        for name in names:
            yield from ({name: value} for value in factors[name])
        return
    while left:
        rivals = rng.integers(0, sizes, (_RIVALS, len(sizes))).tolist()
        if len(left) < _FEW:
            _with_open_pairs(rivals, left, rng)
        met = [left.intersection(_pairs(row)) for row in rivals]
        best = max(range(_RIVALS), key=lambda k: len(met[k]))
        left -= met[best]
        row = rivals[best]
        yield {name: factors[name][k] for name, k in zip(names, row, strict=True)}


def _pairs(row: Sequence[int]) -> list[tuple[int, int, int, int]]:
    return [(i, row[i], j, row[j]) for i, j in combinations(range(len(row)), 2)]


def _with_open_pairs(
    rows: list[list[int]], left: set[tuple[int, int, int, int]], rng: np.random.Generator
) -> None:
    """Give each row one of the last open pairs, which random rows rarely have."""
    # Sets have an order of their own in each process, which must not choose.
    wanted = sorted(left)
    for row, k in zip(rows, rng.integers(0, len(wanted), len(rows)).tolist(), strict=True):
        i, a, j, b = wanted[k]
        row[i], row[j] = a, b
