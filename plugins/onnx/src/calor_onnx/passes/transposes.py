"""Transposes: composed, cancelled, moved behind elementwise nodes, folded into Gemm."""

from __future__ import annotations

from calor_onnx.graph import Node
from calor_onnx.passes.looking import Look

_UNARY = (
    "Abs", "Cast", "Clip", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu",
    "Log", "Neg", "Reciprocal", "Relu", "Selu", "Sigmoid", "Softplus", "Sqrt", "Tanh",
)  # fmt: skip
_BINARY = ("Add", "Div", "Max", "Min", "Mul", "Pow", "Sub")


def transposes(look: Look) -> bool:
    """Combine transposes, and remove those without effect."""
    changed = False
    for node in list(look.graph.nodes):
        if look.standard(node, "Transpose"):
            changed |= _composed(look, node)
        elif look.standard(node, "Gemm", since=7):
            changed |= _into_gemm(look, node)
        elif look.standard(node, *_UNARY, *_BINARY, since=7 if node.op in _BINARY else 1):
            changed |= _moved(look, node)
    return changed


def permutation(look: Look, name: str) -> tuple[str, list[int]] | None:
    """Return the operand of a transpose and its permutation, if it has one."""
    node = look.made_by(name, "Transpose")
    perm = None if node is None else node.attributes.get("perm")
    if node is None or not perm or sorted(perm) != list(range(len(perm))):
        return None
    return node.inputs[0], perm


def _composed(look: Look, node: Node) -> bool:
    own = permutation(look, node.outputs[0])
    if own is None:
        return False
    source, perm = own
    if perm == sorted(perm):
        return look.bypass(node, source)
    before = permutation(look, source)
    if before is None or len(before[1]) != len(perm):
        return False
    whole = [before[1][place] for place in perm]
    made = Node("Transpose", "", node.version, node.name, [before[0]], list(node.outputs),
                {"perm": whole})  # fmt: skip
    look.replace(node, made)
    if whole == sorted(whole):
        look.bypass(made, before[0])
    return True


def _into_gemm(look: Look, node: Node) -> bool:
    changed = False
    for place, name in enumerate(("transA", "transB")):
        found = permutation(look, node.inputs[place])
        if found is not None and found[1] == [1, 0]:
            inputs = list(node.inputs)
            inputs[place] = found[0]
            attributes = {**node.attributes, name: 0 if node.attributes.get(name, 0) else 1}
            made = Node("Gemm", "", node.version, node.name, inputs, list(node.outputs),
                        attributes)  # fmt: skip
            look.replace(node, made)
            node, changed = made, True
    return changed


def _moved(look: Look, node: Node) -> bool:
    """Move a transpose from the operands of a node to its result."""
    result = node.outputs[0]
    following = look.reader(result)
    if len(node.outputs) != 1 or not look.single(result):
        return False
    if not look.standard(following, "Transpose", *_UNARY, *_BINARY):
        return False
    count = 1 if node.op in _UNARY else len(node.inputs)
    inputs, order = list(node.inputs), None
    for place in range(count):
        name = node.inputs[place]
        found = permutation(look, name)
        if found is not None and look.single(name) and order in (None, found[1]):
            inputs[place], order = found
        elif not _is_scalar(look, name):
            return False
    if order is None:
        return False
    between = look.fresh(f"{result}_before")
    moved = Node(node.op, "", node.version, node.name, inputs, [between], dict(node.attributes))
    turn = Node("Transpose", "", node.version, node.name, [between], [result], {"perm": order})
    look.replace(node, moved, turn)
    return True


def _is_scalar(look: Look, name: str) -> bool:
    found = look.constant(name)
    return found is not None and found.size == 1 and len(found.shape) <= 1
