"""Recurrent layers and transposed convolutions, with all attributes crossed, beside plain loops.

ONNX's own evaluator leaves out what these rows are about: lengths of sequences, activations with
factors, clipping, coupled gates, groups, and sizes of outputs that are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, Final

import numpy as np

from ..language import Array
from .language import Draw, Node, Rng, coin, option, some

_CURVES: Final[dict[str, tuple[int, Callable[..., Any]]]] = {
    "Relu": (0, lambda x: np.maximum(x, 0)), "Tanh": (0, np.tanh),
    "Sigmoid": (0, lambda x: (1 + np.tanh(x / 2)) / 2), "Softsign": (0, lambda x: x / (1 + abs(x))),
    "Softplus": (0, lambda x: np.logaddexp(0, x)), "Affine": (2, lambda x, a, b: a * x + b),
    "ScaledTanh": (2, lambda x, a, b: a * np.tanh(b * x)),
    "HardSigmoid": (2, lambda x, a, b: np.clip(a * x + b, 0, 1)),
    "LeakyRelu": (1, lambda x, a: np.where(x < 0, a * x, x)),
    "ThresholdedRelu": (1, lambda x, a: np.where(x > a, x, 0)),
    "Elu": (1, lambda x, a: np.where(x < 0, a * (np.exp(x) - 1), x)),
}  # fmt: skip
# What gates are made by, so that states do not grow without bound.
_BOUNDED: Final = ("Tanh", "Sigmoid", "Softsign", "ScaledTanh", "HardSigmoid")
# The gates of a layer, and the curves of a direction that no attribute names.
_GATES: Final = {
    "RNN": (1, ["Tanh"]),
    "GRU": (3, ["Sigmoid", "Tanh"]),
    "LSTM": (4, ["Sigmoid", "Tanh", "Tanh"]),
}
Curve = Callable[[Array], Array]


def _curves(rng: Rng, default: list[str], directions: int) -> tuple[dict[str, Any], list[Any]]:
    """Return attributes that name the curves of all directions, and the curves."""
    if coin(rng, 0.3):
        return {}, [_CURVES[name][1] for name in default * directions]
    gated = len(default) > 1
    names = [
        str(rng.choice(_BOUNDED if gated and n % len(default) == 0 else [*_CURVES]))
        for n in range(len(default) * directions)
    ]
    attributes: dict[str, Any] = {"activations": names}
    alphas, betas, curves = [], [], []
    for name in names:
        count, curve = _CURVES[name]
        given = [round(float(n), 3) for n in rng.uniform(0.1, 0.9, count)]
        alphas += given[:1]
        betas += given[1:]
        curves.append(lambda x, curve=curve, given=given: curve(x, *given))
    attributes |= {"activation_alpha": alphas} if alphas else {}
    return attributes | ({"activation_beta": betas} if betas else {}), curves


def _rnn(
    row: Array, states: list[Array], r: Array, b: Array, curves: list[Curve], more: Any
) -> Any:
    limit = more[0]
    half = len(b) // 2
    return [curves[0](limit(row + states[0] @ r.T + b[:half] + b[half:]))]


def _gru(
    row: Array, states: list[Array], r: Array, b: Array, curves: list[Curve], more: Any
) -> Any:
    limit, linear, _, _ = more
    (f, g), (h,), size = curves, states, len(r) // 3
    given, kept = b[: 3 * size], b[3 * size :]
    z, s, n = (slice(k * size, (k + 1) * size) for k in range(3))
    row = row + given
    update = f(limit(row[:, z] + h @ r[z].T + kept[z]))
    reset = f(limit(row[:, s] + h @ r[s].T + kept[s]))
    inner = reset * (h @ r[n].T + kept[n]) if linear else (reset * h) @ r[n].T + kept[n]
    return [(1 - update) * g(limit(row[:, n] + inner)) + update * h]


def _lstm(
    row: Array, states: list[Array], r: Array, b: Array, curves: list[Curve], more: Any
) -> Any:
    limit, _, coupled, peep = more
    (f, g, last), (h, c), size = curves, states, len(r) // 4
    row = row + b[: 4 * size] + b[4 * size :] + h @ r.T
    i, o, forget, new = (row[:, k * size : (k + 1) * size] for k in range(4))
    p = [peep[k * size : (k + 1) * size] for k in range(3)]
    i = f(limit(i + p[0] * c))
    forget = 1 - i if coupled else f(limit(forget + p[2] * c))
    c = forget * c + i * g(limit(new))
    return [f(limit(o + p[1] * c)) * last(c), c]


_STEPS: Final = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}


def _layer(name: str) -> Draw:
    """Return a row of a layer: every attribute, optional operand and direction."""

    def draw(rng: Rng) -> Node:
        gates, default = _GATES[name]
        steps, batch, width, size = (int(n) for n in rng.integers(1, 5, 4))
        direction = str(rng.choice(["forward", "reverse", "bidirectional"]))
        both = 2 if direction == "bidirectional" else 1
        named, curves = _curves(rng, default, both)
        x, w, r = (
            some(rng, steps, batch, width),
            *(some(rng, both, gates * size, n) / 3 for n in (width, size)),
        )
        b = some(rng, both, 2 * gates * size) if coin(rng) else None
        lengths = rng.integers(1, steps + 1, batch).astype(np.int32) if coin(rng) else None
        held = [some(rng, both, batch, size) if coin(rng) else None
                for _ in range(2 if name == "LSTM" else 1)]  # fmt: skip
        peep = some(rng, both, 3 * size) if name == "LSTM" and coin(rng) else None
        layout = int(coin(rng, 0.3))
        flags = option(rng, {"clip": float(rng.uniform(0.3, 2))}, 0.4)
        if name == "GRU":
            flags |= option(rng, {"linear_before_reset": 1})
        if name == "LSTM":
            flags |= option(rng, {"input_forget": 1}, 0.3)
        clip = flags.get("clip", np.inf)

        outputs = np.zeros((steps, both, batch, size))
        ends = [np.zeros((both, batch, size)) for _ in held]
        for way in range(both):
            states = [np.zeros((batch, size)) if h is None else h[way].astype(float) for h in held]
            more = (
                lambda v: np.clip(v, -clip, clip), "linear_before_reset" in flags,
                "input_forget" in flags, np.zeros(3 * size) if peep is None else peep[way],
            )  # fmt: skip
            bias = np.zeros(2 * gates * size) if b is None else b[way]
            own = curves[way * len(default) : (way + 1) * len(default)]
            order = range(steps)
            for t in order if direction == "forward" or (both == 2 and way == 0) else order[::-1]:
                made = _STEPS[name](x[t] @ w[way].T, states, r[way], bias, own, more)
                live = np.full((batch, 1), True) if lengths is None else t < lengths[:, None]
                states = [np.where(live, a, s) for a, s in zip(made, states, strict=True)]
                outputs[t, way] = np.where(live, made[0], 0)
            for end, state in zip(ends, states, strict=True):
                end[way] = state

        def turned(a: Any) -> Any:
            return None if a is None else np.swapaxes(a, 0, 1) if layout else a

        whole = outputs.transpose(2, 0, 1, 3) if layout else outputs
        want = [np.asarray(a, np.float32) for a in (whole, *map(turned, ends))]
        operands = [turned(x), w, r, b, lengths, *map(turned, held)]
        attributes = {**named, **flags, "direction": direction, "hidden_size": size}
        attributes |= {"layout": 1} if layout else {}
        return Node([*operands, *([peep] if name == "LSTM" else [])], attributes,
                    outputs=len(want), opset=int(rng.choice([14, 22])) if layout
                    else int(rng.choice([7, 14, 22])), want=want)  # fmt: skip

    return draw


def _conv_transpose(rng: Rng) -> Node:
    """Each element adds the kernel, scaled, at its place; edges are cut off."""
    rank, group = int(rng.choice([1, 1, 2])), int(rng.choice([1, 2, 3]))
    sizes, kernel, step, apart = (
        [int(n) for n in rng.integers(least, most, rank)]
        for least, most in ((2, 5), (1, 4), (1, 4), (1, 3))
    )
    attributes: dict[str, Any] = {"group": group, **option(rng, {
        "strides": step, "dilations": apart, "kernel_shape": kernel,
    })}  # fmt: skip
    step, apart = (attributes.get(n, [1] * rank) for n in ("strides", "dilations"))
    more = [int(rng.integers(0, max(s, d))) for s, d in zip(step, apart, strict=True)]
    attributes |= {"output_padding": more} if coin(rng, 0.4) else {}
    more = attributes.get("output_padding", [0] * rank)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, apart, strict=True)]
    full = [(n - 1) * s + r for n, s, r in zip(sizes, step, reach, strict=True)]
    way = str(rng.choice(["none", "pads", "VALID", "SAME_UPPER", "SAME_LOWER", "shape"]))
    low, wanted = [0] * rank, [n + m for n, m in zip(full, more, strict=True)]
    if way == "pads":
        low, high = ([int(rng.integers(0, min(2, n))) for n in full] for _ in range(2))
        low = [a if a + b < n else 0 for a, b, n in zip(low, high, wanted, strict=True)]
        high = [b if b < n else 0 for b, n in zip(high, wanted, strict=True)]
        wanted = [n - a - b for n, a, b in zip(wanted, low, high, strict=True)]
        attributes["pads"] = [*low, *high]
    elif way != "none" and way != "VALID":
        if way == "shape":
            asked = [max(1, n - int(rng.integers(0, 3))) for n in wanted]
            attributes["output_shape"] = asked
        else:
            asked = [n * s for n, s in zip(sizes, step, strict=True)]
        totals = [n - a for n, a in zip(wanted, asked, strict=True)]
        low = [t // 2 if way == "SAME_UPPER" else t - t // 2 for t in totals]
        wanted = asked
    if way in ("VALID", "SAME_UPPER", "SAME_LOWER"):
        attributes["auto_pad"] = way
    out = int(rng.integers(1, 3))
    x, w = some(rng, 2, 2 * group, *sizes), some(rng, 2 * group, out, *kernel)
    room = np.zeros((2, group * out, *(max(n, a + m) - min(a, 0) for n, a, m in
                                       zip(full, low, wanted, strict=True))))  # fmt: skip
    first = [-min(a, 0) for a in low]
    for g, c, o in product(range(group), range(2), range(out)):
        for place in product(*map(range, sizes)):
            for tap in product(*map(range, kernel)):
                at = tuple(f + p * s + t * d for f, p, s, t, d in
                           zip(first, place, step, tap, apart, strict=True))  # fmt: skip
                spot: Any = (slice(None), g * out + o, *at)
                taken: Any = (slice(None), 2 * g + c, *place)
                room[spot] += x[taken] * w[(2 * g + c, o, *tap)]
    cut = tuple(slice(f + a, f + a + n) for f, a, n in zip(first, low, wanted, strict=True))
    made = room[(slice(None), slice(None), *cut)]
    bias = some(rng, group * out) if coin(rng) else None
    if bias is not None:
        made = made + bias.reshape(-1, *(1,) * rank)
    given = [x, w, *([] if bias is None else [bias])]
    return Node(given, attributes, fixed=(1, 2)[: len(given) - 1] if coin(rng) else (),
                opset=int(rng.choice([11, 22])), want=[made.astype(np.float32)])  # fmt: skip


def _conv_of(
    x: Array, w: Array, group: int, step: list[int], low: list[int], counts: list[int],
    apart: list[int],
) -> Array:  # fmt: skip
    """Return the plain convolution of numbers, of which there are zeros outside."""
    made = np.zeros((len(x), len(w), *counts), x.dtype)
    each = len(w) // group
    for o, place in product(range(len(w)), product(*map(range, counts))):
        for c, tap in product(range(w.shape[1]), product(*map(range, w.shape[2:]))):
            at = [p * s - a + t * d for p, s, a, t, d in
                  zip(place, step, low, tap, apart, strict=True)]  # fmt: skip
            if all(0 <= i < n for i, n in zip(at, x.shape[2:], strict=True)):
                spot: Any = (slice(None), o, *place)
                made[spot] += x[(slice(None), o // each * w.shape[1] + c, *at)] * w[(o, c, *tap)]
    return made


def _windows(rng: Rng, sizes: list[int], kernel: list[int]) -> tuple[dict[str, Any], Any]:
    """Return attributes of a window, and its steps, lower pads, counts and distances."""
    rank = len(sizes)
    chosen = option(rng, {
        "strides": [int(n) for n in rng.integers(1, 4, rank)],
        "dilations": [int(n) for n in rng.integers(1, 3, rank)], "kernel_shape": kernel,
    })  # fmt: skip
    step, apart = (chosen.get(n, [1] * rank) for n in ("strides", "dilations"))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, apart, strict=True)]
    way = str(rng.choice(["", "pads", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    low, total = [0] * rank, [0] * rank
    if way == "pads":
        low, high = ([int(n) for n in rng.integers(0, 3, rank)] for _ in range(2))
        total = [a + b for a, b in zip(low, high, strict=True)]
        chosen["pads"] = [*low, *high]
    elif way:
        chosen["auto_pad"] = way
    if way.startswith("SAME"):
        total = [max((-(-n // s) - 1) * s + r - n, 0) for n, s, r in
                 zip(sizes, step, reach, strict=True)]  # fmt: skip
        low = [t // 2 if way == "SAME_UPPER" else t - t // 2 for t in total]
    counts = [(n + t - r) // s + 1 for n, t, r, s in zip(sizes, total, reach, step, strict=True)]
    return chosen, (step, low, counts, apart)


def _integers(quantized: bool) -> Draw:
    """Return a row of a convolution of bytes, with groups and zero points."""

    def draw(rng: Rng) -> Node:
        rank, group, each = int(rng.choice([1, 2])), int(rng.choice([1, 2])), 2
        sizes = [int(n) for n in rng.integers(5, 8, rank)]
        kernel = [int(n) for n in rng.integers(1, 4, rank)]
        chosen, lie = _windows(rng, sizes, kernel)
        kinds = [np.uint8, np.int8] if quantized else [np.uint8]
        kind, weight = (kinds[int(rng.integers(len(kinds)))] for _ in range(2))
        x, w = (
            rng.integers(0, 100, shape).astype(k)
            for shape, k in (((2, each * group, *sizes), kind), ((4, each, *kernel), weight))
        )
        zero = kind(rng.integers(0, 50))
        shape = (4,) if coin(rng) and quantized else ()
        zeros = np.asarray(rng.integers(0, 50, shape), weight)
        moved = w.astype(np.int64) - zeros.reshape(-1, *(1,) * (w.ndim - 1))
        made = _conv_of(x.astype(np.int64) - int(zero), moved, group, *lie)
        chosen |= {"group": group}
        if not quantized:
            told = [x, w, np.asarray(zero), *([zeros] if coin(rng) else [])]
            if len(told) == 3:
                moved = w.astype(np.int64)
                made = _conv_of(x.astype(np.int64) - int(zero), moved, group, *lie)
            return Node(told, chosen, opset=int(rng.choice([10, 21])),
                        want=[made.astype(np.int32)])  # fmt: skip
        scale, out = np.float32(rng.uniform(0.01, 0.1)), np.float32(rng.uniform(3, 9))
        scales = np.asarray(rng.uniform(0.01, 0.1, shape), np.float32)
        last = kind(rng.integers(0, 50))
        bias = rng.integers(-999, 999, 4).astype(np.int32) if coin(rng) else None
        axes = (-1, *(1,) * rank)
        whole = made + (0 if bias is None else bias.reshape(axes))
        factor = (scale * scales.astype(float)).reshape(axes if shape else ())
        # No number is halfway between two, where the last bit decides.
        while np.abs(np.mod(whole * factor / out, 1) - 0.5).min() < 1e-4:
            out *= np.float32(1.01)
        real = whole * factor / out
        bound = np.iinfo(kind)
        want = np.clip(np.round(real) + int(last), bound.min, bound.max).astype(kind)
        given: list[Any] = [x, scale, np.asarray(zero), w, scales, zeros, out, np.asarray(last)]
        given += [] if bias is None else [bias]
        return Node(given, chosen, fixed=(1, 2, 3, 4, 5, 6, 7), opset=int(rng.choice([10, 21])),
                    want=[want])  # fmt: skip

    return draw


ROWS: Final[dict[str, Draw]] = {
    "RNN": _layer("RNN"), "GRU": _layer("GRU"), "LSTM": _layer("LSTM"),
    "ConvTranspose": _conv_transpose, "ConvInteger": _integers(False),
    "QLinearConv": _integers(True),
}  # fmt: skip
