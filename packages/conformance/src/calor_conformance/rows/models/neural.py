"""Operators of networks: products, windows, normalizations, attention, recurrence and losses."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .language import Draw, Node, Rng, axis_of, coin, numbers, option, shape_of, some


def _matmul(rng: Rng) -> Node:
    m, k, n = (int(v) for v in rng.integers(1, 5, 3))
    lead = [(), (2,), (1,), (3, 1), (2, 3)]
    left, right = ((), (2,)) if coin(rng) else (lead[int(rng.integers(5))], ())
    a, b = some(rng, *left, m, k), some(rng, *right, k, n)
    return Node([a if coin(rng, 0.8) or left else a[0], b], fixed=(1,) if coin(rng) else ())


def _gemm(rng: Rng) -> Node:
    m, k, n = (int(v) for v in rng.integers(1, 5, 3))
    turned = option(rng, {"transA": 1, "transB": 1})
    a = some(rng, *((k, m) if "transA" in turned else (m, k)))
    b = some(rng, *((n, k) if "transB" in turned else (k, n)))
    c = [(m, n), (n,), (1, n), (m, 1), ()][int(rng.integers(5))]
    factors = option(rng, {"alpha": float(rng.uniform(0.2, 2)), "beta": float(rng.uniform(0.2, 2))})
    return Node([a, b, *([some(rng, *c)] if coin(rng, 0.8) else [])], {**turned, **factors})


def _einsum(rng: Rng) -> Node:
    sizes = dict(zip("bijk", (2, 3, 4, 2), strict=True))
    left, right, out = [
        ("bij", "bjk", "bik"), ("ij", "kj", "ki"), ("bi", "bi", "b"), ("ij", "jk", ""),
        ("i", "j", "ji"), ("bij", "j", "ib"),
    ][int(rng.integers(6))]  # fmt: skip
    given = [some(rng, *(sizes[c] for c in names)) for names in (left, right)]
    return Node(given, {"equation": f"{left},{right}->{out}"})


def _det(rng: Rng) -> Node:
    n = int(rng.integers(1, 4))
    return Node([some(rng, *shape_of(rng, 0, 1), n, n)])


def _spatial(rng: Rng) -> tuple[int, list[int], dict[str, Any]]:
    """Return a rank, sizes and options of a window."""
    rank = int(rng.choice([1, 2, 2, 3]))
    sizes = [int(n) for n in rng.integers(5, 9, rank)]
    options: dict[str, Any] = option(rng, {
        "strides": [int(n) for n in rng.integers(1, 4, rank)],
        "dilations": [int(n) for n in rng.integers(1, 3, rank)],
        "pads": [int(n) for n in rng.integers(0, 2, 2 * rank)],
    })  # fmt: skip
    if coin(rng, 0.2):
        options = {"strides": [int(n) for n in rng.integers(1, 3, rank)]}
        options["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]))
    return rank, sizes, options


def _conv(rng: Rng) -> Node:
    rank, sizes, options = _spatial(rng)
    group = int(rng.choice([1, 1, 2, 4]))
    kernel = [int(n) for n in rng.integers(1, 4, rank)]
    w = some(rng, 4 * (1 + coin(rng)), 4 // group, *kernel)
    given = [some(rng, 2, 4, *sizes), w]
    if coin(rng):
        given.append(some(rng, w.shape[0]))
    options |= {"group": group, **option(rng, {"kernel_shape": kernel})}
    return Node(given, options, fixed=(1, 2) if coin(rng) else ())


def _conv_transpose(rng: Rng) -> Node:
    rank = int(rng.choice([1, 2]))
    group = 1
    kernel = [int(n) for n in rng.integers(1, 4, rank)]
    strides = [int(n) for n in rng.integers(1, 4, rank)]
    options = {"group": group, "strides": strides, "kernel_shape": kernel, **option(rng, {
        "pads": [0] * (2 * rank) if coin(rng) else [1] * (2 * rank),
        "output_padding": [int(rng.integers(0, s)) for s in strides],
    })}  # fmt: skip
    given = [some(rng, 1, 4, *(int(n) for n in rng.integers(4, 6, rank))), some(rng, 4, 2, *kernel)]
    if coin(rng):
        given.append(some(rng, 2 * group))
    return Node(given, options)


def _pool(name: str) -> Draw:
    def draw(rng: Rng) -> Node:
        rank, sizes, options = _spatial(rng)
        kernel = [int(n) for n in rng.integers(2, 4, rank)]
        options["kernel_shape"] = kernel
        if not options.keys() & {"auto_pad", "pads", "dilations"} and coin(rng, 0.4):
            options["ceil_mode"] = 1
        if name == "AveragePool":
            options |= option(rng, {"count_include_pad": int(coin(rng))})
        if name == "LpPool":
            options |= option(rng, {"p": int(rng.integers(1, 4))})
            options.pop("ceil_mode", None)
            options.pop("auto_pad", None)
        return Node([some(rng, 2, 3, *sizes)], options, opset=22)

    return draw


def _max_pool(rng: Rng) -> Node:
    """Return largest elements and their places, also where last windows end past the axis."""
    rank, sizes, options = _spatial(rng)
    options.pop("auto_pad", None)
    kernel = [int(n) for n in rng.integers(2, 4, rank)]
    x = some(rng, 2, 3, *sizes)
    options |= {"kernel_shape": kernel, **option(rng, {"ceil_mode": 1}, 0.4)}
    pads = options.get("pads", [0] * (2 * rank))
    lines = []
    for n, size in enumerate(sizes):
        step, apart = (options.get(k, [1] * rank)[n] for k in ("strides", "dilations"))
        left = size + pads[n] + pads[n + rank] - apart * (kernel[n] - 1) - 1
        count = (-(-left // step) if "ceil_mode" in options else left // step) + 1
        # No window begins behind the operand and the padding before it.
        count -= (count - 1) * step >= size + pads[n]
        at = np.arange(count)[:, None] * step - pads[n] + np.arange(kernel[n]) * apart
        lines.append(at)
    shape = [len(at) for at in lines]
    want, places = np.empty((2, 3, *shape), np.float32), np.empty((2, 3, *shape), np.int64)
    for index in np.ndindex(*shape):
        inside = [[i for i in at[k] if 0 <= i < n]
                  for at, k, n in zip(lines, index, sizes, strict=True)]  # fmt: skip
        grid = np.ravel_multi_index(np.ix_(*inside), sizes).ravel()
        taken = x.reshape(6, -1)[:, grid]
        best = taken.argmax(1)
        want[(..., *index)] = taken.max(1).reshape(2, 3)
        every = np.arange(6) * int(np.prod(sizes)) + grid[best]
        places[(..., *index)] = every.reshape(2, 3)
    wants: list[Any] = [want, places][: int(rng.integers(1, 3))]
    return Node([x], options, len(wants), opset=22, want=wants)


def _global(rng: Rng) -> Node:
    return Node([some(rng, 2, 3, *shape_of(rng, 2, 2))])


def _batch_norm(rng: Rng) -> Node:
    x = some(rng, 3, 4, *shape_of(rng, 0, 2))
    rows = [some(rng, 4) for _ in range(3)]
    variance = np.asarray(rng.uniform(0.3, 2, 4), np.float32)
    options = option(rng, {"epsilon": float(rng.uniform(1e-3, 0.5))})
    if coin(rng, 0.3) and x.ndim > 2:
        options |= {"training_mode": 1, **option(rng, {"momentum": 0.7})}
        return Node([x, *rows, variance], options, 3, opset=15)
    return Node([x, *rows, variance], options, opset=15, fixed=(1, 2, 3, 4) if coin(rng) else ())


def _layer_norm(rng: Rng) -> Node:
    x = some(rng, *(int(n) for n in rng.integers(2, 5, 3)))
    axis = int(rng.integers(-3, 3))
    given = [x, some(rng, *x.shape[axis:])]
    if coin(rng):
        given.append(some(rng, *x.shape[axis:]))
    return Node(
        given,
        {"axis": axis, **option(rng, {"epsilon": float(rng.uniform(1e-3, 0.5))})},
        int(rng.choice([1, 3])),
        opset=17,
    )


def _rms_norm(rng: Rng) -> Node:
    x = some(rng, *(int(n) for n in rng.integers(2, 5, 3)))
    axis = int(rng.integers(-3, 3))
    return Node([x, some(rng, *x.shape[axis:])],
                {"axis": axis, **option(rng, {"epsilon": 0.1})}, opset=23)  # fmt: skip


def _group_norm(rng: Rng) -> Node:
    x = some(rng, 2, 4, *shape_of(rng, 1, 2))
    groups = int(rng.choice([1, 2, 4]))
    return Node([x, some(rng, 4), some(rng, 4)],
                {"num_groups": groups, **option(rng, {"epsilon": 0.1})}, opset=21)  # fmt: skip


def _instance_norm(rng: Rng) -> Node:
    return Node([some(rng, 2, 3, 4, 3), some(rng, 3), some(rng, 3)],
                option(rng, {"epsilon": 0.1}))  # fmt: skip


def _lrn(rng: Rng) -> Node:
    x, size = some(rng, 2, 6, 3, 2), int(rng.choice([1, 2, 3, 5]))
    options = option(rng, {"alpha": 0.3, "beta": 0.5, "bias": 2.0})
    near = np.stack([
        np.square(x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1]).sum(1) for c in range(6)
    ], 1)  # fmt: skip
    how = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0, **options}
    want = x / (how["bias"] + how["alpha"] / size * near) ** how["beta"]
    return Node([x], {"size": size, **options}, want=[want.astype(np.float32)])


def _lp_norm(rng: Rng) -> Node:
    x = some(rng, *shape_of(rng))
    options = option(rng, {"axis": axis_of(rng, x), "p": int(rng.choice([1, 2]))})
    p, axis = options.get("p", 2), options.get("axis", -1)
    sums = np.sum(np.abs(x) ** p, axis, keepdims=True) ** (1 / p)
    want = np.divide(x, sums, where=sums != 0, out=np.zeros_like(x))
    return Node([x], options, opset=22, want=[want])


def _mean_variance(rng: Rng) -> Node:
    return Node([some(rng, 3, 2, 4, 3)], option(rng, {"axes": [0, 2, 3] if coin(rng) else [0, 2]}))


def _recurrent(gates: int, *, cell: bool = False) -> Draw:
    def draw(rng: Rng) -> Node:
        steps, batch, width, hidden = (int(n) for n in rng.integers(1, 4, 4))
        direction = str(rng.choice(["forward", "reverse", "bidirectional"]))
        ways = 1 + (direction == "bidirectional")
        given: list[Any] = [
            some(rng, steps, batch, width), some(rng, ways, gates * hidden, width),
            some(rng, ways, gates * hidden, hidden),
            some(rng, ways, 2 * gates * hidden) if coin(rng) else None, None,
            some(rng, ways, batch, hidden) if coin(rng) else None,
        ]  # fmt: skip
        options: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
        if gates == 3:
            options["linear_before_reset"] = int(coin(rng))
        if cell:
            given += [
                some(rng, ways, batch, hidden) if coin(rng) else None,
                some(rng, ways, 3 * hidden) if coin(rng) else None,
            ]
        return Node(given, options, 3 if cell else 2, opset=14)

    return draw


def _losses(cross: bool) -> Draw:
    def draw(rng: Rng) -> Node:
        lead = (int(rng.integers(1, 4)), 4, *shape_of(rng, 0, 2))
        x = some(rng, *lead)
        target = np.asarray(rng.integers(0, 4, (lead[0], *lead[2:])), np.int64)
        given = [x, target]
        if coin(rng):
            given.append(np.asarray(rng.uniform(0.5, 2, 4), np.float32))
        options = option(rng, {
            "reduction": str(rng.choice(["mean", "sum", "none"])),
            "ignore_index": int(rng.integers(0, 4)),
        })  # fmt: skip
        return Node(given, options, 2 if cross and coin(rng) else 1, opset=13)

    return draw


def _resize(rng: Rng) -> Node:
    mode = str(rng.choice(["nearest", "linear", "cubic"]))
    x = some(rng, 1, 2, *(int(n) for n in rng.integers(2, 6, 2)))
    places = str(rng.choice(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]))
    options: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": places}
    if mode == "nearest":
        options["nearest_mode"] = str(rng.choice(["floor", "ceil", "round_prefer_floor",
                                                  "round_prefer_ceil"]))  # fmt: skip
    if mode == "cubic":
        options |= option(rng, {"cubic_coeff_a": -0.5, "exclude_outside": 1})
    if mode != "nearest" and coin(rng):
        sizes = numbers(1, 2, *rng.integers(2, 9, 2))
        return Node([x, None, None, sizes], options, opset=19, fixed=(3,))
    scales = np.asarray([1, 1, *rng.choice([0.5, 1.5, 2.0], 2)], np.float32)
    return Node([x, None, scales], options, opset=19, fixed=(2,))


def _grid(rng: Rng) -> Node:
    x = some(rng, 2, 3, 4, 5)
    grid = np.asarray(rng.uniform(-1.3, 1.3, (2, 3, 2, 2)), np.float32)
    mode = str(rng.choice(["linear", "nearest", "cubic"]))
    # Cubic weights beyond the border are another reading of it in the package onnx.
    around = "zeros" if mode == "cubic" else str(rng.choice(["zeros", "border", "reflection"]))
    return Node([x, grid], {"mode": mode, "padding_mode": around,
                            **option(rng, {"align_corners": 1})}, opset=20)  # fmt: skip


def _affine(rng: Rng) -> Node:
    return Node([some(rng, 2, 2, 3), numbers(2, 3, 4, 5)], option(rng, {"align_corners": 1}),
                opset=20, fixed=(1,))  # fmt: skip


def _suppression(rng: Rng) -> Node:
    at = rng.uniform(0, 4, (1, 6, 2))
    boxes = np.asarray(np.concatenate([at, at + rng.uniform(0.5, 3, (1, 6, 2))], -1), np.float32)
    scores = np.asarray(rng.permutation(12).reshape(1, 2, 6) / 12, np.float32)
    limits = [numbers(int(rng.integers(1, 5))), np.asarray([0.3], np.float32)]
    return Node([boxes, scores, *limits, np.asarray([0.2], np.float32)])


def _roi(rng: Rng) -> Node:
    x = some(rng, 2, 2, 6, 6)
    at = rng.uniform(0, 3, (3, 2))
    rois = np.asarray(np.concatenate([at, at + rng.uniform(1, 3, (3, 2))], -1), np.float32)
    return Node([x, rois, np.asarray([0, 1, 0], np.int64)], {
        "output_height": 2, "output_width": 3, "sampling_ratio": 2, **option(rng, {
            "mode": "avg", "spatial_scale": 0.8,
            "coordinate_transformation_mode": str(rng.choice(["output_half_pixel", "half_pixel"])),
        }),
    }, opset=16)  # fmt: skip


def _attention(rng: Rng) -> Node:
    batch, heads, q, k, width = 2, 2 * (1 + coin(rng)), *(int(n) for n in rng.integers(2, 5, 3))
    shared = 2 if coin(rng, 0.3) else heads
    given = [some(rng, batch, heads, q, width), some(rng, batch, shared, k, width),
             some(rng, batch, shared, k, 3)]  # fmt: skip
    if coin(rng):
        given.append(some(rng, q, k) if coin(rng) else rng.random((q, k)) < 0.8)
    options = option(rng, {"scale": 0.7, "is_causal": 1, "softcap": 2.0}, 0.4)
    return Node(given, options, opset=23)


def _rotary(rng: Rng) -> Node:
    x = some(rng, 2, 3, 4, 8)
    width = 4
    options = option(rng, {"interleaved": 1})
    if coin(rng):
        options["rotary_embedding_dim"] = 4
        width = 2
    angles = rng.normal(size=(6, width))
    positions = np.asarray(rng.integers(0, 6, (2, 4)), np.int64)
    return Node([x, *(np.asarray(f(angles), np.float32) for f in (np.cos, np.sin)), positions],
                options, opset=23)  # fmt: skip


ROWS: Final[dict[str, Draw]] = {
    "MatMul": _matmul, "Gemm": _gemm, "Einsum": _einsum, "Det": _det, "Conv": _conv,
    "ConvTranspose": _conv_transpose, "AveragePool": _pool("AveragePool"),
    "MaxPool": _max_pool, "LpPool": _pool("LpPool"), "GlobalAveragePool": _global,
    "GlobalMaxPool": _global, "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm, "RMSNormalization": _rms_norm,
    "GroupNormalization": _group_norm, "InstanceNormalization": _instance_norm, "LRN": _lrn,
    "LpNormalization": _lp_norm, "MeanVarianceNormalization": _mean_variance,
    "RNN": _recurrent(1), "GRU": _recurrent(3), "LSTM": _recurrent(4, cell=True),
    "NegativeLogLikelihoodLoss": _losses(False), "SoftmaxCrossEntropyLoss": _losses(True),
    "Resize": _resize, "GridSample": _grid, "AffineGrid": _affine,
    "NonMaxSuppression": _suppression, "RoiAlign": _roi, "Attention": _attention,
    "RotaryEmbedding": _rotary,
}  # fmt: skip
