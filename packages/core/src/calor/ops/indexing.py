"""Rows that read and write at computed places, and sorting."""

from __future__ import annotations

from math import prod
from typing import Any

from calor.device_selection import as_device
from calor.dtypes import int32, int64
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.ops import elementwise as e
from calor.ops import rules
from calor.ops.base import Op, op
from calor.ops.movement import expand, fill, permute, reshape
from calor.ops.sources import iota, zeros_of
from calor.reference import indexing as reference
from calor.reference import sorting as sorting_reference
from calor.specs import Spec, spec

UPDATES = ("assign", "add", "mul", "max", "min")


def _zeros(like: Any, device: Any) -> Any:
    return zeros_of(spec(like.shape, like.dtype), device)


def _gather_rule(x: Spec, indices: Spec, *, axis: int) -> Spec:
    rules.index_type(indices)
    rules.check_axes(x, (axis,))
    return spec(x.shape[:axis] + indices.shape + x.shape[axis + 1 :], x.dtype)


def _gather_gradient(g: Any, y: Any, x: Any, indices: Any, *, axis: int) -> Any:
    rank = indices.ndim
    lead = tuple(range(axis, axis + rank))
    rest = tuple(i for i in range(g.ndim) if i not in lead)
    updates = permute(g, axes=lead + rest)
    front = (x.shape[axis], *x.shape[:axis], *x.shape[axis + 1 :])
    summed = scatter_nd(
        zeros_of(spec(front, g.dtype), g.device),
        reshape(indices, shape=(*indices.shape, 1)),
        updates,
        update="add",
    )
    order = (*range(1, axis + 1), 0, *range(axis + 1, x.ndim))
    return permute(summed, axes=order)


gather: Op = op(
    "gather",
    _gather_rule,
    reference.gather,
    (_gather_gradient, None),
    saves=("1", ""),
    may_fail=True,
)


def _gather_nd_rule(x: Spec, indices: Spec) -> Spec:
    rules.index_type(indices)
    if indices.ndim < 1 or indices.shape[-1] > x.ndim:
        raise ShapeError(f"gather_nd: the last axis of {indices} must index at most {x.ndim} axes")
    return spec(indices.shape[:-1] + x.shape[indices.shape[-1] :], x.dtype)


gather_nd: Op = op(
    "gather_nd",
    _gather_nd_rule,
    reference.gather_nd,
    (
        lambda g, y, x, indices: scatter_nd(_zeros(x, g.device), indices, g, update="add"),
        None,
    ),
    saves=("1", ""),
    may_fail=True,
)


def _along_rule(x: Spec, indices: Spec, *, axis: int) -> Spec:
    rules.index_type(indices)
    rules.check_axes(x, (axis,))
    for i, (n, m) in enumerate(zip(x.shape, indices.shape, strict=False)):
        if i != axis and n != m:
            raise ShapeError(f"indices {indices} must match {x} on every axis but {axis}")
    if x.ndim != indices.ndim:
        raise ShapeError(f"indices {indices} must have the rank of {x}")
    return spec(indices.shape, x.dtype)


def _along_gradient(g: Any, y: Any, x: Any, indices: Any, *, axis: int) -> Any:
    if indices.shape[axis] == 1:
        return _in_one_place(g, x, indices, axis)
    return scatter_along(_zeros(x, g.device), indices, g, axis=axis, update="add")


def _in_one_place(g: Any, x: Any, indices: Any, axis: int) -> Any:
    """Return zeros of the shape of x, but g at one index along an axis.

    It is elementwise, so that what reads it, such as the gradient of a softmax, need not find it in
    memory.
    """
    size = x.shape[axis]
    number = int32 if size < 1 << 31 else int64
    shape = [1] * x.ndim
    shape[axis] = size
    with g.device:
        places = reshape(iota(length=size, dtype=number), shape=tuple(shape))
    at = indices if indices.dtype is number else e.cast(indices, dtype=number)
    at = e.where(at < 0, at + size, at)
    hit = e.equal(expand(places, shape=x.shape), expand(at, shape=x.shape))
    return e.where(hit, expand(g, shape=x.shape), fill(g, 0, x.shape))


take_along: Op = op(
    "take_along",
    _along_rule,
    reference.take_along,
    (_along_gradient, None),
    saves=("1", ""),
    may_fail=True,
)


def _check_update(x: Spec, updates: Spec, update: str) -> None:
    if update not in UPDATES:
        raise ArgumentError(f"update {update!r} is none of {', '.join(UPDATES)}")
    if updates.dtype is not x.dtype:
        raise DTypeError(f"updates {updates} must have the dtype of {x}")
    if update in ("max", "min"):
        rules.ordered(x)
    elif update != "assign":
        rules.numbers(x)


def _scatter_nd_rule(x: Spec, indices: Spec, updates: Spec, *, update: str) -> Spec:
    _check_update(x, updates, update)
    wanted = _gather_nd_rule(x, indices).shape
    if updates.shape != wanted:
        raise ShapeError(f"scatter_nd: updates {updates} must have shape {wanted}")
    return spec(x.shape, x.dtype)


def _scatter_along_rule(x: Spec, indices: Spec, updates: Spec, *, axis: int, update: str) -> Spec:
    _check_update(x, updates, update)
    if updates.shape != _along_rule(x, indices, axis=axis).shape:
        raise ShapeError(f"scatter_along: updates {updates} must have the shape of {indices}")
    return spec(x.shape, x.dtype)


def _x_gradient(g: Any, y: Any, x: Any, updates: Any, update: str, read: Any, write: Any) -> Any:
    """Gradient of a scatter for x; ``read`` and ``write`` work at its places."""
    if update == "add":
        return g
    if update == "assign":
        return write(g, _zeros(updates, g.device), "assign")
    if update == "mul":
        return g * e.conjugate(write(fill(g, 1), updates, "mul"))
    kept, _, count = _shares(g, y, x, updates, read, write)
    return g * kept / count


def _updates_gradient(
    g: Any, y: Any, x: Any, updates: Any, update: str, read: Any, write: Any
) -> Any:
    """Gradient of a scatter for the updates."""
    if update == "add":
        return read(g)
    if update == "assign":
        # The last of several writers of one place won; the others have no influence.
        places = _numbered(updates, g.device)
        none = zeros_of(spec(x.shape, int64), g.device)
        won = e.equal(read(write(none, places, "assign")), places)
        part = read(g)
        return e.where(won, part, fill(part, 0))
    if update == "mul":
        return read(g) * e.conjugate(_other_factors(x, updates, read, write))
    _, hit, count = _shares(g, y, x, updates, read, write)
    return read(g / count) * hit


def _other_factors(x: Any, updates: Any, read: Any, write: Any) -> Any:
    """Return, per update, x times all other updates of its place; exact where some are 0."""
    zero = e.equal(updates, fill(updates, 0))
    safe = e.where(zero, fill(updates, 1), updates)
    others = read(write(x, safe, "mul")) / safe
    zeros = e.cast(zero, dtype=int64)
    left = read(write(zeros_of(spec(x.shape, int64), x.device), zeros, "add")) - zeros
    return e.where(e.equal(left, fill(left, 0)), others, fill(others, 0))


def _shares(g: Any, y: Any, x: Any, updates: Any, read: Any, write: Any) -> tuple[Any, Any, Any]:
    """Return which x and which updates are the extreme of a place, and how many share it."""
    kept = e.cast(e.equal(x, y), dtype=g.dtype)
    hit = e.cast(e.equal(updates, read(y)), dtype=g.dtype)
    return kept, hit, write(kept, hit, "add")


def _numbered(t: Any, device: Any) -> Any:
    with as_device(device):
        return reshape(iota(length=prod(t.shape), dtype=int64), shape=t.shape)


# What the gradients of x and of the updates read, by the kind of update.
_SCATTER_SAVES = {
    "assign": ("1", "", "1"),
    "add": ("", "", "1"),
    "mul": ("12", "", "012"),
    "max": ("012y", "", "012y"),
    "min": ("012y", "", "012y"),
}


def _scatter_saves(*specs: Spec, update: str, **attributes: Any) -> tuple[str, ...]:
    return _SCATTER_SAVES[update]


def _scatter_nd_vjp(gradient: Any) -> Any:
    def vjp(g: Any, y: Any, x: Any, indices: Any, updates: Any, *, update: str) -> Any:
        return gradient(
            g,
            y,
            x,
            updates,
            update,
            lambda t: gather_nd(t, indices),
            lambda t, u, how: scatter_nd(t, indices, u, update=how),
        )

    return vjp


def _scatter_along_vjp(gradient: Any) -> Any:
    def vjp(g: Any, y: Any, x: Any, indices: Any, updates: Any, *, axis: int, update: str) -> Any:
        return gradient(
            g,
            y,
            x,
            updates,
            update,
            lambda t: take_along(t, indices, axis=axis),
            lambda t, u, how: scatter_along(t, indices, u, axis=axis, update=how),
        )

    return vjp


scatter_nd: Op = op(
    "scatter_nd",
    _scatter_nd_rule,
    reference.scatter_nd,
    (_scatter_nd_vjp(_x_gradient), None, _scatter_nd_vjp(_updates_gradient)),
    saves=_scatter_saves,
    may_fail=True,
)
scatter_along: Op = op(
    "scatter_along",
    _scatter_along_rule,
    reference.scatter_along,
    (_scatter_along_vjp(_x_gradient), None, _scatter_along_vjp(_updates_gradient)),
    saves=_scatter_saves,
    may_fail=True,
)


def _sort_rule(x: Spec, *, axis: int, descending: bool) -> tuple[Spec, Spec]:
    rules.anything(x)
    rules.check_axes(x, (axis,))
    return spec(x.shape, x.dtype), spec(x.shape, int64)


sort: Op = op(
    "sort",
    _sort_rule,
    lambda x, *, axis, descending: sorting_reference.sort(
        x, axis=axis, descending=descending, stable=True
    ),
    lambda g, y, x, *, axis, descending: [
        scatter_along(_zeros(x, g[0].device), y[1], g[0], axis=axis, update="assign")
    ],
    saves="y",
)
