"""Layer normalization as exporters of opsets before 17 write it."""

from __future__ import annotations

from calor_onnx.graph import Node
from calor_onnx.passes.looking import Look, inputs_of


def layer_norm(look: Look) -> bool:
    """Replace means, differences and roots by LayerNormalization (Ba et al., 2016)."""
    changed = False
    for node in list(look.graph.nodes):
        made = None
        if look.standard(node, "Mul", since=7):
            made = _scaled(look, node)
        elif look.standard(node, "Add", since=7):
            made = _shifted(look, node)
        if made is not None:
            look.replace(node, made)
            changed = True
    return changed


def _scaled(look: Look, node: Node) -> Node | None:
    for normal, scale in (node.inputs, node.inputs[::-1]):
        weight = look.constant(scale)
        found = _normalized(look, normal)
        if weight is not None and len(weight.shape) == 1 and found is not None:
            source, epsilon = found
            return Node(
                "LayerNormalization", "", max(node.version, 17), node.name, [source, scale],
                list(node.outputs), {"axis": -1, "epsilon": epsilon},
            )  # fmt: skip
    return None


def _shifted(look: Look, node: Node) -> Node | None:
    for normal, bias in (node.inputs, node.inputs[::-1]):
        before = look.made_by(normal, "LayerNormalization")
        weight = look.constant(bias)
        if before is None or weight is None or not look.single(normal):
            continue
        scale = look.constant(before.inputs[1])
        plain = len(before.inputs) == 2 and not any(before.outputs[1:])
        if plain and scale is not None and weight.shape == scale.shape:
            return Node(
                "LayerNormalization", "", before.version, node.name, [*before.inputs, bias],
                list(node.outputs), dict(before.attributes),
            )  # fmt: skip
    return None


def _normalized(look: Look, name: str) -> tuple[str, float] | None:
    """Match (x − mean) / √(variance + ε) over the last axis and return x and ε."""
    quotient = look.made_by(name, "Div", since=7)
    if quotient is None:
        return None
    difference, root = quotient.inputs
    source = _centred(look, difference)
    square_root = look.made_by(root, "Sqrt", since=6)
    if source is None or square_root is None:
        return None
    total = look.made_by(square_root.inputs[0], "Add", since=7)
    if total is None:
        return None
    for variance, small in (total.inputs, total.inputs[::-1]):
        epsilon = look.number(small)
        if epsilon is not None and _is_variance(look, variance, source):
            return source, epsilon
    return None


def _centred(look: Look, name: str) -> str | None:
    """Match x − mean(x) and return x."""
    node = look.made_by(name, "Sub", since=7)
    if node is None:
        return None
    source, mean = node.inputs
    return source if _mean_of(look, mean) == source else None


def _mean_of(look: Look, name: str) -> str | None:
    """Match a mean over the last axis that keeps it, and return its operand."""
    node = look.made_by(name, "ReduceMean")
    if node is None or not node.attributes.get("keepdims", 1):
        return None
    axes = node.attributes.get("axes")
    if node.version >= 18:
        axes = look.integers(inputs_of(node, 2)[1])
    if axes is None or len(axes) != 1:
        return None
    rank = look.rank(node.inputs[0])
    return node.inputs[0] if axes[0] == -1 or (rank and axes[0] == rank - 1) else None


def _is_variance(look: Look, name: str, source: str) -> bool:
    squared = _mean_of(look, name)
    node = None if squared is None else look.made_by(squared, "Pow", "Mul", since=7)
    if node is None:
        return False
    base, other = node.inputs
    if node.op == "Pow":
        return look.number(other) == 2 and _centred(look, base) == source
    return base == other and _centred(look, base) == source
