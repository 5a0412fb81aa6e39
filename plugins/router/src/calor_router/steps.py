"""What a routed call does, step by step: parts run, values come to members and leave them.

Requirements: the steps of a program are known before it runs, so that what they move can be told;
a part that runs on a member which returns at once is begun before the host waits for anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any, Protocol

from calor.backends.device import Device
from calor.backends.protocol import Buffer
from calor.compiling.plans import plan_for
from calor.graph.graph import Graph
from calor.graph.segments import Segment
from calor_router.flows import Flow

Into = Sequence[Buffer | None] | None


class Runs(Protocol):
    """What a stage runs: an executable of its member, or control flow of the router."""

    @property
    def required_bytes(self) -> int:
        """What a call allocates at most."""
        ...

    def __call__(self, inputs: Sequence[Any], into: Into = None) -> list[Any]:
        """Return the results."""
        ...


class Flows:
    """Nodes of control flow, which the router steps through one after another."""

    def __init__(self, device: Device, segment: Segment) -> None:
        self._graph = segment.graph
        self._flows = [Flow(device, segment.graph, node) for node in segment.graph.nodes]
        self.required_bytes = sum(flow.required_bytes for flow in self._flows)

    def __call__(self, inputs: Sequence[Any], into: Into = None) -> list[Any]:
        """Return the results; ``into`` is for members only."""
        held: dict[int, Any] = dict(enumerate(inputs))
        for flow in self._flows:
            made = flow.run([held[v] for v in flow.node.inputs])
            held.update(zip(flow.node.outputs, made, strict=True))
        return [held[v] for v in self._graph.outputs]


@dataclass(slots=True, weakref_slot=True, eq=False)
class Stage:
    """A part that runs: a segment, the member that runs it, and its executable there.

    The member is one past the last for control flow that the router steps through.
    """

    member: int
    executable: Runs
    segment: Segment

    @property
    def sites(self) -> Sequence[Any]:
        """Where ops that may fail were recorded: not known here."""
        return ()


@dataclass(frozen=True, slots=True)
class Fetch:
    """A value is brought to a member that will read it."""

    value: int
    member: int


@dataclass(frozen=True, slots=True)
class Leave:
    """A value leaves a member; it goes to the host if it is nowhere else."""

    value: int
    member: int


@dataclass(frozen=True, slots=True)
class Forget:
    """Values that nothing reads any more are dropped; inputs belong to the caller."""

    values: tuple[int, ...]


Step = Stage | Fetch | Leave | Forget


def compiled(device: Device, members: Sequence[Device], segment: Segment) -> Stage:
    """Return the stage of a segment, whose colour is the member.

    Parameters
    ----------
    device : Device
        The router.
    members : sequence of Device
        Its members.
    segment : Segment
        The part.

    Returns
    -------
    Stage
        The part, compiled.
    """
    member: int = segment.colour  # type: ignore[assignment]
    if member == len(members):
        return Stage(member, Flows(device, segment), segment)
    place, graph = members[member], segment.graph
    return Stage(member, plan_for(place, ("routed", graph.key), lambda: graph, jit=True), segment)


def ended(stages: Sequence[Stage], graph: Graph) -> list[tuple[int, ...]]:
    """Return for each stage the values that nothing reads after it; outputs are kept."""
    keep = set(graph.outputs)
    found = []
    for stage in reversed(stages):
        segment = stage.segment
        last = tuple(v for v in (*segment.inputs, *segment.outputs) if v not in keep)
        keep.update(last)
        found.append(last)
    return found[::-1]


def forgetting(steps: Sequence[Step], graph: Graph) -> list[Step]:
    """Return steps with those between them that drop what nothing reads again."""
    last = iter(ended([step for step in steps if isinstance(step, Stage)], graph))
    found: list[Step] = []
    for step in steps:
        found.append(step)
        if isinstance(step, Stage):
            made = tuple(v for v in next(last) if v >= len(graph.inputs))
            found += [Forget(made)] if made else []
    return found


def ordered(
    stages: Sequence[Stage], flow: int, returns_at_once: Callable[[int], bool]
) -> list[Step]:
    """Return the steps of stages in an order in which members work side by side.

    A value that is there already is sent to who reads it before anything runs. Then what only has
    to be begun is begun, then the host's own work is done, and only then does the host wait for a
    value of a member that returns at once.

    Parameters
    ----------
    stages : sequence of Stage
        The stages, in an order to run them.
    flow : int
        What stands for the router among the members: its control flow finds values itself.
    returns_at_once : callable
        Tells whether calls of a member return before their work is done.

    Returns
    -------
    list of Step
        The steps.
    """
    maker = {v: n for n, stage in enumerate(stages) for v in stage.segment.outputs}
    # What follows each step, and how much each step still waits for. Stages are their numbers.
    follow: dict[int | Fetch, list[int | Fetch]] = {n: [] for n in range(len(stages))}
    waits: dict[int | Fetch, int] = dict.fromkeys(follow, 0)
    rank: dict[int | Fetch, tuple[int, int]] = {
        n: (1 if returns_at_once(s.member) else 2, n) for n, s in enumerate(stages)
    }

    def after(before: int | Fetch, step: int | Fetch) -> None:
        follow[before].append(step)
        waits[step] += 1

    fetched: dict[int | Fetch, tuple[int, int]] = {}
    for n, stage in enumerate(stages):
        for v in stage.segment.inputs:
            source = maker.get(v)
            if source is None:
                continue
            ends = {stages[source].member, stage.member}
            if len(ends) == 1 or flow in ends:
                after(source, n)
                continue
            fetch = Fetch(v, stage.member)
            if fetch not in fetched:
                late = returns_at_once(stages[source].member)
                fetched[fetch] = (3 if late else 0, len(fetched))
                follow[fetch], waits[fetch] = [], 0
                after(source, fetch)
            after(fetch, n)
    rank |= fetched
    ready = [(rank[step], step) for step, count in waits.items() if count == 0]
    heapify(ready)
    steps: list[Step] = []
    while ready:
        _, step = heappop(ready)
        steps.append(stages[step] if isinstance(step, int) else step)
        for other in follow[step]:
            waits[other] -= 1
            if waits[other] == 0:
                heappush(ready, (rank[other], other))
    return steps
