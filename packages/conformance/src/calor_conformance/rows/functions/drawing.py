"""How arguments of functions are drawn: shapes, numbers, axes, and operands that fit together.

What a draw is asked for, such as NaN, equal infinities side by side, ties or lengths about powers
of two, is asked of shapes and numbers here, so every function meets all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ..language import Array

# What is asked of a draw: "" are common numbers, "smooth" those without equal or whole ones.
ASKS: Final = (
    "nan", "infinite", "zeros", "ties", "equal", "large", "small", "limits", "long", "short",
)  # fmt: skip
_ENDS: Final = (np.iinfo(np.int32).min, np.iinfo(np.int32).max, np.iinfo(np.int32).min + 1, -1, 0)
_LENGTHS: Final = {"long": (4, 7, 8, 9, 15, 16, 17, 31, 32, 33), "short": (0, 1, 1)}


class Rng(np.random.Generator):
    """A source of random numbers that knows what is asked of a draw."""

    ask: str = ""


def source(seed: Sequence[int], ask: str = "") -> Rng:
    """Return a source of a seed."""
    made = Rng(np.random.PCG64(list(seed)))
    made.ask = ask
    return made


Numbers = Callable[[Rng, tuple[int, ...]], Array]
Arguments = tuple[list[Any], dict[str, Any]]


def a_length(rng: Rng) -> int:
    return int(rng.choice(_LENGTHS.get(rng.ask, (1, 2, 3, 5))))


def a_shape(rng: Rng, least: int = 0, most: int = 3) -> tuple[int, ...]:
    rank = int(rng.integers(least, most + 1))
    if rng.ask == "long":
        return tuple(a_length(rng) for _ in range(max(least, min(rank, 2))))
    return tuple(int(n) for n in rng.choice(_LENGTHS.get(rng.ask, (1, 2, 3, 5)), rank))


def floats(rng: Rng, shape: tuple[int, ...]) -> Array:
    """Return numbers of which some are equal and some are whole, and what is asked for."""
    if rng.ask == "smooth":
        return np.asarray(rng.normal(size=shape) * 2 + 0.1, np.float32)
    near = rng.integers(-3, 4, shape)
    made = np.where(rng.random(shape) < 0.3, near, rng.normal(size=shape) * 3)
    return np.asarray(_asked(rng, made), np.float32)


def _asked(rng: Rng, made: Array) -> Array:
    """Return numbers with those that are asked for among them."""
    some: Any = np.asarray(rng.random(made.shape) < 0.3)
    if some.size:
        some.flat[int(rng.integers(some.size))] = True
    match rng.ask:
        case "nan":
            return np.where(some, np.nan, made)
        case "infinite":
            # The next one along the last axis is often equal.
            ends = np.where(rng.random(made.shape) < 0.5, np.inf, -np.inf)
            some |= np.roll(some, 1, -1) if made.ndim else some
            return np.where(some, ends if rng.random() < 0.5 else np.inf, made)
        case "zeros":
            return np.where(some, np.where(rng.random(made.shape) < 0.5, 0.0, -0.0), made)
        case "ties":
            return np.asarray(np.round(made / 3) * 1.5)
        case "equal":
            return np.full(made.shape, rng.integers(-3, 4) / 2)
        case "large":
            return np.where(some, made * 1e9, made)
        case "small":
            return np.asarray(made * 1e-9)
    return made


def whole(rng: Rng, shape: tuple[int, ...]) -> Array:
    made = np.asarray(rng.integers(-9, 10, shape), np.int32)
    if rng.ask == "limits":
        return np.where(rng.random(shape) < 0.5, rng.choice(_ENDS, shape), made).astype(np.int32)
    return made // 4 if rng.ask == "ties" else made


def counts(rng: Rng, shape: tuple[int, ...]) -> Array:
    return np.asarray(rng.integers(0, 7, shape), np.int32)


def numbers(rng: Rng, shape: tuple[int, ...]) -> Array:
    if rng.ask == "limits":
        return whole(rng, shape)
    return (floats if rng.random() < 0.7 or rng.ask == "smooth" else whole)(rng, shape)


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
