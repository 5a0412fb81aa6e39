"""Changing shapes and the order of axes; repeating and rolling."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from calor.backends.selection import on_device
from calor.dtypes import int64
from calor.errors import ArgumentError, ShapeError
from calor.functions.operands import (
    as_tensor,
    integer,
    many_axes,
    one_axis,
    pair,
    sizes_of,
    stretched,
)
from calor.graph.recipes import broadcast_shapes
from calor.graph.trace import Handle
from calor.ops import elementwise as e
from calor.ops import movement as m
from calor.ops.indexing import gather
from calor.ops.sources import iota

if TYPE_CHECKING:
    from calor.functions.operands import Axis, Operand
    from calor.tensor.tensor import Tensor


def reshape(x: Operand, /, shape: int | tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """Return the elements in row-major order under another shape; one size may be −1.

    ``copy`` is there for the standard: tensors never share memory, so it changes nothing. Raises
    ShapeError when the number of elements differs.

    >>> import calor
    >>> calor.reshape(calor.arange(6), (2, -1)).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    x = as_tensor(x)
    wanted = sizes_of(shape, "reshape")
    if -1 in wanted:
        known = prod(n for n in wanted if n != -1)
        if wanted.count(-1) > 1 or not known or x.size % known:
            raise ShapeError(
                f"reshape: {x.size} elements of shape {x.shape} do not fill {wanted}; "
                f"one size may be -1 when the others divide the number of elements"
            )
        wanted = tuple(x.size // known if n == -1 else n for n in wanted)
    if wanted == x.shape:
        return x.copy()
    made: Tensor = m.reshape(x, shape=wanted)
    return made


def identity(x: Tensor) -> Tensor:
    """Return a new tensor of the same value, with the gradient passed through."""
    made: Tensor = m.reshape(x, shape=x.shape)
    return made


def flatten(x: Operand, /, *, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """Return the tensor with the axes from ``start_axis`` to ``end_axis`` made one.

    >>> import calor
    >>> calor.flatten(calor.zeros((2, 3, 4)), start_axis=1).shape
    (2, 12)
    """
    x = as_tensor(x)
    if not x.ndim:
        return reshape(x, (1,))
    first = one_axis(start_axis, x.shape, "flatten")
    last = one_axis(end_axis, x.shape, "flatten")
    if first > last:
        raise ShapeError(f"flatten: start_axis {start_axis} is after end_axis {end_axis}")
    shape = x.shape
    return reshape(x, (*shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :]))


def broadcast_to(x: Operand, /, shape: int | tuple[int, ...]) -> Tensor:
    """Return the tensor repeated along new leading axes and axes of size 1; ShapeError if unfit.

    >>> import calor
    >>> calor.broadcast_to(calor.asarray([1, 2]), (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    x = as_tensor(x)
    wanted = sizes_of(shape, "broadcast_to")
    return x.copy() if x.shape == wanted else stretched(x, wanted)


def broadcast_arrays(*arrays: Operand) -> list[Tensor]:
    """Return the tensors broadcast to their common shape; ShapeError when there is none.

    >>> import calor
    >>> [t.shape for t in calor.broadcast_arrays(calor.ones(3), calor.ones((2, 1)))]
    [(2, 3), (2, 3)]
    """
    tensors = [as_tensor(t) for t in arrays]
    if not tensors:
        return []
    shape = broadcast_shapes("broadcast_arrays", [t._value.spec for t in tensors])
    return [broadcast_to(t, shape) for t in tensors]


def broadcast_shapes_of(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that tensors of these shapes broadcast to; ShapeError when there is none.

    >>> import calor
    >>> calor.broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    from calor.specs import spec

    return broadcast_shapes("broadcast_shapes", [spec(tuple(s), int64) for s in shapes or [()]])


def expand_dims(x: Operand, /, axis: int | tuple[int, ...] = 0) -> Tensor:
    """Return the tensor with new axes of size 1 at the given places of the result.

    >>> import calor
    >>> calor.expand_dims(calor.ones((2, 3)), axis=-1).shape
    (2, 3, 1)
    """
    x = as_tensor(x)
    count = len(axis) if isinstance(axis, tuple | list) else 1
    result = [1] * (x.ndim + count)
    places = set(many_axes(axis, tuple(result), "expand_dims"))
    sizes = iter(x.shape)
    return reshape(x, tuple(1 if i in places else next(sizes) for i in range(len(result))))


def squeeze(x: Operand, /, axis: Axis = None) -> Tensor:
    """Return the tensor without the given axes, or without all axes, of size 1.

    Raises ShapeError when a given axis has another size.

    >>> import calor
    >>> calor.squeeze(calor.ones((1, 3, 1)), axis=0).shape
    (3, 1)
    """
    x = as_tensor(x)
    if axis is None:
        return reshape(x, tuple(n for n in x.shape if n != 1))
    axes = many_axes(axis, x.shape, "squeeze")
    for a in axes:
        if x.shape[a] != 1:
            raise ShapeError(f"squeeze: axis {a} of shape {x.shape} has size {x.shape[a]}, not 1")
    return reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in axes))


def permute_dims(x: Operand, /, axes: tuple[int, ...]) -> Tensor:
    """Return the tensor with its axes in another order; ``axes`` names each axis once.

    >>> import calor
    >>> calor.permute_dims(calor.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    x = as_tensor(x)
    order = tuple(one_axis(a, x.shape, "permute_dims") for a in axes)
    if sorted(order) != list(range(x.ndim)):
        raise ShapeError(f"permute_dims: axes {tuple(axes)} must name each of the {x.ndim} axes "
                         f"of shape {x.shape} once")  # fmt: skip
    made: Tensor = m.permute(x, axes=order)
    return made


def transpose(x: Operand, axes: tuple[int, ...] | None = None, /) -> Tensor:
    """Return the tensor with its axes reversed, or in the given order.

    >>> import calor
    >>> calor.transpose(calor.ones((2, 3, 4))).shape
    (4, 3, 2)
    """
    x = as_tensor(x)
    return permute_dims(x, tuple(reversed(range(x.ndim))) if axes is None else axes)


def swapaxes(x: Operand, axis1: int, axis2: int, /) -> Tensor:
    """Return the tensor with two axes exchanged.

    >>> import calor
    >>> calor.swapaxes(calor.ones((2, 3, 4)), 0, -1).shape
    (4, 3, 2)
    """
    x = as_tensor(x)
    order = list(range(x.ndim))
    first, second = one_axis(axis1, x.shape, "swapaxes"), one_axis(axis2, x.shape, "swapaxes")
    order[first], order[second] = second, first
    return permute_dims(x, tuple(order))


def moveaxis(
    x: Operand, source: int | tuple[int, ...], destination: int | tuple[int, ...], /
) -> Tensor:
    """Return the tensor with axes moved to new places; the others keep their order.

    >>> import calor
    >>> calor.moveaxis(calor.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x = as_tensor(x)
    given = [s if isinstance(s, tuple | list) else (s,) for s in (source, destination)]
    for axes in given:
        many_axes(tuple(axes), x.shape, "moveaxis")
    moved, places = ([one_axis(a, x.shape, "moveaxis") for a in axes] for axes in given)
    if len(moved) != len(places):
        raise ShapeError(f"moveaxis: {len(moved)} source axes and {len(places)} destinations")
    order = [a for a in range(x.ndim) if a not in moved]
    for place, axis in sorted(zip(places, moved, strict=True)):
        order.insert(place, axis)
    return permute_dims(x, tuple(order))


def flip(x: Operand, /, *, axis: Axis = None) -> Tensor:
    """Return the tensor with the order of elements reversed along axes, all by default.

    >>> import calor
    >>> calor.flip(calor.asarray([1, 2, 3])).tolist()
    [3, 2, 1]
    """
    x = as_tensor(x)
    made: Tensor = m.flip(x, axes=many_axes(axis, x.shape, "flip"))
    return made


def roll(
    x: Operand, /, shift: int | tuple[int, ...], *, axis: int | tuple[int, ...] | None = None
) -> Tensor:
    """Return the tensor with elements moved by ``shift`` places, those past the end to the front.

    Without ``axis`` the flattened elements move. The shift is an input of the plan.

    >>> import calor
    >>> calor.roll(calor.asarray([1, 2, 3, 4]), 1).tolist()
    [4, 1, 2, 3]
    """
    x = as_tensor(x)
    if axis is None:
        given = shift if isinstance(shift, tuple | list) else (shift,)
        total = sum(integer(s, "roll: shift") for s in given)
        return reshape(_rolled(reshape(x, (x.size,)), total, 0), x.shape)
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    shifts = shift if isinstance(shift, tuple | list) else (shift,) * len(axes)
    if len(shifts) == 1:
        shifts = tuple(shifts) * len(axes)
    if len(shifts) != len(axes):
        raise ArgumentError(f"roll: {len(shifts)} shifts for {len(axes)} axes; give one for each")
    for by, a in zip(shifts, axes, strict=True):
        x = _rolled(x, integer(by, "roll: shift"), one_axis(a, x.shape, "roll"))
    return x.copy()


def _rolled(x: Tensor, shift: int, axis: int) -> Tensor:
    size = x.shape[axis]
    if size < 2:
        return x
    places = pair(e.remainder, pair(e.sub, _count(size, x), shift % size), size)
    made: Tensor = gather(x, places, axis=axis)
    return made


def _count(size: int, like: Tensor) -> Tensor:
    with on_device(like.device):
        made: Tensor = iota(length=size, dtype=int64)
    return made


def repeat(x: Operand, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Return the tensor with each element (or slice along an axis) repeated.

    ``repeats`` is one number, or an integer tensor with one for each element: then the shape of
    the result depends on its values, which are looked at. Without ``axis`` x is flattened.

    >>> import calor
    >>> calor.repeat(calor.asarray([7, 8]), 2).tolist()
    [7, 7, 8, 8]
    >>> calor.repeat(calor.asarray([7, 8]), calor.asarray([1, 3])).tolist()
    [7, 8, 8, 8]
    """
    x = as_tensor(x)
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    axis = one_axis(axis, x.shape, "repeat")
    size = x.shape[axis]
    if isinstance(repeats, Handle | np.ndarray | list | tuple):
        return _repeated(x, repeats, axis)
    times = integer(repeats, "repeat: repeats")
    if times < 0:
        raise ArgumentError(f"repeat: repeats {times} is negative")
    front, back = x.shape[:axis], x.shape[axis + 1 :]
    wide = stretched(reshape(x, (*front, size, 1, *back)), (*front, size, times, *back))
    return reshape(wide, (*front, size * times, *back))


def _repeated(x: Tensor, repeats: Any, axis: int) -> Tensor:
    from calor.functions.creation import asarray
    from calor.functions.searching import searchsorted

    counts = asarray(repeats, device=x.device)
    if not counts.dtype.is_integer:
        raise ArgumentError(f"repeat: repeats must be integers, not {counts.dtype.name}")
    size = x.shape[axis]
    if counts.shape not in ((), (1,), (size,)):
        raise ShapeError(
            f"repeat: repeats of shape {counts.shape} do not fit axis {axis} of shape {x.shape}; "
            f"give one number, or one for each of the {size} elements"
        )
    from calor.functions.reductions import cumulative_sum

    counts = e.cast(counts, dtype=int64)
    ends = cumulative_sum(stretched(counts, (size,)), axis=0)
    host = counts.numpy()
    total = int(host.sum()) * (size if counts.size != size else 1)
    if host.size and host.min() < 0:
        raise ArgumentError("repeat: repeats has a negative number")
    places = searchsorted(ends, _count(total, x), side="right")
    made: Tensor = gather(x, places, axis=axis)
    return made


def tile(x: Operand, repetitions: int | tuple[int, ...], /) -> Tensor:
    """Return the tensor laid out side by side, ``repetitions`` times along each axis.

    >>> import calor
    >>> calor.tile(calor.asarray([1, 2]), (2, 2)).tolist()
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    x = as_tensor(x)
    times = sizes_of(repetitions, "tile")
    if any(t < 0 for t in times):
        raise ArgumentError(f"tile: repetitions {times} has a negative number")
    ndim = max(x.ndim, len(times))
    shape = (1,) * (ndim - x.ndim) + x.shape
    times = (1,) * (ndim - len(times)) + times
    split = tuple(n for size in shape for n in (1, size))
    wide = tuple(n for t, size in zip(times, shape, strict=True) for n in (t, size))
    whole = stretched(reshape(x, split), wide)
    return reshape(whole, tuple(t * n for t, n in zip(times, shape, strict=True)))
