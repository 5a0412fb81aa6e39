"""The operations that an interrupted flush leaves behind, for example after Ctrl-C.

Requirements: nothing is lost, and a read after the interruption computes only what it needs:
whoever stopped a long computation wants to see a small number without waiting for all of it. So the
pending operations are moved out of the trace. Each value returns with its ancestors: to a trace of
its own when it is read, to the current trace when an op uses it.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from calor.graph.op import Signature
from calor.local import local
from calor.recording.codes import INPUT, walk
from calor.recording.nodes import Nodes
from calor.recording.poison import Poison, settle
from calor.tensor.values import Value

Entry = tuple[Signature, int, Sequence[int]]


class Aside:
    """The nodes of an interrupted flush, and the values among them that are still wanted.

    It takes the place of a pending value's trace. Positions are those of that trace.
    """

    __slots__ = (
        "__weakref__",
        "codes",
        "device",
        "inputs",
        "kind",
        "lines",
        "thread",
        "values",
    )

    jit = False
    aside = True

    def __init__(self, trace: Nodes, live: Sequence[Value]) -> None:
        self.kind = type(trace)
        self.device = trace.device
        self.thread = trace.thread
        self.codes = trace.codes
        self.inputs = trace.inputs
        self.lines = trace.lines
        # Weak, so that the last handle's death frees a value, and the last value all of this.
        self.values = {v.position: weakref.ref(v) for v in live}

    def waiting(self) -> list[Value]:
        """Return the values that are neither computed nor back in a trace."""
        found = [reference() for reference in self.values.values()]
        return [v for v in found if v is not None and v.trace is self]

    def compute(self, values: Sequence[Value]) -> None:
        """Compute some of the waiting values with their ancestors, and nothing else."""
        trace = self.kind(self.device)
        for value in values:
            # One may have come along with another.
            if value.trace is self:
                try:
                    self.move(value, trace)
                except Exception as error:
                    # It depends on one that has failed since.
                    settle(error)
                    value.trace = Poison(error)
        trace.flush()

    def move(self, value: Value, trace: Nodes) -> int:
        """Record a value and its ancestors in a trace; return its position there.

        Ancestors that wait too move with it.
        """
        places: dict[int, int] = {}
        wanted = value.position
        for sig, position, given in self._ancestors(wanted, trace, places):
            if sig.op is INPUT:
                places[position] = trace.input(given, sig.outputs[0], sig.attributes["host"])
                continue
            start = trace.count
            trace.codes += (sig, *[start - places[p] for p in given])
            trace.count = start + len(sig.outputs)
            trace.room -= 1
            for offset in range(len(sig.outputs)):
                places[position + offset] = start + offset
                self._give(position + offset, trace, start + offset)
            if position in self.lines:
                trace.lines[start] = self.lines[position]
        return places[wanted]

    def _ancestors(
        self, position: int, trace: Nodes, places: dict[int, int]
    ) -> list[tuple[Signature, int, Any]]:
        """Return the nodes to record, with what an input holds or the positions of operands.

        Where a value is computed or recorded again already, ``places`` gets its position.
        """
        needed = {position}
        kept: list[tuple[Signature, int, Any]] = []
        nodes = list(walk(self.codes))
        given = len(self.inputs)
        for sig, at, distances in reversed(nodes):
            given -= sig.op is INPUT
            for made in needed.intersection(range(at, at + len(sig.outputs))):
                known = self._known(made)
                if known is not None:
                    places[made] = trace.locate(known)
                    needed.remove(made)
            if needed.isdisjoint(range(at, at + len(sig.outputs))):
                continue
            operands = [at - d for d in distances]
            needed.update(operands)
            kept.append((sig, at, self.inputs[given] if sig.op is INPUT else operands))
        return kept[::-1]

    def _known(self, position: int) -> Value | None:
        """Return the value made at a position where it waits here no more."""
        reference = self.values.get(position)
        value = None if reference is None else reference()
        return value if value is not None and value.trace is not self else None

    def _give(self, position: int, trace: Nodes, place: int) -> None:
        """Move a waiting value to the trace. After another interruption it is in one of the two."""
        reference = self.values.get(position)
        value = None if reference is None else reference()
        if value is not None and value.trace is self:
            trace.values.append(value)
            # Another thread that reads a position checks that the trace was the same before it.
            value.trace = None
            value.position = place
            value.trace = trace


def set_aside(trace: Nodes) -> None:
    """Take the pending operations out of a trace whose flush was interrupted."""
    live = [v for v in trace.values if v.trace is trace]
    aside = Aside(trace, live)
    local.asides.add(aside)
    for value in live:
        value.trace = aside
    trace.reset()
