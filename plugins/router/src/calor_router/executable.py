"""The executable of a router: segments run one after another, each on its member.

Requirements: a graph that one member runs whole costs a call of that member and little more. State
that is written in place takes the memory of the result where that lies on another member. Nothing
is written before all segments have succeeded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from calor.backends.device import Device
from calor.backends.protocol import Buffer
from calor.compiling.plans import plan_for
from calor.errors import OutOfMemoryError
from calor.graph.graph import Graph
from calor.graph.segments import Segment, cut
from calor.specs import Spec
from calor_router.buffer import RoutedBuffer
from calor_router.flows import Flow
from calor_router.strictness import refuse_elsewhere
from calor_router.told import Placement

Into = Sequence[Buffer | None] | None


class Router(Protocol):
    """The backend of a router, as its executables see it."""

    name: str
    members: tuple[Device, ...]

    @property
    def device(self) -> Device:
        """The router as core sees it."""
        ...

    def on(self, buffer: RoutedBuffer, number: int, spec: Spec) -> Any:
        """Return the buffer of a value on a member."""
        ...

    def upload(self, index: int, array: Any) -> RoutedBuffer:
        """Copy a host array to a member."""
        ...

    def copy(self, index: int, buffer: Any, spec: Spec, target: int) -> RoutedBuffer:
        """Copy the value on the member that has it."""
        ...

    def drop_copies(self) -> bool:
        """Forget all copies, and tell whether there were any."""
        ...


class Runs(Protocol):
    """What a stage runs: an executable of its member, or control flow of the router."""

    @property
    def required_bytes(self) -> int:
        """What a call allocates at most."""
        ...

    def __call__(self, inputs: Sequence[Any], into: Into = None) -> Sequence[Any]:
        """Return the results."""
        ...


class Flows:
    """Nodes of control flow, which the router steps through one after another."""

    def __init__(self, device: Device, segment: Segment) -> None:
        self._graph = segment.graph
        self._flows = [Flow(device, segment.graph, node) for node in segment.graph.nodes]
        self.required_bytes = sum(flow.required_bytes for flow in self._flows)

    def __call__(self, inputs: Sequence[Any], into: Into = None) -> list[RoutedBuffer]:
        """Return the results; ``into`` is for members only."""
        held: dict[int, Any] = dict(enumerate(inputs))
        for flow in self._flows:
            made = flow.run([held[v] for v in flow.node.inputs])
            held.update(zip(flow.node.outputs, made, strict=True))
        return [held[v] for v in self._graph.outputs]


@dataclass(slots=True, weakref_slot=True, eq=False)
class Stage:
    """A segment, the member that runs it, and its executable there.

    ``ends`` are the values that nothing reads after it.
    """

    member: int
    executable: Runs
    segment: Segment
    ends: tuple[int, ...] = ()

    @property
    def sites(self) -> Sequence[Any]:
        """Where ops that may fail were recorded: not known here."""
        return ()


class RoutedExecutable:
    """A graph that the members of a router run together.

    Parameters
    ----------
    backend : Router
        The router.
    graph : Graph
        The graph.
    chosen : sequence of int
        The member of each node.
    reasons : mapping of int to str
        Why a node is not on the first member.
    """

    def __init__(
        self, backend: Router, graph: Graph, chosen: Sequence[int], reasons: Mapping[int, str]
    ) -> None:
        self.backend = backend
        self.graph = graph
        self.stages = [_stage(backend, segment) for segment in cut(graph, chosen)]
        _set_ends(self.stages, graph)
        outputs = graph.outputs
        self._passed = tuple(dict.fromkeys(v for v in outputs if v < len(graph.inputs)))
        self._plain = not self._passed and len(set(outputs)) == len(outputs)
        # Where one member runs everything: the inputs that it reads, and the place of each output.
        self._whole: tuple[Stage, tuple[int, ...], tuple[int, ...]] | None = None
        if len(self.stages) == 1 and self._plain and self.stages[0].member < len(backend.members):
            segment = self.stages[0].segment
            order = tuple(segment.outputs.index(v) for v in outputs)
            self._whole = self.stages[0], segment.inputs, order
        elsewhere = [i for i, member in enumerate(chosen) if member]
        self.fallbacks = len(elsewhere)
        # What an error lists where nothing may run elsewhere.
        told = Counter(f"{graph.nodes[i].op.name}: {reasons[i]}" for i in elsewhere)
        self.elsewhere = tuple(told.items())
        self.chosen = tuple(chosen)
        self.reasons = dict(reasons)
        moved = sum(graph.specs[v].nbytes for s in self.stages for v in s.segment.inputs)
        made = sum(graph.specs[v].nbytes for s in self.stages for v in s.segment.outputs)
        own = sum(known.nbytes for known in graph.output_specs)
        self.required_bytes = (
            moved + made + own + sum(stage.executable.required_bytes for stage in self.stages)
        )

    def __call__(self, inputs: Sequence[Any], into: Into = None) -> list[Any]:
        """Run the stages in order; state is written when all have succeeded."""
        if self.fallbacks:
            refuse_elsewhere(self.backend.name, self.elsewhere)
        try:
            if into is None and self._whole is not None:
                made = self._run_whole(*self._whole, inputs)
                if made is not None:
                    return made
            return self._run(inputs, into)
        except OutOfMemoryError:
            # Copies of values that lie elsewhere are not needed.
            if not self.backend.drop_copies():
                raise
            return self._run(inputs, into)

    def placement(self) -> Placement:
        """Return which member runs what, and why."""
        return Placement(
            (*(m.name for m in self.backend.members), self.backend.name),
            self.graph,
            self.chosen,
            self.reasons,
            tuple((stage.member, stage.segment.nodes) for stage in self.stages),
        )

    def _run_whole(
        self, stage: Stage, read: tuple[int, ...], order: tuple[int, ...], inputs: Sequence[Any]
    ) -> list[Any] | None:
        """Run the only stage, if all that it reads is on its member."""
        member = stage.member
        given = []
        for v in read:
            buffer = inputs[v]
            if type(buffer) is RoutedBuffer:
                buffer = buffer.places.get(member)
                if buffer is None:
                    return None
            given.append(buffer)
        made = stage.executable(given)
        if self.fallbacks:
            self.backend.device.fallbacks += self.fallbacks
        return [RoutedBuffer(member, made[place]) for place in order]

    def _run(self, inputs: Sequence[Any], into: Into) -> list[Any]:
        backend, specs = self.backend, self.graph.specs
        held: dict[int, Any] = dict(enumerate(inputs))
        # Copied first: the memory of an input may be written in place.
        passed = {v: self._own(v, held[v]) for v in self._passed}
        direct = self._direct(into)
        last = self.stages[-1] if self.stages else None
        for stage in self.stages:
            member, segment = stage.member, stage.segment
            if member == len(backend.members):
                made = stage.executable([held[v] for v in segment.inputs])
                held.update(zip(segment.outputs, made, strict=True))
                for v in stage.ends:
                    del held[v]
                continue
            given = [
                backend.on(held[v], member, specs[v])
                if isinstance(held[v], RoutedBuffer)
                else held[v]
                for v in segment.inputs
            ]
            if stage is last and direct:
                self._verify(held)
                targets = [direct.get(v) for v in segment.outputs]
                made = stage.executable(given, targets)
            else:
                made = stage.executable(given)
            for v, inner in zip(segment.outputs, made, strict=True):
                held[v] = RoutedBuffer(member, inner)
            for v in stage.ends:
                del held[v]
        held.update(passed)
        self.backend.device.fallbacks += self.fallbacks
        if self._plain and into is None:
            return [held[v] for v in self.graph.outputs]
        return self._results(held, into)

    def _direct(self, into: Into) -> dict[int, Any]:
        """Return the members' buffers that the last stage writes itself, by value."""
        if into is None or not self.stages:
            return {}
        last = self.stages[-1]
        member = last.member
        if member == len(self.backend.members):
            return {}
        place = self.backend.members[member]
        if not place.info.feature("in_place"):
            return {}
        made, outputs = set(last.segment.outputs), self.graph.outputs
        return {
            v: target.places[member]
            for v, target in zip(outputs, into, strict=True)
            if isinstance(target, RoutedBuffer)
            and v in made
            and target.home == member
            and outputs.count(v) == 1
        }

    def _verify(self, held: Mapping[int, Any]) -> None:
        """Raise the error of an earlier stage, before state is written."""
        if len(self.stages) < 2:
            return
        for number, member in enumerate(self.backend.members):
            inner = [
                b.places[number]
                for b in held.values()
                if isinstance(b, RoutedBuffer) and number in b.places
            ]
            if inner:
                member.backend.verify(member.index, inner)

    def _results(self, held: dict[int, Any], into: Into) -> list[Any]:
        """Return the results in memory of their own; a buffer given for one takes it over."""
        taken: set[int] = set()
        results: list[Any] = []
        for v in self.graph.outputs:
            made = held[v]
            if id(made) in taken:
                made = self._own(v, made)
            taken.add(id(made))
            results.append(made)
        if into is None:
            return results
        for place, target in enumerate(into):
            if isinstance(target, RoutedBuffer):
                # A value that changes place brings its memory along.
                target.places = results[place].places
                results[place] = target
        return results

    def _own(self, value: int, given: Any) -> RoutedBuffer:
        """Return a copy of a value, or a host number as one."""
        known = self.graph.specs[value]
        if isinstance(given, RoutedBuffer):
            return self.backend.copy(0, given, known, 0)
        return self.backend.upload(0, np.asarray(given, known.dtype.numpy))


def _stage(backend: Router, segment: Segment) -> Stage:
    member: int = segment.colour  # type: ignore[assignment]
    if member == len(backend.members):
        return Stage(member, Flows(backend.device, segment), segment)
    place, graph = backend.members[member], segment.graph
    return Stage(member, plan_for(place, ("routed", graph.key), lambda: graph, jit=True), segment)


def _set_ends(stages: Sequence[Stage], graph: Graph) -> None:
    """Tell each stage the values that nothing reads after it; inputs belong to the caller."""
    keep = set(graph.outputs)
    for stage in reversed(stages):
        segment = stage.segment
        stage.ends = tuple(v for v in (*segment.inputs, *segment.outputs) if v not in keep)
        keep.update(stage.ends)
