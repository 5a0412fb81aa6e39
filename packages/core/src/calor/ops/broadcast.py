"""Rows of broadcasting: reshape, expand and sum, each the gradient of another.

Their gradients call each other, so they stand in one module.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from calor.dtypes import DType
from calor.errors import DTypeError, ShapeError
from calor.ops import rules
from calor.ops.base import Op, op
from calor.reference import reductions as reference
from calor.specs import Spec, spec

Axes = tuple[int, ...]


def _reshape_rule(x: Spec, *, shape: Axes) -> Spec:
    if prod(shape) != x.size or any(n < 0 for n in shape):
        raise ShapeError(f"reshape: {x} has {x.size} elements, shape {shape} has {prod(shape)}")
    return spec(shape, x.dtype)


reshape: Op = op(
    "reshape",
    _reshape_rule,
    lambda x, *, shape: x.reshape(shape),
    lambda g, y, x, *, shape: [reshape(g, shape=x.shape)],
)


def _expand_rule(x: Spec, *, shape: Axes) -> Spec:
    lead = len(shape) - x.ndim
    if lead < 0 or any(n not in (1, m) for n, m in zip(x.shape, shape[lead:], strict=True)):
        raise ShapeError(f"expand: {x} does not broadcast to {shape}")
    return spec(shape, x.dtype)


def _expand_gradient(g: Any, y: Any, x: Any, *, shape: Axes) -> list[Any]:
    lead = len(shape) - x.ndim
    axes = tuple(i for i, n in enumerate(shape) if i < lead or (x.shape[i - lead] == 1 and n != 1))
    if axes:
        g = sum(g, axes=axes, dtype=g.dtype)
    return [reshape(g, shape=x.shape) if g.shape != x.shape else g]


expand: Op = op(
    "expand",
    _expand_rule,
    lambda x, *, shape: np.broadcast_to(x, shape),
    _expand_gradient,
)


def total_rule(x: Spec, *, axes: Axes, dtype: DType) -> Spec:
    """Numbers in, a number of the dtype for each place that is left."""
    if dtype.kind in ("bool", "storage") or x.dtype.kind == "storage":
        raise DTypeError(f"a sum or product of {x} cannot be {dtype.name}; choose a numeric dtype")
    return rules.without_axes(x, axes, dtype)


def _keep(x: Any, axes: Axes) -> tuple[int, ...]:
    return tuple(1 if i in axes else n for i, n in enumerate(x.shape))


def spread(t: Any, x: Any, axes: Axes) -> Any:
    """Return a reduced tensor expanded back over the reduced axes to the shape of x."""
    return expand(reshape(t, shape=_keep(x, axes)), shape=x.shape)


sum: Op = op(
    "sum",
    total_rule,
    lambda x, *, axes, dtype: reference.sum(x, axes=axes, dtype=dtype.numpy),
    lambda g, y, x, *, axes, dtype: [
        spread(g if g.dtype is x.dtype else g.astype(x.dtype), x, axes)
    ],
    autocast="float32",
)
