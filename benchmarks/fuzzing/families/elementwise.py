"""Elementwise chains with broadcast operands, activations, dropout, and copies that cast."""

from math import prod
from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Shape, Work
from fuzzing.families._common import WIDTHS, activation, calor_nn, library, one, rows_of, torch_nn
from fuzzing.families.pooling import IMAGES

_ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "silu", "tanh", "sigmoid", "softplus", "hard_swish",
                "leaky_relu", "elu", "exp")  # fmt: skip
# What a second operand is broadcast over: nothing, rows, columns, channels, everything.
_BROADCASTS = {"same": 5, "row": 4, "column": 3, "channel": 3, "number": 1, "batch": 1}
_FORMS = {"add": 4, "multiply": 3, "scale_shift": 3, "gate": 2, "residual_scale": 2, "subtract": 1,
          "divide": 1, "maximum": 1, "where": 1}  # fmt: skip


def shape_of(random: Random) -> Shape:
    """Return the shape of activations: rows of features, or images."""
    if random.random() < 0.35:
        channels, size = one(random, IMAGES)
        return (one(random, {1: 3, 2: 1, 8: 2, 16: 1, 32: 2}), channels, size, size)
    return (*rows_of(random), one(random, WIDTHS))


def _draw(random: Random) -> Parameters:
    shape = shape_of(random)
    known = {k: v for k, v in _BROADCASTS.items() if k != "channel" or len(shape) == 4}
    return {"shape": shape, "form": one(random, _FORMS), "broadcast": one(random, known)}


def _second(shape: Shape, broadcast: str) -> Shape:
    return {
        "same": shape,
        "row": shape[-1:],
        "column": (*shape[:-1], 1),
        "channel": (shape[1] if len(shape) == 4 else 1, 1, 1),
        "number": (1,),
        "batch": (1, *shape[1:]),
    }[broadcast]


def _combine(form: str) -> Any:
    return {
        "add": lambda lib, x, y, z: x + y,
        "multiply": lambda lib, x, y, z: x * y,
        "scale_shift": lambda lib, x, y, z: x * (1 + y) + z,
        "gate": lambda lib, x, y, z: lib.tanh(x) * (1 / (1 + lib.exp(-y))),
        "residual_scale": lambda lib, x, y, z: x * 0.5 + y * z,
        "subtract": lambda lib, x, y, z: x - y,
        "divide": lambda lib, x, y, z: x / (y * y + 1),
        "maximum": lambda lib, x, y, z: lib.maximum(x, y),
        "where": lambda lib, x, y, z: lib.where(x > 0, x * y, z),
    }[form]


def _elementwise(p: Parameters) -> Work:
    shape: Any = p["shape"]
    second = Operand(_second(shape, str(p["broadcast"])))
    form = _combine(str(p["form"]))
    three = p["form"] in ("scale_shift", "residual_scale", "where")
    operands = (Operand(shape), *(second,) * (2 if three else 1))

    def applied(name: str) -> Any:
        return lambda x, y, z=None: form(library(name), x, y, z)

    return Work(operands, applied("calor"), applied("torch"), shape, 4.0 * prod(shape),
                depth=prod(shape) // max(1, prod(second.shape)))  # fmt: skip


def _draw_activation(random: Random) -> Parameters:
    form = one(random, {"plain": 5, "gated": 3, "bias": 2, "slice": 1})
    return {"shape": shape_of(random), "name": random.choice(_ACTIVATIONS), "form": form}


def _activation(p: Parameters) -> Work:
    """Return an activation; gated: of one half times the other, as SwiGLU; bias: of x + bias."""
    shape: Any = p["shape"]
    form, width = p["form"], shape[-1]
    half = form in ("gated", "slice")
    given = (*shape[:-1], 2 * width) if half else shape
    operands = [Operand(given)] + [Operand((width,), weight=True)] * (form == "bias")

    def applied(act: Any) -> Any:
        def call(x: Any, *bias: Any) -> Any:
            if bias:
                return act(x + bias[0])
            first = act(x[..., :width]) if half else act(x)
            return first * x[..., width:] if form == "gated" else first

        return call

    first, second = activation(str(p["name"]))
    depth = prod(shape[:-1])
    return Work(tuple(operands), applied(first), applied(second), shape, 12.0 * prod(shape), depth)


def _draw_dropout(random: Random) -> Parameters:
    return {"shape": shape_of(random), "p": one(random, {0.1: 3, 0.5: 1, 0.2: 1})}


def _dropout(p: Parameters) -> Work:
    shape: Any = p["shape"]
    return Work(
        (Operand(shape),),
        lambda x: calor_nn().dropout(x, p["p"], training=True),
        lambda x: torch_nn().dropout(x, p["p"], training=True),
        shape, 4.0 * prod(shape), checked="none",
    )  # fmt: skip


def _draw_cast(random: Random) -> Parameters:
    to = one(random, {"float32": 3, "bfloat16": 3, "float16": 1})
    layout = one(random, {"plain": 5, "transposed": 2, "slice": 1})
    return {"shape": shape_of(random), "to": to, "layout": layout}


def _cast(p: Parameters) -> Work:
    """Return a copy in another dtype, of a view; times two, so that it is a computation always."""
    shape: Any = p["shape"]
    layout, to, width = p["layout"], str(p["to"]), shape[-1]
    given = {"slice": (*shape[:-1], width + 8)}.get(str(layout), shape)
    made = (*shape[:-2], width, shape[-2]) if layout == "transposed" else shape

    def viewed(x: Any) -> Any:
        return x.mT if layout == "transposed" else x[..., :width] if layout == "slice" else x

    return Work(
        (Operand(given),),
        lambda x: (viewed(x) * 2).astype(to),
        lambda x: (viewed(x) * 2).to(getattr(library("torch"), to)).contiguous(),
        made, float(prod(shape)),
    )  # fmt: skip


FAMILIES = (
    Family("elementwise", 8, _draw, _elementwise, ("shape",)),
    Family("activation", 5, _draw_activation, _activation, ("shape",)),
    Family("dropout", 2, _draw_dropout, _dropout, ("shape",)),
    Family("cast", 2, _draw_cast, _cast, ("shape",), gradient=0.0),
)
