"""Losses beside cross entropy, and the matrices of boxes that detectors match by."""

from math import prod
from random import Random
from typing import Any

import numpy as np

from fuzzing.cases import Family, Operand, Parameters, Work
from fuzzing.families._common import (
    alike,
    alike_nn,
    below,
    is_torch,
    largest,
    one,
    running,
    single,
    sizes,
    span,
)

_FORMS = {"bce": 2, "focal": 2, "dice": 2, "contrastive": 3, "distilled": 2, "smooth_l1": 2,
          "triplet": 1, "twins": 1, "policy": 2, "values": 1, "sigmoid_pairs": 1, "ctc": 2,
          "divergence": 1, "margin": 1, "charbonnier": 1, "preference": 1}  # fmt: skip


def _draw(random: Random) -> Parameters:
    return {
        "form": one(random, _FORMS),
        "rows": one(random, {16: 1, 64: 1, 256: 3, 1024: 2, 4096: 2, 8732: 1}),
        "width": one(random, {2: 1, 4: 1, 80: 2, 91: 1, 128: 2, 512: 2, 768: 1, 1000: 1}),
    }


def _loss(p: Parameters) -> Work:
    """Return a loss, one number in float32 between.

    contrastive: both ways between all pairs (CLIP); sigmoid_pairs: SigLIP's; twins: of the
    correlations of features; policy: PPO's clipped ratio; values: advantages of episodes by a
    running sum from the end; distilled: by softened classes; divergence: of a Gaussian;
    preference: DPO's; margin: ArcFace's angles.
    """
    form, rows, width = sizes(p, "form", "rows", "width")
    shape = (rows, width)
    x, y = Operand(shape), Operand(shape, fixed=True)
    if form == "ctc":
        return _ctc(min(rows, 64), width)
    if form in ("smooth_l1", "triplet"):

        def layers(nn: Any, *given: Any) -> Any:
            return (
                nn.smooth_l1_loss(*given) if form == "smooth_l1" else nn.triplet_margin_loss(*given)
            )

        return Work((x, y) if form == "smooth_l1" else (x, x, x), *alike_nn(layers), (),
                    6.0 * prod(shape), prod(shape))  # fmt: skip
    operands, flops = [x, y], 12.0 * prod(shape)
    if form in ("contrastive", "sigmoid_pairs", "triplet"):
        operands, flops = [x, x], 2.0 * rows * rows * width
    if form in ("twins",):
        operands, flops = [x, x], 2.0 * rows * width * width
    if form in ("margin", "policy", "preference"):
        operands = [x, y, Operand((rows,), "index", width)]
    call = _CALLS[form]

    def applied(lib: Any, *given: Any) -> Any:
        return call(lib, *(g if o.kind == "index" else single(g)
                           for g, o in zip(given, operands, strict=True)))  # fmt: skip

    made = shape if form == "values" else ()
    return Work(tuple(operands), *alike(applied), made, flops, prod(shape))


def _softplus(lib: Any, x: Any) -> Any:
    return lib.maximum(x, 0 * x) + lib.log1p(lib.exp(-lib.abs(x)))


def _sigmoid(lib: Any, x: Any) -> Any:
    return 1 / (1 + lib.exp(-x))


def _log_softmax(lib: Any, x: Any) -> Any:
    return x - lib.logsumexp(x, axis=-1, keepdims=True)


def _picked(lib: Any, x: Any, index: Any) -> Any:
    call = lib.gather if is_torch(lib) else None
    found = call(x, 1, index[:, None]) if call else lib.take_along_axis(x, index[:, None], axis=1)
    return found[:, 0]


def _unit(lib: Any, x: Any) -> Any:
    return x / lib.sqrt((x * x).sum(axis=-1, keepdims=True) + 1e-6)


def _bce(lib: Any, x: Any, y: Any) -> Any:
    return (_softplus(lib, x) - x * _sigmoid(lib, y)).mean()


def _focal(lib: Any, x: Any, y: Any) -> Any:
    target = _sigmoid(lib, y)
    p = _sigmoid(lib, x)
    near = p * target + (1 - p) * (1 - target)
    return (((1 - near) ** 2) * (_softplus(lib, x) - x * target)).sum() / x.shape[0]


def _dice(lib: Any, x: Any, y: Any) -> Any:
    p, t = _sigmoid(lib, x), _sigmoid(lib, y)
    return (1 - (2 * (p * t).sum(axis=-1) + 1) / (p.sum(axis=-1) + t.sum(axis=-1) + 1)).mean()


def _contrastive(lib: Any, x: Any, y: Any) -> Any:
    scores = _unit(lib, x) @ _unit(lib, y).mT * 14.0
    place = span(lib, x.shape[0], x)
    own = (scores * (place[:, None] == place[None, :])).sum(axis=1)
    both = lib.logsumexp(scores, axis=1) + lib.logsumexp(scores, axis=0)
    return (both - 2 * own).mean() / 2


def _sigmoid_pairs(lib: Any, x: Any, y: Any) -> Any:
    scores = _unit(lib, x) @ _unit(lib, y).mT * 10.0 - 10.0
    place = span(lib, x.shape[0], x)
    sign = lib.where(place[:, None] == place[None, :], 1.0, -1.0)
    return _softplus(lib, -scores * sign).sum() / x.shape[0]


def _twins(lib: Any, x: Any, y: Any) -> Any:
    def normal(z: Any) -> Any:
        z = z - z.mean(axis=0, keepdims=True)
        return z / lib.sqrt((z * z).mean(axis=0, keepdims=True) + 1e-5)

    shared = normal(x).mT @ normal(y) / x.shape[0]
    place = span(lib, x.shape[1], x)
    own = place[:, None] == place[None, :]
    return lib.where(own, (shared - 1) ** 2, 0.005 * shared**2).sum()


def _distilled(lib: Any, x: Any, y: Any) -> Any:
    target = _log_softmax(lib, y / 2)
    return (lib.exp(target) * (target - _log_softmax(lib, x / 2))).sum(axis=-1).mean() * 4


def _policy(lib: Any, x: Any, y: Any, index: Any) -> Any:
    new, old = _log_softmax(lib, x), _log_softmax(lib, y)
    ratio = lib.exp(_picked(lib, new, index) - _picked(lib, old, index))
    gain = _picked(lib, y, index)
    cut = lib.minimum(lib.maximum(ratio, 0 * ratio + 0.8), 0 * ratio + 1.2)
    entropy = -(lib.exp(new) * new).sum(axis=-1)
    return -lib.minimum(ratio * gain, cut * gain).mean() - 0.01 * entropy.mean()


def _preference(lib: Any, x: Any, y: Any, index: Any) -> Any:
    gain = _picked(lib, _log_softmax(lib, x), index) - _picked(lib, _log_softmax(lib, y), index)
    half = gain.shape[0] // 2
    return _softplus(lib, -0.1 * (gain[:half] - gain[half : 2 * half])).mean()


def _values(lib: Any, x: Any, y: Any) -> Any:
    place = single(span(lib, x.shape[0], x))[:, None]
    fall = lib.exp(place * 1e-4)
    turned = lib.flip((y - 0.5 * x) / fall, (0,)) if is_torch(lib) else lib.flip(
        (y - 0.5 * x) / fall, axis=0
    )  # fmt: skip
    total = running(lib, turned, 0)
    back = lib.flip(total, (0,)) if is_torch(lib) else lib.flip(total, axis=0)
    return back * fall


def _divergence(lib: Any, x: Any, y: Any) -> Any:
    return -0.5 * (1 + y - x * x - lib.exp(y)).sum(axis=-1).mean()


def _margin(lib: Any, x: Any, y: Any, index: Any) -> Any:
    cosine = lib.tanh(x)
    own = span(lib, x.shape[1], x)[None] == index[:, None]
    moved = cosine * 0.8776 - lib.sqrt(1.0001 - cosine * cosine) * 0.4794
    scores = lib.where(own, moved, cosine) * 30.0
    return (lib.logsumexp(scores, axis=-1) - _picked(lib, scores, index)).mean()


def _charbonnier(lib: Any, x: Any, y: Any) -> Any:
    return lib.sqrt((x - y) ** 2 + 1e-6).mean()


_CALLS: dict[str, Any] = {
    "bce": _bce, "focal": _focal, "dice": _dice, "contrastive": _contrastive,
    "sigmoid_pairs": _sigmoid_pairs, "twins": _twins, "distilled": _distilled, "policy": _policy,
    "values": _values, "divergence": _divergence, "margin": _margin, "preference": _preference,
    "charbonnier": _charbonnier,
}  # fmt: skip


def _ctc(batch: int, classes: int) -> Work:
    steps, length, classes = 120, 20, max(classes, 30)

    def call(nn: Any, x: Any, targets: Any) -> Any:
        # Labels 1, 2, ...; 0 is the blank. Whole lengths, as numbers that the host knows.
        targets = targets + 1
        if is_torch(nn):
            return nn.ctc_loss(nn.log_softmax(x, -1), targets, [steps] * batch, [length] * batch)
        lengths = np.full(batch, steps), np.full(batch, length)
        return nn.ctc_loss(nn.log_softmax(x, axis=-1), targets, *lengths)

    operands = (Operand((steps, batch, classes), "float32"),
                Operand((batch, length), "index", classes - 1))  # fmt: skip
    return Work(
        operands, *alike_nn(call), (), 8.0 * steps * batch * classes, steps * classes,
        uncaptured="torch copies the lengths from the host",
    )  # fmt: skip


def _draw_boxes(random: Random) -> Parameters:
    return {
        "form": one(random, {"overlap": 3, "general": 1, "suppressed": 2, "cost": 1, "decoded": 2}),
        "batch": one(random, {1: 2, 2: 1, 8: 1}),
        "first": one(random, {100: 2, 300: 1, 1000: 3, 2000: 1, 8400: 0.5}),
        "second": one(random, {20: 2, 100: 1, 300: 1, 1000: 1}),
    }


def _boxes(p: Parameters) -> Work:
    """Return a matrix of boxes: their overlaps, generalized ones, matched costs, decoded corners.

    suppressed: the largest overlap of each box with those before it, as Matrix NMS has it.
    """
    form, batch, first, second = sizes(p, "form", "batch", "first", "second")
    a, b = Operand((batch, first, 4), positive=True), Operand((batch, second, 4), positive=True)

    def corners(x: Any) -> tuple[Any, Any]:
        # Centers and sizes, all positive.
        return x[..., :2] - x[..., 2:] * 0.5, x[..., :2] + x[..., 2:] * 0.5

    def overlap(lib: Any, a: Any, b: Any, general: bool = False) -> Any:
        (la, ha), (lb, hb) = corners(a[:, :, None]), corners(b[:, None])
        sides = lib.minimum(ha, hb) - lib.maximum(la, lb)
        sides = lib.maximum(sides, 0 * sides)
        inner = sides[..., 0] * sides[..., 1]
        area = a[:, :, None, 2] * a[:, :, None, 3] + b[:, None, :, 2] * b[:, None, :, 3] - inner
        made = inner / area
        if general:
            hull = lib.maximum(ha, hb) - lib.minimum(la, lb)
            whole = hull[..., 0] * hull[..., 1]
            made = made - (whole - area) / whole
        return made

    def cost(lib: Any, a: Any, b: Any) -> Any:
        apart = lib.abs(a[:, :, None] - b[:, None]).sum(axis=-1)
        return 5 * apart - 2 * overlap(lib, a, b, general=True)

    def suppressed(lib: Any, a: Any) -> Any:
        return largest(lib, (overlap(lib, a, a) - below(lib, overlap(lib, a, a))), 1)

    def decoded(lib: Any, a: Any, d: Any) -> Any:
        center, size = a[..., :2] + d[..., :2] * a[..., 2:], a[..., 2:] * lib.exp(0.2 * d[..., 2:])
        return lib.concat([center - 0.5 * size, center + 0.5 * size], axis=-1)

    flops = 20.0 * batch * first * second
    if form == "decoded":
        return Work((a, Operand(a.shape)), *alike(decoded), a.shape, 10.0 * batch * first)
    if form == "suppressed":
        size = min(first, 2000)
        one_ = Operand((batch, size, 4), positive=True)
        return Work((one_,), *alike(suppressed), (batch, size), 20.0 * batch * size**2, 8)
    call = {"overlap": overlap, "cost": cost,
            "general": lambda lib, a, b: overlap(lib, a, b, True)}[form]  # fmt: skip
    return Work((a, b), *alike(call), (batch, first, second), flops, 8 * max(first, second))


FAMILIES = (
    Family("loss", 3, _draw, _loss, ("rows",), gradient=0.7),
    Family("boxes", 1, _draw_boxes, _boxes, ("batch",), gradient=0.2),
)
