"""Products of arrays over contracted and batch axes.

Requirements: BLAS does the work wherever the result stays right: floating and complex directly,
half types in float32 with one rounding, integers through a floating type when a bound shows that
every partial sum is a whole number it holds exactly.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from calor.reference.precision import FLOAT32, FLOAT64, HALVES, Array, DType, quiet, rounded

Axes = tuple[int, ...]
Pair = tuple[Axes, Axes]


@quiet
def dot_general(a: Array, b: Array, *, contract: Pair, batch: Pair, dtype: Any = None) -> Array:
    """Return the sums of products of a and b, of shape batch + free axes of a + free axes of b.

    ``contract`` and ``batch`` are pairs of axes of a and of b, matched in order. ``dtype``, that of
    a when not given, is accumulated in and returned: integers wrap in it, half types accumulate in
    float32 and round once, bool is the or of ands.
    """
    a, b = np.asarray(a), np.asarray(b)
    target = np.dtype(a.dtype if dtype is None else dtype)
    left = [i for i in range(a.ndim) if i not in contract[0] and i not in batch[0]]
    right = [i for i in range(b.ndim) if i not in contract[1] and i not in batch[1]]
    shared = tuple(a.shape[i] for i in batch[0])
    depth = prod(a.shape[i] for i in contract[0])
    rows, columns = [a.shape[i] for i in left], [b.shape[i] for i in right]
    kind = accumulator(a, b, depth, target)
    x = a.transpose(*batch[0], *left, *contract[0]).astype(kind, copy=False)
    y = b.transpose(*batch[1], *contract[1], *right).astype(kind, copy=False)
    product = matmul(
        x.reshape(*shared, prod(rows), depth), y.reshape(*shared, depth, prod(columns))
    )
    return settled(product, target).reshape((*shared, *rows, *columns))


def accumulator(a: Array, b: Array, depth: int, target: DType) -> DType:
    """Return the dtype in which sums of ``depth`` products are computed for a target dtype."""
    if target.kind == "b":
        return FLOAT32 if depth < 2**24 else FLOAT64
    if target.kind not in "iu":
        widest = FLOAT32 if target in HALVES else target
        for x in (a, b):
            widest = np.result_type(widest, FLOAT32 if x.dtype in HALVES else x.dtype)
        return widest
    bound = depth * _magnitude(a) * _magnitude(b)
    if bound <= 2**24:
        return FLOAT32
    return FLOAT64 if bound <= 2**53 else max((target, a.dtype, b.dtype), key=_width)


def settled(x: Array, target: DType) -> Array:
    """Return accumulated sums in their target dtype: rounded once, or wrapped."""
    if target.kind == "b":
        return np.asarray(x != 0)
    if target.kind in "iu":
        # Sums held in a floating type are whole and small, so int64 holds them too.
        whole = x.astype(np.int64) if x.dtype.kind == "f" else x
        return whole.astype(target, copy=False)
    return rounded(x, target)


def matmul(a: Array, b: Array) -> Array:
    """Return the matrix product, copying operands whose rows do not lie one after another.

    BLAS may add in another order where they do not, and the bits of a product are those of its
    operands' values, however these lie.
    """
    return np.asarray(np.matmul(np.ascontiguousarray(a), np.ascontiguousarray(b)))


def _width(dtype: DType) -> int:
    return dtype.itemsize


def _magnitude(x: Array) -> int:
    if not x.size:
        return 0
    return max(abs(int(x.max())), abs(int(x.min())))
