"""Random numbers follow their distributions, and orders are orders of all that they are given.

The share of numbers below points is compared with the distribution function, so a wrong sign, range
or parameter is seen, whatever the generator's bits are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType, bfloat16, float16, float32, float64, int32, int64, uint32

from .base import Array, Place
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
