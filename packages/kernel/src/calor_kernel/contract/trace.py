"""What is asked of sizes that are not known while a plan is made for all of them.

Requirements: equal polynomials are one object, so that what is asked twice is one guard; guards and
what is computed are text of Python, of which one function is made at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any, Final

from calor_kernel.contract.sizes import Atom, Monomial, Size, Terms

# So many guards are no sizes for which a plan is the same.
_MOST_GUARDS: Final = 4000
# What a size that is a variable lies between; 0 and 1 are kinds of their own.
LEAST: Final = 2
MOST: Final = 1 << 40


class TooManyGuards(Exception):
    """A trace asked for so much that what it made would hold for next to no other sizes."""


class Trace:
    """What was asked of sizes: the atoms they are made of, and guards as text of Python.

    An atom is called ``a`` and its number in the texts; ``functions`` are called ``f`` and theirs.
    """

    def __init__(self, hints: Sequence[int], habits: dict[Any, Any] | None = None) -> None:
        self.atoms: list[Atom] = []
        self.guards: dict[str, frozenset[int]] = {}
        self.functions: list[Callable[..., int]] = []
        # What was chosen before among ways to the same results; None where that is not asked.
        self.habits = habits
        self.watched = True
        # Whether sizes are told apart in tables by what they are made of.
        self.tabled = False
        self._numbers: dict[Any, int] = {}
        self._atoms: dict[str, Size] = {}
        self._sizes: dict[tuple[tuple[Monomial, int], ...], Size] = {}
        self.symbols = [self._atom(f"a{i}", n, LEAST, MOST, ()) for i, n in enumerate(hints)]

    def _atom(
        self, text: str, hint: int, low: float, high: float, needs: Iterable[Size | int]
    ) -> Size:
        found = self._atoms.get(text)
        if found is None:
            number = len(self.atoms)
            atoms = frozenset(a for s in needs if isinstance(s, Size) for a in s.atoms)
            self.atoms.append(Atom(text, hint, low, high, atoms))
            found = self.size({(number,): 1})
            assert isinstance(found, Size)
            self._atoms[text] = found
        return found

    def atom(
        self,
        text: str,
        hint: int,
        needs: Iterable[Size | int],
        low: float = -inf,
        high: float = inf,
    ) -> Size | int:
        """Return what a text of Python computes; a number where the bounds leave one."""
        return int(low) if low == high else self._atom(text, hint, low, high, needs)

    def function(self, key: Any, make: Callable[[], Callable[..., int]]) -> int:
        """Return the number of a function that the texts call, made the first time."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.functions)
            self.functions.append(make())
        return number

    def size(self, terms: Terms) -> Any:
        """Return the one Size of a polynomial, a number where it is constant."""
        kept = {m: c for m, c in terms.items() if c}
        if not kept:
            return 0
        if len(kept) == 1 and () in kept:
            return kept[()]
        key = tuple(sorted(kept.items()))
        found = self._sizes.get(key)
        if found is None:
            found = self._sizes[key] = Size(self, key)
        return found

    def guard(self, condition: str, size: Size) -> None:
        """Note what must hold of a size."""
        if self.watched and condition not in self.guards:
            if len(self.guards) >= _MOST_GUARDS:
                raise TooManyGuards
            self.guards[condition] = size.atoms

    @contextmanager
    def tables(self) -> Iterator[None]:
        """Let sizes be keys of tables, where one that equals another by chance may be apart."""
        before, self.tabled = self.tabled, True
        try:
            yield
        finally:
            self.tabled = before

    @contextmanager
    def unguarded(self) -> Iterator[None]:
        """Answer by the hints alone: for choices that are right whatever the sizes are."""
        before, self.watched = self.watched, False
        try:
            yield
        finally:
            self.watched = before
