"""Totals of values: trees of neighbours, and compensated sums of blocks.

Requirements: the error of a sum of floats does not grow with its length. Blocks of terms are added
plainly. Each block's sum is added to the total set aside, with the error of that addition beside it
(Neumaier, 1974). So the error is at most (depth of a block + 2) · u · Σ|x|, where u is half an ulp
of 1. Infinite sums stay infinite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor_kernel.language import Number, select
from calor_kernel.library.math.base import exactly, two_sum
from calor_kernel.library.reduce.program import Fold
from calor_kernel.library.reduce.reduction_ops import joined


def tree(kind: str, values: Sequence[Any]) -> Any:
    """Return the values joined in a tree, neighbours first."""
    made = list(values)
    while len(made) > 1:
        pairs = [joined(kind, a, b) for a, b in zip(made[::2], made[1::2], strict=False)]
        made = pairs + ([made[-1]] if len(made) % 2 else [])
    return made[0]


def is_rounded(fold: Fold) -> bool:
    """Return whether a reduction rounds, so that its blocks are set aside."""
    return fold.kind == "sum" and fold.dtype.kind == "float"


@exactly
def put_aside(fold: Fold, total: Number, rest: Number, block: Number) -> tuple[Number, Number]:
    """Return the total set aside and its rounding error, after adding a block's total."""
    if not is_rounded(fold):
        return joined(fold.kind, total, block), rest
    total, lost = two_sum(total, block)
    return total, rest + lost


@exactly
def taken_together(fold: Fold, total: Number, rest: Number) -> Number:
    """Return the total set aside plus its rounding error."""
    if not is_rounded(fold):
        return total
    # The error of an infinite sum is NaN and is ignored.
    return total + select(rest == rest, rest, 0.0)
