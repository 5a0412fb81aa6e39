"""Functions of calor_nn: activations, losses, norms and pooling, by their formulas in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...language import Array
from ..drawing import Arguments, Rng, a_length, a_shape, an_axis, coin, floats, of_one
from .language import Function, Row

_REDUCTIONS: Final = ("mean", "sum", "none")


def _with(**choices: tuple[Any, ...]) -> Callable[[Rng], Arguments]:
    """Return what draws a tensor, and one of several values of each option."""

    def drawn(rng: Rng) -> Arguments:
        options = {name: some[int(rng.integers(len(some)))] for name, some in choices.items()}
        return [floats(rng, a_shape(rng))], options

    return drawn


def _sigmoid(x: Array) -> Any:
    return np.exp(-np.logaddexp(0, -x))


def _log_sum(x: Array, axis: int) -> Any:
    top = x.max(axis, keepdims=True)
    return np.log(np.exp(x - top).sum(axis, keepdims=True)) + top


def _softmax(x: Array, *, axis: int) -> Any:
    return np.exp(x - _log_sum(x, axis))


def _line(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    return [floats(rng, shape)], {"axis": an_axis(rng, len(shape))}


def _halves(rng: Rng) -> Arguments:
    shape = list(a_shape(rng, 1))
    axis = an_axis(rng, len(shape))
    shape[axis] *= 2
    return [floats(rng, tuple(shape))], {"axis": axis}


def _glu(x: Array, *, axis: int) -> Any:
    first, second = np.split(x, 2, axis)
    return first * _sigmoid(second)


def _elu(x: Array, alpha: float = 1.0) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _times(share: Array, x: Array) -> Any:
    """Return a share of numbers, which is nothing where the share is 0."""
    return np.where(share == 0, 0, share * x)


def _reduced(losses: Array, reduction: str) -> Any:
    of: dict[str, Function] = {"mean": np.mean, "sum": np.sum, "none": np.asarray}
    return of[reduction](losses)


def _loss(formula: Function) -> Function:
    def meaning(*operands: Array, reduction: str, **options: Any) -> Any:
        return _reduced(formula(*operands, **options), reduction)

    return meaning


def _a_reduction(rng: Rng) -> dict[str, Any]:
    return {"reduction": str(rng.choice(_REDUCTIONS))}


def _pair(**choices: tuple[Any, ...]) -> Callable[[Rng], Arguments]:
    def drawn(rng: Rng) -> Arguments:
        shape = a_shape(rng, 1)
        more = {name: some[int(rng.integers(len(some)))] for name, some in choices.items()}
        return [floats(rng, shape), floats(rng, shape)], {**_a_reduction(rng), **more}

    return drawn


def _shares(rng: Rng, shape: tuple[int, ...]) -> Array:
    """Return shares with some at both ends."""
    made = rng.uniform(0.05, 0.95, shape)
    if rng.ask in ("zeros", "ties", "equal"):
        made = np.where(rng.random(shape) < 0.3, rng.integers(0, 2, shape), made)
    return made.astype(np.float32)


def _binary(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    given = [_shares(rng, shape), _shares(rng, shape)]
    if coin(rng):
        given.append((rng.random(shape) + 0.5).astype(np.float32))
    return given, _a_reduction(rng)


def _bce(x: Array, t: Array, w: Any = 1.0) -> Any:
    # Logarithms end at −100.
    near, far = (np.maximum(np.log(v), -100) for v in (x, 1 - x))
    return -w * (t * near + (1 - t) * far)


def _binary_logits(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    given = [floats(rng, shape), _shares(rng, shape)]
    if coin(rng):
        given.append((rng.random(shape) + 0.5).astype(np.float32))
    options = _a_reduction(rng)
    if coin(rng):
        options["pos_weight"] = (rng.random(shape[-1:]) + 0.5).astype(np.float32)
    return given, options


def _bce_logits(x: Array, t: Array, w: Any = 1.0, *, pos_weight: Any = 1.0) -> Any:
    return w * (pos_weight * t * np.logaddexp(0, -x) + (1 - t) * np.logaddexp(0, x))


def _huber(x: Array, t: Array, *, delta: float) -> Any:
    off = np.abs(x - t)
    return np.where(off <= delta, off * off / 2, delta * (off - delta / 2))


def _smooth_l1(x: Array, t: Array, *, beta: float) -> Any:
    return np.abs(x - t) if beta == 0 else _huber(x, t, delta=beta) / beta


def _classes(rng: Rng) -> Arguments:
    """Return scores of classes, targets of which some or all are ignored, and weights."""
    lead, classes = a_shape(rng, 1, 3), int(rng.integers(1, 6))
    shape = (lead[0], classes, *lead[1:])
    ignored = int(rng.choice((-100, 0, 255)))
    target = rng.integers(0, classes, lead)
    share = float(rng.choice((0.0, 0.3, 1.0)))
    target = np.where(rng.random(lead) < share, ignored, target)
    given = [floats(rng, shape), target]
    if coin(rng):
        weights = rng.random(classes) + 0.5
        given.append(np.where(rng.random(classes) < 0.2, 0, weights).astype(np.float32))
    return given, {**_a_reduction(rng), "ignore_index": ignored}


def _smoothed(rng: Rng) -> Arguments:
    given, options = _classes(rng)
    return given, {**options, "label_smoothing": float(rng.choice((0.0, 0.1, 1.0)))}


def _of_classes(
    logs: Array, target: Array, w: Any = None, *, reduction: str, ignore_index: int,
    label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """Return losses of class numbers, one element after another."""
    classes = logs.shape[1]
    w = np.ones(classes) if w is None else w
    moved = np.moveaxis(logs, 1, -1)
    losses, counted = np.zeros(target.shape), np.zeros(target.shape)
    for at in np.ndindex(*target.shape):
        n = int(target[at])
        if n != ignore_index:
            losses[at] = -(1 - label_smoothing) * w[n] * moved[at][n]
            if label_smoothing:
                losses[at] -= label_smoothing * (moved[at] * w).sum() / classes
            counted[at] = w[n]
    if reduction == "mean":
        return losses.sum() / counted.sum()
    return _reduced(losses, reduction)


def _entropy(x: Array, *given: Any, **options: Any) -> Any:
    return _of_classes(x - _log_sum(x, 1), *given, **options)


def _beliefs(rng: Rng) -> Arguments:
    shape = (max(a_length(rng), 1), int(rng.integers(1, 5)))
    target = rng.random(shape) + 0.05
    made = [floats(rng, shape), (target / target.sum(1, keepdims=True)).astype(np.float32)]
    return made, {**_a_reduction(rng), "label_smoothing": float(rng.choice((0.0, 0.2)))}


def _of_beliefs(x: Array, t: Array, *, reduction: str, label_smoothing: float) -> Any:
    t = t * (1 - label_smoothing) + label_smoothing / x.shape[1]
    losses = -(t * (x - _log_sum(x, 1))).sum(1)
    return _reduced(losses, reduction)


def _divergence(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    log = coin(rng)
    target = floats(rng, shape) if log else _shares(rng, shape)
    reduction = str(rng.choice((*_REDUCTIONS, "batchmean")))
    return [floats(rng, shape), target], {"log_target": log, "reduction": reduction}


def _kl(x: Array, t: Array, *, log_target: bool, reduction: str) -> Any:
    if log_target:
        losses = _times(np.exp(t), t - x)
    else:
        losses = np.where(t == 0, 0, t * np.log(np.where(t == 0, 1, t))) - t * x
    return losses.sum() / len(x) if reduction == "batchmean" else _reduced(losses, reduction)


def _signed(count: int, **choices: tuple[Any, ...]) -> Callable[[Rng], Arguments]:
    """Return what draws operands and targets of 1 and −1."""

    def drawn(rng: Rng) -> Arguments:
        shape = a_shape(rng, 1)
        signs = rng.choice((-1, 1), shape).astype(np.int32)
        more = {name: some[int(rng.integers(len(some)))] for name, some in choices.items()}
        given = [*(floats(rng, shape) for _ in range(count)), signs]
        return given, {**_a_reduction(rng), **more}

    return drawn


def _poisson(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    target = np.asarray(rng.integers(0, 6, shape), np.float32)
    log = coin(rng)
    x = floats(rng, shape)
    options = {"log_input": log, "full": coin(rng), **_a_reduction(rng)}
    return [x if log else np.abs(x) + np.float32(0.1), target], options


def _poisson_loss(x: Array, t: Array, *, log_input: bool, full: bool) -> Any:
    made = np.exp(x) - _times(t, x) if log_input else x - _times(t, np.log(x + 1e-8))
    stirling = t * np.log(np.maximum(t, 1)) - t + 0.5 * np.log(2 * math.pi * np.maximum(t, 1))
    return made + np.where(t > 1, stirling, 0) if full else made


def _gaussian(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    var = (rng.random(shape) + 0.1).astype(np.float32)
    options = {"full": coin(rng), **_a_reduction(rng)}
    return [floats(rng, shape), floats(rng, shape), var], options


def _gaussian_loss(x: Array, t: Array, v: Array, *, full: bool) -> Any:
    made = 0.5 * (np.log(v) + (x - t) ** 2 / v)
    return made + 0.5 * math.log(2 * math.pi) if full else made


def _margins(rng: Rng) -> Arguments:
    shape = (max(a_length(rng), 1), int(rng.integers(2, 5)))
    options: dict[str, Any] = {
        "p": int(rng.integers(1, 3)),
        "margin": float(rng.choice((1.0, 0.3))),
    }
    if coin(rng):
        options["weight"] = (rng.random(shape[1]) + 0.5).astype(np.float32)
    given = [floats(rng, shape), rng.integers(0, shape[1], shape[0])]
    return given, {**options, **_a_reduction(rng)}


def _multi_margin(x: Array, t: Array, *, p: int, margin: float, weight: Any = None) -> Any:
    rows = np.arange(len(x))
    right = x[rows, t][:, None]
    parts = np.maximum(margin - right + x, 0) ** p
    if weight is not None:
        parts = parts * weight[t][:, None]
    parts[rows, t] = 0
    return parts.sum(1) / x.shape[1]


def _labels(rng: Rng) -> Arguments:
    shape = (max(a_length(rng), 1), int(rng.integers(1, 5)))
    given = [floats(rng, shape), np.asarray(rng.integers(0, 2, shape), np.float32)]
    return given, _a_reduction(rng)


def _soft_labels(x: Array, t: Array) -> Any:
    made = _times(t, np.logaddexp(0, -x)) + _times(1 - t, np.logaddexp(0, x))
    return made.mean(-1)


_ORDERS: Final = (0.5, 1.0, 2.0, 3.0, math.inf)


def _sizes(x: Array, p: float, axis: int = -1, keepdims: bool = True) -> Any:
    size = np.abs(x)
    if p == math.inf:
        return size.max(axis, keepdims=keepdims)
    return (size**p).sum(axis, keepdims=keepdims) ** (1 / p)


def _normed(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    return [floats(rng, shape)], {"p": float(rng.choice(_ORDERS)), "axis": an_axis(rng, len(shape))}


def _normalize(x: Array, *, p: float, axis: int) -> Any:
    return x / np.maximum(_sizes(x, p, axis), 1e-12)


def _couples(rng: Rng) -> Arguments:
    shape = a_shape(rng, 2)
    return [floats(rng, shape), floats(rng, shape)], {}


def _compared(rng: Rng) -> Arguments:
    given, _ = _couples(rng)
    return given, {"axis": an_axis(rng, given[0].ndim)}


def _distances(rng: Rng) -> Arguments:
    options = {"p": float(rng.choice(_ORDERS)), "keepdims": coin(rng)}
    return _couples(rng)[0], options


def _cosine(x: Array, y: Array, *, axis: int) -> Any:
    a, b = (np.sqrt((v * v).sum(axis)) for v in (x, y))
    return (x * y).sum(axis) / (np.maximum(a, 1e-8) * np.maximum(b, 1e-8))


def _triplets(rng: Rng) -> Arguments:
    shape = a_shape(rng, 2, 2)
    options = {"swap": coin(rng), "margin": float(rng.choice((1.0, 0.2))), **_a_reduction(rng)}
    return [floats(rng, shape) for _ in range(3)], {**options, "p": float(rng.choice(_ORDERS))}


def _triplet(a: Array, b: Array, c: Array, *, margin: float, swap: bool, p: float) -> Any:
    near, far = (_sizes(a - v + 1e-6, p, -1, False) for v in (b, c))
    if swap:
        far = np.minimum(far, _sizes(b - c + 1e-6, p, -1, False))
    return np.maximum(near - far + margin, 0)


def _standard(x: Array, axes: Any, eps: float = 1e-5) -> Any:
    off = x - x.mean(axes, keepdims=True)
    return off / np.sqrt((off * off).mean(axes, keepdims=True) + eps)


def _affine(rng: Rng, shape: tuple[int, ...]) -> list[Any]:
    return [np.asarray(rng.normal(size=shape), np.float32) for _ in range(2)] if coin(rng) else []


def _layered(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    inner = shape[int(rng.integers(0, len(shape))) :]
    return [floats(rng, shape), inner, *_affine(rng, inner)], {}


def _layer_norm(x: Array, inner: tuple[int, ...], w: Any = 1.0, b: Any = 0.0) -> Any:
    return _standard(x, tuple(range(-len(inner), 0))) * w + b


def _root_norm(x: Array, inner: tuple[int, ...], w: Any = 1.0, *, eps: float) -> Any:
    return x / np.sqrt((x * x).mean(tuple(range(-len(inner), 0)), keepdims=True) + eps) * w


def _rooted(rng: Rng) -> Arguments:
    given, _ = _layered(rng)
    return given[:3], {"eps": 1e-3}


def _channels(rng: Rng, groups: int = 1) -> tuple[int, ...]:
    lead = a_shape(rng, 1, 3)
    return (max(lead[0], 1), groups * int(rng.integers(1, 4)), *(max(n, 1) for n in lead[1:]), 3)


def _by_channel(x: Array, w: Any) -> Any:
    return w.reshape(-1, *(1,) * (x.ndim - 2)) if isinstance(w, np.ndarray) else w


def _grouped(rng: Rng) -> Arguments:
    groups = int(rng.integers(1, 4))
    shape = _channels(rng, groups)
    return [floats(rng, shape), groups, *_affine(rng, shape[1:2])], {}


def _group_norm(x: Array, groups: int, w: Any = 1.0, b: Any = 0.0) -> Any:
    made = _standard(x.reshape(len(x), groups, -1), (2,)).reshape(x.shape)
    return made * _by_channel(x, w) + _by_channel(x, b)


def _instances(rng: Rng) -> Arguments:
    shape = _channels(rng)
    return [floats(rng, shape), *_affine(rng, shape[1:2])], {}


def _instance_norm(x: Array, w: Any = 1.0, b: Any = 0.0) -> Any:
    return _standard(x, tuple(range(2, x.ndim))) * _by_channel(x, w) + _by_channel(x, b)


def _batches(rng: Rng) -> Arguments:
    shape = _channels(rng)
    mean, var = floats(rng, shape[1:2]), (rng.random(shape[1]) + 0.2).astype(np.float32)
    return [floats(rng, shape), mean, var, *_affine(rng, shape[1:2])], {"training": coin(rng)}


def _running(package: Any, *given: Any, training: bool) -> Any:
    made = package.batch_norm(*given, training=training)
    return [made.running_mean, made.running_var] if training else []


def _batch_norm(
    x: Array, mean: Array, var: Array, w: Any = 1.0, b: Any = 0.0, *, training: bool
) -> Any:
    scale, shift = _by_channel(x, w), _by_channel(x, b)
    if not training:
        off = x - _by_channel(x, mean)
        return (off / np.sqrt(_by_channel(x, var) + 1e-5) * scale + shift,)
    axes = (0, *range(2, x.ndim))
    running = 0.9 * mean + 0.1 * x.mean(axes), 0.9 * var + 0.1 * x.var(axes, ddof=1)
    return _standard(x, axes) * scale + shift, *running


def _neighbours(rng: Rng) -> Arguments:
    """Return channels, and windows of even and odd numbers of them."""
    shape = (2, a_length(rng), 3)
    return [floats(rng, shape), int(rng.integers(1, 6))], {"alpha": 0.5, "beta": 0.75, "k": 2.0}


def _local_norm(x: Array, size: int, *, alpha: float, beta: float, k: float) -> Any:
    total = np.zeros_like(x)
    for c in range(x.shape[1]):
        first = c - size // 2
        total[:, c] = (x[:, max(first, 0) : max(first + size, 0)] ** 2).sum(1)
    return x / (k + alpha * total / size) ** beta


def _pooled(rng: Rng) -> Arguments:
    n, size = a_length(rng) + 3, int(rng.integers(1, 4))
    options = {"stride": int(rng.integers(1, 4)), "padding": int(rng.integers(0, size // 2 + 1))}
    return [floats(rng, (1, 2, n)), size], options


def _windows(x: Array, size: int, stride: int, padding: int, fill: float) -> Any:
    wide = np.pad(x, [(0, 0), (0, 0), (padding, padding)], constant_values=fill)
    return np.lib.stride_tricks.sliding_window_view(wide, size, 2)[:, :, ::stride]


def _max_pool(x: Array, size: int, *, stride: int, padding: int) -> Any:
    return _windows(x, size, stride, padding, -np.inf).max(-1)


def _avg_pool(x: Array, size: int, *, stride: int, padding: int) -> Any:
    return _windows(x, size, stride, padding, 0.0).mean(-1)


def _adapted(rng: Rng) -> Arguments:
    return [floats(rng, (1, 2, a_length(rng) + 1)), int(rng.integers(1, 6))], {}


def _adaptive(of: Function) -> Function:
    def meaning(x: Array, count: int) -> Any:
        n = x.shape[2]
        ends = [(i * n // count, -(-(i + 1) * n // count)) for i in range(count)]
        return np.stack([of(x[:, :, a:b], axis=2) for a, b in ends], 2)

    return meaning


def _linear(rng: Rng) -> Arguments:
    n, m = a_length(rng), a_length(rng)
    given = [floats(rng, (*a_shape(rng, 0, 2), n)), floats(rng, (m, n))]
    return [*given, *([floats(rng, (m,))] if coin(rng) else [])], {}


def _shuffled(rng: Rng) -> Arguments:
    groups = int(rng.integers(1, 4))
    return [floats(rng, (2, groups * int(rng.integers(1, 4)), 3)), groups], {}


def _shuffle(x: Array, groups: int) -> Any:
    split = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    return np.swapaxes(split, 1, 2).reshape(x.shape)


def _pixels(rng: Rng) -> Arguments:
    factor, c, h, w = (int(n) for n in rng.integers(1, 4, 4))
    return [floats(rng, (2, c * factor * factor, h, w)), factor], {}


def _pixel_shuffle(x: Array, r: int) -> Any:
    n, c, h, w = x.shape
    split = x.reshape(n, c // r // r, r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    return split.reshape(n, c // r // r, h * r, w * r)


def _pixels_back(rng: Rng) -> Arguments:
    (x, r), _ = _pixels(rng)
    return [np.ascontiguousarray(_pixel_shuffle(x, r)), r], {}


def _pixel_unshuffle(x: Array, r: int) -> Any:
    n, c, h, w = x.shape
    split = x.reshape(n, c, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4)
    return split.reshape(n, c * r * r, h // r, w // r)


def _looked_up(rng: Rng) -> Arguments:
    return [rng.integers(0, 5, a_shape(rng)), floats(rng, (5, 3))], {}


_SELU: Final = (1.0507009873554804934193349852946, 1.6732632423543772848170429916717)
_EACH: Final[dict[str, Function]] = {
    "relu": lambda x: np.maximum(x, 0), "relu6": lambda x: np.clip(x, 0, 6),
    "sigmoid": _sigmoid, "silu": lambda x: x * _sigmoid(x), "tanh": np.tanh,
    "selu": lambda x: _SELU[0] * _elu(x, _SELU[1]), "softsign": lambda x: x / (1 + np.abs(x)),
    "mish": lambda x: x * np.tanh(np.logaddexp(0, x)), "tanh_shrink": lambda x: x - np.tanh(x),
    "log_sigmoid": lambda x: -np.logaddexp(0, -x),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
}  # fmt: skip
_LOSSES: Final[list[tuple[str, Callable[[Rng], Arguments], Function]]] = [
    ("mse_loss", _pair(), lambda x, t: (x - t) ** 2),
    ("l1_loss", _pair(), lambda x, t: np.abs(x - t)),
    ("huber_loss", _pair(delta=(1.0, 0.3)), _huber),
    ("smooth_l1_loss", _pair(beta=(1.0, 0.3)), _smooth_l1),
    ("binary_cross_entropy", _binary, _bce),
    ("soft_margin_loss", _signed(1), lambda x, t: np.logaddexp(0, -t * x)),
    ("hinge_embedding_loss", _signed(1, margin=(1.0, 0.3)),
     lambda x, t, margin: np.where(t > 0, x, np.maximum(margin - x, 0))),
    ("margin_ranking_loss", _signed(2, margin=(0.0, 0.4)),
     lambda x, y, t, margin: np.maximum(t * (y - x) + margin, 0)),
    ("poisson_nll_loss", _poisson, _poisson_loss), ("gaussian_nll_loss", _gaussian, _gaussian_loss),
    ("multi_margin_loss", _margins, _multi_margin),
    ("multilabel_soft_margin_loss", _labels, _soft_labels),
]  # fmt: skip
ROWS: Final[list[Row]] = [
    *(Row(name, of_one(floats), of, smooth=True) for name, of in _EACH.items()),
    Row("elu", _with(alpha=(1.0, 0.5)), _elu, smooth=True),
    Row("celu", _with(alpha=(1.0, 0.5)), lambda x, alpha: np.where(
        x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)), smooth=True),
    Row("leaky_relu", _with(negative_slope=(0.01, 0.3)),
        lambda x, negative_slope: np.where(x > 0, x, negative_slope * x), smooth=True),
    Row("hard_tanh", _with(min_value=(-1.0, -0.5), max_value=(1.0, 2.0)),
        lambda x, min_value, max_value: np.clip(x, min_value, max_value), smooth=True),
    Row("hard_shrink", _with(threshold=(0.5, 0.0)),
        lambda x, threshold: np.where(np.abs(x) <= threshold, 0, x), smooth=True),
    Row("soft_shrink", _with(threshold=(0.5, 1.0)),
        lambda x, threshold: x - np.clip(x, -threshold, threshold), smooth=True,
        without="infinite"),
    Row("threshold", lambda rng: ([floats(rng, a_shape(rng)), 1.0, 7.0], {}),
        lambda x, at, other: np.where(x > at, x, other), smooth=True, without="nan"),
    Row("softplus", _with(beta=(1.0, 0.5, 3.0)),
        lambda x, beta: np.logaddexp(0, beta * x) / beta, smooth=True),
    Row("softmax", _line, _softmax, smooth=True),
    Row("softmin", _line, lambda x, axis: _softmax(-x, axis=axis), smooth=True),
    Row("log_softmax", _line, lambda x, axis: x - _log_sum(x, axis), smooth=True),
    Row("glu", _halves, _glu, smooth=True),
    *(Row(name, draw, _loss(of), smooth=True, moves=True) for name, draw, of in _LOSSES),
    Row("triplet_margin_loss", _triplets, _loss(_triplet), smooth=True, moves=True,
        without="large"),
    # Infinite scores are subtracted from each other, as in PyTorch.
    Row("binary_cross_entropy_with_logits", _binary_logits, _loss(_bce_logits), smooth=True,
        moves=True, without="infinite"),
    Row("nll_loss", _classes, _of_classes, smooth=True, moves=True),
    Row("cross_entropy", _smoothed, _entropy, smooth=True, moves=True),
    Row("cross_entropy", _beliefs, _of_beliefs, "of beliefs", smooth=True, moves=True),
    Row("kl_div", _divergence, _kl, smooth=True, moves=True),
    Row("normalize", _normed, _normalize, smooth=True, moves=True),
    Row("pairwise_distance", _distances, lambda x, y, p, keepdims: _sizes(
        x - y + 1e-6, p, -1, keepdims), smooth=True, moves=True),
    Row("cosine_similarity", _compared, _cosine, smooth=True, moves=True, without="small"),
    Row("layer_norm", _layered, _layer_norm, smooth=True, moves=True),
    Row("rms_norm", _rooted, _root_norm, smooth=True, moves=True),
    Row("group_norm", _grouped, _group_norm, smooth=True, moves=True),
    Row("instance_norm", _instances, _instance_norm, smooth=True, moves=True),
    Row("batch_norm", _batches, lambda *x, training: _batch_norm(*x, training=training)[0],
        call=lambda p, *x, **more: p.batch_norm(*x, **more).output, smooth=True, moves=True),
    Row("batch_norm", _batches, lambda *x, training: list(_batch_norm(*x, training=training)[1:]),
        "running", call=_running, moves=True),
    Row("local_response_norm", _neighbours, _local_norm, smooth=True, moves=True),
    Row("max_pool1d", _pooled, _max_pool, smooth=True),
    Row("avg_pool1d", _pooled, _avg_pool, smooth=True, moves=True),
    Row("adaptive_max_pool1d", _adapted, _adaptive(np.max), smooth=True),
    # Uneven windows are a product with their weights, where 0 meets NaN.
    Row("adaptive_avg_pool1d", _adapted, _adaptive(np.mean), smooth=True, moves=True,
        without="nan infinite"),
    Row("linear", _linear, lambda x, w, b=0.0: x @ w.T + b, smooth=True, moves=True),
    Row("channel_shuffle", _shuffled, _shuffle), Row("pixel_shuffle", _pixels, _pixel_shuffle),
    Row("pixel_unshuffle", _pixels_back, _pixel_unshuffle),
    Row("embedding", _looked_up, lambda i, w: w[i]),
    Row("one_hot", lambda rng: ([rng.integers(0, 5, a_shape(rng)), 5], {}),
        lambda i, n: np.eye(n, dtype=np.int64)[i]),
]  # fmt: skip
