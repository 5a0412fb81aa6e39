"""Modules of calor_nn over sequences: recurrent ones, attention and transformers, step by step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...language import Array
from ..drawing import Arguments, Rng, coin
from . import sequences
from .language import Function, Row
from .modules import held

_SAME: Final = "nan infinite zeros ties equal large small limits long short"
_GATES: Final = {"RNN": 1, "LSTM": 4, "GRU": 3}
Weights = dict[str, Array]


def _normal(rng: Rng, *shape: int) -> Array:
    return np.asarray(rng.normal(size=shape) * 0.6, np.float32)


def _sigmoid(x: Array) -> Any:
    return 1 / (1 + np.exp(-x))


def _step(kind: str, x: Array, states: list[Array], w: Weights, name: str, relu: bool) -> Any:
    """Return the states after one step, by the equations of the cell."""
    own: list[Any] = [
        w.get(f"{part}{name}", 0.0) for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    ]
    a, b = x @ own[0].T + own[2], states[0] @ own[1].T + own[3]
    if kind == "RNN":
        return [np.maximum(a + b, 0) if relu else np.tanh(a + b)]
    if kind == "LSTM":
        i, f, g, o = np.split(a + b, 4, -1)
        c = _sigmoid(f) * states[1] + _sigmoid(i) * np.tanh(g)
        return [_sigmoid(o) * np.tanh(c), c]
    (r, z, n), (rh, zh, nh) = np.split(a, 3, -1), np.split(b, 3, -1)
    n = np.tanh(n + _sigmoid(r + rh) * nh)
    z = _sigmoid(z + zh)
    return [(1 - z) * n + z * states[0]]


def _names(layers: int, both: bool) -> list[str]:
    return [f"_l{k}{end}" for k in range(layers) for end in (("", "_reverse") if both else ("",))]


def _sequences(kind: str) -> Callable[[Rng], Arguments]:
    def drawn(rng: Rng) -> Arguments:
        steps, batch, width, hidden = (int(n) for n in rng.integers(1, 4, 4))
        layers, both, bias = int(rng.integers(1, 3)), coin(rng), rng.random() < 0.7
        weights: Weights = {}
        for number, name in enumerate(_names(layers, both)):
            inner = width if number < 1 + both else hidden * (1 + both)
            rows = _GATES[kind] * hidden
            weights[f"weight_ih{name}"] = _normal(rng, rows, inner)
            weights[f"weight_hh{name}"] = _normal(rng, rows, hidden)
            if bias:
                weights[f"bias_ih{name}"] = _normal(rng, rows)
                weights[f"bias_hh{name}"] = _normal(rng, rows)
        options: dict[str, Any] = {
            "weights": weights, "layers": layers, "both": both, "batch_first": coin(rng),
        }  # fmt: skip
        if kind == "RNN":
            options["relu"] = coin(rng)
        if coin(rng):
            count = 2 if kind == "LSTM" else 1
            shape = layers * (1 + both), batch, hidden
            options["state"] = [_normal(rng, *shape) for _ in range(count)]
        x = _normal(rng, *((batch, steps) if options["batch_first"] else (steps, batch)), width)
        return [x], options

    return drawn


def _recurrent(kind: str) -> Function:
    def call(
        package: Any, x: Any, *, weights: Any, layers: int, both: bool, batch_first: bool,
        relu: bool = False, state: Any = None,
    ) -> Any:  # fmt: skip
        options: dict[str, Any] = {"nonlinearity": "relu"} if relu else {}
        hidden = weights["weight_hh_l0"].shape[1]
        layer = getattr(package, kind)(
            x.shape[-1], hidden, *([layers] if layers > 1 else []), batch_first=batch_first,
            bidirectional=both, bias="bias_ih_l0" in weights, **options,
        )  # fmt: skip
        held(layer, weights)
        given = () if state is None else (tuple(state) if len(state) > 1 else state[0],)
        made, last = layer(x, *given)
        return [made, *(last if isinstance(last, tuple) else (last,))]

    return call


def _recurring(kind: str) -> Function:
    def meaning(
        x: Array, *, weights: Any, layers: int, both: bool, batch_first: bool, relu: bool = False,
        state: Any = None,
    ) -> Any:  # fmt: skip
        x = np.swapaxes(x, 0, 1) if batch_first else x
        hidden, count = weights["weight_hh_l0"].shape[1], 2 if kind == "LSTM" else 1
        names = _names(layers, both)
        if state is None:
            state = [np.zeros((len(names), x.shape[1], hidden))] * count
        last: list[list[Array]] = []
        for layer in range(layers):
            made = []
            for end in range(1 + both):
                number = layer * (1 + both) + end
                now, rows = [s[number] for s in state], []
                for row in x[::-1] if end else x:
                    now = _step(kind, row, now, weights, names[number], relu)
                    rows.append(now[0])
                last.append(now)
                made.append(np.stack(rows[::-1] if end else rows))
            x = np.concatenate(made, -1)
        out = np.swapaxes(x, 0, 1) if batch_first else x
        return [out, *(np.stack([own[k] for own in last]) for k in range(count))]

    return meaning


def _cells(kind: str) -> Callable[[Rng], Arguments]:
    def drawn(rng: Rng) -> Arguments:
        batch, width, hidden = (int(n) for n in rng.integers(1, 4, 3))
        rows = _GATES[kind] * hidden
        weights = {"weight_ih": _normal(rng, rows, width), "weight_hh": _normal(rng, rows, hidden)}
        if coin(rng):
            weights |= {"bias_ih": _normal(rng, rows), "bias_hh": _normal(rng, rows)}
        count = 2 if kind == "LSTM" else 1
        options: dict[str, Any] = {"weights": weights}
        if coin(rng):
            options["state"] = [_normal(rng, batch, hidden) for _ in range(count)]
        if kind == "RNN":
            options["relu"] = coin(rng)
        return [_normal(rng, batch, width)], options

    return drawn


def _cell(kind: str) -> Function:
    def call(package: Any, x: Any, *, weights: Any, state: Any = None, relu: bool = False) -> Any:
        options: dict[str, Any] = {"nonlinearity": "relu"} if relu else {}
        hidden = weights["weight_hh"].shape[1]
        bias = "bias_ih" in weights
        layer = getattr(package, f"{kind}Cell")(x.shape[-1], hidden, bias=bias, **options)
        given = () if state is None else (tuple(state) if len(state) > 1 else state[0],)
        made = held(layer, weights)(x, *given)
        return list(made) if isinstance(made, tuple) else [made]

    return call


def _celled(kind: str) -> Function:
    def meaning(x: Array, *, weights: Any, state: Any = None, relu: bool = False) -> Any:
        hidden = weights["weight_hh"].shape[1]
        count = 2 if kind == "LSTM" else 1
        state = [np.zeros((len(x), hidden))] * count if state is None else state
        return _step(kind, x, state, weights, "", relu)

    return meaning


def _attend(
    q: Array, k: Array, v: Array, w: Weights, heads: int, name: str, seen: Any = True,
    bias: Any = 0.0,
) -> tuple[Array, Array]:  # fmt: skip
    """Return what attention of several heads makes of rows (N, L, E), and its weights."""
    wide = w[f"{name}out_proj.weight"].shape[0]
    if f"{name}in_proj_weight" in w:
        each = np.split(w[f"{name}in_proj_weight"], 3)
    else:
        each = [w[f"{name}{part}_proj_weight"] for part in "qkv"]
    extra = w.get(f"{name}in_proj_bias")
    extras = [0.0] * 3 if extra is None else np.split(extra, 3)
    parts = []
    for x, one, b in zip((q, k, v), each, extras, strict=True):
        made = x @ one.T + b
        parts.append(made.reshape(*made.shape[:2], heads, -1).transpose(0, 2, 1, 3))
    scores = parts[0] @ parts[1].swapaxes(-1, -2) / math.sqrt(wide / heads) + bias
    there = np.broadcast_to(seen, scores.shape)
    powers = np.where(there, np.exp(scores), 0)
    shares = powers / np.maximum(powers.sum(-1, keepdims=True), 1e-300)
    out = (shares @ parts[2]).transpose(0, 2, 1, 3).reshape(*q.shape[:2], wide)
    return out @ w[f"{name}out_proj.weight"].T + w.get(f"{name}out_proj.bias", 0.0), shares


def _heads(rng: Rng, wide: int, bias: bool, name: str = "", widths: Any = None) -> Weights:
    made: Weights = {}
    if widths is None:
        made[f"{name}in_proj_weight"] = _normal(rng, 3 * wide, wide)
    else:
        for part, width in zip("qkv", (wide, *widths), strict=True):
            made[f"{name}{part}_proj_weight"] = _normal(rng, wide, width)
    made[f"{name}out_proj.weight"] = _normal(rng, wide, wide)
    if bias:
        made[f"{name}in_proj_bias"] = _normal(rng, 3 * wide)
        made[f"{name}out_proj.bias"] = _normal(rng, wide)
    return made


def _queries(rng: Rng) -> Arguments:
    heads, each = (int(n) for n in rng.integers(1, 3, 2))
    wide, (batch, length, keys) = heads * each, (int(n) for n in rng.integers(1, 4, 3))
    kind = int(rng.integers(3))
    widths = (wide + 1, int(rng.integers(1, 4))) if kind == 2 else None
    options: dict[str, Any] = {
        "weights": _heads(rng, wide, coin(rng), widths=widths), "heads": heads,
        "batch_first": coin(rng), "causal": coin(rng),
    }  # fmt: skip
    keys = length if kind == 0 else keys
    if coin(rng):
        options["mask"] = rng.random((length, keys)) < 0.7
    if coin(rng):
        options["key_mask"] = rng.random((batch, keys)) < 0.8
    if coin(rng):
        options["bias"] = _normal(rng, length, keys)
    shapes = [(batch, length, wide)]
    if kind:
        shapes += [(batch, keys, n) for n in widths or (wide, wide)]
    given = [_normal(rng, *s) for s in shapes]
    if not options["batch_first"]:
        given = [np.ascontiguousarray(np.swapaxes(x, 0, 1)) for x in given]
    return given, options


def _call_heads(
    package: Any, *given: Any, weights: Any, heads: int, batch_first: bool, **options: Any
) -> Any:
    widths: dict[str, Any] = {}
    if len(given) == 3 and "q_proj_weight" in weights:
        widths = {"kdim": given[1].shape[-1], "vdim": given[2].shape[-1]}
    layer = package.MultiHeadAttention(
        given[0].shape[-1], heads, bias="in_proj_bias" in weights, batch_first=batch_first, **widths
    )
    return held(layer, weights)(*given, return_weights=True, **options)


def _attended(
    *given: Array, weights: Any, heads: int, batch_first: bool, causal: bool, mask: Any = True,
    key_mask: Any = None, bias: Any = 0.0,
) -> Any:  # fmt: skip
    rows = [x if batch_first else np.swapaxes(x, 0, 1) for x in given]
    rows = rows * 3 if len(rows) == 1 else rows
    seen = np.ones((1, 1, rows[0].shape[1], rows[1].shape[1]), bool) & mask
    if causal:
        seen = seen & np.tri(seen.shape[2], seen.shape[3], dtype=np.bool_)
    if key_mask is not None:
        seen = seen & key_mask[:, None, None, :]
    q, k, v = rows
    made, shares = _attend(q, k, v, weights, heads, "", seen, bias)
    return (made if batch_first else np.swapaxes(made, 0, 1)), shares


def _places(rng: Rng) -> Arguments:
    wide, batch, length = 2 * int(rng.integers(1, 4)) - 1, 2, int(rng.integers(1, 5))
    wide += int(rng.integers(0, 2))
    first = coin(rng)
    shape = (batch, length, wide) if first else (length, batch, wide)
    return [_normal(rng, *shape)], {"batch_first": first}


def _encoded(x: Array, *, batch_first: bool) -> Any:
    length, wide = x.shape[1 if batch_first else 0], x.shape[2]
    table = np.zeros((length, wide))
    for at, k in np.ndindex(length, wide):
        angle = at / 10000 ** ((k // 2 * 2) / wide)
        table[at, k] = math.cos(angle) if k % 2 else math.sin(angle)
    return x + (table if batch_first else table[:, None])


def _block(rng: Rng, wide: int, inner: int, bias: bool, crossed: bool) -> Weights:
    """Return the weights of a layer of an encoder, or of a decoder."""
    made = _heads(rng, wide, bias, "self_attn.")
    norms = 2
    if crossed:
        made |= _heads(rng, wide, bias, "multihead_attn.")
        norms = 3
    for name, rows, columns in (("linear1", inner, wide), ("linear2", wide, inner)):
        made[f"{name}.weight"] = _normal(rng, rows, columns)
        if bias:
            made[f"{name}.bias"] = _normal(rng, rows)
    for k in range(1, norms + 1):
        made[f"norm{k}.weight"] = _normal(rng, wide) + 1
        if bias:
            made[f"norm{k}.bias"] = _normal(rng, wide)
    return made


def _norm(x: Array, w: Weights, name: str) -> Array:
    off = x - x.mean(-1, keepdims=True)
    made = off / np.sqrt((off * off).mean(-1, keepdims=True) + 1e-5)
    return np.asarray(made * w[f"{name}.weight"] + w.get(f"{name}.bias", 0.0))


def _gelu(x: Array) -> Any:
    return x * 0.5 * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)))


Masks = dict[str, Any]
# The masks that a layer of an encoder takes, and one of a decoder takes besides.
_OWN: Final = ("mask", "key_mask", "causal")
_CROSSED: Final = ("memory_mask", "memory_key_mask", "memory_causal")


def _masks(rng: Rng, names: tuple[str, ...], batch: int, length: int, keys: int) -> Masks:
    """Return some of the masks that let each query attend to the first key at least."""
    made: Masks = {}
    for name in names:
        if coin(rng):
            continue
        if name.endswith("causal"):
            made[name] = True
            continue
        seen = rng.random((batch, keys) if name.endswith("key_mask") else (length, keys)) < 0.6
        seen[:, 0] = True
        made[name] = seen
    return made


def _seen(masks: Masks, names: tuple[str, ...], length: int, keys: int) -> Array:
    """Return which keys each query attends to, (N, 1, L, S)."""
    plain, of_keys, causal = names
    seen = np.ones((1, 1, length, keys), bool) & masks.get(plain, True)
    if masks.get(causal):
        seen = seen & np.tri(length, keys, dtype=np.bool_)
    return np.asarray(seen & masks[of_keys][:, None, None, :] if of_keys in masks else seen)


def _layered(
    x: Array, memory: Any, w: Weights, heads: int, first: bool, activation: str, masks: Masks
) -> Array:
    """Return a block's result: each part beside what it got, normalized before it or after."""
    length = x.shape[1]
    own = _seen(masks, _OWN, length, length)

    def forward(t: Array) -> Array:
        inner = t @ w["linear1.weight"].T + w.get("linear1.bias", 0.0)
        inner = np.maximum(inner, 0) if activation == "relu" else _gelu(inner)
        return np.asarray(inner @ w["linear2.weight"].T + w.get("linear2.bias", 0.0))

    parts: list[Any] = [lambda t: _attend(t, t, t, w, heads, "self_attn.", own)[0]]
    if memory is not None:
        there = _seen(masks, _CROSSED, length, memory.shape[1])
        parts.append(lambda t: _attend(t, memory, memory, w, heads, "multihead_attn.", there)[0])
    for k, part in enumerate([*parts, forward], 1):
        x = x + part(_norm(x, w, f"norm{k}")) if first else _norm(x + part(x), w, f"norm{k}")
    return x


def _blocks(crossed: bool) -> Callable[[Rng], Arguments]:
    def drawn(rng: Rng) -> Arguments:
        heads, inner, (batch, length) = int(rng.integers(1, 3)), 3, rng.integers(1, 4, 2).tolist()
        wide, count = 2 * heads, int(rng.integers(1, 3))
        bias = coin(rng)
        given = [_normal(rng, batch, length, wide)]
        masks = _masks(rng, _OWN, batch, length, length)
        if crossed:
            keys = int(rng.integers(1, 4))
            given.append(_normal(rng, batch, keys, wide))
            masks |= _masks(rng, _CROSSED, batch, length, keys)
        options = {
            "weights": [_block(rng, wide, inner, bias, crossed) for _ in range(count)],
            "heads": heads, "norm_first": coin(rng), "masks": masks,
            "activation": str(rng.choice(("relu", "gelu"))), "batch_first": coin(rng),
        }  # fmt: skip
        if not options["batch_first"]:
            given = [np.ascontiguousarray(np.swapaxes(x, 0, 1)) for x in given]
        return given, options

    return drawn


def _stacked(kind: str, whole: bool) -> Function:
    """Return what builds a layer, or a stack of layers with a norm at the end, and calls it."""

    def call(
        package: Any, *given: Any, weights: Any, heads: int, norm_first: bool, masks: Masks,
        activation: str, batch_first: bool,
    ) -> Any:  # fmt: skip
        wide, inner = given[0].shape[-1], weights[0]["linear1.weight"].shape[0]
        masks = {name: _put(mask) for name, mask in masks.items()}
        layer = getattr(package, f"Transformer{kind}Layer")(
            wide, heads, inner, 0.5, *([activation] if activation == "gelu" else []),
            bias="linear1.bias" in weights[0], norm_first=norm_first, batch_first=batch_first,
        ).eval()  # fmt: skip
        if not whole:
            return held(layer, weights[0])(*given, **masks)
        stack = getattr(package, f"Transformer{kind}")(layer, len(weights), package.LayerNorm(wide))
        every = {f"layers.{n}.{k}": t for n, w in enumerate(weights) for k, t in w.items()}
        ends = {"norm.weight": np.full(wide, 1.5, np.float32), "norm.bias": np.full(
            wide, -0.5, np.float32)}  # fmt: skip
        return held(stack.eval(), {**every, **ends})(*given, **masks)

    return call


def _stacks(whole: bool) -> Function:
    def meaning(
        x: Array, memory: Any = None, *, weights: Any, heads: int, norm_first: bool, masks: Masks,
        activation: str, batch_first: bool,
    ) -> Any:  # fmt: skip
        if not batch_first:
            x = np.swapaxes(x, 0, 1)
            memory = None if memory is None else np.swapaxes(memory, 0, 1)
        for w in weights if whole else weights[:1]:
            x = _layered(x, memory, w, heads, norm_first, activation, masks)
        if whole:
            ends = {"norm.weight": np.float64(1.5), "norm.bias": np.float64(-0.5)}
            x = _norm(x, ends, "norm")  # type: ignore[arg-type]
        return x if batch_first else np.swapaxes(x, 0, 1)

    return meaning


def _put(mask: Any) -> Any:
    import calor

    return calor.asarray(mask) if isinstance(mask, np.ndarray) else mask


def _translated(rng: Rng) -> Arguments:
    heads, (batch, length, keys) = int(rng.integers(1, 3)), rng.integers(1, 4, 3).tolist()
    given = [_normal(rng, batch, n, 2 * heads) for n in (keys, length)]
    source = _masks(rng, _OWN, batch, keys, keys)
    target = _masks(rng, _OWN, batch, length, length) | _masks(rng, _CROSSED, batch, length, keys)
    options = {"heads": heads, "norm_first": coin(rng), "source": source, "target": target}
    return given, options


def _translate(
    package: Any, x: Any, y: Any, *, heads: int, norm_first: bool, source: Masks, target: Masks
) -> Any:
    """Return how far a transformer is from its parts, one after the other."""
    layer = package.Transformer(
        x.shape[-1], heads, 2, 1, 5, 0.1, norm_first=norm_first, batch_first=True
    ).eval()
    source, target = ({k: _put(v) for k, v in masks.items()} for masks in (source, target))
    made = {f"source_{name}": mask for name, mask in source.items()}
    for name, mask in target.items():
        made[name if name.startswith("memory") else f"target_{name}"] = mask
    return layer(x, y, **made) - layer.decoder(y, layer.encoder(x, **source), **target)


def _cached(rng: Rng) -> Arguments:
    heads, batch, length = int(rng.integers(1, 3)), int(rng.integers(1, 3)), int(rng.integers(2, 6))
    wide = 2 * heads
    return [_normal(rng, batch, length, wide)], {
        "weights": _heads(rng, wide, True), "heads": heads, "cut": int(rng.integers(1, length)),
        "turns": coin(rng),
    }  # fmt: skip


def _by_cache(package: Any, x: Any, *, weights: Any, heads: int, cut: int, turns: bool) -> Any:
    """Return what attention makes in two steps with a cache, twice, and the cache's length."""
    import calor

    rotary = {"rotary": package.RotaryEmbedding(2)} if turns else {}
    layer = held(package.MultiHeadAttention(2 * heads, heads, batch_first=True, **rotary), weights)
    cache = package.KVCache(x.shape[0], heads, x.shape[1] + 1, 2)
    made = []
    for _ in range(2):
        cache.reset()
        parts = [layer(x[:, :cut], cache=cache), layer(x[:, cut:], cache=cache)]
        made.append(calor.concat(parts, axis=1))
    return [*made, cache.length]


def _turned(x: Array) -> Array:
    """Return pairs of numbers of heads (N, L, H, 2) that are turned by their place."""
    angles = np.exp(1j * np.arange(x.shape[1]))[:, None]
    made = (x[..., 0] + 1j * x[..., 1]) * angles
    return np.stack([made.real, made.imag], -1)


def _by_layer(package: Any, x: Any, **options: Any) -> Any:
    positions = (options.pop("positions"),) if "positions" in options else ()
    dim = options.pop("dim", x.shape[-1])
    return package.RotaryEmbedding(dim, options["base"], options["interleaved"])(x, *positions)


def _uncached(x: Array, *, weights: Any, heads: int, cut: int, turns: bool) -> Any:
    parts = np.split(x @ weights["in_proj_weight"].T + weights["in_proj_bias"], 3, -1)
    q, k, v = (p.reshape(*x.shape[:2], heads, 2) for p in parts)
    if turns:
        q, k = _turned(q), _turned(k)
    scores = np.einsum("nlhe,nshe->nhls", q, k) / math.sqrt(2)
    powers = np.where(np.tri(x.shape[1], dtype=np.bool_), np.exp(scores), 0)
    shares = powers / powers.sum(-1, keepdims=True)
    out = np.einsum("nhls,nshe->nlhe", shares, v).reshape(x.shape)
    made = out @ weights["out_proj.weight"].T + weights["out_proj.bias"]
    return [made, made, np.asarray(x.shape[1])]


def _of(draw: Callable[[Rng], Arguments], **more: Any) -> dict[str, Any]:
    return {"draw": draw, "without": _SAME, "near": 1e-4, "least": 3, **more}


ROWS: Final[list[Row]] = [
    *(Row(kind, meaning=_recurring(kind), call=_recurrent(kind), **_of(_sequences(kind)))
      for kind in _GATES),
    *(Row(f"{kind}Cell", meaning=_celled(kind), call=_cell(kind), **_of(_cells(kind)))
      for kind in _GATES),
    Row("MultiHeadAttention", meaning=_attended, call=_call_heads, **_of(_queries)),
    Row("PositionalEncoding", meaning=_encoded, call=lambda p, x, batch_first:
        p.PositionalEncoding(x.shape[-1], 9, batch_first=batch_first)(x), **_of(_places)),
    *(Row(f"Transformer{kind}{'' if whole else 'Layer'}", meaning=_stacks(whole),
          call=_stacked(kind, whole), **_of(_blocks(kind == "Decoder")))
      for kind in ("Encoder", "Decoder") for whole in (False, True)),
    Row("Transformer", meaning=lambda x, y, **_: np.zeros(y.shape), call=_translate,
        **_of(_translated, least=2)),
    Row("KVCache", meaning=_uncached, call=_by_cache, **_of(_cached)),
    Row("RotaryEmbedding", meaning=sequences._rotary, call=_by_layer, **_of(sequences._turned)),
]  # fmt: skip
