"""Repeating elements, laying out copies, and shifting cyclically."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.dtypes import int64
from calor.errors import ArgumentError, ShapeError
from calor.functions.arguments import integer, one_axis, sizes_of
from calor.functions.creation import asarray
from calor.functions.manipulation import reshape
from calor.functions.operands import as_tensor, pair, stretched
from calor.functions.reductions import cumulative_sum
from calor.functions.searching import searchsorted
from calor.local import local
from calor.ops import elementwise as e
from calor.ops.indexing import gather
from calor.ops.movement import concat, slice_
from calor.ops.sources import iota
from calor.tensor.tensor import Operand, Tensor
from calor.tensor.values import Handle


def roll(  # numpydoc ignore=RS01
    x: Operand, /, shift: int | tuple[int, ...], axis: int | tuple[int, ...] | None = None
) -> Tensor:
    """Return the tensor with the elements shifted cyclically.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.
    shift : int or tuple of int
        By how many positions, to higher indices if positive; one number for all axes or one for
        each. It is an input of the plan, and a constant of a trace of `calor.jit`.
    axis : int or tuple of int, optional
        The axes to shift along. By default the flattened elements are shifted.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``.

    Raises
    ------
    ArgumentError
        If the numbers of shifts and of axes differ.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    TypeError
        If a shift is not a whole number.

    References
    ----------
    Python array API standard 2024.12, ``roll``.

    Examples
    --------
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
    if size < 2 or shift % size == 0:
        return x
    if local.jit:
        # A number is a constant of the trace: two parts change places, and their gradients too.
        return concat(*_halves(x, size - shift % size, axis), axis=axis)  # type: ignore[no-any-return]
    places = pair(e.remainder, pair(e.sub, _count(size, x), shift % size), size)
    made: Tensor = gather(x, places, axis=axis)
    return made


def _halves(x: Tensor, cut: int, axis: int) -> tuple[Tensor, Tensor]:
    """Return the part of a tensor from a cut along an axis on, and the part before."""

    def part(start: int, stop: int) -> Tensor:
        starts, stops = [0] * x.ndim, list(x.shape)
        starts[axis], stops[axis] = start, stop
        made: Tensor = slice_(x, starts=tuple(starts), stops=tuple(stops), steps=(1,) * x.ndim)
        return made

    return part(cut, x.shape[axis]), part(0, cut)


def _count(size: int, like: Tensor) -> Tensor:
    with like.device:
        made: Tensor = iota(length=size, dtype=int64)
    return made


def repeat(x: Operand, repeats: int | Tensor, /, axis: int | None = None) -> Tensor:
    """Return the tensor with each element, or slice along an axis, repeated.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.
    repeats : int or Tensor
        How often, at least 0: one number, or integers of shape (n,) for the n elements of the axis.
        The values of a tensor determine the shape and are read.
    axis : int, optional
        The axis to repeat along. By default ``x`` is flattened.

    Returns
    -------
    Tensor
        The dtype of ``x``.

    Raises
    ------
    ArgumentError
        If a number is negative, or ``repeats`` is not of integers.
    ShapeError
        If ``repeats`` does not fit the axis.
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    TraceError
        If ``repeats`` is a tensor and `calor.jit` traces the call.
    DTypeError
        If ``x`` is no tensor, array or number.
    TypeError
        If ``repeats`` is not a whole number.

    References
    ----------
    Python array API standard 2024.12, ``repeat``.

    Examples
    --------
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
    counts = asarray(repeats, device=x.device)
    if not counts.dtype.is_integer:
        raise ArgumentError(f"repeat: repeats must be integers, not {counts.dtype.name}")
    size = x.shape[axis]
    if counts.shape not in ((), (1,), (size,)):
        raise ShapeError(
            f"repeat: repeats of shape {counts.shape} do not fit axis {axis} of shape {x.shape}; "
            f"give one number, or one for each of the {size} elements"
        )
    counts = e.cast(counts, dtype=int64)
    ends = cumulative_sum(stretched(counts, (size,)), axis=0)
    host = counts.numpy()
    total = int(host.sum()) * (size if counts.size != size else 1)
    if host.size and host.min() < 0:
        raise ArgumentError("repeat: repeats has a negative number")
    places = searchsorted(ends, _count(total, x), side="right")
    made: Tensor = gather(x, places, axis=axis)
    return made


def tile(x: Operand, repetitions: int | tuple[int, ...], /) -> Tensor:  # numpydoc ignore=RS01
    """Return copies of the tensor laid side by side along each axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape and dtype.
    repetitions : int or tuple of int
        How many copies along each axis, counted from the last; each at least 0.

    Returns
    -------
    Tensor
        The dtype of ``x``; each size is multiplied by its repetitions.

    Raises
    ------
    ArgumentError
        If a number is negative.
    DTypeError
        If ``x`` is no tensor, array or number.

    References
    ----------
    Python array API standard 2024.12, ``tile``.

    Examples
    --------
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
