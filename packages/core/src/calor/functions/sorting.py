"""Sorting along an axis. It is always stable, and NaN comes last in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from calor.dtypes import int64
from calor.errors import ArgumentError
from calor.functions.joining import split
from calor.functions.operands import as_tensor, integer, one_axis
from calor.ops import indexing as i
from calor.ops.sources import zeros_of
from calor.specs import spec

if TYPE_CHECKING:
    from calor.functions.operands import Operand
    from calor.tensor.tensor import Tensor


def _sorted(x: Operand, axis: int, descending: bool, what: str) -> tuple[Tensor, Tensor]:
    x = as_tensor(x)
    if not x.ndim and axis in (0, -1):
        return x.copy(), zeros_of(spec((), int64), x.device)
    values, places = i.sort(x, axis=one_axis(axis, x.shape, what), descending=bool(descending))
    return values, places


def sort(x: Operand, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the tensor with its elements in ascending or descending order along an axis.

    ``stable=False`` permits any order of equal elements; they keep theirs all the same.

    >>> import calor
    >>> calor.sort(calor.asarray([3, 1, 2])).tolist()
    [1, 2, 3]
    """
    return _sorted(x, axis, descending, "sort")[0]


def argsort(
    x: Operand, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """Return the indices that sort the tensor along an axis; equal elements keep their order.

    >>> import calor
    >>> calor.argsort(calor.asarray([3, 1, 2]), descending=True).tolist()
    [0, 2, 1]
    """
    return _sorted(x, axis, descending, "argsort")[1]


class TopK(NamedTuple):
    """The values and their indices along the axis."""

    values: Tensor
    indices: Tensor


def topk(x: Operand, k: int, /, *, axis: int = -1, largest: bool = True) -> TopK:
    """Return the k largest (or smallest) elements along an axis in order, and their indices.

    Raises ArgumentError when the axis has fewer than k elements.

    >>> import calor
    >>> calor.topk(calor.asarray([4, 9, 7]), 2).values.tolist()
    [9, 7]
    """
    x = as_tensor(x)
    axis = one_axis(axis, x.shape, "topk")
    count, size = integer(k, "topk: k"), x.shape[axis]
    if not 0 <= count <= size:
        raise ArgumentError(f"topk: k is {count}; axis {axis} of shape {x.shape} has {size}")
    both = _sorted(x, axis, largest, "topk")
    values, indices = (split(t, (count, size - count), axis=axis)[0] for t in both)
    return TopK(values, indices)
