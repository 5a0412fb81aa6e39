"""Traces: the questions asked of symbolic sizes during planning.

Equal polynomials are one object, so equal questions are one guard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any, Final

from calor_kernel.contract.sizes import Atom, Monomial, Size, Terms

# A plan with more guards than this would hold for almost no other sizes.
_MOST_GUARDS: Final = 4000
# The bounds of a symbolic size; sizes 0 and 1 have plans of their own.
LEAST: Final = 2
MOST: Final = 1 << 40


class TooManyGuards(Exception):
    """A trace with so many guards that the result would hold for almost no other sizes."""


class Trace:
    """The questions asked of sizes: their atoms, and guards as Python expressions.

    In the expressions, an atom is ``a`` and its number, a function is ``f`` and its number.
    """

    def __init__(self, hints: Sequence[int], habits: dict[Any, Any] | None = None) -> None:
        self.atoms: list[Atom] = []
        self.guards: dict[str, frozenset[int]] = {}
        self.functions: list[Callable[..., int]] = []
        # Earlier answers of choices among equivalent ways; None if they are not used.
        self.habits = habits
        # Whether tables compare sizes structurally.
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
        """Return the atom of a Python expression, or a number if the bounds determine it."""
        return int(low) if low == high else self._atom(text, hint, low, high, needs)

    def function(self, key: Any, make: Callable[[], Callable[..., int]]) -> int:
        """Return the number of a function used in the expressions, created on first use."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.functions)
            self.functions.append(make())
        return number

    def size(self, terms: Terms) -> Any:
        """Return the unique Size of a polynomial, or a number if it is constant."""
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
        """Note a condition on a size."""
        if condition not in self.guards:
            if len(self.guards) >= _MOST_GUARDS:
                raise TooManyGuards
            self.guards[condition] = size.atoms

    @contextmanager
    def tables(self) -> Iterator[None]:
        """Allow sizes as keys of tables; coincidentally equal sizes may have separate entries."""
        before, self.tabled = self.tabled, True
        try:
            yield
        finally:
            self.tabled = before
