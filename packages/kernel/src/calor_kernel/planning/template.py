"""Templates: what planning a graph comes to for all sizes at which it would do the same.

Requirements: a known graph at a new size costs microseconds, and no kernel; what a template says
holds wherever its guards do. All numbers of a plan are computed by one generated function, whose
arguments are the sizes that differ; it returns None where a guard fails.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from calor.graph.graph import Graph
from calor_kernel.library.work import Build
from calor_kernel.planning.choices import is_size
from calor_kernel.planning.sizes import Size
from calor_kernel.planning.structure import Structure, with_numbers
from calor_kernel.planning.symbolic import plan_symbolic, replaced, sizes_in
from calor_kernel.planning.trace import LEAST, MOST, Trace
from calor_kernel.runtime.device import Form, Slot, Step, Varying

if TYPE_CHECKING:
    from calor_kernel.runtime.engine import Engine
    from calor_kernel.runtime.kernels import Kernels

_MASK: Final = (1 << 64) - 1
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

    def __init__(
        self, seen: Sequence[tuple[int, ...]], varying: Collection[int], loose: Collection[int]
    ) -> None:
        numbers = seen[-1]
        groups: dict[tuple[int, ...], int] = {}
        self.group: dict[int, int] = {}
        for place in sorted(varying):
            values = tuple(one[place] for one in seen)
            self.group[place] = groups.setdefault(values, len(groups))
        self.values = list(groups)
        self.loose = sorted(loose)
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


class Numbers:
    """The numbers of a plan that differ, each once; what is put in their places."""

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

    def step(self, step: Step) -> Step:
        """Return a step with Varying numbers for its sizes."""
        x, y, z = map(self.place, step.cubes)
        arguments = tuple(
            Slot(a.number, self.place(a.offset)) if isinstance(a, Slot) else self.place(a)
            for a in step.arguments
        )
        return Step(
            step.function, (x, y, z), arguments, self.place(step.flops), self.place(step.nbytes)
        )


def _function(
    trace: Trace, texts: Sequence[str], atoms: Collection[int]
) -> Callable[..., tuple[int, ...] | None]:
    """Return a function of the symbols that gives the numbers, or None where a guard fails."""
    symbols = [f"a{k}" for k in range(len(trace.symbols))]
    lines = [f"def numbers({', '.join(symbols)}):"]
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
    lines += _assignments(trace, _all(trace, atoms), made)
    lines.append(f"    return ({''.join(f'{text}, ' for text in texts)})")
    scope: dict[str, Any] = {f"f{k}": function for k, function in enumerate(trace.functions)}
    exec("\n".join(lines), scope)
    made_function: Callable[..., tuple[int, ...] | None] = scope["numbers"]
    return made_function


def _all(trace: Trace, atoms: Collection[int]) -> set[int]:
    """Return atoms with all that they are computed of."""
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


@dataclass(frozen=True, slots=True)
class Opened:
    """A step whose kernel is built from sizes: few kernels, chosen by what the sizes come to."""

    step: int
    build: Build
    sizes: tuple[Varying, ...]
    kernels: Kernels
    functions: dict[tuple[int, ...], Any] = field(default_factory=dict)

    def function(self, numbers: Sequence[int]) -> Any:
        """Return the kernel for these numbers, compiled if it is new; CompileError."""
        key = tuple([size.of(numbers) for size in self.sizes])
        found = self.functions.get(key)
        if found is None:
            values = iter(key)
            build = replaced(self.build, lambda size: next(values))
            (found,) = self.kernels.load([build])
            self.functions[key] = found
        return found


@dataclass(frozen=True, slots=True)
class Template:
    """A plan with numbers left open.

    ``numbers`` computes them of the symbols of ``match``. ``record`` makes what the device runs of
    them; ``arena`` and ``outputs`` are bytes, numbers or Varying. ``constants``: their bytes, and
    ``patches`` where in them those of a ``full`` are, by its order in the graph, and how many.
    """

    match: Match
    numbers: Callable[..., tuple[int, ...] | None]
    record: Form
    opened: tuple[Opened, ...]
    arena: int | Varying
    outputs: tuple[int | Varying, ...]
    constants: bytes
    bits: tuple[bytes, ...]
    patches: tuple[tuple[int, int], ...]
    draft: Any
    works: Sequence[Any]
    status: Mapping[int, int]
    launches: Any

    def patched(self, bits: Sequence[bytes]) -> bytes | None:
        """Return the constants with other bytes in the places that are known; None elsewhere."""
        loose = {k for _, k in self.patches}
        pairs = enumerate(zip(self.bits, bits, strict=True))
        if any(a != b for k, (a, b) in pairs if k not in loose):
            return None
        made = bytearray(self.constants)
        for start, k in self.patches:
            made[start : start + len(bits[k])] = bits[k]
        return bytes(made)


def template_of(
    engine: Engine,
    graph: Graph,
    structure: Structure,
    seen: Sequence[tuple[int, ...]],
    varying: Collection[int],
    loose: Collection[int],
) -> Template | None:
    """Return the template of a graph; None where the device would run it in several lists.

    ``seen``: numbers of graphs of the structure, this one's last. ``varying``: places among the
    numbers that differ; ``loose``: places among the bits.
    """
    match = Match(seen, varying, loose)
    trace = Trace([values[-1] for values in match.values])
    sized = with_numbers(graph, match.sizes(trace, structure.numbers))
    scalars = [n.outputs[0] for n in graph.nodes if n.op.name == "full"]
    made = plan_symbolic(engine, sized, {scalars[k] for k in match.loose})
    if any(is_size(known.nbytes) for _, known, _ in made.draft.hosts):
        return None
    recording = made.record()
    if len(recording.steps) != 1:
        return None
    numbers = Numbers()
    steps = [numbers.step(step) for step in recording.steps[0]]
    arena = numbers.place(recording.arena)
    outputs = tuple(numbers.place(p.nbytes) for p in made.draft.outputs)
    opened = tuple(
        Opened(k, build, tuple(numbers.place(size) for size in sizes_in(build)), engine.kernels)
        for k, build in recording.opened.items()
    )
    return Template(
        match,
        _function(trace, list(numbers.texts), numbers.atoms),
        engine.device.queue.form(steps, made.recorder.slots.count),
        opened,
        arena,
        outputs,
        made.draft.constants,
        structure.bits,
        tuple((made.places[scalars[k]], k) for k in match.loose),
        made.draft,
        made.works,
        made.status,
        recording.launches,
    )
