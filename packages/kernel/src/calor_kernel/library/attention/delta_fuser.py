"""Gradients of attention with the sums of products that they subtract, where one launch has both.

Requirements: a row's delta is the sum of the products of its result and its upstream gradient. The
cubes of few queries have all rows of a head, with the upstream gradients in shared memory, so they
compute it themselves, and no launch waits for one that does.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final

from calor.graph.graph import Graph, Node
from calor_kernel.contract.fuser import Fuser, Group, boundary
from calor_kernel.contract.graph_links import links_of
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.movement import MOVEMENTS, view_of
from calor_kernel.contract.work import Request, View

OP: Final = "attention_gradient_of_result"
_GRADIENT: Final = "attention_gradient"


class DeltaFuser(Fuser):
    """Covers gradients of attention with what makes their delta."""

    name = "delta"

    def groups(self, graph: Graph, info: DeviceInfo) -> Iterable[Group]:
        """Return a group for each gradient of few queries."""
        found = [i for i, node in enumerate(graph.nodes) if node.op.name == _GRADIENT]
        if not found or not (info.has("planes") and info.has("barrier")):
            return ()
        makers = {value: i for i, node in enumerate(graph.nodes) for value in node.outputs}
        groups = (self._group(graph, info, i, makers) for i in found)
        return [group for group in groups if group is not None]

    def _group(
        self, graph: Graph, info: DeviceInfo, number: int, makers: dict[int, int]
    ) -> Group | None:
        node = graph.nodes[number]
        upstream, delta, total, *operands = node.inputs

        def maker(value: int, op: str) -> tuple[int, Node] | None:
            made = makers.get(value)
            return (
                None
                if made is None or graph.nodes[made].op.name != op
                else (made, graph.nodes[made])
            )

        total_of = maker(delta, "sum")
        product = None if total_of is None else maker(total_of[1].inputs[0], "mul")
        if total_of is None or product is None or total_of[1].attributes["axes"] != (3,):
            return None
        nodes, factors = {number, total_of[0], product[0]}, []
        for value in product[1].inputs:
            cast = maker(value, "cast")
            half = cast is not None and graph.specs[cast[1].inputs[0]].dtype.itemsize == 2
            if cast is not None and half:
                factors.append(cast[1].inputs[0])
                if links_of(graph).readers[value] == [product[0]] and value not in graph.outputs:
                    nodes.add(cast[0])
            else:
                factors.append(value)
        if upstream not in factors:
            return None
        result = factors[1 - factors.index(upstream)]
        known = graph.specs[upstream], graph.specs[result]
        chosen = tuple(sorted(nodes))
        _, outputs = boundary(graph, chosen)
        if known[0] is not known[1] or not set(outputs) <= set(node.outputs):
            return None
        inputs = upstream, result, total, *operands
        if not _suits(graph, info, node, inputs, makers):
            return None
        return Group(chosen, OP, inputs, node.outputs, 0.0, dict(node.attributes))


def _suits(
    graph: Graph, info: DeviceInfo, node: Node, inputs: Iterable[int], makers: dict[int, int]
) -> bool:
    """Return whether the launch of few queries serves a gradient of these operands."""
    ways: Any = import_module("calor_kernel.library.attention.delta_launch")
    views = tuple(_view(graph, value, makers) for value in inputs)
    results = tuple(graph.specs[value] for value in node.outputs)
    suits: bool = ways.suits(Request(_GRADIENT, node.attributes, views, results, info))
    return suits


def _view(graph: Graph, value: int, makers: dict[int, int]) -> View:
    """Return a value as the planner will have it if no order is asked of what makes it."""
    spec = graph.specs[value]
    node = graph.nodes[makers[value]] if value in makers else None
    if node is not None and node.op.name in MOVEMENTS and len(node.inputs) == 1:
        before = _view(graph, node.inputs[0], makers)
        made = view_of(node.op.name, before, node.attributes, spec)
        if made is not None:
            return made
    return View.dense(spec)
