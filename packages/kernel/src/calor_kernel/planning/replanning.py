"""Plans graphs of known structure at new sizes.

Requirements: with a template, a size costs microseconds per node and little memory. A program with
a hundred thousand sizes needs few templates. A graph without a possible template is planned like
any other. The first graph of a structure is planned plainly, because most never occur at another
size; the second shows which sizes differ.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final
from weakref import WeakKeyDictionary

from calor.graph.graph import Graph
from calor_kernel.contract.choices import hinted
from calor_kernel.contract.failures import Failures
from calor_kernel.device.buffers import KernelBuffer
from calor_kernel.device.guards import Guard
from calor_kernel.planning.drafts import Planned
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.fast_path import short_way
from calor_kernel.planning.operand_cache import Keeper
from calor_kernel.planning.plan import Plan, Variant, uploaded
from calor_kernel.planning.planner import Planner
from calor_kernel.planning.preparations import preparations
from calor_kernel.planning.recording import Recording
from calor_kernel.planning.repeating import Scans
from calor_kernel.planning.structure import Structure, structure_of
from calor_kernel.planning.template import Template, attempt, known_number, template_of
from calor_kernel.planning.template_keeper import KeptForSizes, TemplateKeeper
from calor_kernel.planning.values import Draft

_STRUCTURES: Final = 256
_TEMPLATES: Final = 12  # of a structure
_SEEN: Final = 4
# A structure that needed new templates for this many sizes, without reuse, is given up.
_PATIENCE: Final = 24
_NO_TARGETS: Final[dict[int, int]] = {}
# The number of calls before a fresh plan is made, with and without cached preparations; its bound
# calls are then compiled.
_PREPARING: Final = 3
_CALLS: Final = 16
_Make = Callable[["Graph | Callable[[], Graph]"], Plan]


def plan_anew(
    engine: Engine, graph: Graph, key: str | None = None, planned: Planned | None = None
) -> Plan:
    """Return a fresh plan of a graph without control flow; CompileError.

    ``planned``: what the graph was planned to before; else this is kept, if there is a ``key``.
    """
    if planned is None:
        plan = Plan(engine, planned_with_scans(engine, graph)[1])
        if key is not None:
            engine.drafts.put(key, (plan.draft, plan.works))
    else:
        plan = Plan(engine, *planned)
    plan.keeper = Keeper.of(plan)
    plan.short = short_way(plan)
    return plan


def planned_with_scans(engine: Engine, graph: Graph) -> tuple[Planner, Draft]:
    """Return the draft of a graph, in which steps of scans are repeated, and its planner."""
    planner = Planner(engine.lowerings, graph, engine.fusers, engine.deterministic)
    planner.scans = Scans.of(
        engine,
        lambda step: planned_with_scans(engine, step),
        lambda task: engine.tuner.choose_all([task])[0],
    )
    return planner, planner.draft(engine.coverings.of(graph))


class _Unrecorded(Exception):
    """A template has no recording for targets."""


class Resized(Plan):
    """The executable of a graph whose structure a template knows.

    Attributes common to all sizes belong to a class per template, made by :func:`resized_by`.
    ``graph`` is set if its constants differ from the template's.
    """

    template: Template
    words: _Words
    patience: int
    sized_keeper: TemplateKeeper | None
    # What was kept at the last call, and the variant of this size that reads it.
    _kept: tuple[KeptForSizes, Variant | None] | None = None

    def __init__(
        self,
        graph: Graph | Callable[[], Graph] | None,
        symbols: Sequence[int],
        numbers: Sequence[int],
        constants: bytes | None,
    ) -> None:
        base = self.template.base
        if isinstance(graph, Graph):
            self.graph = graph
        self._make = graph
        flags = known_number(base.flags, numbers)
        if constants is not None:
            self.set_constants(constants, known_number(base.behind, numbers), flags)
        elif flags > self.words.enough:
            self.hold_constants(self.words.having(flags))
        self.output_bytes = tuple([known_number(n, numbers) for n in base.outputs])
        self._numbers = numbers
        self._symbols = symbols
        self._variants = []
        self._calls = 0

    @cached_property
    def base(self) -> Variant:
        """The variant that keeps nothing, recorded on first use: most calls read kept memory."""
        return Variant(self, _NO_TARGETS, self.template.base.record(self._numbers))

    @cached_property
    def failures(self) -> Failures:  # type: ignore[override]
        """The errors and the op of each fallible task, with the axes' sizes at this size."""
        return {
            n: (tuple(f._replace(size=self._known(f.size)) for f in failures), op)
            for n, (failures, op) in self.template.base.failures.items()
        }

    @cached_property
    def guards(self) -> WeakKeyDictionary[Any, Guard]:  # type: ignore[override]
        """The guard of each state, whose errors are those of this size."""
        return WeakKeyDictionary()

    def _known(self, size: Any) -> Any:
        return None if size is None else known_number(size, self._numbers)

    def _exceeds(self, required: int) -> bool:
        return required > self.required_bytes

    @cached_property
    def graph(self) -> Graph:  # type: ignore[override]
        """The graph, computed on first use."""
        make = self._make
        return make() if callable(make) else self.template.graph_at(self._symbols)

    @cached_property
    def full(self) -> Plan:
        """The fresh plan of this graph."""
        return plan_anew(self.engine, self.graph)

    def recording(self, targets: dict[int, int]) -> Recording:
        """Return the recording of the template; _Unrecorded if it has none for these targets."""
        found = self.template.record(targets, self._symbols)
        if found is None:
            raise _Unrecorded
        return found

    def _into(self, inputs: Sequence[Any], into: Sequence[Any], private: bool) -> list[Any]:
        try:
            return super()._into(inputs, into, private)
        except _Unrecorded:
            # The fresh plan has constants and flags of its own.
            self.patience = -1
            return self.full._into(inputs, into, private)

    @property
    def settled(self) -> Plan | None:
        """The fresh plan, once it has replaced this one."""
        return self.full if self._calls > self.patience else None

    def __call__(self, inputs: Sequence[Any], into: Sequence[Any] | None = None) -> list[Any]:
        self._calls += 1
        if self._calls > self.patience or self.engine.profiler is not None:
            return self.full(inputs, into)
        if into is None and self.sized_keeper is not None:
            kept = self.sized_keeper.kept(inputs)
            variant = None if kept is None else self._reading(kept)
            if variant is not None:
                return self._run(variant, inputs, [None] * len(self.output_bytes))
        return super().__call__(inputs, into)

    def _reading(self, kept: KeptForSizes) -> Variant | None:
        """Return the variant that reads kept memory; None if a guard of its own fails."""
        known = self._kept
        if known is None or known[0] is not kept:
            numbers = kept.rest.compute(self._symbols)
            variant = None
            if numbers is not None:
                variant = Variant(self, _NO_TARGETS, kept.rest.record(numbers), kept.memory)
            known = self._kept = kept, variant
        return known[1]


class _Words:
    """The constants and flags of a template's plans whose constants do not vary.

    ``enough``: the flags that each plan has without asking; ``plan`` holds what plans share.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._buffer, self._flags = plan.constants, hinted(plan.flags)
        self._lock = threading.Lock()
        self.enough = self._flags

    def having(self, flags: int) -> KernelBuffer | None:
        """Return memory with so many zeroed flags; earlier plans keep theirs."""
        with self._lock:
            if flags > self._flags:
                # A program whose sizes grow gets new memory rarely.
                self._flags = 1 << (flags - 1).bit_length()
                draft, align = self._plan.draft, self._plan.engine.device.info.align
                place = hinted(draft.behind(align))
                self._buffer = uploaded(self._plan.pool, draft.constants, place, self._flags)
            return self._buffer


def resized_by(template: Template, lasting: Collection[int] = ()) -> type[Resized]:
    """Return the class of a template's plans; ``lasting``: the inputs that seem to stay."""
    made = template.made.recorder
    basis = object.__new__(Plan)
    basis.begin(template.engine, made.draft, template.graph, made.works)
    basis.output_bytes = [hinted(p.nbytes) for p in made.draft.outputs]
    keeper = TemplateKeeper.of_template(basis, template)
    if keeper is not None:
        keeper.expect(lasting)
    prepares = keeper is None and any(map(preparations, made.works))
    # The errors of a plan, and the guards that tell them, have its sizes.
    own = ("failures", "guards")
    common = {
        **{name: held for name, held in basis.__dict__.items() if name not in own},
        "template": template,
        "words": _Words(basis),
        "patience": _PREPARING if prepares else _CALLS,
        "sized_keeper": keeper,
        "keeper": None,
        "short": None,
        "_given": staticmethod(basis._given),
        # By position: each size has its own output pieces.
        "depends": made.draft.dependences(made.status),
    }
    return type(Resized.__name__, (Resized,), common)


@dataclass(slots=True)
class _Known:
    """A structure: its past numbers, the indices where they differ, and its templates.

    ``habits``: earlier choices among equally correct ways.
    """

    seen: list[tuple[int, ...]]
    bits: tuple[bytes, ...]
    varying: set[int] = field(default_factory=set)
    loose: set[int] = field(default_factory=set)
    templates: list[type[Resized]] = field(default_factory=list)
    habits: dict[Any, Any] = field(default_factory=dict)
    patience: int = _PATIENCE

    def differ(self, numbers: Sequence[int], others: Sequence[int]) -> None:
        """Note where the numbers of two graphs differ."""
        pairs = enumerate(zip(numbers, others, strict=True))
        self.varying.update(p for p, (a, b) in pairs if a != b and min(a, b) > 1)


class Replanning:
    """The templates of one device. ``made`` and ``used`` count templates and plans from them."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.made = 0
        self.used = 0
        self._structures: OrderedDict[Any, _Known] = OrderedDict()
        self._found: tuple[Graph, _Make] | None = None
        self.unlock()

    def unlock(self) -> None:
        """Start with a new lock, in a forked child."""
        self.lock = threading.RLock()

    def forget(self) -> None:
        """Forget the templates, whose choices may be outdated."""
        with self.lock:
            self._structures.clear()
            self._found = None

    def fits(self, graph: Graph) -> bool:
        """Return whether a template fits a graph; the graph is then compiled as a whole.

        The finding is cached, because the graph is likely to be compiled next.
        """
        structure = structure_of(graph)
        found = None if structure is None else self._find(structure)
        self._found = None if found is None else (graph, found)
        return found is not None

    def resized(self, structure: Structure, graph: Callable[[], Graph]) -> Plan | None:
        """Return the executable of a structure, with its graph on demand; None if none fits."""
        found = self._find(structure)
        if found is None:
            return None
        self.used += 1
        return found(graph)

    def learned(
        self,
        structure: Structure,
        graph: Callable[[], Graph],
        samples: Sequence[tuple[int, ...]],
        loose: Collection[int],
        lasting: Collection[int],
    ) -> Plan | None:
        """Return the executable from a new template; None if there can be none.

        ``samples``: the numbers of the structure at other sizes; ``loose``: the bits that differ;
        ``lasting``: the inputs that are expected to stay the same.
        """
        if not samples:
            return None
        with self.lock:
            new = _Known([structure.numbers], structure.bits)
            known = self._structures.setdefault(structure.key, new)
            if not known.patience:
                return None
            for numbers in samples:
                known.differ(numbers, structure.numbers)
            known.loose.update(loose)
            known.seen = [*samples]
            self._learn(known, graph(), structure, lasting)
            while len(self._structures) > _STRUCTURES:
                self._structures.popitem(last=False)
        return self.resized(structure, graph)

    def ready(self, graph: Graph) -> Plan | None:
        """Return the executable of the last queried graph, if a template fits."""
        held, self._found = self._found, None
        if held is None or held[0] is not graph:
            return None
        self.used += 1
        return held[1](graph)

    def plan(
        self,
        graph: Graph,
        structure: Structure,
        key: str | None = None,
        planned: Planned | None = None,
    ) -> Plan:
        """Return the executable of a graph of a structure; CompileError."""
        found = self._find(structure)
        if found is not None:
            self.used += 1
            return found(graph)
        with self.lock:
            known = self._structures.get(structure.key)
            if known is not None and known.patience:
                self._learn(known, graph, structure)
                found = self._find(structure)
        if found is not None:
            return found(graph)
        # The plans of a structure at many sizes would fill the disk, each for a program of its own.
        plan = plan_anew(self.engine, graph, None if known else key, planned)
        if known is None:
            with self.lock:
                self._structures[structure.key] = _Known([structure.numbers], structure.bits)
                if len(self._structures) > _STRUCTURES:
                    self._structures.popitem(last=False)
        return plan

    def _find(self, structure: Structure) -> _Make | None:
        """Return what makes the plan of a graph of a structure; None if no template fits."""
        known = self._structures.get(structure.key)
        if known is None:
            return None
        for place, kind in enumerate(known.templates):
            template = kind.template
            symbols = template.match.symbols(structure.numbers)
            numbers = None if symbols is None else template.base.compute(symbols)
            if symbols is None or numbers is None or not template.keeps(structure.bits):
                continue
            patches = template.base.patches
            constants = template.patched(structure.bits, numbers) if patches else None
            if place:
                known.templates = [kind, *(one for one in known.templates if one is not kind)]
            known.patience = _PATIENCE
            same, given = structure.bits == template.structure.bits, (symbols, numbers, constants)
            return lambda graph: kind(None if same else graph, *given)
        return None

    def _learn(
        self, known: _Known, graph: Graph, structure: Structure, lasting: Collection[int] = ()
    ) -> None:
        """Make a template for sizes that no other fits, if possible."""
        if self.engine.tuner.mode in ("on", "dry"):
            return
        known.patience -= 1
        known.differ(known.seen[-1], structure.numbers)
        bits = enumerate(zip(known.bits, structure.bits, strict=True))
        known.loose.update(p for p, (a, b) in bits if a != b)
        known.seen = [*known.seen[1 - _SEEN :], structure.numbers]
        # A size of 0 or 1 is a constant of the template.
        varying = {p for p in known.varying if structure.numbers[p] > 1}
        if not varying:
            return
        seen, loose = known.seen, known.loose
        engine = self.engine
        habits = None if engine.deterministic else known.habits
        template = attempt(
            lambda: template_of(engine, graph, structure, seen, varying, loose, habits)
        )
        if template is not None:
            self.made += 1
            made = resized_by(template, lasting)
            known.templates = [made, *known.templates[: _TEMPLATES - 1]]
