"""Host numbers of a dtype that a device lacks, converted before its graph runs.

A Python number reaches a jitted graph as a host input of dtype float64 or int64, which hold it
exactly, and is cast to the dtype of the operand that it meets. Many devices have neither. A
function of host numbers only is a host number too: if the device lacks the dtype of such a node,
the node moves in front of the graph. Only numbers and small arrays move; tensors never leave their
device.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from calor.backends.protocol import Buffer, Executable, Info
from calor.graph.graph import Graph, part
from calor.graph.interpreter import interpret

# The most bytes of a result that still counts as a number.
SMALL: Final = 1024


@dataclass(frozen=True, slots=True)
class Split:
    """A graph in two: ``before`` runs on the host, ``rest`` on the device.

    ``hosts`` are the inputs of the whole graph that ``before`` takes. ``sources`` says where each
    input of ``rest`` comes from: an input of the whole graph, or (as −1 − i) result i of
    ``before``.
    """

    before: Graph
    rest: Graph
    hosts: tuple[int, ...]
    sources: tuple[int, ...]

    def moved(self, in_place: Mapping[int, int]) -> dict[int, int]:
        """Return the inputs of ``rest`` in whose memory outputs are written, by number."""
        number = {v: n for n, v in enumerate(self.sources)}
        return {output: number[given] for output, given in in_place.items()}


def split(graph: Graph, refused: Collection[int], info: Info) -> Split | None:
    """Return the graph in two, refused nodes on host numbers first; None if there are none."""
    moved = _movable(graph, [i for i in refused if _lacks(info, graph, i)])
    if not moved:
        return None
    made = {o for i in moved for o in graph.nodes[i].outputs}
    kept = [i for i in range(len(graph.nodes)) if i not in moved]
    read = {v for i in kept for v in graph.nodes[i].inputs} | set(graph.outputs)
    results = sorted(made & read)
    taken = {v for i in moved for v in graph.nodes[i].inputs}
    hosts = tuple(v for v in graph.inputs if v in taken)
    before = part(graph, hosts, [graph.nodes[i] for i in sorted(moved)], results)
    given = [v for v in graph.inputs if v in read or v not in graph.host]
    nodes = [graph.nodes[i] for i in kept]
    rest = part(graph, [*given, *results], nodes, graph.outputs, made)
    sources = (*given, *(-1 - i for i in range(len(results))))
    return Split(before, rest, hosts, sources)


def _lacks(info: Info, graph: Graph, number: int) -> bool:
    node = graph.nodes[number]
    return not all(info.dtypes.get(graph.specs[v].dtype) for v in (*node.inputs, *node.outputs))


def _movable(graph: Graph, refused: Collection[int]) -> set[int]:
    """Return the refused nodes on host numbers and constants only, with their ancestors."""
    maker: dict[int, int] = {}
    numbers = set(graph.host)
    for i, node in enumerate(graph.nodes):
        small = all(graph.specs[o].nbytes <= SMALL for o in node.outputs)
        if small and numbers.issuperset(node.inputs):
            numbers.update(node.outputs)
            maker.update(dict.fromkeys(node.outputs, i))
    moved: set[int] = set()
    # Constants move with what is computed from them, and not by themselves.
    movable = {i for i in maker.values() if graph.nodes[i].inputs}
    waiting = [i for i in refused if i in movable]
    while waiting:
        i = waiting.pop()
        if i not in moved:
            moved.add(i)
            waiting += [maker[v] for v in graph.nodes[i].inputs if v in maker]
    return moved


class WithHostNumbers:
    """The executable of the rest, called with the numbers that the host computes first."""

    def __init__(self, parts: Split, executable: Executable) -> None:
        self.parts = parts
        self.executable = executable
        self.required_bytes = executable.required_bytes

    def __call__(
        self, inputs: Sequence[Any], into: Sequence[Buffer | None] | None = None
    ) -> list[Any]:
        """Compute the numbers, then run the rest."""
        parts = self.parts
        with np.errstate(all="ignore"):
            made = interpret(parts.before, [inputs[v] for v in parts.hosts])
        given = [inputs[v] if v >= 0 else made[-1 - v] for v in parts.sources]
        return self.executable(given, into)
