"""Drawn networks: layers at the sizes of networks, and their meaning in double precision.

Kernels of layers are chosen by sizes, and compilers join layers with what follows them: a product
with its bias, activation and norm, a convolution with the one before. Which layers follow each
other, and their channels, sides, groups and windows, are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import calor
from calor.ops.base import find

from ..language import Array
from ..tables.attention import attention as attention_meaning
from .windows import convolved, pooled

Rng = np.random.Generator
Shape = tuple[int, ...]
Function = Callable[..., Any]
# Of tokens and of images.
_CHANNELS: Final = (8, 16, 24, 33, 48, 64, 130)
_MAPS: Final = (3, 8, 16, 24, 32, 64)
_WORK: Final = 3e7


@dataclass(frozen=True)
class Layer:
    """A layer: its weights' shapes, what calor computes, and what that means in NumPy."""

    name: str
    weights: Sequence[Shape]
    run: Function
    meaning: Function


@dataclass(frozen=True)
class Network:
    """Layers, one after another, with the shape of what the first is given."""

    shape: Shape
    layers: Sequence[Layer]

    @property
    def name(self) -> str:
        """The shape and the layers as text."""
        return f"{'x'.join(map(str, self.shape))}: {', '.join(n.name for n in self.layers)}"

    def weights(self, rng: Rng) -> list[Array]:
        """Return weights of all layers, scaled so that numbers keep their size."""
        shapes = [s for layer in self.layers for s in layer.weights]
        return [rng.normal(size=s) / math.sqrt(max(math.prod(s[1:]), 1)) for s in shapes]

    def run(self, x: Any, *weights: Any) -> Any:
        """Return the result for tensors."""
        for layer in self.layers:
            own, weights = weights[: len(layer.weights)], weights[len(layer.weights) :]
            x = layer.run(x, *own)
        return x

    def meaning(self, x: Array, *weights: Array) -> Array:
        """Return the result for arrays."""
        for layer in self.layers:
            own, weights = weights[: len(layer.weights)], weights[len(layer.weights) :]
            x = layer.meaning(x, *own)
        return np.asarray(x)


def _gelu(x: Array) -> Any:
    return 0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)))


def _sigmoid(x: Array) -> Any:
    return 1 / (1 + np.exp(-x))


_ACTIVATIONS: Final[dict[str, tuple[Function, Function]]] = {
    "relu": (calor.relu, lambda x: np.maximum(x, 0)), "tanh": (calor.tanh, np.tanh),
    "silu": (calor.silu, lambda x: x * _sigmoid(x)), "gelu": (calor.gelu, _gelu),
    "sigmoid": (calor.sigmoid, _sigmoid),
    "leaky": (lambda x: calor.leaky_relu(x, 0.1), lambda x: np.where(x > 0, x, 0.1 * x)),
}  # fmt: skip


def _activation(rng: Rng, shape: Shape) -> Layer:
    name = str(rng.choice(list(_ACTIVATIONS)))
    return Layer(name, [], *_ACTIVATIONS[name])


def _linear(rng: Rng, shape: Shape) -> Layer:
    n = int(rng.choice(_CHANNELS))
    weights: list[Shape] = [(n, shape[-1])] + [(n,)] * bool(rng.random() < 0.7)

    def run(x: Any, w: Any, *bias: Any) -> Any:
        made = calor.matmul(x, calor.permute_dims(w, (1, 0)))
        return made + bias[0] if bias else made

    def meaning(x: Array, w: Array, *bias: Array) -> Any:
        return x @ w.T + (bias[0] if bias else 0)

    return Layer(f"linear to {n}{' without bias' * (len(weights) == 1)}", weights, run, meaning)


def _norm(rng: Rng, shape: Shape) -> Layer:
    """A norm of rows, by their mean and variance or by their squares, with a scale."""
    plain = bool(rng.random() < 0.5)

    def both(lib: Any, x: Any, scale: Any) -> Any:
        if not plain:
            x = x - lib.mean(x, axis=-1, keepdims=True)
        return x / lib.sqrt(lib.mean(x * x, axis=-1, keepdims=True) + 0.1) * (scale + 1)

    return Layer(
        "squares" if plain else "norm", [(shape[-1],)],
        lambda x, s: both(calor, x, s), lambda x, s: both(np, x, s),
    )  # fmt: skip


def _heads(rng: Rng, shape: Shape) -> Layer | None:
    """Self-attention, perhaps causal, with as many keys' heads or fewer."""
    batch, length, width = shape
    heads = int(rng.choice((1, 2, 4)))
    if width % heads or width // heads < 4:
        return None
    side, causal = width // heads, bool(rng.random() < 0.5)
    own = heads if rng.random() < 0.7 else 1
    scale = 1 / math.sqrt(side)

    def split(lib: Any, x: Any, w: Any, count: int) -> Any:
        made = lib.matmul(x, lib.permute_dims(w, (1, 0))).reshape((batch, length, count, side))
        return lib.permute_dims(made, (0, 2, 1, 3))

    def run(x: Any, q: Any, k: Any, v: Any) -> Any:
        parts = (split(calor, x, w, n) for w, n in ((q, heads), (k, own), (v, own)))
        made = find("attention")(*parts, causal=causal, scale=scale)[0]
        return calor.reshape(calor.permute_dims(made, (0, 2, 1, 3)), (batch, length, width))

    def meaning(x: Array, q: Array, k: Array, v: Array) -> Any:
        parts = (split(np, x, w, n) for w, n in ((q, heads), (k, own), (v, own)))
        made = attention_meaning(*parts, causal=causal, scale=scale)[0]
        return made.transpose(0, 2, 1, 3).reshape(batch, length, width)

    weights: list[Shape] = [(width, width), (own * side, width), (own * side, width)]
    return Layer(f"attention of {heads}, {own}{', causal' * causal}", weights, run, meaning)


def _shares(rng: Rng, shape: Shape) -> Layer:
    axis = int(rng.integers(1, len(shape)))

    def meaning(x: Array) -> Any:
        made = np.exp(x - x.max(axis, keepdims=True))
        return made / made.sum(axis, keepdims=True)

    return Layer(f"softmax {axis}", [], lambda x: calor.softmax(x, axis=axis), meaning)


def _gate(rng: Rng, shape: Shape) -> Layer:
    """Two products of one value, of which one gates the other, and one back: with a residual."""
    n = int(rng.choice(_CHANNELS))

    def both(lib: Any, sigmoid: Function, x: Any, a: Any, b: Any, c: Any) -> Any:
        turn = [lib.permute_dims(w, (1, 0)) for w in (a, b, c)]
        gated = sigmoid(lib.matmul(x, turn[0])) * lib.matmul(x, turn[1])
        return x + lib.matmul(gated, turn[2])

    weights: list[Shape] = [(n, shape[-1]), (n, shape[-1]), (shape[-1], n)]
    return Layer(
        f"gate of {n}", weights, lambda *a: both(calor, calor.sigmoid, *a),
        lambda *a: both(np, _sigmoid, *a),
    )  # fmt: skip


def _recurrent(rng: Rng, shape: Shape) -> Layer | None:
    """A recurrence along the second axis: steps of a plain cell or of one with gates."""
    length, width = shape[1:]
    if length > 40:
        return None
    gated = bool(rng.random() < 0.5)

    def step(lib: Any, sigmoid: Function, h: Any, row: Any, w: Any, u: Any) -> Any:
        made = lib.matmul(h, lib.permute_dims(w, (1, 0)))
        if not gated:
            return lib.tanh(row + made)
        share = sigmoid(lib.matmul(h, lib.permute_dims(u, (1, 0))) + row)
        return share * h + (1 - share) * lib.tanh(row + made)

    def run(x: Any, w: Any, u: Any) -> Any:
        def body(h: Any, row: Any) -> Any:
            made = step(calor, calor.sigmoid, h, row, w, u)
            return made, made

        _, made = calor.scan(body, x[:, 0] * 0, calor.permute_dims(x, (1, 0, 2)))
        return calor.permute_dims(made, (1, 0, 2))

    def meaning(x: Array, w: Array, u: Array) -> Any:
        h, every = x[:, 0] * 0, []
        for n in range(length):
            h = step(np, _sigmoid, h, x[:, n], w, u)
            every.append(h)
        return np.stack(every, 1)

    return Layer("gated recurrence" if gated else "recurrence", [(width, width)] * 2, run, meaning)


def _convolution(rng: Rng, shape: Shape) -> Layer | None:
    inner, *sides = shape[1:]
    outer, kind = int(rng.choice(_MAPS)), rng.random()
    groups = 1
    if kind < 0.25:
        groups, outer = inner, inner * int(rng.choice((1, 1, 2)))
    elif kind < 0.4 and inner % 2 == 0 and outer % 2 == 0:
        groups = 2
    k, stride = int(rng.choice((1, 1, 3, 3, 3, 5, 7, 2))), int(rng.choice((1, 1, 1, 2, 3)))
    dilation = int(rng.choice((1, 1, 1, 2)))
    room = (k - 1) * dilation // 2 if rng.random() < 0.8 else int(rng.integers(0, k))
    if min(sides) + 2 * room < (k - 1) * dilation + 1:
        return None
    rank = len(sides)
    how = {"stride": (stride,) * rank, "padding": ((room, room),) * rank,
           "dilation": (dilation,) * rank, "groups": groups}  # fmt: skip
    window: Shape = (outer, inner // groups, *(k,) * rank)
    given = {**how, "window": (k,) * rank}
    del given["groups"]
    biased = bool(rng.random() < 0.6)
    spread = (1, -1, *(1,) * rank)

    def run(x: Any, w: Any, *bias: Any) -> Any:
        made = find("conv")(x, w, **how)
        return made + calor.reshape(bias[0], spread) if bias else made

    def meaning(x: Array, w: Array, *bias: Array) -> Any:
        made = convolved(x, w, given, groups)
        return made + bias[0].reshape(spread) if bias else made

    told = f"conv {k} to {outer}, stride {stride}, {dilation} apart, {groups} groups"
    return Layer(told, [window] + [(outer,)] * biased, run, meaning)


def _transposed(rng: Rng, shape: Shape) -> Layer | None:
    """What gives an image back: the gradient of a convolution by its operand."""
    batch, outer, *sides = shape
    inner, k, stride = (
        int(rng.choice(_MAPS)),
        int(rng.choice((2, 3, 4))),
        int(rng.choice((1, 2, 3))),
    )
    rank = len(sides)
    wide = tuple((n - 1) * stride + k for n in sides)
    if math.prod(wide) > 3000:
        return None
    how = {"stride": (stride,) * rank, "padding": ((0, 0),) * rank, "dilation": (1,) * rank}
    target = (batch, inner, *wide)

    def run(x: Any, w: Any) -> Any:
        return find("conv_input_gradient")(x, w, input_shape=target, groups=1, **how)

    def meaning(x: Array, w: Array) -> Any:
        made: Array = np.zeros(target)
        for tap in np.ndindex(*(k,) * rank):
            at: tuple[Any, ...] = tuple(
                slice(t, t + stride * (n - 1) + 1, stride) for t, n in zip(tap, sides, strict=True)
            )
            made[(..., *at)] += np.einsum("no...,oc->nc...", x, w[(..., *tap)])
        return made

    weights: list[Shape] = [(outer, inner, *(k,) * rank)]
    return Layer(f"transposed {k} to {inner}, stride {stride}", weights, run, meaning)


def _pool(rng: Rng, shape: Shape) -> Layer | None:
    sides = shape[2:]
    k, stride, kind = (
        int(rng.choice((2, 3))),
        int(rng.choice((1, 2, 3))),
        str(rng.choice(("max", "sum"))),
    )
    if min(sides) < k:
        return None
    rank = len(sides)
    how = {"window": (k,) * rank, "stride": (stride,) * rank,
           "padding": ((k // 2, k // 2),) * rank, "dilation": (1,) * rank}  # fmt: skip
    by = 1.0 if kind == "max" else 1 / k**rank
    return Layer(
        f"{kind} of {k}, stride {stride}", [],
        lambda x: find("window_reduce")(x, kind=kind, **how) * by,
        lambda x: pooled(x, how, kind) * by,
    )  # fmt: skip


def _of_batch(rng: Rng, shape: Shape) -> Layer:
    """A norm of each channel over the batch and the image, with a scale."""
    axes = (0, *range(2, len(shape)))
    spread = (1, -1, *(1,) * (len(shape) - 2))

    def both(lib: Any, x: Any, s: Any) -> Any:
        x = x - lib.mean(x, axis=axes, keepdims=True)
        return (
            x / lib.sqrt(lib.mean(x * x, axis=axes, keepdims=True) + 0.1) * (s.reshape(spread) + 1)
        )

    return Layer(
        "batch norm", [(shape[1],)], lambda x, s: both(calor, x, s), lambda x, s: both(np, x, s)
    )


def _beside(rng: Rng, shape: Shape) -> Layer:
    """A residual: the value beside a convolution of one element with an activation."""
    n, spread = shape[1], (1, -1, *(1,) * (len(shape) - 2))
    ours, theirs = _ACTIVATIONS[str(rng.choice(("relu", "silu", "tanh")))]
    rank = len(shape) - 2
    how = {"stride": (1,) * rank, "padding": ((0, 0),) * rank, "dilation": (1,) * rank}

    def run(x: Any, w: Any, b: Any) -> Any:
        made = find("conv")(x, w, groups=1, **how)
        return x + ours(made + calor.reshape(b, spread))

    def meaning(x: Array, w: Array, b: Array) -> Any:
        made = convolved(x, w, {**how, "window": (1,) * rank}, 1)
        return x + theirs(made + b.reshape(spread))

    return Layer("residual", [(n, n, *(1,) * rank), (n,)], run, meaning)


def _small(rng: Rng, shape: Shape) -> Layer | None:
    """Windows of each channel between convolutions of one element, as networks for phones have."""
    inner, *sides = shape[1:]
    if len(sides) != 2 or max(sides) > 20:
        return None
    n, k, stride = (int(rng.choice(c)) for c in ((16, 24, 33, 48), (3, 5), (1, 1, 2)))
    ours, theirs = _ACTIVATIONS[str(rng.choice(("relu", "silu")))]
    one = {"stride": (1, 1), "padding": ((0, 0),) * 2, "dilation": (1, 1)}
    own = {"stride": (stride,) * 2, "padding": ((k // 2,) * 2,) * 2, "dilation": (1, 1)}

    def run(x: Any, a: Any, b: Any, c: Any, s: Any) -> Any:
        conv = find("conv")
        wide = ours(conv(x, a, groups=1, **one) * calor.reshape(s + 1, (1, -1, 1, 1)))
        made = conv(ours(conv(wide, b, groups=n, **own)), c, groups=1, **one)
        return made + x if stride == 1 else made

    def meaning(x: Array, a: Array, b: Array, c: Array, s: Array) -> Any:
        wide = theirs(convolved(x, a, {**one, "window": (1, 1)}, 1) * (s + 1).reshape(1, -1, 1, 1))
        middle = theirs(convolved(wide, b, {**own, "window": (k, k)}, n))
        made = convolved(middle, c, {**one, "window": (1, 1)}, 1)
        return made + x if stride == 1 else made

    weights: list[Shape] = [(n, inner, 1, 1), (n, 1, k, k), (inner, n, 1, 1), (n,)]
    return Layer(f"small of {n}, {k}, stride {stride}", weights, run, meaning)


def _bags(rng: Rng, shape: Shape) -> Layer:
    """Sums or maxima of rows at drawn places, each times a factor of its own, perhaps."""
    batch, length, width = shape
    count, most = int(rng.choice((3, 16, 33))), bool(rng.random() < 0.4)
    places = rng.integers(0, batch * length, (count, 5))
    by = np.ones((count, 5)) if most or rng.random() < 0.5 else rng.normal(size=(count, 5))

    def run(x: Any) -> Any:
        rows = calor.take(calor.reshape(x, (-1, width)), calor.asarray(places), axis=0)
        if not most:
            rows = rows * calor.asarray(by[..., None].astype(np.float32)).astype(x.dtype)
        made = calor.max(rows, axis=1) if most else calor.sum(rows, axis=1)
        return calor.reshape(made, (1, count, width))

    def meaning(x: Array) -> Any:
        rows = x.reshape(-1, width)[places] * by.astype(np.float32)[..., None]
        return (rows.max(1) if most else rows.sum(1))[None]

    return Layer(f"bags of {count}{', largest' * most}", [], run, meaning)


_TOKENS: Final = (
    _linear, _linear, _activation, _activation, _norm, _heads, _shares, _gate, _recurrent,
    _bags,
)  # fmt: skip
_IMAGES: Final = (
    _convolution, _convolution, _convolution, _activation, _activation, _transposed, _pool,
    _of_batch, _beside, _small, _small,
)  # fmt: skip


def network(kind: str, number: int, layers: int) -> Network:
    """Return a network of so many layers.

    Parameters
    ----------
    kind : str
        "tokens" or "images".
    number : int
        Which of them.
    layers : int
        The number of layers.

    Returns
    -------
    Network
        The network.
    """
    rng = np.random.default_rng([number, layers, kind == "images"])
    batch = int(rng.choice((1, 2, 5)))
    if kind == "tokens":
        shape: Shape = (batch, int(rng.choice((1, 7, 33, 64))), int(rng.choice(_CHANNELS)))
    else:
        rank = int(rng.choice((2, 2, 2, 1, 3)))
        side = int(rng.choice(((29, 57), (7, 14, 15, 28), (5, 8))[rank - 1]))
        shape = (batch, int(rng.choice(_MAPS)), *(side,) * rank)
    made: list[Layer] = []
    first = shape
    ways = _TOKENS if kind == "tokens" else _IMAGES
    while len(made) < layers:
        way = ways[int(rng.integers(len(ways)))]
        if way is _activation and (not made or made[-1].name in _ACTIVATIONS):
            continue  # What matters is which layer it is joined with.
        layer = way(rng, shape)
        if layer is None or sum(math.prod(s) for s in layer.weights) * math.prod(shape) > (
            _WORK * shape[1 if kind == "images" else -1]
        ):
            continue
        probe = layer.meaning(np.zeros(shape), *(np.zeros(s) for s in layer.weights))
        if not 0 < probe.size <= 200_000:
            continue
        made.append(layer)
        shape = probe.shape
    return Network(first, made)
