"""Attention of particular networks: windows, bands, biases, latents, long caches, caps."""

from math import prod
from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Work
from fuzzing.families._common import (
    alike,
    below,
    calor_nn,
    library,
    like,
    one,
    running,
    single,
    sizes,
    span,
    torch_nn,
)  # fmt: skip

_FAR = -1e4
_BATCHES = {1: 4, 2: 2, 4: 2, 8: 2, 16: 1}
_TOKENS = {128: 1, 197: 1, 256: 2, 384: 1, 512: 3, 1024: 3, 1500: 1, 2048: 2, 4096: 1}
_HEADS = {4: 1, 6: 1, 8: 3, 12: 4, 16: 2, 32: 1}
_WIDTHS = {32: 2, 40: 0.5, 48: 1, 64: 6, 80: 1, 96: 1, 100: 0.5, 128: 4}
# Batches of windows, heads, tokens of a window, features: Swin, Swin V2, ViTDet, MaxViT, videos.
_WINDOWS = [(64, 3, 49, 32), (128, 3, 49, 32), (16, 6, 49, 32), (8, 24, 49, 32), (64, 4, 64, 32),
            (256, 3, 64, 32), (4, 12, 256, 32), (25, 12, 196, 64), (128, 2, 49, 32),
            (32, 4, 392, 32), (64, 6, 144, 32), (64, 2, 49, 100)]  # fmt: skip
# Batch, heads, queries, keys, features: Perceiver, Q-Former, DETR, SAM, resamplers, pooling.
_LATENTS = [(1, 1, 512, 50176, 128), (1, 8, 256, 2048, 32), (8, 12, 32, 257, 64),
            (2, 8, 100, 1064, 32), (4, 8, 300, 8400, 32), (1, 8, 7, 4096, 16), (1, 8, 4096, 7, 16),
            (4, 16, 64, 1024, 96), (32, 8, 1, 197, 64), (16, 4, 16, 1000, 32),
            (2, 8, 4096, 77, 40), (1, 16, 1500, 448, 64)]  # fmt: skip
# Batch, heads, groups, keys, features of one new token.
_CACHES = [(1, 32, 8, 8192, 128), (1, 64, 8, 16384, 128), (1, 32, 1, 4096, 128),
           (1, 71, 1, 2048, 64),
           (8, 32, 8, 4096, 128), (16, 28, 4, 2048, 128), (64, 16, 16, 1024, 64),
           (4, 8, 1, 8192, 256), (1, 40, 8, 32768, 128), (32, 14, 2, 1024, 64),
           (1, 16, 2, 5000, 128), (1, 12, 12, 1500, 64)]  # fmt: skip
# Places or rows that attend along one axis: videos, axial attention, time series, tables.
_TEMPORAL = [(4096, 8, 16, 40), (1024, 8, 16, 64), (256, 20, 24, 64), (196, 12, 8, 64),
             (64, 8, 128, 16), (512, 4, 32, 32), (128, 8, 64, 32), (321, 16, 12, 8)]  # fmt: skip
_FORMS = {"windows": 4, "shifted": 2, "band": 3, "causal_band": 2, "alibi": 2, "relative": 3,
          "latents": 4, "cache": 5, "temporal": 2, "segments": 1, "cap": 1, "normalized": 2,
          "latent_heads": 1, "weights": 2, "decomposed": 1, "cosine": 1}  # fmt: skip


def _draw(random: Random) -> Parameters:
    form = one(random, _FORMS)
    heads, tokens = one(random, _HEADS), one(random, _TOKENS)
    batch, width = one(random, _BATCHES), one(random, _WIDTHS)
    groups, queries, reach = heads, tokens, one(random, {16: 1, 32: 1, 128: 2, 256: 2, 512: 1})
    if form in ("windows", "shifted", "cosine"):
        batch, heads, tokens, width = random.choice(_WINDOWS)
        groups, queries = heads, tokens
    elif form == "temporal":
        batch, heads, tokens, width = random.choice(_TEMPORAL)
        groups, queries = heads, tokens
    elif form == "latents":
        batch, heads, queries, tokens, width = random.choice(_LATENTS)
        groups = heads
    elif form == "cache":
        batch, heads, groups, tokens, width = random.choice(_CACHES)
        queries = 1
    elif form == "latent_heads":
        groups, width, queries = 1, 576, one(random, {1: 2, tokens: 1})
    elif form == "decomposed":
        width, tokens = 64, one(random, {196: 2, 1024: 1, 4096: 1})
        queries = tokens
    return {"form": form, "batch": batch, "heads": (heads, groups), "queries": queries,
            "keys": tokens, "width": width, "reach": reach}  # fmt: skip


def _attention(p: Parameters) -> Work:
    """Return attention of (batch, heads, tokens, features) with what a network adds to the scores.

    windows: a bias of each head, shifted: and a mask of each window; band: neighbours alone;
    alibi, relative: biases by distance or learned; segments: packed documents; cap: scores through
    a hyperbolic tangent; normalized: queries and keys by their root mean square; cosine: by their
    norm; latent_heads: keys of 576 features whose first 512 are the values; weights: the scores'
    softmax too; decomposed: biases by rows and columns of an image.
    """
    form, batch, (heads, groups), queries, keys, width = sizes(
        p, "form", "batch", "heads", "queries", "keys", "width"
    )
    q, kv = Operand((batch, heads, queries, width)), Operand((batch, groups, keys, width))
    operands, ours, theirs = _FORM.get(form, _plain)(p, q, kv)
    values = 512 if form == "latent_heads" else width
    made = (batch, heads, queries, values)
    flops = 2.0 * batch * heads * queries * keys * (width + values)
    return Work(operands, ours, theirs, made, flops=flops, depth=keys * width)


Made = tuple[tuple[Operand, ...], Any, Any]


def _attend(name: str, q: Any, k: Any, v: Any, bias: Any = None, causal: bool = False) -> Any:
    """Return attention of a library by its function."""
    if name == "calor":
        more = {} if bias is None else {"bias": bias}
        return calor_nn().scaled_dot_product_attention(q, k, v, causal=causal, **more)
    grouped = q.shape[1] != k.shape[1]
    call = torch_nn().scaled_dot_product_attention
    return call(q, k, v, bias, is_causal=causal, enable_gqa=grouped)


def _both(call: Any) -> tuple[Any, Any]:
    return (lambda *x: call("calor", *x)), (lambda *x: call("torch", *x))


def _plain(p: Parameters, q: Operand, kv: Operand) -> Made:
    return (q, kv, kv), *_both(_attend)


def _biased(p: Parameters, q: Operand, kv: Operand) -> Made:
    """Return attention with a bias of (heads, queries, keys), and of windows a mask too."""
    heads, tokens = q.shape[1], kv.shape[2]
    bias = Operand((1, heads, q.shape[2], tokens), weight=True)
    if p["form"] != "shifted":
        return (q, kv, kv, bias), *_both(_attend)
    masks = Operand((q.shape[0], 1, q.shape[2], tokens), fixed=True)
    return (q, kv, kv, bias, masks), *_both(
        lambda name, q, k, v, b, m: _attend(name, q, k, v, b + m)
    )


def _masked(p: Parameters, q: Operand, kv: Operand) -> Made:
    """Return attention with a mask that the network computes of positions."""
    form, reach, heads = str(p["form"]), int(p["reach"]), q.shape[1]  # type: ignore[arg-type]
    tokens = kv.shape[2]

    def bias(lib: Any, x: Any, ids: Any) -> Any:
        place = span(lib, tokens, x)
        apart = place[:, None] - place[None, :]
        if form == "alibi":
            slopes = lib.exp2(-8.0 * like(span(lib, heads, x) + 1, x) / heads)
            far = lib.where(apart >= 0, like(-apart, x), _FAR)
            return like(slopes[:, None, None] * far, x)[None]
        if form == "segments":
            seen = (ids[:, :, None] == ids[:, None, :])[:, None]
        elif form == "causal_band":
            seen = (apart >= 0) & (apart < reach)
        else:
            seen = (apart <= reach // 2) & (apart >= -(reach // 2))
        return like(lib.where(seen, 0.0, _FAR), x)

    def call(name: str, q: Any, k: Any, v: Any, *ids: Any) -> Any:
        made = bias(library(name), q, *(ids or (None,)))
        return _attend(name, q, k, v, made)

    index = (Operand((q.shape[0], tokens), "index", 4),) * (form == "segments")
    return (q, kv, kv, *index), *_both(call)


def _capped(p: Parameters, q: Operand, kv: Operand) -> Made:
    scale = q.shape[-1] ** -0.5

    def call(lib: Any, q: Any, k: Any, v: Any) -> Any:
        scores = 50.0 * lib.tanh((q @ k.mT) * (scale / 50.0))
        place = span(lib, kv.shape[2], q)
        scores = lib.where(place[:, None] >= place[None, :], scores, _FAR)
        return like(lib.softmax(single(scores), axis=-1), v) @ v

    return (q, kv, kv), *alike(call)


def _weights(p: Parameters, q: Operand, kv: Operand) -> Made:
    scale = q.shape[-1] ** -0.5
    return (q, kv, kv), *alike(lambda lib, q, k, v: lib.softmax((q * scale) @ k.mT, axis=-1) @ v)


def _normalized(p: Parameters, q: Operand, kv: Operand) -> Made:
    width = q.shape[-1]

    def call(name: str, q: Any, k: Any, v: Any, a: Any, b: Any) -> Any:
        norm = (calor_nn() if name == "calor" else torch_nn()).rms_norm
        q, k = norm(q, (width,), a, eps=1e-6), norm(k, (width,), b, eps=1e-6)
        return _attend(name, q, k, v, causal=True)

    scale = Operand((width,), weight=True)
    return (q, kv, kv, scale, scale), *_both(call)


def _cosine(p: Parameters, q: Operand, kv: Operand) -> Made:
    bias = Operand((1, q.shape[1], q.shape[2], kv.shape[2]), weight=True)

    def unit(lib: Any, x: Any) -> Any:
        return x / lib.maximum(lib.sqrt((x * x).sum(axis=-1, keepdims=True)), 0 * x[..., :1] + 1e-6)

    def call(lib: Any, q: Any, k: Any, v: Any, b: Any) -> Any:
        scores = unit(lib, q) @ unit(lib, k).mT * 10.0 + b
        return lib.softmax(scores, axis=-1) @ v

    return (q, kv, kv, bias), *alike(call)


def _latent_heads(p: Parameters, q: Operand, kv: Operand) -> Made:
    def call(name: str, q: Any, k: Any) -> Any:
        return _attend(name, q, k, k[..., :512])

    return (q, kv), *_both(call)


def _decomposed(p: Parameters, q: Operand, kv: Operand) -> Made:
    side = round(kv.shape[2] ** 0.5)
    batch, heads, tokens, width = q.shape
    table = Operand((side, side, width), weight=True)

    def call(name: str, q: Any, k: Any, v: Any, rows: Any, columns: Any) -> Any:
        lib = library(name)
        image = q.reshape(batch * heads, side, side, width)
        high = lib.einsum("bhwc,hkc->bhwk", image, rows)
        wide = lib.einsum("bhwc,wkc->bhwk", image, columns)
        bias = high[..., :, None] + wide[..., None, :]
        return _attend(name, q, k, v, bias.reshape(batch, heads, tokens, tokens))

    return (q, kv, kv, table, table), *_both(call)


_FORM: dict[str, Any] = {
    **dict.fromkeys(("windows", "shifted", "relative"), _biased),
    **dict.fromkeys(("band", "causal_band", "alibi", "segments"), _masked),
    "cap": _capped, "weights": _weights, "normalized": _normalized, "cosine": _cosine,
    "latent_heads": _latent_heads, "decomposed": _decomposed,
}  # fmt: skip


def _draw_linear(random: Random) -> Parameters:
    return {
        "form": one(random, {"kernel": 2, "causal": 1, "retention": 2, "spaces": 2, "softmaxed": 1,
                             "channels": 1, "delta": 1}),
        "batch": one(random, {1: 3, 2: 1, 4: 1, 8: 1}),
        "heads": one(random, {4: 2, 8: 2, 16: 1, 24: 1}),
        "tokens": one(random, {256: 1, 512: 2, 1024: 2, 2048: 2, 4096: 1}),
        "width": one(random, {32: 1, 64: 3, 128: 1}),
        "chunk": one(random, {64: 2, 128: 1}),
    }  # fmt: skip


def _linear(p: Parameters) -> Work:
    """Return attention whose cost is linear in tokens, or its parallel form with decay.

    kernel, softmaxed: products with keys and values first; causal: by chunks with their running
    sums; retention: scores by powers of a decay; spaces: the chunks of Mamba-2 with running sums
    of their decays; channels: scores between features (XCiT); delta: a triangle of powers.
    """
    form, batch, heads, tokens, width, chunk = sizes(
        p, "form", "batch", "heads", "tokens", "width", "chunk"
    )
    shape = (batch, heads, tokens, width)
    count = tokens // chunk

    def chunked(x: Any) -> Any:
        return x.reshape(batch, heads, count, chunk, *x.shape[3:])

    def positive(lib: Any, x: Any) -> Any:
        return lib.where(x > 0, x + 1, lib.exp(lib.minimum(x, 0 * x)))

    def kernel(lib: Any, q: Any, k: Any, v: Any) -> Any:
        q, k = positive(lib, q), positive(lib, k)
        below = (q * k.sum(axis=2, keepdims=True)).sum(axis=-1, keepdims=True)
        return (q @ (k.mT @ v)) / below

    def softmaxed(lib: Any, q: Any, k: Any, v: Any) -> Any:
        return lib.softmax(q, axis=-1) @ (lib.softmax(k, axis=2).mT @ v)

    def channels(lib: Any, q: Any, k: Any, v: Any) -> Any:
        scores = lib.softmax(q.mT @ k * (tokens**-0.5), axis=-1)
        return (scores @ v.mT).mT

    def causal(lib: Any, q: Any, k: Any, v: Any) -> Any:
        q, k, v = chunked(q * width**-0.5), chunked(k), chunked(v)
        states = k.mT @ v
        before = running(lib, states, 2) - states
        return ((below(lib, q @ k.mT) @ v + q @ before) / chunk).reshape(shape)

    def retention(lib: Any, q: Any, k: Any, v: Any) -> Any:
        place = span(lib, tokens, q)
        apart = like(place[:, None] - place[None, :], q)
        rate = like(span(lib, heads, q), q)
        decay = lib.log(1 - lib.exp2(-5 - rate))[:, None, None]
        mask = lib.where(apart >= 0, lib.exp(decay * lib.maximum(apart, 0 * apart)), 0.0)
        return (q @ k.mT * (width**-0.5) * like(mask, q)) @ v

    def spaces(lib: Any, q: Any, k: Any, v: Any, rate: Any) -> Any:
        fall = -lib.log(1 + lib.exp(single(rate))).reshape(batch, heads, count, chunk)
        total = running(lib, fall, 3)
        q, k, v = chunked(q * width**-0.5), chunked(k), chunked(v)
        inside = lib.exp(below(lib, total[..., :, None] - total[..., None, :]))
        near = (below(lib, like(inside, q)) * (q @ k.mT)) @ v
        states = (k * like(lib.exp(total[..., -1:] - total), k)[..., None]).mT @ v
        ends = running(lib, total[..., -1], 2)
        begun = ends - total[..., -1]
        between = lib.exp(below(lib, begun[..., :, None] - ends[..., None, :], -1))
        between = like(below(lib, between, -1), q)
        before = lib.einsum("bhzc,bhcnp->bhznp", between, states)
        far = (q @ before) * like(lib.exp(total), q)[..., None]
        return (near + far).reshape(shape)

    def delta(lib: Any, q: Any, k: Any, v: Any) -> Any:
        q, k, v = chunked(q), chunked(k * width**-0.5), chunked(v)
        triangle = below(lib, k @ k.mT, -1) * 0.05
        inverse = triangle @ triangle - triangle
        power = triangle @ triangle
        inverse = inverse + power @ power
        return (below(lib, q @ k.mT) @ (v + inverse @ v)).reshape(shape)

    table: dict[str, Any] = {
            "kernel": kernel, "softmaxed": softmaxed, "channels": channels, "causal": causal,
            "retention": retention, "spaces": spaces, "delta": delta}  # fmt: skip
    operands = [Operand(shape)] * 3 + [Operand(shape[:3])] * (form == "spaces")
    spans = {"retention": tokens, "causal": chunk, "spaces": chunk, "delta": chunk}
    flops = 4.0 * prod(shape) * max(spans.get(form, 0), width)
    return Work(tuple(operands), *alike(table[form]), shape, flops=flops, depth=tokens * width)


FAMILIES = (
    Family("attention_form", 6, _draw, _attention, ("batch",)),
    Family("linear_attention", 2, _draw_linear, _linear, ("batch",)),
)
