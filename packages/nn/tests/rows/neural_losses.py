"""Rows of losses and of what compares vectors; oracles in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor.dtypes import float32, int64
from calor_conformance.rows.domains import between, chosen, normal
from calor_conformance.rows.language import Array, Case
from calor_nn import functional

from .neural import row

REDUCTIONS = ("mean", "sum", "none")
CLASSES = chosen(np.array([2, 0, 1, -100]), int64)
IMAGES = chosen(np.array([[2, 0], [1, -100], [2, 2]]), int64)
# Targets that are compared are no numbers to differentiate by: they stay float32 in float64 rows.
SIGNS = chosen(np.array([1.0, -1.0, -1.0, 1.0]), float32)


def _reduced(loss: Array, reduction: str) -> Array:
    return np.asarray({"mean": np.mean, "sum": np.sum, "none": lambda x: x}[reduction](loss))


def _elementwise(formula: Any) -> Any:
    """Make the oracle of a loss from its formula for each element."""

    def oracle(*operands: Array, reduction: str, **attributes: Any) -> Array:
        return _reduced(formula(*operands, **attributes), reduction)

    return oracle


def _huber(x: Array, t: Array, *, delta: float = 1.0) -> Array:
    d = np.abs(x - t)
    return np.where(d <= delta, d * d / 2, delta * (d - delta / 2))


def _log_softmax(x: Array) -> Array:
    return np.asarray(x - np.log(np.exp(x).sum(1, keepdims=True)))


def _class_loss(
    logs: Array, target: Array, weight: Array | None, smoothing: float, reduction: str
) -> Array:
    """Losses of class numbers, one element after another; −100 counts nothing."""
    classes = logs.shape[1]
    moved = np.moveaxis(logs, 1, -1)
    losses = np.zeros(target.shape, logs.dtype)
    counted = np.zeros(target.shape, logs.dtype)
    for at in np.ndindex(*target.shape):
        number = int(target[at])
        if number == -100:
            continue
        factor = np.ones(classes, logs.dtype) if weight is None else weight
        smooth = -(moved[at] * factor).sum() / classes
        losses[at] = -(1 - smoothing) * factor[number] * moved[at][number] + smoothing * smooth
        counted[at] = factor[number]
    return losses.sum() / counted.sum() if reduction == "mean" else _reduced(losses, reduction)


def _cross_entropy(x: Any, t: Any, *w: Any, **a: Any) -> Any:
    return functional.cross_entropy(x, t, *w, **a)


def _cross_entropy_oracle(
    x: Array, t: Array, w: Array | None = None, *, reduction: str, label_smoothing: float
) -> Array:
    return _class_loss(_log_softmax(x), t, w, label_smoothing, reduction)


def _distribution(
    x: Array, t: Array, w: Array | None = None, *, reduction: str, label_smoothing: float
) -> Array:
    target = t * (1 - label_smoothing) + label_smoothing / x.shape[1]
    part = _log_softmax(x) * target
    if w is not None:
        part = part * w.reshape(-1, *(1,) * (x.ndim - 2))
    return _reduced(-part.sum(1), reduction)


def _with_logits(x: Array, t: Array, w: Array, p: Array) -> Array:
    positive, negative = np.logaddexp(0, -x), np.logaddexp(0, x)
    return np.asarray(w * (p * t * positive + (1 - t) * negative))


def _bce_logits(x: Any, t: Any, w: Any, p: Any, *, reduction: Any) -> Any:
    return functional.binary_cross_entropy_with_logits(x, t, w, pos_weight=p, reduction=reduction)


def _bce(x: Array, t: Array, w: Array) -> Array:
    return np.asarray(-w * (t * np.log(x) + (1 - t) * np.log(1 - x)))


def _divergence(x: Array, t: Array, *, log_target: bool) -> Array:
    return np.asarray(np.exp(t) * (t - x) if log_target else t * (np.log(t) - x))


def _norm(x: Array, p: float) -> Array:
    return np.asarray((np.abs(x) ** p).sum(-1) ** (1 / p))


def _triplet(a: Array, p: Array, n: Array, *, margin: float, swap: bool) -> Array:
    near, far = _norm(a - p + 1e-6, 2.0), _norm(a - n + 1e-6, 2.0)
    if swap:
        far = np.minimum(far, _norm(p - n + 1e-6, 2.0))
    return np.maximum(near - far + margin, 0)


def _cosine(x: Array, y: Array, axis: int) -> Array:
    sizes = np.sqrt((x * x).sum(axis)) * np.sqrt((y * y).sum(axis))
    return np.asarray((x * y).sum(axis) / sizes)


def _cosine_loss(x: Array, y: Array, t: Array, *, margin: float) -> Array:
    # 1e-12 is added to the squares, as in PyTorch.
    squares = ((x * x).sum(-1) + 1e-12) * ((y * y).sum(-1) + 1e-12)
    cosine = (x * y).sum(-1) / np.sqrt(squares)
    return np.where(t > 0, 1 - cosine, np.maximum(cosine - margin, 0))


PAIRS: list[Case] = [
    row(function, normal(3, 4), normal(3, 4), oracle=_elementwise(formula), reduction=reduction,
        name=f"{function.__name__} {reduction}", scale=100.0, **more)
    for function, formula, more in [
        (functional.mse_loss, lambda x, t: (x - t) ** 2, {}),
        (functional.l1_loss, lambda x, t: np.abs(x - t), {}),
        (functional.huber_loss, _huber, {"delta": 0.7}),
        (functional.smooth_l1_loss, lambda x, t, beta: _huber(x, t, delta=beta) / beta,
         {"beta": 0.7}),
    ]
    for reduction in REDUCTIONS
]  # fmt: skip

CLASSIFICATION: list[Case] = [
    *(
        row(functional.nll_loss, normal(4, 3), CLASSES, *weight, reduction=reduction, scale=20.0,
            oracle=lambda x, t, w=None, *, reduction: _class_loss(x, t, w, 0.0, reduction),
            name=f"{reduction} {len(weight)}")
        for reduction in REDUCTIONS
        for weight in ((), (between(0.5, 2.0, 3),))
    ),
    *(
        row(_cross_entropy, normal(*shape), target, *weight, reduction=reduction, scale=40.0,
            label_smoothing=smoothing, oracle=oracle,
            name=f"{kind} {shape} {reduction} {smoothing} {len(weight)}")
        for kind, shape, target, oracle in [
            ("classes", (4, 3), CLASSES, _cross_entropy_oracle),
            ("classes", (3, 3, 2), IMAGES, _cross_entropy_oracle),
            ("distributions", (4, 3), between(0.1, 1.0, 4, 3), _distribution),
        ]
        for reduction, smoothing, weight in [
            ("mean", 0.0, ()), ("sum", 0.1, ()), ("none", 0.0, (between(0.5, 2.0, 3),)),
            ("mean", 0.2, (between(0.5, 2.0, 3),)),
        ]
    ),
    *(
        row(_bce_logits, normal(3, 4), between(0.0, 1.0, 3, 4), between(0.5, 2.0, 3, 4),
            between(0.5, 2.0, 4), oracle=_elementwise(_with_logits), reduction=reduction,
            name=reduction, scale=40.0)
        for reduction in REDUCTIONS
    ),
    row(functional.binary_cross_entropy, between(0.1, 0.9, 3, 4), between(0.0, 1.0, 3, 4),
        between(0.5, 2.0, 3, 4), oracle=_elementwise(_bce), reduction="mean", name="weighted"),
    *(
        row(functional.kl_div, normal(3, 4), between(0.1, 1.0, 3, 4), reduction=reduction,
            scale=40.0, oracle=_elementwise(_divergence), log_target=log, name=f"{reduction} {log}")
        for reduction in REDUCTIONS
        for log in (False, True)
    ),
    row(functional.kl_div, normal(3, 4), between(0.1, 1.0, 3, 4), reduction="batchmean", scale=40.0,
        name="batchmean",
        oracle=lambda x, t, *, reduction: _divergence(x, t, log_target=False).sum() / 3),
    row(functional.soft_margin_loss, normal(4), SIGNS, reduction="mean",
        oracle=_elementwise(lambda x, t: np.logaddexp(0, -t * x))),
]  # fmt: skip

VECTORS: list[Case] = [
    row(functional.cosine_similarity, normal(2, 3, 4), normal(2, 3, 4), oracle=_cosine, axis=1),
    *(
        row(functional.normalize, normal(3, 4), p=p, name=str(p),
            oracle=lambda x, *, p: x / (np.abs(x) ** p).sum(1, keepdims=True) ** (1 / p))
        for p in (1.0, 2.0, 3.0)
    ),
    *(
        row(functional.pairwise_distance, normal(3, 4), normal(3, 4), p=p, name=str(p), scale=20.0,
            oracle=lambda x, y, *, p: _norm(x - y + 1e-6, p))
        for p in (1.0, 2.0, 3.0)
    ),
    row(functional.cosine_embedding_loss, normal(4, 3), normal(4, 3), SIGNS, margin=-0.2,
        oracle=_elementwise(_cosine_loss), reduction="sum", scale=20.0),
    *(
        row(functional.triplet_margin_loss, normal(4, 3), normal(4, 3), normal(4, 3), margin=1.0,
            swap=swap, oracle=_elementwise(_triplet), reduction="mean", name=str(swap), scale=20.0)
        for swap in (False, True)
    ),
    row(functional.hinge_embedding_loss, normal(4), SIGNS, reduction="mean", margin=0.75,
        oracle=_elementwise(lambda x, t, margin: np.where(t > 0, x, np.maximum(margin - x, 0)))),
    row(functional.margin_ranking_loss, normal(4), normal(4), SIGNS, reduction="mean", margin=0.4,
        oracle=_elementwise(lambda x, y, t, margin: np.maximum(t * (y - x) + margin, 0))),
]  # fmt: skip


def _alignments(logs: Array, labels: list[int], blank: int) -> float:
    """The probability of labels, summed over every path of the input's length."""
    time, classes = logs.shape
    total = 0.0
    for path in np.ndindex(*(classes,) * time):
        merged = [c for i, c in enumerate(path) if i == 0 or c != path[i - 1]]
        if [c for c in merged if c != blank] == labels:
            total += float(np.exp(sum(logs[t, c] for t, c in enumerate(path))))
    return total


def _ctc_oracle(x: Array, t: Array, n: Array, m: Array, *, blank: int, reduction: str) -> Array:
    logs = x - np.log(np.exp(x).sum(-1, keepdims=True))
    losses = []
    for i in range(x.shape[1]):
        labels = [int(c) for c in t[i, : int(m[i])]]
        losses.append(-np.log(_alignments(logs[: int(n[i]), i], labels, blank)))
    lengths = np.maximum(m.astype(float), 1)
    losses_of = np.array(losses)
    return _reduced(losses_of / lengths if reduction == "mean" else losses_of, reduction)


def _ctc(x: Any, t: Any, n: Any, m: Any, *, blank: int, reduction: Any) -> Any:
    logs = calor.log_softmax(x, axis=-1)
    return functional.ctc_loss(logs, t, n, m, blank=blank, reduction=reduction)


def _numbers(*values: Any) -> Any:
    return chosen(np.array(values), int64)


SEQUENCES: list[Case] = [
    row(_ctc, normal(5, 4, 3), _numbers(*labels), _numbers(5, 4, 5, 3), _numbers(2, 2, 1, 0),
        oracle=_ctc_oracle, blank=blank, reduction=reduction, name=f"{blank} {reduction}",
        scale=20.0)
    for blank, labels in [
        (0, [[1, 2], [2, 2], [1, 0], [0, 0]]), (2, [[0, 1], [1, 1], [0, 2], [2, 2]]),
    ]
    for reduction in REDUCTIONS
] + [
    row(_ctc, normal(1, 3, 3), _numbers([1], [2], [1]), _numbers(1, 1, 1), _numbers(1, 1, 0),
        oracle=_ctc_oracle, blank=0, reduction="sum", name="one step", scale=20.0)
]  # fmt: skip

CASES: list[Case] = [*PAIRS, *CLASSIFICATION, *VECTORS, *SEQUENCES]
