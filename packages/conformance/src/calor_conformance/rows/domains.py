"""Domains of operands. Each takes the shape and draws for any dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from calor.dtypes import DType, bool_, int64, real_of

from .language import Array, Domain, limits_of

Shape = tuple[int, ...]
# Number of operands of every magnitude besides the special ones.
SPREAD = 500
# Where domains end and functions have poles, zeros, turns or saturate; and draws of each octave.
_ENDS = (0.5, 1.0, 2.0, math.pi / 2, math.pi)
_OCTAVE = 12


def _converted(values: Any, dtype: DType) -> Array:
    """Return floating or complex numbers in a dtype, rounded for integers."""
    array: Array = np.asarray(values)
    if dtype.is_integer:
        array = np.rint(array.real)
        if dtype.kind == "uint":
            array = np.abs(array)
        return array.astype(dtype.numpy)
    if not dtype.is_complex:
        array = array.real
    return array.astype(dtype.numpy)


def _real(name: str, sample: Callable[[np.random.Generator, Shape], Any]) -> Any:
    """Return a domain for a sampler of real numbers; complex numbers have two sampled parts."""

    def draw(rng: np.random.Generator, dtype: DType, shape: Shape) -> Array:
        if dtype is bool_:
            return rng.random(shape) < 0.5
        values = sample(rng, shape)
        if dtype.is_complex:
            values = values + 1j * sample(rng, shape)
        return _converted(values, dtype)

    return lambda *shape: Domain(name, shape, draw)


# Numbers around 0, about 3 in size, of either sign.
normal = _real("normal", lambda rng, shape: rng.normal(0.0, 2.0, shape))
# Numbers in [0.25, 4].
positive = _real("positive", lambda rng, shape: rng.uniform(0.25, 4.0, shape))
# Numbers inside (-1, 1), a little away from both ends.
unit = _real("unit", lambda rng, shape: rng.uniform(-0.9, 0.9, shape) * 0.7)


def between(low: float, high: float, *shape: int) -> Domain:
    """Return a domain of numbers in [low, high]; both parts for complex dtypes."""
    made: Domain = _real(f"between({low}, {high})", lambda r, s: r.uniform(low, high, s))(*shape)
    return made


def away_from(point: float, *shape: int) -> Domain:
    """Return a domain of numbers at a distance of 0.3 to 3 from a point, in any direction."""

    def draw(rng: np.random.Generator, dtype: DType, shape: Shape) -> Array:
        if dtype is bool_:
            return rng.random(shape) < 0.5
        least = 1.0 if dtype.is_integer else 0.3
        size = rng.uniform(least, 3.0, shape)
        turn: Any = np.where(rng.random(shape) < 0.5, -1.0, 1.0)
        if dtype.is_complex:
            turn = np.exp(1j * rng.uniform(-3.0, 3.0, shape))
        return _converted(point + size * turn, dtype)

    return Domain(f"away_from({point})", shape, draw)


def of_any_size(*shape: int) -> Domain:
    """Return a domain of numbers of magnitudes over most of the range; their squares overflow."""

    def draw(rng: np.random.Generator, dtype: DType, shape: Shape) -> Array:
        reach = 0.8 * math.log2(float(limits_of(real_of(dtype).numpy).max))
        size = 2.0 ** rng.uniform(-reach, reach, shape)
        turn = np.exp(1j * rng.uniform(-3.0, 3.0, shape))
        return _converted(size * (turn if dtype.is_complex else np.sign(turn.real)), dtype)

    return Domain("of_any_size", shape, draw)


def whole(low: int, high: int, *shape: int) -> Domain:
    """Return a domain of integers in [low, high), in any dtype; unsigned ones start at 0."""

    def draw(rng: np.random.Generator, dtype: DType, shape: Shape) -> Array:
        start = max(low, 0) if dtype.kind in ("uint", "bool") else low
        return rng.integers(start, high, shape).astype(dtype.numpy)

    return Domain(f"whole({low}, {high})", shape, draw)


def indices(below: int, *shape: int, low: int = 0) -> Domain:
    """Return a domain of indices in [low, below), int64."""
    return Domain(f"indices({below})", shape, whole(low, below).draw, int64)


def chosen(values: Any, dtype: DType | None = None) -> Domain:
    """Return a domain of given numbers."""
    array = np.asarray(values)

    def draw(rng: np.random.Generator, dtype: DType, shape: Shape) -> Array:
        return array.astype(dtype.numpy)

    return Domain("chosen", array.shape, draw, dtype)


def truth(*shape: int) -> Domain:
    """Return a domain of bool values."""
    return Domain("truth", shape, lambda rng, dtype, shape: rng.random(shape) < 0.5, bool_)


def well_separated(*shape: int) -> Domain:
    """Return a domain of distinct numbers in random order, 0.5 apart (1 for integers), around 0."""

    def draw(rng: np.random.Generator, dtype: DType, shape: Shape) -> Array:
        if dtype is bool_:
            return rng.random(shape) < 0.5
        count = int(np.prod(shape))
        values = rng.permutation(count) * (1.0 if dtype.is_integer else 0.5)
        values = values - (0 if dtype.kind == "uint" else count // 4)
        if dtype.is_complex:
            values = values + 1j * rng.permutation(count) * 0.5
        return _converted(values.reshape(shape), dtype)

    return Domain("well_separated", shape, draw)


def repeated(*shape: int) -> Domain:
    """Return a domain of a few integers, each several times."""
    return Domain("repeated", shape, whole(-1, 3).draw)


def any_bits(*shape: int) -> Domain:
    """Return a domain of all bit patterns: every number, infinity and NaN of the dtype."""

    def draw(rng: np.random.Generator, dtype: DType, shape: Shape) -> Array:
        if dtype is bool_:
            return rng.random(shape) < 0.5
        count = int(np.prod(shape)) * dtype.itemsize
        return np.frombuffer(rng.bytes(count), dtype.numpy).reshape(shape).copy()

    return Domain("any_bits", shape, draw)


def extremes(*shape: int) -> Domain:
    """Return a domain of the special numbers of the dtype: see :func:`special`."""

    def draw(rng: np.random.Generator, dtype: DType, shape: Shape) -> Array:
        values = rng.permutation(special(dtype))
        return rng.permutation(np.resize(values, math.prod(shape))).reshape(shape)

    return Domain("extremes", shape, draw)


def ends(*shape: int) -> Domain:
    """Return a domain of the smallest and the largest integer of the dtype."""

    def draw(rng: np.random.Generator, dtype: DType, shape: Shape) -> Array:
        limits = np.iinfo(dtype.numpy)
        return rng.choice(np.array([limits.min, limits.max], dtype.numpy), shape)

    return Domain("ends", shape, draw)


def neighbours(*shape: int) -> Domain:
    """Return a domain of adjacent numbers in random order; other dtypes cannot tell some apart."""

    def draw(rng: np.random.Generator, dtype: DType, shape: Shape) -> Array:
        places = rng.permutation(math.prod(shape))
        if dtype.is_integer:
            most = int(np.iinfo(dtype.numpy).max)
            return np.array([most - int(p) for p in places], dtype.numpy).reshape(shape)
        bits = np.dtype(f"u{dtype.itemsize}")
        one = int(np.ones((), dtype.numpy).view(bits))
        return (one + places).astype(bits).view(dtype.numpy).reshape(shape)

    return Domain("neighbours", shape, draw)


def special(dtype: DType) -> Array:
    """Return NaN, infinities, zeros, denormals, the largest, those next to 1; integer extremes."""
    if dtype is bool_:
        return np.array([False, True])
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        numbers = {limits.min, limits.min + 1, limits.max - 1, limits.max, 0, 1, 2, 3, 7}
        if limits.min:
            numbers |= {-1, -2, -7}
        return np.array(sorted(numbers), dtype.numpy)
    if dtype.is_complex:
        parts = [0.0, 1.0, -1.5, 1e-3, 1e3]
        return np.array([complex(a, b) for a in parts for b in parts], dtype.numpy)
    finite = limits_of(dtype.numpy)
    tiny, least, most = finite.tiny, finite.smallest_subnormal, finite.max
    one = np.ones((), dtype.numpy)
    sizes = [0.0, least, tiny, 0.5, 1.0, float(one + finite.eps), 1.5, 2.5, 7.0, most, np.inf]
    signed = [*sizes, *(-float(s) for s in sizes), np.nan]
    return np.array([float(s) for s in signed]).astype(dtype.numpy)


@cache
def grid(dtype: DType, count: int) -> tuple[Array, ...]:
    """Return the special numbers in every combination of ``count`` operands, one axis for each.

    One operand of a 16-bit type has all 65,536 bit patterns; other floats also have numbers of
    every magnitude and at every distance from the ends of domains.
    """
    if count == 1 and dtype.itemsize == 2:
        return (np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy),)
    values = special(dtype)
    made = np.meshgrid(*[np.arange(values.size)] * count, indexing="ij")
    every = tuple(values[places.reshape(-1)] for places in made)
    if dtype.kind != "float":
        return every
    return tuple(
        np.concatenate([v, of_every_size(dtype, seed), approaching(dtype, seed)])
        for seed, v in enumerate(every)
    )


def approaching(dtype: DType, seed: int) -> Array:
    """Return numbers at every distance from the ends of domains, on both sides, of both signs.

    A function that is computed in pieces has pieces between any two of these distances, so each
    octave of a distance has several numbers: to 0 down to a hundredth of the least spacing at 1,
    to the other ends down to their own spacing.
    """
    rng = np.random.default_rng([seed, 1])
    digits = -math.floor(math.log2(float(limits_of(dtype.numpy).eps)))
    octaves = np.repeat(np.arange(-digits - 6, 7), _OCTAVE)
    sizes = 2.0 ** (octaves + rng.random(octaves.size))
    steps = sizes[(sizes < 0.5) & (sizes >= 2.0**-digits)]
    near = [end + side * steps * end for end in _ENDS for side in (-1.0, 1.0)]
    found = np.concatenate([sizes, *near])
    return rng.permutation(np.concatenate([found, -found])).astype(dtype.numpy)


def of_every_size(dtype: DType, seed: int) -> Array:
    """Return numbers with every exponent of a floating dtype, and more of those below 100."""
    rng = np.random.default_rng(seed)
    patterns = any_bits().draw(rng, dtype, (SPREAD,))
    near = rng.uniform(-100.0, 100.0, SPREAD).astype(dtype.numpy)
    return np.concatenate([patterns, near])
