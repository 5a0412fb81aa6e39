"""Replacing kept composites by the smaller ops that define them."""

from __future__ import annotations

from calor.graph.graph import Builder, Graph
from calor.ops.base import Op
from calor.specs import Spec

_MEMO: dict[object, Graph] = {}


def definition(op: Op, inputs: tuple[Spec, ...], attributes: dict[str, object]) -> Graph:
    """Return the graph that defines a kept composite for these operand specs."""
    key = (op, inputs, tuple(sorted(attributes.items())))
    found = _MEMO.get(key)
    if found is None:
        from calor.graph.tracing import trace_function

        if op.decompose is None:
            raise AssertionError(f"op {op.name} is a primitive")
        found = trace_function(op.decompose, inputs, attributes)
        _MEMO[key] = found
    return found


def decompose(graph: Graph, only: frozenset[int] | None = None) -> Graph:
    """Return the graph with kept composites decomposed, until none is left.

    ``only`` limits it to those node indices and to one level: what they decompose into may hold
    kept composites again, which a device may take.
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
        operands = [numbers[v] for v in node.inputs]
        if i in targets:
            specs = tuple(graph.specs[v] for v in node.inputs)
            body = definition(node.op, specs, dict(node.attributes))
            made = builder.inline(decompose(body) if only is None else body, operands)
        else:
            made = builder.add(
                node.op, operands, node.attributes, [graph.specs[o] for o in node.outputs]
            )
        numbers.update(zip(node.outputs, made, strict=True))
    return builder.build([numbers[o] for o in graph.outputs])
