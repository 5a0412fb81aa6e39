"""What drawn programs of steps that a compiler joins are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .base import Array

Rng = np.random.Generator
Shape = tuple[int, ...]


@dataclass
class Program:
    """A function of arrays, and whether its gradient by the first is asked for.

    Parameters
    ----------
    function : callable
        What is jitted.
    arrays : list of ndarray
        Its operands.
    told : str
        What was drawn.
    near : float, default 0.0
        How far results may be off, relative to the largest; by default they are exact.
    smooth : bool, default False
        Whether it has a gradient.
    same : frozenset of int
        Positions of operands that are the same in every call: indices, which must stay in range.
    """

    function: Callable[..., Any]
    arrays: list[Array]
    told: str
    near: float = 0.0
    smooth: bool = False
    same: frozenset[int] = field(default_factory=frozenset)


def whole(rng: Rng, shape: Shape) -> Array:
    """Return small whole numbers of a shape, which sums and products keep exact."""
    return np.asarray(rng.integers(-5, 6, shape), np.float32)


def one_of(rng: Rng, some: Any) -> Any:
    """Return one of a sequence."""
    return some[int(rng.integers(len(some)))]
