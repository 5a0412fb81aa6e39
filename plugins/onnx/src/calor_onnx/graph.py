"""A model's graph as plain Python objects, which passes change and the interpreter walks.

Requirements: building a graph copies no weight. Attributes are converted to Python values once. A
sub-graph knows the names that it captures, so that values can be freed after their last use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calor_onnx.constants import Constant
    from calor_onnx.registry import Operator
    from calor_onnx.types import HostType


@dataclass(frozen=True, slots=True)
class ValueInfo:
    """Description of an input or output.

    Parameters
    ----------
    name : str
        The name.
    dtype : numpy.dtype or None
        The element type; None where the model does not state one.
    shape : tuple or None
        The sizes: a number, the name of a symbol, or None for an unknown size. None where the rank
        is unknown.
    kind : str
        "tensor", "sequence", "optional" or "map".

    Examples
    --------
    >>> import calor_onnx, onnx
    >>> model = calor_onnx.load(onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 17]>
    ...     double (float[N] x) => (float[N] y) { y = Add (x, x) }'''))
    >>> model.inputs[0].name, model.inputs[0].shape, model.inputs[0].type_name
    ('x', ('N',), 'float32')
    """

    name: str
    dtype: HostType | None
    shape: tuple[int | str | None, ...] | None
    kind: str = "tensor"

    @property
    def type_name(self) -> str:
        """The name of the element type, such as ``float32``; ``unknown`` without one."""
        from calor_onnx.types import name_of

        return "unknown" if self.dtype is None else name_of(self.dtype)


@dataclass(eq=False, slots=True)
class Node:
    """One application of an operator.

    Parameters
    ----------
    op : str
        Name of the operator.
    domain : str
        Domain of the operator; "" is ai.onnx.
    version : int
        Opset of the domain.
    name : str
        Name of the node, which may be empty.
    inputs : list of str
        Names of the inputs; an empty name is an input that is left out.
    outputs : list of str
        Names of the outputs; an empty name is an output that is left out.
    attributes : dict
        Python numbers, strings, lists, host arrays and graphs by name.
    operator : Operator or None
        The registry's entry.
    drop : tuple of str
        Names that no later node reads.
    bodies : dict
        Bodies of a called function, by the types of its operands.
    known : dict
        Cached results for operands that are a few numbers on the host.

    Examples
    --------
    >>> import calor_onnx, onnx
    >>> model = calor_onnx.load(onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 17]>
    ...     double (float[N] x) => (float[N] y) { y = Add (x, x) }'''))
    >>> node = model.graph.nodes[0]
    >>> node.op, node.inputs, node.outputs, node.label
    ('Add', ['x', 'x'], ['y'], 'Add with output y')
    """

    op: str
    domain: str
    version: int
    name: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any] = field(default_factory=dict)
    operator: Operator | None = None
    drop: tuple[str, ...] = ()
    # Bodies of the function that this node calls, by the types of its operands.
    bodies: dict[Any, Graph] = field(default_factory=dict)
    # Results for operands that are a few numbers on the host.
    known: dict[Any, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name of the node in messages, or its operator and first output if it has none."""
        made = self.outputs[0] if self.outputs else "nothing"
        return self.name or f"{self.op} with output {made}"

    def subgraphs(self) -> Iterator[Graph]:
        """Iterate over the graphs among the attributes.

        Yields
        ------
        Graph
            Each sub-graph.
        """
        for value in self.attributes.values():
            if isinstance(value, Graph):
                yield value
            # All elements of a list are of one kind, and there may be millions of numbers.
            elif isinstance(value, list) and value and isinstance(value[0], Graph):
                yield from value


@dataclass(eq=False, slots=True)
class Graph:
    """Nodes in execution order, with constants by name.

    Call `link` after changing the nodes.

    Parameters
    ----------
    name : str
        Name of the graph.
    inputs : list of ValueInfo
        The inputs.
    outputs : list of ValueInfo
        The outputs.
    nodes : list of Node
        The nodes; each comes after the nodes that compute its inputs.
    constants : dict
        Constants by name.
    captures : tuple of str
        Names that the nodes read from the enclosing graph.
    types : dict
        Types that the file states for values between nodes, by name.

    Examples
    --------
    >>> import calor_onnx, onnx
    >>> model = calor_onnx.load(onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 17]>
    ...     double (float[N] x) => (float[N] y) { y = Add (x, x) }'''))
    >>> [node.op for node in model.graph.walk()]
    ['Add']
    """

    name: str
    inputs: list[ValueInfo]
    outputs: list[ValueInfo]
    nodes: list[Node]
    constants: dict[str, Constant] = field(default_factory=dict)
    captures: tuple[str, ...] = ()
    # Types that the file states for values between nodes.
    types: dict[str, ValueInfo] = field(default_factory=dict)

    def link(self) -> None:
        """Update `captures`, and for each node the names to drop after it."""
        made = {info.name for info in self.inputs} | self.constants.keys()
        for node in self.nodes:
            made.update(node.outputs)
        kept = {info.name for info in self.outputs if info.name}
        outside: dict[str, None] = dict.fromkeys(n for n in kept if n not in made)
        later: set[str] = set(kept)
        for node in reversed(self.nodes):
            for inner in node.subgraphs():
                inner.link()
            used = [n for n in used_by(node) if n]
            outside.update(dict.fromkeys(n for n in used if n not in made))
            names = dict.fromkeys([*used, *filter(None, node.outputs)])
            node.drop = tuple(n for n in names if n not in later and n in made)
            later.update(names)
        self.captures = tuple(outside)

    def walk(self) -> Iterator[Node]:
        """Iterate over all nodes; those of sub-graphs follow the node that holds them.

        Yields
        ------
        Node
            Each node.
        """
        for node in self.nodes:
            yield node
            for inner in node.subgraphs():
                yield from inner.walk()


def used_by(node: Node) -> list[str]:
    """Return the names that a node reads, including those that its sub-graphs capture."""
    return [*node.inputs, *(name for inner in node.subgraphs() for name in inner.captures)]


def deciding(graph: Graph, names: Iterable[str]) -> set[str]:
    """Return the inputs of a graph whose elements, not only shapes, decide some values."""
    makers: dict[str, Node] = {out: node for node in graph.walk() for out in node.outputs if out}
    inputs = {info.name for info in graph.inputs} - graph.constants.keys()
    found: set[str] = set()
    waiting = list(names)
    seen = set(waiting)
    while waiting:
        current = waiting.pop()
        if current in inputs:
            found.add(current)
        node = makers.get(current)
        if node is None or node.op in ("Shape", "Size"):
            continue
        new = [n for n in used_by(node) if n and n not in seen]
        seen.update(new)
        waiting += new
    return found
