"""Operators with the attributes and optional operands that other rows leave at their defaults."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .language import Draw, Node, Rng, coin, numbers, option, some

_ML: Final = "ai.onnx.ml"


def _one(rng: Rng, *values: Any) -> Any:
    """Return one of several values."""
    return values[int(rng.integers(len(values)))]


def _resize(rng: Rng) -> Node:
    """Sizes or scales of some axes, kept in proportion, smoothed, or read in a region."""
    x = some(rng, 1, 2, *(int(n) for n in rng.integers(3, 7, 2)))
    mode = str(rng.choice(["nearest", "linear", "cubic"]))
    place = _one(rng, "half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric",
                 "pytorch_half_pixel", "tf_crop_and_resize")  # fmt: skip
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": place}
    given: list[Any] = [x, None, None, None]
    whole = place == "tf_crop_and_resize" or coin(rng, 0.3)
    axes = [0, 1, 2, 3] if whole else _one(rng, [2, 3], [3, 2], [2], [3])
    attributes |= {} if whole else {"axes": axes}
    # Places halfway between two elements are rounded by the last bit.
    plain = mode == "nearest"
    if plain:
        attributes |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        place = "asymmetric"
    turned = [
        x.shape[a] * int(rng.integers(1, 4)) if plain else int(rng.integers(2, 9))
        if a % 4 > 1 else x.shape[a] for a in axes
    ]  # fmt: skip
    if place == "tf_crop_and_resize":
        low = [float(n) for n in rng.uniform(-0.2, 0.4, 2)]
        high = [float(n) for n in rng.uniform(0.6, 1.2, 2)]
        given[1] = np.asarray([0, 0, *low, 1, 1, *high], np.float32)
        attributes |= option(rng, {"extrapolation_value": float(rng.uniform(-3, 3))})
    if coin(rng):
        given[3] = numbers(*turned)
        if not whole:
            attributes |= option(rng, {"keep_aspect_ratio_policy": _one(
                rng, "stretch", "not_larger", "not_smaller")})  # fmt: skip
    else:
        scales = [n / x.shape[a] for n, a in zip(turned, axes, strict=True)]
        given[2] = np.asarray(scales, np.float32)
    if mode != "nearest" and place != "tf_crop_and_resize":
        attributes |= option(rng, {"antialias": 1}, 0.8)
    if mode == "cubic":
        attributes |= option(rng, {"cubic_coeff_a": -0.5, "exclude_outside": 1}, 0.4)
    given = given[: 4 if given[3] is not None else 3]
    return Node(given, attributes, opset=int(rng.choice([18, 19])), fixed=(1, 2, 3))


def _attention(rng: Rng) -> Node:
    """Heads that share keys, in three axes or four, with what came before, and each output."""
    batch, length, width = int(rng.integers(1, 3)), int(rng.integers(1, 5)), 4
    shared = int(rng.integers(1, 3))
    heads = shared * int(rng.integers(1, 3))
    keys = int(rng.integers(1, 6))
    values = _one(rng, width, 3)
    past = int(rng.integers(1, 4)) if coin(rng, 0.7) else 0
    q = some(rng, batch, heads, length, width)
    k, v = some(rng, batch, shared, keys, width), some(rng, batch, shared, keys, values)
    attributes: dict[str, Any] = option(rng, {"is_causal": 1, "scale": 0.7, "softcap": 2.0}, 0.4)
    if coin(rng):
        q, k, v = (t.transpose(0, 2, 1, 3).reshape(batch, t.shape[2], -1) for t in (q, k, v))
        attributes |= {"q_num_heads": heads, "kv_num_heads": shared}
    mask = None
    # What a soft cap does to masked scores differs between versions of ONNX's evaluator.
    if "softcap" not in attributes and coin(rng):
        shape = _one(rng, (length, keys + past), (batch, 1, length, keys + past),
                     (1, heads, length, keys + past))  # fmt: skip
        mask = some(rng, *shape)
    given: list[Any] = [q, k, v]
    before = [some(rng, batch, shared, past, n) for n in (width, values)] if past else []
    if mask is not None or before:
        given += [mask, *before]
    outputs = 4 if coin(rng, 0.8) else 3 if past else 1
    if outputs == 4 and not past:
        outputs = 1
    if outputs == 4:
        attributes |= {"qk_matmul_output_mode": int(rng.integers("softcap" in attributes, 4))}
    attributes |= option(rng, {"softmax_precision": 1}, 0.3)
    return Node(given, attributes, outputs)


def _rotary(rng: Rng) -> Node:
    """Three axes with a number of heads, or four; all pairs or the first ones."""
    batch, length, heads, width = int(rng.integers(1, 3)), int(rng.integers(1, 4)), 2, 8
    part = _one(rng, 4, 8)
    x = some(rng, batch, heads, length, width)
    attributes = option(rng, {"interleaved": 1})
    attributes |= {"rotary_embedding_dim": part} if part < width else {}
    if coin(rng):
        x = x.transpose(0, 2, 1, 3).reshape(batch, length, -1)
        attributes |= {"num_heads": heads}
    if coin(rng):
        angles = [some(rng, batch, length, part // 2) for _ in range(2)]
        return Node([x, *angles], attributes)
    angles = [some(rng, 6, part // 2) for _ in range(2)]
    return Node([x, *angles, rng.integers(0, 6, (batch, length))], attributes)


def _boxes(rng: Rng) -> Node:
    """Boxes by their corners, or by their middles and sizes."""
    batch, classes, count = 2, 2, 6
    low, size = rng.uniform(0, 6, (batch, count, 2)), rng.uniform(1, 5, (batch, count, 2))
    middles = coin(rng)
    boxes = np.concatenate([low + size / 2, size] if middles else [low, low + size], 2)
    scores = rng.permuted(np.linspace(0.05, 0.95, batch * classes * count)).astype(np.float32)
    given = [
        boxes.astype(np.float32), scores.reshape(batch, classes, count),
        numbers(int(rng.integers(1, count + 1))), np.asarray([rng.uniform(0.1, 0.7)], np.float32),
        np.asarray([rng.uniform(0, 0.5)], np.float32),
    ]  # fmt: skip
    return Node(given, {"center_point_box": 1} if middles else {})


def _quantize(rng: Rng) -> Node:
    """Scales of the whole, of an axis or of blocks, to each type that is named or given."""
    import onnx

    x = some(rng, 4, 6) * 3
    axis, way = int(rng.integers(-2, 2)), str(rng.choice(["whole", "axis", "blocks"]))
    attributes: dict[str, Any] = {} if way == "whole" else {"axis": axis}
    shape: list[int] = []
    if way == "axis":
        shape = [x.shape[axis]]
    if way == "blocks":
        shape = [*x.shape]
        shape[axis] //= 2
        attributes["block_size"] = 2
    scale = np.asarray(rng.uniform(0.05, 0.4, shape), np.float32)
    kind = _one(rng, np.uint8, np.int8, np.uint16, np.int16)
    # No number is halfway between two, where the last bit decides.
    wide = np.asarray(scale)
    if way == "axis":
        wide = scale.reshape([-1 if n == axis % 2 else 1 for n in range(2)])
    if way == "blocks":
        wide = np.repeat(scale, 2, axis)
    near = np.abs(np.mod(x / wide, 1) - 0.5) < 1e-3
    x = np.where(near, 0, x).astype(np.float32)
    if coin(rng):
        zero = rng.integers(1, 90, shape).astype(kind)
        return Node([x, scale, np.asarray(zero)], attributes, opset=21)
    attributes["output_dtype"] = int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)))
    return Node([x, scale], attributes, opset=21)


def _dequantize(rng: Rng) -> Node:
    kind = _one(rng, np.uint8, np.int8, np.uint16, np.int16, np.int32)
    x = rng.integers(0, 100, (4, 6)).astype(kind)
    axis, way = int(rng.integers(-2, 2)), str(rng.choice(["whole", "axis", "blocks"]))
    attributes: dict[str, Any] = {} if way == "whole" else {"axis": axis}
    shape: list[int] = []
    if way == "axis":
        shape = [x.shape[axis]]
    if way == "blocks":
        shape = [*x.shape]
        shape[axis] //= 2
        attributes["block_size"] = 2
    scale = np.asarray(rng.uniform(0.05, 0.4, shape), np.float32)
    zero = np.asarray(rng.integers(0, 90, shape), kind)
    return Node([x, scale, *([zero] if coin(rng) else [])], attributes, opset=21)


def _pad(rng: Rng) -> Node:
    """Padding of some axes, by each mode."""
    x = some(rng, *(int(n) for n in rng.integers(3, 6, 3)))
    mode = str(rng.choice(["constant", "reflect", "edge", "wrap"]))
    axes = [int(a) - 3 * coin(rng) for a in rng.permutation(3)[: int(rng.integers(1, 4))]]
    pads = rng.integers(0, 3, 2 * len(axes)).astype(np.int64)
    value = np.asarray(rng.normal(), np.float32) if mode == "constant" and coin(rng) else None
    kind = _one(rng, np.int64, np.int32)
    return Node([x, pads, value, np.asarray(axes, kind)], {"mode": mode},
                opset=int(rng.choice([19, 21])), fixed=(1, 3))  # fmt: skip


def _reshape(rng: Rng) -> Node:
    """Sizes of zero are taken as they are, or are those of the operand."""
    if coin(rng):
        return Node(
            [some(rng, 3, 4, 2), numbers(_one(rng, 0, 3), -1)], {"allowzero": 0}, fixed=(1,)
        )
    sizes = _one(rng, (0, 4), (3, 0, 2), (2, 0))
    return Node([np.zeros((0, 3), np.float32), numbers(*sizes)], {"allowzero": 1},
                opset=int(rng.choice([14, 19])), fixed=(1,))  # fmt: skip


def _dft(rng: Rng) -> Node:
    """A length of its own, of any axis, of real and complex numbers, there and back."""
    back = coin(rng)
    x = some(
        rng, 2, int(rng.integers(3, 7)), int(rng.integers(3, 7)), 2 if back else _one(rng, 1, 2)
    )
    axis = int(rng.integers(1, 3))
    length = np.asarray(int(rng.integers(2, 8)), np.int64) if coin(rng, 0.7) else None
    flags = {"inverse": 1} if back else {}
    if not back and x.shape[-1] == 1:
        flags |= option(rng, {"onesided": 1})
    if coin(rng):
        return Node([x, length, numbers(axis)[0] + 0], flags, opset=20, fixed=(1, 2))
    return Node([x, *([length] if length is not None else [])], {**flags, "axis": axis}, opset=17,
                fixed=(1,))  # fmt: skip


def _unique(rng: Rng) -> Node:
    x = rng.integers(0, 3, (4, 3)).astype(np.float32)
    return Node([x], {**option(rng, {"axis": int(rng.integers(-2, 2))}, 0.8), "sorted": 1}, 4)


def _scattered(rng: Rng) -> Node:
    """A cache that is written along an axis, from a place of its own for each sample."""
    axis = int(_one(rng, -2, -1, 1, 2))
    shape = [2, 4, 5]
    along = shape[axis]
    part = [*shape]
    part[axis] = int(rng.integers(1, 3))
    at = rng.integers(0, along - part[axis] + 1, 2)
    return Node([some(rng, *shape), some(rng, *part), at], {"axis": axis}, opset=24)


def _unpool(rng: Rng) -> Node:
    """Elements put back at their places, in an image that may be larger."""
    step = int(rng.integers(2, 4))
    x = some(rng, 1, 2, 2, 3)
    sizes = [2 * step, 3 * step]
    flat = rng.permutation(sizes[0] * sizes[1])[:6].reshape(2, 3)
    at = np.stack([flat, flat + sizes[0] * sizes[1]])[None].astype(np.int64)
    attributes = {"kernel_shape": [step, step], "strides": [step, step]}
    return Node([x, at], attributes)


def _groups(rng: Rng) -> Node:
    """Deformed windows in groups, apart and padded, with a mask or without one."""
    group, moved = _one(rng, 1, 2), _one(rng, 1, 2)
    kernel, step, apart = ([int(n) for n in rng.integers(1, 3, 2)] for _ in range(3))
    pads = [int(n) for n in rng.integers(0, 2, 4)]
    x, w = some(rng, 1, 4, 5, 6), some(rng, 2, 4 // group, *kernel)
    counts = [
        (n + pads[i] + pads[i + 2] - apart[i] * (kernel[i] - 1) - 1) // step[i] + 1
        for i, n in enumerate((5, 6))
    ]
    taps = moved * kernel[0] * kernel[1]
    # No place is an element itself, where the slope is another on each side.
    offset = (rng.integers(-1, 2, (1, 2 * taps, *counts)) + rng.uniform(0.1, 0.9)).astype(
        np.float32
    )
    given: list[Any] = [x, w, offset]
    bias = some(rng, 2) if coin(rng) else None
    mask = rng.random((1, taps, *counts)).astype(np.float32) if coin(rng) else None
    if bias is not None or mask is not None:
        given += [bias, *([] if mask is None else [mask])]
    return Node(given, {"group": group, "offset_group": moved, "kernel_shape": kernel, "pads": pads,
                        "strides": step, "dilations": apart})  # fmt: skip


def _window(rng: Rng) -> Node:
    """A window in a type that is asked for."""
    kind = int(_one(rng, 1, 11))
    return Node([np.asarray(int(rng.integers(2, 9)), np.int64)],
                {**option(rng, {"periodic": 0}), "output_datatype": kind})  # fmt: skip


def _label(rng: Rng) -> Node:
    """Keys and values of each kind, with the default that belongs to the values."""
    keys = str(rng.choice(["int64s", "floats", "strings"]))
    values = str(rng.choice(["int64s", "floats", "strings"]))
    kinds: dict[str, Any] = {"int64s": np.int64, "floats": np.float32, "strings": object}

    def of(kind: str, number: int) -> Any:
        return {"int64s": int(number), "floats": float(number) / 2, "strings": f"t{number}"}[kind]

    known = [int(n) for n in rng.permutation(9)[:4]]
    given = [int(n) for n in rng.permutation(9)[:4]]
    table = {of(keys, k): of(values, v) for k, v in zip(known, given, strict=True)}
    usual = {"default_int64": -3, "default_float": -1.5, "default_string": "none"}
    attributes: dict[str, Any] = {f"keys_{keys}": [*table], f"values_{values}": [*table.values()]}
    chosen = option(rng, usual)
    plain = {"int64s": -1, "floats": -0.0, "strings": "_Unused"}[values]
    last = chosen.get({"int64s": "default_int64", "floats": "default_float",
                       "strings": "default_string"}[values], plain)  # fmt: skip
    sought = [of(keys, int(n)) for n in rng.integers(0, 9, 6)]
    x = np.asarray(sought, kinds[keys]).reshape(2, 3)
    want = np.asarray([table.get(k, last) for k in sought], kinds[values]).reshape(2, 3)
    return Node(
        [x], {**attributes, **chosen}, domain=_ML, opset=int(rng.choice([2, 4])), want=[want]
    )


def _classes(rng: Rng, count: int) -> tuple[dict[str, Any], Any]:
    """Return labels as an attribute and as an array."""
    if coin(rng):
        names = [f"c{n}" for n in rng.permutation(9)[:count]]
        return {"classlabels_strings": names}, np.asarray(names, object)
    places = [int(n) for n in rng.permutation(9)[:count]]
    return {"classlabels_ints": places}, np.asarray(places, np.int64)


def _after(scores: Any, way: str) -> Any:
    """Return scores after a transform."""
    if way == "LOGISTIC":
        return 1 / (1 + np.exp(-scores))
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    if way == "SOFTMAX_ZERO":
        powers = np.where(np.abs(scores) > 1e-7, powers, 0)
    return powers / powers.sum(-1, keepdims=True) if way.startswith("SOFTMAX") else scores


_WAYS: Final = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")


def _linear_classes(rng: Rng) -> Node:
    count = int(rng.integers(3, 5))
    named, labels = _classes(rng, count)
    x, w, b = some(rng, 4, 3), some(rng, count, 3), some(rng, count)
    way = str(rng.choice(_WAYS))
    scores = x.astype(float) @ w.T + b
    attributes = {**named, "coefficients": [*map(float, w.reshape(-1))], "post_transform": way,
                  "intercepts": [*map(float, b)], **option(rng, {"multi_class": 1})}  # fmt: skip
    want = [labels[scores.argmax(1)], _after(scores, way).astype(np.float32)]
    return Node([x], attributes, 2, domain=_ML, want=want)


def _linear_numbers(rng: Rng) -> Node:
    count, way = int(rng.integers(2, 5)), str(rng.choice(_WAYS))
    x, w, b = some(rng, 4, 3), some(rng, count, 3), some(rng, count)
    scores = x.astype(float) @ w.T
    attributes = {"coefficients": [*map(float, w.reshape(-1))], "post_transform": way,
                  "targets": count}  # fmt: skip
    if coin(rng):
        attributes["intercepts"] = [*map(float, b)]
        scores = scores + b
    return Node([x], attributes, domain=_ML, want=[_after(scores, way).astype(np.float32)])


def _encoded(rng: Rng) -> Node:
    texts = [f"t{n}" for n in rng.permutation(6)[:4]]
    x = np.asarray([f"t{n}" for n in rng.integers(0, 6, 6)], object).reshape(2, 3)
    want = (x[..., None] == np.asarray(texts, object)).astype(np.float32)
    return Node([x], {"cats_strings": texts, "zeros": 1},
                domain=_ML, want=[want])  # fmt: skip


def _imputed(rng: Rng) -> Node:
    x = rng.integers(0, 4, (3, 2))
    values = [int(n) for n in rng.integers(50, 99, _one(rng, 1, 2))]
    want = np.where(x == 2, np.asarray(values), x)
    return Node([x], {"imputed_value_int64s": values, "replaced_value_int64": 2}, domain=_ML,
                want=[want])  # fmt: skip


def _vectors(rng: Rng) -> Node:
    """A regression by support vectors, or whether a row is of the one class."""
    kernel = str(rng.choice(["LINEAR", "POLY", "RBF", "SIGMOID"]))
    count = int(rng.integers(2, 5))
    x, vectors, weights = some(rng, 4, 3) / 2, some(rng, count, 3) / 2, some(rng, count)
    gamma, offset, degree = float(rng.uniform(0.2, 1)), float(rng.uniform(0.1, 1)), 3.0
    rho = float(rng.normal())
    dot = x.astype(float) @ vectors.T
    apart = ((x[:, None].astype(float) - vectors) ** 2).sum(-1)
    values = {
        "LINEAR": dot, "POLY": (gamma * dot + offset) ** degree, "RBF": np.exp(-gamma * apart),
        "SIGMOID": np.tanh(gamma * dot + offset),
    }[kernel]  # fmt: skip
    made = (values @ weights + rho)[:, None]
    one = coin(rng, 0.4)
    attributes = {
        "coefficients": [*map(float, weights)],
        "support_vectors": [*map(float, vectors.reshape(-1))],
        "n_supports": count, "rho": [rho], "kernel_type": kernel,
        "kernel_params": [gamma, offset, degree], **({"one_class": 1} if one else {}),
    }  # fmt: skip
    want = np.where(made > 0, 1.0, -1.0) if one else made
    return Node([x], attributes, domain=_ML, want=[want.astype(np.float32)])


def _trees(rng: Rng) -> Node:
    """Trees of one branch, with base values, missing values, and each way to aggregate."""
    trees, targets = int(rng.integers(2, 4)), 2
    edges, features = rng.normal(size=trees).round(2), rng.integers(0, 3, trees)
    modes = [
        str(m)
        for m in rng.choice(
            ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"], trees
        )
    ]
    missing = [int(m) for m in rng.integers(0, 2, trees)]
    weights = rng.normal(size=(trees, 2, targets)).round(2)
    base = [float(b) for b in rng.normal(size=targets).round(2)] if coin(rng) else []
    how = str(rng.choice(["SUM", "AVERAGE", "MIN", "MAX"]))
    x = some(rng, 5, 3)
    x[0, features[0]] = np.nan
    x[1, features[0]] = np.float32(edges[0])
    compared: dict[str, Any] = {
        "BRANCH_LEQ": np.less_equal, "BRANCH_LT": np.less, "BRANCH_GTE": np.greater_equal,
        "BRANCH_GT": np.greater, "BRANCH_EQ": np.equal, "BRANCH_NEQ": np.not_equal,
    }  # fmt: skip
    leaves = []
    for t in range(trees):
        column = x[:, features[t]]
        yes = compared[modes[t]](column, np.float32(edges[t]))
        yes = np.where(np.isnan(column), yes | bool(missing[t]), yes)
        leaves.append(np.where(yes[:, None], weights[t, 0], weights[t, 1]))
    ways: dict[str, Any] = {"SUM": np.sum, "AVERAGE": np.mean, "MIN": np.min, "MAX": np.max}
    made = ways[how](leaves, axis=0)
    made = made + (np.asarray(base) if base else 0)
    way = str(rng.choice(["NONE", "SOFTMAX", "LOGISTIC"]))
    ids = [t for t in range(trees) for _ in range(3)]
    attributes: dict[str, Any] = {
        "n_targets": targets, "aggregate_function": how, "post_transform": way,
        "nodes_treeids": ids, "nodes_nodeids": [0, 1, 2] * trees,
        "nodes_modes": [m for mode in modes for m in (mode, "LEAF", "LEAF")],
        "nodes_featureids": [int(f) for feature in features for f in (feature, 0, 0)],
        "nodes_values": [float(e) for edge in edges for e in (edge, 0, 0)],
        "nodes_truenodeids": [1, 0, 0] * trees, "nodes_falsenodeids": [2, 0, 0] * trees,
        "nodes_missing_value_tracks_true": [m for one in missing for m in (one, 0, 0)],
        "target_treeids": [t for t in range(trees) for _ in range(2 * targets)],
        "target_nodeids": [1, 1, 2, 2] * trees, "target_ids": [0, 1] * (2 * trees),
        "target_weights": [float(w) for w in weights.reshape(-1)],
        **({"base_values": base} if base else {}),
    }  # fmt: skip
    return Node([x], attributes, domain=_ML, want=[_after(made, way).astype(np.float32)])


ROWS: Final[dict[str, Draw]] = {
    "Resize": _resize, "Attention": _attention, "RotaryEmbedding": _rotary,
    "NonMaxSuppression": _boxes, "QuantizeLinear": _quantize, "DequantizeLinear": _dequantize,
    "Pad": _pad, "Reshape": _reshape, "DFT": _dft, "Unique": _unique,
    "TensorScatter": _scattered, "MaxUnpool": _unpool, "DeformConv": _groups,
    "HannWindow": _window, "HammingWindow": _window, "BlackmanWindow": _window,
    "LabelEncoder": _label, "LinearClassifier": _linear_classes,
    "LinearRegressor": _linear_numbers, "OneHotEncoder": _encoded, "Imputer": _imputed,
    "SVMRegressor": _vectors, "TreeEnsembleRegressor": _trees,
}  # fmt: skip
