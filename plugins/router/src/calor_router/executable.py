"""The executable of a router: a program in parts, each on its member.

Requirements: a graph that one member runs whole costs a call of that member and little more. State
that is written in place takes the memory of the result where that lies on another member. Nothing
is written before all parts have succeeded, so a call that runs out of memory runs again, cut anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from calor.backends.calls import BoundCall
from calor.errors import MemoryLimitError
from calor.graph.graph import Graph
from calor_router.buffer import RoutedBuffer
from calor_router.cutting import Cut, Cutter
from calor_router.running import OutOfRoom, Router, Run
from calor_router.steps import Into
from calor_router.strictness import refuse_elsewhere
from calor_router.told import Placement
from calor_router.whole import whole_call, whole_way


class _Described:
    """What a program does, and ``run``, which calls it."""

    __slots__ = ("__dict__", "__weakref__", "run")

    run: Callable[..., list[Any]]

    def __init__(
        self, backend: Router, graph: Graph, chosen: Sequence[int], reasons: Mapping[int, str]
    ) -> None:
        self.backend = backend
        self.cutter = Cutter(backend.device)
        self._take(self.cutter.cut(graph, chosen, reasons))

    def _take(self, cut: Cut) -> None:
        """Run a cut from now on."""
        backend, graph = self.backend, cut.graph
        self.cut, self.graph = cut, graph
        self.chosen, self.reasons = cut.chosen, dict(cut.reasons)
        elsewhere = [i for i, member in enumerate(cut.chosen) if member]
        self.fallbacks = len(elsewhere)
        # What an error lists where nothing may run elsewhere.
        told = Counter(f"{graph.nodes[i].op.name}: {cut.reasons[i]}" for i in elsewhere)
        self.elsewhere = tuple(told.items())
        self._run = Run(backend, cut)
        self.run = self.generally
        outputs = graph.outputs
        plain = len(set(outputs)) == len(outputs) and not set(outputs) & set(graph.inputs)
        # Where one member runs everything: the inputs that it reads, and whether each is a host's.
        self._places: tuple[tuple[int, bool], ...] | None = None
        if len(cut.stages) == 1 and plain and self._free(cut.stages[0].member):
            (stage,) = cut.stages
            segment = stage.segment
            self._places = tuple((v, v in graph.host) for v in segment.inputs)
            order = tuple(segment.outputs.index(v) for v in outputs)
            self.run = whole_way(
                backend.device,
                stage.member,
                stage.executable,
                self._places,
                order,
                segment.inputs == tuple(graph.inputs),
                self.fallbacks,
                self.generally,
            )

    def _free(self, member: int) -> bool:
        """Tell whether a place is a member without a limit."""
        return member < len(self.backend.members) and self.backend.rooms.limits[member] is None

    @property
    def required_bytes(self) -> int:
        """What a call allocates at most."""
        return self._run.required_bytes

    def bound(self, call: BoundCall) -> Callable[..., Any] | None:
        """Return the compiled function of a bound call; None if a call takes several parts."""
        if self._places is None:
            return None
        (stage,) = self.cut.stages
        return whole_call(
            self.backend.device, stage.member, stage.executable, self._places, self.fallbacks, call
        )

    def placement(self) -> Placement:
        """Return which member runs what, and why."""
        cut, streamed = self.cut, self.cut.streamed
        return Placement(
            (*(m.name for m in self.backend.members), self.backend.name),
            self.graph,
            self.chosen,
            self.reasons,
            tuple((stage.member, stage.segment.nodes) for stage in cut.stages),
            None if streamed is None else tuple(streamed.moved),
            {} if streamed is None else dict(streamed.peaks),
        )

    def generally(self, inputs: Sequence[Any], into: Into = None) -> list[Any]:
        """Run the parts in order; state is written when all have succeeded."""
        if self.fallbacks:
            refuse_elsewhere(self.backend.name, self.elsewhere)
        rooms = self.backend.rooms
        turn: AbstractContextManager[Any] = rooms.lock if rooms.limited else nullcontext()
        with turn:
            made, short = self._tried(inputs, into)
            if short is not None and self.backend.drop_copies():
                # Copies of values that lie elsewhere are not needed.
                made, short = self._tried(inputs, into)
            return self._with_less(inputs, into, short) if made is None else made

    def _tried(self, inputs: Sequence[Any], into: Into) -> tuple[list[Any] | None, Any]:
        """Return the results, or what was short of memory, when nothing of the run is left."""
        try:
            return self._run(inputs, into), None
        except OutOfRoom as error:
            # Its frames hold what the run had made.
            return None, error.with_traceback(None)

    def _with_less(self, inputs: Sequence[Any], into: Into, short: OutOfRoom) -> list[Any]:
        """Cut anew, with less on a member that ran out of memory, until a cut runs."""
        first, member = self.cut, short.member
        cuts = self.cutter.again(first, member, self._left(member, inputs))
        while True:
            try:
                cut = next(cuts)
            except MemoryLimitError as refused:
                # What is free may be more at the next call.
                self._take(first)
                raise refused from short.error
            self._take(cut)
            made, _ = self._tried(inputs, into)
            if made is not None:
                return made

    def _left(self, member: int, inputs: Sequence[Any]) -> int:
        """Return the bytes that a call may have on a member where it ran out of memory."""
        figures = self.backend.members[member].memory
        given = {id(b): b for b in inputs if isinstance(b, RoutedBuffer)}
        own = sum(b.nbytes for b in given.values() if b.on(member) is not None)
        limits = [n for n in (figures.limit, self.backend.rooms.limits[member]) if n is not None]
        if limits:
            return max(min(limits) - figures.in_use + own, 0)
        # The device does not tell how much it has: less than what did not fit.
        return self.cut.wanted(member) * 3 // 4


class RoutedExecutable(_Described):
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

    __slots__ = ()

    # A call looks at the class for ``__call__`` and finds the slot: no Python runs in between.
    __call__: Any = vars(_Described)["run"]
