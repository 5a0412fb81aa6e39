"""Runs of equal elements, and running sums of exponentials."""

from __future__ import annotations

from typing import NamedTuple

from calor import dtypes
from calor.errors import ShapeError
from calor.functions.arguments import one_axis
from calor.functions.creation import full
from calor.functions.indexing import take
from calor.functions.joining import concat
from calor.functions.manipulation import moveaxis, reshape
from calor.functions.operands import as_tensor
from calor.functions.reductions import any as any_of
from calor.functions.reductions import cumulative_sum
from calor.functions.searching import flat_nonzero
from calor.functions.transcendental import logaddexp
from calor.tensor.tensor import Operand, Tensor


class UniqueConsecutive(NamedTuple):
    """The first of each run, which run each element is in, and the lengths of the runs."""

    values: Tensor
    inverse_indices: Tensor
    counts: Tensor


def unique_consecutive(
    x: Operand, /, *, axis: int | None = None
) -> UniqueConsecutive:  # numpydoc ignore=RS01
    """Return the first element, or slice, of each run of equal ones.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8.
    axis : int, optional
        The axis whose slices are compared. By default ``x`` is flattened and elements are.

    Returns
    -------
    UniqueConsecutive
        ``values``, in the dtype of ``x``; ``inverse_indices``, in the shape of ``x`` or of the
        size of the axis, which run each is in; ``counts``. The last two are int64. Each NaN is
        distinct.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    TraceError
        If `calor.jit` traces the call: the shape depends on the elements.

    Examples
    --------
    >>> import calor
    >>> found = calor.unique_consecutive(calor.asarray([5, 5, 2, 5]))
    >>> found.values.tolist(), found.counts.tolist()
    ([5, 2, 5], [2, 1, 1])
    """
    x = as_tensor(x)
    line = reshape(x, (x.size,)) if axis is None else x
    along = 0 if axis is None else one_axis(axis, x.shape, "unique_consecutive")
    size = line.shape[along]
    moved = moveaxis(line, along, 0)
    rows = reshape(moved, (size, -1)) if moved.size else reshape(moved, (size, 0))
    differ = any_of(rows[1:] != rows[:-1], axis=1)
    changes = concat((full((min(size, 1),), True, device=x.device), differ[: max(size - 1, 0)]))
    starts = flat_nonzero(changes)
    inverse = cumulative_sum(changes.astype(dtypes.int64)) - 1
    ends = concat((starts[1:], full((min(size, 1),), size, dtype="int64", device=x.device)))
    values = take(line, starts, axis=along)
    shape = x.shape if axis is None else (size,)
    return UniqueConsecutive(values, reshape(inverse, shape), ends - starts)


def cumulative_logsumexp(x: Operand, /, *, axis: int | None = None) -> Tensor:
    """Return log(Σ exp x) over all elements up to each one along an axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any dtype except float8.
    axis : int, optional
        The axis to go along. It may be left out if ``x`` has one axis.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating or complex, else float32. Nothing
        overflows on the way.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    ShapeError
        If ``axis`` is left out and ``x`` has more than one.
    DTypeError
        If an operand is no tensor, array or number.

    Notes
    -----
    log2(n) passes, each of which adds the sums of twice as many elements.

    Examples
    --------
    >>> import calor
    >>> calor.cumulative_logsumexp(calor.zeros(3)).exp().round().tolist()
    [1.0, 2.0, 3.0]
    """
    x = as_tensor(x)
    if axis is None:
        if x.ndim > 1:
            raise ShapeError(f"cumulative_logsumexp: shape {x.shape} has {x.ndim} axes; name one")
        axis = 0
    kind = x.dtype if x.dtype.is_inexact else dtypes.default_float()
    wide = dtypes.float32 if kind.itemsize < 4 else kind
    line = (x if x.ndim else reshape(x, (1,))).astype(wide)
    along = one_axis(axis, line.shape, "cumulative_logsumexp")
    made = moveaxis(line, along, -1)
    size, step = made.shape[-1], 1
    while step < size:
        added = logaddexp(made[..., step:], made[..., : size - step])
        made = concat((made[..., :step], added), axis=-1)
        step *= 2
    return reshape(moveaxis(made, -1, along), x.shape).astype(kind)
