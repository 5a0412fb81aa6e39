"""Covering arrays: few scenarios in which every two values of different factors meet.

The search is greedy (Cohen, Dalal, Fredman and Patton, "The AETG system", 1997): of some random
scenarios that contain an open pair, the one with the most open pairs comes next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain, combinations, product
from typing import Any

import numpy as np

Factors = Mapping[str, Sequence[Any]]
Scenario = dict[str, Any]
# Random scenarios that compete for the next place.
_RIVALS = 12
# Of fewer open pairs each rival contains one.
_FEW = 40


def pairwise(
    factors: Factors, rng: np.random.Generator, together: Sequence[str] = ()
) -> Iterator[Scenario]:
    """Yield scenarios until every two values of different factors have met.

    Parameters
    ----------
    factors : mapping of str to sequence
        The values of each factor, at least one.
    rng : numpy.random.Generator
        Chooses among equally good scenarios.
    together : sequence of str, default ()
        Factors of which every three values of different ones meet too.

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
    if len(names) < 2:
        for name in names:
            yield from ({name: value} for value in factors[name])
        return
    # A value of a factor is one number, in the order of the factors.
    firsts = list(accumulate(sizes[:-1], initial=0))
    ranges = [range(first, first + n) for first, n in zip(firsts, sizes, strict=True)]
    places = [names.index(name) for name in together]

    def groups(row: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        return chain(combinations(row, 2), combinations([row[i] for i in places], 3))

    left = {met for few in groups(ranges) for met in product(*few)}
    while left:
        rivals = rng.integers(0, sizes, (_RIVALS, len(sizes)))
        rows = (rivals + firsts).tolist()
        if len(left) < _FEW:
            _with_open(rows, left, ranges, rng)
        met = [left.intersection(groups(row)) for row in rows]
        best = max(range(_RIVALS), key=lambda k: len(met[k]))
        left -= met[best]
        chosen = zip(names, rows[best], firsts, strict=True)
        yield {name: factors[name][k - first] for name, k, first in chosen}


def _with_open(
    rows: list[list[int]],
    left: set[tuple[int, ...]],
    ranges: Sequence[range],
    rng: np.random.Generator,
) -> None:
    """Give each row values that have not met, which random rows rarely have at last."""
    # Sets have an order of their own in each process, which must not choose.
    wanted = sorted(left)
    for row, k in zip(rows, rng.integers(0, len(wanted), len(rows)).tolist(), strict=True):
        for value in wanted[k]:
            row[next(i for i, held in enumerate(ranges) if value in held)] = value
