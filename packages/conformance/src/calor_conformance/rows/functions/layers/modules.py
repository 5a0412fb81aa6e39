"""Modules of calor_nn: built of drawn options, holding drawn weights, beside their functions.

A module is a row of its function, called in another way: what the function is given after its
operands goes to the constructor, and weights go through a state dict. Options that are the
constructor's own are left out, so defaults are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ..drawing import Arguments, Rng, a_shape, coin, different, floats
from . import images, neural, sequences, windows
from .language import Function, Row

# Kept low, as the functions are asked for all of it.
_SAME: Final = "nan infinite zeros ties equal large small limits long short"
_ASKED, _LEAST = _SAME, 3
# The values that options have where none is given, as PyTorch has them.
_OWN: Final[dict[str, Any]] = {
    "alpha": 1.0, "axis": -1, "ceil_mode": False, "count_include_pad": True, "dilation": 1,
    "divisor_override": None, "negative_slope": 0.01, "padding": 0, "output_padding": 0,
    "groups": 1, "reduction": "mean", "ignore_index": -100, "label_smoothing": 0.0, "delta": 1.0,
    "beta": 1.0,
    "full": False, "log_input": True, "log_target": False, "swap": False, "p": 2.0, "eps": 1e-5,
    "return_indices": False, "mode": "nearest", "align_corners": False, "keepdims": False,
    "approximate": "none", "threshold": 0.5,
}  # fmt: skip
# Of these the values differ.
_OTHERS: Final[dict[str, dict[str, Any]]] = {
    "HingeEmbeddingLoss": {"margin": 1.0}, "MarginRankingLoss": {"margin": 0.0},
    "CosineEmbeddingLoss": {"margin": 0.0}, "MultiMarginLoss": {"margin": 1.0, "p": 1},
    "TripletMarginLoss": {"margin": 1.0}, "TripletMarginWithDistanceLoss": {"margin": 1.0},
    "CosineSimilarity": {"axis": 1}, "LocalResponseNorm": {"alpha": 1e-4, "beta": 0.75, "k": 1.0},
    "Conv1d": {"stride": 1}, "Conv2d": {"stride": 1}, "Conv3d": {"stride": 1},
    "EmbeddingBag": {"mode": "mean"}, "RMSNorm": {"eps": None},
}  # fmt: skip


def _left(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options without those that say what holds without them."""
    own = {**_OWN, **_OTHERS.get(name, {})}
    return {k: v for k, v in options.items() if k not in own or not _equal(v, own[k])}


def _equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)


def _plain(name: str, operands: int = 1, *positional: str, **renamed: str) -> Function:
    """Return what builds a module of all but its operands, and calls it."""

    def call(package: Any, *given: Any, **options: Any) -> Any:
        rest = given[operands:]
        options = _left(name, {**dict(zip(positional, rest, strict=False)), **options})
        options = {renamed.get(k, k): v for k, v in options.items()}
        layer = getattr(package, name)(*rest[len(positional) :], **options)
        return layer(*given[:operands])

    return call


def _row(name: str, function: Row, call: Function, **more: Any) -> Row:
    # What the function does is asked of it; here, that it is called with what the module got.
    more = {"smooth": False, "without": _ASKED, "least": _LEAST, **more}
    return replace(function, name=name, call=call, **more)


def _named(rows: list[Row]) -> dict[str, Row]:
    return {row.label: row for row in rows}


def _bordered(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    wide = [tuple(pair) for pair in rng.integers(0, 3, (len(shape), 2)).tolist()]
    return [floats(rng, shape), wide], {"value": float(rng.integers(-3, 4))}


_FUNCTIONS: Final = {
    **_named(neural.ROWS), **_named(windows.ROWS), **_named(images.ROWS), **_named(sequences.ROWS),
    "pairs": Row("pad", _bordered, lambda x, wide, value: np.pad(x, wide, constant_values=value),
        smooth=True),
}  # fmt: skip
# The function of each module that has no weights, how many operands it has, the names of what
# follows these, and the names of options that the module calls otherwise.
_PLAIN: Final[dict[str, tuple[str, int, tuple[str, ...], dict[str, str]]]] = {
    **{name: (of, 1, (), {}) for name, of in (
        ("ReLU", "relu"), ("ReLU6", "relu6"), ("Sigmoid", "sigmoid"), ("SiLU", "silu"),
        ("Tanh", "tanh"), ("SELU", "selu"), ("Softsign", "softsign"), ("Mish", "mish"),
        ("Tanhshrink", "tanh_shrink"), ("LogSigmoid", "log_sigmoid"),
        ("Hardsigmoid", "hard_sigmoid"), ("Hardswish", "hard_swish"), ("ELU", "elu"),
        ("CELU", "celu"), ("LeakyReLU", "leaky_relu"), ("Threshold", "threshold"),
        ("Softplus", "softplus"), ("Softmax", "softmax"), ("Softmin", "softmin"),
        ("LogSoftmax", "log_softmax"), ("GLU", "glu"), ("GELU", "gelu"),
        ("LocalResponseNorm", "local_response_norm"), ("ChannelShuffle", "channel_shuffle"),
        ("PixelShuffle", "pixel_shuffle"), ("PixelUnshuffle", "pixel_unshuffle"),
        ("Unfold", "im2col"), ("Fold", "col2im"), ("Pad", "pairs"))},
    "Hardtanh": ("hard_tanh", 1, (), {"min_value": "min_val", "max_value": "max_val"}),
    "Hardshrink": ("hard_shrink", 1, (), {"threshold": "lambd"}),
    "Softshrink": ("soft_shrink", 1, (), {"threshold": "lambd"}),
    **{name: (of, 2, (), {}) for name, of in (
        ("MSELoss", "mse_loss"), ("L1Loss", "l1_loss"), ("HuberLoss", "huber_loss"),
        ("SmoothL1Loss", "smooth_l1_loss"), ("SoftMarginLoss", "soft_margin_loss"),
        ("HingeEmbeddingLoss", "hinge_embedding_loss"), ("PoissonNLLLoss", "poisson_nll_loss"),
        ("MultiMarginLoss", "multi_margin_loss"), ("KLDivLoss", "kl_div"),
        ("MultiLabelSoftMarginLoss", "multilabel_soft_margin_loss"),
        ("MultiLabelMarginLoss", "multilabel_margin_loss"),
        ("PairwiseDistance", "pairwise_distance"), ("CosineSimilarity", "cosine_similarity"))},
    **{name: (of, 2, ("weight",), {}) for name, of in (
        ("BCELoss", "binary_cross_entropy"), ("NLLLoss", "nll_loss"),
        ("BCEWithLogitsLoss", "binary_cross_entropy_with_logits"),
        ("CrossEntropyLoss", "cross_entropy"))},
    **{name: (of, 3, (), {}) for name, of in (
        ("MarginRankingLoss", "margin_ranking_loss"), ("GaussianNLLLoss", "gaussian_nll_loss"),
        ("CosineEmbeddingLoss", "cosine_embedding_loss"),
        ("TripletMarginLoss", "triplet_margin_loss"))},
    "CTCLoss": ("ctc_loss", 4, (), {}),
    **{f"{kind}{rank}d": (f"{of}{rank}d-{way}", 1, (), {}) for rank in (1, 2, 3)
       for kind, of, way in (
           ("MaxPool", "max_pool", "of windows"), ("AvgPool", "avg_pool", "of windows"),
           ("AdaptiveAvgPool", "adaptive_avg_pool", "of windows"))},
    **{f"LPPool{rank}d": (f"lp_pool{rank}d", 1, (), {}) for rank in (1, 2, 3)},
}  # fmt: skip


def _largest(rank: int) -> Row:
    """Return a row of the larges in adaptive windows, whose module has no places."""
    row = _FUNCTIONS[f"adaptive_max_pool{rank}d-and places"]
    meaning = row.meaning
    call = _plain(f"AdaptiveMaxPool{rank}d")
    return replace(
        row, name=f"AdaptiveMaxPool{rank}d", about="", call=call, without=_SAME,
        meaning=lambda *given, **more: meaning(*given, **more)[0],
    )  # fmt: skip


def held(layer: Any, weights: dict[str, Any]) -> Any:
    """Return a module that holds other weights, which come as a state dict."""
    import calor

    there = layer.state_dict()
    assert set(there) == set(weights), f"it holds {sorted(there)}, not {sorted(weights)}"
    made = {
        name: calor.asarray(t) if isinstance(t, np.ndarray) else t for name, t in weights.items()
    }
    layer.load_state_dict(made)
    return layer


def _weights(given: tuple[Any, ...], names: tuple[str, ...] = ("weight", "bias")) -> dict[str, Any]:
    return dict(zip(names, given, strict=False))


def _conv(rank: int, back: bool) -> Row:
    name = f"ConvTranspose{rank}d" if back else f"Conv{rank}d"
    function = f"conv_transpose{rank}d" if back else f"conv{rank}d"

    def call(package: Any, x: Any, *weights: Any, **options: Any) -> Any:
        w, groups = weights[0], options.get("groups", 1)
        channels = (w.shape[0], w.shape[1] * groups) if back else (w.shape[1] * groups, w.shape[0])
        sides = list(w.shape[2:])
        kernel = sides[0] if len(set(sides)) == 1 else sides
        more = _left(name, options)
        layer = getattr(package, name)(*channels, kernel, bias=len(weights) > 1, **more)
        return held(layer, _weights(weights))(x)

    return _row(name, _FUNCTIONS[function], call)


def _linear(package: Any, x: Any, *weights: Any) -> Any:
    rows, columns = weights[0].shape
    return held(package.Linear(columns, rows, len(weights) > 1), _weights(weights))(x)


def _bilinear(package: Any, x: Any, y: Any, *weights: Any) -> Any:
    rows, n, m = weights[0].shape
    return held(package.Bilinear(n, m, rows, len(weights) > 1), _weights(weights))(x, y)


def _prelu(package: Any, x: Any, w: Any) -> Any:
    count = () if w.shape == (1,) else (w.shape[0],)
    return held(package.PReLU(*count), {"weight": w})(x)


def _embedding(package: Any, places: Any, table: Any) -> Any:
    return held(package.Embedding(*table.shape), {"weight": table})(places)


def _bag(package: Any, places: Any, table: Any, **options: Any) -> Any:
    given = {k: options.pop(k) for k in ("offsets", "per_sample_weights") if k in options}
    if "padding_index" in options:
        options["padding_idx"] = options.pop("padding_index")
    layer = package.EmbeddingBag(*table.shape, **_left("EmbeddingBag", options))
    return held(layer, {"weight": table})(places, **given)


def _layer_norm(package: Any, x: Any, inner: Any, *weights: Any) -> Any:
    inner = inner[0] if len(inner) == 1 else inner
    layer = package.LayerNorm(inner, elementwise_affine=bool(weights), bias=len(weights) > 1)
    return held(layer, _weights(weights))(x)


def _root_norm(package: Any, x: Any, inner: Any, *weights: Any, eps: float) -> Any:
    layer = package.RMSNorm(inner, eps, bool(weights))
    return held(layer, _weights(weights))(x)


def _group_norm(package: Any, x: Any, groups: int, *weights: Any) -> Any:
    layer = package.GroupNorm(groups, x.shape[1], affine=bool(weights))
    return held(layer, _weights(weights))(x)


def _by_rank(package: Any, kind: str, x: Any) -> Any:
    return getattr(package, f"{kind}{x.ndim - 2}d")


def _instance_norm(package: Any, x: Any, *weights: Any) -> Any:
    made = _by_rank(package, "InstanceNorm", x)
    return held(made(x.shape[1], affine=bool(weights)), _weights(weights))(x)


def _momenta(rank: int) -> Callable[[Rng], Arguments]:
    """Return what draws two batches and the options of a norm that keeps running statistics."""

    def drawn(rng: Rng) -> Arguments:
        shape = (*rng.integers(2, 4, 1).tolist(), *rng.integers(1, 4, rank).tolist(), 2)
        options: dict[str, Any] = {
            "momentum": [0.1, 0.3, None][int(rng.integers(3))], "affine": coin(rng),
            "training": coin(rng),
        }  # fmt: skip
        return [floats(rng, shape), floats(rng, shape)], options

    return drawn


def _tracked(kind: str) -> Function:
    """Return what trains on one batch, then trains on another or uses what was kept."""

    def call(package: Any, x: Any, y: Any, *, momentum: Any, affine: bool, training: bool) -> Any:
        options: dict[str, Any] = {} if momentum == 0.1 else {"momentum": momentum}
        if kind == "Instance":
            options |= {"track_running_stats": True, "affine": affine}
        elif not affine:
            options["affine"] = False
        layer = _by_rank(package, f"{kind}Norm", x)(x.shape[1], **options)
        if affine:
            weight, bias = layer.weight.detach(), layer.bias.detach()
            layer.weight = package.Parameter(weight * 1.5)
            layer.bias = package.Parameter(bias + 0.5)
        layer(x)
        made = layer.train(training)(y)
        return made, layer.running_mean, layer.running_var, layer.num_batches_tracked

    return call


def _tracking(kind: str) -> Function:
    return lambda *given, **options: _kept(*given, per_sample=kind == "Instance", **options)


def _kept(x: Any, y: Any, *, momentum: Any, affine: bool, training: bool, per_sample: bool) -> Any:
    axes = tuple(range(2, x.ndim)) if per_sample else (0, *range(2, x.ndim))
    wide = (1, -1, *(1,) * (x.ndim - 2))
    mean, var, steps = np.zeros(x.shape[1]), np.ones(x.shape[1]), 0

    def keep(batch: Any) -> None:
        nonlocal mean, var, steps
        steps += 1
        share = 1 / steps if momentum is None else momentum
        first, second = batch.mean(axes), batch.var(axes, ddof=1)
        if per_sample:
            first, second = first.mean(0), second.mean(0)
        mean, var = (1 - share) * mean + share * first, (1 - share) * var + share * second

    keep(x)
    if training:
        keep(y)
        off = y - y.mean(axes, keepdims=True)
        made = off / np.sqrt(y.var(axes, keepdims=True) + 1e-5)
    else:
        made = (y - mean.reshape(wide)) / np.sqrt(var.reshape(wide) + 1e-5)
    made = made * 1.5 + 0.5 if affine else made
    return made, mean, var, np.asarray(steps)


def _flattened(rng: Rng) -> Arguments:
    shape = tuple(int(n) for n in rng.integers(1, 4, 4))
    first = int(rng.integers(0, 4))
    last = int(rng.integers(first, 4))
    options = {"start_axis": first, "end_axis": last - 4 if coin(rng) else last}
    return [floats(rng, shape)], options if coin(rng) else {}


def _flatten(x: Any, start_axis: int = 1, end_axis: int = -1) -> Any:
    last = end_axis % x.ndim
    return x.reshape(*x.shape[:start_axis], -1, *x.shape[last + 1 :])


def _unflattened(rng: Rng) -> Arguments:
    sizes = rng.integers(1, 4, int(rng.integers(1, 4))).tolist()
    shape = [int(n) for n in rng.integers(1, 4, 3)]
    axis = int(rng.integers(-3, 3))
    shape[axis] = math.prod(sizes)
    if coin(rng):
        sizes[int(rng.integers(len(sizes)))] = -1
    return [floats(rng, tuple(shape)), axis, sizes], {}


def _unflatten(x: Any, axis: int, sizes: list[int]) -> Any:
    axis %= x.ndim
    return x.reshape(*x.shape[:axis], *sizes, *x.shape[axis + 1 :])


def _upsampled(rng: Rng) -> Arguments:
    rank = int(rng.integers(1, 4))
    mode = str(rng.choice([m for m in images.MODES[rank] if m != "area"]))
    given, options = images.resized(rng, mode=mode, rank=rank)
    return given, {**options, "antialias": False}


def _upsample(package: Any, x: Any, **options: Any) -> Any:
    del options["antialias"]
    return _plain("Upsample")(package, x, **options)


def _unpooled(rank: int) -> Row:
    """Return a row of what puts the largest of windows back to their places."""

    def draw(rng: Rng) -> Arguments:
        size, shape = int(rng.integers(2, 4)), rng.integers(4, 8, rank).tolist()
        return [different(rng, (2, 2, *shape)), size], {}

    def call(package: Any, x: Any, size: int) -> Any:
        made, places = getattr(package, f"MaxPool{rank}d")(size, return_indices=True)(x)
        unpool = getattr(package, f"MaxUnpool{rank}d")(size)
        return unpool(made, places, output_size=list(x.shape[2:])), unpool(made, places)

    def meaning(x: Any, size: int) -> Any:
        kept = np.zeros_like(x)
        whole = tuple(n // size * size for n in x.shape[2:])
        for at in np.ndindex(*(n // size for n in x.shape[2:])):
            cut = tuple(slice(k * size, (k + 1) * size) for k in at)
            part = x[(slice(None), slice(None), *cut)]
            top = part.max(tuple(range(2, x.ndim)), keepdims=True)
            kept[(slice(None), slice(None), *cut)] = np.where(part == top, part, 0)
        small = np.zeros((*x.shape[:2], math.prod(whole)))
        flat = kept.reshape(*x.shape[:2], -1)
        # Places are those of the smaller shape that the windows cover.
        for n, c in np.ndindex(*x.shape[:2]):
            there = np.flatnonzero(flat[n, c])
            inside = there[there < small.shape[2]]
            small[n, c, inside] = flat[n, c, inside]
        return kept, small.reshape(*x.shape[:2], *whole)

    def exact(rng: Rng) -> Arguments:
        given, _ = draw(rng)
        x, size = given
        cut = tuple(slice(0, n // size * size) for n in x.shape[2:])
        return [np.ascontiguousarray(x[(slice(None), slice(None), *cut)]), size], {}

    return Row(f"MaxUnpool{rank}d", exact, meaning, call=call, without=_SAME)


def _fractions(rank: int) -> Row:
    """Return a row of windows at random steps: each result is the largest of some of them."""

    def draw(rng: Rng) -> Arguments:
        shape = rng.integers(5, 8, rank).tolist()
        return [different(rng, (2, 2, *shape)), 2], {"output_size": 3}

    def call(package: Any, x: Any, size: int, **options: Any) -> Any:
        import calor

        calor.random.seed(5)
        layer = getattr(package, f"FractionalMaxPool{rank}d")
        made, places = layer(size, return_indices=True, **options)(x)
        ratio = layer(size, output_ratio=[0.5] * rank)(x)
        flat = calor.reshape(x, (*x.shape[:2], -1))
        own = calor.take_along_axis(flat, calor.reshape(places, (*x.shape[:2], -1)), axis=2)
        ends = made[(..., *(-1,) * rank)] - calor.max(
            x[(..., *(slice(-size, None),) * rank)], axis=tuple(range(2, 2 + rank))
        )
        lost = calor.reshape(own, made.shape) - made
        return lost, ends, calor.zeros(ratio.shape)

    def meaning(x: Any, size: int, *, output_size: int) -> Any:
        half = tuple(n // 2 for n in x.shape[2:])
        made = np.zeros((*x.shape[:2], *(output_size,) * rank))
        return made, np.zeros(x.shape[:2]), np.zeros((*x.shape[:2], *half))

    return Row(f"FractionalMaxPool{rank}d", draw, meaning, call=call, without=_SAME)


def _dropped(name: str, function: str) -> Row:
    """Return a row of a module that drops in training alone, and by its share."""
    row = _FUNCTIONS[function]
    inner: Any = row.call

    class _As:
        """The module as its function."""

        def __init__(self, package: Any) -> None:
            self.package = package

        def __getattr__(self, _: str) -> Any:
            def run(x: Any, p: float, *, training: bool, key: Any) -> Any:
                import calor

                rank = name[-2] if name.endswith("d") and name[-2].isdigit() else ""
                x = calor.squeeze(x, axis=()) if not rank or rank == "1" else x[
                    (..., *(None,) * (int(rank) - 1))]  # fmt: skip
                layer = getattr(self.package, name)(*([] if p == 0.5 else [p])).train(training)
                calor.random.seed(int(key.numpy().astype(np.int64).sum() % 100003))
                made = layer(x)
                return calor.reshape(made, made.shape[:3])

            return run

    def call(package: Any, x: Any, **options: Any) -> Any:
        return inner(_As(package), x, **options)

    return replace(row, name=name, call=call)


ROWS: Final[list[Row]] = [
    *(_row(name, _FUNCTIONS[of], _plain(name, count, *rest, **others))
      for name, (of, count, rest, others) in _PLAIN.items()),
    *(_largest(rank) for rank in (1, 2, 3)),
    *(_conv(rank, back) for rank in (1, 2, 3) for back in (False, True)),
    *(_row(name, _FUNCTIONS[of], call) for name, of, call in (
        ("Linear", "linear", _linear), ("Bilinear", "bilinear", _bilinear),
        ("PReLU", "prelu", _prelu), ("Embedding", "embedding", _embedding),
        ("EmbeddingBag", "embedding_bag", _bag), ("LayerNorm", "layer_norm", _layer_norm),
        ("RMSNorm", "rms_norm", _root_norm), ("GroupNorm", "group_norm", _group_norm),
        ("InstanceNorm2d", "instance_norm", _instance_norm))),
    *(Row(f"{kind}Norm{rank}d", _momenta(rank), _tracking(kind), call=_tracked(kind), about=about,
          without=_SAME, moves=True, near=1e-4, least=4)
      for kind, about in (("Batch", ""), ("Instance", "tracking")) for rank in (1, 2, 3)),
    Row("Flatten", _flattened, _flatten, without=_SAME,
        call=lambda p, x, **more: p.Flatten(**more)(x)),
    Row("Unflatten", _unflattened, _unflatten, without=_SAME,
        call=lambda p, x, *rest: p.Unflatten(*rest)(x)),
    Row("Upsample", _upsampled, images.interpolated, call=_upsample, without=_SAME, moves=True),
    Row("TripletMarginWithDistanceLoss", sequences._triplets, sequences._triplet, without=_SAME,
        call=lambda p, *given, **more: p.TripletMarginWithDistanceLoss(
            lambda x, y: abs(x - y).sum(axis=-1), **_left("TripletMarginWithDistanceLoss", more))(
            *given), moves=True),
    *(_unpooled(rank) for rank in (1, 2, 3)), *(_fractions(rank) for rank in (2, 3)),
    *(_dropped(name, of) for name, of in (
        ("Dropout", "dropout"), ("Dropout1d", "channel_dropout"),
        ("Dropout2d", "channel_dropout"), ("Dropout3d", "channel_dropout"),
        ("AlphaDropout", "alpha_dropout"), ("FeatureAlphaDropout", "feature_alpha_dropout"))),
    Row("RReLU", sequences._leaking, sequences._leaks, without=_SAME, near=0.05,
        call=lambda p, x, low, high, training: sequences._of_leaks(
            _Leaky(p), x, low, high, training=training)),
    Row("Identity", lambda rng: ([floats(rng, (2, 3))], {}), lambda x: x, without=_SAME,
        call=lambda p, x: p.Identity()(x)),
]  # fmt: skip


class _Leaky:
    """The module of random slopes as its function."""

    def __init__(self, package: Any) -> None:
        self.package = package

    def rrelu(self, x: Any, low: float, high: float, *, training: bool, key: Any) -> Any:
        return self.package.RReLU(low, high).train(training)(x)
