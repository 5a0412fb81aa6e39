"""Long sums along every axis: as near as a sum of pairs is, in all dtypes and layouts.

A sum that adds one number after another loses as many units as it has terms, for equal numbers are
rounded to the same side each time. The terms of a row are two numbers, drawn in a drawn order, so
its exact sum is known from how often each is there. Rows lie along the last axis, the first, one
between others, or all.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType, as_dtype, real_of

from ..rows.language import limits_of
from .base import Array, Check, Place

CONTRACT: Final = "the error of a sum grows with the logarithm of its length, along every axis"
_DTYPES: Final = ("float32", "float64", "complex64", "complex128", "float16", "bfloat16")
# Shapes of rows of n with their axes.
_LAYOUTS: Final[dict[str, Callable[[int], tuple[tuple[int, ...], tuple[int, ...]]]]] = {
    "last": lambda n: ((3, n), (1,)), "first": lambda n: ((n, 3), (0,)),
    "middle": lambda n: ((2, n, 2), (1,)), "all": lambda n: ((n,), (0,)),
    "first and last": lambda n: ((n // 16, 3, 16), (0, 2)),
    "the first two": lambda n: ((n // 32, 32, 2), (0, 1)),
}  # fmt: skip
# Units that blocks may add to those of the tree of pairs.
_BLOCKS: Final = 64
Rng = np.random.Generator
Pair = tuple[Fraction, Fraction]


def _length(rng: Rng) -> int:
    """Return a length between 2^13 and 2^17, which is a multiple of 32, or odd beside it."""
    return int(2 ** rng.uniform(13, 17)) // 32 * 32 + int(rng.choice((0, 0, 1, 7)))


def _draw(rng: Rng, shape: tuple[int, ...], axes: tuple[int, ...], kind: Any) -> tuple[Any, ...]:
    """Return an array of two numbers in each row, these numbers, and their counts."""
    kept = tuple(n for axis, n in enumerate(shape) if axis not in axes)
    pair = rng.uniform(0.1, 0.4, (2, *kept)).astype(kind)
    if pair.dtype.kind == "c":
        pair += (1j * rng.uniform(-0.4, -0.1, (2, *kept))).astype(kind)
    spread = tuple(1 if axis in axes else n for axis, n in enumerate(shape))
    chosen = rng.random([n if axis in axes else 1 for axis, n in enumerate(shape)]) < 0.5
    first, second = (p.reshape(spread) for p in pair)
    return np.where(chosen, first, second), pair, int(chosen.sum()), int((~chosen).sum())


def _exact(of: Callable[[Pair], Fraction], pair: Array) -> list[float]:
    """Return what the two numbers of each row give, for both parts where they are complex."""
    wide = pair.astype(np.complex128) if pair.dtype.kind == "c" else pair.astype(np.float64)
    made = []
    for a, b in zip(wide[0].reshape(-1), wide[1].reshape(-1), strict=True):
        parts = (a.real, b.real), (a.imag, b.imag)
        made += [
            float(of((Fraction(p), Fraction(q)))) for p, q in parts[: 1 + np.iscomplexobj(wide)]
        ]
    return made


def _near(got: Array, want: list[float], dtype: DType, units: float, what: str) -> None:
    """Compare with exact numbers, within units of what is added up, and a rounding at the end."""
    part = real_of(dtype)
    unit = float(limits_of(part.numpy).eps) / 2
    # Half types are added up in float32.
    inner = 2.0**-24 if part.itemsize == 2 else unit
    flat = np.ascontiguousarray(got).reshape(-1)
    found = flat.view(part.numpy).astype(np.float64) if dtype.is_complex else flat.astype(float)
    due = np.asarray(want)
    room = np.abs(due) * (units * inner + (1.01 * unit if part.itemsize == 2 else 0))
    off = np.abs(found - due)
    if not (off <= room).all():
        at = int(np.argmax(np.where(np.isfinite(off), off / room, np.inf)))
        ratio = off[at] / abs(due[at]) / inner
        raise AssertionError(f"{what}: {found[at]!r}, not {due[at]!r}, {ratio:.0f} units off, "
                             f"{units:.0f} allowed")  # fmt: skip


def _sums(place: Place, dtype: DType, number: int, name: str) -> None:
    rng = np.random.default_rng([place.seed, 192, number, dtype.itemsize, dtype.is_complex])
    shape, axes = _LAYOUTS[name](_length(rng))
    x, pair, m, n = _draw(rng, shape, axes, dtype.numpy)
    length = m + n
    units = math.log2(length) + _BLOCKS
    fused = bool(rng.random() < 0.4)
    one = calor.asarray(np.ones(()).astype(dtype.numpy))

    def called(function: Any) -> Array:
        if not fused:
            return np.asarray(place.call(function, calor.asarray(x)).numpy())
        # The product is exact, and may be made where it is added up.
        return np.asarray(
            calor.jit(lambda t, one: function(t * one))(calor.asarray(x), one).numpy()
        )

    told = f"of {dtype} {shape} along {axes}{', of a product' * fused}"
    got = called(lambda t: calor.sum(t, axis=axes))
    _near(got, _exact(lambda p: m * p[0] + n * p[1], pair), dtype, units, f"sum {told}")
    if not place.tries(number, 3):
        return
    got = called(lambda t: calor.mean(t, axis=axes))
    mean = _exact(lambda p: (m * p[0] + n * p[1]) / length, pair)
    _near(got, mean, dtype, units + 2, f"mean {told}")
    if dtype.is_complex or dtype.itemsize == 2:
        return
    got = called(lambda t: calor.var(t, axis=axes))
    want = _exact(lambda p: m * n * (p[0] - p[1]) ** 2 / length**2, pair)
    # Two numbers that are near each other differ by few units, and the mean's error is squared.
    apart = float(np.min(np.abs(pair[0] - pair[1]).astype(np.float64)))
    unit = float(limits_of(dtype.numpy).eps) / 2
    lost = (units * unit) ** 2 / max(apart, 1e-9) ** 2 / unit
    _near(got, want, dtype, 2 * units + lost, f"var {told}")


def _dots(place: Place, dtype: DType) -> None:
    """Compare products over a long axis, whose terms come from two numbers and one."""
    rng = np.random.default_rng([place.seed, 193, dtype.itemsize, dtype.is_complex])
    n = int(rng.integers(1 << 12, 1 << 14))
    x, pair, *counts = _draw(rng, (2, n), (1,), dtype.numpy)
    factor = np.asarray(rng.uniform(0.5, 1, ()), real_of(dtype).numpy)
    column = np.full((n, 1), factor, dtype.numpy)
    got = place.call(calor.matmul, calor.asarray(x), calor.asarray(column)).numpy()
    exact = Fraction(float(factor))
    want = _exact(lambda p: exact * (counts[0] * p[0] + counts[1] * p[1]), pair)
    # A product may add up one after another, in some lanes.
    units = n / 4 + _BLOCKS
    _near(got, want, dtype, units, f"matmul of {dtype} (2, {n}) with a column")


def _run(dtype: DType, place: Place) -> None:
    for number, name in enumerate(_LAYOUTS):
        _sums(place, dtype, number, name)
    if place.plain.info.supports("dot_general", dtype):
        _dots(place, dtype)


def long_sums() -> Iterator[Check]:
    """Yield a check of long sums of each dtype."""
    for name in _DTYPES:
        dtype = as_dtype(name)
        yield Check(
            kind="accuracy",
            subject="long-sums",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, dtype),
            text=partial(inspect.getsource, _sums),
            op="sum",
            dtype=dtype,
            dtypes=(dtype,),
            looks=True,
        )
