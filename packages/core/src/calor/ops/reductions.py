"""Rows of the reductions and scans. Reduced axes vanish; the Tensor API puts kept ones back."""

from __future__ import annotations

from typing import Any

from calor.dtypes import DType, bool_, int64
from calor.errors import ShapeError
from calor.ops import elementwise as e
from calor.ops import rules
from calor.ops.base import Op, op
from calor.ops.broadcast import spread as spread
from calor.ops.broadcast import sum as sum
from calor.ops.broadcast import total_rule
from calor.ops.indexing import scatter_along
from calor.ops.movement import (
    concat,
    expand,
    fill,
    flip,
    number_like,
    permute,
    reshape,
    slice_,
)
from calor.ops.sources import iota, zeros_of
from calor.reference import reductions as reference
from calor.specs import Spec, spec

Axes = tuple[int, ...]


def _as(t: Any, x: Any) -> Any:
    return t if t.dtype is x.dtype else e.cast(t, dtype=x.dtype)


def _others(x: Any) -> Any:
    """Return, along the last axis, the product of all other elements; exact where some are 0."""
    last = x.ndim - 1
    ones = expand(reshape(number_like(x, 1), shape=(1,) * x.ndim), shape=(*x.shape[:-1], 1))
    n = x.shape[-1]
    zeros, steps = (0,) * x.ndim, (1,) * x.ndim
    before = concat(
        ones,
        slice_(
            cumprod(x, axis=last, reverse=False),
            starts=zeros,
            stops=(*x.shape[:-1], n - 1),
            steps=steps,
        ),
        axis=last,
    )
    after = concat(
        slice_(
            cumprod(x, axis=last, reverse=True),
            starts=(*zeros[:-1], 1),
            stops=x.shape,
            steps=steps,
        ),
        ones,
        axis=last,
    )
    return before * after


def _prod_gradient(g: Any, y: Any, x: Any, *, axes: Axes, dtype: DType) -> list[Any]:
    if not x.size:
        return [x]
    x = _as(x, g)
    kept = tuple(i for i in range(x.ndim) if i not in axes)
    order = kept + axes
    front = tuple(x.shape[i] for i in kept)
    flat = reshape(permute(x, axes=order), shape=(*front, -1 if not x.size else _count(x, axes)))
    others = e.conjugate(_others(flat))
    part = others * expand(reshape(g, shape=(*front, 1)), shape=flat.shape)
    moved = reshape(part, shape=tuple(x.shape[i] for i in order))
    inverse = tuple(order.index(i) for i in range(x.ndim))
    return [permute(moved, axes=inverse)]


def _count(x: Any, axes: Axes) -> int:
    count = 1
    for a in axes:
        count *= x.shape[a]
    return count


prod: Op = op(
    "prod",
    total_rule,
    lambda x, *, axes, dtype: reference.prod(x, axes=axes, dtype=dtype.numpy),
    lambda g, y, x, *, axes, dtype: [
        _as(t, x) for t in _prod_gradient(g, y, x, axes=axes, dtype=dtype)
    ],
    saves="0",
    autocast="float32",
)


def _extreme_rule(x: Spec, *, axes: Axes) -> Spec:
    rules.ordered(x)
    if any(x.shape[a] == 0 for a in axes if a < x.ndim):
        raise ShapeError(f"max or min of {x} over axes {axes}: an empty axis has no extreme")
    return rules.without_axes(x, axes, x.dtype)


def _hits(x: Any, y: Any) -> Any:
    """Return where x is the extreme y; where there is a NaN, it is."""
    return e.bit_or(e.equal(x, y), e.isnan(x))


def _extreme_gradient(g: Any, y: Any, x: Any, *, axes: Axes) -> list[Any]:
    # Equal extremes share the gradient evenly, as torch.amax does.
    hit = e.cast(_hits(x, spread(y, x, axes)), dtype=g.dtype)
    count = sum(hit, axes=axes, dtype=g.dtype)
    return [hit * spread(g / count, x, axes)]


max: Op = op("max", _extreme_rule, reference.max, _extreme_gradient, saves="0y")
min: Op = op("min", _extreme_rule, reference.min, _extreme_gradient, saves="0y")


def _arg_rule(x: Spec, *, axis: int) -> Spec:
    rules.ordered(x)
    rules.check_axes(x, (axis,))
    if x.shape[axis] == 0:
        raise ShapeError(f"argmax or argmin of {x} along axis {axis}: an empty axis has none")
    return rules.without_axes(x, (axis,), int64)


argmax: Op = op("argmax", _arg_rule, reference.argmax, no_gradient="its result is an index")
argmin: Op = op("argmin", _arg_rule, reference.argmin, no_gradient="its result is an index")


def _truth_rule(x: Spec, *, axes: Axes) -> Spec:
    rules.anything(x)
    return rules.without_axes(x, axes, bool_)


any_: Op = op("any", _truth_rule, reference.any, no_gradient="its result is a truth value")
all_: Op = op("all", _truth_rule, reference.all, no_gradient="its result is a truth value")


# Scans keep the shape; ``reverse`` runs from the end.
def _scan_rule(x: Spec, *, axis: int, reverse: bool) -> Spec:
    rules.check_axes(x, (axis,))
    return rules.numbers(x)


def _extreme_scan_rule(x: Spec, *, axis: int, reverse: bool) -> Spec:
    rules.check_axes(x, (axis,))
    return rules.ordered(x)


def _scan(kind: str) -> Any:
    def reference_of(x: Any, *, axis: int, reverse: bool) -> Any:
        return reference.cumulative(x, kind=kind, axis=axis, reverse=reverse)

    return reference_of


cumsum: Op = op(
    "cumsum",
    _scan_rule,
    _scan("sum"),
    lambda g, y, x, *, axis, reverse: [cumsum(g, axis=axis, reverse=not reverse)],
    autocast="float32",
)


def _shifted(x: Any, axis: int, by: int, fill: float) -> Any:
    """Return x moved ``by`` places towards lower indices along the axis, filled from the end."""
    n = x.shape[axis]
    by = by if by < n else n
    starts, stops = [0] * x.ndim, list(x.shape)
    starts[axis] = by
    rest = slice_(x, starts=tuple(starts), stops=tuple(stops), steps=(1,) * x.ndim)
    shape = (*x.shape[:axis], by, *x.shape[axis + 1 :])
    end = expand(reshape(number_like(x, fill), shape=(1,) * x.ndim), shape=shape)
    return concat(rest, end, axis=axis)


def _cumprod_gradient(g: Any, y: Any, x: Any, *, axis: int, reverse: bool) -> list[Any]:
    # With p the exclusive products, dx[i] = p[i] · r[i] where r[i] = g[i] + x[i+1] · r[i+1]: a
    # linear recurrence, solved by doubling, which needs no division and so is right at zeros.
    if reverse:
        x, g = flip(x, axes=(axis,)), flip(g, axes=(axis,))
    x = e.conjugate(x)
    total, factor = g, _shifted(x, axis, 1, 0.0)
    step = 1
    while step < x.shape[axis]:
        total = total + factor * _shifted(total, axis, step, 0.0)
        factor = factor * _shifted(factor, axis, step, 0.0)
        step *= 2
    back = flip(x, axes=(axis,))
    before = flip(_shifted(back, axis, 1, 1.0), axes=(axis,))
    result = cumprod(before, axis=axis, reverse=False) * total
    return [flip(result, axes=(axis,)) if reverse else result]


cumprod: Op = op(
    "cumprod", _scan_rule, _scan("prod"), _cumprod_gradient, saves="0", autocast="float32"
)


def _extreme_scan_gradient(g: Any, y: Any, x: Any, *, axis: int, reverse: bool) -> list[Any]:
    # Each result comes from the latest place at which the input equalled it.
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    with x.device:
        numbers = iota(length=x.shape[axis], dtype=int64)
    places = expand(reshape(numbers, shape=tuple(shape)), shape=x.shape)
    hit = _hits(x, y)
    if reverse:
        latest = cummin(e.where(hit, places, fill(places, x.shape[axis])), axis=axis, reverse=True)
    else:
        latest = cummax(e.where(hit, places, fill(places, 0)), axis=axis, reverse=False)
    zeros = zeros_of(spec(x.shape, g.dtype), g.device)
    return [scatter_along(zeros, latest, g, axis=axis, update="add")]


cummax: Op = op("cummax", _extreme_scan_rule, _scan("max"), _extreme_scan_gradient, saves="0y")
cummin: Op = op("cummin", _extreme_scan_rule, _scan("min"), _extreme_scan_gradient, saves="0y")
