"""Casts where their results are read.

Requirements: a bias or a scale of another dtype is cast, spread over rows or channels, and read by
elementwise work. The cast of the vector would be a launch of its own; behind the movements that
spread it, it is one more step of the elementwise work, which a fuser joins. A half type that is
converted to float32 for several readers is converted by each of them, so that no copy of twice the
bytes is stored; so are rows that are gathered from it, which are half as long then. The bits are
the same.
"""

from __future__ import annotations

from typing import Final

from calor.graph.graph import Builder, Graph, Node, prune
from calor.ops.base import TABLE
from calor.specs import spec
from calor_kernel.library.elementwise.operations import ROWS

_SPREADING: Final = frozenset(("expand", "reshape", "permute"))
# What moves the elements of its first operand.
_MOVING: Final = _SPREADING | {"gather"}


def casts_behind(graph: Graph) -> Graph:
    """Return the graph with casts where their results are read, the graph itself if they are."""
    return _apart(_moved(graph))


def _apart(graph: Graph) -> Graph:
    """Return the graph in which each reader of a value that is converted converts it."""
    search = _Search(graph)
    shared = {n.outputs[0]: n for n in graph.nodes if search.is_shared(n)}
    if not shared:
        return graph
    builder, specs = Builder(), graph.specs
    numbers = {i: builder.input(specs[i], i in graph.host) for i in graph.inputs}
    for node in graph.nodes:
        if len(node.outputs) == 1 and node.outputs[0] in shared:
            continue
        for value in dict.fromkeys(node.inputs):
            if value in shared:
                builder.take(graph, [shared[value]], numbers)
        builder.take(graph, [node], numbers)
    return builder.build([numbers[o] for o in graph.outputs])


def _moved(graph: Graph) -> Graph:
    """Return the graph with casts behind the movements that spread their operands."""
    moved = _Search(graph).found()
    if not moved:
        return graph
    builder, specs = Builder(), graph.specs
    numbers = {i: builder.input(specs[i], i in graph.host) for i in graph.inputs}
    # What a value that is cast later is before its cast.
    before: dict[int, int] = {}
    for node in graph.nodes:
        result = node.outputs[0] if len(node.outputs) == 1 else -1
        if result not in moved:
            builder.take(graph, [node], numbers)
            continue
        operand, *others = node.inputs
        if node.op.name == "cast":
            before[result] = numbers[operand]
            continue
        wide = specs[result]
        like = spec(wide.shape, builder.specs[before[operand]].dtype)
        given = [before[operand], *(numbers[v] for v in others)]
        (before[result],) = builder.add(node.op, given, node.attributes, [like])
        cast = {"dtype": wide.dtype}
        (numbers[result],) = builder.add(TABLE["cast"], [before[result]], cast, [wide])
    return prune(builder.build([numbers[o] for o in graph.outputs]))


class _Search:
    """A graph with the readers of each value."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.readers: dict[int, list[Node]] = {v: [] for v in graph.outputs}
        self.kept = frozenset(graph.outputs)
        for node in graph.nodes:
            for value in dict.fromkeys(node.inputs):
                self.readers.setdefault(value, []).append(node)

    def is_shared(self, node: Node) -> bool:
        """Return whether a node converts a half type, and several nodes alone read the result."""
        if node.op.name != "cast" or node.outputs[0] in self.kept or not self._widens(node):
            return False
        return len(self.readers.get(node.outputs[0], ())) > 1

    def _widens(self, node: Node) -> bool:
        """Return whether a cast is that of a half type to a wider type."""
        specs = self.graph.specs
        narrow, wide = specs[node.inputs[0]].dtype, specs[node.outputs[0]].dtype
        return bool(narrow.itemsize == 2 < wide.itemsize)

    def found(self) -> set[int]:
        """Return the results of the casts, and of the movements behind which they are moved."""
        given, made = set(self.graph.inputs), set[int]()
        for node in self.graph.nodes:
            if node.op.name in _SPREADING and node.inputs[0] in given:
                given.update(node.outputs)
            elif node.op.name == "cast" and node.inputs[0] in given and self._widens(node):
                made |= self._spread(node.outputs[0])
        return made

    def _spread(self, value: int) -> set[int]:
        """Return a value and those it is spread to; none if it is read as it is."""
        made, todo = {value}, [value]
        while todo:
            found = todo.pop()
            for node in self.readers.get(found, ()):
                if node.op.name in _MOVING:
                    made.add(node.outputs[0])
                    todo.append(node.outputs[0])
                elif node.op.name not in ROWS or found == value:
                    return set()
            if found in self.kept:
                return set()
        return made
