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
from calor.graph.attributes import exact_items
from calor.graph.op import Op, signature
from calor.specs import Spec


@dataclass(frozen=True, slots=True)
class Node:
    """One operation of a graph.

    Parameters
    ----------
    op : Op
        The row of the op table.
    inputs : tuple of int
        Numbers of the graph's values that it reads.
    attributes : mapping of str to Any
        The op's attributes.
    outputs : tuple of int
        Numbers of the values that it makes.
    """

    op: Op
    inputs: tuple[int, ...]
    attributes: Mapping[str, Any]
    outputs: tuple[int, ...]


class Graph:
    """A function from input values to output values, as a list of nodes.

    Parameters
    ----------
    specs : sequence of Spec
        The specs of all values, by number.
    host : iterable of int
        The inputs that are host numbers, or small host arrays, passed at each call.
    nodes : sequence of Node
        The nodes; each value is made before it is read.
    outputs : sequence of int
        The numbers of the values that are returned.
    input_count : int
        The number of inputs, which are the values 0 … n − 1.

    Examples
    --------
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

    def __reduce__(self) -> tuple[Any, ...]:
        return Graph, (self.specs, self.host, self.nodes, self.outputs, len(self.inputs))

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
        """Return for each node the values that nothing reads after it.

        Returns
        -------
        list of tuple of int
            One tuple for each node, without inputs and outputs of the graph.
        """
        # What is kept, or read by a node that was seen already.
        seen = {*self.outputs, *self.inputs}
        result: list[tuple[int, ...]] = []
        for node in reversed(self.nodes):
            ends: list[int] = []
            for values in (node.inputs, node.outputs):
                for v in values:
                    if v not in seen:
                        seen.add(v)
                        ends.append(v)
            result.append(tuple(ends))
        result.reverse()
        return result

    def text(self) -> str:
        """Return the graph as readable text.

        Returns
        -------
        str
            One line for each node.
        """
        return _text(self, "")

    def svg(self) -> str:
        """Return a picture of the graph: inputs on top, outputs below, a colour per family of ops.

        Returns
        -------
        str
            The text of an SVG file.

        Raises
        ------
        PluginError
            If calor-drawing is not installed.

        Examples
        --------
        >>> import calor
        >>> calor.trace(calor.exp, calor.ones(2)).svg().splitlines()[1]
        '<title>Graph of 1 inputs, 1 nodes, 1 outputs</title>'
        """
        from calor.drawing import graph_svg

        return graph_svg(self)

    def draw(self, path: str | PathLike[str]) -> None:
        """Write the picture of the graph to a file.

        Parameters
        ----------
        path : str or path-like
            The file; its name ends in ".svg".

        Raises
        ------
        ArgumentError
            If the name has another suffix.
        PluginError
            If calor-drawing is not installed.
        """
        from calor.drawing import draw

        draw(self, path)


class Builder:
    """Builds a graph node by node; its methods return numbers of values of the new graph."""

    def __init__(self) -> None:
        self.specs: list[Spec] = []
        self.nodes: list[Node] = []
        self.host: set[int] = set()
        self.input_count = 0

    def input(self, spec: Spec, host: bool = False) -> int:
        """Add an input.

        Parameters
        ----------
        spec : Spec
            Its shape and dtype.
        host : bool, optional
            Whether it is a host number or small host array, passed at each call.

        Returns
        -------
        int
            The number of the value.

        Raises
        ------
        GraphError
            If the graph has a node already.
        """
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
        """Add a node.

        Parameters
        ----------
        op : Op
            The row of the op table.
        inputs : sequence of int
            The numbers of its operands.
        attributes : mapping of str to Any, optional
            The op's attributes.
        outputs : sequence of Spec, optional
            The specs of its results. By default the op's rule gives them.

        Returns
        -------
        tuple of int
            The numbers of its results.
        """
        attributes = dict(attributes or {})
        if outputs is None:
            outputs = signature(op, tuple(self.specs[i] for i in inputs), attributes).outputs
        first = len(self.specs)
        self.specs.extend(outputs)
        numbers = tuple(range(first, first + len(outputs)))
        self.nodes.append(Node(op, tuple(inputs), attributes, numbers))
        return numbers

    def inline(self, graph: Graph, arguments: Sequence[int]) -> tuple[int, ...]:
        """Add the nodes of another graph, with its inputs replaced.

        Parameters
        ----------
        graph : Graph
            The other graph.
        arguments : sequence of int
            One value of the new graph for each of its inputs.

        Returns
        -------
        tuple of int
            The values that correspond to its outputs.

        Raises
        ------
        GraphError
            If the number of arguments differs from that of inputs.
        """
        if len(arguments) != len(graph.inputs):
            raise GraphError(f"{graph!r} takes {len(graph.inputs)} inputs, not {len(arguments)}")
        numbers = dict(zip(graph.inputs, arguments, strict=True))
        self.take(graph, graph.nodes, numbers)
        return tuple(numbers[o] for o in graph.outputs)

    def take(self, graph: Graph, nodes: Iterable[Node], numbers: dict[int, int]) -> None:
        """Add nodes of another graph.

        Parameters
        ----------
        graph : Graph
            The other graph.
        nodes : iterable of Node
            Its nodes to add, in order.
        numbers : dict of int to int
            The new graph's value for each value of the other one that the nodes read. Their results
            are added to it.
        """
        specs, known, own = self.specs, graph.specs, self.nodes
        for node in nodes:
            first = len(specs)
            specs += [known[o] for o in node.outputs]
            made = tuple(range(first, len(specs)))
            inputs = tuple([numbers[i] for i in node.inputs])
            own.append(Node(node.op, inputs, node.attributes, made))
            numbers.update(zip(node.outputs, made, strict=True))

    def build(self, outputs: Sequence[int]) -> Graph:
        """Return the finished graph.

        Parameters
        ----------
        outputs : sequence of int
            The numbers of the values to return.

        Returns
        -------
        Graph
            The graph.
        """
        return Graph(self.specs, self.host, self.nodes, outputs, self.input_count)


def prune(graph: Graph) -> Graph:
    """Return the graph without the nodes that no output needs.

    Parameters
    ----------
    graph : Graph
        The graph.

    Returns
    -------
    Graph
        A graph with the same inputs, used or not, and outputs.
    """
    needed = set(graph.outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(node.outputs):
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
    """Return some nodes of a graph as a graph of its own.

    Parameters
    ----------
    graph : Graph
        The whole graph.
    inputs : iterable of int
        Its values that are inputs of the part.
    nodes : iterable of Node
        The nodes, in order.
    outputs : sequence of int
        Its values that are outputs of the part.
    numbers_of_host : collection of int, optional
        Inputs that are host numbers, besides those that are so in the whole graph.

    Returns
    -------
    Graph
        The part.
    """
    builder = Builder()
    numbers = {
        v: builder.input(graph.specs[v], v in graph.host or v in numbers_of_host) for v in inputs
    }
    builder.take(graph, nodes, numbers)
    return builder.build([numbers[o] for o in outputs])


def _text(graph: Graph, indent: str) -> str:
    """Return the text of a graph; the sub-graphs of control flow are indented below their node."""
    inputs = ", ".join(
        f"%{i}: {graph.specs[i]}{' host' if i in graph.host else ''}" for i in graph.inputs
    )
    lines = [f"{indent}graph({inputs}) {{"]
    for node in graph.nodes:
        outputs = ", ".join(f"%{o}: {graph.specs[o]}" for o in node.outputs)
        operands = ", ".join(f"%{i}" for i in node.inputs)
        plain = {k: v for k, v in node.attributes.items() if not isinstance(v, Graph)}
        subgraphs = {k: v for k, v in node.attributes.items() if isinstance(v, Graph)}
        attributes = "".join(f", {k}={v}" for k, v in plain.items())
        call = (operands + attributes).removeprefix(", ")
        lines.append(f"{indent}  {outputs} = {node.op.name}({call})")
        for name, body in subgraphs.items():
            lines.append(f"{indent}    {name}:")
            lines.append(_text(body, indent + "      "))
    lines.append(f"{indent}  return {', '.join(f'%{o}' for o in graph.outputs)}")
    lines.append(f"{indent}}}")
    return "\n".join(lines)
