"""Derivatives where they are hard: at zeros, kinks, ties, ends of domains, and beside them.

A derivative is right at ordinary points and wrong at 0, where a product of 0 and infinity is none,
or where two digits cancel. Points are drawn, hard ones as often as all others; what is wanted is a
closed form in Python's floats, and for second derivatives differences of that.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import DType, float32, float64
from calor.ops.base import TABLE

from ..rows.slopes import ONE, TWO, Slope
from .base import Array, Check, Place

CONTRACT: Final = "the derivative of a function is its closed form, at and beside hard points too"
_POINTS: Final = 48
# Accepted relative and absolute errors of first and of second derivatives.
_NEAR: Final = {float64: (2e-9, 1e-11), float32: (2e-4, 4e-6)}
_SECOND: Final = (2e-5, 1e-7)
Rng = np.random.Generator


def _drawn(slope: Slope, rng: Rng, dtype: DType) -> list[Array]:
    """Return points for each operand: hard ones, ones beside them, and others."""
    made = []
    for (low, high), hard in zip(slope.domain, slope.hard, strict=True):
        points = rng.uniform(low, high, _POINTS)
        # Numbers of any size, on both sides of 0 where the domain has them.
        small = rng.random(_POINTS) < 0.2
        points = np.where(small, points * 10.0 ** rng.uniform(-9, 0, _POINTS), points)
        at = rng.random(_POINTS) < 0.5
        if hard:
            beside = rng.choice((0.0, 0.0, 1.0, -1.0), _POINTS) * 2.0 ** -rng.integers(
                8, 20, _POINTS
            )
            points = np.where(at, rng.choice(hard, _POINTS) + beside, points)
        points = points.astype(dtype.numpy).astype(np.float64)
        made.append(np.clip(points, low, high).astype(dtype.numpy))
    return made


def _wanted(function: Callable[..., float], points: list[Array]) -> Array:
    return np.array([function(*map(float, row)) for row in zip(*points, strict=True)])


def _compare(
    got: Array, want: Array, points: list[Array], near: tuple[float, float], what: str
) -> None:
    got = got.astype(np.float64)
    with np.errstate(all="ignore"):
        away = np.abs(got - want) <= near[0] * np.abs(want) + near[1]
    wrong = np.flatnonzero(~(away | (got == want) | np.isnan(want)))
    if wrong.size:
        at = wrong[0]
        where = ", ".join(repr(float(p[at])) for p in points)
        raise AssertionError(f"{what} at ({where}) is {got[at]!r}, not {want[at]!r}")


def _total(call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *tensors: calor.sum(call(*tensors))


def _first(slope: Slope, dtype: DType, name: str, place: Place) -> None:
    rng = np.random.default_rng([place.seed, crc32(name.encode())])
    points = _drawn(slope, rng, dtype)
    tensors = [calor.asarray(p) for p in points]
    every = tuple(range(len(points)))
    backward = calor.grad(_total(slope.call), argnums=every)
    wants = [_wanted(function, points) for function in slope.slopes]
    found = backward(*tensors)
    for k, want in enumerate(wants):
        what = f"the derivative of {name} by operand {k}, backward,"
        _compare(found[k].numpy(), want, points, _NEAR[dtype], what)
    for k, want in enumerate(wants):
        along = _along(k, points)
        forward = calor.jvp(slope.call, tuple(tensors), along)[1]
        # Along an operand that does not move, an infinite derivative gives no number.
        there = np.isfinite(sum(w for j, w in enumerate(wants) if j != k))
        want = np.where(there, want, math.nan)
        what = f"the derivative of {name} by operand {k}, forward,"
        _compare(forward.numpy(), want, points, _NEAR[dtype], what)


def _along(k: int, points: list[Array]) -> tuple[Any, ...]:
    """Return the direction of one operand."""
    return tuple(
        calor.asarray(np.full(p.shape, float(j == k), p.dtype)) for j, p in enumerate(points)
    )


def _second(slope: Slope, name: str, place: Place) -> None:
    rng = np.random.default_rng([place.seed, crc32(name.encode()), 2])
    points = _drawn(slope, rng, float64)
    tensors = [calor.asarray(p) for p in points]
    for i, j in itertools.product(range(len(points)), repeat=2):
        first = calor.grad(_total(slope.call), argnums=i)
        made = calor.grad(_total(first), argnums=j)(*tensors).numpy()
        pushed = calor.jvp(first, tuple(tensors), _along(j, points))[1].numpy()
        want = np.array(
            [_difference(slope, i, j, list(map(float, row))) for row in zip(*points, strict=True)]
        )
        what = f"the second derivative of {name} by operands {i} and {j}"
        _compare(made, want, points, _SECOND, f"{what}, backward,")
        _compare(pushed, want, points, _SECOND, f"{what}, forward,")


def _difference(of: Slope, i: int, j: int, x: list[float]) -> float:
    """Return the derivative of a slope by differences, NaN where those do not converge."""
    if any(v in ends for v, ends in zip(x, of.domain, strict=True)):
        return math.nan
    slope, made = of.slopes[i], []
    for step in (2e-3, 1e-3):
        by = step * min(max(abs(x[j]), 0.05), 1.0)
        try:
            a, b, c, d = (slope(*x[:j], x[j] + n * by, *x[j + 1 :]) for n in (1, -1, 2, -2))
        except (ValueError, ZeroDivisionError, OverflowError, TypeError):
            return math.nan
        if not all(isinstance(v, float) for v in (a, b, c, d)):
            return math.nan
        made.append((8 * (a - b) - (c - d)) / (12 * by))
    return made[1] if abs(made[0] - made[1]) <= 3e-6 * abs(made[1]) + 1e-8 else math.nan


def slopes() -> Iterator[Check]:
    """Yield checks of the first and second derivatives of each elementwise function."""
    for name, slope in {**ONE, **TWO}.items():
        for dtype in (float32, float64):
            yield _check(name, partial(_first, slope, dtype, name), dtype)
        if slope.smooth:
            yield _check(f"{name}-second", partial(_second, slope, name), float64)


def _op_of(name: str) -> str:
    """Return the op that a function is, if it is one."""
    first = name.partition("-")[0]
    own = {"negative": "neg", "multiply": "mul", "divide": "div", "pow": "power"}.get(first, first)
    return own if own in TABLE else ""


def _check(name: str, run: Callable[[Place], None], dtype: DType) -> Check:
    return Check(
        kind="gradient-points",
        subject=f"slope-{name}",
        tier="training",
        contract=CONTRACT,
        run=run,
        text=partial(inspect.getsource, _drawn),
        op=_op_of(name),
        dtype=dtype,
        dtypes=(dtype,),
        looks=True,
    )
