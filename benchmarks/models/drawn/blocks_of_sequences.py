"""Blocks on sequences (N, T, D), which keep the shape."""

from __future__ import annotations

import math
from typing import Any

from models.drawn.draft import Draft


class Order:
    """What the blocks of a network have in common: the norm and its place, heads, direction."""

    def __init__(self, draft: Draft, width: int, length: int, causal: bool) -> None:
        self.draft, self.width, self.length, self.causal = draft, width, length, causal
        self.norm, self.first = draft.one("LayerNorm", "LayerNorm", "RMSNorm"), draft.chance(0.75)
        self.activation, self.heads = draft.activation(), draft.divisor(width, 16)
        self.bias = draft.chance(0.7)
        draft.say(f"{self.norm} {'first' if self.first else 'last'}, {self.activation},")
        draft.say(f"{self.heads} heads{', causal' if causal else ''};")

    def act(self) -> Any:
        """Return the activation."""
        return getattr(self.draft.nn, self.activation)()

    def linear(self, before: int, after: int) -> Any:
        """Return a linear layer."""
        return self.draft.nn.Linear(before, after, bias=self.bias)

    def normed(self, inner: Any) -> Any:
        """Return x + inner(norm(x)), or norm(x + inner(x))."""
        norm = getattr(self.draft.nn, self.norm)(self.width)
        if self.first:
            return self.draft.residual(self.draft.chain([norm, inner]))
        return self.draft.chain([self.draft.residual(inner), norm])


def mlp(order: Order) -> Any:
    """Return an MLP of features."""
    wide = order.width * order.draft.one(1, 2, 3, 4)
    return order.draft.chain(
        [order.linear(order.width, wide), order.act(), order.linear(wide, order.width)]
    )


def gated(order: Order) -> Any:
    """Return an MLP whose middle is gated (Shazeer, 2020)."""
    wide = order.width * 8 // 3
    parts = {
        "gate": order.linear(order.width, wide),
        "up": order.linear(order.width, wide),
        "down": order.linear(wide, order.width),
        "act": order.act(),
    }
    return order.draft.module(lambda m, x: m.down(m.act(m.gate(x)) * m.up(x)), **parts)


def _turned(draft: Draft, x: Any, angles: Any) -> Any:
    """Return features (N, heads, T, d) turned in pairs by their positions (Su et al., 2021)."""
    arrays, half = draft.arrays, x.shape[-1] // 2
    a, b = x[..., :half], x[..., half : 2 * half]
    cos, sin = arrays.cos(angles), arrays.sin(angles)
    return arrays.concat([a * cos - b * sin, a * sin + b * cos], axis=-1)


def attention(order: Order) -> Any:
    """Return attention: joined or separate projections, shared keys, turned or biased scores."""
    draft, width, heads = order.draft, order.width, order.heads
    head, library = width // heads, draft.library
    shared = draft.divisor(heads, heads) if draft.chance(0.3) else heads
    place = draft.one("none", "turned", "biased")
    turned = place == "turned" and head % 2 == 0
    biased = place == "biased" and not order.causal
    parts = {
        "q": order.linear(width, width),
        "kv": order.linear(width, 2 * shared * head),
        "out": order.linear(width, width),
    }
    if biased:
        parts["bias"] = draft.parameter(heads, order.length, order.length)

    def run(m: Any, x: Any) -> Any:
        n, length, _ = x.shape
        q = m.q(x).reshape(n, length, heads, head).swapaxes(1, 2)
        kv = m.kv(x).reshape(n, length, 2, shared, head)
        k, v = (kv[:, :, i].swapaxes(1, 2) for i in (0, 1))
        if shared < heads:
            k, v = (draft.repeated(part, heads // shared) for part in (k, v))
        if turned:
            places = draft.arrays.arange(length, dtype=x.dtype, device=x.device)
            rates = draft.arrays.arange(head // 2, dtype=x.dtype, device=x.device)
            rates = draft.arrays.exp(rates * (-2 * math.log(10000.0) / head))
            angles = places[:, None] * rates
            q, k = (_turned(draft, part, angles) for part in (q, k))
        mask = m.bias if biased else None
        y = library.attention(q, k, v, causal=order.causal, mask=mask)
        return m.out(y.swapaxes(1, 2).reshape(n, length, width))

    return draft.module(run, **parts)


def explicit(order: Order) -> Any:
    """Return attention whose scores are written out, with a temperature that is learned."""
    draft, width, heads, arrays = order.draft, order.width, order.heads, order.draft.arrays
    head = width // heads

    def run(m: Any, x: Any) -> Any:
        n, length, _ = x.shape
        q, k, v = (
            part.reshape(n, length, heads, head).swapaxes(1, 2) for part in draft.parts(m.qkv(x), 3)
        )
        scores = q @ k.swapaxes(2, 3) * (m.temperature / math.sqrt(head))
        if order.causal:
            seen = arrays.tril(arrays.ones((length, length), dtype=x.dtype, device=x.device))
            scores = scores + (seen - 1) * 1e4
        y = draft.functional.softmax(scores, -1) @ v
        return m.out(y.swapaxes(1, 2).reshape(n, length, width))

    temperature = draft.nn.Parameter(arrays.ones((heads, 1, 1)))
    parts = {"qkv": order.linear(width, 3 * width), "out": order.linear(width, width)}
    return draft.module(run, temperature=temperature, **parts)


def linear_attention(order: Order) -> Any:
    """Return attention without softmax (Katharopoulos et al., 2020), over all positions."""
    draft, width, heads, arrays = order.draft, order.width, order.heads, order.draft.arrays
    head, elu = width // heads, order.draft.nn.ELU()

    def run(m: Any, x: Any) -> Any:
        n, length, _ = x.shape
        q, k, v = (part.reshape(n, length, heads, head) for part in draft.parts(m.qkv(x), 3))
        q, k = m.elu(q) + 1, m.elu(k) + 1
        state = arrays.einsum("nthd,nthe->nhde", k, v)
        weight = arrays.einsum("nthd,nhd->nth", q, k.sum(1)) + 1e-3
        y = arrays.einsum("nthd,nhde->nthe", q, state) / weight[..., None]
        return m.out(y.reshape(n, length, width))

    parts = {"qkv": order.linear(width, 3 * width), "out": order.linear(width, width)}
    return draft.module(run, elu=elu, **parts)


def recurrent(order: Order) -> Any:
    """Return a recurrent layer, in both directions where no order is kept."""
    draft, nn, width = order.draft, order.draft.nn, order.width
    kind = draft.one("LSTM", "GRU", "RNN")
    both = not order.causal and width % 2 == 0 and draft.chance(0.5)
    draft.say(f"({kind}{' both ways' if both else ''})")
    layer = getattr(nn, kind)(
        width, width // 2 if both else width, batch_first=True, bidirectional=both
    )
    return draft.module(lambda m, x: m.layer(x)[0], layer=layer)


def convolved(order: Order) -> Any:
    """Return a gated depthwise convolution of time (Gulati et al., 2020)."""
    draft, nn, width = order.draft, order.draft.nn, order.width
    size = draft.one(3, 4, 7, 15, 31) if order.causal else draft.one(3, 7, 15, 31)
    pad = size - 1 if order.causal else size // 2
    parts = {
        "wide": nn.Linear(width, 2 * width),
        "glu": nn.GLU(-1),
        "spread": nn.Conv1d(width, width, size, padding=pad, groups=width),
        "act": order.act(),
        "out": nn.Linear(width, width),
    }

    def run(m: Any, x: Any) -> Any:
        y = m.spread(m.glu(m.wide(x)).swapaxes(1, 2))[:, :, : x.shape[1]]
        return m.out(m.act(y.swapaxes(1, 2)))

    return draft.module(run, **parts)


def mixed(order: Order) -> Any:
    """Return an MLP of positions (Tolstikhin et al., 2021)."""
    draft, nn, wide = order.draft, order.draft.nn, max(2, order.length // 2)
    layers = [nn.Linear(order.length, wide), order.act(), nn.Linear(wide, order.length)]
    run = lambda m, x: m.inner(x.swapaxes(1, 2)).swapaxes(1, 2)  # noqa: E731
    return draft.module(run, inner=draft.chain(layers))


def experts(order: Order) -> Any:
    """Return experts that a softmax weighs, all of them computed."""
    draft, width, arrays = order.draft, order.width, order.draft.arrays
    count = draft.one(2, 4, 8)
    wide, spread = max(4, 2 * width // count), 1 / math.sqrt(width)
    parts = {
        "gate": draft.nn.Linear(width, count),
        "up": draft.parameter(count, width, wide, spread=spread),
        "down": draft.parameter(count, wide, width, spread=spread),
        "act": order.act(),
    }

    def run(m: Any, x: Any) -> Any:
        weights = draft.functional.softmax(m.gate(x), -1)
        inner = m.act(arrays.einsum("ntd,edh->nteh", x, m.up))
        return arrays.einsum("nteh,ehd,nte->ntd", inner, m.down, weights)

    return draft.module(run, **parts)


def moved(order: Order) -> Any:
    """Return each position mixed with the one before it, gated (Peng et al., 2023)."""
    draft, width, arrays = order.draft, order.width, order.draft.arrays
    share = draft.nn.Parameter(arrays.full((width,), 0.5))
    parts = {"a": order.linear(width, width), "b": order.linear(width, width)}

    def run(m: Any, x: Any) -> Any:
        before = arrays.concat([arrays.zeros_like(x[:, :1]), x[:, :-1]], axis=1)
        y = x * m.share + before * (1 - m.share)
        return arrays.sigmoid(m.a(y)) * arrays.square(draft.functional.relu(m.b(y)))

    return draft.module(run, share=share, **parts)


# What mixes positions, whether it may be causal, and what mixes features.
MIXERS = (
    *((attention, True), (attention, True), (explicit, True), (recurrent, True)),
    *((convolved, True), (moved, True), (linear_attention, False), (mixed, False)),
)
FEATURES = (mlp, mlp, gated, experts)
