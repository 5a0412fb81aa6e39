"""Operators of which few models have any, and those of earlier opsets with another form."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..language import Array
from .language import Draw, Node, Rng, axis_of, coin, numbers, option, some

_ML: Final = "ai.onnx.ml"


def _columns(rng: Rng) -> Node:
    """Blocks of an image that are added where they lie over each other."""
    block = [int(n) for n in rng.integers(1, 4, 2)]
    steps, gaps = ([int(n) for n in rng.integers(1, 3, 2)] for _ in range(2))
    pads = [int(n) for n in rng.integers(0, 2, 4)]
    image = [int(n) for n in rng.integers(5, 8, 2)]
    count = 1
    for n, b, s, d, p in zip(image, block, steps, gaps, zip(pads[:2], pads[2:], strict=True),
                             strict=True):  # fmt: skip
        count *= (n + sum(p) - d * (b - 1) - 1) // s + 1
    x = some(rng, 2, 2 * block[0] * block[1], count)
    how = {"strides": steps, "dilations": gaps, "pads": pads}
    return Node([x, numbers(*image), numbers(*block)], how, opset=18, fixed=(1, 2))


def _deformed(rng: Rng) -> Node:
    x, w = some(rng, 1, 2, 4, 5), some(rng, 2, 2, 2, 2)
    steps = [int(n) for n in rng.integers(1, 3, 2)]
    rows, columns = ((n - 2) // s + 1 for n, s in zip((4, 5), steps, strict=True))
    offset = np.asarray(rng.uniform(-1, 1, (1, 8, rows, columns)), np.float32)
    bias = some(rng, 2) if coin(rng) else np.zeros(2, np.float32)
    mask = np.asarray(rng.random((1, 4, rows, columns)), np.float32)
    return Node([x, w, offset, bias, mask], {"strides": steps, "kernel_shape": [2, 2]}, opset=19)


def _unpooled(rng: Rng) -> Node:
    x = some(rng, 1, 2, 2, 3)
    places = np.stack([rng.permutation(24)[:6].reshape(2, 3) + 24 * c for c in range(2)])[None]
    how = {"kernel_shape": [2, 2], "strides": [2, 2]}
    return Node([x, np.asarray(places, np.int64)], how, opset=11)


def _convolved_bytes(rng: Rng) -> Node:
    x, w = (np.asarray(rng.integers(0, 256, s), np.uint8) for s in ((1, 2, 5, 5), (3, 2, 2, 2)))
    scales = [np.asarray(rng.uniform(0.01, 0.05), np.float32) for _ in range(2)]
    last = np.asarray(float(scales[0]) * float(scales[1]) * 601.7, np.float32)
    zeros = [np.asarray(rng.integers(0, 256), np.uint8) for _ in range(3)]
    how = option(rng, {"strides": [2, 1], "pads": [1, 0, 1, 1], "dilations": [1, 2]})
    bias = [np.asarray(rng.integers(-999, 999, 3), np.int32)] if coin(rng) else []
    given = [x, scales[0], zeros[0], w, scales[1], zeros[1], last, zeros[2], *bias]
    wide = [x.astype(np.float32) - int(zeros[0]), w.astype(np.float32) - int(zeros[1])]
    sums = _sums(wide[0], wide[1], how) + (bias[0][:, None, None] if bias else 0)
    y = np.round(sums * float(scales[0]) * float(scales[1]) / float(last)) + int(zeros[2])
    return Node(given, how, opset=10, want=[np.clip(y, 0, 255).astype(np.uint8)])


def _sums(x: Array, w: Array, how: dict[str, Any]) -> Array:
    pads, steps = how.get("pads", [0] * 4), how.get("strides", [1, 1])
    gaps = how.get("dilations", [1, 1])
    x = np.pad(x, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    shape = [gap * (n - 1) + 1 for gap, n in zip(gaps, w.shape[2:], strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(x, shape, (2, 3))
    seen = seen[:, :, :: steps[0], :: steps[1], :: gaps[0], :: gaps[1]]
    return np.asarray(np.einsum("nchwij,ocij->nohw", seen, w))


def _frames(rng: Rng) -> Node:
    wide, step = int(rng.choice([4, 6])), int(rng.integers(1, 4))
    x = some(rng, 2, int(rng.integers(9, 14)), 1)
    window = np.asarray(rng.random(wide), np.float32) if coin(rng) else np.ones(wide, np.float32)
    how = {"onesided": int(coin(rng))}
    given = [x, np.asarray(step, np.int64), window, np.asarray(wide, np.int64)]
    return Node(given, how, opset=17, fixed=(1, 3))


def _split(rng: Rng) -> Node:
    words = np.asarray(rng.choice(["a b", "a,b,c", "", " x  y ", "a b,c d"], 4), object)
    how = option(rng, {"delimiter": str(rng.choice([",", " ", "b"])), "maxsplit": 1})
    sep, most = how.get("delimiter"), how.get("maxsplit", -1)
    parts = [w.split(sep, most) for w in words.tolist()]
    long = max(len(p) for p in parts)
    made = np.asarray([p + [""] * (long - len(p)) for p in parts], object).reshape(4, long)
    return Node([words], how, 2, opset=20, want=[made, numbers(*(len(p) for p in parts))])


def _grams(rng: Rng) -> Node:
    x = np.asarray(rng.integers(0, 4, (2, 7)), np.int64)
    ones, pairs = [int(n) for n in rng.permutation(4)[:2]], [0, 1, 2, 1, 3, 3]
    mode = str(rng.choice(["TF", "IDF", "TFIDF"]))
    # Whether weights are those of the pool or of the outputs, they are the same.
    places = [int(n) for n in rng.permutation(5)] if mode == "TF" else list(range(5))
    how: dict[str, Any] = {
        "mode": mode, "min_gram_length": int(rng.integers(1, 3)),
        "max_gram_length": 2, "max_skip_count": int(rng.integers(0, 3)),
        "ngram_counts": [0, 2], "ngram_indexes": places,
        "pool_int64s": [*ones, *pairs], "weights": [0.5, 2.0, 3.0, 1.5, 0.25],
    }  # fmt: skip
    return Node([x], how, opset=9)


def _cast_like(rng: Rng) -> Node:
    kinds = [np.float32, np.int32, np.int64, np.float16, np.bool_, np.uint8]
    x: Array = np.asarray(rng.integers(0, 9, (2, 3)), kinds[int(rng.integers(6))])
    return Node([x, np.zeros(1, kinds[int(rng.integers(6))])], opset=19)


def _running_product(rng: Rng) -> Node:
    x = some(rng, 2, 3, 4)
    axis = axis_of(rng, x)
    how = option(rng, {"exclusive": 1, "reverse": 1})
    y = np.flip(x, axis) if "reverse" in how else x
    if "exclusive" in how:
        first = np.ones_like(np.take(y, [0], axis))
        y = np.concatenate([first, np.delete(y, -1, axis)], axis)
    y = np.cumprod(y, axis)
    want = np.flip(y, axis) if "reverse" in how else y
    return Node([x, np.asarray(axis, np.int64)], how, opset=26, fixed=(1,), want=[want])


def _dropped(rng: Rng) -> Node:
    x, opset = some(rng, 3, 4), int(rng.choice([7, 10, 12, 13]))
    if opset < 12:
        return Node([x], {"ratio": 0.4}, opset=opset, want=[x])
    ratio, mode = np.asarray(0.4, np.float32), np.asarray(False)
    given = [x, ratio, mode][: int(rng.integers(1, 4))]
    return Node(given, {}, 2, opset=opset, want=[x, np.ones(x.shape, bool)])


def _norm_of_all(rng: Rng) -> Node:
    x, p = some(rng, 2, 3, 4, 2), int(rng.integers(1, 4))
    wide = np.abs(x.astype(np.float64)) ** p
    want = wide.sum((2, 3), keepdims=True) ** (1 / p)
    return Node([x], {"p": p}, opset=2, want=[want.astype(np.float32)])


def _scattered(rng: Rng) -> Node:
    x, axis = some(rng, 3, 4), int(rng.integers(-2, 2))
    count = int(rng.integers(1, x.shape[axis] + 1))
    places = np.stack([rng.permutation(x.shape[axis])[:count] for _ in range(2)], 1 - axis % 2)
    updates, want = some(rng, *places.shape), x.copy()
    np.put_along_axis(want[:, :2] if axis % 2 == 0 else want[:2], places, updates, axis)
    return Node([x, np.asarray(places, np.int64), updates], {"axis": axis}, opset=9, want=[want])


def _written(rng: Rng) -> Node:
    mode = str(rng.choice(["linear", "circular"]))
    past, new = some(rng, 2, 3, 5, 2), some(rng, 2, 3, 2, 2)
    places = np.asarray(rng.integers(0, 5 if mode == "circular" else 4, 2), np.int64)
    want = past.copy()
    for n, first in enumerate(places):
        for t in range(2):
            want[n, :, (first + t) % 5] = new[n, :, t]
    return Node([past, new, places], {"mode": mode}, opset=24, want=[want])


def _swish(rng: Rng) -> Node:
    x, how = some(rng, 3, 4), option(rng, {"alpha": 0.7})
    want = x / (1 + np.exp(-how.get("alpha", 1.0) * x))
    return Node([x], how, opset=24, want=[np.asarray(want, np.float32)])


def _enlarged(rng: Rng) -> Node:
    x, rates = some(rng, 1, 2, 3, 4), [1.0, 1.0, 2.0, float(rng.choice([1.0, 2.0, 3.0]))]
    want = x.repeat(int(rates[2]), 2).repeat(int(rates[3]), 3)
    if coin(rng):
        return Node([x, np.asarray(rates, np.float32)], {"mode": "nearest"}, opset=9, fixed=(1,),
                    want=[want])  # fmt: skip
    return Node([x], {"mode": "nearest", "scales": rates}, opset=7, want=[want])


def _affine(rng: Rng) -> Node:
    x, how = some(rng, 3, 4), option(rng, {"alpha": 0.7, "beta": -0.4})
    want = how.get("alpha", 1.0) * x + how.get("beta", 0.0)
    return Node([x], how, opset=1, want=[np.asarray(want, np.float32)])


def _largest_of_regions(rng: Rng) -> Node:
    x = some(rng, 2, 2, 6, 6)
    rows = np.asarray([[n, *rng.integers(0, 3, 2), *rng.integers(3, 6, 2)] for n in (0, 1, 0)],
                      np.float32)  # fmt: skip
    size, rate = [int(n) for n in rng.integers(1, 4, 2)], float(rng.choice([1.0, 0.5]))
    want = np.zeros((3, 2, *size), np.float32)
    for k, (n, *corners) in enumerate(rows):
        x1, y1, x2, y2 = (int(np.floor(c * rate + 0.5)) for c in corners)
        tall, wide = max(y2 - y1 + 1, 1), max(x2 - x1 + 1, 1)
        for i in range(size[0]):
            for j in range(size[1]):
                top, bottom = i * tall // size[0], -(-(i + 1) * tall // size[0])
                left, right = j * wide // size[1], -(-(j + 1) * wide // size[1])
                part = x[int(n), :, y1 + top : y1 + bottom, x1 + left : x1 + right]
                if part.size:
                    want[k, :, i, j] = part.max((1, 2))
    return Node([x, rows], {"pooled_shape": size, "spatial_scale": rate}, opset=1, want=[want])


def _earlier(name: str) -> Draw:
    """Forms of operators in opsets before those that broadcast and have axes as operands."""

    def draw(rng: Rng) -> Node:
        x, y = some(rng, 2, 3, 4), np.abs(some(rng, 3)) + 0.5
        functions: dict[str, Any] = {
            "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide,
            "Pow": lambda a, b: np.abs(a) ** b, "Less": np.less, "Greater": np.greater,
        }  # fmt: skip
        if name in functions:
            x = np.abs(x) if name == "Pow" else x
            want = functions[name](x, y[:, None])
            return Node([x, y], {"broadcast": 1, "axis": 1}, opset=6, want=[want])
        if name == "Gemm":
            a, b, c = some(rng, 3, 4), some(rng, 4, 2), some(rng, 2)
            how = option(rng, {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 0.25})
            want = how.get("alpha", 1.0) * (a @ b) + how.get("beta", 1.0) * c
            given = [a.T.copy() if "transA" in how else a, b.T.copy() if "transB" in how else b, c]
            return Node(given, how | {"broadcast": 1}, opset=6, want=[want.astype(np.float32)])
        axis = int(rng.integers(0, 3))
        return _axes(rng, name, x, axis)

    return draw


def _axes(rng: Rng, name: str, x: Array, axis: int) -> Node:
    rows = x.reshape(int(np.prod(x.shape[:axis])), -1).astype(np.float64)
    most = rows.max(1, keepdims=True)
    soft = np.exp(rows - most) / np.exp(rows - most).sum(1, keepdims=True)
    hard = np.eye(rows.shape[1])[rows.argmax(1)]
    made = {"Softmax": soft, "LogSoftmax": np.log(soft), "Hardmax": hard}
    if name in made:
        want = made[name].reshape(x.shape).astype(np.float32)
        return Node([x], {"axis": axis}, opset=11, want=[want])
    match name:
        case "Clip":
            return Node([x], {"min": -0.5, "max": 0.7}, opset=6, want=[np.clip(x, -0.5, 0.7)])
        case "Squeeze":
            return Node([x[:, None]], {"axes": [1]}, opset=11, want=[x])
        case "Unsqueeze":
            return Node([x], {"axes": [axis]}, opset=11, want=[np.expand_dims(x, axis)])
        case "Split":
            sizes = [1, x.shape[axis] - 1]
            parts = np.split(x, [1], axis)
            return Node([x], {"axis": axis, "split": sizes}, 2, opset=11, want=parts)
        case "Slice":
            want = x[:, 1:2, :-1]
            how: dict[str, Any] = {"axes": [1, 2], "starts": [1, 0], "ends": [2, -1]}
            return Node([x], how, opset=9, want=[want])
        case "TopK":
            places = np.argsort(-x, axis, kind="stable").take([0, 1], axis)
            want = np.take_along_axis(x, places, axis)
            return Node([x], {"axis": axis, "k": 2}, 2, opset=9, want=[want, places])
        case "Pad":
            how = {"pads": [0, 1, 0, 2, 0, 1], "value": 0.5}
            want = np.pad(x, [(0, 2), (1, 0), (0, 1)], constant_values=0.5)
            return Node([x], how, opset=10, want=[want])
        case "Reshape":
            return Node([x], {"shape": [0, -1]}, opset=4, want=[x.reshape(2, -1)])
        case "Tile":
            given = [x, *(np.asarray(n, np.float32) for n in (2, axis))]
            want = np.concatenate([x, x], axis)
            return Node(given, opset=5, fixed=(1, 2), want=[want])
        case "ReduceSum" | "ReduceMean" | "ReduceMax":
            keep = bool(coin(rng))
            function: Any = {"ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max}[name]
            want = np.asarray(function(x, axis=axis, keepdims=keep))
            return Node([x], {"axes": [axis], "keepdims": int(keep)}, opset=11, want=[want])
    raise ValueError(name)


def _joined_features(rng: Rng) -> Node:
    widths = [int(n) for n in rng.integers(1, 4, 2)]
    return Node([some(rng, 3, n) for n in widths], {"inputdimensions": widths}, domain=_ML)


def _imputed(rng: Rng) -> Node:
    x = some(rng, 4, 3)
    missing = float(rng.choice([np.nan, 7.0]))
    x[rng.random(x.shape) < 0.4] = missing
    values = [float(v) for v in rng.normal(size=int(rng.choice([1, 3])))]
    return Node([x], {"imputed_value_floats": values, "replaced_value_float": missing}, domain=_ML)


def _machine(rng: Rng) -> Node:
    """A regression by distances or products with a few vectors."""
    count, wide = 3, 2
    kind = str(rng.choice(["LINEAR", "POLY", "RBF", "SIGMOID"]))
    x, vectors = some(rng, 4, wide), some(rng, count, wide)
    weights, offset = rng.normal(size=count), float(rng.normal())
    gamma, shift, power = 0.3, 0.2, 2.0
    products = x.astype(np.float64) @ vectors.T
    apart = ((x[:, None].astype(np.float64) - vectors) ** 2).sum(-1)
    kernels = {
        "LINEAR": products, "POLY": (gamma * products + shift) ** power,
        "RBF": np.exp(-gamma * apart), "SIGMOID": np.tanh(gamma * products + shift),
    }  # fmt: skip
    how = {
        "kernel_type": kind, "kernel_params": [gamma, shift, power], "n_supports": count,
        "support_vectors": [float(v) for v in vectors.ravel()],
        "coefficients": [float(v) for v in weights], "rho": [offset],
    }  # fmt: skip
    want = (kernels[kind] @ weights + offset)[:, None]
    return Node([x], how, domain=_ML, want=[want.astype(np.float32)])


def _tree_of_classes(rng: Rng) -> Node:
    """A tree of two leaves for each of two features, with weights of three classes."""
    weights = rng.random(3).round(2) + np.asarray([0.0, 0.01, 0.02])
    edge = float(np.round(rng.normal()))
    how: dict[str, Any] = {
        "nodes_treeids": [0] * 5, "nodes_nodeids": list(range(5)),
        "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
        "nodes_featureids": [0, 1, 0, 0, 0], "nodes_values": [edge, 0.25, 0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 3, 0, 0, 0], "nodes_falsenodeids": [2, 4, 0, 0, 0],
        "class_treeids": [0] * 3, "class_nodeids": [2, 3, 4], "class_ids": [0, 1, 2],
        "class_weights": [float(w) for w in weights], "post_transform": "NONE",
        "classlabels_int64s": [int(n) for n in rng.permutation(9)[:3]],
    }  # fmt: skip
    x = some(rng, 5, 2)
    leaf = np.where(x[:, 0] <= edge, np.where(x[:, 1] <= 0.25, 1, 2), 0)
    scores = np.zeros((5, 3), np.float32)
    scores[np.arange(5), leaf] = weights[leaf].astype(np.float32)
    labels = np.asarray(how["classlabels_int64s"], np.int64)[scores.argmax(1)]
    return Node([x], how, 2, domain=_ML, want=[labels, scores])


_EARLIER: Final = (
    "Add", "Sub", "Mul", "Div", "Pow", "Less", "Greater", "Gemm", "Softmax", "LogSoftmax",
    "Hardmax", "Clip", "Squeeze", "Unsqueeze", "Split", "Slice", "TopK", "Pad", "Reshape", "Tile",
    "ReduceSum", "ReduceMean", "ReduceMax",
)  # fmt: skip
ROWS: Final[dict[str, Draw]] = {
    "Col2Im": _columns, "DeformConv": _deformed, "MaxUnpool": _unpooled,
    "QLinearConv": _convolved_bytes, "STFT": _frames, "StringSplit": _split,
    "TfIdfVectorizer": _grams, "CastLike": _cast_like, "CumProd": _running_product,
    "Dropout": _dropped, "GlobalLpPool": _norm_of_all, "Scatter": _scattered,
    "TensorScatter": _written, "Swish": _swish, "Upsample": _enlarged, "Affine": _affine,
    "MaxRoiPool": _largest_of_regions, "FeatureVectorizer": _joined_features,
    "Imputer": _imputed, "SVMRegressor": _machine, "TreeEnsembleClassifier": _tree_of_classes,
    **{name: _earlier(name) for name in _EARLIER},
}  # fmt: skip
