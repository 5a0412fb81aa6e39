"""A model's graph as plain Python objects, which clean-up passes change and the interpreter walks.

Requirements: building it copies no weight; attributes are Python values once and for all; a
sub-graph knows the names that it takes from outside, so that values can be dropped after their last
use.
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
    """An input or output: its name, element type and shape.

    ``kind`` is "tensor", "sequence", "optional" or "map". ``shape`` is None where the rank is
    unknown; a size is a number, a symbol, or None.
    """

    name: str
    dtype: HostType | None
    shape: tuple[int | str | None, ...] | None
    kind: str = "tensor"

    @property
    def type_name(self) -> str:
        """The element type's name, such as ``float32`` or ``string``; ``unknown`` without one."""
        from calor_onnx.types import name_of

        return "unknown" if self.dtype is None else name_of(self.dtype)


@dataclass(eq=False, slots=True)
class Node:
    """One application of an operator; an input or output that is left out has an empty name.

    ``version`` is the opset of its domain; ``attributes`` are Python numbers, strings, lists, host
    arrays and Graphs. ``operator`` is what the registry found, ``drop`` the names that no later
    node needs.
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
    # The bodies of a function that this node calls, by the types of its operands.
    bodies: dict[Any, Graph] = field(default_factory=dict)
    # Results for operands that are a few numbers on the host.
    known: dict[Any, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What messages call the node: its name, or its operator and first output."""
        return self.name or f"{self.op} that makes {self.outputs[0] if self.outputs else 'nothing'}"

    def subgraphs(self) -> Iterator[Graph]:
        """Walk the graphs among the attributes."""
        for value in self.attributes.values():
            for item in value if isinstance(value, list) else (value,):
                if isinstance(item, Graph):
                    yield item


@dataclass(eq=False, slots=True)
class Graph:
    """Nodes in an order in which they can run, with constants by name.

    ``captures`` are the names that the nodes take from the graph around. After nodes were changed,
    ``link`` brings ``captures`` and what the nodes drop up to date.
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
        """Find what is taken from outside and where each value is used last."""
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
        """Walk all nodes, those of sub-graphs after the node that holds them."""
        for node in self.nodes:
            yield node
            for inner in node.subgraphs():
                yield from inner.walk()


def used_by(node: Node) -> list[str]:
    """Return the names that a node reads, those that its sub-graphs capture included."""
    return [*node.inputs, *(name for inner in node.subgraphs() for name in inner.captures)]


def deciding(graph: Graph, names: Iterable[str]) -> set[str]:
    """Return the inputs of a graph on whose elements values depend, not on shapes alone."""
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
