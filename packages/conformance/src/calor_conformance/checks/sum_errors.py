"""Sums of rows and of rows 16 times as long: the error in float32 stays where it was.

All terms are one number that float32 rounds, such as 0.1, so a sum that adds one after another
loses to the same side each time, and its error grows as the length does. Rows are few or as many as
fill a device, so that no row is divided among its cores; they lie along the last axis or the first.
Sums, means, norms, running sums and products with ones are asked, each as a function of its own.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

import calor
from calor.dtypes import float32

from .base import Array, Check, Place

CONTRACT: Final = "the error of what adds a row up does not grow with the row's length"
_UNIT: Final = 2.0**-24
# Units that are allowed at any length, and the part of the length that a product may lose.
_ROOM: Final = 72
_SHORT: Final = 1 << 8
_LONGER: Final = 16
_MANY: Final = 64
Rng = np.random.Generator


class _Way(NamedTuple):
    """A function of a tensor and an axis, what it is of n times v, and the units of its loss."""

    call: Callable[[Any, int], Any]
    due: Callable[[int, Array], Array]
    op: str
    units: Callable[[int], float] = lambda n: _ROOM


def _dot(x: Any, axis: int) -> Any:
    ones = calor.ones((x.shape[axis],), dtype=x.dtype)
    return calor.matmul(x, ones) if axis else calor.matmul(ones, x)


def _last(x: Any, axis: int) -> Any:
    """Return the running sums at their end."""
    made = calor.cumulative_sum(x, axis=axis)
    return made[:, -1] if axis else made[-1]


def _in_lanes(n: int) -> float:
    # A product may add up one after another, in some lanes.
    return n / 4 + _ROOM


WAYS: Final = {
    "sum": _Way(lambda x, axis: calor.sum(x, axis=axis), lambda n, v: n * v, "sum"),
    "mean": _Way(lambda x, axis: calor.mean(x, axis=axis), lambda n, v: v, "sum"),
    "sum of squares": _Way(
        lambda x, axis: calor.sum(x * x, axis=axis), lambda n, v: n * v * v, "sum"),
    "norm": _Way(
        lambda x, axis: calor.linalg.vector_norm(x, axis=axis),
        lambda n, v: math.sqrt(n) * v, "sum"),
    "1-norm": _Way(
        lambda x, axis: calor.linalg.vector_norm(x, axis=axis, ord=1), lambda n, v: n * v, "sum"),
    "3-norm": _Way(
        lambda x, axis: calor.linalg.vector_norm(x, axis=axis, ord=3),
        lambda n, v: n ** (1 / 3) * v, "sum"),
    "logsumexp": _Way(
        lambda x, axis: calor.logsumexp(x, axis=axis), lambda n, v: v + math.log(n), "sum"),
    "running sum": _Way(_last, lambda n, v: n * v, "cumsum", _in_lanes),
    "product with ones": _Way(_dot, lambda n, v: n * v, "dot_general", _in_lanes),
}  # fmt: skip


def _off(place: Place, way: _Way, n: int, rows: int, axis: int, numbers: Array) -> float:
    """Return the largest error of a call, in units of what is due."""
    values = np.resize(numbers, rows).astype(np.float32)
    shape = (rows, n) if axis else (n, rows)
    x = np.broadcast_to(values[:, None] if axis else values, shape)
    got = place.call(lambda t: way.call(t, axis), calor.asarray(np.ascontiguousarray(x))).numpy()
    want = way.due(n, values.astype(np.float64))
    off = np.abs(got.astype(np.float64) - want) / np.abs(want) / _UNIT
    return float(np.max(np.where(np.isnan(off), np.inf, off)))


def _run(name: str, place: Place) -> None:
    way = WAYS[name]
    for number, (rows, axis) in enumerate(((3, 1), (3, 0), (_MANY, 1), (_MANY, 0))):
        rng = np.random.default_rng([place.seed, 302, number])
        numbers = np.concatenate([[0.1], rng.uniform(0.05, 0.7, 2)])
        n = _SHORT + int(rng.integers(0, 64))
        for length in (n, _LONGER * n):
            off = _off(place, way, length, rows, axis, numbers)
            most = way.units(length)
            assert off <= most, (
                f"{name} of {rows} rows of {length} along axis {axis} is {off:.0f} units off, "
                f"{most:.0f} allowed"
            )


def sum_errors() -> Iterator[Check]:
    """Yield a check of each function that adds up."""
    for name, way in WAYS.items():
        yield Check(
            kind="accuracy",
            subject=f"growing-{name.replace(' ', '-')}",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, _off),
            op=way.op,
            dtype=float32,
            dtypes=(float32,),
            looks=True,
        )
