"""Functions of calor_nn of tables, sequences and attention, and those that draw random numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...language import Array
from ..drawing import Arguments, Rng, a_length, a_shape, coin, fitting, floats
from .language import Function, Row

_SAME: Final = "nan infinite zeros equal small limits long short"
_REDUCTIONS: Final = ("mean", "sum", "none")


def _reduced(losses: Array, reduction: str) -> Any:
    of: dict[str, Function] = {"mean": np.mean, "sum": np.sum, "none": np.asarray}
    return of[reduction](losses)


def _a_reduction(rng: Rng) -> dict[str, Any]:
    return {"reduction": str(rng.choice(_REDUCTIONS))}


def _bags(rng: Rng) -> Arguments:
    """Return indices in bags of equal or other lengths, some of them empty, and a table."""
    rows, wide = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    table = floats(rng, (rows, wide))
    options: dict[str, Any] = {"mode": str(rng.choice(("sum", "mean", "max")))}
    if coin(rng):
        places = rng.integers(0, rows, (int(rng.integers(1, 4)), int(rng.integers(1, 4))))
    else:
        places = rng.integers(0, rows, int(rng.integers(1, 7)))
        starts = [0, *sorted(rng.integers(0, len(places) + 1, 2).tolist())]
        options["include_last_offset"] = coin(rng)
        if options["include_last_offset"]:
            starts.append(len(places))
        options["offsets"] = np.array(starts, np.int64)
    if options["mode"] == "sum" and coin(rng):
        options["per_sample_weights"] = floats(rng, places.shape)
    if coin(rng):
        options["padding_index"] = int(rng.integers(-rows, rows))
    return [places, table], options


def _embedding_bag(
    places: Array, table: Array, *, mode: str, offsets: Any = None, per_sample_weights: Any = None,
    include_last_offset: bool = False, padding_index: Any = None,
) -> Any:  # fmt: skip
    flat = places.reshape(-1)
    factors = np.ones(flat.size) if per_sample_weights is None else per_sample_weights.reshape(-1)
    if offsets is None:
        starts = list(range(0, flat.size + 1, places.shape[1]))
    else:
        starts = [*offsets.tolist(), *([] if include_last_offset else [flat.size])]
    skipped = None if padding_index is None else padding_index % len(table)
    made = []
    for first, last in itertools.pairwise(starts):
        own = [n for n in range(first, last) if flat[n] != skipped]
        rows = table[flat[own]] * factors[own][:, None]
        of: dict[str, Function] = {"sum": np.sum, "mean": np.mean, "max": np.max}
        made.append(of[mode](rows, axis=0) if own else np.zeros(table.shape[1]))
    return np.stack(made)


def _alignments(rng: Rng) -> Arguments:
    steps, batch, classes = int(rng.integers(2, 5)), int(rng.integers(1, 4)), 3
    logs = rng.normal(size=(steps, batch, classes))
    logs -= np.log(np.exp(logs).sum(2, keepdims=True))
    blank = int(rng.integers(classes))
    labels = [c for c in range(classes) if c != blank]
    target = rng.choice(labels, (batch, 2)).astype(np.int64)
    given = [logs.astype(np.float32), target, rng.integers(1, steps + 1, batch)]
    options = {"blank": blank, "zero_infinity": coin(rng), **_a_reduction(rng)}
    return [*given, rng.integers(0, 3, batch)], options


def _ctc_loss(
    logs: Array, target: Array, steps: Array, counts: Array, *, blank: int, reduction: str,
    zero_infinity: bool,
) -> Any:  # fmt: skip
    """Return the sum over all paths of classes that give the target without blanks and repeats."""
    losses = []
    for n in range(len(target)):
        wanted, total = target[n, : counts[n]].tolist(), 0.0
        for path in itertools.product(range(logs.shape[2]), repeat=int(steps[n])):
            if [c for c, _ in itertools.groupby(path) if c != blank] == wanted:
                total += math.exp(sum(logs[t, n, c] for t, c in enumerate(path)))
        losses.append(-math.log(total) if total else 0.0 if zero_infinity else math.inf)
    made = np.array(losses)
    if reduction == "mean":
        return np.mean(made / np.maximum(counts, 1))
    return _reduced(made, reduction)


def _alike(rng: Rng) -> Arguments:
    shape = (int(rng.integers(1, 4)), int(rng.integers(1, 5)))
    signs = rng.choice((-1, 1), shape[0]).astype(np.int64)
    options = {"margin": float(rng.choice((0.0, 0.4, -0.5))), **_a_reduction(rng)}
    return [floats(rng, shape), floats(rng, shape), signs], options


def _cosine_loss(x: Array, y: Array, t: Array, *, margin: float, reduction: str) -> Any:
    sizes = (np.sqrt((v * v).sum(1) + 1e-12) for v in (x, y))
    share = (x * y).sum(1) / math.prod(sizes)
    return _reduced(np.where(t > 0, 1 - share, np.maximum(share - margin, 0)), reduction)


def _labelled(rng: Rng) -> Arguments:
    batch, classes = int(rng.integers(1, 4)), int(rng.integers(1, 6))
    target = np.full((batch, classes), -1)
    for row in target:
        count = int(rng.integers(0, classes + 1))
        row[:count] = rng.permutation(classes)[:count]
        if count < classes - 1:
            # What follows the first −1 is not read.
            row[count + 1] = int(rng.integers(classes))
    return [floats(rng, target.shape), target], _a_reduction(rng)


def _multilabel(x: Array, target: Array, *, reduction: str) -> Any:
    losses = []
    for row, numbers in zip(x, target, strict=True):
        own = [int(n) for n in itertools.takewhile(lambda n: n >= 0, numbers)]
        others = [n for n in range(len(row)) if n not in own]
        losses.append(sum(max(0.0, 1 - row[a] + row[b]) for a in own for b in others) / len(row))
    return _reduced(np.array(losses), reduction)


def _slopes_of_channels(rng: Rng) -> Arguments:
    shape = (int(rng.integers(1, 3)), int(rng.integers(1, 4)), *a_shape(rng, 0, 2))
    return [floats(rng, shape), floats(rng, (shape[1] if coin(rng) else 1,))], {}


def _prelu(x: Array, w: Array) -> Any:
    return np.where(x > 0, x, x * w.reshape(-1, *(1,) * (x.ndim - 2)))


def _triplets(rng: Rng) -> Arguments:
    shape = (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
    options = {"margin": float(rng.choice((1.0, 0.2))), "swap": coin(rng), **_a_reduction(rng)}
    return [floats(rng, shape) for _ in range(3)], options


def _triplet(a: Array, b: Array, c: Array, *, margin: float, swap: bool, reduction: str) -> Any:
    def apart(x: Array, y: Array) -> Array:
        return np.asarray(np.abs(x - y).sum(-1))

    far = np.minimum(apart(a, c), apart(b, c)) if swap else apart(a, c)
    return _reduced(np.maximum(apart(a, b) - far + margin, 0), reduction)


def _by_distance(package: Any, *given: Any, **options: Any) -> Any:
    import calor

    def apart(x: Any, y: Any) -> Any:
        return calor.sum(calor.abs(x - y), axis=-1)

    return package.triplet_margin_with_distance_loss(*given, distance_function=apart, **options)


def _turned(rng: Rng) -> Arguments:
    wide = 2 * int(rng.integers(1, 4))
    shape = (*a_shape(rng, 0, 2), int(rng.integers(1, 5)), wide)
    options: dict[str, Any] = {"interleaved": coin(rng), "base": float(rng.choice((10.0, 1e4)))}
    if coin(rng):
        options["dim"] = 2 * int(rng.integers(1, wide // 2 + 1))
    if coin(rng):
        options["positions"] = np.asarray(rng.integers(0, 9, shape[-2]), np.int64)
    return [floats(rng, shape)], options


def _rotary(
    x: Array, *, interleaved: bool, base: float, dim: Any = None, positions: Any = None
) -> Any:
    """Return pairs of features as complex numbers that are turned."""
    dim = x.shape[-1] if dim is None else dim
    at = np.arange(x.shape[-2]) if positions is None else positions
    angles = at[:, None] * base ** (-np.arange(0, dim, 2) / dim)
    first, second = (x[..., 0:dim:2], x[..., 1:dim:2]) if interleaved else (
        x[..., : dim // 2], x[..., dim // 2 : dim])  # fmt: skip
    made = (first + 1j * second) * np.exp(1j * angles)
    out = x.copy()
    if interleaved:
        out[..., 0:dim:2], out[..., 1:dim:2] = made.real, made.imag
    else:
        out[..., : dim // 2], out[..., dim // 2 : dim] = made.real, made.imag
    return out


def _attended(rng: Rng) -> Arguments:
    lead = a_shape(rng, 1, 1)
    own, times = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    queries, keys, wide = (int(n) for n in rng.integers(1, 5, 3))
    heads: tuple[tuple[int, ...], tuple[int, ...]] = (own * times,), (own,)
    if coin(rng):
        heads = (), ()
    q = floats(rng, (*lead, *heads[0], queries, wide))
    k = floats(rng, (*lead, *heads[1], keys, wide))
    v = floats(rng, (*lead, *heads[1], keys, int(rng.integers(1, 4))))
    scores = (*lead, *heads[0], queries, keys)
    options: dict[str, Any] = {"causal": coin(rng)}
    if coin(rng):
        options["mask"] = rng.random(fitting(rng, scores)) < 0.7
    if coin(rng):
        options["bias"] = floats(rng, fitting(rng, scores))
    if coin(rng):
        options["scale"] = float(rng.choice((1.0, 0.3)))
    return [q, k, v], options


def _weights(
    q: Array, k: Array, *, causal: bool, mask: Any = None, bias: Any = None, scale: Any = None
) -> Any:
    k = np.repeat(k, q.shape[-3] // k.shape[-3], -3) if q.shape[:-2] != k.shape[:-2] else k
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if bias is None else scores + bias
    seen = np.ones(scores.shape, bool) if mask is None else np.broadcast_to(mask, scores.shape)
    if causal:
        seen = seen & (np.arange(scores.shape[-1]) <= np.arange(scores.shape[-2])[:, None])
    top = np.where(seen, scores, -1e300).max(-1, keepdims=True)
    made = np.where(seen, np.exp(np.where(seen, scores - top, 0)), 0)
    return made / np.where(seen.any(-1, keepdims=True), made.sum(-1, keepdims=True), 1)


def _attention(q: Array, k: Array, v: Array, **options: Any) -> Any:
    v = np.repeat(v, q.shape[-3] // v.shape[-3], -3) if q.shape[:-2] != v.shape[:-2] else v
    return _weights(q, k, **options) @ v


def _only_weights(rng: Rng) -> Arguments:
    given, options = _attended(rng)
    return given[:2], options


def _bilinear_given(rng: Rng) -> Arguments:
    lead, (n, m, rows) = a_shape(rng, 0, 2), (int(k) for k in rng.integers(1, 4, 3))
    given = [floats(rng, (*lead, n)), floats(rng, (*lead, m)), floats(rng, (rows, n, m))]
    return [*given, *([floats(rng, (rows,))] if coin(rng) else [])], {}


def _bilinear(x: Array, y: Array, w: Array, b: Any = 0.0) -> Any:
    return np.einsum("...i,kij,...j->...k", x, w, y) + b


_MANY: Final = 4000
# The lower end of SELU.
_END: Final = -1.7580993408473766


def _dropping(rng: Rng) -> Arguments:
    """Return many samples of a few channels, and a share to drop."""
    x = rng.uniform(0.5, 1.5, (_MANY, 2, 2)).astype(np.float32)
    return [x], {"p": float(rng.choice((0.0, 0.2, 0.5, 0.8))), "training": rng.random() < 0.8}


def _drawn(name: str, whole: bool) -> Function:
    """Return what says of a random result: the share that is dropped, the rest, whole channels."""

    def call(package: Any, x: Any, *, p: float, training: bool) -> Any:
        import calor

        key = calor.random.key(int(1000 * p) + training)
        run = getattr(package, name)
        made = run(x, p, training=training, key=key).numpy()
        again = run(x, p, training=training, key=key).numpy()
        other = run(x, p, training=training, key=calor.random.key(77)).numpy()
        low = _lowest(name, p)
        lost = np.isclose(made, low, rtol=1e-5, atol=1e-6)
        share = lost.mean((0, 2))
        along = (lost[..., 0] == lost[..., 1]).mean()
        kept = np.where(lost, 0, made)
        wanted = np.where(lost, 0, _kept(name, x.numpy(), p) if training else x.numpy())
        same = np.array([(made == again).all(), (made == other).all()])
        off = 1000 * np.abs(kept - wanted).max()
        return list(map(calor.asarray, (share, along, off, same)))

    def lowest_share(x: Array, *, p: float, training: bool) -> Any:
        lost = p if training else 0.0
        alone = 1.0 if whole else lost**2 + (1 - lost) ** 2
        return np.full(2, lost), np.asarray(alone), np.asarray(0.0), np.array([True, lost == 0])

    call.meaning = lowest_share  # type: ignore[attr-defined]
    return call


def _scale(p: float) -> float:
    return float(((1 - p) * (1 + p * _END**2)) ** -0.5)


def _lowest(name: str, p: float) -> float:
    return _scale(p) * _END * (1 - p) if "alpha" in name else 0.0


def _kept(name: str, x: Array, p: float) -> Array:
    if "alpha" in name:
        return np.asarray(_scale(p) * (x - p * _END))
    return np.asarray(x / (1 - p))


def _random(name: str, *, whole: bool = False) -> Row:
    call: Any = _drawn(name, whole)
    return Row(name, _dropping, call.meaning, call=call, without=_SAME + " ties large", near=0.05)


def _leaking(rng: Rng) -> Arguments:
    low, high = sorted(float(v) for v in rng.choice((0.1, 0.25, 0.4, 0.9), 2))
    return [rng.normal(size=_MANY).astype(np.float32), low, high], {"training": coin(rng)}


def _of_leaks(package: Any, x: Any, low: float, high: float, *, training: bool) -> Any:
    import calor

    made = package.rrelu(x, low, high, training=training, key=calor.random.key(3))
    slopes = (made / x).numpy()
    below = slopes[x.numpy() < 0]
    ends = np.array([below.min(), below.mean(), below.max()], np.float32)
    return calor.asarray(ends), calor.where(x < 0, 0.0, (made / x - 1) * 1000)


def _leaks(x: Array, low: float, high: float, *, training: bool) -> Any:
    middle = (low + high) / 2
    return np.array([low, middle, high] if training else [middle] * 3), np.zeros(x.shape)


def _choosing(rng: Rng) -> Arguments:
    logits = np.broadcast_to(rng.normal(size=4).astype(np.float32), (_MANY, 4))
    return [np.array(logits)], {"tau": float(rng.choice((0.5, 2.0))), "hard": coin(rng),
                                "axis": int(rng.choice((0, 1, -1)))}  # fmt: skip


def _of_choices(package: Any, x: Any, *, tau: float, hard: bool, axis: int) -> Any:
    import calor

    x = calor.permute_dims(x, (1, 0)) if axis == 0 else x
    made = package.gumbel_softmax(x, tau, hard, axis=axis, key=calor.random.key(5))
    best = calor.argmax(made, axis=axis).numpy()
    # What softmax did is undone: differences of noise have the spread of a logistic number.
    spread = np.zeros(1) if hard else _spread(made.numpy(), x.numpy(), axis, tau)
    return (
        calor.asarray(np.bincount(best, minlength=4) / _MANY),
        calor.sum(made, axis=axis),
        calor.asarray(spread),
    )


def _spread(made: Array, x: Array, axis: int, tau: float) -> Array:
    logs = np.log(np.maximum(made, 1e-30)).astype(np.float64) * tau - x
    first, second = (np.take(logs, n, axis=axis) for n in (0, 1))
    return np.array([np.mean(np.abs(first - second) > 2)])


def _choices(x: Array, *, tau: float, hard: bool, axis: int) -> Any:
    share = np.exp(x[0]) / np.exp(x[0]).sum()
    tail = 0.0 if hard else 2 / (1 + math.exp(2.0))
    return share, np.ones(_MANY), np.array([tail])


def _of(draw: Callable[[Rng], Arguments], **more: Any) -> dict[str, Any]:
    return {"draw": draw, "without": _SAME, "moves": True, "smooth": True, **more}


ROWS: Final[list[Row]] = [
    Row("embedding_bag", meaning=_embedding_bag, **_of(_bags, least=14)),
    Row("ctc_loss", meaning=_ctc_loss, **_of(_alignments, near=1e-4)),
    Row("cosine_embedding_loss", meaning=_cosine_loss, **_of(_alike)),
    Row("multilabel_margin_loss", meaning=_multilabel, **_of(_labelled)),
    Row("prelu", meaning=_prelu, **_of(_slopes_of_channels)),
    Row("triplet_margin_with_distance_loss", meaning=_triplet, call=_by_distance, **_of(_triplets)),
    Row("rotary_embedding", meaning=_rotary, **_of(_turned)),
    Row("scaled_dot_product_attention", meaning=_attention, **_of(_attended, least=9)),
    Row("attention_weights", meaning=_weights, **_of(_only_weights)),
    Row("bilinear", meaning=_bilinear, **_of(_bilinear_given)),
    Row("gelu", lambda rng: ([floats(rng, (a_length(rng),))], {"approximate": str(
        rng.choice(("none", "tanh")))}), lambda x, approximate: 0.5 * x * (1 + np.vectorize(
            math.erf, otypes=[float])(x / math.sqrt(2))) if approximate == "none" else 0.5 * x * (
            1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), without=_SAME,
        smooth=True),
    _random("dropout"), _random("channel_dropout", whole=True), _random("alpha_dropout"),
    _random("feature_alpha_dropout", whole=True),
    Row("rrelu", _leaking, _leaks, call=_of_leaks, without=f"{_SAME} ties large", near=0.05),
    Row("gumbel_softmax", _choosing, _choices, call=_of_choices,
        without=f"{_SAME} ties large", near=0.05),
]  # fmt: skip
