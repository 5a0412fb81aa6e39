"""Python source for common operators, as calls of calor's functions with the same meaning.

A template gets a node as :class:`Written` and returns an expression, or None for rare cases of the
operator. Those are written as a call of ``onnx``, which is :func:`calor_onnx.apply`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calor_onnx.graph import Node


@dataclass(frozen=True)
class Written:
    """A node to write, with the expressions of its operands.

    ``constants`` are host arrays by position; ``ranks`` and ``floats`` have the rank of an operand
    and whether its type is floating, by position.
    """

    node: Node
    operands: list[str]
    constants: dict[int, Any]
    ranks: dict[int, int]
    floats: dict[int, bool]

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute."""
        return self.node.attributes.get(name, default)

    def numbers(self, place: int) -> list[int] | None:
        """Return the elements of a constant operand as integers, or None."""
        found = self.constants.get(place)
        return None if found is None else [int(n) for n in np.asarray(found).reshape(-1)]


Template = Callable[[Written], str | None]
TEMPLATES: dict[str, Template] = {}


def template(*names: str) -> Callable[[Template], Template]:
    """Register the template of operators."""

    def register(function: Template) -> Template:
        TEMPLATES.update(dict.fromkeys(names, function))
        return function

    return register


def calls(function: str, *names: str) -> None:
    """Register operators that are one function call without attributes."""

    def made(w: Written) -> str | None:
        return None if w.node.attributes else f"{function}({', '.join(w.operands)})"

    TEMPLATES.update(dict.fromkeys(names, made))


_SIGNS = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/"}
for _function, _name in {
    "calor.relu": "Relu", "calor.sigmoid": "Sigmoid", "calor.tanh": "Tanh", "calor.exp": "Exp",
    "calor.log": "Log", "calor.sqrt": "Sqrt", "calor.abs": "Abs", "calor.erf": "Erf",
    "calor.softplus": "Softplus", "calor.floor": "Floor", "calor.ceil": "Ceil",
    "calor.sin": "Sin", "calor.cos": "Cos", "calor.where": "Where", "calor.negative": "Neg",
    "calor.reciprocal": "Reciprocal",
}.items():  # fmt: skip
    calls(_function, _name)


@template(*_SIGNS)
def arithmetic(w: Written) -> str | None:
    """Write arithmetic with its sign; quotients of integers round differently in ONNX."""
    if w.node.attributes or (w.node.op == "Div" and not all(w.floats.values())):
        return None
    return f"{_inner(w.operands[0])} {_SIGNS[w.node.op]} {_inner(w.operands[1])}"


@template("MatMul")
def matmul(w: Written) -> str | None:
    """Write a matrix product with its operator sign."""
    return f"{_inner(w.operands[0])} @ {_inner(w.operands[1])}"


def _inner(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


@template("Pow")
def power(w: Written) -> str | None:
    """Write a power with its operator sign; its type is the base's in ONNX."""
    if w.node.attributes or len({*w.floats.values()}) > 1:
        return None
    return f"{_inner(w.operands[0])} ** {_inner(w.operands[1])}"


@template("Identity", "Dropout")
def identity(w: Written) -> str | None:
    """Write the operand itself."""
    return w.operands[0] if len(w.node.outputs) == 1 else None


@template("Gemm")
def gemm(w: Written) -> str | None:
    """Write a linear layer without scale factors."""
    if w.get("alpha", 1.0) != 1 or w.get("beta", 1.0) != 1 or w.get("transA", 0):
        return None
    weight = w.operands[1] if w.get("transB", 0) else f"{w.operands[1]}.T"
    more = f", {w.operands[2]}" if len(w.operands) > 2 and w.ranks.get(2) == 1 else ""
    if len(w.operands) > 2 and not more:
        return None
    return f"F.linear({w.operands[0]}, {weight}{more})"


@template("Conv")
def conv(w: Written) -> str | None:
    """Write a convolution with equal padding on both sides."""
    rank = w.ranks.get(0, 0) - 2
    options = _window(w, rank, stride=True)
    if rank not in (1, 2, 3) or options is None:
        return None
    if w.get("group", 1) != 1:
        options.append(f"groups={w.get('group')}")
    return f"F.conv{rank}d({', '.join([*w.operands, *options])})"


@template("MaxPool", "AveragePool")
def pool(w: Written) -> str | None:
    """Write a pool whose windows lie within the padded operand."""
    rank = w.ranks.get(0, 0) - 2
    options = _window(w, rank, stride=False)
    if rank not in (1, 2, 3) or options is None or w.get("ceil_mode") or len(w.node.outputs) > 1:
        return None
    padded = any(w.get("pads") or [])
    strides = w.get("strides") or [1] * rank
    if w.node.op == "AveragePool" and padded and not w.get("count_include_pad"):
        options.append("count_include_pad=False")
    if w.node.op == "AveragePool" and w.get("dilations"):
        return None
    name = "max" if w.node.op == "MaxPool" else "avg"
    kernel = _short(w.get("kernel_shape"))
    inside = ", ".join([w.operands[0], kernel, f"stride={_short(strides)}", *options])
    return f"F.{name}_pool{rank}d({inside})"


def _window(w: Written, rank: int, *, stride: bool) -> list[str] | None:
    """Return the options of a window, or None if the padding differs between sides."""
    pads = w.get("pads") or [0] * (2 * rank)
    if w.get("auto_pad", "NOTSET") != "NOTSET" or pads[:rank] != pads[rank:]:
        return None
    options = []
    strides, dilations = w.get("strides") or [1], w.get("dilations") or [1]
    if stride and any(n != 1 for n in strides):
        options.append(f"stride={_short(strides)}")
    if any(pads):
        options.append(f"padding={_short(pads[:rank])}")
    if any(n != 1 for n in dilations):
        options.append(f"dilation={_short(dilations)}")
    return options


def _short(values: Any) -> str:
    """Return equal numbers as one, others as a tuple."""
    return str(values[0]) if len({*values}) == 1 else str(tuple(values))


@template("BatchNormalization")
def batch_norm(w: Written) -> str | None:
    """Write normalization by running statistics."""
    if len(w.node.outputs) > 1 or w.get("training_mode") or w.ranks.get(0, 0) < 2:
        return None
    if not w.get("spatial", 1):
        return None
    x, scale, bias, mean, variance = w.operands
    eps = w.get("epsilon", 1e-5)
    return f"F.batch_norm({x}, {mean}, {variance}, {scale}, {bias}, eps={eps:.6g}).output"


@template("GlobalAveragePool")
def global_average(w: Written) -> str | None:
    """Write the mean over all spatial axes."""
    axes = tuple(range(2, w.ranks.get(0, 0)))
    return f"calor.mean({w.operands[0]}, axis={axes}, keepdims=True)" if axes else None


@template("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
def reduction(w: Written) -> str | None:
    """Write a reduction over known axes."""
    axes = w.get("axes") if len(w.operands) < 2 else w.numbers(1)
    if not axes or w.get("noop_with_empty_axes"):
        return None
    name = w.node.op.removeprefix("Reduce").lower()
    where = str(axes[0]) if len(axes) == 1 else str(tuple(axes))
    keep = ", keepdims=True" if w.get("keepdims", 1) else ""
    return f"calor.{name}({w.operands[0]}, axis={where}{keep})"


@template("Softmax", "LogSoftmax")
def softmax(w: Written) -> str | None:
    """Write the softmax along an axis."""
    if w.node.version < 13:
        return None
    name = "softmax" if w.node.op == "Softmax" else "log_softmax"
    return f"calor.{name}({w.operands[0]}, axis={w.get('axis', -1)})"


@template("Transpose")
def transpose(w: Written) -> str | None:
    """Write a permutation of axes."""
    order = w.get("perm")
    return None if order is None else f"calor.permute_dims({w.operands[0]}, {tuple(order)})"


@template("Reshape")
def reshape(w: Written) -> str | None:
    """Write a reshape to a known shape that keeps no size by 0."""
    shape = w.numbers(1)
    if shape is None or 0 in shape:
        return None
    return f"calor.reshape({w.operands[0]}, {tuple(shape)})"


@template("Flatten")
def flatten(w: Written) -> str | None:
    """Write the flattening of all axes but the first."""
    if w.get("axis", 1) != 1 or not w.ranks.get(0):
        return None
    return f"calor.reshape({w.operands[0]}, ({w.operands[0]}.shape[0], -1))"


@template("Concat")
def concat(w: Written) -> str | None:
    """Write a concatenation along an axis."""
    return f"calor.concat([{', '.join(w.operands)}], axis={w.get('axis', 1)})"


@template("Squeeze", "Unsqueeze")
def squeeze(w: Written) -> str | None:
    """Write the removal or insertion of axes of size 1."""
    axes = w.get("axes") if len(w.operands) < 2 else w.numbers(1)
    if not axes or len(axes) != 1:
        return None
    name = "squeeze" if w.node.op == "Squeeze" else "expand_dims"
    return f"calor.{name}({w.operands[0]}, axis={axes[0]})"


@template("Gather")
def gather(w: Written) -> str | None:
    """Write a lookup of rows; a known position becomes an index."""
    axis = w.get("axis", 0)
    places = w.constants.get(1)
    if places is None or np.ndim(places) or axis < 0:
        return None
    return f"{w.operands[0]}[{', '.join([*[':'] * axis, str(int(places))])}]"


@template("LayerNormalization")
def layer_norm(w: Written) -> str | None:
    """Write a normalization over the last axis."""
    if len(w.node.outputs) > 1 or w.get("axis", -1) not in (-1, w.ranks.get(0, 0) - 1):
        return None
    x, *weights = w.operands
    eps = w.get("epsilon", 1e-5)
    return f"F.layer_norm({x}, {weights[0]}.shape, {', '.join(weights)}, eps={eps:.6g})"


@template("Gelu")
def gelu(w: Written) -> str | None:
    """Write Gelu: x times the normal distribution function of x."""
    kind = w.get("approximate", "none")
    return f"calor.gelu({w.operands[0]}{'' if kind == 'none' else f', {kind!r}'})"


@template("LeakyRelu", "Elu")
def leaky(w: Written) -> str | None:
    """Write a rectifier with a slope."""
    name, usual = ("leaky_relu", 0.01) if w.node.op == "LeakyRelu" else ("elu", 1.0)
    return f"calor.{name}({w.operands[0]}, {w.get('alpha', usual):.7g})"


@template("Clip")
def clip(w: Written) -> str | None:
    """Write a clamp to known bounds."""
    if len(w.operands) > 1:
        low, high = (w.constants.get(place) for place in (1, 2))
        if low is None or high is None:
            return None
        low, high = np.asarray(low).item(), np.asarray(high).item()
    else:
        low, high = w.get("min"), w.get("max")
        if low is None or high is None:
            return None
    if not (np.isfinite(low) and np.isfinite(high)):
        return None
    return f"calor.clip({w.operands[0]}, {_number(low)}, {_number(high)})"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.17g}"
