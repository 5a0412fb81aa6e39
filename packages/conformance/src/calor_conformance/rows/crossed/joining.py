"""Slices whose place is a number of the device, and writes at such places."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.dtypes import DType
from calor.ops.base import find

from ..language import Array
from .indexing import INDEX_TYPES
from .language import Problem, Subject, one, shape_of
from .movement import _MAIN as DTYPES
from .movement import bits
from .orders import ORDERS
from .pairwise import Scenario

# Starts beyond the array are clamped, and so are those that a narrower integer would take for 0.
_FAR_STARTS = (0, 1, -1, 40, -1000, (1 << 32) + 1, -(1 << 40))


def _starts(
    scenario: Scenario, rng: np.random.Generator, shape: tuple[int, ...], axis: int
) -> Array:
    kind = np.dtype(scenario["index"])
    limits: Any = np.iinfo(scenario["index"])
    made = [int(rng.integers(0, n + 1)) for n in shape]
    made[axis] = scenario["start"] if scenario["start"] else made[axis]
    return np.array([min(max(v, int(limits.min)), int(limits.max)) for v in made], kind)


def _box(starts: Array, shape: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[slice, ...]:
    first = [min(max(int(s), 0), n - k) for s, n, k in zip(starts, shape, sizes, strict=True)]
    return tuple(slice(a, a + k) for a, k in zip(first, sizes, strict=True))


def _dynamic_slice(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    shape, axis = shape_of(scenario, rng)
    sizes = tuple(int(rng.integers(1, n + 1)) for n in shape)
    starts = _starts(scenario, rng, shape, axis)
    return one(
        [bits(rng, dtype, shape), starts],
        lambda t, s: find("dynamic_slice")(t, s, sizes=sizes),
        lambda a, s: a[_box(s, shape, sizes)],
    )


def _dynamic_update(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    shape, axis = shape_of(scenario, rng)
    sizes = tuple(int(rng.integers(1, n + 1)) for n in shape)
    starts = _starts(scenario, rng, shape, axis)

    def meaning(a: Array, u: Array, s: Array) -> Array:
        made = a.copy()
        made[_box(s, shape, sizes)] = u
        return made

    return one(
        [bits(rng, dtype, shape), bits(rng, dtype, sizes), starts],
        lambda t, u, s: find("dynamic_update_slice")(t, u, s),
        meaning,
    )


_FACTORS: dict[str, Any] = {
    "length": (7, 1, 33, 257, 1500),
    "rank": (2, 1, 3, 4, 5),
    "axis": (0, 1, 2),
    "order": ORDERS,
    "index": INDEX_TYPES,
    "start": _FAR_STARTS,
}
_DEEP: dict[str, Any] = {"length": (65_537, (1 << 18) + 3)}

SUBJECTS: list[Subject] = [
    Subject("dynamic_slice", _dynamic_slice, DTYPES, _FACTORS, _DEEP),
    Subject("dynamic_update_slice", _dynamic_update, DTYPES, _FACTORS, _DEEP),
]
