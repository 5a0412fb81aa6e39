"""Scans of one step without the scan: their step is a part of the graph around it.

Requirements: where the host runs the steps of a scan, its carries and rows are values between
launches. A single step needs none of that, and its ops join those around it. A scan stays that a
family takes as one launch, and one on a device that repeats launches itself, where it is a task of
a plan that serves all lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from calor.graph.graph import Builder, Graph, Node
from calor.ops.base import TABLE

ByHost = Callable[[Graph, Node], bool]
"""Whether the host runs the steps of a node of a graph."""


def has_single_steps(graph: Graph, by_host: ByHost) -> bool:
    """Return whether a graph has scans of one step that become a part of it."""
    return any(_is_single(graph, node, by_host) for node in graph.nodes)


def single_steps(graph: Graph, by_host: ByHost) -> Graph:
    """Return the graph with the steps of scans of one step in it; itself if it has none."""
    while has_single_steps(graph, by_host):
        graph = _joined(graph, by_host)
    return graph


def _is_single(graph: Graph, node: Node, by_host: ByHost) -> bool:
    length = node.attributes.get("length") if node.op.name == "scan" else None
    return type(length) is int and length == 1 and by_host(graph, node)


def _joined(graph: Graph, by_host: ByHost) -> Graph:
    builder = Builder()
    numbers = {v: builder.input(graph.specs[v], v in graph.host) for v in graph.inputs}
    for node in graph.nodes:
        if not _is_single(graph, node, by_host):
            builder.take(graph, [node], numbers)
            continue
        made = _step(builder, graph, node, [numbers[v] for v in node.inputs])
        numbers.update(zip(node.outputs, made, strict=True))
    return builder.build([numbers[v] for v in graph.outputs])


def _step(builder: Builder, graph: Graph, node: Node, given: Sequence[int]) -> list[int]:
    """Add the step of a scan; return the values of its results."""
    attributes = node.attributes
    body: Graph = attributes["body"]
    captures, carries = attributes["captures"], attributes["carries"]
    held, first, stacks = given[:captures], given[captures:][:carries], given[captures + carries :]
    of_rows = body.inputs[carries : len(body.inputs) - captures]
    rows = [_shaped(builder, x, body.specs[v].shape) for x, v in zip(stacks, of_rows, strict=True)]
    made = builder.inline(body, [*first, *rows, *held])
    # Behind the last carries: the stacks of rows that the step makes, and of the carries before it.
    stacked = [*made[carries:], *(first if attributes["keep"] else ())]
    shapes = [graph.specs[v].shape for v in node.outputs[carries:]]
    return [
        *made[:carries],
        *(_shaped(builder, x, shape) for x, shape in zip(stacked, shapes, strict=True)),
    ]


def _shaped(builder: Builder, value: int, shape: tuple[int, ...]) -> int:
    """Return a value with an axis of one element more or less."""
    (made,) = builder.add(TABLE["reshape"], (value,), {"shape": shape})
    return made
