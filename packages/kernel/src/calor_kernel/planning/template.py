"""Templates: the common plan of a graph for all sizes at which planning is the same.

Requirements: a known graph at a new size costs microseconds and needs no new kernel. A template is
valid wherever its guards hold. Its numbers are computed by one generated function of the varying
sizes, each once, and nothing after a failed guard. In-place results have recordings of their own,
made on first use, as in a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, TypeVar

from calor.errors import CalorError
from calor.graph.attributes import Scalar
from calor.graph.graph import Graph, Node
from calor.interning import remember
from calor.sizes import Function, Size, TooManyGuards, Trace, function_of
from calor.specs import spec
from calor.varying_sizes import Getter, Match, getter
from calor_kernel.contract.choices import is_size
from calor_kernel.contract.failures import Failures
from calor_kernel.contract.work import Build, flags_of
from calor_kernel.device.kernels import Kernels
from calor_kernel.device.protocol import Form, Varying
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.recording import Recording
from calor_kernel.planning.structure import Structure, with_numbers
from calor_kernel.planning.symbolic import Symbolic, hinted_value, plan_symbolic, replaced, sizes_in
from calor_kernel.planning.values import Piece

T = TypeVar("T")

# The maximum number of target patterns with recordings in a template.
_PATTERNS: Final = 8
_MASK: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True, repr=False)
class LooseScalar(Scalar):
    """A number in which the graphs of a template differ.

    A plan of all these graphs does not depend on it, and does not share it with an equal one, so it
    is no Scalar to those who ask for its type, and differs from others by its ``place``.
    """

    place: int


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


@dataclass(frozen=True, slots=True)
class Opened:
    """Steps whose kernels depend on sizes; the sizes select among a few kernels.

    ``builds``: by step number. ``sizes`` computes the build sizes of all steps, in order, from the
    numbers of a plan.
    """

    builds: Mapping[int, Build]
    sizes: Getter
    kernels: Kernels
    found: dict[tuple[int, ...], Mapping[int, Any]] = field(default_factory=dict)

    def functions(self, numbers: Sequence[int]) -> Mapping[int, Any]:
        """Return the kernels for these numbers by step; new ones are compiled; CompileError."""
        key = self.sizes(numbers)
        found = self.found.get(key)
        if found is None:
            # Numbers are unsigned, of 64 bits.
            values = iter([n - _MASK - 1 if n > _MASK >> 1 else n for n in key])
            builds = [replaced(b, lambda size: next(values)) for b in self.builds.values()]
            found = dict(zip(self.builds, self.kernels.load(builds), strict=True))
            remember(self.found, key, found)
        return found


def known_number(number: int | Varying, numbers: Sequence[int]) -> int:
    """Return a number, looked up in a list if it varies."""
    return number if isinstance(number, int) else number.of(numbers)


@dataclass(frozen=True, slots=True)
class OpenRecording:
    """A recording with open numbers, and the function that computes them.

    ``lists``: for each list its form, and its steps whose kernels depend on the numbers.
    ``outputs``: the bytes of the graph's results. ``patches``: the offset in the constants of each
    varying one, with the number of the graph's constants before it. ``behind`` and ``flags``: the
    offset behind the constants, and the number of flags there. ``failures``: of each fallible task,
    with its op; their sizes may vary.
    """

    numbers: Function
    lists: tuple[tuple[Form, Opened], ...]
    launches: Any
    stopped: frozenset[int] | None
    arena: int | Varying
    outputs: tuple[int | Varying, ...]
    patches: tuple[tuple[int | Varying, int], ...]
    behind: int | Varying
    flags: int | Varying
    failures: Failures

    def compute(self, symbols: Sequence[int]) -> tuple[int, ...] | None:
        """Return the numbers, None if a guard fails."""
        try:
            return self.numbers(*symbols)
        except (ArithmeticError, ValueError):
            return None

    def record(self, numbers: Sequence[int]) -> Recording:
        """Return the recording for these numbers; CompileError from a new kernel."""
        lists = tuple([form(numbers, opened.functions(numbers)) for form, opened in self.lists])
        arena = known_number(self.arena, numbers)
        return Recording(lists, (), self.launches, arena, self.stopped)


def open_recording(
    engine: Engine,
    made: Symbolic,
    targets: Mapping[int, int],
    kept: Mapping[tuple[int, int], Piece] = MappingProxyType({}),
    without: Collection[tuple[int, int]] = (),
) -> OpenRecording:
    """Return the open recording of a graph; the arguments are those of :meth:`Recorder.laid`."""
    recorder, numbers, lists = made.recorder, Numbers(), []
    laid = recorder.laid(targets, kept, without)
    builds = [(build, sizes_in(build)) for build in laid.builds]
    left = iter(builds)
    hinted = [hinted_value(build) if sizes else build for build, sizes in builds]
    for one in recorder.steps(laid, hinted):
        steps = [step.mapped(numbers.place) for step in one]
        sized = {k: both for k, both in enumerate(islice(left, len(one))) if both[1]}
        places = [numbers.place(n).place for _, sizes in sized.values() for n in sizes]
        opened = Opened({k: b for k, (b, _) in sized.items()}, getter(places), engine.kernels)
        lists.append((engine.queue.form(steps, recorder.slots.count), opened))
    arena = numbers.place(laid.arena)
    outputs = tuple(numbers.place(p.nbytes) for p in recorder.draft.outputs)
    patches = tuple((numbers.place(place), k) for place, k in made.patches)
    behind = numbers.place(recorder.draft.behind(recorder.align))
    flags = numbers.place(flags_of(recorder.works))
    failures = {
        n: (tuple(f._replace(size=numbers.place(f.size)) for f in work.failures), task.op)
        for n, (work, task) in enumerate(zip(recorder.works, recorder.draft.tasks, strict=True))
        if work.failures
    }
    function = function_of(made.trace, list(numbers.texts), numbers.atoms)
    return OpenRecording(
        function,
        tuple(lists),
        laid.launches,
        laid.stopped,
        arena,
        outputs,
        patches,
        behind,
        flags,
        failures,
    )


@dataclass(slots=True)
class Template:
    """A plan with open numbers.

    ``graph`` and ``structure`` are the originals. ``base`` is the recording for fresh results.
    ``fixed`` selects the bytes of the graph's constants that never vary.
    """

    engine: Engine
    graph: Graph
    structure: Structure
    match: Match
    made: Symbolic
    base: OpenRecording
    fixed: Getter
    recordings: dict[tuple[tuple[int, int], ...], OpenRecording | None] = field(
        default_factory=dict
    )

    def patched(self, bits: Sequence[bytes], numbers: Sequence[int]) -> bytes:
        """Return the constants with the varying bytes replaced."""
        made = bytearray(self.made.recorder.draft.constants)
        for place, k in self.base.patches:
            start = known_number(place, numbers)
            end = start + len(bits[k])
            made += bytes(max(end - len(made), 0))
            made[start:end] = bits[k]
        return bytes(made)

    def graph_at(self, symbols: Sequence[int]) -> Graph:
        """Return the graph with other sizes; its constants are the template's."""
        numbers = list(self.structure.numbers)
        for place, group in self.match.group.items():
            numbers[place] = symbols[group]
        return with_numbers(self.graph, numbers, spec)

    def keeps(self, bits: Sequence[bytes]) -> bool:
        """Return whether the invariant constants are the same here."""
        own = self.structure.bits
        return bits == own or self.fixed(bits) == self.fixed(own)

    def record(self, targets: Mapping[int, int], symbols: Sequence[int]) -> Recording | None:
        """Return the recording for outputs that are written to targets; None if none fits."""
        key = tuple(targets.items())
        if key not in self.recordings:
            with self.engine.replanning.lock:
                if len(self.recordings) >= _PATTERNS:
                    self.recordings.clear()
                self.recordings[key] = attempt(
                    lambda: open_recording(self.engine, self.made, targets)
                )
        found = self.recordings[key]
        numbers = None if found is None else found.compute(symbols)
        return None if found is None or numbers is None else found.record(numbers)


def template_of(
    engine: Engine,
    graph: Graph,
    structure: Structure,
    seen: Sequence[tuple[int, ...]],
    varying: Collection[int],
    loose: Collection[int],
    habits: dict[Any, Any] | None,
) -> Template | None:
    """Return the template of a graph; None if host arrays differ in size.

    ``seen``: the numbers of graphs of the structure, this graph's last. ``varying``: the indices of
    the numbers that differ; ``loose``: those of the bits. ``habits``: earlier choices.
    """
    match = Match(seen, varying)
    trace = Trace([values[-1] for values in match.values], habits)
    sized = with_numbers(graph, match.sizes(trace, structure.numbers))
    sources = [n for n in graph.nodes if n.op.name in ("full", "constant")]
    differing = {
        node.outputs[0]: k
        for k, node in enumerate(sources)
        if k in loose or (node.op.name == "constant" and is_size(sized.specs[node.outputs[0]].size))
    }
    made = plan_symbolic(engine, _with_loose(sized, differing), trace, differing)
    if any(is_size(spec.nbytes) for _, spec, _ in made.recorder.draft.hosts):
        return None
    fixed = getter([k for k, node in enumerate(sources) if node.outputs[0] not in differing])
    base = open_recording(engine, made, {})
    return Template(engine, graph, structure, match, made, base, fixed)


def _with_loose(graph: Graph, differing: Mapping[int, int]) -> Graph:
    """Return the graph with its numbers that differ marked as such."""
    nodes = []
    for node in graph.nodes:
        value = node.attributes.get("value")
        if type(value) is Scalar and node.outputs[0] in differing:
            loose = LooseScalar(value.dtype, value.bits, differing[node.outputs[0]])
            node = Node(node.op, node.inputs, {**node.attributes, "value": loose}, node.outputs)
        nodes.append(node)
    return Graph(graph.specs, graph.host, nodes, graph.outputs, len(graph.inputs))


def attempt(make: Callable[[], T]) -> T | None:
    """Return the result of planning with symbolic sizes, None if that fails."""
    try:
        return make()
    except (TooManyGuards, CalorError, ArithmeticError, AssertionError, TypeError, ValueError):
        return None
