"""Recording the nodes of a graph again, on tensors.

An op that keeps values for its gradient alone (``scan``) has an attribute ``keep``; where its nodes
were traced without gradients and are now recorded with them, it is set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor.device_selection import current_device
from calor.graph.graph import Graph, Node
from calor.local import local
from calor.recording.record import apply, host
from calor.tensor.values import Handle


def replay(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """Record a graph's nodes on these inputs (tensors, or numbers for host inputs)."""
    values: dict[int, Any] = {}
    device = next((x._value.device for x in inputs if isinstance(x, Handle)), None)
    for i, given in zip(graph.inputs, inputs, strict=True):
        if not isinstance(given, Handle):
            given = host(given, graph.specs[i], device or current_device())
        values[i] = given
    for node in graph.nodes:
        made = record_node(node, [values[i] for i in node.inputs])
        # What a loop keeps for its gradient comes last, and only its record reads it.
        values.update(zip(node.outputs, made, strict=False))
    return [values[o] for o in graph.outputs]


def record_node(node: Node, operands: Sequence[Any]) -> tuple[Any, ...]:
    """Record one node on these tensors; return its results."""
    attributes = node.attributes
    if attributes.get("keep") is False and _is_differentiated(operands):
        # A loop inside a sub-graph was traced without gradients; now one may be asked for.
        attributes = {**attributes, "keep": True}
    made = apply(node.op, *operands, **attributes)
    return made if isinstance(made, tuple) else (made,)


def _is_differentiated(operands: Sequence[Any]) -> bool:
    return local.grad_enabled and any(x._record is not None for x in operands)
