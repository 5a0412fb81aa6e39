"""Conversions about every tie: halfway between neighbours of the target, and a step to both sides.

A conversion by way of a third dtype rounds twice, and is wrong only a step beside a tie. Of each
exponent of a target, denormals and the end included, an even and an odd number are drawn; what lies
halfway to their next ones, and its neighbours in the source, is converted with both signs. A
number of a floating dtype and the next one have bits that differ by 1, so what is due is counted.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType, as_dtype, real_of

from ..rows.language import limits_of
from .base import Array, Check, Place

CONTRACT: Final = "a conversion rounds once, to the nearest number and of two to the even one"
_SOURCES: Final = ("float64", "float32", "float16", "bfloat16", "int64", "uint64", "int32",
                   "uint32", "complex128")  # fmt: skip
_TARGETS: Final = ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64")


def _drawn_bits(rng: np.random.Generator, target: DType) -> Array:
    """Return an even and an odd number of each exponent as bits, and the largest."""
    limits = limits_of(target.numpy)
    width = -round(float(np.log2(float(limits.eps))))
    top = int(np.asarray(limits.max, target.numpy).view(f"u{target.itemsize}"))
    starts = np.arange(0, (top >> width) + 1, dtype=np.int64) << width
    within = rng.integers(0, 1 << width, (2, starts.size))
    within = (within & ~1) | np.array([[0], [1]])
    return np.unique([*np.minimum((starts + within).reshape(-1), top).tolist(), top, top - 1])


def _numbers(bits: Array, target: DType) -> Array:
    """Return the numbers of bits in float64; beyond the largest, the one that would follow."""
    of = limits_of(target.numpy)
    top = int(np.asarray(of.max, target.numpy).view(f"u{target.itemsize}"))
    inside = np.minimum(bits, top).astype(f"u{target.itemsize}").view(target.numpy)
    below = np.array([top - 1]).astype(f"u{target.itemsize}").view(target.numpy).astype(np.float64)
    step = float(of.max) - float(below[0])
    return np.asarray(np.where(bits > top, float(of.max) + step, inside.astype(np.float64)))


def _beside(ties: Array, kind: np.dtype[Any]) -> tuple[Array, Array]:
    """Return which ties a dtype holds, and these with a neighbour on both sides, (3, count)."""
    if kind.kind in "iu":
        ends = np.iinfo(kind)
        held = (ties == np.floor(ties)) & (ties >= 1) & (ties < float(ends.max))
        there = np.array([int(t) for t in ties[held]], kind)
        return held, np.stack([there - kind.type(1), there, there + kind.type(1)])
    with np.errstate(all="ignore"):
        there = ties.astype(kind)
        held = (there.astype(np.float64) == ties) & (ties > 0)
        there = there[held]
        bits = there.view(f"u{kind.itemsize}")
        # The least step of numbers above zero is one of their bits.
        sides = [(bits - bits.dtype.type(1)).view(kind), there,
                 (bits + bits.dtype.type(1)).view(kind)]  # fmt: skip
    return held, np.stack(sides)


def _due(bits: Array, target: DType) -> Array:
    """Return what is due below, at and above the ties that follow numbers, (3, count)."""
    made = np.stack([bits, bits + (bits & 1), bits + 1])
    return made.astype(f"u{target.itemsize}").view(target.numpy)


def _converted(x: Array, target: DType, how: str) -> Array:
    t = calor.asarray(x)
    if how == "after a step":
        # What runs before it in the same program may leave the number in a register.
        t = calor.jit(lambda t: calor.reshape(calor.flip(calor.flip(t)), (-1,)).astype(target))(t)
        return np.asarray(t.numpy())
    run = calor.jit(lambda t: t.astype(target)) if how == "jitted" else lambda t: t.astype(target)
    return np.asarray(run(t).numpy())


def _one(place: Place, rng: np.random.Generator, source: DType, target: DType) -> None:
    part, own = real_of(target), real_of(source).numpy
    bits = _drawn_bits(rng, part)
    upper, lower = _numbers(bits + 1, part), _numbers(bits, part)
    held, given = _beside((upper + lower) / 2, own)
    want = _due(bits[held], part)
    if own.kind in "iu":
        given, want = given.reshape(-1), want.reshape(-1)
    else:
        inside = np.isfinite(given.astype(np.float64))
        given, want = given[inside], want[inside]
        if as_dtype(own) in place.flushes:
            kept = given.astype(np.float64) >= float(limits_of(own).tiny)
            given, want = given[kept], want[kept]
        if part in place.flushes:
            kept = ~(given.astype(np.float64) < float(limits_of(part.numpy).tiny))
            given, want = given[kept], want[kept]
    if own.kind != "u":
        given, want = np.concatenate([given, -given]), np.concatenate([want, -want])
    if not given.size:
        return
    order = rng.permutation(given.size)
    given, want = given[order], want[order]
    how = str(rng.choice(("at once", "at once", "jitted", "after a step")))
    if source.is_complex:
        pairs = given[: given.size // 2 * 2]
        got = _converted(pairs.view(source.numpy), target, how).view(part.numpy)
        want = want[: pairs.size]
    elif target.is_complex:
        got = _converted(given, target, how).real
    else:
        got = _converted(given, target, how)
    word = f"u{part.itemsize}"
    same = np.ascontiguousarray(got).view(word) == np.ascontiguousarray(want).view(word)
    same |= np.isnan(got.astype(np.float64)) & np.isnan(want.astype(np.float64))
    if not same.all():
        at = int(np.argmin(same))
        raise AssertionError(
            f"{given[at]!r} of {source} as {target}, {how}: {got[at]!r}, not {want[at]!r}; "
            f"{np.count_nonzero(~same)} of {same.size} are off"
        )


def _run(source: DType, place: Place) -> None:
    for number, name in enumerate(_TARGETS):
        target = as_dtype(name)
        if not place.plain.info.dtypes.get(target):
            continue
        if source.is_complex and not target.is_complex:
            continue
        if real_of(target).itemsize >= real_of(source).itemsize and not source.is_integer:
            continue
        _one(place, np.random.default_rng([place.seed, 191, number]), source, target)


def casts_at_ties() -> Iterator[Check]:
    """Yield a check of the conversions of each wide dtype."""
    for name in _SOURCES:
        source = as_dtype(name)
        yield Check(
            kind="accuracy",
            subject="casts-at-ties",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, source),
            text=partial(inspect.getsource, _one),
            op="cast",
            dtype=source,
            dtypes=(source,),
            looks=True,
        )
