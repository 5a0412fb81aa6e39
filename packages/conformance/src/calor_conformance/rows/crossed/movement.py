"""Movement: permutations of every rank, slices and pads by pairs of attributes, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor.dtypes import DType
from calor.ops import movement as m
from calor.ops.base import find

from ..domains import any_bits
from ..language import EVERY, Array
from .language import Problem, Subject, one, shape_of
from .orders import ORDERS
from .pairwise import Scenario


def bits(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Return elements that differ, so that each exchange shows.

    Parameters
    ----------
    rng : numpy.random.Generator
        The generator.
    dtype : DType
        The dtype.
    shape : tuple of int
        The shape.

    Returns
    -------
    array
        Bit patterns, without NaN: the payload of one may change.
    """
    made = np.asarray(any_bits().draw(rng, dtype, shape))
    if not (dtype.is_inexact or dtype.kind == "storage"):
        return made
    with np.errstate(all="ignore"):
        return np.where(made == made, made, np.ones((), made.dtype)).astype(made.dtype)


def _permute(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    shape, _ = shape_of(scenario, rng)
    axes = tuple(int(a) for a in rng.permutation(len(shape)))
    return one(
        [bits(rng, dtype, shape)], lambda t: m.permute(t, axes=axes), lambda a: a.transpose(axes)
    )


def _cube(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    """Permute equal axes, for which a wrong order has the right shape."""
    rank, side = scenario["rank"], scenario["side"]
    axes = tuple(int(a) for a in rng.permutation(rank))
    if rank > 4 and side > 7:
        side = 7
    x = bits(rng, dtype, (side,) * rank)
    return one([x], lambda t: m.permute(t, axes=axes), lambda a: a.transpose(axes))


def _flip(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    shape, axis = shape_of(scenario, rng)
    axes = tuple(a for a in range(len(shape)) if a == axis or rng.random() < 0.5)
    return one(
        [bits(rng, dtype, shape)], lambda t: m.flip(t, axes=axes), lambda a: np.flip(a, axes)
    )


def _slice(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    shape, axis = shape_of(scenario, rng)
    starts, stops, steps, cuts = [], [], [], []
    for a, n in enumerate(shape):
        step = scenario["step"] if a == axis else int(rng.choice((1, -1, 2)))
        low, high = sorted(int(k) for k in rng.integers(0, n + 1, 2))
        if scenario["whole"] or rng.random() < 0.4:
            low, high = 0, n
        if high == low:
            low, high, step = 0, 0, 1
        start, stop = (low, high) if step > 0 else (high - 1, low - 1)
        starts.append(start)
        stops.append(stop)
        steps.append(step)
        cuts.append(slice(start, None if stop < 0 else stop, step))
    x = bits(rng, dtype, shape)
    how = {"starts": tuple(starts), "stops": tuple(stops), "steps": tuple(steps)}
    return one([x], lambda t: m.slice_(t, **how), lambda a: a[tuple(cuts)])


def _pad(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    shape, axis = shape_of(scenario, rng)
    widths = []
    for a in range(len(shape)):
        both = (scenario["low"], scenario["high"], scenario["interior"])
        given = both if a == axis else (int(k) for k in rng.integers(0, 3, 3))
        widths.append(tuple(given))
    low, high, interior = (tuple(w[k] for w in widths) for k in range(3))
    x, value = bits(rng, dtype, shape), bits(rng, dtype, ())
    places = tuple(
        slice(lo, lo + (n - 1) * (gap + 1) + 1 if n else lo, gap + 1)
        for n, lo, gap in zip(shape, low, interior, strict=True)
    )
    sizes = [
        lo + hi + (n - 1) * (gap + 1) + 1 if n else lo + hi
        for n, lo, hi, gap in zip(shape, low, high, interior, strict=True)
    ]

    def meaning(a: Array, v: Array) -> Array:
        made = np.full(sizes, v, a.dtype)
        made[places] = a
        return made

    return one(
        [x, value],
        lambda t, v: find("pad")(t, v, low=low, high=high, interior=interior),
        meaning,
    )


def _expand(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    shape, _ = shape_of(scenario, rng)
    small = tuple(1 if rng.random() < 0.5 else n for n in shape)
    x = bits(rng, dtype, small)
    return one([x], lambda t: m.expand(t, shape=shape), lambda a: np.broadcast_to(a, shape))


def _reshape(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    """Merge and split axes of any order."""
    shape, _ = shape_of(scenario, rng)
    count = int(np.prod(shape))
    whole = [k for k in (2, 3, 4, 5, 7, 8) if count % k == 0]
    k = int(rng.choice(whole)) if whole else 1
    wanted = ((count // k, k), (k, count // k), (count,), (1, count, 1))[scenario["form"]]
    x = bits(rng, dtype, shape)
    return one([x], lambda t: m.reshape(t, shape=wanted), lambda a: a.reshape(wanted))


def _concat(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    shape, axis = shape_of(scenario, rng)
    parts = scenario["parts"]
    cuts = np.sort(rng.integers(0, shape[axis] + 1, parts - 1))
    if not scenario["uneven"]:
        cuts = np.arange(1, parts) * shape[axis] // parts
    arrays = np.split(bits(rng, dtype, shape), cuts, axis)
    if scenario["shuffled"]:
        arrays = [arrays[i] for i in rng.permutation(parts)]
    return one(
        [np.ascontiguousarray(a) for a in arrays],
        lambda *ts: calor.concat(list(ts), axis=axis),
        lambda *xs: np.concatenate(xs, axis),
    )


def _bitcast(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem | None:
    shape, _ = shape_of({**scenario, "axis": 0}, rng)
    to = calor.uint8 if scenario["to"] == "bytes" else _same_size(dtype)
    if to is dtype or dtype.kind == "bool":
        return None
    x = bits(rng, dtype, shape)
    more = (dtype.itemsize // to.itemsize,) if to.itemsize < dtype.itemsize else ()
    return one(
        [x],
        lambda t: find("bitcast")(t, dtype=to),
        lambda a: np.frombuffer(a.tobytes(), to.numpy).reshape(*a.shape, *more),
        dtype=to,
    )


def _same_size(dtype: DType) -> DType:
    sizes = {1: calor.uint8, 2: calor.uint16, 4: calor.uint32, 8: calor.uint64}
    return sizes.get(dtype.itemsize, calor.uint8)


_WHERE: dict[str, Any] = {
    "length": (7, 1, 33, 257, 1500),
    "rank": (3, 1, 2, 4, 5),
    "axis": (0, 1, 2, 3),
    "order": ORDERS,
}
_FAR: dict[str, Any] = {"length": (65_537, (1 << 18) + 3)}
_MAIN = tuple(sorted(EVERY, key=lambda d: d.name != "float32"))

SUBJECTS: list[Subject] = [
    Subject("permute", _permute, _MAIN, _WHERE, _FAR, differentiable=True),
    Subject("permute", _cube, _MAIN,
            {"side": (5, 3, 4, 7, 16), "rank": (3, 4, 5), "order": ORDERS}, name="cube",
            differentiable=True),
    Subject("flip", _flip, _MAIN, _WHERE, _FAR, differentiable=True),
    Subject("slice", _slice, _MAIN,
            {**_WHERE, "step": (1, -1, 2, -2, 3, -3, 5, -7), "whole": (True, False)}, _FAR,
            differentiable=True),
    Subject("pad", _pad, _MAIN,
            {**_WHERE, "low": (0, 1, 5), "high": (0, 2, 9), "interior": (0, 1, 2, 4)}, _FAR,
            differentiable=True),
    Subject("expand", _expand, _MAIN, _WHERE, _FAR, differentiable=True),
    Subject("reshape", _reshape, _MAIN, {**_WHERE, "form": (0, 1, 2, 3)}, _FAR,
            differentiable=True),
    Subject("concat", _concat, _MAIN,
            {**_WHERE, "parts": (2, 3, 5, 9), "uneven": (False, True),
             "shuffled": (False, True)}, _FAR, differentiable=True),
    Subject("bitcast", _bitcast, _MAIN, {**_WHERE, "to": ("bytes", "same")}),
]  # fmt: skip
