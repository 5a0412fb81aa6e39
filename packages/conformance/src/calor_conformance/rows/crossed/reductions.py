"""Reductions: any axes, any order, specials anywhere along a row, and sums of many terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calor.dtypes import DType, bool_, int64
from calor.ops.base import find

from ..language import (
    ARITHMETIC,
    NUMBERS,
    ORDERED,
    REALS,
    WIDE_FLOATS,
    Array,
    Tolerance,
    limits_of,
    ulp,
)
from .drawing import POSITIONS, numbers, places, rows_of_specials, whole, with_specials
from .language import DEEP, LENGTHS, LONG, Problem, Subject, modular, one, shape_of, wide
from .orders import ORDERS
from .pairwise import Scenario

# What is named twice is tried twice as often.
_AXES = ("one", "outer", "one", "apart", "all")
# A blocked sum of any length; one accumulator is off by thousands of units.
_SUM = ulp(24)


def _axes(scenario: Scenario, rank: int, axis: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Return the reduced axes, that of the length among them."""
    kind = scenario["axes"]
    if kind == "all":
        return tuple(range(rank))
    if kind == "one" or rank == 1:
        return (axis,)
    others = [a for a in range(rank) if a != axis]
    if kind == "apart":
        far = [a for a in others if abs(a - axis) > 1]
        return tuple(sorted((axis, int(rng.choice(far or others)))))
    return tuple(sorted((axis, others[0])))


def _terms(x: Array, axes: tuple[int, ...]) -> Array:
    return np.asarray(np.abs(wide(x)).sum(axis=axes))


def _extreme(op: str, meaning: Callable[..., Any]) -> Any:
    def build(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
        shape, axis = shape_of(scenario, rng)
        sign = scenario["sign"]
        x = numbers(rng, dtype, shape)
        if sign and not (dtype is bool_ or dtype.kind == "uint"):
            x = (np.abs(x) + x.dtype.type(1)) * x.dtype.type(sign)
        x = rows_of_specials(x, axis, dtype, rng)
        axes = _axes(scenario, x.ndim, axis, rng)
        return one(
            [x],
            lambda t: find(op)(t, axes=axes),
            lambda a: meaning(a, axis=axes),
            zeros=False,
        )

    return build


def _place(op: str, beats: Callable[[Array, int], Array]) -> Any:
    def build(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
        shape, axis = shape_of(scenario, rng)
        draw = numbers if scenario["sign"] else whole
        x = rows_of_specials(draw(rng, dtype, shape), axis, dtype, rng)
        return one([x], lambda t: find(op)(t, axis=axis), lambda a: beats(a, axis), dtype=int64)

    return build


def _first(choose: Any) -> Callable[[Array, int], Array]:
    """Return the first place of an extreme, by comparing with it; NaN is one."""

    def found(x: Array, axis: int) -> Array:
        best = choose(x, axis=axis, keepdims=True)
        same = (x == best) | ((x != x) & (best != best))
        return np.asarray(np.argmax(same, axis=axis), np.int64)

    return found


def _truth(op: str, whole_row: Any) -> Any:
    def build(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
        shape, axis = shape_of(scenario, rng)
        n, alone = shape[axis], op == "any"
        # A row in which one element decides.
        x = np.zeros(shape, dtype.numpy) if alone else np.ones(shape, dtype.numpy)
        rare: list[Any] = [0]
        if alone:
            rare = [1]
            if dtype.is_integer:
                rare = [1 << (8 * dtype.itemsize - 2), 1]
            elif dtype.is_inexact:
                rare = [np.nan, 1e-7]
        x = with_specials(x, axis, places(scenario["position"], n, rng), rare, rng)
        axes = _axes(scenario, x.ndim, axis, rng)
        return one(
            [x],
            lambda t: find(op)(t, axes=axes),
            lambda a: whole_row(a != 0, axis=axes),
            dtype=bool_,
        )

    return build


def _sum(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    shape, axis = shape_of(scenario, rng)
    x = rows_of_specials(numbers(rng, dtype, shape), axis, dtype, rng)
    if dtype.is_inexact:
        # The largest numbers have no sum.
        largest = float(limits_of(dtype.numpy).max) if not dtype.is_complex else np.inf
        x = np.where(np.abs(x) == largest, x.dtype.type(1), x)
    axes = _axes(scenario, x.ndim, axis, rng)
    return one(
        [x],
        lambda t: find("sum")(t, axes=axes, dtype=dtype),
        lambda a: _exact_sum(a, axes),
        tol=_SUM,
        scale=lambda a: np.where(np.isfinite(_terms(a, axes)), _terms(a, axes), 0),
        zeros=False,
    )


def _exact_sum(x: Array, axes: tuple[int, ...]) -> Array:
    return np.asarray((modular(x) if x.dtype.kind in "iu" else wide(x)).sum(axis=axes))


def _prod(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    shape, axis = shape_of(scenario, rng)
    axes = _axes(scenario, len(shape), axis, rng)
    if dtype.is_integer:
        x = rng.integers(0, 120, shape).astype(dtype.numpy) | dtype.numpy.type(1)
    else:
        x = np.exp2(rng.integers(-1, 2, shape) * (rng.random(shape) < 8 / shape[axis]))
        x = (x * np.where(rng.random(shape) < 0.5, -1, 1)).astype(dtype.numpy)
    return one(
        [x],
        lambda t: find("prod")(t, axes=axes, dtype=dtype),
        lambda a: (modular(a) if a.dtype.kind in "iu" else wide(a)).prod(axis=axes),
        tol=ulp(0.5),
    )


def _mixed(op: str) -> Any:
    """A reduction of narrow integers in a wider dtype."""

    def build(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
        shape, axis = shape_of(scenario, rng)
        narrow = scenario["narrow"]
        if op == "prod":
            x = np.where(rng.random(shape) < 6 / shape[axis], 9, 1).astype(narrow)
        else:
            x = np.full(shape, np.iinfo(narrow).max, narrow)
        return one(
            [x],
            lambda t: find(op)(t, axes=(axis,), dtype=dtype),
            lambda a: getattr(modular(a), op)(axis=axis),
            dtype=dtype,
        )

    return build


def _long(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    """Terms of one sign, whose rounding errors do not cancel."""
    shape, axis = shape_of(scenario, rng)
    x = np.full(shape, 0.1) if scenario["terms"] == "equal" else rng.random(shape)
    return one(
        [x.astype(dtype.numpy)],
        lambda t: find("sum")(t, axes=(axis,), dtype=dtype),
        lambda a: wide(a).sum(axis=axis),
        tol=Tolerance(24, 1),
    )


_WHERE: dict[str, Any] = {
    "length": (*LENGTHS, 1031),
    "rank": (2, 1, 3, 4, 5, 2),
    "axis": (0, 1, 0, 2),
    "order": ORDERS,
}
_ROW: dict[str, Any] = {
    **_WHERE,
    "sign": (0, -1, 1),
}
_TOTAL: dict[str, Any] = {**_ROW, "axes": _AXES}
_FAR: dict[str, Any] = {"length": DEEP}

SUBJECTS: list[Subject] = [
    Subject("max", _extreme("max", np.max), ORDERED, _TOTAL, _FAR),
    Subject("min", _extreme("min", np.min), ORDERED, _TOTAL, _FAR),
    Subject("argmax", _place("argmax", _first(np.max)), ORDERED, _ROW, _FAR),
    Subject("argmin", _place("argmin", _first(np.min)), ORDERED, _ROW, _FAR),
    Subject("any", _truth("any", np.any), ARITHMETIC,
            {**_WHERE, "position": POSITIONS, "axes": _AXES}, _FAR),
    Subject("all", _truth("all", np.all), ARITHMETIC,
            {**_WHERE, "position": POSITIONS, "axes": _AXES}, _FAR),
    Subject("sum", _sum, NUMBERS, _TOTAL, _FAR, differentiable=True),
    Subject("prod", _prod, REALS, {**_WHERE, "axes": _AXES}, _FAR),
    Subject("sum", _mixed("sum"), (int64,),
            {**_WHERE, "narrow": (np.int8, np.uint8, np.int16, np.int32)}, name="widening"),
    Subject("prod", _mixed("prod"), (int64,),
            {**_WHERE, "narrow": (np.int8, np.uint8, np.int16, np.int32)}, name="widening"),
    Subject("sum", _long, WIDE_FLOATS,
            {"length": LONG, "rank": (1, 2, 3), "axis": (0, 1), "order": ("plain", "permuted"),
             "terms": ("equal", "random")},
            {"length": ((1 << 20) + 3, 10_000_000), "rank": (1, 2)}, name="long"),
]  # fmt: skip
