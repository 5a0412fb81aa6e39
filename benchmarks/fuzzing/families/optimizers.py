"""Optimizers beside SGD and Adam, over the tensors of a network."""

from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Work
from fuzzing.families._common import alike, like, one, single, sizes
from fuzzing.families.updates import shapes_of

_FORMS = {"adamw": 3, "lion": 2, "adafactor": 2, "muon": 3, "lamb": 1, "rmsprop": 1, "adagrad": 1,
          "nesterov": 1, "sharpness": 1, "half_weights": 1, "schedule_free": 1}  # fmt: skip
# Weights, gradients and what an optimizer keeps.
_KINDS = {"adamw": 4, "lion": 3, "adafactor": 2, "muon": 2, "lamb": 4, "rmsprop": 3, "adagrad": 3,
          "nesterov": 3, "sharpness": 2, "half_weights": 4, "schedule_free": 4}  # fmt: skip


def _draw(random: Random) -> Parameters:
    return {
        "form": one(random, _FORMS),
        "network": one(random, {"transformer": 4, "convolutions": 1, "perceptron": 1}),
        "width": one(random, {64: 1, 128: 2, 256: 2, 512: 1, 768: 1}),
        "layers": one(random, {1: 2, 2: 2, 4: 1}),
    }


def _update(p: Parameters) -> Work:
    """Return the updates of an optimizer.

    muon: Newton and Schulz's iteration of matrices in the case's dtype; adafactor: factored second
    moments; lamb: steps by the norms of weights and updates; half_weights: of half weights.
    """
    form, network, width, layers = sizes(p, "form", "network", "width", "layers")
    shapes = shapes_of(network, width, layers)
    if form in ("muon", "adafactor"):
        shapes = [s for s in shapes if len(s) == 2] or [(width, 9 * width)] * layers
    kinds, step = _KINDS[form], _STEPS[form]
    half = ("float" if form in ("half_weights", "muon") else "float32",)
    # The second moments are the last, and positive.
    operands = [
        Operand(
            s,
            half[0] if kind == 0 or form == "muon" else "float32",
            positive=kind > 1 and kind == kinds - 1,
        )
        for kind in range(kinds)
        for s in shapes
    ]
    count = len(shapes)

    def call(lib: Any, *given: Any) -> Any:
        groups = [given[i * count : (i + 1) * count] for i in range(kinds)]
        made = [step(lib, *one_) for one_ in zip(*groups, strict=True)]
        return [x for part in zip(*made, strict=True) for x in part]

    flops = 0.0
    if form == "muon":
        flops = sum(5 * (4.0 * min(s) ** 2 * max(s) + 2.0 * min(s) ** 3) for s in shapes)
    return Work(
        tuple(operands), *alike(call), (1,), flops, depth=64 * width if form == "muon" else 64
    )


def _adamw(lib: Any, w: Any, g: Any, m: Any, v: Any) -> Any:
    m, v = 0.9 * m + 0.1 * g, 0.95 * v + 0.05 * g * g
    return w * (1 - 1e-4) - 1e-3 * (m / 0.19) / (lib.sqrt(v / 0.0975) + 1e-8), m, v


def _half_weights(lib: Any, w: Any, g: Any, m: Any, v: Any) -> Any:
    new, m, v = _adamw(lib, single(w), g, m, v)
    return like(new, w), m, v


def _lamb(lib: Any, w: Any, g: Any, m: Any, v: Any) -> Any:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    step = m / (lib.sqrt(v) + 1e-6) + 0.01 * w
    ratio = lib.sqrt((w * w).sum()) / (lib.sqrt((step * step).sum()) + 1e-6)
    return w - 1e-3 * ratio * step, m, v


def _lion(lib: Any, w: Any, g: Any, m: Any) -> Any:
    return w - 1e-4 * (lib.sign(0.9 * m + 0.1 * g) + 0.1 * w), 0.99 * m + 0.01 * g


def _adafactor(lib: Any, w: Any, g: Any) -> Any:
    square = g * g + 1e-30
    rows, columns = square.mean(axis=1), square.mean(axis=0)
    scale = lib.sqrt(rows / rows.mean())[:, None] * lib.sqrt(columns)[None]
    step = g / scale
    size = lib.sqrt((step * step).mean())
    return w - 1e-2 * step / lib.maximum(size, 0 * size + 1.0), rows, columns


def _muon(lib: Any, w: Any, g: Any) -> Any:
    tall = w.shape[0] > w.shape[1]
    x = g.mT if tall else g
    x = x / (lib.sqrt((single(x) ** 2).sum()) + 1e-6)
    x = like(x, g)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.775 * a + 2.0315 * (a @ a)) @ x
    return (w - 0.02 * (x.mT if tall else x),)


def _rmsprop(lib: Any, w: Any, g: Any, v: Any) -> Any:
    v = 0.99 * v + 0.01 * g * g
    return w - 1e-3 * g / (lib.sqrt(v) + 1e-8), v


def _adagrad(lib: Any, w: Any, g: Any, v: Any) -> Any:
    v = v + g * g
    return w - 1e-2 * g / (lib.sqrt(v) + 1e-10), v


def _nesterov(lib: Any, w: Any, g: Any, m: Any) -> Any:
    g = g + 1e-4 * w
    m = 0.9 * m + g
    return w - 0.1 * (g + 0.9 * m), m


def _sharpness(lib: Any, w: Any, g: Any) -> Any:
    return (w + 0.05 * g / (lib.sqrt((g * g).sum()) + 1e-12),)


def _schedule_free(lib: Any, w: Any, g: Any, z: Any, v: Any) -> Any:
    v = 0.999 * v + 0.001 * g * g
    step = g / (lib.sqrt(v) + 1e-8)
    return 0.99 * w + 0.01 * z - 1e-4 * step, z - 1e-3 * step, v


_STEPS: dict[str, Any] = {
    "adamw": _adamw, "half_weights": _half_weights, "lamb": _lamb, "lion": _lion,
    "adafactor": _adafactor, "muon": _muon, "rmsprop": _rmsprop, "adagrad": _adagrad,
    "nesterov": _nesterov, "sharpness": _sharpness, "schedule_free": _schedule_free,
}  # fmt: skip
FAMILIES = (Family("optimizer", 2, _draw, _update, ("layers",), gradient=0.0),)
