"""Fusion of Gelu as exporters write it, with the error function or the hyperbolic tangent.

The forms are those of Hendrycks and Gimpel, "Gaussian error linear units", 2016.
"""

from __future__ import annotations

from math import isclose, pi, sqrt

from calor_onnx.graph import Node
from calor_onnx.passes.looking import Look


def gelu(look: Look) -> bool:
    """Replace products equal to x/2 · (1 + erf(x/√2)), or the tanh form, by Gelu."""
    changed = False
    for node in list(look.graph.nodes):
        if look.standard(node, "Mul", "Div", since=7):
            found = _found(look, node)
            if found is not None:
                source, how = found
                attributes = {"approximate": how}
                made = Node("Gelu", "", max(node.version, 20), node.name, [source],
                            list(node.outputs), attributes)  # fmt: skip
                look.replace(node, made)
                changed = True
    return changed


def _found(look: Look, node: Node) -> tuple[str, str] | None:
    rate, terms = factors(look, node.outputs[0])
    if len(terms) != 2 or not isclose(rate, 0.5, rel_tol=1e-4):
        return None
    for source, curve in (terms, terms[::-1]):
        plus = look.made_by(curve, "Add", since=7)
        if plus is None:
            continue
        for bent, one in (plus.inputs, plus.inputs[::-1]):
            if not look.is_number(one, 1.0):
                continue
            if _is_erf(look, bent, source):
                return source, "none"
            if _is_tanh(look, bent, source):
                return source, "tanh"
    return None


def _is_erf(look: Look, name: str, source: str) -> bool:
    node = look.made_by(name, "Erf", since=9)
    if node is None:
        return False
    rate, terms = factors(look, node.inputs[0])
    return terms == [source] and isclose(rate, sqrt(0.5), rel_tol=1e-4)


def _is_tanh(look: Look, name: str, source: str) -> bool:
    """Return whether a value is tanh(√(2/π) · (x + 0.044715 · x³))."""
    node = look.made_by(name, "Tanh", since=6)
    if node is None:
        return False
    rate, terms = factors(look, node.inputs[0])
    total = look.made_by(terms[0], "Add", since=7) if len(terms) == 1 else None
    if total is None or not isclose(rate, sqrt(2 / pi), rel_tol=1e-4):
        return False
    for x, cubic in (total.inputs, total.inputs[::-1]):
        share, parts = factors(look, cubic)
        if x == source and parts == [source] * 3 and isclose(share, 0.044715, rel_tol=1e-3):
            return True
    return False


def factors(look: Look, name: str, depth: int = 4) -> tuple[float, list[str]]:
    """Return a value as a number times other values, through products, quotients and powers."""
    node = look.made_by(name, "Mul", "Div", "Pow", since=7) if depth else None
    if node is None or len(node.inputs) != 2:
        return 1.0, [name]
    a, b = node.inputs
    number = look.number(b)
    if node.op == "Pow":
        return (1.0, [a, a, a]) if number == 3 else (1.0, [name])
    if node.op == "Div":
        if not number:
            return 1.0, [name]
        rate, terms = factors(look, a, depth - 1)
        return rate / number, terms
    if number is not None:
        rate, terms = factors(look, a, depth - 1)
        return rate * number, terms
    first = look.number(a)
    if first is not None:
        rate, terms = factors(look, b, depth - 1)
        return rate * first, terms
    left, right = factors(look, a, depth - 1), factors(look, b, depth - 1)
    return left[0] * right[0], [*left[1], *right[1]]
