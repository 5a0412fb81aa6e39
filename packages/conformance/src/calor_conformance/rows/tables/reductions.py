"""Rows of the reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor import dtypes as t
from calor.dtypes import DType

from ..domains import (
    any_bits,
    away_from,
    chosen,
    extremes,
    neighbours,
    normal,
    positive,
    repeated,
    well_separated,
    whole,
)
from ..language import (
    ARITHMETIC,
    BITS,
    BOOL,
    COMPLEX,
    INTEGERS,
    NUMBERS,
    ORDERED,
    REAL_FLOATS,
    SAME,
    WIDE_FLOATS,
    Array,
    Case,
    Domain,
    Tolerance,
    case,
    exact,
    ulp,
)

TERMS = ulp(4, scale="terms")
FACTORS = ulp(8)


def _folded(function: Any, x: Array, axes: tuple[int, ...]) -> Array:
    """Apply a reduction of NumPy; numbers of Python stay Python's."""
    kind = object if x.dtype.kind in "bO" else None
    wide = np.array(x.tolist(), object).reshape(x.shape) if kind is object else x
    return np.asarray(function(wide, axis=axes, keepdims=False), kind)


def _sum(x: Array, *, axes: Any, dtype: Any) -> Array:
    return _folded(np.sum, _arrived(x, dtype), axes)


def _prod(x: Array, *, axes: Any, dtype: Any) -> Array:
    return _folded(np.prod, _arrived(x, dtype), axes)


def _arrived(x: Array, dtype: Any) -> Array:
    return x.astype(np.clongdouble) if dtype.is_complex and x.dtype.kind != "O" else x


def _extreme(choose: Any, beats: Any) -> Any:
    def found(x: Array, *, axes: tuple[int, ...]) -> Array:
        if x.dtype.kind in "bO":
            return _folded(choose, x, axes) if x.dtype == object else np.asarray(choose(x, axes))
        return np.where(np.isnan(x).any(axes), np.nan, choose(x, axes))

    return found


def _first(beats: Any) -> Any:
    def found(x: Array, *, axis: int) -> Array:
        moved = np.moveaxis(x, axis, -1)
        made = np.zeros(moved.shape[:-1], object)
        for at in np.ndindex(*moved.shape[:-1]):
            row = moved[at].tolist()
            best = 0
            for i, v in enumerate(row):
                if row[best] == row[best] and (v != v or beats(v, row[best])):
                    best = i
            made[at] = best
        return made

    return found


_any = lambda x, *, axes: np.any(x != 0, axes)  # noqa: E731
_all = lambda x, *, axes: np.all(x != 0, axes)  # noqa: E731

_AXES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3, 4), (1,)),
    ((3, 4), (0, 1)),
    ((2, 3, 4), (0, 2)),
    ((5,), (0,)),
    ((3, 4), ()),
    ((), ()),
    ((1, 1), (0, 1)),
    ((2, 1, 3, 1, 2), (1, 2, 4)),
]


def _named(shape: Any, axes: Any) -> str:
    return f"{list(shape)}-{list(axes)}"


def _total(op: str, domain: Any, oracle: Any, tol: Tolerance) -> list[Case]:
    made = [
        case(op, domain(*shape), axes=axes, dtype=SAME, oracle=oracle, dtypes=NUMBERS, tol=tol,
             name=_named(shape, axes))
        for shape, axes in _AXES
    ]  # fmt: skip
    return [
        *made,
        case(op, domain(0, 3), axes=(0,), dtype=SAME, oracle=oracle, dtypes=NUMBERS, name="empty"),
        case(op, domain(2, 0), axes=(0,), dtype=SAME, oracle=oracle, dtypes=NUMBERS, name="none"),
        case(op, any_bits(3, 4), axes=(0,), dtype=SAME, oracle=oracle, dtypes=INTEGERS,
             name="wraps"),
        case(op, any_bits(3, 4), axes=(1,), dtype=t.int64, oracle=oracle,
             dtypes=(*BITS[:4], t.uint8), name="to-int64"),
        case(op, any_bits(3, 4), axes=(1,), dtype=t.uint8, oracle=oracle, dtypes=(t.int32, t.bool_),
             name="to-uint8"),
        case(op, domain(3, 4), axes=(1,), dtype=t.float32, oracle=oracle,
             dtypes=(t.float16, t.bfloat16, t.int8, t.bool_), tol=tol, name="to-float32"),
        case(op, domain(3, 4), axes=(1,), dtype=t.float64, oracle=oracle, dtypes=(t.float32,),
             tol=tol, name="to-float64"),
        case(op, domain(3, 4), axes=(1,), dtype=t.complex128, oracle=oracle,
             dtypes=(t.float64, t.complex64), tol=tol, name="to-complex128"),
    ]  # fmt: skip


def _extremes(op: str, oracle: Any) -> list[Case]:
    made = [
        case(op, well_separated(*shape), axes=axes, oracle=oracle, dtypes=ORDERED,
             name=_named(shape, axes))
        for shape, axes in _AXES
    ]  # fmt: skip
    return [
        *made,
        case(op, repeated(3, 8), axes=(1,), oracle=oracle, dtypes=ORDERED, name="ties",
             no_gradient="at ties the gradient is shared by convention"),
        case(op, _special, axes=(1,), oracle=oracle, dtypes=REAL_FLOATS, name="special",
             no_gradient="the numbers are not finite"),
        case(op, any_bits(3, 9), axes=(1,), oracle=oracle, dtypes=INTEGERS, name="bits"),
        case(op, well_separated(2, 0), axes=(0,), oracle=oracle, dtypes=ORDERED, name="none"),
    ]  # fmt: skip


_special: Domain = chosen(
    [
        [np.nan, 1, 2, 3, 4],
        [1, np.inf, 2, -np.inf, 3],
        [1, 2, np.nan, np.inf, -np.inf],
        [np.inf, np.inf, np.inf, 1, 2],
        [-np.inf, -np.inf, -1, -np.inf, -2],
    ]
)


# What any and all say of a row hangs on whether NaN is true.
_NAN: Domain = chosen([[np.nan, 0], [np.nan, 1], [0, -0.0], [np.nan, np.nan]])


def _index(dtype: DType) -> tuple[DType, ...]:
    return (t.int64,)


def _places(op: str, oracle: Any) -> list[Case]:
    return [
        *(
            case(op, well_separated(*shape), axis=axis, oracle=oracle, dtypes=ORDERED, out=_index,
                 name=f"{list(shape)}-{axis}")
            for shape, axis in [((3, 4), 1), ((3, 4), 0), ((5,), 0), ((2, 3, 2, 1, 2), 1)]
        ),
        case(op, repeated(3, 8), axis=1, oracle=oracle, dtypes=ORDERED, out=_index, name="ties"),
        case(op, _special, axis=1, oracle=oracle, dtypes=REAL_FLOATS, out=_index, name="special"),
        case(op, any_bits(3, 9), axis=1, oracle=oracle, dtypes=INTEGERS, out=_index, name="bits"),
        case(op, neighbours(3, 9), axis=1, oracle=oracle, dtypes=(*INTEGERS, *REAL_FLOATS),
             out=_index, name="neighbours"),
        case(op, well_separated(0, 3), axis=1, oracle=oracle, dtypes=ORDERED, out=_index,
             name="none"),
    ]  # fmt: skip


def _truths(op: str, oracle: Any) -> list[Case]:
    return [
        *(
            case(op, whole(0, 2, *shape), axes=axes, oracle=oracle, dtypes=ARITHMETIC,
                 name=_named(shape, axes))
            for shape, axes in _AXES
        ),
        case(op, extremes(4, 5), axes=(1,), oracle=oracle, dtypes=ARITHMETIC, name="special"),
        case(op, _NAN, axes=(1,), oracle=oracle, dtypes=(*REAL_FLOATS, *COMPLEX), name="nan"),
        case(op, whole(0, 2, 0, 3), axes=(0,), oracle=oracle, dtypes=ARITHMETIC, name="empty"),
        case(op, whole(0, 1, 2, 3), axes=(0,), oracle=oracle, dtypes=BOOL, name="false"),
    ]  # fmt: skip


CASES: list[Case] = [
    *_total("sum", normal, _sum, TERMS),
    *_total("prod", away_from_zero := (lambda *shape: away_from(0, *shape)), _prod, FACTORS),
    case("prod", chosen([[2.0, 0.0, 3.0], [0.0, 5.0, 0.0], [1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]),
         axes=(1,), dtype=SAME, oracle=_prod, dtypes=(*REAL_FLOATS, *COMPLEX), tol=exact,
         name="zeros"),
    case("sum", _special, axes=(1,), dtype=SAME, oracle=_sum, dtypes=REAL_FLOATS, name="special",
         no_gradient="the numbers are not finite"),
    # Half types are summed in float32, in any order, and rounded once.
    *(
        case("sum", positive(2, 3000), axes=(1,), dtype=SAME, oracle=_sum, dtypes=dtypes,
             tol=ulp(units), name=name, no_gradient="too long for differences")
        for name, dtypes, units in [
            ("long", WIDE_FLOATS, 64), ("long-half", (t.float16, t.bfloat16), 1),
        ]
    ),
    *_extremes("max", _extreme(np.max, None)),
    *_extremes("min", _extreme(np.min, None)),
    *_places("argmax", _first(lambda a, b: a > b)),
    *_places("argmin", _first(lambda a, b: a < b)),
    *_truths("any", _any),
    *_truths("all", _all),
]  # fmt: skip
