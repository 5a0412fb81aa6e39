"""Batching rules of the ops that move elements.

A rule takes the size of the mapped axis, whether each operand has it (as its first axis), the
operands and the attributes. It returns the results, each with that axis first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.dtypes import bool_, int32, int64
from calor.ops import elementwise as e
from calor.ops.base import Scalar
from calor.ops.indexing import scatter_along, take_along
from calor.ops.movement import (
    dynamic_slice,
    dynamic_update_slice,
    expand,
    fill,
    number_like,
    pad,
    permute,
    reshape,
    slice_,
)
from calor.ops.sources import full, iota

Axes = tuple[int, ...]
Mapped = tuple[bool, ...]


def leading(size: int, mapped: bool, x: Any) -> Any:
    """Return an operand with the mapped axis first: a view that repeats it if it had none."""
    return x if mapped else expand(x, shape=(size, *x.shape))


def moved(x: Any, source: int, target: int) -> Any:
    """Return a tensor with one axis at another place."""
    if source == target:
        return x
    order = [i for i in range(x.ndim) if i != source]
    order.insert(target, source)
    return permute(x, axes=tuple(order))


def over(x: Any, shape: Axes) -> Any:
    """Return a tensor (size,) repeated over further axes, to a shape that begins with its own."""
    return expand(reshape(x, shape=(x.shape[0], *(1,) * (len(shape) - 1))), shape=shape)


def permute_rule(size: int, mapped: Mapped, x: Any, *, axes: Axes) -> Any:
    """Keep the mapped axis first."""
    return permute(x, axes=(0, *(a + 1 for a in axes)))


def reshape_rule(size: int, mapped: Mapped, x: Any, *, shape: Axes) -> Any:
    """Reshape the rest."""
    return reshape(x, shape=(size, *shape))


def expand_rule(size: int, mapped: Mapped, x: Any, *, shape: Axes) -> Any:
    """Put new axes between the mapped one and those of the operand."""
    new = len(shape) + 1 - x.ndim
    if new:
        x = reshape(x, shape=(size, *(1,) * new, *x.shape[1:]))
    return expand(x, shape=(size, *shape))


def slice_rule(size: int, mapped: Mapped, x: Any, *, starts: Axes, stops: Axes, steps: Axes) -> Any:
    """Take the mapped axis whole."""
    return slice_(x, starts=(0, *starts), stops=(size, *stops), steps=(1, *steps))


def pad_rule(
    size: int, mapped: Mapped, x: Any, value: Any, *, low: Axes, high: Axes, interior: Axes
) -> Any:
    """Pad the rest; a mapped value is chosen where a padded mask is False."""
    by = {"low": (0, *low), "high": (0, *high), "interior": (0, *interior)}
    x = leading(size, mapped[0], x)
    if not mapped[1]:
        return pad(x, value, **by)
    padded = pad(x, number_like(x, 0), **by)
    with x.device:
        inside = full(value=Scalar.of(True, bool_), shape=x.shape[1:], dtype=bool_)
    kept = pad(inside, number_like(inside, False), low=low, high=high, interior=interior)
    return e.where(expand(kept, shape=padded.shape), padded, over(value, padded.shape))


def dynamic_slice_rule(size: int, mapped: Mapped, x: Any, starts: Any, *, sizes: Axes) -> Any:
    """Read along one axis after the other; starts that differ become indices."""
    if not mapped[1]:
        return dynamic_slice(x, _with_zero(starts), sizes=(size, *sizes))
    x = leading(size, mapped[0], x)
    for axis, length in enumerate(sizes, 1):
        if length != x.shape[axis]:
            x = take_along(x, _places(x, starts, axis, length), axis=axis)
    return x


def dynamic_update_slice_rule(size: int, mapped: Mapped, x: Any, update: Any, starts: Any) -> Any:
    """Write along one axis after the other; starts that differ become indices."""
    x, update = leading(size, mapped[0], x), leading(size, mapped[1], update)
    if not mapped[2]:
        return dynamic_update_slice(x, update, _with_zero(starts))
    axes = [a for a in range(1, x.ndim) if update.shape[a] != x.shape[a]]
    return _updated(x, update, starts, axes)


def _updated(x: Any, update: Any, starts: Any, axes: list[int]) -> Any:
    if not axes:
        return update
    axis, *rest = axes
    length = update.shape[axis]
    places = _places(x, starts, axis, length)
    part = _updated(take_along(x, places, axis=axis), update, starts, rest) if rest else update
    return scatter_along(x, places, part, axis=axis, update="assign")


def _with_zero(starts: Any) -> Any:
    """Return the starts with a zero for the mapped axis in front."""
    one = (1,)
    return pad(starts, number_like(starts, 0), low=one, high=(0,), interior=(0,))


def _places(x: Any, starts: Any, axis: int, length: int) -> Any:
    """Return the indices along an axis of slices that begin at the starts, clamped so they fit.

    ``starts``: (size, axes of x without the mapped one).
    """
    size, room = x.shape[0], x.shape[axis] - length
    first = slice_(starts, starts=(0, axis - 1), stops=(size, axis), steps=(1, 1))
    # Clamped in their own type, which may hold more than the indices' or less than the room.
    last = min(room, int(np.iinfo(first.dtype.numpy).max))
    first = e.maximum(e.minimum(first, fill(first, last)), fill(first, 0))
    number = int32 if x.shape[axis] < 1 << 31 else int64
    with x.device:
        steps = iota(length=length, dtype=number)
    shape = tuple(length if a == axis else n for a, n in enumerate(x.shape))
    first = expand(e.cast(first, dtype=number), shape=(size, length))
    along = first + expand(steps, shape=(size, length))
    kept = tuple(length if a == axis else size if a == 0 else 1 for a in range(x.ndim))
    return expand(reshape(along, shape=kept), shape=shape)
