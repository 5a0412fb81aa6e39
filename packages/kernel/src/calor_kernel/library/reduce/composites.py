"""Softmax and norms as programs of rows, each with what it keeps between the walks.

Requirements: half types are computed in float32 and rounded once; a variance subtracts the mean
before it squares; a row is divided by its sum as a product with the reciprocal, which costs half an
ulp more than a division and far less time; the maximum of a softmax does not see NaN, as the sum of
the exponentials does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from calor.dtypes import DType, float32
from calor_kernel.library.reduce.program import Program, Recipe


def _wide(dtype: DType) -> DType:
    return float32 if dtype.itemsize == 2 else dtype


def softmax(dtype: DType) -> Program:
    """Return exp(x − max) / sum(exp(x − max))."""
    recipe = Recipe()
    x = recipe.operand(dtype)
    wide = recipe.cast(x, _wide(dtype))
    powers = recipe.step("exp", recipe.step("sub", wide, recipe.fold("peak", wide)))
    rate = recipe.step("reciprocal", recipe.fold("sum", powers))
    result = recipe.cast(recipe.step("mul", powers, rate), dtype)
    return recipe.program([result], kept=[powers])


def log_softmax(dtype: DType) -> Program:
    """Return x − max − log(sum(exp(x − max)))."""
    recipe = Recipe()
    x = recipe.operand(dtype)
    wide = recipe.cast(x, _wide(dtype))
    shifted = recipe.step("sub", wide, recipe.fold("peak", wide))
    total = recipe.fold("sum", recipe.step("exp", shifted))
    result = recipe.step("sub", shifted, recipe.step("log", total))
    return recipe.program([recipe.cast(result, dtype)])


def standardize(dtype: DType) -> Program:
    """Return (x − mean) / sqrt(variance + eps), the mean and the variance.

    Numbers: how many values a row has, and eps.
    """
    recipe = Recipe()
    wide = _wide(dtype)
    x = recipe.operand(dtype)
    count, eps = recipe.operand(wide, "number"), recipe.operand(wide, "number")
    value = recipe.cast(x, wide)
    mean = recipe.step("div", recipe.fold("sum", value), count)
    centred = recipe.step("sub", value, mean)
    squares = recipe.fold("sum", recipe.step("mul", centred, centred))
    variance = recipe.step("div", squares, count)
    result = recipe.step("mul", centred, _rate(recipe, variance, eps))
    return recipe.program([recipe.cast(result, dtype), mean, variance])


def rms_norm(dtype: DType) -> Program:
    """Return x / sqrt(square + eps), and the mean square; numbers as for standardize."""
    recipe = Recipe()
    wide = _wide(dtype)
    x = recipe.operand(dtype)
    count, eps = recipe.operand(wide, "number"), recipe.operand(wide, "number")
    value = recipe.cast(x, wide)
    square = recipe.step("div", recipe.fold("sum", recipe.step("mul", value, value)), count)
    result = recipe.step("mul", value, _rate(recipe, square, eps))
    return recipe.program([recipe.cast(result, dtype), square])


def _rate(recipe: Recipe, square: int, eps: int) -> int:
    return recipe.step("reciprocal", recipe.step("sqrt", recipe.step("add", square, eps)))


COMPOSITES: Final[dict[str, Callable[[DType], Program]]] = {
    "softmax": softmax,
    "log_softmax": log_softmax,
    "standardize": standardize,
    "rms_norm": rms_norm,
}


def numbers_of(op: str, terms: int, attributes: Any) -> tuple[float, ...]:
    """Return the numbers of a launch."""
    if op in ("standardize", "rms_norm"):
        return (float(max(terms, 1)), float(attributes["eps"]))
    return ()
