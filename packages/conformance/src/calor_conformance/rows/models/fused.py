"""Operators of ONNX Runtime's own domain, which its optimizer fuses, with what they stand for."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..language import Array
from ..oracles import erf
from .language import Draw, Node, Rng, coin, option, shape_of, some

_DOMAIN: Final = "com.microsoft"


def _node(operands: list[Any], attributes: dict[str, Any], *wants: Any) -> Node:
    made = [np.asarray(w, np.float32) if np.asarray(w).dtype.kind == "f" else w for w in wants]
    return Node(operands, attributes, len(made), domain=_DOMAIN, want=made)


def _gelu(x: Array) -> Array:
    wide = x.astype(np.float64)
    return np.asarray(wide * (1 + np.asarray(erf(wide / np.sqrt(2)), np.float64)) / 2)


def _tanh_gelu(x: Array) -> Array:
    wide = x.astype(np.float64)
    return np.asarray(wide * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3))) / 2)


def _curves(name: str) -> Draw:
    def draw(rng: Rng) -> Node:
        x = some(rng, *shape_of(rng))
        bias = some(rng, x.shape[-1])
        match name:
            case "Gelu":
                return _node([x], {}, _gelu(x))
            case "FastGelu":
                given = [x, bias] if coin(rng) else [x]
                return _node(given, {}, _tanh_gelu(sum(given[1:], x)))
            case "BiasGelu":
                return _node([x, bias], {}, _gelu(x + bias))
        alpha = option(rng, {"alpha": float(rng.choice([1.0, 0.7]))})
        return _node([x], alpha, x / (1 + np.exp(-x * alpha.get("alpha", 1.702))))

    return draw


def _halves(rng: Rng) -> Node:
    x, bias = some(rng, 2, 3, 6), some(rng, 6)
    left, right = np.split(x + bias, 2, -1)
    return _node([x, bias], {}, left * _gelu(right))


def _added(rng: Rng) -> Node:
    x, skip, bias = some(rng, 2, 3, 4), some(rng, 2, 3, 4), some(rng, 4)
    return _node([x, bias, skip], {}, x + bias + skip)


def _normalized(simple: bool) -> Draw:
    def draw(rng: Rng) -> Node:
        x, skip, gamma = some(rng, 2, 3, 4), some(rng, 2, 3, 4), some(rng, 4)
        beta, bias = (some(rng, 4) if coin(rng) else None for _ in range(2))
        how = option(rng, {"epsilon": 0.3})
        total = (x + skip + (0 if bias is None else bias)).astype(np.float64)
        off = total if simple else total - total.mean(-1, keepdims=True)
        made = off / np.sqrt(np.mean(off * off, -1, keepdims=True) + how.get("epsilon", 1e-12))
        if simple:
            return _node([x, skip, gamma, bias], how, made * gamma)
        return _node(
            [x, skip, gamma, beta, bias], how, made * gamma + (0 if beta is None else beta)
        )

    return draw


def _product(rng: Rng) -> Node:
    a, b = some(rng, 2, 3, 4), some(rng, 2, 4, 5)
    how = option(rng, {"transA": 1, "transB": 1, "alpha": 0.7})
    given = [a.mT.copy() if "transA" in how else a, b.mT.copy() if "transB" in how else b]
    return _node(given, how, how.get("alpha", 1.0) * (a @ b))


def _bytes(rng: Rng, *shape: int) -> Array:
    return np.asarray(rng.integers(0, 256, shape), np.uint8)


def _integers(rng: Rng) -> Node:
    a, b, zeros = _bytes(rng, 3, 4), _bytes(rng, 4, 2), [np.asarray(_bytes(rng)) for _ in range(2)]
    scales = [np.asarray(rng.uniform(0.01, 0.1), np.float32) for _ in range(2)]
    bias = some(rng, 2) if coin(rng) else None
    wide = [x.astype(np.int64) - z for x, z in zip((a, b), zeros, strict=True)]
    want = (wide[0] @ wide[1]) * float(scales[0]) * float(scales[1])
    return _node([a, b, *scales, *zeros, bias], {}, want + (0 if bias is None else bias))


def _few_bits(rng: Rng) -> Node:
    """Weights of four bits, two in a byte, with a scale for each block of 16."""
    k, n, block = 32, 3, 16
    small = rng.integers(0, 16, (n, k))
    packed = np.asarray(small[:, ::2] | small[:, 1::2] << 4, np.uint8).reshape(n, k // block, -1)
    scales, a = some(rng, n, k // block), some(rng, 2, k)
    whole = (small.reshape(n, -1, block) - 8.0) * scales[..., None]
    how = {"K": k, "N": n, "bits": 4, "block_size": block}
    return _node([a, packed, scales.reshape(-1)], how, a @ whole.reshape(n, k).T)


ROWS: Final[dict[str, Draw]] = {
    **{name: _curves(name) for name in ("Gelu", "FastGelu", "BiasGelu", "QuickGelu")},
    "BiasSplitGelu": _halves, "BiasAdd": _added, "SkipLayerNormalization": _normalized(False),
    "SkipSimplifiedLayerNormalization": _normalized(True), "FusedMatMul": _product,
    "MatMulIntegerToFloat": _integers, "MatMulNBits": _few_bits,
}  # fmt: skip
