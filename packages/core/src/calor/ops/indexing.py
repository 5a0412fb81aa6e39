"""Rows that read and write at computed places, and sorting."""

from __future__ import annotations

from typing import Any

from calor.dtypes import int64
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.ops import elementwise as e
from calor.ops import rules
from calor.ops.base import Op, op
from calor.ops.movement import permute, reshape
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


gather: Op = op("gather", _gather_rule, reference.gather, (_gather_gradient, None), saves=("1", ""))


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


take_along: Op = op(
    "take_along",
    _along_rule,
    reference.take_along,
    (
        lambda g, y, x, indices, *, axis: scatter_along(
            _zeros(x, g.device), indices, g, axis=axis, update="add"
        ),
        None,
    ),
    saves=("1", ""),
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


def _scatter_gradients(
    g: Any, y: Any, x: Any, updates: Any, update: str, read: Any, write: Any
) -> tuple[Any, Any]:
    """Gradients of a scatter for x and the updates; ``read`` and ``write`` work at its places."""
    if update == "add":
        return g, read(g)
    if update == "assign":
        # The last of several writers of one place won; the others have no influence.
        places = _numbered(updates)
        won = e.equal(read(write(_zeros_like(x, places), places, "assign")), places)
        return write(g, updates - updates, "assign"), e.where(won, read(g), updates - updates)
    if update == "mul":
        others = write(x - x + 1, updates, "mul")
        zero = e.equal(updates, updates - updates)
        safe = e.where(zero, updates - updates + 1, updates)
        part = e.where(zero, read(g * x), read(g * y) / safe)
        return g * e.conjugate(others), part
    kept = e.cast(e.equal(x, y), dtype=g.dtype)
    hit = e.cast(e.equal(updates, read(y)), dtype=g.dtype)
    count = write(kept, hit, "add")
    return g * kept / count, read(g / count) * hit


def _numbered(t: Any) -> Any:
    n = t.size
    zeros = zeros_of(spec((n,), int64), t.device)
    return reshape(zeros + iota(length=n, dtype=int64), shape=t.shape)


def _zeros_like(x: Any, places: Any) -> Any:
    return zeros_of(spec(x.shape, places.dtype), x.device)


def _scatter_nd_vjp(which: int) -> Any:
    def vjp(g: Any, y: Any, x: Any, indices: Any, updates: Any, *, update: str) -> Any:
        return _scatter_gradients(
            g,
            y,
            x,
            updates,
            update,
            lambda t: gather_nd(t, indices),
            lambda t, u, how: scatter_nd(t, indices, u, update=how),
        )[which]

    return vjp


def _scatter_along_vjp(which: int) -> Any:
    def vjp(g: Any, y: Any, x: Any, indices: Any, updates: Any, *, axis: int, update: str) -> Any:
        return _scatter_gradients(
            g,
            y,
            x,
            updates,
            update,
            lambda t: take_along(t, indices, axis=axis),
            lambda t, u, how: scatter_along(t, indices, u, axis=axis, update=how),
        )[which]

    return vjp


scatter_nd: Op = op(
    "scatter_nd",
    _scatter_nd_rule,
    reference.scatter_nd,
    (_scatter_nd_vjp(0), None, _scatter_nd_vjp(1)),
    saves=("012y", "", "012y"),
)
scatter_along: Op = op(
    "scatter_along",
    _scatter_along_rule,
    reference.scatter_along,
    (_scatter_along_vjp(0), None, _scatter_along_vjp(1)),
    saves=("012y", "", "012y"),
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
