"""Which sizes of a structure differ, as far as the graphs that were met show.

Requirements: telling whether a graph fits costs nanoseconds a number; sizes that were equal each
time are one, and one that followed from others is taken to do so, so that few are left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import combinations_with_replacement
from operator import itemgetter
from typing import Any

from calor_kernel.contract.trace import Trace

Getter = Callable[[Sequence[Any]], tuple[Any, ...]]


def getter(places: Sequence[int]) -> Getter:
    """Return what takes the items at some places, as a tuple also where it is one or none."""
    if len(places) > 1:
        return itemgetter(*places)
    if places:
        (place,) = places
        return lambda items: (items[place],)
    return lambda items: ()


class Match:
    """Which sizes of a structure differ, and which of these are one.

    ``symbols``: for each size that differs by itself, a place where it is.
    """

    def __init__(self, seen: Sequence[tuple[int, ...]], varying: Collection[int]) -> None:
        numbers = seen[-1]
        groups: dict[tuple[int, ...], int] = {}
        self.group: dict[int, int] = {}
        for place in sorted(varying):
            values = tuple(one[place] for one in seen)
            self.group[place] = groups.setdefault(values, len(groups))
        self.values = list(groups)
        firsts = [next(p for p, g in self.group.items() if g == k) for k in range(len(groups))]
        fixed = [p for p in range(len(numbers)) if p not in self.group]
        others = [p for p in self.group if p not in firsts]
        self._firsts = getter(firsts)
        self._fixed, self._fixed_values = getter(fixed), getter(fixed)(numbers)
        self._others = getter(others)
        self._their_groups = getter([self.group[p] for p in others])

    def symbols(self, numbers: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the sizes that differ, None where others do too."""
        found = self._firsts(numbers)
        if self._fixed(numbers) != self._fixed_values:
            return None
        return found if self._others(numbers) == self._their_groups(found) else None

    def sizes(self, trace: Trace, numbers: Sequence[int]) -> list[Any]:
        """Return a graph's numbers, with sizes for those that differ.

        A size that was a multiple, a product or a neighbour of others each time is taken for that,
        which is a guard.
        """
        order = sorted(range(len(self.values)), key=lambda k: self.values[k])
        made: dict[int, Any] = {}
        for k in order:
            symbol = trace.symbols[k]
            made[k] = related = _related(self.values[k], [(self.values[j], made[j]) for j in made])
            if related is None:
                made[k] = symbol
            else:
                trace.guard(f"{symbol.text}=={related.text}", symbol + related)
        return [made[self.group[p]] if p in self.group else n for p, n in enumerate(numbers)]


def _related(values: tuple[int, ...], known: Sequence[tuple[tuple[int, ...], Any]]) -> Any:
    """Return what a size is of others, by the values that they had; None where nothing fits."""
    pairs = combinations_with_replacement(known, 2)
    products = [(tuple(map(int.__mul__, a, b)), x * y) for (a, x), (b, y) in pairs]
    for others, size in (*known, *products):
        if all(o and v % o == 0 for v, o in zip(values, others, strict=True)):
            factors = {v // o for v, o in zip(values, others, strict=True)}
            if len(factors) == 1:
                return size * factors.pop()
    for others, size in known:
        differences = {v - o for v, o in zip(values, others, strict=True)}
        if len(differences) == 1:
            return size + differences.pop()
    return None
