"""What an operation does: bytes that it reads and writes, and the arithmetic of products."""

from __future__ import annotations

from math import prod
from typing import Final

from calor.graph.graph import Graph, Node

# Loops whose number of steps is not known before they run.
_TURNS: Final = 16
# Operations whose result lies where their operand does on devices that fuse, and nearly so on
# others: they cost a step and no bytes.
VIEWS: Final = frozenset(("reshape", "expand", "permute", "slice", "full", "iota", "constant"))


def effort(graph: Graph, node: Node) -> tuple[int, int, int]:
    """Return what a node does.

    Parameters
    ----------
    graph : Graph
        The graph.
    node : Node
        One of its nodes.

    Returns
    -------
    tuple of int
        How many operations it is, the bytes that they read and write, and the arithmetic operations
        of the products among them.
    """
    bodies = [value for value in node.attributes.values() if isinstance(value, Graph)]
    if bodies:
        turns = node.attributes.get("length", _TURNS if node.op.name == "while_loop" else 1)
        efforts = [effort(body, inner) for body in bodies for inner in body.nodes]
        return (
            1 + turns * sum(e[0] for e in efforts),
            turns * sum(e[1] for e in efforts),
            turns * sum(e[2] for e in efforts),
        )
    specs = graph.specs
    if node.op.name in VIEWS:
        return 1, 0, 0
    nbytes = sum(specs[v].nbytes for v in (*node.inputs, *node.outputs))
    return 1, nbytes, _flops(graph, node)


def _flops(graph: Graph, node: Node) -> int:
    specs, name = graph.specs, node.op.name
    made = specs[node.outputs[0]]
    if name == "dot_general":
        (axes, _) = node.attributes["contract"]
        length: int = prod(specs[node.inputs[0]].shape[a] for a in axes)
        return 2 * made.size * length
    if name == "conv":
        return 2 * made.size * prod(specs[node.inputs[1]].shape[1:])
    if name in ("conv_input_gradient", "conv_weight_gradient"):
        # The operands of a convolution and its gradients are the same three arrays.
        sizes = sorted(specs[v].size for v in (*node.inputs, *node.outputs))
        return 2 * sizes[-1] * max(sizes[0] // max(made.shape[0], 1), 1)
    if name.startswith("attention"):
        first = specs[node.inputs[0]]
        return 4 * first.size * max((specs[v].shape[-2] for v in node.inputs[:3]), default=1)
    return 0
