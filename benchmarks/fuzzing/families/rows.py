"""Softmax of rows, and cross entropy over vocabularies."""

from math import prod
from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Shape, Work
from fuzzing.families._common import BATCHES, TOKENS, VOCABULARIES, calor_nn, one, sizes, torch_nn


def _draw_softmax(random: Random) -> Parameters:
    shape: Shape
    batch = one(random, BATCHES)
    form = one(random, {"scores": 4, "classes": 2, "tokens": 1, "channels": 1, "log": 2})
    tokens = one(random, TOKENS)
    if form == "scores":
        shape = (batch, one(random, {4: 1, 8: 2, 12: 3}), min(tokens, 512), tokens)
    elif form in ("classes", "log"):
        shape = (batch * one(random, {1: 3, 16: 1, 128: 1}), one(random, VOCABULARIES))
    elif form == "channels":
        shape = (batch, one(random, {19: 1, 21: 2, 150: 1}), 64, 64)
    else:
        shape = (batch, tokens, one(random, {8: 1, 16: 1, 64: 2, 128: 1}))
    axis = 1 if form == "channels" else len(shape) - 1
    return {"form": form, "shape": shape, "axis": axis}


def _softmax(p: Parameters) -> Work:
    """Return a softmax; of scores with a scale and a mask that is the same for all heads."""
    form, shape, axis = sizes(p, "form", "shape", "axis")
    name = "log_softmax" if form == "log" else "softmax"
    operands = [Operand(shape)]
    if form == "scores":
        operands.append(Operand((shape[0], 1, 1, shape[-1]), fixed=True))

    def scaled(x: Any, *mask: Any) -> Any:
        return x * 0.125 + mask[0] if mask else x

    return Work(
        tuple(operands),
        lambda *x: getattr(calor_nn(), name)(scaled(*x), axis=axis),
        lambda *x: getattr(torch_nn(), name)(scaled(*x), dim=axis),
        shape, 5.0 * prod(shape), shape[axis],
    )  # fmt: skip


def _draw_entropy(random: Random) -> Parameters:
    classes = one(random, VOCABULARIES)
    form = one(random, {"rows": 5, "smoothed": 1, "ignored": 1, "pixels": 1})
    if form == "pixels":
        batch, classes = one(random, {1: 1, 2: 1, 4: 1}), one(random, {19: 1, 21: 1, 150: 1})
        return {"form": form, "rows": (batch, 128, 128), "classes": classes}
    return {
        "form": form,
        "rows": (one(random, {1: 1, 7: 1, 32: 3, 128: 2, 256: 2, 512: 1, 1024: 2, 2048: 1}),),
        "classes": classes,
    }


def _entropy(p: Parameters) -> Work:
    form, rows, classes = sizes(p, "form", "rows", "classes")
    shape = (rows[0], classes, *rows[1:])
    options: dict[str, Any] = {"label_smoothing": 0.1} if form == "smoothed" else {}
    if form == "ignored":
        options["ignore_index"] = 0

    def layer(nn: Any) -> Any:
        return lambda x, target: nn().cross_entropy(x, target, **options)

    operands = (Operand(shape), Operand(rows, "index", classes))
    return Work(operands, layer(calor_nn), layer(torch_nn), (), 6.0 * prod(shape), classes)


FAMILIES = (
    Family("softmax", 4, _draw_softmax, _softmax, ("shape",)),
    Family("cross_entropy", 4, _draw_entropy, _entropy, ("rows",), gradient=0.8),
)
