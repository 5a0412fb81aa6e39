"""Post-transforms of ai.onnx.ml for scores, and the choice of labels.

The rules for two classes are those of ONNX Runtime, because ONNX does not define them: a model with
one score for two classes derives the other as its complement, as its post-transform does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import calor
from calor_onnx.call import Call
from calor_onnx.computing import constant
from calor_onnx.errors import ModelError
from calor_onnx.graph import used_by
from calor_onnx.values import Later, Narrow

Array = np.ndarray[Any, Any]


def transformed(scores: Any, transform: str) -> Any:
    """Return scores (N, C) after a post-transform of ai.onnx.ml, by its name."""
    if transform in ("", "NONE"):
        return scores
    if transform == "LOGISTIC":
        return calor.sigmoid(scores)
    if transform == "SOFTMAX":
        return calor.softmax(scores, axis=-1)
    if transform == "SOFTMAX_ZERO":
        shown = calor.not_equal(scores, 0)
        powers = calor.where(
            shown, calor.exp(scores - calor.max(scores, axis=-1, keepdims=True)), 0
        )
        return powers / calor.sum(powers, axis=-1, keepdims=True)
    if transform == "PROBIT":
        # The quantile of the normal distribution by the inverse error function.
        return probit(scores)
    raise ModelError(f"post_transform is {transform!r}, which ONNX does not define")


def probit(p: Any) -> Any:
    """Return √2 · erfinv(2 · p − 1) by Winitzki's approximation, which ONNX Runtime uses."""
    x = p * 2 - 1
    sign = calor.where(calor.less(x, 0), -1.0, 1.0)
    log = calor.log((1 - x) * (1 + x))
    constant = 0.147
    v = 2 / (math.pi * constant) + log * 0.5
    return sign * calor.sqrt(calor.sqrt(v * v - log / constant) - v) * math.sqrt(2.0)


def labelled(call: Call, places: Any, integers: Any, strings: Any) -> Any:
    """Return the labels of class indices, on the host if they are texts."""
    if strings:
        texts = np.array(strings, np.object_)
        if is_final(call, 0):
            return Later(places, lambda found: texts[found])
        return texts[call.host(places)]
    if integers is None or list(integers) == list(range(len(integers))):
        return calor.astype(places, calor.int64)
    return calor.take(table(np.array(integers, np.int64), places), places, axis=0)


def is_final(call: Call, place: int) -> bool:
    """Return whether an output is one of the model and only Identity nodes read it."""
    graph, name = call.scope.graph, call.node.outputs[place]
    if not call.traced or call.device is not call.run.device or call.scope.outer is not None:
        return False
    # Outputs of a function's body have no types, and their readers are unknown here.
    ends = {info.name for info in graph.outputs if info.dtype is not None or info.kind != "tensor"}
    names = [name]
    for node in graph.nodes:
        if any(n in used_by(node) for n in names):
            if node.op != "Identity" or node.domain:
                return False
            names += node.outputs
    return any(n in ends for n in names)


def numbers(call: Call, x: Any) -> Any:
    """Return an operand as a tensor of float32 or float64 of the model's device."""
    if isinstance(x, np.ndarray | Narrow):
        x = call.tensor(x)
    return x if x.dtype.kind == "float" else calor.astype(x, calor.float32)


def table(array: Any, like: Any) -> Any:
    """Return a host array as a tensor beside another, in its dtype where both are floats."""
    host = np.asarray(array)
    if host.dtype.kind == "f" and like.dtype.is_floating:
        host = host.astype(like.dtype.numpy)
    return constant(host, like.device)
