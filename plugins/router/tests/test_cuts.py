"""Minimum cuts, beside all choices of a few nodes."""

from __future__ import annotations

import random
import sys
from itertools import product
from math import inf

import pytest

from calor_router.cuts import sink_side


def price(
    chosen: set[int], stay: list[float], go: list[float], between: dict[tuple[int, int], float]
) -> float:
    """Return what a choice costs."""
    apart = sum(p for (i, j), p in between.items() if i not in chosen and j in chosen)
    return sum(go[i] if i in chosen else stay[i] for i in range(len(stay))) + apart


@pytest.mark.parametrize("seed", range(40))
def test_the_choice_costs_least(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randrange(1, 7)
    # Of some seeds all nodes want the same.
    stay = [float(rng.randrange(10)) + (20 if seed % 4 == 1 else 0) for _ in range(count)]
    go = [float(rng.randrange(10)) + (20 if seed % 4 == 2 else 0) for _ in range(count)]
    if seed % 4 == 3:
        go[0] = inf
    pairs = [(i, j) for i in range(count) for j in range(count) if i != j]
    between = {pair: float(rng.randrange(6)) for pair in pairs if rng.random() < 0.4}
    found = sink_side(count, dict(enumerate(stay)), dict(enumerate(go)), between)
    sets = ({i for i in range(count) if bits[i]} for bits in product((0, 1), repeat=count))
    least = min(price(chosen, stay, go, between) for chosen in sets)
    assert price(found, stay, go, between) == least


def test_where_all_want_the_same_no_cut_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    between = {(0, 1): 5.0, (1, 2): 1.0}
    assert sink_side(3, {0: 1, 1: 2, 2: 3}, {0: 1, 1: inf, 2: 9}, between) == set()
    assert sink_side(3, {0: 1, 1: 2, 2: 3}, {0: 0, 1: 1, 2: 0.5}, between) == {0, 1, 2}
    with pytest.raises(ImportError):
        sink_side(2, {0: 1, 1: 2}, {0: 2, 1: 1}, between)
