"""Points of functions of single elements: of all sizes, and on both sides of what they switch at.

The constants in a function's module are where its series, tables and fractions meet, so numbers
close to them are drawn; so are numbers close to each other, to whole ones and to ends. The
constants are stored: another one in a module must not draw other points.
"""

from __future__ import annotations

import ast
import inspect
import json
import math
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..functions.drawing import Arguments, Rng
from ..language import Array

COUNT: Final = 40
STORED: Final = Path(__file__).with_name("places.json")
_ENDS: Final = (
    0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 2.0**-149, 2.0**-126, 2.0**127,
    -(2.0**127), 0.5, -0.5, 2.0, 2.0**24, 1 - 2.0**-24, 1 + 2.0**-23, 88.5, -88.5, 171.5, -103.0,
)  # fmt: skip


def operands(function: Any) -> int:
    """Return how many operands a function of single elements has, or 0 if it is none."""
    if not inspect.isfunction(function):
        return 0
    every = inspect.signature(function).parameters.values()
    needed = [p for p in every if p.default is inspect.Parameter.empty]
    known = all(str(p.annotation).startswith("Operand") for p in needed)
    return len(needed) if known and len(needed) in (1, 2) else 0


@cache
def places() -> dict[str, list[float]]:
    """Return the stored constants by module."""
    made: dict[str, list[float]] = json.loads(STORED.read_text("utf-8")) if STORED.exists() else {}
    return made


def constants(name: str) -> list[float]:
    """Return the numbers in the source of a module that may be places of its functions."""
    found = set()
    for node in ast.walk(ast.parse(inspect.getsource(import_module(name)))):
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            value = float(node.value)
            if 0.01 < abs(value) < 1e6:
                found.add(value)
    return sorted(found)


def drawn(function: Any, count: int, rng: Rng) -> Arguments:
    """Return operands at points, which go together in some of them."""
    name = function.__module__
    at = places().get(name)
    near = constants(name) if at is None else at
    first = _numbers(rng, near)
    given = [first]
    for _ in range(count - 1):
        other = _numbers(rng, near)
        beside = first * (1 + rng.normal(size=COUNT) * 10.0 ** rng.uniform(-6, 0, COUNT))
        kind = rng.random(COUNT)
        with np.errstate(all="ignore"):
            other = np.where(kind < 0.4, beside, np.where(kind < 0.5, first, other))
        given.append(other)
    if rng.ask == "nan":
        given = [np.where(rng.random(COUNT) < 0.2, np.nan, one) for one in given]
    if rng.random() < 0.6:
        given = [np.abs(one) for one in given]
    with np.errstate(all="ignore"):
        return [one.astype(np.float32) for one in given], {}


def _numbers(rng: Rng, places: Sequence[float]) -> Array:
    """Return numbers of all sizes, near whole ones, near the places of a module, and ends."""
    sign = rng.choice((-1.0, 1.0), COUNT)
    low, high = (-30.0, 30.0) if rng.random() < 0.3 else (-3.0, 2.5)
    sizes = sign * 10.0 ** rng.uniform(low, high, COUNT)
    near = 1 + sign * 10.0 ** rng.uniform(-7, -1, COUNT)
    whole = rng.integers(-12, 30, COUNT) / 2.0
    at = rng.choice(places, COUNT) if places else sizes
    choices = np.stack([
        sizes, rng.normal(size=COUNT) * 4, whole, whole * near, at * near, at,
        np.sqrt(np.abs(at)) * near, rng.choice(_ENDS, COUNT),
    ])  # fmt: skip
    chosen = rng.integers(0, len(choices), (1, COUNT))
    return np.asarray(np.take_along_axis(choices, chosen, 0)[0])
