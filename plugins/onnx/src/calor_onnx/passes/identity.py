"""Removal of nodes without effect: Identity, dropout at inference, casts to the same type."""

from __future__ import annotations

from typing import Any

from calor_onnx.graph import Node
from calor_onnx.passes.looking import Look
from calor_onnx.types import NUMPY

# Operators whose result has the type of their first operand.
_SAME = (
    "Abs", "Add", "AveragePool", "BatchNormalization", "Clip", "Concat", "Conv", "Div", "Erf",
    "Exp", "Expand", "Flatten", "Gather", "Gemm", "GlobalAveragePool", "LayerNormalization",
    "MatMul", "MaxPool", "Mul", "Neg", "Pad", "ReduceMean", "ReduceSum", "Relu", "Reshape",
    "Sigmoid", "Slice", "Softmax", "Sqrt", "Squeeze", "Sub", "Tanh", "Transpose", "Unsqueeze",
)  # fmt: skip
# Number of nodes to look back for a type.
_STEPS = 64


def identity(look: Look) -> bool:
    """Let readers of a node without effect read its operand."""
    changed = False
    for node in list(look.graph.nodes):
        if node.outputs and node.inputs and node.outputs[0] and node.inputs[0]:
            if _same(look, node):
                changed |= look.bypass(node, node.inputs[0])
            elif _reshaped_twice(look, node):
                source = look.makers[node.inputs[0]].inputs[0]
                fresh = [source, node.inputs[1]]
                look.replace(node, _with(node, fresh))
                changed = True
    return changed


def _with(node: Node, inputs: list[str]) -> Node:
    return Node(
        node.op, node.domain, node.version, node.name, inputs, list(node.outputs),
        dict(node.attributes),
    )  # fmt: skip


def _same(look: Look, node: Node) -> bool:
    if any(node.outputs[1:]):
        return False
    if look.standard(node, "Identity"):
        return True
    if look.standard(node, "Dropout", since=7):
        return len(node.inputs) < 3 or not node.inputs[2] or _is_false(look, node.inputs[2])
    if look.standard(node, "Cast", since=6):
        known = dtype_of(look, node.inputs[0])
        return known is not None and known == NUMPY.get(node.attributes.get("to", 0))
    return False


def _is_false(look: Look, name: str) -> bool:
    found = look.constant(name)
    return found is not None and found.size == 1 and not found.array().reshape(-1)[0]


def _reshaped_twice(look: Look, node: Node) -> bool:
    """Return whether a node is a reshape to known sizes after another reshape."""
    if not look.standard(node, "Reshape", since=5) or len(node.inputs) != 2:
        return False
    before = look.made_by(node.inputs[0], "Reshape", "Flatten", since=5)
    sizes = look.integers(node.inputs[1])
    return (
        before is not None and bool(before.inputs[0]) and look.single(node.inputs[0])
        and sizes is not None and 0 not in sizes
    )  # fmt: skip


def dtype_of(look: Look, name: str) -> Any:
    """Return the element type of a value if operators and inputs determine it, else None."""
    for _ in range(_STEPS):
        constant = look.constant(name)
        if constant is not None:
            return constant.dtype
        info = look.infos.get(name)
        if info is not None:
            # Calls check the types of the model's inputs only.
            return info.dtype if info.kind == "tensor" and not look.outer else None
        node = look.makers.get(name)
        if look.standard(node, "Cast", since=6) and node is not None:
            return NUMPY.get(node.attributes.get("to", 0))
        if not look.standard(node, *_SAME) or node is None or name != node.outputs[0]:
            return None
        name = node.inputs[0]
    return None
