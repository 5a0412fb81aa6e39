"""Operators of ONNX Runtime's own domain: of bytes, with channels last, and of attention."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..language import Array
from .language import Draw, Node, Rng, coin, option, some

_DOMAIN: Final = "com.microsoft"


def _node(operands: list[Any], attributes: dict[str, Any], *wants: Any, outputs: int = 0) -> Node:
    made = [
        np.asarray(w, np.float32) if w is not None and np.asarray(w).dtype.kind == "f" else w
        for w in wants
    ]
    count = outputs or len(made)
    return Node(operands, attributes, count, domain=_DOMAIN, want=made)


class _Bytes:
    """Bytes with a scale and a zero point, and the numbers that they stand for."""

    def __init__(self, rng: Rng, *shape: int, signed: bool = False) -> None:
        kind = np.int8 if signed else np.uint8
        ends = np.iinfo(kind)
        self.q = np.asarray(rng.integers(ends.min, ends.max + 1, shape), kind)
        self.scale = np.asarray(rng.uniform(0.01, 0.06), np.float32)
        self.zero = np.asarray(rng.integers(ends.min, ends.max + 1), kind)
        self.given = [self.q, self.scale, self.zero]
        self.numbers = (self.q.astype(np.float64) - int(self.zero)) * float(self.scale)
        self.whole = self.q.astype(np.int64) - int(self.zero)


def _rounded(rng: Rng, y: Array, kind: Any) -> tuple[list[Any], Array]:
    """Return a scale and a zero point that fit numbers, and the bytes for the numbers."""
    ends = np.iinfo(kind)
    scale = np.asarray(max(float(np.abs(y).max()), 0.1) / float(rng.uniform(70, 200)), np.float32)
    zero = np.asarray(rng.integers(ends.min, ends.max + 1), kind)
    made = np.clip(np.round(y / float(scale)) + int(zero), ends.min, ends.max).astype(kind)
    return [scale, zero], made


def _of_bytes(rng: Rng, x: _Bytes, y: Array, how: dict[str, Any], *given: Any) -> Node:
    last, made = _rounded(rng, y, x.q.dtype)
    return _node([*x.given, *given, *last], how, made)


def _pair(product: bool) -> Draw:
    def draw(rng: Rng) -> Node:
        signed = coin(rng)
        a, b = _Bytes(rng, 2, 3, 4, signed=signed), _Bytes(rng, 3, 4, signed=signed)
        y = a.numbers * b.numbers if product else a.numbers + b.numbers
        return _of_bytes(rng, a, y, {}, *b.given)

    return draw


def _softmax(x: Array, axes: Any) -> Array:
    made = np.exp(x - x.max(axes, keepdims=True))
    return np.asarray(made / made.sum(axes, keepdims=True))


def _curve(name: str) -> Draw:
    def draw(rng: Rng) -> Node:
        x = _Bytes(rng, 2, 3, 4, signed=coin(rng))
        how: dict[str, Any] = {}
        if name == "QLinearSigmoid":
            y = 1 / (1 + np.exp(-x.numbers))
        elif name == "QLinearLeakyRelu":
            how = option(rng, {"alpha": 0.3})
            y = np.where(x.numbers < 0, x.numbers * how.get("alpha", 0.01), x.numbers)
        else:
            axis, opset = int(rng.integers(-3, 3)), int(rng.choice([11, 13]))
            how = {"axis": axis, "opset": opset}
            axes: Any = axis if opset > 12 else tuple(range(axis % 3, 3))
            y = _softmax(x.numbers, axes)
        return _of_bytes(rng, x, y, how)

    return draw


def _pool(all_of_it: bool) -> Draw:
    def draw(rng: Rng) -> Node:
        last = int(coin(rng))
        x = _Bytes(rng, 2, 3, 5, 6)
        how: dict[str, Any] = {"channels_last": last}
        y = x.numbers
        if all_of_it:
            y = y.mean((2, 3), keepdims=True)
        else:
            rows, columns = (int(n) for n in rng.integers(1, 4, 2))
            steps = [int(n) for n in rng.integers(1, 3, 2)]
            how |= {"kernel_shape": [rows, columns], "strides": steps}
            seen = np.lib.stride_tricks.sliding_window_view(y, (rows, columns), (2, 3))
            y = seen[:, :, :: steps[0], :: steps[1]].mean((-2, -1))
        made = _of_bytes(rng, x, y, how)
        if last:
            made.operands[0] = np.moveaxis(x.q, 1, -1).copy()
            made.want = [np.moveaxis(w, 1, -1) for w in made.want or []]
        return made

    return draw


def _joined(rng: Rng) -> Node:
    axis = int(rng.integers(-2, 2))
    shapes = [(2, 3), (1, 3) if axis % 2 == 0 else (2, 2), (2, 3)]
    parts = [_Bytes(rng, *shape) for shape in shapes[: int(rng.integers(1, 4))]]
    last, made = _rounded(rng, np.concatenate([p.numbers for p in parts], axis), np.uint8)
    return _node([*last, *(g for p in parts for g in p.given)], {"axis": axis}, made)


def _gemm_of_bytes(rng: Rng) -> Node:
    how = option(rng, {"transA": 1, "transB": 1, "alpha": 0.5})
    a, b = _Bytes(rng, 3, 4), _Bytes(rng, 4, 2, signed=coin(rng))
    c = np.asarray(rng.integers(-3000, 3000, 2), np.int32) if coin(rng) else None
    rate = how.get("alpha", 1.0) * float(a.scale) * float(b.scale)
    y = (a.whole @ b.whole + (0 if c is None else c)) * rate
    a.given[0] = a.q.T.copy() if "transA" in how else a.q
    b.given[0] = b.q.T.copy() if "transB" in how else b.q
    if coin(rng):
        return _node([*a.given, *b.given, c], how, y)
    return _of_bytes(rng, a, y, how, *b.given, c)


def _dynamic(x: Array) -> Array:
    """Return what the bytes stand for by which numbers are held that span a range."""
    wide = x.astype(np.float32)
    low, high = min(wide.min(), np.float32(0)), max(wide.max(), np.float32(0))
    scale = np.float32(high - low) / np.float32(255) or np.float32(1)
    zero = np.clip(np.round(-low / scale), 0, 255)
    q = np.clip(np.round(wide / scale) + zero, 0, 255)
    return np.asarray((q - zero).astype(np.float64) * float(scale))


def _dynamic_product(rng: Rng) -> Node:
    a, b = some(rng, 3, 4), _Bytes(rng, 4, 2, signed=coin(rng))
    bias = some(rng, 2) if coin(rng) else None
    y = _dynamic(a) @ b.numbers + (0 if bias is None else bias)
    return _node([a, *b.given, bias], {}, y)


def _gates(rng: Rng) -> Node:
    """A recurrent layer in one direction, or both, with weights of bytes."""
    count, size, wide, batch = 3, 2, 3, 2
    direction = str(rng.choice(["forward", "reverse", "bidirectional"]))
    ways = 1 + (direction == "bidirectional")
    x = some(rng, count, batch, wide)
    w, r = (_Bytes(rng, ways, n, 4 * size, signed=coin(rng)) for n in (wide, size))
    scales = [np.full(ways, float(b.scale), np.float32) for b in (w, r)]
    zeros = [np.full(ways, int(b.zero), b.q.dtype) for b in (w, r)]
    bias = some(rng, ways, 8 * size) if coin(rng) else None
    every, last = [], []
    for way in range(ways):
        backward = direction == "reverse" or way == 1
        h, c = np.zeros((batch, size)), np.zeros((batch, size))
        given = _dynamic(x) @ w.numbers[way]
        both = 0 if bias is None else bias[way, : 4 * size] + bias[way, 4 * size :]
        ys: list[Any] = [None] * count
        for t in range(count)[:: -1 if backward else 1]:
            h, c = _cell(given[t] + _dynamic(h) @ r.numbers[way] + both, c)
            ys[t] = h
        every.append(np.stack(ys))
        last.append(h)
    given = [x, w.q, r.q, bias, None, None, None, None, scales[0], zeros[0], scales[1], zeros[1]]
    how = {"hidden_size": size, "direction": direction}
    return _node(given, how, np.stack(every, 1), np.stack(last))


def _cell(numbers: Array, c: Array) -> tuple[Array, Array]:
    i, o, f, g = np.split(numbers, 4, -1)
    i, o, f = (1 / (1 + np.exp(-v)) for v in (i, o, f))
    c = f * c + i * np.tanh(g)
    return o * np.tanh(c), c


_ACTIVATIONS: Final[dict[str, Any]] = {
    "Relu": lambda y, p: np.maximum(y, 0), "Tanh": lambda y, p: np.tanh(y),
    "Sigmoid": lambda y, p: 1 / (1 + np.exp(-y)),
    "LeakyRelu": lambda y, p: np.where(y < 0, y * p[0], y),
    "Clip": lambda y, p: np.clip(y, p[0], p[1]),
    "HardSigmoid": lambda y, p: np.clip(y * p[0] + p[1], 0, 1),
}  # fmt: skip


def _activation(rng: Rng) -> tuple[str, list[float], Any]:
    name = str(rng.choice(list(_ACTIVATIONS)))
    values = {"LeakyRelu": [0.3], "Clip": [-0.5, 0.75], "HardSigmoid": [0.3, 0.4]}.get(name, [])
    return name, values, lambda y: _ACTIVATIONS[name](y, values)


def _fused_gemm(rng: Rng) -> Node:
    how: dict[str, Any] = option(rng, {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 0.25})
    a, b = some(rng, 3, 4), some(rng, 4, 2)
    c = some(rng, *[(2,), (3, 1), (3, 2)][int(rng.integers(3))]) if coin(rng) else None
    name, values, function = _activation(rng)
    y = how.get("alpha", 1.0) * (a @ b) + (0 if c is None else how.get("beta", 1.0) * c)
    given = [a.T.copy() if "transA" in how else a, b.T.copy() if "transB" in how else b, c]
    names = ("activation_alpha", "activation_beta")
    return _node(
        given, how | {"activation": name} | dict(zip(names, values, strict=False)), function(y)
    )


def _convolution(x: Array, w: Array, steps: list[int]) -> Array:
    seen = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    seen = seen[:, :, :: steps[0], :: steps[1]]
    return np.asarray(np.einsum("nchwij,ocij->nohw", seen, w))


def _fused_conv(name: str) -> Draw:
    def draw(rng: Rng) -> Node:
        x, w = some(rng, 2, 3, 5, 6), some(rng, 4, 3, 2, int(rng.integers(1, 4)))
        bias = some(rng, 4) if coin(rng) else None
        steps = [int(n) for n in rng.integers(1, 3, 2)]
        how: dict[str, Any] = {"strides": steps}
        y = _convolution(x, w, steps) + (0 if bias is None else bias[:, None, None])
        given: list[Any] = [x, w, bias]
        if name != "NhwcConv":
            more = some(rng, *y.shape) if coin(rng) else None
            kind, values, function = _activation(rng)
            how |= {"activation": kind} | ({"activation_params": values} if values else {})
            y = function(y + (0 if more is None else more))
            given.append(more)
        if name == "FusedConv":
            return _node(given, how, y)
        given = [g if g is None or g.ndim < 4 else np.moveaxis(g, 1, -1).copy() for g in given]
        given[1] = w if name == "NhwcFusedConv" else np.moveaxis(w, 1, -1).copy()
        return _node(given, how, np.moveaxis(y, 1, -1))

    return draw


def _largest(rng: Rng) -> Node:
    x, steps = _Bytes(rng, 2, 3, 5, 6).q, [int(n) for n in rng.integers(1, 3, 2)]
    shape = tuple(int(n) for n in rng.integers(1, 4, 2))
    seen = np.lib.stride_tricks.sliding_window_view(x, shape, (2, 3))
    y = seen[:, :, :: steps[0], :: steps[1]].max((-2, -1))
    how = {"kernel_shape": list(shape), "strides": steps}
    return _node([np.moveaxis(x, 1, -1).copy()], how, np.moveaxis(y, 1, -1))


def _bias_softmax(rng: Rng) -> Node:
    x, axis = some(rng, 2, 3, 4), int(rng.integers(-3, 3))
    bias = some(rng, *[1] * (axis % 3), *x.shape[axis % 3 :])
    y = _softmax((x + bias).astype(np.float64), tuple(range(axis % 3, 3)))
    return _node([x, bias], {"axis": axis, "is_inner_broadcast": 0}, y)


def _groups(rng: Rng) -> Node:
    last, silu, groups = int(coin(rng)), int(coin(rng)), int(rng.choice([1, 2, 4]))
    x, gamma, beta = some(rng, 2, 4, 3, 3), some(rng, 4), some(rng, 4)
    how = {"groups": groups, "activation": silu, "channels_last": last, "epsilon": 0.1}
    parts = x.astype(np.float64).reshape(2, groups, -1)
    y = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + 0.1)
    y = y.reshape(x.shape) * gamma[:, None, None] + beta[:, None, None]
    y = y / (1 + np.exp(-y)) if silu else y
    if last:
        x, y = np.moveaxis(x, 1, -1).copy(), np.moveaxis(y, 1, -1)
    return _node([x, gamma, beta], how, y)


def _embedded(rng: Rng) -> Node:
    words = np.asarray(rng.integers(0, 5, (2, 3)), np.int32)
    parts = np.asarray(rng.integers(0, 2, (2, 3)), np.int32) if coin(rng) else None
    places = np.asarray(rng.integers(0, 4, (2, 3)), np.int32) if coin(rng) else None
    mask = np.asarray(rng.integers(0, 2, (2, 3)), np.int32) if coin(rng) else None
    tables = [some(rng, n, 4) for n in (5, 4, 2)]
    gamma, beta = some(rng, 4), some(rng, 4)
    total = tables[0][words] + tables[1][np.arange(3)[None] if places is None else places]
    total = total + (0 if parts is None else tables[2][parts])
    off = (total - total.mean(-1, keepdims=True)).astype(np.float64)
    y = off / np.sqrt((off * off).mean(-1, keepdims=True) + 0.2) * gamma + beta
    count = np.zeros(2, np.int32) if mask is None else mask.sum(1).astype(np.int32)
    given = [words, parts, *tables[:2], None if parts is None else tables[2], gamma, beta]
    return _node([*given, mask, places], {"epsilon": 0.2}, y, count, total)


def _heads(x: Array, heads: int) -> Array:
    return np.moveaxis(x.reshape(*x.shape[:2], heads, -1), 2, 1)


def _attend(q: Array, k: Array, v: Array, scale: float | None, added: Any) -> Array:
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    made = _softmax((scores + added).astype(np.float64), -1) @ v
    return np.asarray(np.moveaxis(made, 1, 2).reshape(made.shape[0], made.shape[2], -1))


def _later(length: int, total: int) -> Array:
    """Return what hides the keys behind each query."""
    seen = np.arange(total) <= np.arange(length)[:, None] + total - length
    return np.where(seen, 0.0, -np.inf)


def _attention(kind: str) -> Draw:
    def draw(rng: Rng) -> Node:
        n, length, heads, size = 2, 3, int(rng.choice([1, 2])), 2
        wide = heads * size
        how: dict[str, Any] = {"num_heads": heads}
        how |= option(rng, {"scale": 0.3, "unidirectional": 1})
        causal = "unidirectional" in how
        held = [some(rng, n, heads, 2, size) for _ in range(2)] if coin(rng) else None
        total = length + (0 if held is None else 2)
        mask = np.asarray(rng.random((n, total)) < 0.7, np.int32) if coin(rng) else None
        added: Any = _later(length, total) if causal else 0.0
        if mask is not None:
            mask[:, 0] = 1
            added = added + np.where(mask[:, None, None] > 0, 0.0, -10000.0)
        if kind == "MultiHeadAttention":
            given = [some(rng, n, length, wide) for _ in range(3)]
            bias = some(rng, 3 * wide) if coin(rng) else None
            offsets = [0] * 3 if bias is None else np.split(bias, 3)
            rows = [g + o for g, o in zip(given, offsets, strict=True)]
            operands = [*given, bias, mask, None, *(held or [])]
        else:
            x, w, b = _Bytes(rng, n, length, 3), _Bytes(rng, 3, 3 * wide), some(rng, 3 * wide)
            past = None if held is None else np.stack(held)
            if kind == "Attention":
                numbers, weights = some(rng, n, length, 3), some(rng, 3, 3 * wide)
                operands = [numbers, weights, b, mask, past]
            else:
                numbers, weights = x.numbers, w.numbers
                operands = [x.q, w.q, b, x.scale, w.scale, mask, x.zero, w.zero, past]
            rows = np.split(numbers @ weights + b, 3, -1)
        q, k, v = (_heads(r, heads) for r in rows)
        if held is not None:
            k, v = (np.concatenate([h, r], 2) for h, r in zip(held, (k, v), strict=True))
        y = _attend(q, k, v, how.get("scale"), added)
        if kind == "MultiHeadAttention":
            return _node(operands, how, y, k, v)
        return _node(operands, how, y, np.stack([k, v]))

    return draw


def _grouped(rng: Rng) -> Node:
    """Attention whose keys and values serve several heads each, after what is held of before."""
    n, heads, groups, size = 2, 4, int(rng.choice([1, 2, 4])), 2
    first = coin(rng)
    length, older = (3, 0) if first else (1, int(rng.integers(1, 4)))
    total = length + older
    q, k, v = (some(rng, n, length, c * size) for c in (heads, groups, groups))
    held = [some(rng, n, groups, older, size) for _ in range(2)]
    how: dict[str, Any] = {"num_heads": heads, "kv_num_heads": groups} | option(rng, {"scale": 0.3})
    seen = np.full(n, total - 1, np.int32)
    past: list[Any] = [None, None] if first else held
    keys, values = (
        np.concatenate([h, _heads(g, groups)], 2) for h, g in zip(held, (k, v), strict=True)
    )
    wide = [np.repeat(x, heads // groups, 1) for x in (keys, values)]
    y = _attend(_heads(q, heads), wide[0], wide[1], how.get("scale"), _later(length, total))
    operands = [q, k, v, *past, seen, np.asarray(total, np.int32)]
    return _node(operands, how, y, keys, values)


def _turned(rng: Rng) -> Node:
    a, b = some(rng, 2, 3, 4), some(rng, 2, 4, 5)
    how = option(rng, {"transA": 1, "transB": 1, "alpha": 0.7, "transBatchA": 1, "transBatchB": 1})
    given = []
    for x, one, batch in ((a, "transA", "transBatchA"), (b, "transB", "transBatchB")):
        made = x.mT if one in how else x
        given.append((np.moveaxis(made, -2, 0) if batch in how else made).copy())
    return _node(given, how, how.get("alpha", 1.0) * (a @ b))


def _simple(rng: Rng) -> Node:
    x, axis = some(rng, 2, 3, 4), int(rng.integers(-3, 3))
    scale = some(rng, *x.shape[axis % 3 :])
    axes = tuple(range(axis % 3, 3))
    inverse = 1 / np.sqrt((x.astype(np.float64) ** 2).mean(axes, keepdims=True) + 0.2)
    return _node([x, scale], {"axis": axis, "epsilon": 0.2}, x * inverse * scale, inverse)


ROWS: Final[dict[str, Draw]] = {
    "QLinearAdd": _pair(False), "QLinearMul": _pair(True),
    **{n: _curve(n) for n in ("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax")},
    "QLinearAveragePool": _pool(False), "QLinearGlobalAveragePool": _pool(True),
    "QLinearConcat": _joined, "QGemm": _gemm_of_bytes, "DynamicQuantizeMatMul": _dynamic_product,
    "DynamicQuantizeLSTM": _gates, "FusedGemm": _fused_gemm,
    **{n: _fused_conv(n) for n in ("FusedConv", "NhwcConv", "NhwcFusedConv")},
    "NhwcMaxPool": _largest, "BiasSoftmax": _bias_softmax, "GroupNorm": _groups,
    "EmbedLayerNormalization": _embedded, "TransposeMatMul": _turned,
    "SimplifiedLayerNormalization": _simple, "GroupQueryAttention": _grouped,
    **{n: _attention(n) for n in ("Attention", "MultiHeadAttention", "QAttention")},
}  # fmt: skip
