"""The layer of each part of a graph, and the lines between layers.

Inputs are on top and outputs below. The lines of a value form one tree to all its uses. A use far
below gets a tag with the value's number instead of a line, because long lines are hard to follow
and their bends would number nodes times layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from calor.graph.graph import Graph
from calor_drawing.layout import Box, Link

REACH: Final = 8

Kind = Literal["input", "node", "output", "tag", "bend"]


@dataclass(frozen=True, slots=True)
class Part:
    """The meaning of a box: ``number`` is that of the node, of the output, or else of the value."""

    kind: Kind
    number: int


class Layers:
    """The parts of a graph with their layers, and the links between neighbouring layers."""

    def __init__(self, graph: Graph) -> None:
        self.parts: list[Part] = []
        self.layers: list[int] = []
        self.links: list[Link] = []
        # The value that a link carries, by the link's place.
        self.values: list[int] = []
        levels = node_layers(graph)
        last = max(levels, default=0) + 1
        inputs = [self._add("input", v, 0) for v in graph.inputs]
        nodes = [self._add("node", i, level) for i, level in enumerate(levels)]
        outputs = [self._add("output", i, last) for i in range(len(graph.outputs))]
        origin = {v: (part, 0.5) for v, part in zip(graph.inputs, inputs, strict=True)}
        uses: dict[int, list[tuple[int, float]]] = {}
        for node, part in zip(graph.nodes, nodes, strict=True):
            for i, v in enumerate(node.outputs):
                origin[v] = (part, _port(i, len(node.outputs)))
            for i, v in enumerate(node.inputs):
                uses.setdefault(v, []).append((part, _port(i, len(node.inputs))))
        for v, part in zip(graph.outputs, outputs, strict=True):
            uses.setdefault(v, []).append((part, 0.5))
        for v, (part, leaves) in origin.items():
            self._join(v, part, leaves, uses.get(v, []))
        self.unused = frozenset(v for v in graph.inputs if v not in uses)
        self._close_up()

    def boxes(self, sizes: list[tuple[float, float]]) -> list[Box]:
        """Return a box for each part, of these sizes."""
        return [Box(at, *size) for at, size in zip(self.layers, sizes, strict=True)]

    def _add(self, kind: Kind, number: int, layer: int) -> int:
        self.parts.append(Part(kind, number))
        self.layers.append(layer)
        return len(self.parts) - 1

    def _link(self, value: int, link: Link) -> None:
        self.links.append(link)
        self.values.append(value)

    def _join(self, value: int, part: int, leaves: float, uses: list[tuple[int, float]]) -> None:
        for target, enters in sorted(uses, key=lambda use: self.layers[use[0]]):
            layer = self.layers[target]
            far = layer - self.layers[part] > REACH
            if far and self.parts[target].kind == "output":
                # An output shows the number of its value, so it needs no tag.
                continue
            if far:
                part, leaves = self._add("tag", value, layer - 1), 0.5
            while self.layers[part] < layer - 1:
                bend = self._add("bend", value, self.layers[part] + 1)
                self._link(value, Link(part, bend, leaves))
                part, leaves = bend, 0.5
            self._link(value, Link(part, target, leaves, enters))

    def _close_up(self) -> None:
        """Number the layers without gaps."""
        dense = {layer: i for i, layer in enumerate(sorted(set(self.layers)))}
        self.layers = [dense[layer] for layer in self.layers]


def _port(index: int, count: int) -> float:
    return (index + 1) / (count + 1)


def node_layers(graph: Graph) -> list[int]:
    """Return the layer of each node, from 1: one below the lowest of its operands.

    Nodes that depend on no input, such as constants, are placed just above their first use.
    """
    layer_of = dict.fromkeys(graph.inputs, 0)
    constant: set[int] = set()
    layers: list[int] = []
    for node in graph.nodes:
        layers.append(1 + max((layer_of[v] for v in node.inputs), default=0))
        layer_of.update(dict.fromkeys(node.outputs, layers[-1]))
        if constant.issuperset(node.inputs):
            constant.update(node.outputs)
    bottom = max(layers, default=0) + 1
    first_use = dict.fromkeys(graph.outputs, bottom)
    for i in reversed(range(len(graph.nodes))):
        node = graph.nodes[i]
        if constant.issuperset(node.inputs):
            layers[i] = min((first_use.get(v, bottom) for v in node.outputs), default=bottom) - 1
        for v in node.inputs:
            first_use[v] = min(first_use.get(v, bottom), layers[i])
    return layers
