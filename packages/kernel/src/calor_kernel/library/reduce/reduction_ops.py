"""The operations of reductions and scans: combination of values, identity, and dtype.

Requirements: half types accumulate in float32 and round once. A sum or product whose result has
another type than its terms accumulates in their common type, by NumPy's promotion. Integers wrap,
so those smaller than 32 bits may accumulate in 32.

The error of a sum of floats does not grow with its length. Blocks of terms are added plainly. Each
block's sum is added to the total set aside, with the error of that addition beside it (Neumaier,
1974). So the error is at most (depth of a block + 2) · u · Σ|x|, where u is half an ulp of 1.
Infinite sums stay infinite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Final

import numpy as np

from calor.dtypes import DType, as_dtype, bool_, float32, int32, int64, uint32
from calor_kernel.language import Number, constant, select, vreduce
from calor_kernel.language.builder import current
from calor_kernel.library.math.base import exactly, two_sum

TOTALS: Final = ("sum", "prod")
EXTREMES: Final = ("max", "min")
INDICES: Final = ("argmax", "argmin")
TRUTHS: Final = ("any", "all")
LANES: Final = {
    "sum": "add",
    "prod": "mul",
    "max": "max",
    "peak": "max",
    "min": "min",
    "any": "or",
    "all": "and",
}
"""The reduction of a vector's lanes by kind."""


@dataclass(frozen=True, slots=True)
class ReductionOp:
    """A reduction: its kind, and the dtype of the accumulation.

    Kinds are sum, prod, max, min, any, all, argmax, argmin, and peak: a maximum that ignores NaN,
    which costs less.
    """

    kind: str
    dtype: DType

    @property
    def identity(self) -> float:
        """The identity, as a number of Python."""
        kind, dtype = self.kind, self.dtype
        if kind in ("sum", "any"):
            return False if dtype is bool_ else 0
        if kind in ("prod", "all"):
            return True if dtype is bool_ else 1
        largest = kind in ("min", "argmin")
        if dtype is bool_:
            return largest
        if dtype.kind == "float":
            return inf if largest else -inf
        bits: int = 8 * dtype.itemsize - (dtype.kind == "int")
        if largest:
            return (1 << bits) - 1
        return -(1 << bits) if dtype.kind == "int" else 0

    @property
    def rounds(self) -> bool:
        """Whether the order of the operations changes bits of the result."""
        return self.kind in TOTALS and self.dtype.kind == "float"

    @property
    def compensated(self) -> bool:
        """Whether the sums of blocks are set aside, with their rounding errors."""
        return self.kind == "sum" and self.dtype.kind == "float"

    def neutral(self, width: int = 1) -> Number:
        """Return the identity in each lane."""
        return constant(self.identity, self.dtype, width)

    def combine(self, a: Number, b: Number) -> Number:
        """Return two values combined lane by lane; for extremes NaN if one is NaN."""
        if self.kind == "sum":
            return a + b
        if self.kind == "prod":
            return a * b
        if self.kind == "peak":
            return select(b > a, b, a)
        if a.dtype is bool_:
            return a | b if self.kind in ("any", "max") else a & b
        return current().binary(self.kind, a, b)

    def tree(self, values: Sequence[Number]) -> Number:
        """Return the values combined in a tree, neighbours first."""
        made = list(values)
        while len(made) > 1:
            pairs = [self.combine(a, b) for a, b in zip(made[::2], made[1::2], strict=False)]
            made = pairs + ([made[-1]] if len(made) % 2 else [])
        return made[0]

    @exactly
    def put_aside(self, total: Number, rest: Number, block: Number) -> tuple[Number, Number]:
        """Return the total set aside and its rounding error, after adding a block's total."""
        if not self.compensated:
            return self.combine(total, block), rest
        total, lost = two_sum(total, block)
        return total, rest + lost

    @exactly
    def taken_together(self, total: Number, rest: Number) -> Number:
        """Return the total set aside plus its rounding error."""
        if not self.compensated:
            return total
        # The error of an infinite sum is NaN and is ignored.
        return total + select(rest == rest, rest, 0.0)

    def over_lanes(self, vector: Number) -> Number:
        """Return the lanes of a vector reduced to one value, halves first."""
        name = LANES[self.kind]
        if vector.dtype is bool_:
            name = {"max": "or", "min": "and"}.get(name, name)
        return vreduce(name, vector)

    def beats(self, value: Number, best: Number) -> Number:
        """Return whether a value beats the best one so far, which has the lower index."""
        largest = self.kind == "argmax"
        if value.dtype.kind == "float":
            # A value that is not at most the best is above it, or one of the two is NaN.
            under = value <= best if largest else value >= best
            return ~under & (best == best)
        return value > best if largest else value < best


@cache
def working(kind: str, source: DType, result: DType) -> DType:
    """Return the dtype of the accumulation."""
    if kind in TRUTHS:
        return bool_
    wide = float32 if source.kind == "float" and source.itemsize < 4 else source
    if kind in EXTREMES:
        return wide
    if kind in INDICES:
        return int32 if wide is bool_ else wide
    made = float32 if result.kind == "float" and result.itemsize < 4 else result
    if wide.is_inexact:
        made = as_dtype(np.result_type(made.numpy, wide.numpy))
    if made.is_integer and made.itemsize < 4:
        return int32 if made.kind == "int" else uint32
    return made


def index_type(terms: int) -> DType:
    """Return the dtype of indices."""
    return int32 if terms < 1 << 31 else int64
