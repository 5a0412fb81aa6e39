"""Integers about the ends of smaller types: 2⁷ to 2⁶³, where floats and narrow integers lose them.

Whole numbers are drawn about the powers of two that a narrower type, or a float, ends at. Functions
that order, compare, count and choose must tell neighbours apart; bounds of loops, ranges, shifts
and places beyond a type are what Python's are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import DType, float32, int8, int32, int64, uint64

from .base import Array, Check, Place

CONTRACT: Final = "whole numbers about the ends of narrower types are exact"
_TURNS, _SIZE = 4, 9
_POWERS: Final = (7, 8, 15, 16, 24, 31, 32, 53, 62)
Rng = np.random.Generator
# Functions of x, of y of the same numbers in another order, and of a number among them.
_FUNCTIONS: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    "sort": (lambda x, y, n: calor.sort(x), lambda x, y, n: np.sort(x)),
    "argsort": (lambda x, y, n: calor.argsort(x), lambda x, y, n: np.argsort(x, kind="stable")),
    "max": (lambda x, y, n: calor.max(x), lambda x, y, n: np.max(x)),
    "min": (lambda x, y, n: calor.min(x), lambda x, y, n: np.min(x)),
    "argmax": (lambda x, y, n: calor.argmax(x), lambda x, y, n: np.argmax(x)),
    "argmin": (lambda x, y, n: calor.argmin(x), lambda x, y, n: np.argmin(x)),
    "equal": (lambda x, y, n: x == y, lambda x, y, n: x == y),
    "less": (lambda x, y, n: x < y, lambda x, y, n: x < y),
    "equal a number": (lambda x, y, n: x == n, lambda x, y, n: x == n),
    "less than a number": (lambda x, y, n: x < n, lambda x, y, n: x < n),
    "greater or a number": (lambda x, y, n: n <= x, lambda x, y, n: n <= x),
    "maximum": (lambda x, y, n: calor.maximum(x, n),
                lambda x, y, n: np.maximum(x, x.dtype.type(n))),
    "clip": (lambda x, y, n: calor.clip(x, n), lambda x, y, n: np.maximum(x, x.dtype.type(n))),
    "sub": (lambda x, y, n: x - y, lambda x, y, n: x - y),
    "sum": (lambda x, y, n: calor.sum(x), lambda x, y, n: np.sum(x)),
    "cumulative sum": (lambda x, y, n: calor.cumulative_sum(x), lambda x, y, n: np.cumsum(x)),
    "floor_divide": (lambda x, y, n: x // 3, lambda x, y, n: x // x.dtype.type(3)),
    "remainder": (lambda x, y, n: x % 5, lambda x, y, n: x % x.dtype.type(5)),
    "bitwise_and": (lambda x, y, n: x & y, lambda x, y, n: x & y),
    "right shift": (lambda x, y, n: x >> 1, lambda x, y, n: x >> x.dtype.type(1)),
    "where": (lambda x, y, n: calor.where(x < y, x, n),
              lambda x, y, n: np.where(x < y, x, x.dtype.type(n))),
    "searchsorted": (lambda x, y, n: calor.searchsorted(calor.sort(x), y),
                     lambda x, y, n: np.searchsorted(np.sort(x), y)),
    "unique": (lambda x, y, n: calor.unique_values(x), lambda x, y, n: np.unique(x)),
    "isin": (lambda x, y, n: calor.isin(x, y[:3]), lambda x, y, n: np.isin(x, y[:3])),
    "a read": (lambda x, y, n: x[2], lambda x, y, n: x[2]),
    "an assignment": (lambda x, y, n: _put(x * 1, n), lambda x, y, n: _put(x.copy(), n)),
    "full": (lambda x, y, n: calor.full((2,), n, dtype=x.dtype),
             lambda x, y, n: np.full(2, n, x.dtype)),
    "stack": (lambda x, y, n: calor.stack([x, y]), lambda x, y, n: np.stack([x, y])),
}  # fmt: skip


def _put(x: Any, number: int) -> Any:
    x[1] = number
    return x


def _about(rng: Rng, kind: DType) -> tuple[Array, int]:
    """Return numbers about an end within a dtype, all near each other, and one of them."""
    ends = np.iinfo(kind.numpy)
    fitting = [p for p in _POWERS if (1 << p) <= ends.max] + [ends.bits - (ends.min < 0)]
    middle = 1 << fitting[int(rng.integers(len(fitting)))]
    if ends.min < 0 and rng.random() < 0.4:
        middle = -middle
    numbers = [min(max(middle + int(d), ends.min), ends.max) for d in rng.integers(-3, 4, _SIZE)]
    return np.array(numbers, kind.numpy), numbers[int(rng.integers(_SIZE))]


def _same(got: Any, want: Any, what: str) -> None:
    made, want = np.asarray(got.numpy()), np.asarray(want)
    same = made.shape == want.shape and bool(np.all(made == want))
    assert same, f"{what}: {made.tolist()}, not {want.tolist()}"


def _values(rng: Rng, place: Place) -> None:
    kinds = [d for d in (int64, uint64, int32) if place.plain.info.dtypes.get(d)]
    kind = kinds[int(rng.integers(len(kinds)))]
    numbers, number = _about(rng, kind)
    other = numbers[rng.permutation(_SIZE)]
    x, y = calor.asarray(numbers), calor.asarray(other)
    with np.errstate(all="ignore"):
        for name, (ours, theirs) in _FUNCTIONS.items():
            what = f"{name} of {kind.name}{numbers.tolist()}, {number}"
            want = theirs(numbers, other, number)
            _same(ours(x, y, number), want, what)
            if name != "unique":
                _same(calor.jit(partial(ours, n=number))(x, y), want, f"{what}, jitted")


def _loops(rng: Rng, place: Place) -> None:
    """Counted loops with bounds of any kind: their indices are those of Python's range."""
    middle = int(rng.choice([0, -3])) if rng.random() < 0.3 else int(
        (1 if rng.random() < 0.6 else -1) * (1 << int(rng.choice(_POWERS)))
    )  # fmt: skip
    lower = middle + int(rng.integers(-2, 3))
    upper = lower + int(rng.integers(-3, 5))
    want = list(range(lower, upper))

    def body(i: Any, carry: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        count, _, total = carry
        return count + 1, calor.astype(i, int64) * 1, total * 3 + (i - lower)

    forms: list[tuple[str, Callable[[int], Any]]] = [
        ("Python's", lambda n: n), ("NumPy's", np.int64),
        ("tensors", lambda n: calor.asarray(n, dtype=int64)),
    ]  # fmt: skip
    if min(lower, upper) >= -(1 << 31) and max(lower, upper) < 1 << 31:
        forms.append(("int32 tensors", lambda n: calor.asarray(n, dtype=int32)))
    if min(lower, upper) >= -128 and max(lower, upper) < 128:
        forms.append(("int8 tensors", lambda n: calor.asarray(n, dtype=int8)))
    start = tuple(calor.asarray(n, dtype=int64) for n in (0, -1, 0))
    total = 0
    for i in want:
        total = total * 3 + (i - lower)
    right = (len(want), want[-1] if want else -1, total)
    for name, form in forms:
        made = calor.fori_loop(form(lower), form(upper), body, start)
        got = tuple(int(t.item()) for t in made)
        assert got == right, f"fori_loop({lower}, {upper}), {name} bounds: {got}, not {right}"


def _places(rng: Rng, place: Place) -> None:
    """Ranges, slices, shifts and diagonals by numbers beyond 32 bits."""
    power = int(rng.choice((8, 16, 31, 32, 33, 40)))
    far = (1 << power) + int(rng.integers(-2, 3))
    sign, step = int(rng.choice((1, -1))), int(rng.integers(1, 4))
    start = sign * far
    _same(
        calor.arange(start, start + 7, step), np.arange(start, start + 7, step), f"arange({start})"
    )
    _same(calor.arange(start, start - 7, -step), np.arange(start, start - 7, -step),
          f"arange({start}, back)")  # fmt: skip
    numbers = rng.integers(-9, 10, (5, 4))
    x = calor.asarray(numbers)
    keys = {
        "to": slice(1, far), "from": slice(-far, 3), "beyond": slice(far, None),
        "back from": slice(far, None, -1), "by": slice(None, None, far),
    }  # fmt: skip
    for told, key in keys.items():
        _same(x[key], numbers[key], f"a slice {told} {far}")
    _same(calor.roll(x, start, axis=0), np.roll(numbers, start, 0), f"roll by {start}")
    for name in ("tril", "triu"):
        ours, theirs = getattr(calor, name), getattr(np, name)
        _same(ours(x, k=start), theirs(numbers, start), f"{name} at {start}")
    _same(calor.eye(3, 4, k=start), np.eye(3, 4, max(min(start, 9), -9)), f"eye at {start}")


def _run(place: Place) -> None:
    for number in range(_TURNS):
        for part in (_values, _loops, _loops, _places):
            if place.tries(number, 4):
                seed = [place.seed, crc32(part.__name__.encode()), number]
                part(np.random.default_rng(seed), place)
    if place.interpreted:
        for number in range(_TURNS, 10 * _TURNS):
            rng = np.random.default_rng([place.seed, crc32(b"_loops"), number])
            _loops(rng, place)


def ends_of_integers() -> Iterator[Check]:
    """Yield the check of integers about the ends of narrower types."""
    yield Check(
        kind="functions",
        subject="ends-of-integers",
        tier="full",
        contract=CONTRACT,
        run=_run,
        text=lambda: inspect.getsource(_values) + inspect.getsource(_loops),
        dtypes=(int64, int32, float32),
        looks=True,
    )
