"""What moves when a member is smaller than the work: values come ahead of their use, and leave.

Requirements: the bytes in use on a member stay within its limit at every step, which is planned
and not tried; while a part runs, what the next one reads is on its way, as far as both fit. What
makes room is what is read last again, since every other choice moves more (Belady, "A study of
replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from calor.graph.graph import Graph
from calor_router.buffer import HOST
from calor_router.steps import Fetch, Forget, Leave, Stage, Step, ended


@dataclass(slots=True)
class Streaming:
    """The steps of a program whose values come to members and leave them.

    Parameters
    ----------
    steps : list of Step
        The steps.
    moved : list of tuple of int
        What a call moves: the value, from where, and to where; `HOST` is the host.
    peaks : dict of int to int
        The most bytes in use on each member with a limit.
    """

    steps: list[Step] = field(default_factory=list)
    moved: list[tuple[int, int, int]] = field(default_factory=list)
    peaks: dict[int, int] = field(default_factory=dict)


def streaming(
    stages: Sequence[Stage], graph: Graph, limits: Mapping[int, int], flow: int
) -> Streaming:
    """Return the steps of stages within the members' limits.

    Parameters
    ----------
    stages : sequence of Stage
        The stages, in an order to run them.
    graph : Graph
        Their graph. Its inputs are on the host, or on members without a limit that read them; its
        results are taken to the host from members with one.
    limits : mapping of int to int
        The most bytes in use on members that have a limit. Each stage fits its member alone, see
        `wanted`.
    flow : int
        What stands for the router among the members: its control flow finds values itself.

    Returns
    -------
    Streaming
        The steps, and what they move.
    """
    return _Planner(stages, graph, limits, flow).planned()


def wanted(stage: Stage, graph: Graph) -> int:
    """Return the bytes that a stage needs on its member with nothing else there.

    Parameters
    ----------
    stage : Stage
        The stage.
    graph : Graph
        The graph of the program.

    Returns
    -------
    int
        The bytes of what it reads, and of what its call allocates.
    """
    read = (graph.specs[v].nbytes for v in stage.segment.inputs if v not in graph.host)
    return sum(read) + stage.executable.required_bytes


class _Planner:
    """Follows the stages, with the places of all values at each step."""

    def __init__(
        self, stages: Sequence[Stage], graph: Graph, limits: Mapping[int, int], flow: int
    ) -> None:
        self.stages, self.graph, self.limits, self.flow = stages, graph, limits, flow
        self.found = Streaming(peaks=dict.fromkeys(limits, 0))
        self.there: dict[int, set[int]] = {m: set() for m in limits}
        free = {v: {HOST} for v in graph.inputs if v not in graph.host}
        for stage in stages:
            for v in stage.segment.inputs:
                # An input is moved once to a member without a limit, and stays.
                if v in free and stage.member not in limits and stage.member != flow:
                    free[v].add(stage.member)
        self.places: dict[int, set[int]] = free
        self.reads: dict[int, list[int]] = {}
        for number, stage in enumerate(stages):
            for v in stage.segment.inputs:
                self.reads.setdefault(v, []).append(number)

    def planned(self) -> Streaming:
        """Return the steps of all stages, with the results on the host at the end."""
        last = ended(self.stages, self.graph)
        for number, stage in enumerate(self.stages):
            self._bring(number)
            # Begun before the stage, a copy needs nothing that the stage frees, and runs beside it.
            self._ahead(number, stage.executable.required_bytes)
            self.found.steps.append(stage)
            for v in stage.segment.outputs:
                self.places[v] = {HOST if stage.member == self.flow else stage.member}
                if stage.member in self.limits:
                    self.there[stage.member].add(v)
            self._ahead(number)
            self._forget(last[number])
        for member in self.limits:
            for v in sorted(self.there[member]):
                self._leave(v, member)
        return self.found

    def _size(self, value: int) -> int:
        return self.graph.specs[value].nbytes

    def _held(self, member: int) -> int:
        return sum(map(self._size, self.there[member]))

    def _bring(self, number: int) -> None:
        """Bring what a stage reads, after room was made for it and for what the stage makes."""
        stage = self.stages[number]
        member = stage.member
        if member == self.flow:
            # It may use any member, so nothing stays in its way.
            for place in self.limits:
                for v in sorted(self.there[place]):
                    self._leave(v, place)
            return
        read = [v for v in stage.segment.inputs if v not in self.graph.host]
        missing = [v for v in read if member not in self.places[v]]
        if member in self.limits:
            needed = sum(map(self._size, missing)) + stage.executable.required_bytes
            limit, held = self.limits[member], self._held(member)
            others = [v for v in self.there[member] if v not in read]
            # What is read last again goes first; of equals what costs no transfer.
            others.sort(key=lambda v: (self._next(v, number), len(self.places[v])), reverse=True)
            for v in others:
                if held + needed <= limit:
                    break
                held -= self._size(v)
                self._leave(v, member)
            assert held + needed <= limit, "a stage fits its member alone"
            self.found.peaks[member] = max(self.found.peaks[member], held + needed)
        for v in missing:
            self._fetch(v, member)

    def _ahead(self, number: int, needed: int = 0) -> None:
        """Bring what the next stage of the same member reads, beside bytes that this one needs."""
        member = self.stages[number].member
        if member not in self.limits:
            return
        later = range(number + 1, len(self.stages))
        # Control flow of the router clears the member first.
        meet = (member, self.flow)
        following = next((n for n in later if self.stages[n].member in meet), None)
        if following is None or self.stages[following].member == self.flow:
            return
        held, limit = self._held(member) + needed, self.limits[member]
        for v in self.stages[following].segment.inputs:
            if v in self.graph.host or v not in self.places or member in self.places[v]:
                continue
            if held + self._size(v) > limit:
                break
            held += self._size(v)
            self._fetch(v, member)
        self.found.peaks[member] = max(self.found.peaks[member], held)

    def _next(self, value: int, number: int) -> float:
        return next((n for n in self.reads.get(value, ()) if n > number), inf)

    def _fetch(self, value: int, member: int) -> None:
        places = self.places[value]
        source = HOST if HOST in places else min(places)
        self.found.moved.append((value, source, member))
        self.found.steps.append(Fetch(value, member))
        places.add(member)
        if member in self.limits:
            self.there[member].add(value)

    def _leave(self, value: int, member: int) -> None:
        places = self.places[value]
        if places == {member}:
            self.found.moved.append((value, member, HOST))
            places.add(HOST)
        places.discard(member)
        self.there[member].discard(value)
        self.found.steps.append(Leave(value, member))

    def _forget(self, values: Sequence[int]) -> None:
        """Drop values that nothing reads again; inputs only leave members with a limit."""
        made = []
        for v in values:
            if v in self.graph.host:
                continue
            for member in sorted(self.places[v] & self.limits.keys()):
                self.there[member].discard(v)
                if v < len(self.graph.inputs):
                    self.found.steps.append(Leave(v, member))
                    self.places[v].discard(member)
            if v >= len(self.graph.inputs):
                made.append(v)
        if made:
            self.found.steps.append(Forget(tuple(made)))
