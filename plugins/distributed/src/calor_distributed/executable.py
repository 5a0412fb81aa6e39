"""The executable of a group: the segments between collectives run on each member in turn.

Requirements: a graph without collectives costs one call for each member and nothing else. The last
stage writes state in place. Nothing is written before all other stages have succeeded and memory is
reserved on every member with a known limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from calor.backends.communication import Collective, Exchange
from calor.backends.device import Device
from calor.backends.protocol import Buffer, Executable
from calor.compiling.plans import plan_for
from calor.errors import OutOfMemoryError
from calor.graph.graph import Builder, Graph, Node, part
from calor.graph.segments import Segment, cut
from calor.specs import Spec
from calor.units import bytes_text
from calor_distributed.rows import COLLECTIVES
from calor_distributed.rows import rank as rank_row

Into = Sequence[Buffer | None] | None
Short = Callable[[Sequence[Any], Into], list[Any] | None]


class Group(Protocol):
    """The backend of a group, as its executables see it."""

    name: str
    members: tuple[Device, ...]
    places: tuple[Device, ...]
    world: int

    def prepare(self, calls: Sequence[Collective]) -> Exchange:
        """Return a function that runs collectives, in the same order on every member."""
        ...


class GroupBuffer:
    """A value of a group: a buffer on each member."""

    __slots__ = ("__weakref__", "nbytes", "parts")

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = tuple(parts)
        self.nbytes: int = self.parts[0].nbytes

    @property
    def exported(self) -> bool:
        """True while an exported view (DLPack, NumPy) of a member's memory exists."""
        return any(part.exported for part in self.parts)


def alone(node: Node) -> bool:
    """Return whether each member runs a node by itself: no exchange, or one among one member."""
    several = node.op in COLLECTIVES or node.op is rank_row
    return not several or node.attributes["world"] == 1


def _exchanges(graph: Graph) -> bool:
    """Return whether a graph or one of its sub-graphs has a node of several members."""
    bodies = (v for n in graph.nodes for v in n.attributes.values() if isinstance(v, Graph))
    return not all(map(alone, graph.nodes)) or any(map(_exchanges, bodies))


def refusals(places: Sequence[Device], world: int, graph: Graph) -> dict[int, str]:
    """Return the nodes that a group cannot run, with reasons."""
    reasons: dict[int, str] = {}
    for number, node in enumerate(graph.nodes):
        bodies = [v for v in node.attributes.values() if isinstance(v, Graph)]
        if any(map(_exchanges, bodies)):
            reasons[number] = "groups do not yet run a collective inside a loop or branch"
        elif not alone(node) and node.attributes["world"] != world:
            members = node.attributes["world"]
            reasons[number] = f"it needs {members} members, and this group has {world}"
    colours = [
        "member" if alone(node) and number not in reasons else "group"
        for number, node in enumerate(graph.nodes)
    ]
    for segment in cut(graph, colours):
        if segment.colour == "member":
            for place in places:
                claim = place.backend.claim(place.index, segment.graph)
                for i, why in claim.reasons.items():
                    reasons.setdefault(segment.nodes[i], f"member {place.name}: {why}")
    return reasons


class GroupExecutable:
    """Stages that run one after another, each on all members."""

    def __init__(self, backend: Group, graph: Graph) -> None:
        self.backend = backend
        self.graph = graph
        self.body, self.constants = _without_ranks(backend, graph)
        colours = ["member" if alone(n) else "group" for n in self.body.nodes]
        self.stages = [
            MemberStage(backend, s) if s.colour == "member" else ExchangeStage(backend, s)
            for s in cut(self.body, colours)
        ]
        # A graph of one stage handles its outputs itself; a graph without nodes is a copy.
        self.whole: MemberStage | None = None
        if not any(isinstance(stage, ExchangeStage) for stage in self.stages):
            nodes = tuple(range(len(self.body.nodes)))
            segment = Segment("", nodes, self.body, self.body.inputs, self.body.outputs)
            self.whole = MemberStage(backend, segment)
            self.stages = [self.whole]
        self._ends = self._last_stages()
        outputs, inputs = self.body.outputs, set(self.body.inputs)
        self._passed = tuple(dict.fromkeys(v for v in outputs if v in inputs))
        self._tokens = {n.outputs[1] for n in self.body.nodes if not alone(n)}
        self._written = [i for i, v in enumerate(outputs) if v not in self._tokens]
        self._short: Short | None = None
        if len(self.stages) == 1 and isinstance(self.stages[0], ExchangeStage):
            self._short = self.stages[0].short(self.body)
        self._copying: dict[tuple[Spec, bool], MemberStage] = {}
        self.required_bytes = self._bound()

    def __call__(self, inputs: Sequence[Any], into: Into = None) -> list[Any]:
        """Run the stages in order; the last stage, or a copy after it, writes state in place."""
        if self._short is not None:
            done = self._short(inputs, into)
            if done is not None:
                return done
        given = [*inputs, *self.constants]
        if into is not None and any(into[place] is not None for place in self._written):
            self._reserve()
        if self.whole is not None:
            return self.whole.run(given, into)
        body = self.body
        held: dict[int, Any] = dict(zip(body.inputs, given, strict=True))
        # Copied first: the memory of an input may be written in place.
        passed = {v: self._copy(body.specs[v], held[v]) for v in self._passed}
        targets = self._targets(into)
        for stage, ends in zip(self.stages, self._ends, strict=True):
            segment = stage.segment
            last = stage is self.stages[-1]
            direct = [targets.get(v) for v in segment.outputs] if last else None
            made = stage.run([held[v] for v in segment.inputs], direct)
            held.update(zip(segment.outputs, made, strict=True))
            for v in ends:
                del held[v]
        held.update(passed)
        return self._own(held, into)

    def _targets(self, into: Into) -> dict[int, Any]:
        """Return the buffers to write by value; the first one for a value returned twice."""
        found: dict[int, Any] = {}
        for v, target in zip(self.body.outputs, into or (), strict=False):
            found.setdefault(v, target)
        return found

    def _own(self, held: dict[int, Any], into: Into) -> list[Any]:
        """Return the results in memory of their own, or in the buffers given for them."""
        taken: set[int] = set()
        results: list[Any] = []
        for place, v in enumerate(self.body.outputs):
            made, target = held[v], None if into is None else into[place]
            if v in self._tokens:
                # The contents of a token are neither written nor read.
                made = made if target is None else target
            elif made is not target and (target is not None or id(made) in taken):
                made = self._copy(self.body.specs[v], made, target)
            taken.add(id(made))
            results.append(made)
        return results

    def _copy(self, known: Spec, source: Any, target: Any = None) -> Any:
        host = not isinstance(source, GroupBuffer)
        stage = self._copying.get((known, host))
        if stage is None:
            builder = Builder()
            number = builder.input(known, host)
            graph = builder.build([number])
            stage = MemberStage(self.backend, Segment("", (), graph, (number,), (number,)))
            self._copying[known, host] = stage
        return stage.run([source], [target])[0]

    def _reserve(self) -> None:
        """Check the members' memory limits before the first write.

        Raises
        ------
        OutOfMemoryError
            If a member's limit is too low for this graph.
        """
        for place in self.backend.places:
            figures = place.memory
            needed = self.required_bytes * self.backend.members.count(place) // self.backend.world
            if figures.limit is not None and figures.in_use + needed > figures.limit:
                raise OutOfMemoryError(
                    f"{place.name}, a member of {self.backend.name}, needs up to "
                    f"{bytes_text(needed)}; {bytes_text(figures.in_use)} of its limit of "
                    f"{bytes_text(figures.limit)} are in use. Free tensors, or raise the "
                    f"limit with calor.set_memory_limit"
                )

    def _last_stages(self) -> list[tuple[int, ...]]:
        """Return for each stage the values that no later stage reads."""
        keep = {*self.body.outputs, *self.body.inputs}
        ends: list[tuple[int, ...]] = []
        for stage in reversed(self.stages):
            segment = stage.segment
            last = [v for v in (*segment.inputs, *segment.outputs) if v not in keep]
            keep.update(last)
            ends.append(tuple(last))
        return ends[::-1]

    def _bound(self) -> int:
        """Return an upper bound of the bytes a call allocates, summed over the members."""
        copied = sum(s.nbytes for s in self.body.output_specs) * self.backend.world
        return copied + sum(stage.required_bytes for stage in self.stages)


def _without_ranks(backend: Group, graph: Graph) -> tuple[Graph, list[GroupBuffer]]:
    """Return the graph with ranks as inputs instead of nodes, and the buffers of the ranks."""
    ranks = [n.op is rank_row and not alone(n) for n in graph.nodes]
    if not any(ranks):
        return graph, []
    made = [n.outputs[0] for n, is_rank in zip(graph.nodes, ranks, strict=True) if is_rank]
    nodes = [n for n, is_rank in zip(graph.nodes, ranks, strict=True) if not is_rank]
    body = part(graph, [*graph.inputs, *made], nodes, graph.outputs)
    parts = [
        m.backend.upload(m.index, np.array(number, np.int32))
        for number, m in enumerate(backend.members)
    ]
    return body, [GroupBuffer(parts)] * len(made)


class MemberStage:
    """A graph that each member runs with its own arrays."""

    def __init__(self, backend: Group, segment: Segment) -> None:
        self.segment = segment
        graph = segment.graph
        made: dict[Device, Executable] = {
            place: plan_for(place, ("member", graph.key), lambda: graph, jit=True)
            for place in backend.places
        }
        self.members = backend.members
        self.executables = [made[member] for member in self.members]
        self.required_bytes = sum(e.required_bytes for e in self.executables)

    def run(self, inputs: Sequence[Any], into: Into = None) -> list[Any]:
        """Run the graph on every member; all members get the same host numbers."""
        shared = [None if isinstance(b, GroupBuffer) else b for b in inputs]
        results: list[list[Any]] = []
        for member, executable in enumerate(self.executables):
            given = [
                b.parts[member] if isinstance(b, GroupBuffer) else n
                for b, n in zip(inputs, shared, strict=True)
            ]
            targets: Any = None
            if into is not None:
                targets = [t if t is None else t.parts[member] for t in into]  # type: ignore[attr-defined]
            made = executable(given, targets)
            if targets is not None and any(t is not None for t in targets):
                # No member behind a failed one changes its state.
                place = self.members[member]
                place.backend.verify(place.index, made)
            results.append(made)
        whole = [GroupBuffer(parts) for parts in zip(*results, strict=True)]
        if into is None:
            return whole
        return [m if t is None else t for m, t in zip(whole, into, strict=True)]


class ExchangeStage:
    """Collectives in the order of their token; independent neighbours form a batch."""

    def __init__(self, backend: Group, segment: Segment) -> None:
        self.segment = segment
        self.batches = _batches(segment.graph)
        # Prepared at the first run: a communicator may need a library that is not installed.
        self._steps: list[tuple[list[Node], Exchange]] | None = None
        self._prepare = backend.prepare
        specs = segment.graph.specs
        # Bound for collectives by copies: each device may hold the arrays of all members.
        moved = sum(specs[n.outputs[0]].nbytes for n in segment.graph.nodes)
        brought = sum(specs[n.inputs[0]].nbytes for n in segment.graph.nodes)
        world = backend.world
        self.required_bytes = world * (3 * moved + (world + 2) * brought)

    def steps(self) -> list[tuple[list[Node], Exchange]]:
        """Return the batches of collectives, each with the function that runs it."""
        if self._steps is None:
            self._steps = [(nodes, self._prepare(calls)) for nodes, calls in self.batches]
        return self._steps

    def run(self, inputs: Sequence[Any], into: Into = None) -> list[Any]:
        """Run the collectives; tokens are passed on unchanged."""
        graph = self.segment.graph
        held: dict[int, Any] = dict(zip(graph.inputs, inputs, strict=True))
        for nodes, exchange in self.steps():
            made = exchange([held[n.inputs[0]].parts for n in nodes])
            for node, parts in zip(nodes, made, strict=True):
                result, token = node.outputs
                held[result] = GroupBuffer(parts)
                held[token] = GroupBuffer(held[node.inputs[1]].parts)
        return [held[v] for v in graph.outputs]

    def short(self, body: Graph) -> Short | None:
        """Return a fast path for a graph that consists of this stage, else None.

        It needs a graph whose inputs go to collectives and whose outputs are their results, each
        once.
        """
        graph = self.segment.graph
        if len(self.batches) != 1 or len(body.nodes) != len(graph.nodes):
            return None
        place = {v: i for i, v in enumerate(body.inputs)}
        results = {n.outputs[0]: i for i, n in enumerate(body.nodes)}
        tokens = {n.outputs[1] for n in body.nodes}
        outputs = body.outputs
        if len(set(outputs)) < len(outputs) or not set(outputs) <= results.keys() | tokens:
            return None
        reads = [place[n.inputs[0]] for n in body.nodes]
        first = place[body.nodes[0].inputs[1]]
        sources = [results.get(v, -1) for v in outputs]
        told = [i for i, source in enumerate(sources) if source >= 0]

        def run(inputs: Sequence[Any], into: Into) -> list[Any] | None:
            if into is not None and any(into[i] is not None for i in told):
                return None
            ((_, exchange),) = self._steps or self.steps()
            made = exchange([inputs[i].parts for i in reads])
            found: list[Any] = []
            for number, source in enumerate(sources):
                if source >= 0:
                    found.append(GroupBuffer(made[source]))
                elif into is not None and into[number] is not None:
                    found.append(into[number])
                else:
                    found.append(GroupBuffer(inputs[first].parts))
            return found

        return run


def _batches(graph: Graph) -> list[tuple[list[Node], list[Collective]]]:
    """Return the nodes in batches of neighbours that do not depend on each other."""
    batches: list[tuple[list[Node], list[Collective]]] = []
    made: set[int] = set()
    for node in graph.nodes:
        if not batches or node.inputs[0] in made:
            batches.append(([], []))
            made = set()
        nodes, calls = batches[-1]
        nodes.append(node)
        known = graph.specs[node.inputs[0]], graph.specs[node.outputs[0]]
        kind, root = node.attributes.get("kind", ""), node.attributes.get("root", -1)
        calls.append(Collective(node.op.name, *known, kind, root))
        made.add(node.outputs[0])
    return batches
