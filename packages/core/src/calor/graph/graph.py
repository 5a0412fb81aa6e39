"""The Graph: the one intermediate form of calor.

A graph is a straight list of nodes in an order in which each operand is computed before its use.
Values are numbered: the inputs first, then the outputs of each node in turn. Graphs are immutable;
a pass builds a new one with :class:`Builder`. A graph may be an attribute of a node (the branches
of control flow), so it is hashable by its structure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

from calor.errors import GraphError
from calor.ops.attributes import exact_items
from calor.ops.base import Op, signature
from calor.specs import Spec


@dataclass(frozen=True, slots=True)
class Node:
    """One operation: ``inputs`` and ``outputs`` are value numbers of the graph that holds it."""

    op: Op
    inputs: tuple[int, ...]
    attributes: Mapping[str, Any]
    outputs: tuple[int, ...]


class Graph:
    """A function from input values to output values, as a list of nodes.

    Attributes: ``specs`` (of every value, by number), ``inputs`` (value numbers, 0 … n−1), ``host``
    (the inputs that are host numbers or small host arrays handed over at each call), ``nodes``,
    ``outputs`` (value numbers).

    >>> import calor
    >>> graph = calor.trace(lambda x: x * 2 + 1, calor.ones((2, 3)))
    >>> [node.op.name for node in graph.nodes][-1]
    'add'
    """

    def __init__(
        self,
        specs: Sequence[Spec],
        host: Iterable[int],
        nodes: Sequence[Node],
        outputs: Sequence[int],
        input_count: int,
    ) -> None:
        self.specs = tuple(specs)
        self.inputs = tuple(range(input_count))
        self.host = frozenset(host)
        self.nodes = tuple(nodes)
        self.outputs = tuple(outputs)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """A hashable value that is equal for graphs of equal structure."""
        return (
            tuple(self.specs[i] for i in self.inputs),
            tuple(sorted(self.host)),
            tuple((n.op, n.inputs, exact_items(n.attributes)) for n in self.nodes),
            self.outputs,
        )

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self.key == other.key

    def __repr__(self) -> str:
        counts = len(self.inputs), len(self.nodes), len(self.outputs)
        return "<Graph {} inputs, {} nodes, {} outputs>".format(*counts)

    @property
    def input_specs(self) -> tuple[Spec, ...]:
        """Specs of the inputs, in order."""
        return tuple(self.specs[i] for i in self.inputs)

    @property
    def output_specs(self) -> tuple[Spec, ...]:
        """Specs of the outputs, in order."""
        return tuple(self.specs[i] for i in self.outputs)

    def last_uses(self) -> list[tuple[int, ...]]:
        """For each node, the values that nothing reads after it (outputs and inputs excluded)."""
        keep = set(self.outputs) | set(self.inputs)
        seen: set[int] = set()
        result: list[tuple[int, ...]] = []
        for node in reversed(self.nodes):
            ends = [v for v in (*node.inputs, *node.outputs) if v not in seen and v not in keep]
            ends = list(dict.fromkeys(ends))
            seen.update(ends)
            result.append(tuple(ends))
        result.reverse()
        return result

    def text(self) -> str:
        """Return the graph as readable text, one node a line."""
        from calor.graph.text import graph_text

        return graph_text(self)

    def svg(self) -> str:
        """Return a picture of the graph as the text of an SVG file.

        Inputs are on top, outputs below; colours tell the families of ops apart. PluginError where
        calor-drawing is not installed.

        >>> import calor
        >>> calor.trace(calor.exp, calor.ones(2)).svg().splitlines()[1]
        '<title>Graph of 1 inputs, 1 nodes, 1 outputs</title>'
        """
        from calor.drawing import graph_svg

        return graph_svg(self)

    def draw(self, path: str | PathLike[str]) -> None:
        """Write the picture to a file whose name ends in ``.svg``; ArgumentError for another."""
        from calor.drawing import draw

        draw(self, path)


class Builder:
    """Builds a graph node by node; each method returns value numbers of the new graph."""

    def __init__(self) -> None:
        self.specs: list[Spec] = []
        self.nodes: list[Node] = []
        self.host: set[int] = set()
        self.input_count = 0

    def input(self, spec: Spec, host: bool = False) -> int:
        """Add an input; all inputs come before the first node."""
        if self.nodes:
            raise GraphError("inputs of a graph come before its first node")
        number = len(self.specs)
        self.specs.append(spec)
        if host:
            self.host.add(number)
        self.input_count += 1
        return number

    def add(
        self,
        op: Op,
        inputs: Sequence[int],
        attributes: Mapping[str, Any] | None = None,
        outputs: Sequence[Spec] | None = None,
    ) -> tuple[int, ...]:
        """Add a node and return the numbers of its outputs; specs come from the op's rule."""
        attributes = dict(attributes or {})
        if outputs is None:
            outputs = signature(op, tuple(self.specs[i] for i in inputs), attributes).outputs
        first = len(self.specs)
        self.specs.extend(outputs)
        numbers = tuple(range(first, first + len(outputs)))
        self.nodes.append(Node(op, tuple(inputs), attributes, numbers))
        return numbers

    def inline(self, graph: Graph, arguments: Sequence[int]) -> tuple[int, ...]:
        """Add the nodes of another graph with its inputs replaced; return its outputs."""
        if len(arguments) != len(graph.inputs):
            raise GraphError(f"{graph!r} takes {len(graph.inputs)} inputs, not {len(arguments)}")
        numbers = dict(zip(graph.inputs, arguments, strict=True))
        self.take(graph, graph.nodes, numbers)
        return tuple(numbers[o] for o in graph.outputs)

    def take(self, graph: Graph, nodes: Iterable[Node], numbers: dict[int, int]) -> None:
        """Add nodes of another graph; ``numbers`` says where its values are here, then theirs."""
        for node in nodes:
            made = self.add(
                node.op,
                [numbers[i] for i in node.inputs],
                node.attributes,
                [graph.specs[o] for o in node.outputs],
            )
            numbers.update(zip(node.outputs, made, strict=True))

    def build(self, outputs: Sequence[int]) -> Graph:
        """Return the finished graph."""
        return Graph(self.specs, self.host, self.nodes, outputs, self.input_count)


def prune(graph: Graph) -> Graph:
    """Return the graph without the nodes that no output needs; inputs stay, used or not."""
    needed = set(graph.outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if any(o in needed for o in node.outputs):
            kept.append(node)
            needed.update(node.inputs)
    if len(kept) == len(graph.nodes):
        return graph
    return part(graph, graph.inputs, kept[::-1], graph.outputs)


def part(
    graph: Graph,
    inputs: Iterable[int],
    nodes: Iterable[Node],
    outputs: Sequence[int],
    numbers_of_host: Collection[int] = (),
) -> Graph:
    """Return some nodes as a graph of its own, its inputs and outputs values of the whole one.

    An input is a host number where it is one in the whole graph, or in ``numbers_of_host``.
    """
    builder = Builder()
    numbers = {
        v: builder.input(graph.specs[v], v in graph.host or v in numbers_of_host) for v in inputs
    }
    builder.take(graph, nodes, numbers)
    return builder.build([numbers[o] for o in outputs])
