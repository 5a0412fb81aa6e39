"""The sizes that differ between calls of a program, as few independent symbols.

Requirements: sizes that were always equal are one symbol, and a size that always followed from
others is derived from them, with a guard, so few symbols remain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import combinations_with_replacement
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from calor.sizes import Trace

Getter = Callable[[Sequence[Any]], tuple[Any, ...]]


def getter(places: Sequence[int]) -> Getter:
    """Return a function that takes the items at given indices, always as a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    if places:
        (place,) = places
        return lambda items: (items[place],)
    return lambda items: ()


class Match:
    """The varying sizes of a structure, grouped by equality.

    ``symbols``: for each independent size, one index of it. ``names``: what sizes are called by
    whoever declared them; those of different names are independent although they were equal.
    """

    def __init__(
        self,
        seen: Sequence[tuple[int, ...]],
        varying: Collection[int],
        names: Mapping[int, Any] = MappingProxyType({}),
    ) -> None:
        numbers = seen[-1]
        groups: dict[tuple[Any, tuple[int, ...]], int] = {}
        self.group: dict[int, int] = {}
        for place in sorted(varying):
            values = tuple(one[place] for one in seen)
            self.group[place] = groups.setdefault((names.get(place), values), len(groups))
        self.values = [values for _, values in groups]
        firsts = [next(p for p, g in self.group.items() if g == k) for k in range(len(groups))]
        fixed = [p for p in range(len(numbers)) if p not in self.group]
        others = [p for p in self.group if p not in firsts]
        self._firsts = getter(firsts)
        self._fixed, self._fixed_values = getter(fixed), getter(fixed)(numbers)
        self._others = getter(others)
        self._their_groups = getter([self.group[p] for p in others])

    def symbols(self, numbers: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the varying sizes, None if others vary too."""
        found = self._firsts(numbers)
        if self._fixed(numbers) != self._fixed_values:
            return None
        return found if self._others(numbers) == self._their_groups(found) else None

    def sizes(self, trace: Trace, numbers: Sequence[int]) -> list[Any]:
        """Return a graph's numbers, with symbolic sizes for the varying ones.

        A size that was always a multiple, a product or a neighbour of others is derived from them,
        with a guard.
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
    """Return a size in terms of others, from their past values; None if nothing fits.

    One value tells nothing.
    """
    if len(values) < 2:
        return None
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
