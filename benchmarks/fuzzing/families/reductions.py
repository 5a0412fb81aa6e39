"""Reductions over any axes, of rows of odd lengths, and what losses and statistics are made of."""

from math import prod
from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Shape, Work
from fuzzing.families._common import library, one, sizes
from fuzzing.families.elementwise import shape_of

_FORMS = {"sum": 5, "mean": 5, "max": 2, "square_sum": 2, "var": 2, "norm": 1, "logsumexp": 1,
          "mse": 2, "product_sum": 1}  # fmt: skip


def _draw(random: Random) -> Parameters:
    shape = list(shape_of(random))
    if random.random() < 0.3:
        shape[-1] += random.choice((-1, 1, 3))
    forms: dict[int, list[Shape]] = {
        1: [(0,)],
        2: [(0,), (1,), (0, 1)],
        3: [(2,), (0, 1), (1,), (0, 1, 2)],
        4: [(0, 2, 3), (2, 3), (1,), (3,), (0, 1, 2, 3)],
    }
    return {
        "form": one(random, _FORMS),
        "shape": tuple(shape),
        "axes": random.choice(forms[len(shape)]),
        "layout": one(random, {"plain": 4, "transposed": 1, "slice": 1}),
    }


def _reduction(p: Parameters) -> Work:
    form, shape, axes, layout = sizes(p, "form", "shape", "axes", "layout")
    axes = axes[:1] if form == "max" else axes
    axis: Any = axes[0] if len(axes) == 1 else axes
    given = (*shape[:-1], 2 * shape[-1]) if layout == "slice" else shape
    if layout == "transposed":
        given = (*shape[:-2], shape[-1], shape[-2])
    operands = (Operand(given),) * (2 if form in ("mse", "product_sum") else 1)
    made = tuple(s for i, s in enumerate(shape) if i not in axes)
    depth = prod(shape[i] for i in axes)

    def viewed(x: Any) -> Any:
        return x.mT if layout == "transposed" else x[..., : shape[-1]] if layout == "slice" else x

    def applied(name: str, word: str) -> Any:
        def call(*given: Any) -> Any:
            lib, x, *rest = library(name), *map(viewed, given)
            if form in ("mse", "product_sum"):
                y = (x - rest[0]) ** 2 if form == "mse" else x * rest[0]
                return (y.mean if form == "mse" else y.sum)(**{word: axis})
            if form == "square_sum":
                return (x * x).sum(**{word: axis})
            if form == "norm":
                return lib.sqrt((x * x).sum(**{word: axis}) + 1e-6)
            if form == "max":
                return lib.amax(x, axis) if name == "torch" else lib.max(x, axis=axis)
            return getattr(lib, form)(x, **{word: axis})

        return call

    ours = applied("calor", "axis")
    theirs = applied("torch", "dim")
    if form == "var":
        theirs = lambda x: library("torch").var(viewed(x), dim=axis, correction=0)  # noqa: E731
    return Work(operands, ours, theirs, made, 2.0 * prod(shape), depth)


FAMILIES = (Family("reduction", 6, _draw, _reduction, ("shape",)),)
