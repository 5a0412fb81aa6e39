"""Rows of the ops that move elements: views, slices, padding, concatenation."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.errors import ShapeError
from calor.ops import rules
from calor.ops.base import Op, Scalar, op
from calor.ops.broadcast import expand as expand
from calor.ops.broadcast import reshape as reshape
from calor.ops.broadcast import sum as sum_
from calor.ops.sources import full, zeros_of
from calor.reference import indexing as reference
from calor.specs import Spec, spec

Axes = tuple[int, ...]


def _permute_rule(x: Spec, *, axes: Axes) -> Spec:
    if sorted(axes) != list(range(x.ndim)):
        raise ShapeError(f"permute: axes {axes} are no permutation of the {x.ndim} axes of {x}")
    return spec(tuple(x.shape[a] for a in axes), x.dtype)


def _inverse(axes: Axes) -> Axes:
    return tuple(int(a) for a in np.argsort(axes))


permute: Op = op(
    "permute",
    _permute_rule,
    lambda x, *, axes: x.transpose(axes),
    lambda g, y, x, *, axes: [permute(g, axes=_inverse(axes))],
)


def _slice_length(start: int, stop: int, step: int) -> int:
    # Of bounds that fit an axis; sizes may be symbolic.
    return -((start - stop) // step) if step > 0 else -((stop - start) // -step)


def _slice_rule(x: Spec, *, starts: Axes, stops: Axes, steps: Axes) -> Spec:
    for what, values in (("starts", starts), ("stops", stops), ("steps", steps)):
        rules.same_rank(x, values, what)
    for n, a, b, s in zip(x.shape, starts, stops, steps, strict=True):
        inside = 0 <= a <= b <= n if s > 0 else (s < 0 and -1 <= b <= a < max(n, 1))
        if not inside:
            raise ShapeError(f"slice [{a}:{b}:{s}] does not fit an axis of {n} elements of {x}")
    return spec(tuple(_slice_length(*t) for t in zip(starts, stops, steps, strict=True)), x.dtype)


def _slice_reference(x: Any, *, starts: Axes, stops: Axes, steps: Axes) -> Any:
    return x[
        tuple(
            slice(a, None if b < 0 else b, s) for a, b, s in zip(starts, stops, steps, strict=True)
        )
    ]


def _slice_gradient(g: Any, y: Any, x: Any, *, starts: Axes, stops: Axes, steps: Axes) -> list[Any]:
    back = tuple(i for i, s in enumerate(steps) if s < 0)
    if back:
        g = flip(g, axes=back)
    low, high, interior = [], [], []
    for n, m, a, s in zip(x.shape, g.shape, starts, steps, strict=True):
        first = a if s > 0 else a + (m - 1) * s
        span = (m - 1) * abs(s) + 1 if m else 0
        first = first if m else 0
        low.append(first)
        high.append(n - first - span)
        interior.append(abs(s) - 1 if m else 0)
    return [
        pad(
            g,
            number_like(g, 0),
            low=tuple(low),
            high=tuple(high),
            interior=tuple(interior),
        )
    ]


slice_: Op = op("slice", _slice_rule, _slice_reference, _slice_gradient)


def number_like(x: Any, number: Any) -> Any:
    """Return a 0-d tensor with the dtype and device of x."""
    with x.device:
        return full(value=Scalar.of(number, x.dtype), shape=(), dtype=x.dtype)


def fill(x: Any, number: Any, shape: Axes | None = None) -> Any:
    """Return a tensor of the dtype and device of x with one number everywhere.

    ``shape``: by default that of x.
    """
    return expand(number_like(x, number), shape=x.shape if shape is None else shape)


def _pad_rule(x: Spec, value: Spec, *, low: Axes, high: Axes, interior: Axes) -> Spec:
    for what, values in (("low", low), ("high", high), ("interior", interior)):
        rules.same_rank(x, values, what)
        if any(n < 0 for n in values):
            raise ShapeError(f"pad: {what} {values} has a negative entry; slice to crop")
    if value.shape != () or value.dtype is not x.dtype:
        raise ShapeError(f"pad: the value {value} must be 0-d and of dtype {x.dtype.name}")
    return spec(
        tuple(
            a + b + n + max(n - 1, 0) * i
            for n, a, b, i in zip(x.shape, low, high, interior, strict=True)
        ),
        x.dtype,
    )


def _pad_inside(low: Axes, shape: Axes, interior: Axes) -> tuple[Axes, Axes, Axes]:
    stops = tuple(
        a + (n - 1) * (i + 1) + 1 if n else a for a, n, i in zip(low, shape, interior, strict=True)
    )
    return low, stops, tuple(i + 1 for i in interior)


def _pad_reference(x: Any, value: Any, *, low: Axes, high: Axes, interior: Axes) -> Any:
    shape = tuple(
        a + b + n + max(n - 1, 0) * i
        for n, a, b, i in zip(x.shape, low, high, interior, strict=True)
    )
    out = np.empty(shape, x.dtype)
    out[...] = value
    starts, stops, steps = _pad_inside(low, x.shape, interior)
    out[tuple(slice(*t) for t in zip(starts, stops, steps, strict=True))] = x
    return out


def _pad_part(g: Any, x: Any, low: Axes, interior: Axes) -> Any:
    starts, stops, steps = _pad_inside(low, x.shape, interior)
    return slice_(g, starts=starts, stops=stops, steps=steps)


def _pad_value_gradient(
    g: Any, y: Any, x: Any, value: Any, *, low: Axes, high: Axes, interior: Axes
) -> Any:
    axes = tuple(range(len(low)))
    inner = sum_(_pad_part(g, x, low, interior), axes=axes, dtype=g.dtype)
    return sum_(g, axes=axes, dtype=g.dtype) - inner


pad: Op = op(
    "pad",
    _pad_rule,
    _pad_reference,
    (
        lambda g, y, x, value, *, low, high, interior: _pad_part(g, x, low, interior),
        _pad_value_gradient,
    ),
    saves=("", ""),
)


def _flip_rule(x: Spec, *, axes: Axes) -> Spec:
    rules.check_axes(x, axes)
    return spec(x.shape, x.dtype)


flip: Op = op(
    "flip",
    _flip_rule,
    lambda x, *, axes: np.flip(x, axes),
    lambda g, y, x, *, axes: [flip(g, axes=axes)],
)


def _concat_rule(*xs: Spec, axis: int) -> Spec:
    first = xs[0]
    rules.check_axes(first, (axis,))
    for x in xs[1:]:
        same = (
            x.shape[:axis] == first.shape[:axis] and x.shape[axis + 1 :] == first.shape[axis + 1 :]
        )
        if x.ndim != first.ndim or not same or x.dtype is not first.dtype:
            raise ShapeError(f"concat along axis {axis}: {x} does not fit {first}")
    size = sum(x.shape[axis] for x in xs)
    return spec((*first.shape[:axis], size, *first.shape[axis + 1 :]), first.dtype)


def _concat_gradient(g: Any, y: Any, *xs: Any, axis: int) -> list[Any]:
    parts, start = [], 0
    ones = (1,) * g.ndim
    for x in xs:
        starts = [0] * g.ndim
        stops = list(g.shape)
        starts[axis], stops[axis] = start, start + x.shape[axis]
        parts.append(slice_(g, starts=tuple(starts), stops=tuple(stops), steps=ones))
        start += x.shape[axis]
    return parts


concat: Op = op(
    "concat",
    _concat_rule,
    lambda *xs, axis: np.concatenate(xs, axis),
    _concat_gradient,
)


def _starts_rule(x: Spec, starts: Spec) -> None:
    rules.index_type(starts)
    if starts.shape != (x.ndim,):
        raise ShapeError(f"starts {starts} must hold one start per axis of {x}")


def _dynamic_slice_rule(x: Spec, starts: Spec, *, sizes: Axes) -> Spec:
    _starts_rule(x, starts)
    rules.same_rank(x, sizes, "sizes")
    if any(not 0 <= s <= n for s, n in zip(sizes, x.shape, strict=True)):
        raise ShapeError(f"dynamic_slice: sizes {sizes} do not fit {x}")
    return spec(sizes, x.dtype)


def _dynamic_update_rule(x: Spec, update: Spec, starts: Spec) -> Spec:
    _dynamic_slice_rule(x, starts, sizes=update.shape)
    if update.dtype is not x.dtype:
        raise ShapeError(f"dynamic_update_slice: update {update} must have the dtype of {x}")
    return spec(x.shape, x.dtype)


def _zeros(like: Any, device: Any) -> Any:
    return zeros_of(spec(like.shape, like.dtype), device)


dynamic_slice: Op = op(
    "dynamic_slice",
    _dynamic_slice_rule,
    reference.dynamic_slice,
    (
        lambda g, y, x, starts, *, sizes: dynamic_update_slice(_zeros(x, g.device), g, starts),
        None,
    ),
    saves=("1", ""),
)
dynamic_update_slice: Op = op(
    "dynamic_update_slice",
    _dynamic_update_rule,
    reference.dynamic_update_slice,
    (
        lambda g, y, x, update, starts: dynamic_update_slice(g, _zeros(update, g.device), starts),
        lambda g, y, x, update, starts: dynamic_slice(g, starts, sizes=update.shape),
        None,
    ),
    saves=("2", "2", ""),
)
