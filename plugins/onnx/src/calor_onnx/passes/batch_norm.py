"""Batch normalization at inference, folded into the weights of the layer before.

The new weights are computed during their upload, one layer at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calor_onnx.constants import Constant
from calor_onnx.graph import Node
from calor_onnx.passes.looking import Look, inputs_of
from calor_onnx.scratch import Room

Array = np.ndarray[Any, Any]


def batch_norm(look: Look) -> bool:
    """Replace a Conv or Gemm and the normalization after it by one Conv or Gemm."""
    changed = False
    for node in list(look.graph.nodes):
        if look.standard(node, "BatchNormalization", since=7) and _infers(node):
            layer = look.made_by(node.inputs[0], "Conv", "ConvTranspose", "Gemm")
            if layer is not None and look.single(node.inputs[0]):
                changed |= _folded(look, node, layer)
    return changed


def _infers(node: Node) -> bool:
    options = node.attributes
    plain = options.get("spatial", 1) and not options.get("training_mode", 0)
    return len(node.inputs) == 5 and not any(node.outputs[1:]) and bool(plain)


def _folded(look: Look, node: Node, layer: Node) -> bool:
    name, bias_name = inputs_of(layer, 3)[1:]
    weight, bias = look.constant(name), look.constant(bias_name)
    moments = [look.constant(n) for n in node.inputs[1:]]
    if weight is None or (bias_name and bias is None) or any(m is None for m in moments):
        return False
    axis = _axis(layer, weight)
    if axis is None or weight.dtype not in (np.float32, np.float64):
        return False
    count = weight.shape[axis]
    constants = [c for c in (*moments, bias) if c is not None]
    if any(c.shape != (count,) or c.dtype != weight.dtype for c in constants):
        return False
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    made, shift = look.fresh(f"{name}_normalized"), look.fresh(f"{node.outputs[0]}_shift")
    kept = [m for m in moments if m is not None]
    look.graph.constants[made] = Constant(
        weight.dtype, weight.shape, _scaled(weight, axis, kept, epsilon)
    )
    look.graph.constants[shift] = Constant(weight.dtype, (count,), _shift(bias, kept, epsilon))
    inputs = [layer.inputs[0], made, shift]
    look.replace(
        node,
        Node(layer.op, "", layer.version, layer.name or node.name, inputs, list(node.outputs),
             dict(layer.attributes)),
    )  # fmt: skip
    return True


def _axis(layer: Node, weight: Constant) -> int | None:
    """Return the channel axis of a layer's weights; None if the layer does more than multiply."""
    if layer.op == "Conv":
        return 0 if len(weight.shape) > 2 else None
    options = layer.attributes
    if layer.op == "ConvTranspose":
        return 1 if len(weight.shape) > 2 and options.get("group", 1) == 1 else None
    plain = options.get("alpha", 1.0) == 1 and options.get("beta", 1.0) == 1
    if not plain or layer.version < 7 or len(weight.shape) != 2:
        return None
    return 0 if options.get("transB", 0) else 1


def _rate(moments: list[Constant], epsilon: float) -> Array:
    scale, _, _, variance = (m.array().astype(np.float64) for m in moments)
    rate: Array = scale / np.sqrt(variance + epsilon)
    return rate


def _scaled(
    weight: Constant, axis: int, moments: list[Constant], epsilon: float
) -> Callable[[Room], Array]:
    def read(room: Room) -> Array:
        shape = [1] * len(weight.shape)
        shape[axis] = -1
        rate = _rate(moments, epsilon).astype(weight.dtype)
        made = room(weight.shape, weight.dtype)
        np.multiply(weight.array(), rate.reshape(shape), out=made)
        return made

    return read


def _shift(
    bias: Constant | None, moments: list[Constant], epsilon: float
) -> Callable[[Room], Array]:
    def read(none: Room) -> Array:
        _, shift, mean, _ = (m.array().astype(np.float64) for m in moments)
        given = 0.0 if bias is None else bias.array().astype(np.float64)
        made: Array = (given - mean) * _rate(moments, epsilon) + shift
        return made.astype(moments[0].dtype)

    return read
