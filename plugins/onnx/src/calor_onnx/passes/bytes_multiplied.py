"""Products of dequantized bytes by dequantized weights, computed as products of bytes.

Requirements: files of quantized models often dequantize operands and multiply the results. Devices
multiply bytes several times as fast, and the sums are exact, so the result is rounded once. Only
products whose sums are known to fit int32 are replaced.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from calor_onnx.graph import Node
from calor_onnx.passes.looking import Look, inputs_of

_OP: Final = ("com.microsoft", "MatMulIntegerToFloat")
# Largest number of terms in a sum: 255 · 255 · terms < 2³¹.
_TERMS: Final = 33_000
_BYTES: Final = (np.dtype(np.int8), np.dtype(np.uint8))


def bytes_multiplied(look: Look) -> bool:
    """Replace products of dequantized bytes by products of bytes."""
    changed = False
    if _OP in look.functions:
        return changed
    for node in list(look.graph.nodes):
        if not look.standard(node, "MatMul", since=9):
            continue
        made = _product(look, node)
        if made is not None:
            look.replace(node, made)
            changed = True
    return changed


def _product(look: Look, node: Node) -> Node | None:
    a, b = (look.made_by(name, "DequantizeLinear", since=10) for name in node.inputs)
    if a is None or b is None or not _plain(a) or not _plain(b):
        return None
    q, q_scale, q_zero = inputs_of(a, 3)
    w, w_scale, w_zero = inputs_of(b, 3)
    weight = look.constant(w)
    if weight is None or weight.dtype not in _BYTES or len(weight.shape) != 2:
        return None
    if weight.shape[0] > _TERMS or not _is_bytes(look, q, q_zero):
        return None
    if not _fits(look, q_scale, q_zero, 1, None):
        return None
    last = b.attributes.get("axis", 1) in (1, -1)
    if not _fits(look, w_scale, w_zero, weight.shape[1] if last else 1, weight.dtype):
        return None
    inputs = [q, w, q_scale, w_scale, q_zero, w_zero]
    while not inputs[-1]:
        inputs.pop()
    return Node(_OP[1], _OP[0], 1, node.name, inputs, list(node.outputs))


def _plain(node: Node) -> bool:
    """Return whether a node has no blocks and its result has the type of its scale."""
    return not any(node.attributes.get(name) for name in ("block_size", "output_dtype"))


def _is_bytes(look: Look, name: str, zero: str) -> bool:
    """Return whether a value has bytes, by its zero point or its quantization."""
    known = look.constant(zero)
    if known is not None:
        return known.dtype in _BYTES
    maker = look.made_by(name, "QuantizeLinear", since=10)
    if zero or maker is None or inputs_of(maker, 3)[2]:
        return False
    return not maker.attributes.get("output_dtype")


def _fits(look: Look, scale: str, zero: str, columns: int, dtype: np.dtype | None) -> bool:
    """Return whether a float32 scale and a zero point are one number, or one for each column."""
    rate, offset = look.constant(scale), look.constant(zero)
    if rate is None or rate.dtype != np.float32 or (zero and offset is None):
        return False
    known = [rate] if offset is None else [rate, offset]
    if dtype is not None and offset is not None and offset.dtype != dtype:
        return False
    return all(c.size == 1 or (c.size == columns and len(c.shape) == 1) for c in known)
