"""How arguments of functions are drawn: shapes, numbers, axes, and operands that fit together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..language import Array

Rng = np.random.Generator
Numbers = Callable[[Rng, tuple[int, ...]], Array]
Arguments = tuple[list[Any], dict[str, Any]]


def a_shape(rng: Rng, least: int = 0, most: int = 3) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.choice((1, 2, 3, 5), rng.integers(least, most + 1)))


def floats(rng: Rng, shape: tuple[int, ...]) -> Array:
    """Return numbers of which some are equal and some are whole."""
    near = rng.integers(-3, 4, shape)
    made = np.where(rng.random(shape) < 0.3, near, rng.normal(size=shape) * 3)
    return np.asarray(made, np.float32)


def whole(rng: Rng, shape: tuple[int, ...]) -> Array:
    return np.asarray(rng.integers(-9, 10, shape), np.int32)


def counts(rng: Rng, shape: tuple[int, ...]) -> Array:
    return np.asarray(rng.integers(0, 7, shape), np.int32)


def numbers(rng: Rng, shape: tuple[int, ...]) -> Array:
    return (floats if rng.random() < 0.7 else whole)(rng, shape)


def different(rng: Rng, shape: tuple[int, ...]) -> Array:
    size = int(np.prod(shape))
    return np.asarray(rng.permutation(size).reshape(shape) - size // 2, np.float32)


def an_axis(rng: Rng, rank: int) -> int:
    return int(rng.integers(-rank, rank))


def coin(rng: Rng) -> bool:
    return bool(rng.random() < 0.5)


def fitting(rng: Rng, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape that broadcasts to another."""
    kept = tuple(n if rng.random() < 0.7 else 1 for n in shape)
    return kept[int(rng.integers(0, len(kept) + 1)) if rng.random() < 0.3 else 0 :]


def of_one(numbers: Numbers, least: int = 0) -> Callable[[Rng], Arguments]:
    return lambda rng: ([numbers(rng, a_shape(rng, least))], {})


def of_two(numbers: Numbers) -> Callable[[Rng], Arguments]:
    def draw(rng: Rng) -> Arguments:
        shape = a_shape(rng)
        given = [numbers(rng, shape), numbers(rng, fitting(rng, shape))]
        return given if coin(rng) else given[::-1], {}

    return draw


def along(numbers: Numbers, *, every: bool = True) -> Callable[[Rng], Arguments]:
    """Return what draws a tensor and an axis, or none if ``every`` allows that."""

    def draw(rng: Rng) -> Arguments:
        shape = a_shape(rng, 1)
        axis = None if every and rng.random() < 0.25 else an_axis(rng, len(shape))
        return [numbers(rng, shape)], {"axis": axis}

    return draw
