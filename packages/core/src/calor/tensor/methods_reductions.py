"""Methods that reduce, scan, sort and search along axes; each calls the function of its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import calor
from calor.graph.trace import Handle

if TYPE_CHECKING:
    from calor.functions.operands import Axis
    from calor.tensor.tensor import Tensor


class ReductionMethods(Handle):
    """Sums, extremes, statistics, running totals, sorting.

    ``axis`` is an axis, a tuple of them, or None for all; ``keepdims`` keeps reduced axes with
    size 1.
    """

    __slots__ = ()

    def sum(self, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
        """The sum; of small integers in int64 unless ``dtype`` says otherwise."""
        return calor.sum(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def prod(self, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
        """The product; of small integers in int64 unless ``dtype`` says otherwise."""
        return calor.prod(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def mean(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """The arithmetic mean."""
        return calor.mean(self, axis=axis, keepdims=keepdims)

    def var(self, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
        """The variance; ``correction=1`` divides by one less than the count."""
        return calor.var(self, axis=axis, correction=correction, keepdims=keepdims)

    def std(self, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
        """The standard deviation; ``correction=1`` divides by one less than the count."""
        return calor.std(self, axis=axis, correction=correction, keepdims=keepdims)

    def max(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """The largest elements."""
        return calor.max(self, axis=axis, keepdims=keepdims)

    def min(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """The smallest elements."""
        return calor.min(self, axis=axis, keepdims=keepdims)

    def any(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """True where at least one element is not 0."""
        return calor.any(self, axis=axis, keepdims=keepdims)

    def all(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """True where no element is 0."""
        return calor.all(self, axis=axis, keepdims=keepdims)

    def count_nonzero(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """How many elements are not 0."""
        return calor.count_nonzero(self, axis=axis, keepdims=keepdims)

    def logsumexp(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """The logarithm of the sum of exponentials, without overflow."""
        return calor.logsumexp(self, axis=axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """The places of the largest elements, the first of equals; flat without an axis."""
        return calor.argmax(self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """The places of the smallest elements, the first of equals; flat without an axis."""
        return calor.argmin(self, axis=axis, keepdims=keepdims)

    def cumsum(self, axis: int | None = None, *, dtype: Any = None) -> Tensor:
        """The running sums along an axis."""
        return calor.cumulative_sum(self, axis=axis, dtype=dtype)

    def cumprod(self, axis: int | None = None, *, dtype: Any = None) -> Tensor:
        """The running products along an axis."""
        return calor.cumulative_prod(self, axis=axis, dtype=dtype)

    def cummax(self, axis: int | None = None) -> Tensor:
        """The running maxima along an axis."""
        return calor.cumulative_max(self, axis=axis)

    def cummin(self, axis: int | None = None) -> Tensor:
        """The running minima along an axis."""
        return calor.cumulative_min(self, axis=axis)

    def sort(self, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
        """The elements in order along an axis."""
        return calor.sort(self, axis=axis, descending=descending, stable=stable)

    def argsort(self, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
        """The places that put the elements in order along an axis."""
        return calor.argsort(self, axis=axis, descending=descending, stable=stable)

    def topk(self, k: int, axis: int = -1, *, largest: bool = True) -> tuple[Tensor, Tensor]:
        """The ``k`` largest (or smallest) elements along an axis, in order, and their places."""
        return calor.topk(self, k, axis=axis, largest=largest)

    def nonzero(self) -> tuple[Tensor, ...]:
        """The places of the elements that are not 0, a tensor for each axis; looks at once."""
        return calor.nonzero(self)
