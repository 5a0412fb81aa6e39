"""Fusion of attention as exporters write it: scaled scores, softmax, product with values."""

from __future__ import annotations

from calor_onnx.graph import Node
from calor_onnx.passes.looking import Look
from calor_onnx.passes.transposes import permutation

DOMAIN = "calor"


def attention(look: Look) -> bool:
    """Replace MatMul, scale, mask, Softmax, MatMul by one node (Vaswani et al., 2017)."""
    changed = False
    for node in list(look.graph.nodes):
        if look.standard(node, "MatMul"):
            made = _found(look, node)
            if made:
                look.replace(node, *made)
                changed = True
    return changed


def _found(look: Look, node: Node) -> list[Node]:
    weights, values = node.inputs
    softmax = look.made_by(weights, "Softmax")
    if softmax is None or not look.single(weights):
        return []
    axis = softmax.attributes.get("axis", -1 if softmax.version >= 13 else 1)
    scores, bias = _masked(look, softmax.inputs[0])
    product, scale = _scaled(look, scores)
    if product is None or not look.single(product.outputs[0]):
        return []
    query, key = product.inputs
    rank = look.rank(query) or look.rank(key) or look.rank(values)
    if axis != -1 and (rank is None or axis != rank - 1):
        return []
    made = []
    attributes = {"scale": scale, "turned": 1}
    turned = permutation(look, key)
    if turned is not None and len(turned[1]) > 1:
        # The key before its transpose, for which devices have kernels.
        source, perm = turned
        perm = [*perm[:-2], perm[-1], perm[-2]]
        attributes["turned"] = 0
        before, key = key, source
        if perm != sorted(perm):
            key = look.fresh(f"{before}_key")
            made.append(
                Node("Transpose", "", node.version, node.name, [source], [key], {"perm": perm})
            )
    inputs = [query, key, values, *([bias] if bias else [])]
    made.append(
        Node("ScaledAttention", DOMAIN, 1, node.name, inputs, list(node.outputs), attributes)
    )
    return made


def _masked(look: Look, name: str) -> tuple[str, str]:
    """Return the scores and their bias, or an empty name."""
    node = look.made_by(name, "Add", since=7)
    if node is None or not look.single(name):
        return name, ""
    for scores, bias in (node.inputs, node.inputs[::-1]):
        if look.single(scores) and _scaled(look, scores)[0] is not None:
            return scores, bias
    return name, ""


def _scaled(look: Look, name: str) -> tuple[Node | None, float]:
    """Return the product of queries and keys, and its scale."""
    if not look.single(name):
        return None, 1.0
    node = look.made_by(name, "Mul", "Div", since=7)
    if node is None:
        return look.made_by(name, "MatMul"), 1.0
    a, b = node.inputs
    number = look.number(b)
    if number is None and node.op == "Mul":
        a, number = b, look.number(a)
    if not number or not look.single(a):
        return None, 1.0
    return look.made_by(a, "MatMul"), 1 / number if node.op == "Div" else number
