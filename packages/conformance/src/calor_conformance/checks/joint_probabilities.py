"""Distributions of vectors and of categories, those made of others, and the maps between them.

Requirements: what they mean is computed in float64 from the densities of rows, from matrices, or by
naming every outcome, and nothing of the package is used for it.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bool_, float32, int64, uint32

from ..rows.functions.comparing import compare, quiet
from ..rows.functions.drawing import Rng, a_shape, coin, source
from ..rows.probability import DENSITIES
from ..rows.probability.continuous import power
from ..rows.probability.language import Density, lgamma, xlogy
from .base import Array, Check, Place
from .probabilities import PACKAGE

CONTRACT: Final = "a distribution of vectors, or one made of others, is that of its density"
_MANY: Final = 2000
_NEAR: Final = 1e-4
_TURNS: Final = 3
_SLOW: Final = ("Dirichlet",)
# How far a mean of samples may be from its own, in standard deviations.
_DEVIATIONS: Final = 7.0
_ROWS: Final = {row.name: row for row in DENSITIES}
Run = Callable[[Any, Rng], None]


def _put(*arrays: Array) -> list[Any]:
    return [calor.asarray(np.asarray(a, np.float32)) for a in arrays]


def _key(rng: Rng) -> Any:
    return calor.random.key(int(rng.integers(1 << 62)))


def _shapes(made: Any, batch: tuple[int, ...], event: tuple[int, ...], what: str) -> None:
    assert (made.batch_shape, made.event_shape) == (batch, event), (
        f"{what}: batch {made.batch_shape}, event {made.event_shape}"
    )


def _seen(made: Any, rng: Rng, mean: Array, spread: Array, what: str) -> Array:
    """Return samples whose means are those that they should be."""
    for lead in ((), (2,), (3, 2)):
        shape = made.sample(lead, key=_key(rng)).shape
        assert shape == (*lead, *mean.shape), f"sample {lead} of {what}: shape {shape}"
    drawn: Array = made.sample(_MANY, key=_key(rng)).numpy().astype(np.float64)
    off = np.abs(drawn.mean(0) - mean)
    bound = _DEVIATIONS * np.sqrt(spread / _MANY) + 1e-5 * (1 + np.abs(mean))
    assert (off <= bound).all(), f"samples of {what}: mean {drawn.mean(0)}, not {mean}"
    return drawn


def _told(made: Any, what: str, **wants: Array) -> None:
    for name, want in wants.items():
        found = getattr(made, name)
        found = found() if callable(found) else found
        compare(found.numpy(), np.asarray(want, np.float64), f"{name} of {what}", _NEAR)


def _between(drawn: Array, want: Array, what: str) -> None:
    """Raise AssertionError unless the covariance of samples is that of a matrix."""
    batch = drawn.shape[1:-1]
    for at in np.ndindex(*batch):
        x = drawn[(slice(None), *at)]
        moved = x - x.mean(0)
        products = moved[:, :, None] * moved[:, None, :]
        near = _DEVIATIONS * products.std(0) / math.sqrt(_MANY) + 1e-5
        off = np.abs(products.mean(0) - want[at])
        assert (off <= near).all(), (
            f"samples of {what}: covariance {products.mean(0)}, not {want[at]}"
        )


def _weights(rng: Rng, batch: tuple[int, ...], count: int) -> Array:
    made = rng.random((*batch, count)) + 0.02
    if count > 2 and coin(rng):
        made[..., int(rng.integers(count))] = 0.0
    return np.asarray(made * power(rng, 0.1, 10), np.float32)


def _categories(package: Any, rng: Rng, name: str) -> None:
    batch, count = a_shape(rng, 0, 2), int(rng.integers(2, 7))
    weights, others = (_weights(rng, batch, count) for _ in range(2))
    others = np.where(others == 0, np.float32(0.3), others)
    by = "logits" if coin(rng) else "probs"
    with quiet():
        given = np.log(weights) if by == "logits" else weights
    share = weights.astype(np.float64) / weights.astype(np.float64).sum(-1, keepdims=True)
    total = int(rng.integers(1, 5))
    first = (total,) if name == "Multinomial" else ()
    made = getattr(package, name)(*first, **{by: _put(given)[0]})
    what = f"{name}({by}={given.tolist()})"
    with quiet():
        log = np.log(share)
        entropy = -xlogy(share, share).sum(-1)
    compare(made.probs.numpy(), share, f"probs of {what}")
    compare(made.logits.numpy(), log, f"logits of {what}", _NEAR)
    eye = np.eye(count)
    if name == "Multinomial":
        _shapes(made, batch, (count,), what)
        ways = itertools.combinations_with_replacement(range(count), total)
        every = [np.sum([eye[k] for k in ks], 0) for ks in ways]
        x = np.stack(every).reshape(len(every), *(1 for _ in batch), count)
        with quiet():
            want = math.lgamma(total + 1) - lgamma(x + 1).sum(-1) + np.where(
                x == 0, 0.0, x * log).sum(-1)  # fmt: skip
        wide = np.broadcast_to(x, (len(every), *batch, count))
        compare(made.log_prob(*_put(wide)).numpy(), want, f"log_prob of {what}", _NEAR)
        _told(made, what, mean=total * share, variance=total * share * (1 - share))
        drawn = _seen(made, rng, total * share, total * share * (1 - share), what)
        assert (drawn.sum(-1) == total).all(), f"{what}: counts do not add up to {total}"
        cover = share[..., :, None] * (eye - share[..., None, :])
        _between(drawn, total * cover, what)
        return
    q = getattr(package, name)(probs=_put(others)[0])
    toward = others.astype(np.float64) / others.astype(np.float64).sum(-1, keepdims=True)
    with quiet():
        apart = (xlogy(share, share) - xlogy(share, toward)).sum(-1)
    compare(package.kl_divergence(made, q).numpy(), apart, f"divergence of {what}", _NEAR)
    _told(made, what, entropy=entropy, perplexity=np.exp(entropy))
    top = np.argmax(given, -1)
    index = rng.integers(0, count, (4, *batch))
    want = np.take_along_axis(np.broadcast_to(log, (4, *batch, count)), index[..., None], -1)
    if name == "Categorical":
        _shapes(made, batch, (), what)
        assert (made.mode.numpy() == top).all(), f"mode of {what}"
        found = made.log_prob(calor.asarray(index)).numpy()
        drawn = made.sample(_MANY, key=_key(rng)).numpy()
        assert drawn.shape == (_MANY, *batch), f"samples of {what}: shape {drawn.shape}"
        counts = (drawn[..., None] == np.arange(count)).mean(0)
    else:
        _shapes(made, batch, (count,), what)
        assert (made.mode.numpy() == eye[top]).all(), f"mode of {what}"
        _told(made, what, mean=share, variance=share * (1 - share))
        found = made.log_prob(*_put(eye[index])).numpy()
        drawn = _seen(made, rng, share, share * (1 - share), what)
        assert (drawn.sum(-1) == 1).all(), f"{what}: a sample has not one 1"
        counts = drawn.mean(0)
    compare(found, want[..., 0], f"log_prob({index.tolist()}) of {what}", _NEAR)
    near = _DEVIATIONS * np.sqrt(share * (1 - share) / _MANY) + 1e-9
    assert (np.abs(counts - share) <= near).all(), f"shares of {what}: {counts}, not {share}"


def _dirichlet(package: Any, rng: Rng) -> None:
    batch, count = a_shape(rng, 0, 1), int(rng.integers(2, 6))
    a, b = (np.exp(rng.uniform(-1, 3, (*batch, count))).astype(np.float32) for _ in range(2))
    made, q = (package.Dirichlet(*_put(c)) for c in (a, b))
    wide, total = a.astype(np.float64), a.astype(np.float64).sum(-1, keepdims=True)
    what = f"Dirichlet({a.tolist()})"
    _shapes(made, batch, (count,), what)
    mean = wide / total
    rest = total - wide
    beta = _ROWS["Beta"]
    with quiet():
        logs = beta.expected(lambda x, log: np.log(x), [wide, rest])

    def norm(c: Array) -> Array:
        return np.asarray(lgamma(c).sum(-1) - lgamma(c.sum(-1)))

    x = rng.dirichlet(np.ones(count), (3, *batch)).astype(np.float32)
    want = ((wide - 1) * np.log(x.astype(np.float64))).sum(-1) - norm(wide)
    compare(made.log_prob(*_put(x)).numpy(), want, f"log_prob({x.tolist()}) of {what}", 3e-4)
    entropy = norm(wide) - ((wide - 1) * logs).sum(-1)
    variance = mean * (1 - mean) / (total + 1)
    compare(made.entropy().numpy(), entropy, f"entropy of {what}", 1e-3)
    _told(made, what, mean=mean, variance=variance)
    apart = ((wide - b) * logs).sum(-1) + norm(b.astype(np.float64)) - norm(wide)
    compare(package.kl_divergence(made, q).numpy(), apart, f"divergence of {what}", 1e-3)
    drawn = _seen(made, rng, mean, variance, what)
    assert (np.abs(drawn.sum(-1) - 1) < 1e-5).all(), f"{what}: shares do not add up to 1"
    eye = np.eye(count)
    cover = mean[..., :, None] * (eye - mean[..., None, :]) / (total[..., None] + 1)
    _between(drawn, cover, what)
    top = made.mode.numpy().astype(np.float64)
    assert (np.abs(top.sum(-1) - 1) < 1e-5).all(), f"mode of {what}: {top}"
    whole = (wide > 1).all(-1)
    best = (wide - 1) / np.maximum((wide - 1).sum(-1, keepdims=True), 1e-9)
    assert (np.abs(top - best)[whole] < 1e-4).all(), f"mode of {what}: {top}, not {best}"
    # Where samples move with the concentration, so does their mean: by differences of it.
    weight = rng.normal(size=(*batch, count)).astype(np.float32)
    many = np.broadcast_to(a, (_MANY, *a.shape)).copy()
    key = _key(rng)

    def seen(c: Any) -> Any:
        return calor.sum(package.Dirichlet(c).rsample((), key=key) * calor.asarray(weight))

    found = calor.grad(seen)(*_put(many)).numpy().astype(np.float64)
    slope = (weight - (weight * mean).sum(-1, keepdims=True)) / total
    near = _DEVIATIONS * found.std(0) / math.sqrt(_MANY) + 1e-3 * np.abs(slope) + 1e-6
    assert (np.abs(found.mean(0) - slope) <= near).all(), (
        f"derivative of samples of {what}: {found.mean(0)}, not {slope}"
    )


def _gaussian(package: Any, rng: Rng) -> None:
    batch, n = a_shape(rng, 0, 2), int(rng.integers(1, 5))
    lead = batch if coin(rng) else ()
    loc = (rng.normal(size=(*batch, n)) * 3).astype(np.float32)
    factors = [np.tril(rng.normal(size=(*lead, n, n))) for _ in range(2)]
    for factor in factors:
        index = np.arange(n)
        factor[..., index, index] = np.exp(rng.uniform(-1, 1, (*lead, n)))
    first, second = (f @ np.swapaxes(f, -1, -2) for f in factors)
    by = str(rng.choice(["covariance_matrix", "precision_matrix", "scale_tril"]))
    given = {"covariance_matrix": first, "precision_matrix": np.linalg.inv(first),
             "scale_tril": factors[0]}[by]  # fmt: skip
    made = package.MultivariateNormal(_put(loc)[0], **{by: _put(given)[0]})
    what = f"MultivariateNormal({loc.tolist()}, {by}={given.tolist()})"
    _shapes(made, batch, (n,), what)
    cover = np.broadcast_to(first, (*batch, n, n))
    size = np.linalg.slogdet(cover)[1]
    worst = float(np.max(np.linalg.cond(cover), initial=1.0))
    near = min(1e-2, 2e-6 * worst + _NEAR)
    x = (loc + rng.normal(size=(3, *batch, n)) * 2).astype(np.float32)
    off = x.astype(np.float64) - loc
    square = (off * np.linalg.solve(cover, off[..., None])[..., 0]).sum(-1)
    want = -0.5 * (square + size + n * math.log(2 * math.pi))
    compare(made.log_prob(*_put(x)).numpy(), want, f"log_prob({x.tolist()}) of {what}", near)
    entropy = 0.5 * (size + n * (1 + math.log(2 * math.pi)))
    for name, told in (("entropy", entropy), ("mean", loc * 1.0), ("mode", loc * 1.0),
                       ("variance", np.diagonal(cover, axis1=-2, axis2=-1)),
                       ("covariance_matrix", cover),
                       ("precision_matrix", np.linalg.inv(cover))):  # fmt: skip
        found = getattr(made, name)
        found = (found() if callable(found) else found).numpy()
        size_of = np.max(np.abs(told), initial=1.0)
        compare(found / np.float32(size_of), told / size_of, f"{name} of {what}", near)
    other = (loc + rng.normal(size=(*batch, n))).astype(np.float32)
    q = package.MultivariateNormal(_put(other)[0], covariance_matrix=_put(second)[0])
    far = (other - loc).astype(np.float64)
    wide = np.broadcast_to(second, (*batch, n, n))
    apart = 0.5 * (
        np.trace(np.linalg.solve(wide, cover), axis1=-2, axis2=-1) - n
        + (far * np.linalg.solve(wide, far[..., None])[..., 0]).sum(-1)
        + np.linalg.slogdet(wide)[1] - size
    )  # fmt: skip
    other_worst = float(np.max(np.linalg.cond(wide), initial=1.0))
    compare(package.kl_divergence(made, q).numpy(), apart, f"divergence of {what}",
            min(1e-2, near + 2e-6 * other_worst))  # fmt: skip
    drawn = _seen(made, rng, loc.astype(np.float64), np.diagonal(cover, axis1=-2, axis2=-1), what)
    _between(drawn, cover, what)
    # A sample is loc + L z: it moves with loc as it is, and with L by z.
    key = _key(rng)
    factor = np.broadcast_to(factors[0], (*batch, n, n)).astype(np.float32)

    def total(loc: Any, tril: Any) -> Any:
        made = package.MultivariateNormal(loc, scale_tril=tril)
        return calor.sum(made.rsample((5,), key=key))

    by_loc, by_factor = calor.grad(total, argnums=(0, 1))(*_put(loc, factor))
    made = package.MultivariateNormal(*_put(loc), scale_tril=_put(factor)[0])
    moved = made.rsample((5,), key=key).numpy().astype(np.float64) - loc
    z = np.linalg.solve(np.broadcast_to(factor, (5, *factor.shape)), moved[..., None])[..., 0]
    compare(by_loc.numpy(), np.full(loc.shape, 5.0), f"derivative of samples by loc, {what}")
    want = np.broadcast_to(z.sum(0)[..., None, :], factor.shape)
    low = np.tril(np.ones((n, n)))
    compare(by_factor.numpy() * low.astype(np.float32), want * low,
            f"derivative of samples by the factor, {what}", 5e-3)  # fmt: skip


_BASES: Final = ("Normal", "Laplace", "Gumbel", "Exponential", "Gamma", "Uniform")


def _a_base(rng: Rng, shape: tuple[int, ...]) -> tuple[Density, list[Array]]:
    row = _ROWS[str(rng.choice(_BASES))]
    every = [row.draw(rng) for _ in range(math.prod(shape))]
    made = [np.asarray(p, np.float32).reshape(shape) for p in zip(*every, strict=True)]
    return row, made


def _places(row: Density, rng: Rng, wide: Sequence[Array], count: int) -> Array:
    """Return places in the support, about as far apart as samples."""
    middle, width = (np.broadcast_to(u, wide[0].shape) for u in row.unit(*wide))
    low, high = (np.broadcast_to(e, wide[0].shape) for e in row.support(*wide))
    x = middle + rng.normal(size=(count, *wide[0].shape)) * width * 0.7
    by = rng.uniform(0.1, 1, x.shape)
    with quiet():
        x = np.where(x <= low, low + by * (middle - low), x)
        return np.asarray(np.where(x >= high, high - by * (high - middle), x))


def _independent(package: Any, rng: Rng) -> None:
    shape = a_shape(rng, 1, 3)
    row, parameters = _a_base(rng, shape)
    wide = [p.astype(np.float64) for p in parameters]
    count = int(rng.integers(0, len(shape) + 1))
    base = getattr(package, row.name)(*_put(*parameters))
    made = package.Independent(base, count)
    kept = len(shape) - count
    what = f"Independent({row.name}({', '.join(str(p.tolist()) for p in parameters)}), {count})"
    _shapes(made, shape[:kept], shape[kept:], what)
    axes = tuple(range(-count, 0))
    x = _places(row, rng, wide, 3).astype(np.float32)
    with quiet():
        log = row.log_at(x.astype(np.float64), wide)
        entropy = row.entropy(wide)
    compare(made.log_prob(*_put(x)).numpy(), log.sum(axes) if count else log,
            f"log_prob of {what}", 5e-4)  # fmt: skip
    compare(made.entropy().numpy(), entropy.sum(axes) if count else entropy,
            f"entropy of {what}", 5e-4)  # fmt: skip
    assert made.has_rsample == base.has_rsample
    key = _key(rng)
    pair = [d.sample((4,), key=key).numpy() for d in (made, base)]
    compare(pair[0], pair[1].astype(np.float64), f"samples of {what}")
    for name in ("mean", "variance"):
        compare(getattr(made, name).numpy(), getattr(base, name).numpy().astype(np.float64),
                f"{name} of {what}")  # fmt: skip
    near = getattr(package, row.name)(*_put(*(p * np.float32(1.001) for p in parameters)))
    each = package.kl_divergence(base, near).numpy().astype(np.float64)
    found = package.kl_divergence(made, package.Independent(near, count)).numpy()
    with quiet():
        compare(found, each.sum(axes) if count else each, f"divergence of {what}", 1e-3)


def _affine(rng: Rng) -> tuple[Any, ...]:
    loc, scale = float(rng.normal()), float(rng.choice([-2.5, -0.4, 0.3, 3.0]))
    return ("AffineTransform", (loc, scale), lambda x: loc + scale * x)


def _power_map(rng: Rng) -> tuple[Any, ...]:
    by = float(rng.choice([-1.5, -1.0, 0.5, 2.0, 3.0]))
    return ("PowerTransform", (by,), lambda x: x**by)


# A map, its parameters and its meaning; the places where it is asked; whether it keeps them.
_MAPS: Final[dict[str, tuple[Callable[[Rng], tuple[Any, ...]], tuple[float, float]]]] = {
    "AffineTransform": (_affine, (-4, 4)),
    "ExpTransform": (lambda rng: ("ExpTransform", (), np.exp), (-6, 6)),
    "PowerTransform": (_power_map, (0.1, 5)),
    "SigmoidTransform": (lambda rng: ("SigmoidTransform", (), lambda x: 1 / (1 + np.exp(-x))),
                         (-6, 6)),
    "SoftplusTransform": (lambda rng: ("SoftplusTransform", (), lambda x: np.log1p(np.exp(x))),
                          (-5, 9)),
    "TanhTransform": (lambda rng: ("TanhTransform", (), np.tanh), (-2.5, 2.5)),
}  # fmt: skip


def _log_slope(of: Callable[[Array], Array], x: Array) -> Array:
    step = 1e-5 * np.maximum(np.abs(x), 0.1)
    return np.log(np.abs((of(x + step) - of(x - step)) / (2 * step)))


def _maps(package: Any, rng: Rng) -> None:
    for name, (draw, (low, high)) in _MAPS.items():
        _, given, meaning = draw(rng)
        made = getattr(package, name)(*given)
        x = rng.uniform(low, high, a_shape(rng, 0, 2)).astype(np.float32)
        wide, what = x.astype(np.float64), f"{name}{given}({x.tolist()})"
        y = made(*_put(x))
        compare(y.numpy(), meaning(wide), what, 3e-5)
        compare(made.inverse(y).numpy(), wide, f"inverse of {what}", 2e-3)
        slope = made.log_abs_det_jacobian(_put(x)[0], y).numpy()
        compare(slope, _log_slope(meaning, wide), f"log_abs_det_jacobian of {what}", 3e-4)
        rising = meaning(np.float64(high)) > meaning(np.float64(low))
        assert made.sign == (1 if rising else -1), f"sign of {name}{given}: {made.sign}"
    # Far away the derivative of a map that levels off is its own exponential.
    for name, rate in (("SigmoidTransform", 1.0), ("TanhTransform", 2.0)):
        x = np.asarray([-40.0, -25.0, 25.0, 40.0], np.float32)
        made = getattr(package, name)()
        want = -rate * np.abs(x.astype(np.float64)) + (math.log(4) if rate == 2 else 0)
        slope = made.log_abs_det_jacobian(_put(x)[0], made(*_put(x))).numpy()
        compare(slope, want, f"log_abs_det_jacobian of {name} at {x}")


def _transformed(package: Any, rng: Rng) -> None:
    shape = a_shape(rng, 0, 2)
    loc = rng.normal(size=shape).astype(np.float32)
    scale = np.exp(rng.uniform(-1, 0, shape)).astype(np.float32)
    row, wide = _ROWS["Normal"], [loc.astype(np.float64), scale.astype(np.float64)]
    names = [str(n) for n in rng.choice(["AffineTransform", "TanhTransform", "SigmoidTransform",
                                         "ExpTransform"], int(rng.integers(1, 4)))]  # fmt: skip
    # Two exponentials, one of the other, leave float32 too easily.
    names = [n for k, n in enumerate(names) if n not in names[:k] or n == "AffineTransform"]
    parts = [_MAPS[n][0](rng) for n in names]
    maps = [getattr(package, n)(*given) for n, given, _ in parts]
    chain = maps[0] if len(maps) == 1 and coin(rng) else maps
    made = package.TransformedDistribution(package.Normal(*_put(loc, scale)), chain)
    what = f"the image of Normal({loc.tolist()}, {scale.tolist()}) under {names}"
    _shapes(made, shape, (), what)

    def meaning(x: Any) -> Array:
        for _, _, of in parts:
            x = of(x)
        return np.asarray(x)

    x = wide[0] + rng.normal(size=(4, *shape)) * wide[1] * 0.8
    y = meaning(x)
    with quiet():
        want = row.log_at(x, wide) - _log_slope(meaning, x)
        # Maps that level off keep few digits of where they come from.
        loose = 1e-4 + 2e-6 / np.min(np.exp(_log_slope(meaning, x)), initial=1)
    if loose > 1e-2:
        return
    compare(made.log_prob(*_put(y)).numpy(), want, f"log_prob({y.tolist()}) of {what}", 5 * loose)
    rising = bool(meaning(np.float64(0.1)) > meaning(np.float64(0.0)))
    below = row.share(x, [np.broadcast_to(p, x.shape) for p in wide])
    compare(made.cdf(*_put(y)).numpy(), below if rising else 1 - below, f"cdf of {what}", loose)
    levels = below if rising else 1 - below
    compare(made.icdf(*_put(levels)).numpy(), y, f"icdf of {what}", 20 * loose)
    key = _key(rng)
    base = made.base_dist.sample((6,), key=key).numpy().astype(np.float64)
    found = made.sample((6,), key=key).numpy()
    compare(found, meaning(base), f"samples of {what}", 1e-4)
    assert made.has_rsample
    inner = package.TransformedDistribution(package.Normal(*_put(loc + 1, scale)), maps)
    apart = package.kl_divergence(package.TransformedDistribution(made.base_dist, maps), inner)
    compare(apart.numpy(), 0.5 / wide[1] ** 2, f"divergence of {what} from one at loc + 1", 1e-3)


def _mixture(package: Any, rng: Rng) -> None:
    batch, count = a_shape(rng, 0, 2), int(rng.integers(1, 5))
    width = int(rng.integers(0, 2))
    event = (2,) * width
    row, parameters = (
        _ROWS["Normal"],
        [
            (rng.normal(size=(*batch, count, *event)) * 2).astype(np.float32),
            np.exp(rng.uniform(-1, 1, (*batch, count, *event))).astype(np.float32),
        ],
    )
    weights = rng.random((*batch, count)).astype(np.float32) + np.float32(0.05)
    if coin(rng) and batch:
        weights = weights[(0,) * len(batch)]
    share = np.broadcast_to(
        weights.astype(np.float64) / weights.astype(np.float64).sum(-1, keepdims=True),
        (*batch, count),
    )
    parts = package.Normal(*_put(*parameters))
    if width:
        parts = package.Independent(parts, width)
    made = package.MixtureSameFamily(package.Categorical(*_put(weights)), parts)
    wide = [p.astype(np.float64) for p in parameters]
    what = f"a mixture of Normal({', '.join(str(p.tolist()) for p in parameters)}) by {weights}"
    _shapes(made, batch, event, what)
    x = rng.normal(size=(3, *batch, *event)).astype(np.float32) * np.float32(3)
    at = np.expand_dims(x.astype(np.float64), -1 - width)
    log = row.log_at(at, wide)
    log = log.sum(-1) if width else log
    with quiet():
        want = np.log((share * np.exp(log)).sum(-1))
    compare(made.log_prob(*_put(x)).numpy(), want, f"log_prob({x.tolist()}) of {what}", 3e-4)
    each = share.reshape(*share.shape, *(1 for _ in event))
    mean = (each * wide[0]).sum(-1 - width)
    center = np.expand_dims(mean, -1 - width)
    variance = (each * (wide[1] ** 2 + (wide[0] - center) ** 2)).sum(-1 - width)
    _told(made, what, mean=mean, variance=variance)
    if not width:
        z = (at - wide[0]) / wide[1]
        below = (share * 0.5 * np.vectorize(math.erfc)(-z / math.sqrt(2))).sum(-1)
        compare(made.cdf(*_put(x)).numpy(), below, f"cdf of {what}", _NEAR)
    drawn = _seen(made, rng, mean, variance, what)
    # What is above the middle of all goes by the components, so their choice and draws are apart.
    if width:
        one, two = wide[0][..., 0], wide[0][..., 1]
        both = (share * one * two).sum(-1) - mean[..., 0] * mean[..., 1]
        cover = np.stack([np.stack([variance[..., 0], both], -1),
                          np.stack([both, variance[..., 1]], -1)], -1)  # fmt: skip
        _between(drawn, cover, what)
        return
    level = mean[None]
    z = (np.expand_dims(level, -1) - wide[0]) / wide[1]
    below = (share * 0.5 * np.vectorize(math.erfc)(-z / math.sqrt(2))).sum(-1)[0]
    found = (drawn <= level).mean(0)
    near = _DEVIATIONS * np.sqrt(below * (1 - below) / _MANY)
    assert (np.abs(found - below) <= near).all(), f"below the mean of {what}: {found}, not {below}"


def _pairs(package: Any, rng: Rng) -> None:
    """Compare divergences of two families with integrals."""
    for first, second in (("Exponential", "Gamma"), ("Gamma", "Exponential")):
        shape = a_shape(rng, 0, 1)
        rows = _ROWS[first], _ROWS[second]
        every = []
        for row in rows:
            drawn = [row.draw(rng) for _ in range(math.prod(shape))]
            sets = [np.asarray(p, np.float32).reshape(shape) for p in zip(*drawn, strict=True)]
            sets[-1] = np.exp(rng.uniform(-1, 1, shape)).astype(np.float32)
            every.append(np.minimum(sets, np.float32(8)))
        pair = [
            getattr(package, row.name)(*_put(*sets)) for row, sets in zip(rows, every, strict=True)
        ]
        wide = [[p.astype(np.float64) for p in sets] for sets in every]
        with quiet():
            want = rows[0].divergence(wide[0], rows[1], wide[1])
        found = package.kl_divergence(*pair).numpy()
        compare(found, want, f"divergence of {first}{wide[0]} from {second}{wide[1]}", 1e-3)


_SUBJECTS: Final[dict[str, Run]] = {
    **{name: partial(_categories, name=name)
       for name in ("Categorical", "OneHotCategorical", "Multinomial")},
    "Dirichlet": _dirichlet, "MultivariateNormal": _gaussian, "Independent": _independent,
    "transforms": _maps, "TransformedDistribution": _transformed, "MixtureSameFamily": _mixture,
    "divergences-of-two-families": _pairs,
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    package = import_module(PACKAGE)
    for turn in range(2 if name in _SLOW else _TURNS):
        _SUBJECTS[name](package, source([place.seed, crc32(name.encode()), turn]))


def joint_probabilities() -> Iterator[Check]:
    """Yield a check of each kind, if the package is installed."""
    if find_spec(PACKAGE) is None:
        return
    for name, run in _SUBJECTS.items():
        yield Check(
            kind="functions",
            subject=f"{PACKAGE}.{name}",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, run.func if isinstance(run, partial) else run),
            dtypes=(float32, int64, uint32, bool_),
            features=("control_flow",),
            looks=True,
        )
