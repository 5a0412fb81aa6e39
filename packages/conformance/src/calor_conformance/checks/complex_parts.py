"""Complex numbers with one part that is NaN, infinite or a zero of either sign, in any lane.

A part is its own number: what moves, joins, chooses, compares or adds up complex numbers, or takes
a part of them, treats each part as a real number, and a magnitude is infinite where a part is. The
products and functions whose special numbers have no one meaning are not asked.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType, bool_, complex64, complex128, int64

from .base import Array, Check, Place, packed

CONTRACT: Final = "each part of a complex number is a number of its own, whatever the other is"
_PARTS: Final = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.5)
_LENGTHS: Final = (1, 3, 5, 9, 17, 40)
Function = Callable[..., Any]


def _of(name: str) -> tuple[Function, Function]:
    return getattr(calor, name), getattr(np, name)


def _of_first(name: str) -> tuple[Function, Function]:
    ours, theirs = _of(name)
    return (lambda x, y: ours(x)), (lambda x, y: theirs(x))


def _turned(x: Array) -> Array:
    return np.asarray(np.cumsum(x))


# What calor does with two tensors, and what it means.
_CALLS: Final[dict[str, tuple[Function, Function]]] = {
    **{name: _of_first(name) for name in (
        "isnan", "isinf", "isfinite", "abs", "real", "imag", "conj", "negative")},
    **{name: _of(name) for name in ("add", "subtract", "equal", "not_equal")},
    "where": (lambda x, y: calor.where(calor.isnan(x), y, x),
              lambda x, y: np.where(np.isnan(x), y, x)),
    "flip": (lambda x, y: calor.flip(x), lambda x, y: np.flip(x)),
    "roll": (lambda x, y: calor.roll(x, 1), lambda x, y: np.roll(x, 1)),
    "concat": (lambda x, y: calor.concat([x, y[::-1]]), lambda x, y: np.concatenate([x, y[::-1]])),
    "take": (lambda x, y: calor.take(x, calor.arange(x.shape[0]) // 2, axis=0),
             lambda x, y: np.take(x, np.arange(x.shape[0]) // 2, axis=0)),
    "steps": (lambda x, y: x[::-2], lambda x, y: x[::-2]),
    "pairs": (lambda x, y: calor.stack([x, y], axis=1), lambda x, y: np.stack([x, y], axis=1)),
    "truth": (lambda x, y: x.astype(bool_), lambda x, y: x.astype(bool)),
    "any": (lambda x, y: calor.any(x), lambda x, y: np.any(x)),
    "all": (lambda x, y: calor.all(x), lambda x, y: np.all(x)),
    "sum": (lambda x, y: calor.sum(x), lambda x, y: np.sum(x)),
    "sums": (lambda x, y: calor.sum(calor.stack([x, y]), axis=0),
             lambda x, y: np.sum(np.stack([x, y]), axis=0)),
    "running-sum": (lambda x, y: calor.cumulative_sum(x), lambda x, y: _turned(x)),
    "real-added": (lambda x, y: calor.real(x) + calor.imag(y), lambda x, y: x.real + y.imag),
}  # fmt: skip


def _operands(place: Place, dtype: DType, name: str) -> list[tuple[Array, Array]]:
    """Return pairs of arrays: all combinations of parts, then few of them in any lane."""
    rng = np.random.default_rng([place.seed, *name.encode()])
    every = np.array([complex(a, b) for a in _PARTS for b in _PARTS], dtype.numpy)
    made = [(every, rng.permutation(every))]
    for n in _LENGTHS:
        pair = [np.full(n, 0.5 - 2j, dtype.numpy) for _ in range(2)]
        for one in pair:
            at = rng.integers(0, n, 2)
            one[at] = rng.choice(every, 2)
        made.append((pair[0], pair[1]))
    return made


def _record(name: str, dtype: DType, place: Place) -> list[Any]:
    ours, _ = _CALLS[name]
    pairs = _operands(place, dtype, name)
    return [place.call(ours, calor.asarray(x), calor.asarray(y)) for x, y in pairs]


def _same(a: Array, b: Array) -> Array:
    """Return where numbers are equal or both NaN, in each part; zeros have no sign here."""
    if a.dtype.kind == "c":
        return _same(a.real, b.real) & _same(a.imag, b.imag)
    return np.asarray((a == b) | ((a != a) & (b != b)))


def _judge(name: str, dtype: DType, place: Place, found: Any) -> None:
    _, theirs = _CALLS[name]
    for (x, y), got in zip(_operands(place, dtype, name), found, strict=True):
        with np.errstate(all="ignore"):
            want = np.asarray(theirs(x, y))
            assert got.shape == want.shape, f"{name}: shape {got.shape}, not {want.shape}"
            assert got.dtype == want.dtype, f"{name}: {got.dtype}, not {want.dtype}"
            near = _same(got, want)
            if want.dtype.kind in "fc":
                near |= np.abs(got - want) <= 1e-5 * np.abs(want)
        wrong = np.argwhere(~near)
        assert not wrong.size, (
            f"{name} of {x.tolist()} and {y.tolist()}: {got[tuple(wrong[0])]} at "
            f"{wrong[0].tolist()}, not {want[tuple(wrong[0])]}"
        )


# Functions of which a number with one part NaN and the other finite has no finite result.
_SPREAD: Final[dict[str, Function]] = {
    "multiply": lambda x, y: x * y, "divide": lambda x, y: x / y, "square": lambda x, y: x * x,
    "sqrt": lambda x, y: calor.sqrt(x), "log": lambda x, y: calor.log(x),
    "sin": lambda x, y: calor.sin(x), "prod": lambda x, y: calor.prod(x[:, None] * y[:, None],
                                                                      axis=1),
    "mean": lambda x, y: calor.mean(calor.stack([x, y], axis=1), axis=1),
    "product": lambda x, y: calor.matmul(x[:, None], y[:1, None])[:, 0],
}  # fmt: skip


def _spread_operands(dtype: DType) -> tuple[Array, Array]:
    odd = [complex(np.nan, p) for p in (0.0, 1.0, -2.5)]
    odd += [complex(p, np.nan) for p in (0.0, 1.0, -2.5)]
    x = np.array([*odd, 1 + 2j, *odd[::-1], 0.5 - 1j, *odd], dtype.numpy)
    return x, np.full(x.size, 2 - 1.5j, dtype.numpy)


def _spread_record(name: str, dtype: DType, place: Place) -> list[Any]:
    x, y = _spread_operands(dtype)
    return [place.call(_SPREAD[name], calor.asarray(x), calor.asarray(y))]


def _spread_judge(name: str, dtype: DType, place: Place, found: Any) -> None:
    x, _ = _spread_operands(dtype)
    wrong = np.flatnonzero(np.isnan(found[0]) != np.isnan(x))
    assert not wrong.size, f"{name} of {x[wrong[0]]} is {found[0][wrong[0]]}"


def complex_parts() -> Iterator[Check]:
    """Yield a check of each function in each complex dtype."""
    ways = [(name, _record, _judge) for name in _CALLS]
    ways += [(name, _spread_record, _spread_judge) for name in _SPREAD]
    for name, record, judge in ways:
        for dtype in (complex64, complex128):
            run, steps = packed(partial(record, name, dtype), partial(judge, name, dtype))
            yield Check(
                kind="special",
                subject=f"complex-parts-{name}",
                tier="full" if dtype is complex64 else "dtypes",
                contract=CONTRACT,
                run=run,
                text=partial(inspect.getsource, _operands),
                dtype=dtype,
                dtypes=(dtype, bool_, int64),
                steps=steps,
            )
