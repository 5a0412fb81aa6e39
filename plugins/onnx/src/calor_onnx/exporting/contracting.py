"""Matrix products, convolutions and pooling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calor.dtypes import DType
from calor_onnx.exporting.errors import Refused
from calor_onnx.exporting.graphs import row
from calor_onnx.exporting.moving import padded, sliced
from calor_onnx.exporting.program import Step
from calor_onnx.exporting.sizes import Size, total
from calor_onnx.exporting.writer import Writer


@row("dot_general")
def dot_general(w: Writer, step: Step, a: str, b: str) -> str:
    contract, batch = step.attributes["contract"], step.attributes["batch"]
    left, right = step.takes[0].shape, step.takes[1].shape
    free_a = [i for i in range(len(left)) if i not in contract[0] + batch[0]]
    free_b = [i for i in range(len(right)) if i not in contract[1] + batch[1]]
    dtype = step.attributes["dtype"]
    wide = dtype.itemsize >= w.type_of(a).itemsize
    if wide:
        a, b = w.cast(a, dtype), w.cast(b, dtype)
    a = w.transpose(a, [*batch[0], *free_a, *contract[0]])
    b = w.transpose(b, [*batch[1], *contract[1], *free_b])
    lead = [left[i] for i in batch[0]]
    rows, columns = [left[i] for i in free_a], [right[i] for i in free_b]
    inner = [left[i] for i in contract[0]]
    simple = len(inner) == 1 and len(columns) == 1 and (len(rows) == 1 or (bool(rows) and not lead))
    if simple:
        return w.cast(w.call("MatMul", a, b), dtype)
    a = w.reshape(a, [*lead, total(rows), total(inner)])
    b = w.reshape(b, [*lead, total(inner), total(columns)])
    made = w.reshape(w.call("MatMul", a, b), step.gives[0].shape)
    return w.cast(made, dtype)


def _known(attributes: Mapping[str, Any]) -> None:
    """Raise Refused for windows, strides and padding that depend on symbolic sizes."""

    def symbolic(value: Any) -> bool:
        return any(map(symbolic, value)) if isinstance(value, tuple) else isinstance(value, Size)

    for name in ("window", "stride", "padding", "dilation"):
        if symbolic(attributes.get(name)):
            raise Refused(f"its {name} depends on a symbolic size")


def _floats(dtype: DType, operator: str) -> None:
    if not dtype.is_floating:
        raise Refused(f"ONNX's {operator} takes only floating types, not {dtype.name}")


def _pads(padding: Any) -> list[int]:
    if any(n < 0 for pair in padding for n in pair):
        raise Refused("ONNX has no negative padding")
    return [low for low, _ in padding] + [high for _, high in padding]


@row("conv")
def conv(w: Writer, step: Step, x: str, weight: str) -> str:
    _floats(w.type_of(x), "Conv")
    a = step.attributes
    _known(a)
    x = _cropped(w, step, x)
    return w.call(
        "Conv",
        x,
        weight,
        strides=list(a["stride"]),
        dilations=list(a["dilation"]),
        pads=[max(n, 0) for side in zip(*a["padding"], strict=True) for n in side],
        group=a["groups"],
    )


def _cropped(w: Writer, step: Step, x: str) -> str:
    """Return the input of a convolution cropped by its negative padding."""
    sizes, axes, starts, stops = step.takes[0].shape[2:], [], [], []
    for i, (low, high) in enumerate(step.attributes["padding"]):
        if low < 0 or high < 0:
            axes.append(2 + i)
            starts.append(max(-low, 0))
            stops.append(sizes[i] + min(high, 0))
    return sliced(w, x, starts, stops, axes, [1] * len(axes))


@row("conv_input_gradient")
def conv_transpose(w: Writer, step: Step, g: str, weight: str) -> str:
    _floats(w.type_of(g), "ConvTranspose")
    a, rank = step.attributes, len(step.attributes["stride"])
    _known(a)
    sizes, window = step.takes[0].shape[2:], step.takes[1].shape[2:]
    pads, extra = _pads(a["padding"]), []
    for i in range(rank):
        reach = a["dilation"][i] * (window[i] - 1) + 1
        plain = a["stride"][i] * (sizes[i] - 1) + reach - pads[i] - pads[rank + i]
        more = w.shared.program.samples.settled(a["input_shape"][2 + i] - plain)
        if isinstance(more, Size):
            raise Refused("the output padding depends on a symbolic size")
        extra.append(more)
    return w.call(
        "ConvTranspose",
        g,
        weight,
        strides=list(a["stride"]),
        dilations=list(a["dilation"]),
        pads=pads,
        output_padding=extra,
        group=a["groups"],
    )


@row("window_reduce")
def window_reduce(w: Writer, step: Step, x: str) -> str:
    a, kind, dtype = step.attributes, step.attributes["kind"], w.type_of(x)
    rank = len(a["window"])
    if tuple(a["window"]) == step.takes[0].shape[-rank:] and not any(_pads(a["padding"])):
        # One window over all elements, whose sizes may be symbolic.
        whole = {"sum": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin"}[kind]
        return w.call(whole, x, w.integers(range(-rank, 0)), typed=[0], keepdims=1)
    _known(a)
    operator = "AveragePool" if kind == "sum" else "MaxPool"
    if kind != "max":
        _floats(dtype, operator)
    shape = list(step.takes[0].shape)
    lead = shape[: len(shape) - rank]
    pads = _pads(a["padding"])
    if any(p >= n for p, n in zip(pads, a["window"] * 2, strict=True)):
        # ONNX's windows begin within the elements, so the operand is padded first.
        least = 0 if kind == "sum" else _least(dtype) if kind == "max" else np.inf
        sides = [0] * len(lead)
        x = padded(w, x, w.constant(least, dtype), sides + pads[:rank], sides + pads[rank:])
        padding = zip(pads[:rank], pads[rank:], strict=True)
        inside = [n + low + high for n, (low, high) in zip(shape[-rank:], padding, strict=True)]
        shape, pads = [*lead, *inside], [0] * len(pads)
    if len(lead) != 2:
        x = w.reshape(x, [1, total(lead), *shape[len(lead) :]])
    given: dict[str, Any] = {
        "kernel_shape": list(a["window"]),
        "strides": list(a["stride"]),
        "pads": pads,
        "dilations": list(a["dilation"]),
    }
    if kind == "sum":
        count = w.constant(int(np.prod(a["window"])), dtype)
        made = w.call("Mul", w.call(operator, x, count_include_pad=1, **given), count)
    elif kind == "max":
        made = w.call(operator, x, **given)
    else:
        made = w.call("Neg", w.call(operator, w.call("Neg", x), **given))
    return made if len(lead) == 2 else w.reshape(made, step.gives[0].shape)


def _least(dtype: DType) -> Any:
    return -np.inf if dtype.is_floating else np.iinfo(dtype.numpy).min
