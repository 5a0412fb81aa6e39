"""Collectives by copies between members, for devices without a communicator of their own.

Requirements: the result is the same on every device, bit for bit. Arrays are combined in the order
of the members; sums and products of half types are computed in float32 and rounded once. Copies are
counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from calor.backends.communication import Collective, Communicator, Exchange
from calor.compiling.partitioned import move
from calor.compiling.plans import plan_for
from calor.dtypes import bfloat16, float16, float32
from calor.graph.graph import Builder, Graph
from calor.ops import elementwise as e
from calor.ops.movement import concat, slice_
from calor.specs import Spec, spec

if TYPE_CHECKING:
    from calor.backends.device import Device
    from calor.backends.protocol import Buffer

_JOINS: Final = {"sum": e.add, "prod": e.mul, "max": e.maximum, "min": e.minimum}


class Copies(Communicator):
    """Collectives by copies between the members, and graphs that run on them.

    Parameters
    ----------
    members : sequence of Device
        The members in their order.
    note : callable
        Called with the number of bytes of each copy between two devices.
    """

    def __init__(self, members: Sequence[Device], note: Callable[[int], None]) -> None:
        self.members = tuple(members)
        self.note = note

    def takes(self, call: Collective) -> bool:
        """Return True: copies and ops can do every collective."""
        return True

    def prepare(self, calls: Sequence[Collective]) -> Exchange:
        """Return a function that runs the collectives one after another."""
        steps = [getattr(self, f"_{call.op}") for call in calls]

        def run(inputs: Sequence[Sequence[Any]]) -> list[list[Buffer]]:
            every = zip(steps, calls, inputs, strict=True)
            return [step(call, given) for step, call, given in every]

        return run

    def _all_reduce(self, call: Collective, given: Sequence[Any]) -> list[Buffer]:
        (made,) = self._at_first(_reduction(call.given, call.kind, len(given), 1), call, given)
        return [made, *(self._copied(made, 0, r, call.made) for r in range(1, len(given)))]

    def _reduce_scatter(self, call: Collective, given: Sequence[Any]) -> list[Buffer]:
        world = len(given)
        made = self._at_first(_reduction(call.given, call.kind, world, world), call, given)
        return [self._brought(part, 0, r, call.made) for r, part in enumerate(made)]

    def _all_gather(self, call: Collective, given: Sequence[Any]) -> list[Buffer]:
        graph = _joined(call.given, len(given))
        return [self._on(member, graph, call, given)[0] for member in range(len(given))]

    def _broadcast(self, call: Collective, given: Sequence[Any]) -> list[Buffer]:
        source = given[call.root]
        return [self._copied(source, call.root, r, call.made) for r in range(len(given))]

    def _at_first(self, graph: Graph, call: Collective, given: Sequence[Any]) -> list[Any]:
        return self._on(0, graph, call, given)

    def _on(self, member: int, graph: Graph, call: Collective, given: Sequence[Any]) -> list[Any]:
        """Run a graph with the arrays of all members as inputs on one member."""
        here = [self._brought(b, source, member, call.given) for source, b in enumerate(given)]
        device = self.members[member]
        return plan_for(device, ("collective", graph.key), lambda: graph, jit=True)(here)

    def _brought(self, buffer: Any, source: int, target: int, known: Spec) -> Any:
        """Return a buffer on a member's device, without a copy if it is there."""
        if self.members[source] is self.members[target]:
            return buffer
        return self._copied(buffer, source, target, known)

    def _copied(self, buffer: Any, source: int, target: int, known: Spec) -> Any:
        """Return a copy of a buffer on a member's device."""
        start, end = self.members[source], self.members[target]
        if start is not end:
            self.note(known.nbytes)
        return move(buffer, start, end, known)


@lru_cache(256)
def _reduction(given: Spec, kind: str, world: int, parts: int) -> Graph:
    """Return the graph that reduces arrays in the order of the members and splits the result."""
    builder = Builder()
    inputs = [builder.input(given) for _ in range(world)]
    wide = float32 if given.dtype in (float16, bfloat16) and kind in ("sum", "prod") else None
    if wide is not None:
        inputs = [builder.add(e.cast, [i], {"dtype": wide})[0] for i in inputs]
    total = inputs[0]
    for other in inputs[1:]:
        (total,) = builder.add(_JOINS[kind], [total, other])
    if wide is not None:
        (total,) = builder.add(e.cast, [total], {"dtype": given.dtype})
    if parts == 1:
        return builder.build([total])
    count = given.shape[0] // parts
    made: list[int] = []
    for part in range(parts):
        bounds = {
            "starts": (part * count, *(0 for _ in given.shape[1:])),
            "stops": ((part + 1) * count, *given.shape[1:]),
            "steps": (1,) * given.ndim,
        }
        made += builder.add(slice_, [total], bounds)
    return builder.build(made)


@lru_cache(256)
def _joined(given: Spec, world: int) -> Graph:
    builder = Builder()
    inputs = [builder.input(spec(given.shape, given.dtype)) for _ in range(world)]
    return builder.build(builder.add(concat, inputs, {"axis": 0}))
