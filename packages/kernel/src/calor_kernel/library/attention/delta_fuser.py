"""Gradients of attention with the sums of products that they subtract, where one launch has both.

Requirements: a row's delta is the sum of the products of its result and its upstream gradient. A
result of half types has two parts: as rounded, and what rounding dropped. The cubes of few queries
have all rows of a head, with the upstream gradients in shared memory, and those of many small heads
on a processor have them in private memory. So they compute delta themselves, and no launch waits
for one that does. Cubes of many units add in the order of the sum's own launch; rows of which they
cannot are left apart.
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
        """Return a group for each gradient whose launch has all rows of a head."""
        found = [i for i, node in enumerate(graph.nodes) if node.op.name == _GRADIENT]
        suits = info.max_units == 1 or (info.has("planes") and info.has("barrier"))
        if not found or not suits:
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
        nodes = {number, total_of[0], product[0]}

        def alone(value: int, reader: int) -> bool:
            return links_of(graph).readers[value] == [reader] and value not in graph.outputs

        def narrow(value: int, reader: int) -> int:
            """Return what a value is converted from, which is then computed in the launch."""
            cast = maker(value, "cast")
            if cast is None or graph.specs[cast[1].inputs[0]].dtype.itemsize != 2:
                return value
            if alone(value, reader):
                nodes.add(cast[0])
            return cast[1].inputs[0]

        factors: list[tuple[int, ...]] = []
        for value in product[1].inputs:
            parts = maker(value, "add")
            if parts is not None and alone(value, product[0]):
                nodes.add(parts[0])
                factors.append(tuple(narrow(part, parts[0]) for part in parts[1].inputs))
            else:
                factors.append((narrow(value, product[0]),))
        if (upstream,) not in factors:
            return None
        result, *rest = factors[1 - factors.index((upstream,))]
        chosen = tuple(sorted(nodes))
        _, outputs = boundary(graph, chosen)
        known = {graph.specs[value] for value in (upstream, result, *rest)}
        if len(known) > 1 or not set(outputs) <= set(node.outputs):
            return None
        inputs = upstream, result, total, *rest, *operands
        attributes = {**node.attributes, "rest": True} if rest else dict(node.attributes)
        if not _suits(graph, info, attributes, node.outputs, inputs, makers):
            return None
        return Group(chosen, OP, inputs, node.outputs, 0.0, attributes)


def _suits(
    graph: Graph, info: DeviceInfo, attributes: dict[str, Any], outputs: Iterable[int],
    inputs: Iterable[int], makers: dict[int, int],
) -> bool:  # fmt: skip
    """Return whether a launch that has all rows of a head serves a gradient of these operands."""
    ways: Any = import_module("calor_kernel.library.attention.delta_launch")
    views = tuple(_view(graph, value, makers) for value in inputs)
    results = tuple(graph.specs[value] for value in outputs)
    suits: bool = ways.suits(Request(_GRADIENT, attributes, views, results, info))
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
