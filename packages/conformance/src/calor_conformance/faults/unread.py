"""Faults of what must not be read: weights of zero, and means with what stands there."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.backends.op_table import Function

from .base import Array, Fault, afterwards, changing


def _of_both_triangles(right: Function) -> Function:
    """Take the mean of a matrix and its adjoint, as for matrices that are Hermitian."""
    return lambda x: right(((x + x.conj().swapaxes(-1, -2)) / 2).astype(x.dtype))


def _weighted_triangle(y: Array, x: Any, a: Any) -> Array:
    """Multiply the other triangle by zero, and add it."""
    return np.asarray(y + (0 * x[0].sum(-1, keepdims=True)).astype(y.dtype))


def _weighted_rows(y: Array, x: Any, a: Any) -> Array:
    """Make rows by a product with zeros and ones."""
    if y.dtype != np.float32 or not y.size:
        return y
    return np.asarray(y + (0 * x[0].sum()).astype(y.dtype))


FAULTS = [
    Fault(
        "factor-of-both-triangles",
        "cholesky reads both triangles and factors their mean",
        changing(cholesky=_of_both_triangles),
        ("unread/cholesky",),
        ("cholesky",),
    ),
    Fault(
        "other-triangle-times-zero",
        "triangular systems multiply the other triangle by zero, which NaN passes",
        changing(triangular_solve=afterwards(_weighted_triangle)),
        ("unread/solve_triangular",),
        ("triangular_solve",),
    ),
    Fault(
        "other-rows-times-zero",
        "rows are gathered by a product with zeros and ones, which NaN in other rows passes",
        changing(gather=afterwards(_weighted_rows)),
        ("unread/rows",),
        ("gather",),
    ),
]
