"""Replacing kept composites by the smaller ops that define them."""

from __future__ import annotations

from collections.abc import Mapping

from calor.graph.attributes import exact_items
from calor.graph.graph import Builder, Graph
from calor.graph.op import Op
from calor.interning import remember
from calor.specs import Spec

_MEMO: dict[object, Graph] = {}


def definition(op: Op, inputs: tuple[Spec, ...], attributes: dict[str, object]) -> Graph:
    """Return the graph that defines a kept composite for these operand specs."""
    key = (op, inputs, exact_items(attributes))
    found = _MEMO.get(key)
    if found is None:
        found = remember(_MEMO, key, op.definition(inputs, attributes))
    return found


def decompose(graph: Graph, only: frozenset[int] | None = None) -> Graph:
    """Return the graph with composites decomposed, until none is left.

    ``only`` limits it to these node indices and to one level: a decomposition may contain
    composites that a device takes.
    """
    targets = {
        i
        for i, node in enumerate(graph.nodes)
        if node.op.decompose is not None and (only is None or i in only)
    }
    if not targets:
        return graph
    builder = Builder()
    numbers = {i: builder.input(graph.specs[i], i in graph.host) for i in graph.inputs}
    for i, node in enumerate(graph.nodes):
        if i not in targets:
            builder.take(graph, [node], numbers)
            continue
        specs = tuple(graph.specs[v] for v in node.inputs)
        body = definition(node.op, specs, dict(node.attributes))
        operands = [numbers[v] for v in node.inputs]
        made = builder.inline(decompose(body) if only is None else body, operands)
        numbers.update(zip(node.outputs, made, strict=True))
    return builder.build([numbers[o] for o in graph.outputs])


def plain(graph: Graph) -> Graph:
    """Return the graph without nodes that serve only its gradient: stops and rules of users.

    These contain Python functions, and devices get plain data. Sub-graphs are treated alike. A
    graph without such nodes is returned as it is.
    """
    marks = frozenset(i for i, node in enumerate(graph.nodes) if node.op.gradient_only)
    if marks:
        return plain(decompose(graph, marks))
    bodies = {
        i: attributes
        for i, node in enumerate(graph.nodes)
        if (attributes := _with_plain_bodies(node.attributes)) is not node.attributes
    }
    if not bodies:
        return graph
    builder = Builder()
    for i in graph.inputs:
        builder.input(graph.specs[i], i in graph.host)
    for i, node in enumerate(graph.nodes):
        specs = [graph.specs[o] for o in node.outputs]
        builder.add(node.op, node.inputs, bodies.get(i, node.attributes), specs)
    return builder.build(graph.outputs)


def _with_plain_bodies(attributes: Mapping[str, object]) -> Mapping[str, object]:
    found = {
        name: body
        for name, value in attributes.items()
        if isinstance(value, Graph) and (body := plain(value)) is not value
    }
    return {**attributes, **found} if found else attributes
