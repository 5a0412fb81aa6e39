"""A plan's numbers as one generated function of the varying sizes.

Requirements: each number is computed once, by one call of generated Python. A failed guard returns
before any computation that depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from calor_kernel.contract.sizes import Size
from calor_kernel.contract.trace import LEAST, MOST, Trace
from calor_kernel.device.protocol import Varying

_MASK: Final = (1 << 64) - 1
Function = Callable[..., tuple[int, ...] | None]


class Numbers:
    """The distinct varying numbers of a plan, and their placeholders."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self.atoms: set[int] = set()

    def place(self, value: Any) -> Any:
        """Return a Varying number for a size, and any other value as it is."""
        if not isinstance(value, Size):
            return value
        self.atoms |= value.atoms
        text = value.text if value.low >= 0 else f"{value.text}&{_MASK}"
        return Varying(self.texts.setdefault(text, len(self.texts)))


def signed(number: int) -> int:
    """Return the signed value of an unsigned 64-bit number."""
    return number - _MASK - 1 if number > _MASK >> 1 else number


def function_of(trace: Trace, numbers: Numbers) -> Function:
    """Return a function of the symbols that gives the numbers, or None if a guard fails."""
    symbols = [f"a{k}" for k in range(len(trace.symbols))]
    lines = [f"def numbers({', '.join(symbols)}):"]
    texts = list(numbers.texts)
    bounds = [f"{LEAST - 1}<{name}<{MOST}" for name in symbols]
    checks: dict[int, list[str]] = {}
    for condition, needs in trace.guards.items():
        checks.setdefault(max(_all(trace, needs)), []).append(condition)
    made = set(range(len(symbols)))
    early = [c for k in sorted(made) for c in checks.pop(k, ())]
    lines.append(f"    if not ({' and '.join(bounds + early) or 'True'}): return None")
    guarded = sorted(checks)
    for last in guarded:
        needed = {a for c in checks[last] for a in _all(trace, trace.guards[c])}
        lines += _assignments(trace, needed, made)
        lines.append(f"    if not ({' and '.join(checks[last])}): return None")
    lines += _assignments(trace, _all(trace, numbers.atoms), made)
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
