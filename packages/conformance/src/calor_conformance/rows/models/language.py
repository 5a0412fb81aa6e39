"""What a row of an operator is: its operands and attributes, drawn, in an opset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ..language import Array

Rng = np.random.Generator
NEWEST: Final = 23


@dataclass
class Node:
    """One node of a model.

    Parameters
    ----------
    operands : list of ndarray or None
        Its operands; None for one that is left out.
    attributes : dict, optional
        Its attributes.
    outputs : int, default 1
        How many outputs it has.
    opset : int, optional
        The opset of its model. By default one is drawn.
    domain : str, default ""
        Its domain.
    fixed : tuple of int, optional
        Operands that are constants of the model.
    want : list of ndarray, optional
        What it gives, where the evaluator of the package onnx gives something else.
    """

    operands: list[Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    opset: int = 0
    domain: str = ""
    fixed: tuple[int, ...] = ()
    want: list[Array] | None = None


Draw = Callable[[Rng], Node]


def some(rng: Rng, *shape: int) -> Array:
    """Return numbers of which some are whole."""
    made = rng.normal(size=shape) * 2
    return np.asarray(np.where(rng.random(shape) < 0.2, np.round(made), made), np.float32)


def shape_of(rng: Rng, least: int = 1, most: int = 4) -> tuple[int, ...]:
    """Return a shape without empty axes."""
    return tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(least, most + 1))))


def coin(rng: Rng, share: float = 0.5) -> bool:
    """Return True with some probability."""
    return bool(rng.random() < share)


def option(rng: Rng, made: dict[str, Any], share: float = 0.6) -> dict[str, Any]:
    """Return some of these attributes; the others have their defaults."""
    return {name: value for name, value in made.items() if coin(rng, share)}


def numbers(*values: Any) -> Array:
    """Return whole numbers as an operand."""
    return np.asarray(values, np.int64)


def axis_of(rng: Rng, x: Array) -> int:
    """Return an axis of an array, counted from either end."""
    return int(rng.integers(-x.ndim, x.ndim))


def axes_of(rng: Rng, rank: int, least: int = 1) -> list[int]:
    """Return some different axes in any order, counted from either end."""
    count = int(rng.integers(least, rank + 1))
    return [int(a) - rank * coin(rng) for a in rng.permutation(rank)[:count]]
