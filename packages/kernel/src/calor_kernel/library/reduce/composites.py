"""Softmax and norms as row programs, with the values that are kept between passes.

Requirements: half types are computed in float32 and rounded once. A variance subtracts the mean
before it squares. Division of a row by its sum is multiplication by the reciprocal, which costs
half an ulp more than a division and far less time. The maximum of a softmax ignores NaN, since the
sum of the exponentials does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from calor.dtypes import float32
from calor_kernel.library.reduce.program import Recipe

COMPOSITES: Final = ("softmax", "log_softmax", "standardize", "rms_norm")


@dataclass(frozen=True, slots=True)
class Made:
    """A composite of a recipe: its results, the launch's numbers, and the values to keep."""

    results: tuple[int, ...]
    numbers: tuple[float, ...] = ()
    kept: tuple[int, ...] = ()


def composite(recipe: Recipe, op: str, x: int, terms: int, eps: float = 0.0) -> Made:
    """Add a composite of rows of ``terms`` values; ``eps``: of a norm."""
    dtype, step, fold = recipe.dtype(x), recipe.step, recipe.fold
    value = recipe.cast(x, float32 if dtype.itemsize == 2 else dtype)
    if op in ("softmax", "log_softmax"):
        shifted = step("sub", value, fold("peak", value))
        powers = step("exp", shifted)
        total = fold("sum", powers)
        if op == "log_softmax":
            return Made((recipe.cast(step("sub", shifted, step("log", total)), dtype),))
        made = step("mul", powers, step("reciprocal", total))
        return Made((recipe.cast(made, dtype),), kept=(powers,))
    numbers = (float(max(terms, 1)), float(eps))
    count, least = (recipe.operand(recipe.dtype(value), "number") for _ in numbers)
    means: tuple[int, ...] = ()
    if op == "standardize":
        means = (step("div", fold("sum", value), count),)
        value = step("sub", value, *means)
    square = step("div", fold("sum", step("mul", value, value)), count)
    rate = step("reciprocal", step("sqrt", step("add", square, least)))
    if op == "standardize":
        # Where squares overflow there is no deviation: NaN instead of a rate of 0.
        rate = step("add", rate, step("sub", square, square))
    return Made((recipe.cast(step("mul", value, rate), dtype), *means, square), numbers)
