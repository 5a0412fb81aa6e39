"""Seeds, keys and generators: which numbers come, in every dtype and form, after any history.

The numbers of a stream are a function of its key and of how often was drawn, so each is computed
here again, by integer arithmetic. Seeds, shapes, ranges, orders of what is done, and forms are
drawn.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import (
    DType,
    as_dtype,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint32,
    uint64,
)

from ..rows import oracle_random as oracle
from .base import Array, Place
from .contract import Contracts

contract = Contracts("random")
_MASK: Final = (1 << 64) - 1
Rng = np.random.Generator


def _drawn_seed(rng: Rng) -> tuple[Any, int]:
    """Return a seed in one of the forms in which users have it, and the key that it stands for."""
    form = int(rng.integers(4))
    if form == 0:
        kind = np.dtype(
            str(rng.choice(("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")))
        )
        ends = np.iinfo(kind)
        seed: Any = kind.type(rng.integers(ends.min, ends.max, dtype=kind, endpoint=True))
    elif form == 1:
        seed = int(rng.integers(-100, 100))
    else:
        words = (int(w) for w in rng.integers(0, 1 << 32, 3))
        seed = sum(w << 32 * i for i, w in enumerate(words)) >> int(rng.integers(96))
        seed = -seed if rng.random() < 0.5 else seed
    return seed, int(seed) & _MASK


def _key_of(words: Any) -> int:
    low, high = words.tolist()
    return int(low) | int(high) << 32


def _shape(rng: Rng, least: int = 0) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(1, 6, int(rng.integers(least, 4))))


def _same(got: Any, want: Any, what: str) -> None:
    found, wanted = np.asarray(got.numpy()), np.asarray(want)
    assert found.shape == wanted.shape, f"{what}: shape {found.shape}, not {wanted.shape}"
    wrong = np.flatnonzero(found.reshape(-1) != wanted.reshape(-1))
    if wrong.size:
        at = int(wrong[0])
        got_, want_ = found.reshape(-1)[at], wanted.reshape(-1)[at]
        raise AssertionError(f"{what}: {got_!r} at {at}, not {want_!r}")


@contract("a seed of any size, sign and kind is the key of its lowest 64 bits, whose numbers come",
          dtypes=(uint32,), tier="full")  # fmt: skip
def seeds(place: Place) -> None:
    rng = np.random.default_rng([place.seed, 1])
    for _ in range(25):
        seed, key = _drawn_seed(rng)
        made = calor.random.key(seed)
        what = f"key({seed!r})"
        assert _key_of(made) == key, f"{what} is {made.tolist()}"
        shape = _shape(rng)
        size = int(np.prod(shape))
        _same(
            calor.random.bits(shape, key=made),
            oracle.numbers(key, size).reshape(shape),
            f"bits of {what}",
        )
        count = int(rng.integers(1, 7))
        split = calor.random.split(made, count)
        wants = oracle.parts(key, count)
        assert [_key_of(k) for k in split] == wants, f"{count} parts of {what}: {split.tolist()}"
        part = int(rng.integers(count))
        again = [_key_of(k) for k in calor.random.split(split[part])]
        assert again == oracle.parts(wants[part], 2), f"parts of part {part} of {what}: {again}"
        stream = calor.random.Generator(seed)
        for draw in range(2):
            want = oracle.numbers(key, size, counter=oracle.after(draw)).reshape(shape)
            made = calor.random.bits(shape, generator=stream)
            _same(made, want, f"draw {draw} of Generator({seed!r})")
    not_whole: tuple[Any, ...] = (1.0, np.float32(2), "1", None, 1j)
    for bad in not_whole:
        for ask in (calor.random.key, calor.random.Generator, calor.random.seed):
            _refused(partial(ask, bad), TypeError, "whole number")


def _refused(work: Callable[[], Any], kind: type[Exception], says: str) -> None:
    """Require that a function raises an error of a kind that says something."""
    found: Exception | None = None
    try:
        work()
    except Exception as error:
        found = error
    assert isinstance(found, kind), f"{work}: {found!r}"
    assert says in str(found), f"{work}: {found}"


@contract(
    "a uniform number has all the bits of its significand from its word, in any range",
    of=(float16, bfloat16, float32, float64),
    dtypes=(uint32,),
    tier="full",
)
def digits(place: Place, dtype: DType) -> None:
    rng = np.random.default_rng([place.seed, 2])
    for count in (1, 7, 1000):
        _, key = _drawn_seed(rng)
        want = oracle.uniform(key, count, dtype.name)
        made = calor.random.uniform((count,), dtype=dtype, key=calor.random.key(key))
        assert made.dtype is dtype, f"{made.dtype}"
        _same(made, want.astype(dtype.numpy), f"uniform of key({key})")
        low = float(rng.integers(-8, 8))
        high = low + float(2.0 ** rng.integers(-3, 4))
        moved = calor.random.uniform((count,), low, high, dtype=dtype, key=calor.random.key(key))
        near = 2.0 ** -(oracle.DIGITS[dtype.name][1] - 1) * max(abs(low), abs(high))
        away = np.abs(moved.numpy().astype(np.float64) - (low + (high - low) * want)).max()
        assert away <= near, f"uniform in [{low}, {high}) is {away} off"
    _fair(oracle.DIGITS[dtype.name][1], dtype, place)


def _fair(kept: int, dtype: DType, place: Place) -> None:
    """Each bit is 1 as often as 0, and no two bits of a number, or of neighbours, go together."""
    count = 4096
    made = calor.random.uniform((count,), dtype=dtype, key=calor.random.key(place.seed + 77))
    whole = (made.numpy().astype(np.float64) * 2.0**kept).astype(np.int64)
    signs = 1.0 - 2.0 * (whole[:, None] >> np.arange(kept) & 1)
    # 7 standard deviations: a correct device fails with a probability below 1e-8 of all pairs.
    near = 7.5 / np.sqrt(count)
    for lag in (0, 1, 2, 4):
        together = signs[lag:].T @ signs[: count - lag] / count
        if not lag:
            np.fill_diagonal(together, signs.mean(0))
        worst = np.unravel_index(np.argmax(np.abs(together)), together.shape)
        assert np.abs(together).max() <= near, (
            f"bits {worst} of numbers {lag} apart go together: {together[worst]:.3f}"
        )


# The ends of integer ranges: small, of one number, at thresholds of the words, and whole dtypes.
def _drawn_range(rng: Rng, dtype: DType) -> tuple[int, int]:
    ends = np.iinfo(dtype.numpy)
    low, high = int(ends.min), int(ends.max) + 1
    whole = high - low
    if rng.random() < 0.2:
        return (low, high) if whole < 1 << 64 else (low, high - 1)
    near = (1, 2, 3, 255, 256, 257, 65535, 65536, 65537, (1 << 31) - 1, 3 << 29, 1 << 32,
            (1 << 33) + 1, (3 << 61) + 1)  # fmt: skip
    span = min(int(near[int(rng.integers(len(near)))]), whole - 1)
    first = (
        low + int(rng.random() * (whole - span)) if rng.random() < 0.6 else max(low, -(span // 2))
    )
    return min(first, high - span), min(first, high - span) + span


@contract(
    "integers of any range are those of their words, of every dtype from its least to its greatest",
    dtypes=(uint32, uint64, int64),
    tier="full",
)
def ranges_of_integers(place: Place) -> None:
    rng = np.random.default_rng([place.seed, 3])
    stored = place.plain.info.dtypes
    kinds = [k for k in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
             if stored.get(as_dtype(k))]  # fmt: skip
    for _ in range(30):
        dtype = as_dtype(str(rng.choice(kinds)))
        low, high = _drawn_range(rng, dtype)
        _, key = _drawn_seed(rng)
        shape = _shape(rng)
        made = calor.random.integers(low, high, shape, dtype=dtype, key=calor.random.key(key))
        assert made.dtype is dtype, f"{made.dtype}, not {dtype}"
        want = oracle.integers(key, int(np.prod(shape)), low, high)
        _same(made, np.array(want, dtype.numpy).reshape(shape), f"integers({low}, {high}, {dtype})")
    for low, high in ((0, 3 << 30), (-(5 << 29), 5 << 28), (0, 3 << 15), (7, (1 << 40) + 7)):
        many = calor.random.integers(low, high, (4096,), key=calor.random.key(place.seed)).numpy()
        shares = np.histogram(many, 8, (low, high))[0] / 4096
        # 7 standard deviations of a share of an eighth.
        assert np.abs(shares - 0.125).max() < 0.0365, f"shares of [{low}, {high}): {shares}"
    for low, high in ((0, 0), (3, 3), (5, -5)):
        _refused(partial(calor.random.integers, low, high, (2,)), ValueError, "is empty")


@contract("an order has each number once, and it is the order of the stream's words",
          dtypes=(uint32, uint64, int32, int64), tier="full")  # fmt: skip
def orders_of_words(place: Place) -> None:
    rng = np.random.default_rng([place.seed, 4])
    for count in (0, 1, 2, 3, 7, 64, 257, 1500):
        _, number = _drawn_seed(rng)
        key = calor.random.key(number)
        want = oracle.order(number, count)
        _same(calor.random.permutation(count, key=key), want, f"permutation({count})")
        if not count:
            continue
        rest = _shape(rng)[:2]
        axis = int(rng.integers(0, len(rest) + 1))
        x = np.moveaxis(np.arange(count * int(np.prod(rest))).reshape(count, *rest), 0, axis)
        x = np.ascontiguousarray(x.astype(np.int32))
        tensor, named = calor.asarray(x), axis - (x.ndim if rng.random() < 0.5 else 0)
        made = calor.random.shuffle(tensor, axis=named, key=key)
        _same(made, np.take(x, want, axis), f"shuffle of {x.shape} along {named}")
        lines = np.moveaxis(x, axis, 0)
        few = int(rng.integers(1, count + 1))
        shape = (few, 1) if rng.random() < 0.3 else (few,)
        chosen = calor.random.choice(calor.asarray(lines), shape, replace=False, key=key)
        _same(chosen, lines[want[:few]].reshape(*shape, *rest), f"{few} of {count}")
        again = calor.random.choice(calor.asarray(lines), shape, key=key)
        places = oracle.integers(number, few, 0, count)
        _same(again, lines[places].reshape(*shape, *rest), f"{few} of {count} with replacement")
    four = partial(calor.random.choice, calor.arange(3), (4,), replace=False)
    _refused(four, ValueError, "replace=True")


class _LeftError(Exception):
    """What ends a block before its end."""


class _Stream:
    """A generator, and the key and number of draws that it should be at."""

    def __init__(self, seed: int) -> None:
        self.made = calor.random.Generator(seed)
        self.key, self.draws = seed & _MASK, 0
        self.kept: list[tuple[Any, int, int]] = []
        self.names: list[str] = []
        self.jitted = calor.jit(self._two)

    def want(self, count: int, dtype: str = "float32") -> Array:
        made = oracle.uniform(self.key, count, dtype, oracle.after(self.draws))
        self.draws += 1
        return made

    def _two(self) -> Any:
        return self.made.uniform((3,)), calor.random.uniform((2,), generator=self.made)

    def draw(self, rng: Rng) -> None:
        shape = _shape(rng)
        size = int(np.prod(shape))
        made = self.made.uniform(shape)
        _same(made, self.want(size).reshape(shape), f"a draw after {self.names}")

    def draw_later(self, rng: Rng) -> None:
        pending = [self.made.uniform((2,)) for _ in range(3)]
        wants = [self.want(2) for _ in range(3)]
        for made, want in zip(pending[::-1], wants[::-1], strict=True):
            _same(made, want, f"pending draws after {self.names}")

    def draw_jitted(self, rng: Rng) -> None:
        first, second = self.jitted()
        _same(first, self.want(3), f"a jitted draw after {self.names}")
        _same(second, self.want(2), f"a second jitted draw after {self.names}")

    def keep(self, rng: Rng) -> None:
        self.kept.append((self.made.state, self.key, self.draws))

    def restore(self, rng: Rng) -> None:
        if self.kept:
            state, self.key, self.draws = self.kept[int(rng.integers(len(self.kept)))]
            self.made.set_state(state)

    def visit(self, rng: Rng) -> None:
        if self.kept:
            state, key, draws = self.kept[int(rng.integers(len(self.kept)))]
            now = self.key, self.draws
            with suppress(_LeftError), self.made.at(state):
                self.key, self.draws = key, draws
                self.draw(rng)
                if rng.random() < 0.5:
                    raise _LeftError
            self.key, self.draws = now

    def seed(self, rng: Rng) -> None:
        seed, self.key = _drawn_seed(rng)
        self.made.seed(seed)
        self.draws = 0

    def copy(self, rng: Rng) -> None:
        """A copy goes on where the stream is, and does not move it."""
        pickled = pickle.dumps(self.made)
        other = copy.deepcopy(self.made) if rng.random() < 0.5 else pickle.loads(pickled)
        now = self.draws
        _same(other.uniform((3,)), self.want(3), f"a copy after {self.names}")
        self.draws = now

    def mapped(self, rng: Rng) -> None:
        """One draw for all elements of a mapped axis."""
        made = calor.vmap(lambda x: x + self.made.uniform(), randomness="same")(calor.zeros(3))
        _same(made, np.repeat(self.want(1), 3), f"a mapped draw after {self.names}")


_ACTIONS: Final = ("draw", "draw", "draw_later", "draw_jitted", "keep", "restore", "visit", "seed",
                   "copy", "mapped")  # fmt: skip


@contract("after any history of draws, seeds and restored states a stream goes on where it is",
          dtypes=(uint32, float32), tier="compiled")  # fmt: skip
def drawn_streams(place: Place) -> None:
    for number in range(3):
        rng = np.random.default_rng([place.seed, 5, number])
        stream = _Stream(_drawn_seed(rng)[1])
        for _ in range(14):
            name = str(rng.choice(_ACTIONS))
            getattr(stream, name)(rng)
            stream.names.append(name)
    rng = np.random.default_rng([place.seed, 6])
    kept = calor.random.default_generator.state
    try:
        seed, key = _drawn_seed(rng)
        for _ in range(2):
            calor.random.seed(seed)
            for draw in range(3):
                want = oracle.uniform(key, 4, "float32", oracle.after(draw))
                _same(calor.random.uniform((4,)), want, f"draw {draw} after seed({seed!r})")
    finally:
        calor.random.default_generator.set_state(kept)


_DRAWS: Final = calor.random
# What is drawn at a key, of dtypes that a device computes with.
_OF_KEYS: Final[dict[str, Callable[[Any], Any]]] = {
    "bits": lambda k: _DRAWS.bits((3,), key=k), "split": lambda k: _DRAWS.split(k, 3),
    "bits of 8": lambda k: _DRAWS.bits((5,), width=8, key=k),
    "uniform": lambda k: _DRAWS.uniform((2, 3), key=k),
    "integers": lambda k: _DRAWS.integers(-5, 100, (4,), key=k),
    "bernoulli": lambda k: _DRAWS.bernoulli((7,), 0.3, key=k),
    "permutation": lambda k: _DRAWS.permutation(6, key=k),
    "choice": lambda k: _DRAWS.choice(calor.arange(5), (3,), replace=False, key=k),
    "normal": lambda k: _DRAWS.normal((5,), 1.0, 2.0, key=k),
    "exponential": lambda k: _DRAWS.exponential((5,), 2.0, key=k),
    "gumbel": lambda k: _DRAWS.gumbel((5,), key=k),
    "truncated_normal": lambda k: _DRAWS.truncated_normal((5,), key=k),
    "categorical": lambda k: _DRAWS.categorical(calor.zeros((4, 3)), key=k),
}  # fmt: skip


def _looped(draw: Callable[[Any], Any], keys: Any) -> Any:
    return calor.scan(lambda carry, key: (carry, draw(key)), calor.zeros(()), keys)[1]


@contract("a key gives the same numbers at once, jitted, mapped over keys and in loops",
          dtypes=(uint32, uint64, float32, int64, bool_), features=("control_flow",),
          tier="compiled")  # fmt: skip
def keys_in_every_form(place: Place) -> None:
    keys = calor.random.split(calor.random.key(place.seed), 3)
    for name, draw in _OF_KEYS.items():
        want = np.stack([draw(k).numpy() for k in keys])
        if name in ("bits", "split", "uniform", "normal"):
            assert len({row.tobytes() for row in want}) == 3, f"{name} of three keys: {want}"
        again = np.stack([draw(k).numpy() for k in keys])
        assert (again == want).all(), f"{name}: the same keys draw {again}, then {want}"
        jitted = calor.jit(draw)
        found = {
            "jitted": np.stack([jitted(k).numpy() for k in keys]),
            "mapped": calor.vmap(draw)(keys).numpy(),
            "in a jitted map": calor.jit(calor.vmap(draw))(keys).numpy(),
            "in a loop": _looped(draw, keys).numpy(),
        }
        for how, got in found.items():
            assert got.shape == want.shape, f"{name} {how}: {got.shape}, not {want.shape}"
            exact = want.dtype.kind != "f" or name == "uniform"
            near = 0 if exact else 1e-5 * np.maximum(np.abs(want), 1)
            assert (np.abs(got - want * 1.0) <= near).all(), f"{name} {how}: {got}, not {want}"


CHECKS = contract.checks
