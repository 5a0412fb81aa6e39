"""Operators as they were in old opsets, machines of several classes, and turned positions."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Final

import numpy as np

from ..language import Array
from .language import Draw, Node, Rng, coin, option, some

_ML, _MICROSOFT = "ai.onnx.ml", "com.microsoft"
_WORDS: Final = ("cat", "dog", "bee", "ant")


def _selu(rng: Rng) -> Node:
    x, how = some(rng, 3, 4), option(rng, {"alpha": 1.5, "gamma": 0.7})
    a, g = how.get("alpha", 1.6732), how.get("gamma", 1.0507)
    want = g * np.where(x > 0, x, a * np.exp(np.minimum(x, 0)) - a)
    return Node([x], how, opset=int(rng.integers(1, 6)), want=[want.astype(np.float32)])


def _prelu(rng: Rng) -> Node:
    x, slope = some(rng, 2, 3, 4), some(rng, 3 if coin(rng) else 1)
    wide = slope if slope.size == 1 else slope[:, None]
    want = np.where(x < 0, x * wide, x)
    return Node([x, slope], opset=int(rng.integers(1, 7)), want=[want])


def _cast(rng: Rng) -> Node:
    x = np.round(some(rng, 3, 4) * 2)
    name, dtype = (("INT32", np.int32), ("DOUBLE", np.float64), ("BOOL", np.bool_))[
        int(rng.integers(3))]  # fmt: skip
    return Node([x], {"to": name}, opset=int(rng.integers(1, 6)), want=[x.astype(dtype)])


def _concat(rng: Rng) -> Node:
    how: dict[str, Any] = option(rng, {"axis": int(rng.integers(0, 3))})
    axis = how.get("axis", 1)
    x = some(rng, 2, 3, 4)
    parts = [x, x.take([0], axis)][:: 1 if coin(rng) else -1]
    want = np.concatenate(parts, axis)
    return Node(parts, how, opset=int(rng.integers(1, 4)), want=[want])


def _pad(rng: Rng) -> Node:
    x, pads = some(rng, 3, 4), [int(n) for n in rng.integers(0, 3, 4)]
    mode = str(rng.choice(["constant", "edge", "reflect"]))
    how: dict[str, Any] = {"paddings": pads, "mode": mode}
    how |= option(rng, {"value": 1.5}) if mode == "constant" else {}
    more = {"constant_values": how.get("value", 0.0)} if mode == "constant" else {}
    want = np.pad(x, [(pads[0], pads[2]), (pads[1], pads[3])], mode, **more)  # type: ignore[call-overload]
    return Node([x], how, opset=1, want=[np.asarray(want, np.float32)])


def _dropout(rng: Rng) -> Node:
    x, count = some(rng, 3, 4), int(rng.integers(1, 3))
    opset = int(rng.integers(7, 10))
    wants: list[Any] = [x, np.ones_like(x)][:count]
    return Node([x], option(rng, {"ratio": 0.3}), count, opset=opset, want=wants)


def _batch_norm(rng: Rng) -> Node:
    """Each channel, or each element of a sample, by given means and variances."""
    x, flat = some(rng, 3, 2, 4), coin(rng, 0.3)
    size = (2, 4) if flat else (2,)
    scale, bias, mean = (some(rng, *size) for _ in range(3))
    variance = np.abs(some(rng, *size)) + np.float32(0.1)
    opset = int(rng.integers(7, 9)) if flat else int(rng.choice([6, 7, 8, 9, 13]))
    how: dict[str, Any] = {"spatial": 0} if flat else {}
    how |= {"is_test": 1} if opset < 7 else {}
    how |= option(rng, {"epsilon": 0.1, "momentum": 0.5})
    s, b, m, v = (a if flat else a[:, None] for a in (scale, bias, mean, variance))
    want = (x - m) / np.sqrt(v + how.get("epsilon", 1e-5)) * s + b
    return Node([x, scale, bias, mean, variance], how, opset=opset, want=[want.astype(np.float32)])


def _groups(rng: Rng) -> Node:
    """Scales and shifts by group, of opset 18."""
    x, groups = some(rng, 2, 4, 3), int(rng.choice([1, 2, 4]))
    scale, bias, how = some(rng, groups), some(rng, groups), option(rng, {"epsilon": 0.1})
    rows = x.reshape(2, groups, -1).astype(np.float64)
    off = rows - rows.mean(-1, keepdims=True)
    made = off / np.sqrt((off * off).mean(-1, keepdims=True) + how.get("epsilon", 1e-5))
    want = made * scale[:, None] + bias[:, None]
    return Node([x, scale, bias], {"num_groups": groups, **how}, opset=int(rng.integers(18, 21)),
                want=[want.reshape(x.shape).astype(np.float32)])  # fmt: skip


def _words(rng: Rng, *shape: int) -> Array:
    return np.asarray(rng.choice([*_WORDS, "elk"], shape), object)


def _by_table(name: str) -> Draw:
    """Texts for numbers and numbers for texts, by a table or by places."""

    def draw(rng: Rng) -> Node:
        words = [str(w) for w in rng.permutation(_WORDS)[:3]]
        codes = [0, 1, 2] if name == "LabelEncoder" else [int(n) for n in rng.permutation(6)[:3]]
        how: dict[str, Any] = option(rng, {"default_int64": -7, "default_string": "none"})
        if name == "LabelEncoder":
            how["classes_strings"] = words
        else:
            how |= {"cats_strings": words, "cats_int64s": codes}
        if coin(rng):
            x, table = _words(rng, 2, 3), dict(zip(words, codes, strict=True))
            found: list[Any] = [table.get(w, how.get("default_int64", -1)) for w in x.ravel()]
            want = np.asarray(found, np.int64)
        else:
            x, back = rng.integers(0, 6, (2, 3)), dict(zip(codes, words, strict=True))
            found = [back.get(int(n), how.get("default_string", "_Unused")) for n in x.ravel()]
            want = np.asarray(found, object)
        return Node([x], how, opset=1, domain=_ML, want=[want.reshape(2, 3)])

    return draw


def _kernels(x: Array, vectors: Array) -> dict[str, Array]:
    """Return kernels of rows and vectors with the parameters 0.3, 0.2 and 2."""
    products = x.astype(np.float64) @ vectors.T
    apart = ((x[:, None].astype(np.float64) - vectors) ** 2).sum(-1)
    return {"LINEAR": products, "POLY": (0.3 * products + 0.2) ** 2, "RBF": np.exp(-0.3 * apart),
            "SIGMOID": np.tanh(0.3 * products + 0.2)}  # fmt: skip


def _coupled(wins: Array) -> Array:
    """Return probabilities of classes from those of each two (Wu, Lin and Weng, 2004).

    Rounds end where libsvm's do, so that the numbers are the same.
    """
    count = len(wins)
    q = -wins * wins.T
    np.fill_diagonal(q, [(np.delete(wins[:, t], t) ** 2).sum() for t in range(count)])
    p = np.full(count, 1 / count)
    for _ in range(100):
        qp = q @ p
        total = p @ qp
        if np.abs(qp - total).max() < 0.005 / count:
            break
        for t in range(count):
            step = (total - qp[t]) / q[t, t]
            p[t] += step
            total = (total + step * (step * q[t, t] + 2 * qp[t])) / (1 + step) ** 2
            qp, p = (qp + step * q[t]) / (1 + step), p / (1 + step)
    return p


def _machine(rng: Rng) -> Node:
    """Decisions between each two of some classes, by a few vectors of each."""
    classes = int(rng.integers(2, 5))
    counts = [int(n) for n in rng.integers(1, 3, classes)]
    total, two = sum(counts), list(combinations(range(classes), 2))
    vectors, x = some(rng, total, 2), some(rng, 5, 2)
    kind = str(rng.choice(["LINEAR", "POLY", "RBF", "SIGMOID"]))
    weights = rng.normal(size=(classes - 1, total)).round(3)
    # With positive weights alone, two classes change their places.
    weights[0, 0] = -abs(weights[0, 0]) - 0.1
    rho, a, b = rng.normal(size=len(two)), -0.5 - rng.random(len(two)), rng.normal(size=len(two))
    values, ends = _kernels(x, vectors)[kind], np.cumsum([0, *counts])
    votes, wins = np.zeros((5, classes)), np.zeros((5, classes, classes))
    decisions = np.zeros((5, len(two)))
    for k, (i, j) in enumerate(two):
        of_i, of_j = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
        made = values[:, of_i] @ weights[j - 1, of_i] + values[:, of_j] @ weights[i, of_j] + rho[k]
        decisions[:, k] = made
        votes[np.arange(5), np.where(made > 0, i, j)] += 1
        share = np.clip(1 / (1 + np.exp(made * a[k] + b[k])), 1e-7, 1 - 1e-7)
        wins[:, i, j], wins[:, j, i] = share, 1 - share
    how: dict[str, Any] = {
        "kernel_type": kind, "kernel_params": [0.3, 0.2, 2.0], "vectors_per_class": counts,
        "support_vectors": vectors.ravel().tolist(), "coefficients": weights.ravel().tolist(),
        "rho": rho.tolist(),
    }  # fmt: skip
    scores = decisions if classes > 2 else np.concatenate([-decisions, decisions], 1)
    if coin(rng):
        how |= {"prob_a": a.tolist(), "prob_b": b.tolist()}
        scores = np.stack([_coupled(w) for w in wins])
    labels: list[Any] = rng.permutation(9)[:classes].tolist()
    if coin(rng):
        labels = list(_WORDS[:classes])
    how["classlabels_strings" if isinstance(labels[0], str) else "classlabels_ints"] = labels
    found = np.asarray(labels, object if isinstance(labels[0], str) else np.int64)
    wants = [found[votes.argmax(1)], scores.astype(np.float32)]
    return Node([x], how, 2, domain=_ML, want=wants)


def _turned(rng: Rng) -> Node:
    """Pairs of elements turned by the angles of their places, of all or the first elements."""
    heads, length, size = int(rng.integers(1, 3)), 3, 4
    flat, apart = coin(rng), bool(coin(rng))
    width = int(rng.choice([2, 4])) if flat else size
    angles = rng.random((6, width // 2)) * 3
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    x = some(rng, 2, heads, length, size)
    first = int(rng.integers(0, 3))
    one = coin(rng)
    places = np.asarray([first], np.int64) if one else rng.integers(0, 6, (2, length))
    rows = first + np.arange(length)[None].repeat(2, 0) if one else places
    c, s = (t[rows][:, None] for t in (cos, sin))
    part, rest = x[..., :width], x[..., width:]
    a, b = (part[..., ::2], part[..., 1::2]) if apart else np.split(part, 2, -1)
    made = [a * c - b * s, b * c + a * s]
    y = np.stack(made, -1).reshape(part.shape) if apart else np.concatenate(made, -1)
    y = np.concatenate([y, rest], -1)
    how: dict[str, Any] = {"interleaved": int(apart)}
    if flat:
        how["num_heads"] = heads
        how |= {"rotary_embedding_dim": width} if width < size else {}
        x, y = (np.moveaxis(t, 1, 2).reshape(2, length, -1) for t in (x, y))
    return Node([x.copy(), places, cos, sin], how, domain=_MICROSOFT, want=[y.astype(np.float32)])


def _stepped(back: bool) -> Draw:
    """Steps of a scale for all, or for each place of an axis, the second by default."""

    def draw(rng: Rng) -> Node:
        axis: dict[str, Any] = option(rng, {"axis": int(rng.integers(-3, 3))})
        k = axis.get("axis", 1) % 3
        shape, each = (2, 3, 4), coin(rng)
        scale = np.asarray(rng.integers(1, 5, shape[k] if each else ()) / 4, np.float32)
        kind = np.int8 if coin(rng) else np.uint8
        zero = np.asarray(rng.integers(0, 9, scale.shape), kind)
        with_zero = coin(rng, 0.7)
        rows = [1] * 3
        rows[k] = -1
        s, z = (a.reshape(rows) if each else a for a in (scale, zero))
        offset = z.astype(np.float32) if with_zero else np.float32(0)
        given = [scale, zero] if with_zero else [scale]
        if back:
            q = rng.integers(0, 120, shape).astype(kind)
            want = (q.astype(np.float32) - offset) * s
            return Node([q, *given], axis, domain=_MICROSOFT, want=[want])
        bounds = np.iinfo(kind if with_zero else np.uint8)
        x = some(rng, *shape) * 4
        made = np.clip(np.rint(x / s) + offset, bounds.min, bounds.max)
        return Node([x, *given], axis, domain=_MICROSOFT, want=[made.astype(bounds.dtype)])

    return draw


ROWS: Final[dict[str, Draw]] = {
    "Selu": _selu, "PRelu": _prelu, "Cast": _cast, "Concat": _concat, "Pad": _pad,
    "Dropout": _dropout, "BatchNormalization": _batch_norm, "GroupNormalization": _groups,
    "LabelEncoder": _by_table("LabelEncoder"), "CategoryMapper": _by_table("CategoryMapper"),
    "SVMClassifier": _machine, "RotaryEmbedding": _turned, "QuantizeLinear": _stepped(False),
    "DequantizeLinear": _stepped(True),
}  # fmt: skip
