"""Softmax and norms as row programs, with the values that are kept between passes.

Requirements: half types are computed in float32 and rounded once. A variance subtracts the mean
before it squares. Division of a row by its sum is multiplication by the reciprocal, which costs
half an ulp more than a division and far less time. The maximum of a softmax ignores NaN, since the
sum of the exponentials does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from calor.dtypes import DType, float32
from calor_kernel.library.reduce.program import Recipe


@dataclass(frozen=True, slots=True)
class Made:
    """A composite of a recipe: its results, and the values kept between passes."""

    results: tuple[int, ...]
    kept: tuple[int, ...] = ()


def _wide(dtype: DType) -> DType:
    return float32 if dtype.itemsize == 2 else dtype


def _softmax(recipe: Recipe, x: int) -> Made:
    dtype = recipe.dtype(x)
    wide = recipe.cast(x, _wide(dtype))
    powers = recipe.step("exp", recipe.step("sub", wide, recipe.fold("peak", wide)))
    rate = recipe.step("reciprocal", recipe.fold("sum", powers))
    return Made((recipe.cast(recipe.step("mul", powers, rate), dtype),), (powers,))


def _log_softmax(recipe: Recipe, x: int) -> Made:
    dtype = recipe.dtype(x)
    wide = recipe.cast(x, _wide(dtype))
    shifted = recipe.step("sub", wide, recipe.fold("peak", wide))
    total = recipe.fold("sum", recipe.step("exp", shifted))
    result = recipe.step("sub", shifted, recipe.step("log", total))
    return Made((recipe.cast(result, dtype),))


def _standardize(recipe: Recipe, x: int, count: int, eps: int) -> Made:
    dtype = recipe.dtype(x)
    value = recipe.cast(x, _wide(dtype))
    mean = recipe.step("div", recipe.fold("sum", value), count)
    centred = recipe.step("sub", value, mean)
    squares = recipe.fold("sum", recipe.step("mul", centred, centred))
    variance = recipe.step("div", squares, count)
    result = recipe.step("mul", centred, _rate(recipe, variance, eps))
    return Made((recipe.cast(result, dtype), mean, variance))


def _rms_norm(recipe: Recipe, x: int, count: int, eps: int) -> Made:
    dtype = recipe.dtype(x)
    value = recipe.cast(x, _wide(dtype))
    square = recipe.step("div", recipe.fold("sum", recipe.step("mul", value, value)), count)
    result = recipe.step("mul", value, _rate(recipe, square, eps))
    return Made((recipe.cast(result, dtype), square))


def _rate(recipe: Recipe, square: int, eps: int) -> int:
    return recipe.step("reciprocal", recipe.step("sqrt", recipe.step("add", square, eps)))


COMPOSITES: Final[Mapping[str, Callable[..., Made]]] = {
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "standardize": _standardize,
    "rms_norm": _rms_norm,
}


def composite(
    recipe: Recipe, op: str, x: int, terms: int, eps: float = 0.0
) -> tuple[Made, tuple[float, ...]]:
    """Add a composite of rows of ``terms`` values; return it with a launch's numbers."""
    if op in ("softmax", "log_softmax"):
        return COMPOSITES[op](recipe, x), ()
    wide = _wide(recipe.dtype(x))
    numbers = (float(max(terms, 1)), float(eps))
    return COMPOSITES[op](recipe, x, *(recipe.operand(wide, "number") for _ in numbers)), numbers
