"""Rows of the running reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import oracles as o
from ..domains import any_bits, away_from, chosen, normal, repeated, well_separated
from ..language import (
    FLOATS,
    INTEGERS,
    NUMBERS,
    ORDERED,
    REAL_FLOATS,
    Array,
    Case,
    Domain,
    Tolerance,
    case,
    exact,
    ulp,
)

_PLACES: list[tuple[tuple[int, ...], int, bool]] = [
    ((3, 4), 1, False),
    ((3, 4), 0, True),
    ((6,), 0, False),
    ((6,), 0, True),
    ((2, 3, 2), 1, True),
    ((1,), 0, False),
    ((2, 0), 1, False),
    ((0, 2), 1, True),
]


def _running(step: Callable[[Any, Any], Any]) -> Callable[..., Array]:
    """Fold along the axis, keeping every intermediate result."""

    def found(x: Array, *, axis: int, reverse: bool) -> Array:
        kind = object if x.dtype.kind in "bO" else x.dtype
        rows = list(np.moveaxis(x.astype(kind), axis, 0))
        rows = rows[::-1] if reverse else rows
        made: list[Any] = []
        for row in rows:
            made.append(row if not made else step(made[-1], row))
        made = made[::-1] if reverse else made
        stacked = np.array(made, kind).reshape(np.moveaxis(x, axis, 0).shape)
        return np.moveaxis(stacked, 0, axis)

    return found


def _rows(op: str, step: Any, domain: Any, dtypes: Any, tol: Tolerance) -> list[Case]:
    return [
        case(op, domain(*shape), axis=axis, reverse=reverse, oracle=_running(step), dtypes=dtypes,
             tol=tol, name=f"{list(shape)}-{axis}{'-reverse' * reverse}")
        for shape, axis, reverse in _PLACES
    ]  # fmt: skip


def _nonzero(*shape: int) -> Domain:
    return away_from(0, *shape)


def _nan_first(choose: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: choose(np.asarray(a), np.asarray(b))


_SPECIAL = chosen([[1, np.nan, 2, 3], [np.inf, -np.inf, 1, 2], [3, -np.inf, np.inf, np.nan]])
_ZEROS = chosen([[2.0, 0.0, 3.0, 4.0], [0.0, 5.0, 0.0, 2.0], [1.0, 2.0, 3.0, 0.0]])


def _extremes(op: str, choose: Any) -> list[Case]:
    step = _nan_first(choose)
    return [
        *_rows(op, step, well_separated, ORDERED, exact),
        *(
            case(op, repeated(2, 9), axis=1, reverse=reverse, oracle=_running(step), dtypes=ORDERED,
                 name=f"ties{'-reverse' * reverse}",
                 no_gradient="at ties the gradient goes to the latest by convention")
            for reverse in (False, True)
        ),
        case(op, _SPECIAL, axis=1, reverse=False, oracle=_running(step), dtypes=REAL_FLOATS,
             name="special", no_gradient="the numbers are not finite"),
        case(op, any_bits(2, 9), axis=1, reverse=True, oracle=_running(step), dtypes=INTEGERS,
             name="bits"),
    ]  # fmt: skip


def _terms(x: Array, *, axis: int, reverse: bool) -> Array:
    return np.asarray(np.sum(np.abs(x), axis, keepdims=True) + np.zeros(x.shape))


CASES: list[Case] = [
    *_rows("cumsum", np.add, normal, NUMBERS, ulp(4, scale=_terms)),
    *_rows("cumprod", np.multiply, _nonzero, NUMBERS, ulp(8)),
    *(
        case("cumprod", _ZEROS, axis=1, reverse=reverse, oracle=_running(np.multiply),
             dtypes=FLOATS, name=f"zeros{'-reverse' * reverse}")
        for reverse in (False, True)
    ),
    *(
        case("cumsum", _SPECIAL, axis=1, reverse=reverse, oracle=_running(np.add),
             dtypes=REAL_FLOATS, name=f"special{'-reverse' * reverse}",
             no_gradient="the numbers are not finite")
        for reverse in (False, True)
    ),
    case("cumsum", any_bits(3, 4), axis=1, reverse=False, oracle=_running(np.add), dtypes=INTEGERS,
         name="wraps"),
    case("cumprod", any_bits(3, 4), axis=1, reverse=True, oracle=_running(np.multiply),
         dtypes=INTEGERS, name="wraps"),
    *_extremes("cummax", o.larger),
    *_extremes("cummin", o.smaller),
]  # fmt: skip
