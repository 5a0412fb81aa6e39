"""Sums, products, extremes and truth over axes, and their running forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calor import dtypes
from calor.dtypes import DType, as_dtype
from calor.errors import ShapeError
from calor.functions.operands import as_tensor, many_axes, one_axis
from calor.ops import elementwise as e
from calor.ops import reductions as r
from calor.ops.base import Op
from calor.ops.movement import concat, expand, number_like
from calor.ops.movement import reshape as reshape_row

if TYPE_CHECKING:
    from calor.functions.operands import Axis, Operand
    from calor.tensor.tensor import Tensor


def _accumulator(x: Tensor, dtype: Any) -> DType:
    """Return the dtype of a sum or product: small integers are widened, as in the standard."""
    if dtype is not None:
        return as_dtype(dtype)
    if x.dtype.kind == "uint":
        return dtypes.uint64
    if x.dtype.kind in ("bool", "int"):
        return dtypes.int64
    return x.dtype


def kept(y: Any, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Return a reduced tensor with the reduced axes back as size 1 when they are to be kept."""
    made: Tensor = y
    if keepdims:
        shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
        made = reshape_row(y, shape=shape)
    return made


def _total(row: Op, x: Any, axis: Any, dtype: Any, keepdims: bool) -> Tensor:
    x = as_tensor(x)
    axes = many_axes(axis, x.shape, row.name)
    return kept(row(x, axes=axes, dtype=_accumulator(x, dtype)), x, axes, keepdims)


def sum(x: Operand, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Return the sum over axes, all by default; 0 where there is nothing to sum.

    Integers and booleans are summed as int64 and unsigned integers as uint64 unless ``dtype`` says
    otherwise; half types accumulate in float32.

    >>> import calor
    >>> calor.sum(calor.asarray([[1, 2], [3, 4]]), axis=0).tolist()
    [4, 6]
    """
    return _total(r.sum, x, axis, dtype, keepdims)


def prod(x: Operand, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Return the product over axes, all by default; 1 where there is nothing to multiply.

    The dtype of the result is that of ``sum``.

    >>> import calor
    >>> calor.prod(calor.asarray([[1, 2], [3, 4]]), axis=1).tolist()
    [2, 12]
    """
    return _total(r.prod, x, axis, dtype, keepdims)


def _extreme(row: Op, x: Any, axis: Any, keepdims: bool) -> Tensor:
    x = as_tensor(x)
    axes = many_axes(axis, x.shape, row.name)
    for a in axes:
        if not x.shape[a]:
            raise ShapeError(
                f"{row.name}: axis {a} of shape {x.shape} is empty, so there is nothing to choose"
            )
    return kept(row(x, axes=axes), x, axes, keepdims)


def max(x: Operand, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the largest element over axes, all by default; NaN when there is one.

    Raises ShapeError for an empty axis. Equal elements share the gradient.

    >>> import calor
    >>> calor.max(calor.asarray([[1, 5], [3, 4]]), axis=1).tolist()
    [5, 4]
    """
    return _extreme(r.max, x, axis, keepdims)


def min(x: Operand, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the smallest element over axes, all by default; NaN when there is one.

    Raises ShapeError for an empty axis. Equal elements share the gradient.

    >>> import calor
    >>> calor.min(calor.asarray([[1, 5], [3, 4]]), axis=1).tolist()
    [1, 3]
    """
    return _extreme(r.min, x, axis, keepdims)


def any(x: Operand, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return whether an element over axes is true (not 0); False where there are none.

    >>> import calor
    >>> calor.any(calor.asarray([[True, False], [False, False]]), axis=1).tolist()
    [True, False]
    """
    x = as_tensor(x)
    axes = many_axes(axis, x.shape, "any")
    return kept(r.any_(x, axes=axes), x, axes, keepdims)


def all(x: Operand, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return whether every element over axes is true (not 0); True where there are none.

    >>> import calor
    >>> calor.all(calor.asarray([[True, False], [True, True]]), axis=1).tolist()
    [False, True]
    """
    x = as_tensor(x)
    axes = many_axes(axis, x.shape, "all")
    return kept(r.all_(x, axes=axes), x, axes, keepdims)


def count_nonzero(x: Operand, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return how many elements over axes are not 0, as int64.

    >>> import calor
    >>> calor.count_nonzero(calor.asarray([0, 3, 0, 5])).item()
    2
    """
    x = as_tensor(x)
    flags = x if x.dtype is dtypes.bool_ else e.cast(x, dtype=dtypes.bool_)
    return sum(flags, axis=axis, keepdims=keepdims)


def _line(x: Any, axis: int | None, what: str) -> tuple[Tensor, int]:
    """Return the operand of a scan and its axis, which may be left out for one axis only."""
    x = as_tensor(x)
    if axis is None:
        if x.ndim != 1:
            raise ShapeError(f"{what}: shape {x.shape} has {x.ndim} axes; name one with axis=")
        axis = 0
    return x, one_axis(axis, x.shape, what)


def _running(
    row: Op, x: Any, axis: int | None, dtype: Any, initial: int | None, what: str
) -> Tensor:
    x, axis = _line(x, axis, what)
    wanted = _accumulator(x, dtype)
    if x.dtype is not wanted:
        x = e.cast(x, dtype=wanted)
    made: Tensor = row(x, axis=axis, reverse=False)
    if initial is not None:
        shape = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
        start = reshape_row(number_like(x, initial), shape=(1,) * x.ndim)
        made = concat(expand(start, shape=shape), made, axis=axis)
    return made


def cumulative_sum(
    x: Operand, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Return the running sum along an axis, which may be left out for a tensor of one axis.

    ``include_initial`` puts a 0 in front. The dtype of the result is that of ``sum``.

    >>> import calor
    >>> calor.cumulative_sum(calor.asarray([1, 2, 3]), include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    return _running(r.cumsum, x, axis, dtype, 0 if include_initial else None, "cumulative_sum")


def cumulative_prod(
    x: Operand, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Return the running product along an axis, which may be left out for a tensor of one axis.

    ``include_initial`` puts a 1 in front. The dtype of the result is that of ``sum``.

    >>> import calor
    >>> calor.cumulative_prod(calor.asarray([1, 2, 3])).tolist()
    [1, 2, 6]
    """
    return _running(r.cumprod, x, axis, dtype, 1 if include_initial else None, "cumulative_prod")


def cumulative_max(x: Operand, /, *, axis: int | None = None) -> Tensor:
    """Return the largest element so far along an axis; NaN from the first one on.

    >>> import calor
    >>> calor.cumulative_max(calor.asarray([1, 3, 2])).tolist()
    [1, 3, 3]
    """
    x, axis = _line(x, axis, "cumulative_max")
    made: Tensor = r.cummax(x, axis=axis, reverse=False)
    return made


def cumulative_min(x: Operand, /, *, axis: int | None = None) -> Tensor:
    """Return the smallest element so far along an axis; NaN from the first one on.

    >>> import calor
    >>> calor.cumulative_min(calor.asarray([3, 1, 2])).tolist()
    [3, 1, 1]
    """
    x, axis = _line(x, axis, "cumulative_min")
    made: Tensor = r.cummin(x, axis=axis, reverse=False)
    return made
