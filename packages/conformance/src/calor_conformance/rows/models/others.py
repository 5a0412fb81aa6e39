"""Quantized operators, signals, texts, classical models, and steps of optimizers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..language import Array
from .language import Draw, Node, Rng, coin, numbers, option, some

_ML: Final = "ai.onnx.ml"
_TRAINING: Final = "ai.onnx.preview.training"


def _bytes(rng: Rng, kind: Any, *shape: int) -> Array:
    ends = np.iinfo(kind)
    return np.asarray(rng.integers(ends.min, ends.max + 1, shape), kind)


def _kind(rng: Rng) -> Any:
    return np.int8 if coin(rng) else np.uint8


def _quantize(rng: Rng) -> Node:
    x, kind = some(rng, 3, 4), _kind(rng)
    if coin(rng):
        axis = int(rng.integers(-2, 2))
        n = x.shape[axis]
        scale = np.asarray(rng.uniform(0.02, 0.1, n), np.float32)
        return Node([x, scale, _bytes(rng, kind, n)], {"axis": axis}, opset=13)
    scale = np.asarray(rng.uniform(0.02, 0.1), np.float32)
    return Node([x, scale, np.asarray(_bytes(rng, kind))], opset=13)


def _dequantize(rng: Rng) -> Node:
    kind = _kind(rng)
    x = _bytes(rng, kind, 3, 4)
    if coin(rng):
        axis = int(rng.integers(-2, 2))
        n = x.shape[axis]
        return Node([x, some(rng, n), _bytes(rng, kind, n)], {"axis": axis}, opset=19)
    given = [x, np.asarray(rng.uniform(0.02, 0.1), np.float32)]
    return Node([*given, *([np.asarray(_bytes(rng, kind))] if coin(rng) else [])], opset=19)


def _matmul_integer(rng: Rng) -> Node:
    a, b = _bytes(rng, np.uint8, 3, 4), _bytes(rng, _kind(rng), 4, 2)
    given: list[Any] = [a, b]
    if coin(rng):
        given += [np.asarray(_bytes(rng, np.uint8)), np.asarray(_bytes(rng, b.dtype))]
    return Node(given, opset=10)


def _conv_integer(rng: Rng) -> Node:
    x, w = _bytes(rng, np.uint8, 1, 2, 5, 5), _bytes(rng, np.uint8, 3, 2, 2, 2)
    options = option(rng, {"strides": [2, 1], "pads": [1, 0, 1, 1]})
    return Node([x, w, *([np.asarray(_bytes(rng, np.uint8))] if coin(rng) else [])], options)


def _qlinear(rng: Rng) -> Node:
    kind = np.uint8
    scales = [np.asarray(rng.uniform(0.01, 0.05), np.float32) for _ in range(3)]
    a, b = _bytes(rng, kind, 3, 4), _bytes(rng, kind, 4, 2)
    zeros = [np.asarray(_bytes(rng, kind)) for _ in range(3)]
    last = [scales[2] * np.float32(20), zeros[2]]
    return Node([a, scales[0], zeros[0], b, scales[1], zeros[1], *last], opset=10)


def _dft(rng: Rng) -> Node:
    x = some(rng, 2, int(rng.integers(3, 7)), 4, 1 + coin(rng))
    axis = np.asarray(int(rng.choice([1, 2, -2])), np.int64)
    options = option(rng, {"inverse": 1}, 0.3)
    if x.shape[-1] == 1 and not options:
        options = option(rng, {"onesided": 1})
    return Node([x, None, axis], options, opset=20, fixed=(2,))


def _window(rng: Rng) -> Node:
    size = np.asarray(int(rng.integers(2, 9)), np.int64)
    return Node([size], option(rng, {"periodic": int(coin(rng))}), opset=17, fixed=(0,))


def _mel(rng: Rng) -> Node:
    given = [np.asarray(v, np.int64) for v in (int(rng.integers(3, 7)), 32, 8000)]
    return Node([*given, *(np.asarray(v, np.float32) for v in (100.0, 3800.0))], opset=17,
                fixed=(0, 1, 2, 3, 4))  # fmt: skip


def _words(rng: Rng, *shape: int) -> Array:
    return np.asarray(rng.choice(["a b", "cat", "Ünit", "", "a,b c", "x1"], shape), object)


def _regex(rng: Rng) -> Node:
    pattern = str(rng.choice(["[a-z]+", ".*b.*", "a.b", r"\w\d"]))
    return Node([_words(rng, 4)], {"pattern": pattern}, opset=20)


def _joined(rng: Rng) -> Node:
    return Node([_words(rng, 3), _words(rng, 3)], opset=20)


def _normalized(rng: Rng) -> Node:
    change = str(rng.choice(["LOWER", "UPPER", "NONE"]))
    words = np.asarray([*rng.choice(["a b", "cat", "x1", "Dog"], 4), "Bee"], object)
    return Node([words], {"case_change_action": change, "is_case_sensitive": 1,
                "stopwords": ["cat"]}, opset=10)  # fmt: skip


def _scaler(rng: Rng) -> Node:
    n = int(rng.choice([1, 3]))
    parts = {k: [float(v) for v in rng.normal(size=n)] for k in ("offset", "scale")}
    return Node([some(rng, 4, 3)], parts, domain=_ML)


def _normalizer(rng: Rng) -> Node:
    return Node([some(rng, 3, 4)], {"norm": str(rng.choice(["L1", "L2"]))}, domain=_ML)


def _binarizer(rng: Rng) -> Node:
    return Node([some(rng, 3, 4)], {"threshold": float(rng.normal())}, domain=_ML)


def _extractor(rng: Rng) -> Node:
    return Node([some(rng, 3, 5), numbers(*rng.integers(0, 5, 3))], domain=_ML)


def _encoder(rng: Rng) -> Node:
    keys = [int(k) for k in rng.permutation(6)[:4]]
    values = [float(v) for v in rng.normal(size=4)]
    made = {"keys_int64s": keys, "values_floats": values, "default_float": -7.0}
    return Node([np.asarray(rng.integers(0, 6, 5), np.int64)], made, domain=_ML)


def _hot(rng: Rng) -> Node:
    cats = [int(k) for k in rng.permutation(6)[:4]]
    return Node([np.asarray(rng.integers(0, 6, 5), np.int64)], {"cats_int64s": cats, "zeros": 1},
                domain=_ML)  # fmt: skip


def _regressor(rng: Rng) -> Node:
    width, targets = 3, int(rng.integers(1, 4))
    made = {
        "coefficients": [float(v) for v in rng.normal(size=width * targets)], "targets": targets,
        "intercepts": [float(v) for v in rng.normal(size=targets)],
    }  # fmt: skip
    return Node([some(rng, 4, width)], made, domain=_ML)


def _classifier(rng: Rng) -> Node:
    width, classes = 3, 3
    labels = [int(v) for v in rng.permutation(9)[:classes]]
    made = {
        "coefficients": [float(v) for v in rng.normal(size=width * classes)],
        "intercepts": [float(v) for v in rng.normal(size=classes)], "classlabels_ints": labels,
        "post_transform": str(rng.choice(["NONE", "SOFTMAX", "LOGISTIC"])),
    }  # fmt: skip
    return Node([some(rng, 4, width)], made, 2, domain=_ML)


def _trees(rng: Rng) -> Node:
    """Two trees of three nodes, of which the root compares a feature."""
    targets = int(rng.integers(1, 3))
    mode = str(rng.choice(["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE"]))
    made: dict[str, Any] = {
        "n_targets": targets, "nodes_treeids": [0, 0, 0, 1, 1, 1],
        "nodes_nodeids": [0, 1, 2] * 2, "nodes_modes": [mode, "LEAF", "LEAF"] * 2,
        "nodes_featureids": [int(rng.integers(3)), 0, 0, int(rng.integers(3)), 0, 0],
        "nodes_values": [float(np.round(rng.normal())), 0.0, 0.0] * 2,
        "nodes_truenodeids": [1, 0, 0] * 2, "nodes_falsenodeids": [2, 0, 0] * 2,
        "target_treeids": [0, 0, 1, 1], "target_nodeids": [1, 2, 1, 2],
        "target_ids": [int(n) for n in rng.integers(0, targets, 4)],
        "target_weights": [float(v) for v in rng.normal(size=4)],
        "aggregate_function": str(rng.choice(["SUM", "AVERAGE", "MIN", "MAX"])),
    }  # fmt: skip
    if made["aggregate_function"] in ("MIN", "MAX"):
        made["target_ids"] = [0] * 4
        made["n_targets"] = 1
    return Node([np.round(some(rng, 5, 3))], made, domain=_ML)


def _adam(rng: Rng) -> Node:
    rate, count = np.asarray(0.1, np.float32), np.asarray(int(rng.integers(0, 4)), np.int64)
    x, g, v = (some(rng, 3) for _ in range(3))
    made = option(rng, {"alpha": 0.8, "beta": 0.7, "epsilon": 0.1, "norm_coefficient": 0.01,
                        "norm_coefficient_post": 0.02})  # fmt: skip
    return Node([rate, count, x, g, v, np.abs(some(rng, 3))], made, 3, domain=_TRAINING)


def _momentum(rng: Rng) -> Node:
    rate, count = np.asarray(0.1, np.float32), np.asarray(int(rng.integers(0, 4)), np.int64)
    made = {"alpha": 0.8, "beta": 0.7, "norm_coefficient": 0.01,
            "mode": str(rng.choice(["standard", "nesterov"]))}  # fmt: skip
    return Node([rate, count, *(some(rng, 3) for _ in range(3))], made, 2, domain=_TRAINING)


def _adagrad(rng: Rng) -> Node:
    rate, count = np.asarray(0.1, np.float32), np.asarray(int(rng.integers(0, 4)), np.int64)
    made = option(rng, {"decay_factor": 0.3, "epsilon": 0.1, "norm_coefficient": 0.01})
    return Node([rate, count, some(rng, 3), some(rng, 3), np.abs(some(rng, 3))], made, 2,
                domain=_TRAINING)  # fmt: skip


ROWS: Final[dict[str, Draw]] = {
    "QuantizeLinear": _quantize, "DequantizeLinear": _dequantize, "MatMulInteger": _matmul_integer,
    "ConvInteger": _conv_integer, "QLinearMatMul": _qlinear,
    "DynamicQuantizeLinear": lambda rng: Node([some(rng, 3, 4)], {}, 3),
    "DFT": _dft, "HannWindow": _window, "HammingWindow": _window, "BlackmanWindow": _window,
    "MelWeightMatrix": _mel, "RegexFullMatch": _regex, "StringConcat": _joined,
    "StringNormalizer": _normalized, "Scaler": _scaler, "Normalizer": _normalizer,
    "Binarizer": _binarizer, "ArrayFeatureExtractor": _extractor, "LabelEncoder": _encoder,
    "OneHotEncoder": _hot, "LinearRegressor": _regressor, "LinearClassifier": _classifier,
    "TreeEnsembleRegressor": _trees, "Adam": _adam, "Momentum": _momentum, "Adagrad": _adagrad,
}  # fmt: skip
