"""Random numbers follow their distributions, and orders are orders of all that they are given.

The share of numbers below points is compared with the distribution function, so a wrong sign, range
or parameter is seen, whatever the generator's bits are.
"""

from __future__ import annotations

import bisect
import inspect
import math
from collections.abc import Callable, Iterator
from functools import partial
from statistics import NormalDist
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType, bfloat16, bool_, float16, float32, float64, int32, int64, uint32
from calor.random import bits

from ..rows.families import CORE, FURTHER, Family
from ..rows.oracle_random import DIGITS
from .base import Array, Check, Place
from .contract import Contracts

contract = Contracts("random")
_COUNT, _NEAR = 4000, 0.035
# Shares at which numbers are looked at.
_SHARES: Final = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)


def _bell(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def _cut_bell(x: float) -> float:
    """Return the distribution function of a normal number in [-1, 0.5]."""
    low, high = _bell(-1.0), _bell(0.5)
    return (min(max(_bell(x), low), high) - low) / (high - low)


_DRAWS: Final = calor.random
# How numbers are drawn, and the share of them below x.
_DRAWN: Final[dict[str, tuple[Callable[..., Any], Callable[[float], float]]]] = {
    "uniform": (lambda **k: _DRAWS.uniform((_COUNT,), -1.0, 3.0, **k),
                lambda x: min(max((x + 1) / 4, 0.0), 1.0)),
    "normal": (lambda **k: _DRAWS.normal((_COUNT,), 1.0, 2.0, **k), lambda x: _bell((x - 1) / 2)),
    "truncated_normal": (
        lambda **k: _DRAWS.truncated_normal((_COUNT,), 1.0, 2.0, low=-1.0, high=0.5, **k),
        lambda x: _cut_bell((x - 1) / 2)),
    "exponential": (lambda **k: _DRAWS.exponential((_COUNT,), 2.0, **k),
                    lambda x: 1 - math.exp(-max(x, 0.0) / 2)),
    "gumbel": (lambda **k: _DRAWS.gumbel((_COUNT,), **k),
               lambda x: math.exp(-math.exp(min(-x, 50.0)))),
}  # fmt: skip


def _point(share: Callable[[float], float], wanted: float) -> float:
    """Return the number below which there is a share."""
    low, high = -60.0, 60.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if share(middle) < wanted else (low, middle)
    return low


def _key(place: Place, number: int) -> Any:
    return calor.random.key(1000 * place.seed + number)


@contract(
    "as many numbers are below a point as the distribution says",
    of=(float16, bfloat16, float32, float64),
    dtypes=(uint32,),
    tier="full",
)
def distributions(place: Place, dtype: DType) -> None:
    for number, (name, (draw, share)) in enumerate(_DRAWN.items()):
        made = draw(dtype=dtype, key=_key(place, number))
        assert made.dtype is dtype, f"{name}: {made.dtype}"
        drawn = made.numpy().astype(np.float64)
        assert np.isfinite(drawn).all(), f"{name}: {drawn[~np.isfinite(drawn)][:3]}"
        for wanted in _SHARES:
            point = _point(share, wanted)
            # Numbers of few digits may be at the point itself.
            least, most = np.mean(drawn < point), np.mean(drawn <= point)
            assert least - _NEAR <= wanted <= most + _NEAR, (
                f"{name}: {least:.3f} of the numbers are below {point:.4g}, not {wanted}"
            )
        apart = len(set(drawn.tolist()))
        assert apart > 100, f"{name}: {apart} different numbers among {_COUNT}"


def _shares(drawn: Array, count: int) -> Array:
    return np.bincount(drawn.reshape(-1), minlength=count) / drawn.size


@contract("each outcome is as frequent as its probability", dtypes=(uint32, float32, int64),
          tier="full")  # fmt: skip
def outcomes(place: Place) -> None:
    weights = np.array([0.1, 0.2, 0.0, 0.4, 0.3], np.float32)
    with np.errstate(divide="ignore"):
        logits = np.log(weights)
    many = calor.asarray(np.repeat(logits[None], _COUNT, 0))
    found: dict[str, tuple[Any, Any]] = {
        "bernoulli": (calor.random.bernoulli((_COUNT,), 0.3, key=_key(place, 1)), [0.7, 0.3]),
        "integers": (calor.random.integers(-2, 3, (_COUNT,), key=_key(place, 2)) + 2, [0.2] * 5),
        "categorical": (calor.random.categorical(many, key=_key(place, 3)), weights),
        "categorical along 0": (
            calor.random.categorical(calor.permute_dims(many, (1, 0)), axis=0, key=_key(place, 4)),
            weights,
        ),
        "choice": (calor.random.choice(calor.arange(4), (_COUNT,), key=_key(place, 5)), [0.25] * 4),
    }
    for name, (made, want) in found.items():
        drawn = made.numpy().astype(np.int64)
        assert drawn.shape == (_COUNT,), f"{name}: shape {drawn.shape}"
        assert drawn.min() >= 0, f"{name}: {drawn.min()} is below the least"
        assert drawn.max() < len(want), f"{name}: {drawn.max()} is above the greatest"
        wrong = np.abs(_shares(drawn, len(want)) - want) > _NEAR
        wrong |= (np.asarray(want) == 0) & (_shares(drawn, len(want)) > 0)
        assert not wrong.any(), f"{name}: shares {_shares(drawn, len(want))}, not {want}"


@contract("orders have each element once, and each place as often as the others",
          dtypes=(uint32, int32, int64), tier="full")  # fmt: skip
def orders(place: Place) -> None:
    many = [calor.random.permutation(4, key=_key(place, k)).numpy() for k in range(150)]
    assert (np.sort(many, 1) == np.arange(4)).all(), f"{many[0]} is no order"
    shares = np.array([_shares(column, 4) for column in np.transpose(many)])
    assert (np.abs(shares - 0.25) < 0.14).all(), f"elements by place: {shares}"
    x = np.arange(30).reshape(2, 5, 3).astype(np.int32)
    for axis in (0, 1, 2, -1, -2):
        made = calor.random.shuffle(calor.asarray(x), axis=axis, key=_key(place, 200)).numpy()
        lines = np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1).tolist()
        moved = np.moveaxis(made, axis, 0).reshape(made.shape[axis], -1).tolist()
        assert made.shape == x.shape, f"axis {axis}: shape {made.shape}"
        assert sorted(moved) == lines, f"axis {axis}: {moved} are not the lines {lines}"
    drawn = calor.random.choice(calor.arange(9), (5,), replace=False, key=_key(place, 300)).numpy()
    assert len(set(drawn.tolist())) == 5, f"{drawn} without replacement"


# Numbers of a family, and how far their shares may be from those of its function anywhere: by the
# bound of Dvoretzky, Kiefer and Wolfowitz a correct device fails with a probability of 1e-11.
_MANY: Final = 20_000
_APART: Final = math.sqrt(math.log(2e11) / (2 * _MANY))
# The shares of the tails, whose counts are looked at for themselves.
_TAILS: Final = (1e-3, 1e-2, 0.99, 0.999)


def _further_away(share: float) -> float:
    """Return how many more or fewer than its mean a binomial count may be."""
    # Bernstein's bound at a probability of 1e-11.
    level = math.log(2e11)
    spread = _MANY * share * (1 - share)
    return level / 3 + math.sqrt(level * level / 9 + 2 * level * spread)


def _family(make: Callable[[np.random.Generator], Family], number: int, place: Place) -> None:
    rng = np.random.default_rng([place.seed, number])
    for turn in range(2):
        family = make(rng)
        key = calor.random.key(int(rng.integers(1 << 62)))
        # In one of two shapes: what is drawn depends on the number of elements alone.
        shape = (_MANY,) if turn else (_MANY // 100, 4, 25)
        made = family.draw(shape, dtype=None if family.whole else float32, key=key)
        what = f"at {family.parameters}"
        assert made.shape == shape, f"{what}: shape {made.shape}"
        drawn = np.sort(made.numpy().reshape(-1).astype(np.float64))
        assert np.isfinite(drawn).all(), f"{what}: {drawn[~np.isfinite(drawn)][:3]}"
        _near(family, drawn, what)
        # Neighbours do not go together: as often as not one is above the middle and the next below.
        flat = made.numpy().reshape(-1).astype(np.float64)
        high = flat > np.median(flat)
        share = float(high.mean())
        for lag in (1, 2, 4):
            together = float((high[lag:] & high[:-lag]).mean())
            assert abs(together - share * share) < 0.03, f"{what}: numbers {lag} apart go together"


def _near(family: Family, drawn: Array, what: str) -> None:
    points = np.unique(drawn[:: _MANY // 200])
    if family.whole:
        assert (drawn == np.floor(drawn)).all(), f"{what}: {drawn[drawn != np.floor(drawn)][:3]}"
        points = np.unique([*points, *(points - 1)])
    for x in points:
        want, least = family.share(float(x)), np.searchsorted(drawn, x) / _MANY
        most = np.searchsorted(drawn, x, "right") / _MANY
        least = most if family.whole else least
        assert least - _APART <= want <= most + _APART, (
            f"{what}: {most:.4f} of the numbers are at most {x:.5g}, not {want:.4f}"
        )
    if family.whole:
        return
    for tail in _TAILS:
        count = bisect.bisect_right(drawn, tail, key=lambda x: family.share(float(x)))
        assert abs(count - tail * _MANY) <= _further_away(tail), (
            f"{what}: {count} of {_MANY} numbers are below the share {tail}"
        )
    ends = family.share(float(drawn[0])), family.share(float(drawn[-1]))
    assert ends[0] < 0.002, f"{what}: the least number is at the share {ends[0]}"
    assert ends[1] > 0.998, f"{what}: the greatest number is at the share {ends[1]}"


def _inverses(place: Place, dtype: DType) -> None:
    """Normal numbers are the inverse of the distribution function at evenly spaced shares."""
    digits = DIGITS[dtype.name][1] - 1
    count, rng = 1 << 16, np.random.default_rng([place.seed, 9])
    number = int(rng.integers(1 << 62))
    words = bits((count,), width=DIGITS[dtype.name][0], key=calor.random.key(number)).numpy()
    shares = ((words >> (8 * words.itemsize - digits)).astype(np.float64) + 0.5) * 2.0**-digits
    # The extremes, and some of the others.
    order = np.argsort(shares)
    picked = np.concatenate([order[:40], order[-40:], order[:: count // 100]])
    drawn = calor.random.normal((count,), dtype=dtype, key=calor.random.key(number)).numpy()
    near = 2.0 ** -(digits - 1) * 8
    for x, share in zip(drawn[picked].astype(np.float64), shares[picked], strict=True):
        want = _NORMAL.inv_cdf(float(share))
        assert abs(x - want) <= near * max(abs(want), 1), f"{x} is not {want}, at {share}"


_NORMAL: Final = NormalDist()


@contract(
    "normal numbers are the inverse of their distribution function, to the extremes of each dtype",
    of=(float16, bfloat16, float32, float64),
    dtypes=(uint32,),
    tier="full",
)
def extremes(place: Place, dtype: DType) -> None:
    _inverses(place, dtype)


@contract("indices of given weights are as frequent as those, and none comes twice unless it may",
          dtypes=(uint32, float32, int64), tier="full")  # fmt: skip
def multinomials(place: Place) -> None:
    rng, rows = np.random.default_rng([place.seed, 11]), 1 << 13
    # 7 standard deviations of a share of one half.
    near = 3.5 / math.sqrt(rows)
    for turn in range(4):
        weights = rng.random(int(rng.integers(3, 8))).astype(np.float32) + np.float32(0.05)
        count, replace = int(rng.integers(2, 4)), turn % 2 == 0
        many = calor.asarray(np.repeat(weights[None], rows, 0))
        key = calor.random.key(int(rng.integers(1 << 62)))
        drawn = calor.random.multinomial(many, count, replace=replace, key=key).numpy()
        assert drawn.shape == (rows, count), f"shape {drawn.shape}"
        share = weights / weights.sum()
        for k in range(count if replace else 1):
            away = np.abs(_shares(drawn[:, k], weights.size) - share)
            assert away.max() < near, f"draw {k} of {share} has shares that are {away} off"
        twice = float((drawn[:, 0] == drawn[:, 1]).mean())
        want = float(np.sum(share * share)) if replace else 0.0
        assert abs(twice - want) <= near * replace, f"{twice} of {want} come twice, of {share}"
        # The second without replacement has the weights that the first left.
        if not replace:
            left = np.sum(share[:, None] * share / (1 - share[:, None]), 0)
            left -= share * share / (1 - share)
            away = np.abs(_shares(drawn[:, 1], weights.size) - left)
            assert away.max() < near, f"second draws of {share} have shares that are {away} off"


def families() -> Iterator[Check]:
    """Yield a check of each family of random numbers."""
    for number, (name, make) in enumerate({**CORE, **FURTHER}.items()):
        yield Check(
            kind="random",
            subject=f"drawn-{name}",
            tier="full",
            contract="numbers of a family have the shares of its distribution function, tails too",
            run=partial(_family, make, number),
            text=partial(inspect.getsource, make),
            dtypes=(uint32, float32, int64, bool_),
            features=("control_flow",) if name in FURTHER else (),
            looks=True,
        )


@contract("keys and draws differ from each other, and a state gives the same draw again",
          dtypes=(uint32, float32), tier="full")  # fmt: skip
def streams(place: Place) -> None:
    key = _key(place, 1)
    every = [key, *calor.random.split(key, 3), _key(place, 2), _key(place, 1 << 33)]
    drawn = [tuple(calor.random.bits((4,), key=k).tolist()) for k in every]
    assert len(set(drawn)) == len(drawn), f"two keys draw the same: {drawn}"
    generator = calor.random.Generator(place.seed)
    state = generator.state
    first, second = (generator.uniform((4,)).tolist() for _ in range(2))
    assert first != second, f"two draws are {first}"
    with generator.at(state):
        assert generator.uniform((4,)).tolist() == first, "an earlier state draws otherwise"
    assert generator.uniform((4,)).tolist() not in (first, second), "a draw comes again"
    generator.seed(place.seed)
    assert generator.uniform((4,)).tolist() == first, "the same seed draws otherwise"


# Seeds that differ in one half of 64 bits, in their highest bits, and in nothing but a sign.
_SEEDS: Final = (0, 1, 2, 1 << 31, 1 << 32, 1 + (1 << 32), (1 << 63) + 1, (1 << 64) - 2)


@contract("streams of seeds, of keys, of what is split from keys, and of later draws have no words "
          "in common, nor have keys", dtypes=(uint32,), tier="full")  # fmt: skip
def streams_apart(place: Place) -> None:
    words: dict[int, str] = {}

    def add(made: Any, what: str) -> None:
        for word in made.numpy().reshape(-1).tolist():
            other = words.setdefault(word, what)
            assert other == what, f"{what} and {other} have the word {word}"

    for seed in _SEEDS:
        key = calor.random.key(seed)
        add(calor.random.bits((16,), key=key), f"key({seed})")
        for n, part in enumerate(calor.random.split(key, 3)):
            what = f"part {n} of key({seed})"
            add(part, what)
            add(calor.random.bits((16,), key=part), what)
            for m, again in enumerate(calor.random.split(part)):
                add(again, f"part {m} of {what}")
                add(calor.random.bits((16,), key=again), f"part {m} of {what}")
        generator = calor.random.Generator(seed)
        for n in range(4):
            made = calor.random.bits((16,), generator=generator)
            # Its first draw is that of the key.
            if n:
                add(made, f"draw {n} of Generator({seed})")


CHECKS = contract.checks
