"""Batching a graph: its nodes are recorded again, each by its batching rule.

Requirements: only what depends on mapped values gets the mapped axis; the rest is recorded as it
is, once. So what does not differ along the axis, such as the counter of a random generator, can be
stored when the function is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from calor.errors import TraceError
from calor.graph.decompose import definition
from calor.graph.graph import Graph, Node, prune
from calor.ops.sources import zeros_of
from calor.recording.records import untracked
from calor.recording.replay import record_node
from calor.recording.tracing import GraphTrace
from calor.specs import Spec, spec
from calor.transforms.batching.movement import leading
from calor.transforms.batching.rules import rule_of


class Kind(IntEnum):
    """How a value depends on the mapped axis: not, as the counter of a generator does, or so."""

    SAME = 0
    # Not mapped, but bits that are drawn at it differ along the axis.
    STREAM = 1
    MAPPED = 2


class Item(NamedTuple):
    """A tensor and how it depends on the mapped axis, which is its first if it is mapped."""

    tensor: Any
    kind: Kind

    @property
    def spec(self) -> Spec:
        """The spec of one element."""
        shape = self.tensor.shape
        return spec(shape[1:] if self.kind is Kind.MAPPED else shape, self.tensor.dtype)


class Batching:
    """Records graphs for all elements of a mapped axis at once.

    ``name`` is what the user's function is called in errors. ``randomness`` says what numbers of
    a generator are: "different" along the axis, the "same", or an "error".
    """

    def __init__(self, name: str, size: int, randomness: str, device: Any) -> None:
        self.name = name
        self.size = size
        self.randomness = randomness
        self.device = device

    def run(self, graph: Graph, items: Sequence[Item]) -> list[Item]:
        """Return the outputs of a graph for these inputs."""
        graph = prune(graph)
        values = dict(zip(graph.inputs, items, strict=True))
        for node in graph.nodes:
            given = [values[i] for i in node.inputs]
            made = self._node(graph, node, given)
            values.update(zip(node.outputs, made, strict=False))
        return [values[o] for o in graph.outputs]

    def _node(self, graph: Graph, node: Node, given: list[Item]) -> list[Item]:
        kind = max((x.kind for x in given), default=Kind.SAME)
        tensors = [x.tensor for x in given]
        if kind is Kind.SAME:
            return [Item(t, kind) for t in record_node(node, tensors)]
        flow = FLOWS.get(node.op.name)
        if kind is Kind.MAPPED and not self.size:
            return [
                Item(zeros_of(spec((0, *s.shape), s.dtype), self.device), kind)
                for s in (graph.specs[o] for o in node.outputs)
            ]
        if flow is not None:
            return flow(self, given, **node.attributes)
        if kind is Kind.STREAM:
            if node.op.name == "random_bits":
                return [Item(self._draw(node, tensors), Kind.MAPPED)]
            return [Item(t, kind) for t in record_node(node, tensors)]
        rule = rule_of(node.op)
        if rule is None:
            specs = tuple(x.spec for x in given)
            return self.run(definition(node.op, specs, dict(node.attributes)), given)
        mapped = tuple(x.kind is Kind.MAPPED for x in given)
        made = rule(self.size, mapped, *tensors, **node.attributes)
        made = made if isinstance(made, tuple | list) else (made,)
        return [Item(t, kind) for t in made]

    def _draw(self, node: Node, operands: list[Any]) -> Any:
        """Draw for all elements of the axis at once."""
        if self.randomness == "error":
            raise TraceError(
                f"{self.name} draws random numbers from a generator; say whether they differ from "
                f"element to element of the mapped axis: calor.vmap(f, randomness='different') or "
                f"'same', or pass keys: calor.random.split(key, {self.size})"
            )
        attributes = node.attributes
        shape = (self.size, *attributes["shape"])
        return node.op(*operands, shape=shape, bits=attributes["bits"])

    def lead(self, item: Item) -> Any:
        """Return a tensor with the mapped axis, repeated if it did not depend on it."""
        return leading(self.size, item.kind is Kind.MAPPED, item.tensor)

    def mapped(self, items: Sequence[Item], wanted: Sequence[Kind]) -> list[Any]:
        """Return tensors, with the mapped axis where it is wanted."""
        return [
            self.lead(x) if kind is Kind.MAPPED else x.tensor
            for x, kind in zip(items, wanted, strict=True)
        ]

    def batched_spec(self, one: Spec, kind: Kind) -> Spec:
        """Return the spec of a value of a kind from that of one element."""
        return spec((self.size, *one.shape) if kind is Kind.MAPPED else one.shape, one.dtype)

    def traced(
        self,
        specs: Sequence[Spec],
        kinds: Sequence[Kind],
        function: Callable[[list[Item]], list[Any]],
    ) -> Graph:
        """Trace a function of items, which returns tensors, into a graph.

        ``specs`` are those of one element.
        """
        with GraphTrace(self.device, self.name, inner=True) as trace, untracked():
            items = [
                Item(trace.placeholder(self.batched_spec(s, k)), k)
                for s, k in zip(specs, kinds, strict=True)
            ]
            graph = trace.graph(function(items))
        assert len(graph.inputs) == len(specs), "a batching rule captures a tensor"
        return graph

    def body(
        self, graph: Graph, kinds: Sequence[Kind], wanted: Sequence[Kind] = ()
    ) -> tuple[Graph, list[Kind]]:
        """Return a sub-graph batched for inputs of these kinds, and the kinds of its outputs.

        ``wanted``: the least kinds of the first outputs.
        """
        found: list[Kind] = []

        def run(items: list[Item]) -> list[Any]:
            made = self.run(graph, items)
            least = [*wanted, *[Kind.SAME] * (len(made) - len(wanted))]
            found[:] = [max(x.kind, k) for x, k in zip(made, least, strict=True)]
            return self.mapped(made, found)

        return self.traced(graph.input_specs, kinds, run), found


Flow = Callable[..., list[Item]]
# Rules of nodes with sub-graphs, which need to know of each value how it depends on the axis.
FLOWS: dict[str, Flow] = {}
