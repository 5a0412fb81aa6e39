"""Results of a graph that are computed in the order in which they are returned.

Requirements: a permuted view of what a launch wrote is no dense result, so it would be copied. A
product of the factors in the other order is the transposed product, and elementwise work on
permuted operands, which are views, gives the permuted result. So no copy is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calor.graph.graph import Builder, Graph, Node, prune
from calor.ops.base import TABLE
from calor.specs import spec
from calor_kernel.library.elementwise.operations import ROWS

Axes = tuple[int, ...]
# Movements between an operand of the graph and the elementwise work that reads it.
_VIEWS: Final = frozenset(("expand", "reshape", "permute", "slice"))
# Steps of elementwise work, one behind another.
_DEPTH: Final = 32


def dense_results(graph: Graph) -> Graph:
    """Return the graph with permutations ahead of the work, the graph itself if there are none."""
    if all(node.op.name != "permute" for node in graph.nodes):
        return graph
    search = _Search(graph)
    found = {o: axes for o in dict.fromkeys(graph.outputs) if (axes := search.permutation(o))}
    if not found:
        return graph
    builder, specs = Builder(), graph.specs
    numbers = {i: builder.input(specs[i], i in graph.host) for i in graph.inputs}
    for node in graph.nodes:
        result = node.outputs[0]
        if len(node.outputs) > 1 or result not in found:
            builder.take(graph, [node], numbers)
        elif (made := search.makers[node.inputs[0]]).op.name == "dot_general":
            given = [numbers[value] for value in reversed(made.inputs)]
            attributes = _turned(made.attributes)
            (numbers[result],) = builder.add(made.op, given, attributes, [specs[result]])
        else:
            numbers[result] = search.moved(builder, numbers, node.inputs[0], found[result])
    return prune(builder.build([numbers[o] for o in graph.outputs]))


def _turned(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a product of the factors in the other order."""
    swapped = {name: tuple(reversed(attributes[name])) for name in ("contract", "batch")}
    return {**attributes, **swapped}


class _Search:
    """A graph with the node that makes each value, and the number of its readers."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.makers: dict[int, Node] = {o: node for node in graph.nodes for o in node.outputs}
        self.readers: dict[int, int] = dict.fromkeys(graph.outputs, 1)
        for node in graph.nodes:
            for value in node.inputs:
                self.readers[value] = self.readers.get(value, 0) + 1

    def permutation(self, result: int) -> Axes | None:
        """Return the axes of a permutation that may go ahead of the work whose result it is."""
        node = self.makers.get(result)
        if node is None or node.op.name != "permute":
            return None
        (operand,), axes = node.inputs, tuple(node.attributes["axes"])
        made = self.makers.get(operand)
        # Axes of one element have no place in memory.
        placed = [axis for axis in axes if self.graph.specs[operand].shape[axis] != 1]
        if made is None or self.readers[operand] > 1 or placed == sorted(placed):
            return None
        if made.op.name == "dot_general":
            return axes if axes == self._turning(made) else None
        return axes if made.op.name in ROWS and self._elementwise(operand) else None

    def _turning(self, node: Node) -> Axes:
        """Return the axes that exchange the free axes of the factors of a product."""
        batch, rank = len(node.attributes["batch"][0]), self.graph.specs[node.outputs[0]].ndim
        left = self.graph.specs[node.inputs[0]].ndim - len(node.attributes["contract"][0])
        return (*range(batch), *range(left, rank), *range(batch, left))

    def _elementwise(self, value: int, depth: int = 0) -> bool:
        """Return whether a value is elementwise work of the graph's operands alone."""
        node = self.makers.get(value)
        if node is not None and self._computed(value):
            return depth < _DEPTH and all(self._elementwise(i, depth + 1) for i in node.inputs)
        while node is not None and node.op.name in _VIEWS:
            node = self.makers.get(node.inputs[0])
        return node is None or node.op.name == "full"

    def _computed(self, value: int) -> bool:
        """Return whether a value is made by elementwise work for one reader."""
        node = self.makers.get(value)
        if node is None or node.op.name not in ROWS or self.readers[value] > 1:
            return False
        shape = self.graph.specs[value].shape
        return all(self.graph.specs[i].shape == shape for i in node.inputs)

    def moved(self, builder: Builder, numbers: Mapping[int, int], value: int, axes: Axes) -> int:
        """Add elementwise work on permuted operands, and return its result."""
        before = self.graph.specs[value]
        like = spec(tuple(before.shape[axis] for axis in axes), before.dtype)
        if not self._computed(value):
            given, op, attributes = [numbers[value]], TABLE["permute"], {"axes": axes}
            return builder.add(op, given, attributes, [like])[0]
        node = self.makers[value]
        operands = [self.moved(builder, numbers, i, axes) for i in node.inputs]
        return builder.add(node.op, operands, node.attributes, [like])[0]
