"""Rows of the ops that read and write at computed places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from calor.dtypes import int8, int32, int64, uint8

from .. import oracles as o
from ..domains import any_bits, away_from, chosen, indices, normal, well_separated, whole
from ..language import (
    EVERY,
    INTEGERS,
    NUMBERS,
    ORDERED,
    REAL_FLOATS,
    Array,
    Case,
    Domain,
    case,
    exact,
    ulp,
)

Place = tuple[int, ...]


def _gather(x: Array, indices: Array, *, axis: int) -> Array:
    made = np.empty(x.shape[:axis] + indices.shape + x.shape[axis + 1 :], x.dtype)
    for at in np.ndindex(*made.shape):
        middle = int(indices[at[axis : axis + indices.ndim]])
        made[at] = x[(*at[:axis], middle, *at[axis + indices.ndim :])]
    return made


def _gather_nd(x: Array, indices: Array) -> Array:
    depth = indices.shape[-1]
    made = np.empty(indices.shape[:-1] + x.shape[depth:], x.dtype)
    for at in np.ndindex(*indices.shape[:-1]):
        made[at] = x[tuple(int(i) for i in indices[at])]
    return made


def _take_along(x: Array, indices: Array, *, axis: int) -> Array:
    made = np.empty(indices.shape, x.dtype)
    for at in np.ndindex(*indices.shape):
        made[at] = x[(*at[:axis], int(indices[at]), *at[axis + 1 :])]
    return made


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "assign": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": lambda old, new: o.larger(np.asarray(old), np.asarray(new))[()],
    "min": lambda old, new: o.smaller(np.asarray(old), np.asarray(new))[()],
}


def _scattered(x: Array, updates: Array, places: Iterator[tuple[Place, Place]], how: str) -> Array:
    made = x.copy()
    for target, source in places:
        made[target] = _COMBINE[how](made[target], updates[source])
    return made


def _scatter_nd(x: Array, indices: Array, updates: Array, *, update: str) -> Array:
    depth = indices.shape[-1]

    def places() -> Iterator[tuple[Place, Place]]:
        for at in np.ndindex(*updates.shape):
            lead, rest = at[: indices.ndim - 1], at[indices.ndim - 1 :]
            first = tuple(int(i) % n for i, n in zip(indices[lead], x.shape[:depth], strict=True))
            yield (*first, *rest), at

    return _scattered(x, updates, places(), update)


def _scatter_along(x: Array, indices: Array, updates: Array, *, axis: int, update: str) -> Array:
    def places() -> Iterator[tuple[Place, Place]]:
        for at in np.ndindex(*indices.shape):
            yield (*at[:axis], int(indices[at]) % x.shape[axis], *at[axis + 1 :]), at

    return _scattered(x, updates, places(), update)


def _reads(name: str, shape: tuple[int, ...], index: Domain, axis: int) -> Case:
    return case("gather", normal(*shape), index, axis=axis, oracle=_gather, dtypes=EVERY, raw=True,
                name=name)  # fmt: skip


def _along(name: str, shape: tuple[int, ...], index: Domain, axis: int) -> Case:
    return case("take_along", normal(*shape), index, axis=axis, oracle=_take_along, dtypes=EVERY,
                raw=True, name=name)  # fmt: skip


def _nd(name: str, shape: tuple[int, ...], index: Domain) -> Case:
    return case("gather_nd", normal(*shape), index, oracle=_gather_nd, dtypes=EVERY, raw=True,
                name=name)  # fmt: skip


# Each update op with what it takes; products have numbers away from 0 and then zeros.
_UPDATES: list[tuple[str, Any, Any, Any]] = [
    ("assign", EVERY, normal, exact),
    ("add", NUMBERS, normal, ulp(4, scale=lambda x, i, u, **_: np.sum(np.abs(u)))),
    ("mul", NUMBERS, lambda *shape: away_from(0, *shape), ulp(8)),
    ("max", ORDERED, well_separated, exact),
    ("min", ORDERED, well_separated, exact),
]
_TWICE = chosen([[0], [2], [0], [3]], int64)
_PAIRS = chosen([[0, 1], [2, 3], [0, 1], [-1, 0], [2, -1]], int64)
_ALONG = chosen([[0, 1, 0, 2], [2, 1, 1, 0]], int64)


def _writes(update: str, dtypes: Any, domain: Any, tol: Any) -> list[Case]:
    # One place is written twice; distinct numbers keep extremes apart.
    raw = update == "assign"
    common: dict[str, Any] = {"update": update, "dtypes": dtypes, "tol": tol, "raw": raw}
    tie = None
    if update in ("max", "min"):
        tie = "an old number and an update may be equal"
    return [
        case("scatter_nd", domain(4, 3), _TWICE, domain(4, 3), oracle=_scatter_nd,
             name=f"{update}-rows", no_gradient=tie, **common),
        case("scatter_nd", domain(3, 4), _PAIRS, domain(5), oracle=_scatter_nd,
             name=f"{update}-elements", no_gradient=tie, **common),
        case("scatter_nd", domain(3), chosen(np.zeros((1, 0)), int64), domain(1, 3),
             oracle=_scatter_nd, name=f"{update}-all", no_gradient=tie, **common),
        case("scatter_nd", domain(3, 2), indices(3, 0, 1), domain(0, 2), oracle=_scatter_nd,
             name=f"{update}-none", **common),
        case("scatter_along", domain(3, 4), _ALONG, domain(2, 4), axis=0, oracle=_scatter_along,
             name=f"{update}-rows", no_gradient=tie, **common),
        case("scatter_along", domain(2, 3), chosen([[0, 2, 0, -2], [1, 1, 1, 1]], int32),
             domain(2, 4), axis=1, oracle=_scatter_along, name=f"{update}-columns",
             no_gradient=tie, **common),
    ]  # fmt: skip


def _apart(update: str) -> list[Case]:
    """Extremes at numbers that are all different, so that they have one derivative."""
    return [
        case("scatter_nd", between_odd(4, 3), _TWICE, between_even(4, 3), oracle=_scatter_nd,
             update=update, dtypes=ORDERED, name=f"{update}-apart"),
        case("scatter_along", between_odd(3, 4), _ALONG, between_even(2, 4), axis=0,
             oracle=_scatter_along, update=update, dtypes=ORDERED, name=f"{update}-apart"),
    ]  # fmt: skip


def _shifted(offset: float) -> Any:
    def domain(*shape: int) -> Domain:
        base = well_separated(*shape)

        def draw(rng: Any, dtype: Any, shape: Any) -> Array:
            made = base.draw(rng, dtype, shape)
            if dtype.kind == "bool":
                return made
            return (made * (2 if dtype.is_integer else 1) + offset).astype(dtype.numpy)

        return Domain("apart", shape, draw)

    return domain


between_even, between_odd = _shifted(0), _shifted(0.25)

_NONE = [2.0, np.nan, np.inf, -1.0]
_ZEROS = chosen([2.0, 0.0, 3.0, 4.0])
_FACTORS = chosen([2.0, 0.0, 0.0, 0.0, 5.0, 7.0])
_WHERE = chosen([[0], [1], [2], [2], [3], [3]], int64)

CASES: list[Case] = [
    _reads("middle", (2, 4, 3), indices(4, 2, 2), 1),
    _reads("first", (5,), indices(5, 7), 0),
    _reads("last", (2, 3), indices(3, 4), 1),
    _reads("one", (4, 2), indices(4), 0),
    _reads("negative", (4, 2), indices(4, 5, low=-4), 0),
    _reads("none", (4, 2), indices(4, 0), 0),
    _reads("int8-indices", (4, 2), whole(0, 4, 3).of(int8), 0),
    _reads("uint8-indices", (4, 2), whole(0, 4, 3).of(uint8), 0),
    _reads("uint8-beyond-int8", (300, 2), chosen([127, 128, 200, 255], uint8), 0),
    _along("rows", (3, 4), indices(3, 2, 4), 0),
    _along("columns", (3, 4), indices(4, 3, 6, low=-4), 1),
    _along("none", (3, 4), indices(3, 0, 4), 0),
    _along("rank-4", (2, 1, 3, 2), indices(3, 2, 1, 2, 2), 2),
    _nd("elements", (3, 4), chosen([[0, 1], [2, 3], [-1, -4], [0, 1]], int64)),
    _nd("rows", (3, 4), chosen([[[2]], [[0]]], int32)),
    _nd("all", (3,), chosen(np.zeros((2, 0)), int64)),
    _nd("none", (3, 2), indices(3, 0, 2)),
    *(row for how in _UPDATES for row in _writes(*how)),
    *_apart("max"),
    *_apart("min"),
    *(
        case("scatter_nd", chosen(_NONE), chosen([[0], [0], [1], [2], [3], [3]], int64),
             chosen([1.0, np.nan, 5.0, -np.inf, 2.0, 3.0]), update=update, oracle=_scatter_nd,
             dtypes=REAL_FLOATS, name=f"{update}-special", no_gradient="the numbers are not finite")
        for update in ("assign", "add", "max", "min")
    ),
    case("scatter_nd", _ZEROS, _WHERE, _FACTORS, update="mul", oracle=_scatter_nd, dtypes=NUMBERS,
         name="mul-zeros"),
    case("scatter_nd", any_bits(4), _WHERE, any_bits(6), update="mul", oracle=_scatter_nd,
         dtypes=INTEGERS, name="mul-wraps"),
    case("scatter_nd", any_bits(4), _WHERE, any_bits(6), update="add", oracle=_scatter_nd,
         dtypes=INTEGERS, name="add-wraps"),
]  # fmt: skip
