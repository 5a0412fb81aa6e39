"""From a graph to a program: a command for each node, and a place in the arena for each value.

A value that nothing reads any more gives its place to later ones (first fit), so the arena is known
before anything runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calor.errors import CompileError
from calor.graph.graph import Graph, Node
from calor.specs import Spec

from .description import CLAIMED
from .program import Place, Program, Step

# Places begin where a unit can load them.
ALIGNMENT: Final = 16


class Arena:
    """The scratch memory of a program, given out by first fit."""

    def __init__(self) -> None:
        self.size = 0
        self._taken: list[tuple[int, int]] = []

    def take(self, nbytes: int) -> int:
        """Return the offset of a free range."""
        wanted = max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)
        start = 0
        for begin, end in self._taken:
            if begin - start >= wanted:
                break
            start = end
        self._taken = sorted([*self._taken, (start, start + wanted)])
        self.size = max(self.size, start + wanted)
        return start

    def free(self, start: int) -> None:
        """Give a range back."""
        self._taken = [t for t in self._taken if t[0] != start]


def compile_program(graph: Graph) -> Program:
    """Return the program of a graph; CompileError names an op that the box has no command for."""
    arena = Arena()
    places = {v: _place(-1 - n, graph.specs[v]) for n, v in enumerate(graph.inputs)}
    steps = []
    for node, ends in zip(graph.nodes, graph.last_uses(), strict=True):
        if node.op.name not in CLAIMED:
            raise CompileError("the box has no command for it", op=node.op.name)
        (made,) = node.outputs
        known = graph.specs[made]
        places[made] = _place(arena.take(known.nbytes), known)
        operands = tuple(places[v] for v in node.inputs)
        steps.append(Step(node.op.name, operands, places[made], _settings(node)))
        for v in ends:
            arena.free(places[v].start)
    results = tuple(places[v] for v in graph.outputs)
    return Program(
        tuple(steps), results, arena.size, sum(known.nbytes for known in graph.output_specs)
    )


def _place(start: int, known: Spec) -> Place:
    return Place(start, known.shape, known.dtype.name)


def _settings(node: Node) -> dict[str, Any]:
    """Return a node's attributes as plain data."""
    given: Mapping[str, Any] = node.attributes
    if node.op.name == "full":
        return {"bits": given["value"].bits.hex()}
    # Shapes and dtypes are those of the result's place.
    return {name: given[name] for name in given if name not in ("shape", "dtype")}
