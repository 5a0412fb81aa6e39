"""Distributions of one number beside their densities: all that a class says, at drawn parameters.

A row knows the density alone. Moments, entropies, shares, divergences and the derivatives of
samples are integrals and differences of it in float64.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import DType, bool_, float32, float64, int64, uint32

from ..rows.functions.comparing import compare, quiet
from ..rows.functions.drawing import Rng, a_shape, coin, source
from ..rows.probability import DENSITIES, Density
from .base import Array, Check, Place

PACKAGE: Final = "calor_distributions"
CONTRACT: Final = "a distribution is that of its density, in all that it says and draws"
_TURNS: Final = 2
# The batches that are drawn from; each element takes integrals of its own.
_BATCHES: Final = ((3,), (2, 2), (1, 3), (5,), (3, 1))
_UNIT: Final = float(np.finfo(np.float32).eps)
# Samples, and the logarithm of one by the probability that a correct device fails a comparison.
_MANY: Final = 2000
_LEVEL: Final = math.log(2e11)


def _parameters(row: Density, rng: Rng, shape: tuple[int, ...]) -> list[Array]:
    """Return parameters of a batch, of which one may be the same along an axis."""
    every = [row.draw(rng) for _ in range(math.prod(shape))]
    made = [np.asarray(p, np.float32).reshape(shape) for p in zip(*every, strict=True)]
    if shape and len(made) > 1 and coin(rng):
        axis = int(rng.integers(len(shape)))
        # The least of lower ends and the largest of others keep the ends in their order.
        which = int(rng.integers(len(made)))
        made[which] = (np.max if which else np.min)(made[which], axis, keepdims=True)
        if not axis and coin(rng):
            made[which] = made[which][0]
    return made


def _made(package: Any, row: Density, parameters: Sequence[Any]) -> Any:
    if row.make is None:
        return getattr(package, row.name)(*parameters)
    return row.make(package, *parameters)


def _wide(parameters: Sequence[Array]) -> list[Array]:
    return list(np.broadcast_arrays(*(p.astype(np.float64) for p in parameters)))


def _points(row: Density, rng: Rng, wide: list[Array]) -> Array:
    """Return places about the middle, far away, at the ends of the support and outside of it."""
    middle, width = (np.broadcast_to(u, wide[0].shape) for u in row.unit(*wide))
    low, high = (np.broadcast_to(e, wide[0].shape) for e in row.support(*wide))
    steps = [*rng.normal(size=8), *rng.uniform(-12, 12, 4)]
    made = [middle + s * width for s in steps]
    if row.whole:
        made = [np.round(x) for x in made]
        made += [np.maximum(low, middle) + 0.5, low, low - 1]
    else:
        made += [low, low - width, high + width]
    finite = [np.where(np.isfinite(x), x, middle) for x in made]
    return np.stack([x.astype(np.float32) for x in finite])


def _slack(of: Callable[..., Array], given: Sequence[Array]) -> Array:
    """Return how far a result moves when what it is computed from does by its rounding."""
    rng, want = np.random.default_rng(0), of(*given)
    far = np.zeros(want.shape)
    for _ in range(3):
        moved = [a * (1 + 2 * _UNIT * rng.choice((-1.0, 1.0), a.shape)) for a in given]
        off = np.abs(of(*moved) - want)
        far = np.maximum(far, np.where(np.isfinite(off), off, 0.0))
    return 4 * far


def _densities(row: Density, made: Any, x: Array, wide: list[Array], what: str) -> None:

    def of(x: Array, *parameters: Array) -> Array:
        return row.log_at(x, parameters)

    want = of(x.astype(np.float64), *wide)
    found = made.log_prob(calor.asarray(x)).numpy()
    with quiet():
        moving = [p if n >= row.kept else p * 1 for n, p in enumerate(wide)]
        slack = _slack(lambda *given: of(x.astype(np.float64), *given), moving)
        for by in (4 * _UNIT, -4 * _UNIT):
            off = np.abs(of(x.astype(np.float64) * (1 + by), *wide) - want)
            slack = slack + np.where(np.isfinite(off), off, 0.0)
    size = sum(np.abs(np.vectorize(math.lgamma)(np.abs(p) + 1)) for p in wide) if (
        row.near > 5e-5) else 0.0  # fmt: skip
    compare(found, want, f"log_prob({x.tolist()}) of {what}", row.near, slack + 8 * _UNIT * size)


def _has(made: Any, name: str) -> bool:
    return getattr(type(made), name) is not getattr(import_module(PACKAGE).Distribution, name)


def _shares(row: Density, made: Any, rng: Rng, x: Array, wide: list[Array], what: str) -> None:
    if _has(made, "cdf"):
        want = row.share(x.astype(np.float64), [np.broadcast_to(p, x.shape) for p in wide])
        slack = _slack(
            lambda at: row.share(at, [np.broadcast_to(p, x.shape) for p in wide]),
            [x.astype(np.float64)],
        )
        found = made.cdf(calor.asarray(x)).numpy()
        compare(found, want, f"cdf({x.tolist()}) of {what}", 1e-4, slack)
    if _has(made, "icdf"):
        levels = np.asarray(rng.uniform(0.01, 0.99, (5, *wide[0].shape)), np.float32)
        found = made.icdf(calor.asarray(levels)).numpy().astype(np.float64)
        back = row.share(found, [np.broadcast_to(p, found.shape) for p in wide])
        slack = _slack(
            lambda at: row.share(at, [np.broadcast_to(p, at.shape) for p in wide]), [found]
        )
        compare(back.astype(np.float32), levels.astype(np.float64),
                f"the share below icdf of {what}", 1e-4, slack)  # fmt: skip


def _typed(row: Density, made: Any, kind: DType, what: str) -> None:
    """All that a distribution says of plain numbers, and draws, is of its parameters' dtype."""
    key = calor.random.key(3)
    found = {"log_prob": made.log_prob(1), "mean": made.mean, "sample": made.sample(key=key)}
    found |= {n: getattr(made, n)() for n in ("entropy",) if _has(made, n)}
    found |= {n: getattr(made, n)(0.5) for n in ("cdf", "icdf") if _has(made, n)}
    for name, one in found.items():
        assert one.dtype is kind, f"{name} of {what} is {one.dtype.name}, not {kind.name}"


def _moments(row: Density, made: Any, x: Array, wide: list[Array], what: str) -> None:
    with quiet():
        mean, variance = row.mean_and_variance(wide)
        loose = 10 * row.near
        for name, want in (("mean", mean), ("variance", variance), ("stddev", np.sqrt(variance))):
            found = getattr(made, name).numpy().astype(np.float64)
            size = np.maximum(np.abs(want), 1e-30)
            unit = np.asarray(row.unit(*wide)[1]) * (1e-3 if name == "mean" else 0.0)
            off = np.abs(found - want) / np.where(np.isfinite(size), size + unit, 1.0)
            same = (found == want) | ((found != found) & (want != want)) | (off <= loose)
            assert found.shape == want.shape, f"{name} of {what}: shape {found.shape}"
            assert same.all(), f"{name} of {what}: {found.tolist()}, not {want.tolist()}"
    if _has(made, "mode"):
        top = made.mode.numpy().astype(np.float64)
        with quiet():
            low, high = row.support(*wide)
            # A density that is infinite at an end is large beside it.
            near = 1e-6 * np.asarray(row.unit(*wide)[1]) * (not row.whole)
            at = np.where(top == low, low + near, np.where(top == high, high - near, top))
            most, every = row.log_at(at, wide), row.log_at(x * 1.0, wide)
            every = np.max(np.where(np.isfinite(every), every, -1e300), 0)
        assert top.shape == mean.shape, f"mode of {what}: shape {top.shape}"
        assert (most >= every - 1e-4 * np.maximum(np.abs(every), 1)).all(), (
            f"mode of {what}: {top.tolist()} is less likely than another number"
        )
    if _has(made, "entropy"):
        want = row.entropy(wide)
        found = made.entropy().numpy()
        compare(found, want, f"entropy of {what}", 3 * row.near)
        there = np.exp(want) < 1e30
        spread = made.perplexity().numpy()
        compare(np.where(there, spread, 0), np.where(there, np.exp(found), 0).astype(np.float64),
                f"perplexity of {what}", 1e-4)  # fmt: skip


def _slopes(
    row: Density, package: Any, x: Array, wide: list[Array], jitted: bool, what: str
) -> None:
    """Compare the derivatives of log_prob by all that it is computed from with differences."""
    x = x[:8] * np.float32(1)
    given = [x.astype(np.float64), *(np.broadcast_to(p, x.shape).copy() for p in wide)]
    width = np.abs(np.broadcast_to(row.unit(*wide)[1], x.shape))

    def pulled(*tensors: Any) -> Any:
        loss = lambda at, *rest: calor.sum(_made(package, row, rest).log_prob(at))  # noqa: E731
        return calor.grad(loss, argnums=tuple(range(len(tensors))))(*tensors)

    tensors = [calor.asarray(a.astype(np.float32)) for a in given]
    made = (calor.jit(pulled) if jitted else pulled)(*tensors)
    with quiet():
        inside = np.isfinite(row.log_at(given[0], given[1:]))
        for n, found in enumerate(made):
            if (n == 0 and row.whole) or 0 < n <= row.kept:
                continue
            step = 1e-4 * np.where(given[n] == 0, width, np.minimum(np.abs(given[n]), width))
            ends = []
            for by in (step, -step, step / 4, -step / 4):
                moved = [a + by if k == n else a for k, a in enumerate(given)]
                ends.append(row.log_at(moved[0], moved[1:]))
            wants = (ends[0] - ends[1]) / (2 * step), (ends[2] - ends[3]) / (step / 2)
            got = found.numpy().astype(np.float64)
            size = np.abs(wants[1]) + 1 / (width if n == 0 else np.maximum(step * 1e4, 1e-9))
            smooth = inside & np.isfinite(wants[0]) & (np.abs(wants[0] - wants[1]) < 1e-3 * size)
            wrong = smooth & ~(np.abs(got - wants[1]) <= 4e-3 * size)
            assert not wrong.any(), (
                f"derivative of log_prob of {what} at {x[wrong][:1]} by operand {n}: "
                f"{got[wrong][:1]}, not {wants[1][wrong][:1]}"
            )


def _drawn(row: Density, made: Any, rng: Rng, wide: list[Array], what: str) -> None:
    shape = wide[0].shape
    number = int(rng.integers(1 << 62))
    for lead in ((), (3,), (2, 3)):
        one = made.sample(lead if len(lead) != 1 else 3, key=calor.random.key(number))
        assert one.shape == (*lead, *shape), f"sample {lead} of {what}: shape {one.shape}"
    drawn = made.sample((_MANY,), key=calor.random.key(number)).numpy().astype(np.float64)
    assert drawn.shape == (_MANY, *shape), f"samples of {what}: shape {drawn.shape}"
    assert np.isfinite(drawn).all(), f"samples of {what}: {drawn[~np.isfinite(drawn)][:3]}"
    other = made.sample((_MANY,), key=calor.random.key(number + 1)).numpy()
    assert row.whole or (other != drawn).mean() > 0.9, f"two keys give the same samples of {what}"
    ordered = np.sort(drawn, 0)
    middle, width = (np.broadcast_to(u, shape) for u in row.unit(*wide))
    fixed = np.stack([middle + s * width for s in (-4, -2, -1, -0.5, 0, 0.5, 1, 2, 4, 8)])
    for points, chosen in ((ordered[:: _MANY // 30], True), (fixed, False)):
        want = row.share(points, [np.broadcast_to(p, points.shape) for p in wide])
        most = (drawn[None] <= points[:, None]).sum(1)
        least = (drawn[None] < points[:, None]).sum(1) if not row.whole else most
        far = (
            math.sqrt(_LEVEL * _MANY / 2) if chosen
            else _LEVEL / 3 + np.sqrt(_LEVEL**2 / 9 + 2 * _LEVEL * _MANY * want * (1 - want))
        )  # fmt: skip
        wrong = (most < want * _MANY - far) | (least > want * _MANY + far)
        assert not wrong.any(), (
            f"samples of {what}: {most[wrong][:1]} of {_MANY} are at most {points[wrong][:1]}, "
            f"which is a share of {want[wrong][:1]}"
        )
    flat = (drawn > np.median(drawn, 0)).reshape(_MANY, -1).astype(np.float64)
    if flat.shape[1] > 1 and not row.whole:
        pair = np.abs(np.corrcoef(flat[:, 0], flat[:, -1])[0, 1])
        assert pair < 7 / math.sqrt(_MANY), f"samples of {what} go together: {pair}"


def _level(middle: Array, width: Array, x: Array, log: Array) -> Any:
    return np.tanh((x - middle[..., None]) / width[..., None])


def _moving(
    row: Density, package: Any, rng: Rng, jitted: bool, wide: list[Array], what: str
) -> None:
    """Compare the derivatives of samples by parameters with those of quantiles, or of means."""
    count = 24 if row.transported else _MANY
    wide = [p.reshape(-1)[:3] for p in wide]
    given = [np.broadcast_to(p, (count, *p.shape)).copy() for p in wide]
    key = calor.random.key(int(rng.integers(1 << 62)))

    def pulled(key: Any, *tensors: Any) -> Any:
        drawn = lambda *rest: _made(package, row, rest).rsample((), key=key)  # noqa: E731
        made, pull = calor.vjp(drawn, *tensors)
        return [made, *pull(calor.ones_like(made))]

    tensors = [calor.asarray(p.astype(np.float32)) for p in given]
    made = (calor.jit(pulled) if jitted else pulled)(key, *tensors)
    x, *slopes = (t.numpy().astype(np.float64) for t in made)
    plain = _made(package, row, tensors).sample((), key=key).numpy()
    compare(plain, x, f"sample and rsample of {what} with one key", 1e-4)
    middle, width = (np.broadcast_to(np.asarray(u), x.shape) for u in row.unit(*given))
    for n, got in enumerate(slopes):
        step = 1e-4 * np.where(given[n] == 0, width, np.minimum(np.abs(given[n]), width))
        moved = [[p + s * step if k == n else p for k, p in enumerate(given)] for s in (1, -1)]
        told = f"derivative of a sample of {what} by parameter {n}"
        # Far out in a heavy tail a derivative may be beyond float32.
        held = np.abs(x - middle) < 1e6 * width
        assert np.isfinite(got[held]).all(), f"{told}: {got[held & ~np.isfinite(got)][:1]}"
        if row.transported:
            with quiet():
                rise = (row.share(x, moved[0]) - row.share(x, moved[1])) / (2 * step)
                want = -rise / np.exp(row.log_at(x, given))
            size = np.abs(want) + 1e-2 * width / np.maximum(np.abs(given[n]), width)
            share = row.share(x, given)
            known = np.isfinite(want) & (share > 1e-3) & (share < 1 - 1e-3)
            wrong = known & ~(np.abs(got - want) <= 1e-2 * size)
            assert not wrong.any(), f"{told}: {got[wrong][:1]}, not {want[wrong][:1]}"
            continue
        first = [p[0] for p in given]
        seen = partial(_level, middle[0], width[0])
        ends = [row.expected(seen, [p[0] for p in m]) for m in moved]
        want = (ends[0] - ends[1]) / (2 * step[0])
        z = np.clip((x - middle) / width, -300, 300)
        each = np.where(held, got, 0.0) / np.cosh(z) ** 2 / width
        near = 7 * each.std(0) / math.sqrt(count) + 1e-3 * np.abs(want) + 1e-6
        off = np.abs(each.mean(0) - want)
        assert (off <= near).all(), f"{told}, seen by tanh: {each.mean(0)}, not {want}, at {first}"


def _apart(row: Density, package: Any, rng: Rng, wide: list[Array], what: str) -> None:
    """Compare the divergence to another of the family with an integral."""
    toward = _wide(_parameters(row, rng, wide[0].shape))
    others = [
        p if n < row.kept else p + 0.15 * (q - p)
        for n, (p, q) in enumerate(zip(wide, toward, strict=True))
    ]
    others = [np.asarray(p, np.float32).astype(np.float64) for p in others]
    pair = [
        _made(package, row, [calor.asarray(p.astype(np.float32)) for p in each])
        for each in (wide, others)
    ]
    found = package.kl_divergence(*pair).numpy()
    with quiet():
        want = row.divergence(wide, row, others)
        slack = _slack(lambda *given: row.divergence(wide, row, given), others)
        # The terms that cancel are of the size of the parameters.
        size = sum(np.abs(np.vectorize(math.lgamma)(np.abs(p) + 1)) for p in [*wide, *others])
    there = ~(np.isinf(want) & ~np.isinf(found) & (found > 1e25))
    compare(found[there], want[there], f"divergence of {what} from that at {others}",
            10 * row.near, (slack + 16 * _UNIT * size * (row.near > 5e-5))[there])  # fmt: skip
    same = package.kl_divergence(pair[0], pair[0]).numpy()
    assert (np.abs(same) <= 1e-3).all(), f"divergence of {what} from itself: {same}"


def _run(row: Density, place: Place) -> None:
    package = import_module(PACKAGE)
    for turn in range(_TURNS):
        rng = source([place.seed, crc32(row.label.encode()), turn])
        parameters = _parameters(
            row, rng, _BATCHES[int(rng.integers(len(_BATCHES)))] if turn else a_shape(rng, 0, 1)
        )
        wide = _wide(parameters)
        what = f"{row.label}({', '.join(str(p.tolist()) for p in parameters)})"
        kind = float32 if turn or not place.plain.info.dtypes.get(float64) else float64
        given: list[Any] = [calor.asarray(p, dtype=kind) for p in parameters]
        # A distribution of numbers takes Python's, too.
        if not wide[0].ndim and coin(rng):
            kind, given = float32, [float(p) for p in parameters]
        made = _made(package, row, given)
        assert (made.batch_shape, made.event_shape) == (wide[0].shape, ()), (
            f"{what}: batch {made.batch_shape}, event {made.event_shape}"
        )
        x = _points(row, rng, wide)
        _typed(row, made, kind, what)
        _densities(row, made, x, wide, what)
        _shares(row, made, rng, x, wide, what)
        _moments(row, made, x, wide, what)
        if row.diverges:
            _apart(row, package, rng, wide, what)
        if turn:
            jitted = not place.interactive or coin(rng)
            _slopes(row, package, x, wide, jitted, what)
            _drawn(row, made, rng, wide, what)
            if made.has_rsample:
                _moving(row, package, rng, jitted, wide, what)


def probabilities() -> Iterator[Check]:
    """Yield a check of each family, if the package is installed."""
    if find_spec(PACKAGE) is None:
        return
    for row in DENSITIES:
        yield Check(
            kind="functions",
            subject=f"{PACKAGE}.{row.label}",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, row),
            text=partial(inspect.getsource, row.draw),
            dtypes=(float32, int64, uint32, bool_),
            features=("control_flow",),
            looks=True,
        )
