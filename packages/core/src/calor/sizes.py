"""Symbolic sizes: polynomials of a graph's sizes, used by traces and lowerings like numbers.

A Size has the value of the first graph (``hint``). A truth value or a conversion to an integer uses
the hint and adds a guard, so the result is valid wherever the guards hold. Facts that follow from
polynomials and bounds alone need no guard. A trace holds the questions asked; equal polynomials are
one object there, so equal questions are one guard.
"""

from __future__ import annotations

import operator as op
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import gcd, inf
from numbers import Integral
from operator import index
from types import FrameType, MappingProxyType
from typing import Any, Final

Monomial = tuple[int, ...]
Terms = Mapping[Monomial, int]
# Of the symbols; None if a guard fails.
Function = Callable[..., tuple[int, ...] | None]

_OPPOSITE: Final = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_HOLDS: Final[Mapping[str, Callable[[float, float], bool]]] = MappingProxyType(
    {"==": op.eq, "!=": op.ne, "<": op.lt, "<=": op.le, ">": op.gt, ">=": op.ge}
)
_OPERATORS: Final[Mapping[str, Callable[[int, int], int]]] = MappingProxyType(
    {"//": op.floordiv, "%": op.mod, "<<": op.lshift, "&": op.and_, "|": op.or_, "^": op.xor}
)
# A plan with more guards than this would hold for almost no other sizes.
_MOST_GUARDS: Final = 4000
# The bounds of a symbolic size; sizes 0 and 1 have plans of their own.
LEAST: Final = 2
MOST: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class Atom:
    """A variable of polynomials: a size of the graph, or a non-polynomial function of sizes."""

    text: str
    hint: int
    low: float
    high: float
    needs: frozenset[int]


def _compared(relation: str) -> Callable[[Size, Any], Any]:
    """Return the method of a comparison."""
    holds = _HOLDS[relation]

    def method(self: Size, other: Any) -> Any:
        if isinstance(other, float):
            return holds(float(self) - other, 0)
        if isinstance(other, Size) and other.trace is not self.trace:
            return NotImplemented  # Tables may hold sizes of several traces.
        if self._terms(other) is None:
            return NotImplemented
        difference = self - other
        if not isinstance(difference, Size):
            return holds(difference, 0)
        hinted = holds(difference.hint, 0)
        if difference.low > 0 or difference.high < 0:
            assert difference.low <= difference.hint <= difference.high, difference.text
            return hinted
        difference = _primitive(difference)
        known = _bounded(difference, relation)
        if known is not None:
            assert known == hinted, difference.text
            return known
        true = relation if hinted else _OPPOSITE[relation]
        self.trace.guard(f"{difference.text}{true}0", difference)
        return hinted

    return method


def _opaque(operator: str) -> tuple[Callable[[Size, Any], Any], Callable[[Size, Any], Any]]:
    """Return the methods of an operator that is no polynomial, and of its reflection."""

    def method(self: Size, other: Any) -> Any:
        return _binary(operator, self, other)

    def reflected(self: Size, other: Any) -> Any:
        return _binary(operator, other, self)

    return method, reflected


class Size:
    """A polynomial of a trace's atoms with integer coefficients."""

    __slots__ = ("atoms", "high", "hint", "key", "low", "text", "trace")

    def __init__(self, trace: Trace, key: tuple[tuple[Monomial, int], ...]) -> None:
        self.trace = trace
        self.key = key
        self.atoms = frozenset(a for m, _ in key for a in m)
        hint, low, high = 0, 0.0, 0.0
        parts: list[str] = []
        for monomial, coefficient in key:
            value, bounds = coefficient, (float(coefficient), float(coefficient))
            for a in monomial:
                atom = trace.atoms[a]
                value *= atom.hint
                corners = [_times(x, y) for x in bounds for y in (atom.low, atom.high)]
                bounds = min(corners), max(corners)
            hint, low, high = hint + value, low + bounds[0], high + bounds[1]
            names = [f"a{a}" for a in monomial]
            if coefficient == -1 and names:
                names[0] = f"-{names[0]}"
            elif coefficient != 1 or not names:
                names.insert(0, str(coefficient))
            parts.append("*".join(names))
        self.hint = hint
        self.low, self.high = low, high
        self.text = "+".join(parts).replace("+-", "-")

    # Arithmetic.
    def _terms(self, other: Any) -> Terms | None:
        if isinstance(other, Size):
            return dict(other.key)
        return {(): index(other)} if isinstance(other, Integral) else None

    def __add__(self, other: Any) -> Any:
        if type(other) is int and not other:
            return self
        terms = self._terms(other)
        if terms is None:
            return float(self) + other if isinstance(other, float) else NotImplemented
        made = dict(self.key)
        for m, c in terms.items():
            made[m] = made.get(m, 0) + c
        return self.trace.size(made)

    __radd__ = __add__

    def __neg__(self) -> Any:
        return self.trace.size({m: -c for m, c in self.key})

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, float):
            return float(self) - other
        return self + (-other)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if type(other) is int:
            if other == 1:
                return self
            return self.trace.size({m: c * other for m, c in self.key})
        terms = self._terms(other)
        if terms is None:
            return float(self) * other if isinstance(other, float) else NotImplemented
        made: dict[Monomial, int] = {}
        for m, c in self.key:
            for n, d in terms.items():
                both = tuple(sorted(m + n))
                made[both] = made.get(both, 0) + c * d
        return self.trace.size(made)

    __rmul__ = __mul__

    def __pow__(self, other: Any) -> Any:
        if not isinstance(other, Integral) or other < 0:
            return float(self) ** float(other) if isinstance(other, _REAL) else NotImplemented
        made: Any = 1
        for _ in range(index(other)):
            made = made * self
        return made

    def __truediv__(self, other: Any) -> Any:
        return float(self) / other if isinstance(other, _REAL) else NotImplemented

    def __rtruediv__(self, other: Any) -> Any:
        return other / float(self) if isinstance(other, _REAL) else NotImplemented

    def _divided(self, divisor: Any) -> tuple[Any, Any] | None:
        """Return (q, r) with self = q · divisor + r; None if the divisor may be 0 or less."""
        if isinstance(divisor, Size):
            if len(divisor.key) != 1 or divisor.low < 1:
                return None
            ((under, factor),) = divisor.key
        else:
            under, factor = (), index(divisor)
        if factor < 1:
            return None
        whole: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        for m, c in self.key:
            left = _without(m, under)
            if left is None or c % factor:
                rest[m] = c
            else:
                whole[left] = c // factor
        return self.trace.size(whole), self.trace.size(rest)

    def __floordiv__(self, other: Any) -> Any:
        if isinstance(other, float):
            return float(self) // other
        found = self._divided(other)
        if found is None:
            return _binary("//", self, other)
        whole, rest = found
        if not isinstance(rest, Size):
            if not isinstance(other, Size):
                return whole + rest // other
            if rest == 0:
                return whole
        return whole + _quotient(self.trace, rest, other)

    def __rfloordiv__(self, other: Any) -> Any:
        if isinstance(other, float):
            return other // float(self)
        return _quotient(self.trace, other, self) if self.low >= 1 else _binary("//", other, self)

    def __mod__(self, other: Any) -> Any:
        found = self._divided(other)
        if found is None:
            return _binary("%", self, other)
        rest = found[1]
        if not isinstance(rest, Size) and (not isinstance(other, Size) or rest == 0):
            return rest % other
        if isinstance(rest, Size) and rest.low >= 0 and rest.high < low_of(other):
            return rest
        return self.trace.atom(
            f"({text_of(rest)})%({text_of(other)})",
            hint_of(rest) % hint_of(other),
            (rest, other),
            0,
            high_of(other) - 1,
        )

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __lshift__(self, other: Any) -> Any:
        return self * (1 << index(other))

    def __rshift__(self, other: Any) -> Any:
        return self // (1 << index(other))

    def __and__(self, other: Any) -> Any:
        if not isinstance(other, Size) and other >= 0 and other & (other + 1) == 0:
            return self % (other + 1)
        return _binary("&", self, other)

    __rand__ = __and__

    __or__, __ror__ = _opaque("|")
    __xor__, __rxor__ = _opaque("^")
    __rmod__, __rlshift__ = _opaque("%")[1], _opaque("<<")[1]

    def bit_length(self) -> Any:
        """Return the bits that the number takes."""
        low = int(self.low).bit_length() if 0 <= self.low < inf else 0
        return self.trace.atom(f"({self.text}).bit_length()", self.hint.bit_length(), (self,), low)

    def __abs__(self) -> Any:
        if self.low >= 0:
            return self
        if self.high <= 0:
            return -self
        return self.trace.atom(f"abs({self.text})", abs(self.hint), (self,), 0)

    def __pos__(self) -> Size:
        return self

    def __ceil__(self) -> Size:
        return self

    __floor__ = __trunc__ = __round__ = __ceil__

    # Comparisons and conversions.
    __eq__ = _compared("==")
    __ne__ = _compared("!=")
    __lt__, __le__ = _compared("<"), _compared("<=")
    __gt__, __ge__ = _compared(">"), _compared(">=")

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __index__(self) -> int:
        self.trace.guard(f"{self.text}=={self.hint}", self)
        return self.hint

    __int__ = __index__

    def __hash__(self) -> int:
        # Who looks a size up in a table, or makes a set of sizes, decides by its number.
        if self.trace.tabled and _is_own(sys._getframe(1), _TABLES):
            return hash((id(self.trace), self.key))
        return hash(index(self))

    def __float__(self) -> float:
        return float(index(self))

    def __repr__(self) -> str:
        # A text may be a key of a table, or a part of one.
        own = _is_own(sys._getframe(1), _MESSAGES)
        return f"<{self.hint}>" if own else str(index(self))

    def __format__(self, form: str) -> str:
        own = not form and _is_own(sys._getframe(1), _MESSAGES)
        return f"<{self.hint}>" if own else format(index(self), form)


# Modules whose tables compare sizes by their expressions, and those whose texts decide nothing.
_TABLES: tuple[str, ...] = (
    "calor.graph.", "calor.interning", "calor.recording.", "calor.specs", "calor.transforms.",
)  # fmt: skip
_MESSAGES: Final = ("calor.", "calor_")


def compares_by_expression(package: str) -> None:
    """Declare that the tables of a package compare sizes by their expressions.

    A size that a module of it looks up in a trace with such tables makes no guard: what it finds
    there must hold for every number that the expression can have. A package calls this when it is
    imported.

    Parameters
    ----------
    package : str
        The package's name; its modules are those below it.
    """
    global _TABLES
    if f"{package}." not in _TABLES:
        _TABLES = (*_TABLES, f"{package}.")


def _is_kept() -> bool:
    """Return whether code of others asks, which kept a size beyond its trace: the number there."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and _is_own(frame, (__name__,)):
        frame = frame.f_back
    return frame is not None and not _is_own(frame, _MESSAGES)


def _is_own(frame: FrameType, modules: tuple[str, ...]) -> bool:
    """Return whether the code that asks belongs to some modules."""
    name: str = frame.f_globals.get("__name__", "")
    return name.startswith(modules)


_REAL: Final = (Size, float, Integral)


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
        # Whether the guards are compiled, so that no further one can be noted.
        self.closed = False
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
            if self.closed:
                if _is_kept():
                    return
                raise AssertionError(f"{condition} is asked after the guards were compiled")
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


def _times(x: float, y: float) -> float:
    return 0.0 if x == 0 or y == 0 else x * y


def _without(monomial: Monomial, part: Monomial) -> Monomial | None:
    left = list(monomial)
    for a in part:
        if a not in left:
            return None
        left.remove(a)
    return tuple(left)


def is_size(value: Any) -> bool:
    """Return whether a number is a symbolic size."""
    return isinstance(value, Size)


def text_of(n: Size | int) -> str:
    return n.text if isinstance(n, Size) else str(n)


def hint_of(n: Any) -> Any:
    return n.hint if isinstance(n, Size) else n


def low_of(n: Size | int) -> float:
    return n.low if isinstance(n, Size) else n


def high_of(n: Size | int) -> float:
    return n.high if isinstance(n, Size) else n


def trace_of(*sizes: Size | int) -> Trace:
    return next(s.trace for s in sizes if isinstance(s, Size))


def _binary(operator: str, a: Size | int, b: Size | int) -> Any:
    """Return a non-polynomial result as an atom without bounds."""
    hint = _OPERATORS[operator](hint_of(a), hint_of(b))
    return trace_of(a, b).atom(f"({text_of(a)}){operator}({text_of(b)})", hint, (a, b))


def _quotient(trace: Trace, a: Size | int, b: Size | int) -> Any:
    """Return a // b for a positive b."""
    low, high = low_of(a), high_of(a)
    least = low // low_of(b) if low < 0 else low // high_of(b) if high_of(b) < inf else 0
    most = high // low_of(b) if high >= 0 else high // high_of(b) if high_of(b) < inf else -1
    least = -inf if least != least else least
    most = inf if most != most else most
    return trace.atom(
        f"({text_of(a)})//({text_of(b)})", hint_of(a) // hint_of(b), (a, b), least, most
    )


def _primitive(size: Size) -> Size:
    """Return a difference divided by its positive factors, which do not affect its sign."""
    divisor = gcd(*(c for _, c in size.key))
    counts = Counter(size.key[0][0])
    for m, _ in size.key:
        counts &= Counter(m)
    shared = [a for a in counts.elements() if size.trace.atoms[a].low >= 1]
    if divisor == 1 and not shared:
        return size
    terms = {_without(m, tuple(shared)) or (): c // divisor for m, c in size.key}
    made: Size = size.trace.size(terms)
    return made


def _bounded(size: Size, relation: str) -> bool | None:
    """Return whether a size satisfies a relation to 0; None if its bounds do not tell."""
    if size.low > 0:
        return relation in ("!=", ">", ">=")
    if size.high < 0:
        return relation in ("!=", "<", "<=")
    if size.low >= 0 and relation in (">=", "<"):
        return relation == ">="
    if size.high <= 0 and relation in ("<=", ">"):
        return relation == "<="
    return None


def function_of(
    trace: Trace, texts: Sequence[str], atoms: Collection[int], *, guarded: bool = True
) -> Function:
    """Return a function of the symbols that gives numbers, or None if a guard fails.

    ``texts`` are the numbers as expressions of ``atoms``. Without ``guarded``, the caller knows
    that the guards hold.
    """
    symbols = [f"a{k}" for k in range(len(trace.symbols))]
    lines = [f"def numbers({', '.join(symbols)}):"]
    bounds = [f"{LEAST - 1}<{name}<{MOST}" for name in symbols]
    checks: dict[int, list[str]] = {}
    asked = trace.guards.items() if guarded else ()
    for condition, needs in asked:
        checks.setdefault(max(_all(trace, needs)), []).append(condition)
    made = set(range(len(symbols)))
    early = [c for k in sorted(made) for c in checks.pop(k, ())]
    lines.append(f"    if not ({' and '.join(bounds + early) or 'True'}): return None")
    for last in sorted(checks):
        needed = {a for c in checks[last] for a in _all(trace, trace.guards[c])}
        lines += _assignments(trace, needed, made)
        lines.append(f"    if not ({' and '.join(checks[last])}): return None")
    lines += _assignments(trace, _all(trace, atoms), made)
    lines.append(f"    return ({''.join(f'{text}, ' for text in texts)})")
    scope: dict[str, Any] = {f"f{k}": function for k, function in enumerate(trace.functions)}
    exec("\n".join(lines), scope)
    made_function: Function = scope["numbers"]
    return made_function


def _all(trace: Trace, atoms: Collection[int]) -> set[int]:
    """Return atoms with all their dependences."""
    found: set[int] = set()
    waiting = list(atoms)
    while waiting:
        atom = waiting.pop()
        if atom not in found:
            found.add(atom)
            waiting += trace.atoms[atom].needs
    return found


def _assignments(trace: Trace, needed: Collection[int], made: set[int]) -> list[str]:
    lines = [f"    a{a} = {trace.atoms[a].text}" for a in sorted(needed) if a not in made]
    made.update(needed)
    return lines
