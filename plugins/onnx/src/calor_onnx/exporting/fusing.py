"""Fusion of scale and bias into ONNX's operators of norms.

calor's graphs have a norm without weights, a product and a sum; runtimes are faster with one
operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import onnx

from calor_onnx.exporting.writer import Shared

_NORMS = ("LayerNormalization", "RMSNormalization")


def fuse_norms(
    nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], shared: Shared
) -> list[onnx.NodeProto]:
    """Return the nodes with products and sums fused into the norms before them."""
    uses = _uses(nodes)
    uses.update(outputs)
    makers: dict[str, onnx.NodeProto] = {}
    kept: list[onnx.NodeProto] = []
    for node in nodes:
        if node.op_type in _NORMS:
            # Nodes are copied, because other holders of a node must not see the change.
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            node = copy
            makers[node.output[0]] = node
        elif node.op_type in ("Mul", "Add") and _absorbed(node, makers, uses, shared):
            continue
        kept.append(node)
    return kept


def _absorbed(
    node: onnx.NodeProto,
    makers: dict[str, onnx.NodeProto],
    uses: Counter[str],
    shared: Shared,
) -> bool:
    for source, weight in (tuple(node.input), tuple(reversed(node.input))):
        norm = makers.get(source)
        if norm is None or uses[source] != 1 or weight not in shared.initializers:
            continue
        plain = shared.initializers[norm.input[1]]
        fits = shared.initializers[weight].shape == plain.shape
        if not fits or shared.types[weight] is not shared.types[source]:
            continue
        if node.op_type == "Mul" and len(norm.input) == 2 and norm.input[1] in shared.ones:
            norm.input[1] = weight
        elif node.op_type == "Add" and norm.op_type == _NORMS[0] and len(norm.input) == 2:
            norm.input.append(weight)
        else:
            continue
        del makers[source]
        norm.output[0] = node.output[0]
        makers[node.output[0]] = norm
        return True
    return False


def _uses(nodes: Sequence[onnx.NodeProto]) -> Counter[str]:
    found: Counter[str] = Counter()
    for node in nodes:
        found.update(node.input)
        for attribute in node.attribute:
            found.update(_uses(attribute.g.node))
            found.update(output.name for output in attribute.g.output)
    return found
