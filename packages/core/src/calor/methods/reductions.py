"""Methods that reduce, scan, sort and search along axes; each calls the function of its name."""

from __future__ import annotations

from typing import Any

from calor.functions import reductions, searching, sorting, statistics
from calor.tensor.tensor import Axis, Tensor, with_methods


@with_methods
class ReductionMethods(Tensor):
    """Sums, extremes, statistics, running totals, sorting.

    ``axis`` is an axis, a tuple of them, or None for all; ``keepdims`` keeps reduced axes with
    size 1.
    """

    __slots__ = ()

    def sum(self, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
        """Return the sum over axes; see `calor.sum`.

        Parameters
        ----------
        axis : int or tuple of int, optional
            The axes to add over. By default all.
        dtype : DType or str, optional
            The dtype of sum and result. By default int64 or uint64 for integers and bool, else that
            of the tensor.
        keepdims : bool, optional
            Whether the reduced axes stay in the result with size 1.

        Returns
        -------
        Tensor
            The shape without the reduced axes.
        """
        return reductions.sum(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def prod(self, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
        """Return the product over axes; see `calor.prod`.

        Parameters
        ----------
        axis : int or tuple of int, optional
            The axes to multiply over. By default all.
        dtype : DType or str, optional
            The dtype of product and result, with the default of `sum`.
        keepdims : bool, optional
            Whether the reduced axes stay in the result with size 1.

        Returns
        -------
        Tensor
            The shape without the reduced axes.
        """
        return reductions.prod(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def mean(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Return the arithmetic mean over axes; see `calor.mean`.

        Parameters
        ----------
        axis : int or tuple of int, optional
            The axes to average over. By default all.
        keepdims : bool, optional
            Whether the reduced axes stay in the result with size 1.

        Returns
        -------
        Tensor
            The shape without the reduced axes; float32 for integers and bool.
        """
        return statistics.mean(self, axis=axis, keepdims=keepdims)

    def var(self, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
        """Return the variance over axes; see `calor.var`.

        Parameters
        ----------
        axis : int or tuple of int, optional
            The axes to reduce, negative ones counted from the last. All of them by default.
        correction : float, optional
            What is subtracted from the number of elements. By default 0.
        keepdims : bool, optional
            Whether the reduced axes stay in the result with size 1.

        Returns
        -------
        Tensor
            The shape without the reduced axes, a real floating dtype.
        """
        return statistics.var(self, axis=axis, correction=correction, keepdims=keepdims)

    def std(self, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
        """Return the standard deviation over axes; see `calor.std`.

        Parameters
        ----------
        axis : int or tuple of int, optional
            The axes to reduce, negative ones counted from the last. All of them by default.
        correction : float, optional
            What is subtracted from the number of elements. By default 0.
        keepdims : bool, optional
            Whether the reduced axes stay in the result with size 1.

        Returns
        -------
        Tensor
            The shape without the reduced axes, a real floating dtype.
        """
        return statistics.std(self, axis=axis, correction=correction, keepdims=keepdims)

    def max(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Return the largest element over axes; see `calor.max`.

        Parameters
        ----------
        axis : int or tuple of int, optional
            The axes to reduce, negative ones counted from the last. All of them by default.
        keepdims : bool, optional
            Whether the reduced axes stay in the result with size 1.

        Returns
        -------
        Tensor
            The shape without the reduced axes, the dtype of the tensor.

        Raises
        ------
        ShapeError
            If an axis is empty.
        """
        return reductions.max(self, axis=axis, keepdims=keepdims)

    def min(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Return the smallest element over axes; see `calor.min`.

        Parameters
        ----------
        axis : int or tuple of int, optional
            The axes to reduce, negative ones counted from the last. All of them by default.
        keepdims : bool, optional
            Whether the reduced axes stay in the result with size 1.

        Returns
        -------
        Tensor
            The shape without the reduced axes, the dtype of the tensor.

        Raises
        ------
        ShapeError
            If an axis is empty.
        """
        return reductions.min(self, axis=axis, keepdims=keepdims)

    def any(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Tell whether any element over axes is not 0; see `calor.any`.

        Parameters
        ----------
        axis : int or tuple of int, optional
            The axes to reduce, negative ones counted from the last. All of them by default.
        keepdims : bool, optional
            Whether the reduced axes stay in the result with size 1.

        Returns
        -------
        Tensor
            Dtype bool, the shape without the reduced axes.
        """
        return reductions.any(self, axis=axis, keepdims=keepdims)

    def all(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Tell whether all elements over axes are not 0; see `calor.all`.

        Parameters
        ----------
        axis : int or tuple of int, optional
            The axes to reduce, negative ones counted from the last. All of them by default.
        keepdims : bool, optional
            Whether the reduced axes stay in the result with size 1.

        Returns
        -------
        Tensor
            Dtype bool, the shape without the reduced axes.
        """
        return reductions.all(self, axis=axis, keepdims=keepdims)

    def count_nonzero(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Count the elements over axes that are not 0; see `calor.count_nonzero`.

        Parameters
        ----------
        axis : int or tuple of int, optional
            The axes to reduce, negative ones counted from the last. All of them by default.
        keepdims : bool, optional
            Whether the reduced axes stay in the result with size 1.

        Returns
        -------
        Tensor
            Dtype int64, the shape without the reduced axes.
        """
        return reductions.count_nonzero(self, axis=axis, keepdims=keepdims)

    def logsumexp(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Return the logarithm of the sum of exponentials; see `calor.logsumexp`.

        Parameters
        ----------
        axis : int or tuple of int, optional
            The axes to reduce, negative ones counted from the last. All of them by default.
        keepdims : bool, optional
            Whether the reduced axes stay in the result with size 1.

        Returns
        -------
        Tensor
            The shape without the reduced axes, a floating dtype.
        """
        return statistics.logsumexp(self, axis=axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """Return the index of the first largest element; see `calor.argmax`.

        Parameters
        ----------
        axis : int, optional
            The axis to search. By default the tensor is flattened.
        keepdims : bool, optional
            Whether the reduced axes stay in the result with size 1.

        Returns
        -------
        Tensor
            Dtype int64, the shape without the axis.

        Raises
        ------
        ShapeError
            If there are no elements to search.
        """
        return searching.argmax(self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """Return the index of the first smallest element; see `calor.argmin`.

        Parameters
        ----------
        axis : int, optional
            The axis to search. By default the tensor is flattened.
        keepdims : bool, optional
            Whether the reduced axes stay in the result with size 1.

        Returns
        -------
        Tensor
            Dtype int64, the shape without the axis.

        Raises
        ------
        ShapeError
            If there are no elements to search.
        """
        return searching.argmin(self, axis=axis, keepdims=keepdims)

    def cumsum(self, axis: int | None = None, *, dtype: Any = None) -> Tensor:
        """Return the running sum along an axis; see `calor.cumulative_sum`.

        Parameters
        ----------
        axis : int, optional
            The axis to add along. It may be left out for a tensor of one axis.
        dtype : DType or str, optional
            The dtype of sums and result, with the default of `sum`.

        Returns
        -------
        Tensor
            The shape of the tensor.

        Raises
        ------
        ShapeError
            If ``axis`` is left out and the tensor has not exactly one axis.
        """
        return reductions.cumulative_sum(self, axis=axis, dtype=dtype)

    def cumprod(self, axis: int | None = None, *, dtype: Any = None) -> Tensor:
        """Return the running product along an axis; see `calor.cumulative_prod`.

        Parameters
        ----------
        axis : int, optional
            The axis to multiply along. It may be left out for a tensor of one axis.
        dtype : DType or str, optional
            The dtype of products and result, with the default of `sum`.

        Returns
        -------
        Tensor
            The shape of the tensor.

        Raises
        ------
        ShapeError
            If ``axis`` is left out and the tensor has not exactly one axis.
        """
        return reductions.cumulative_prod(self, axis=axis, dtype=dtype)

    def cummax(self, axis: int | None = None) -> Tensor:
        """Return the largest element so far along an axis; see `calor.cumulative_max`.

        Parameters
        ----------
        axis : int, optional
            The axis to go along. It may be left out for a tensor of one axis.

        Returns
        -------
        Tensor
            The shape and dtype of the tensor.

        Raises
        ------
        ShapeError
            If ``axis`` is left out and the tensor has not exactly one axis.
        """
        return reductions.cumulative_max(self, axis=axis)

    def cummin(self, axis: int | None = None) -> Tensor:
        """Return the smallest element so far along an axis; see `calor.cumulative_min`.

        Parameters
        ----------
        axis : int, optional
            The axis to go along. It may be left out for a tensor of one axis.

        Returns
        -------
        Tensor
            The shape and dtype of the tensor.

        Raises
        ------
        ShapeError
            If ``axis`` is left out and the tensor has not exactly one axis.
        """
        return reductions.cumulative_min(self, axis=axis)

    def sort(self, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
        """Return the elements in order along an axis; see `calor.sort`.

        Parameters
        ----------
        axis : int, optional
            The axis to sort along. By default the last.
        descending : bool, optional
            Whether the largest element comes first. By default False.
        stable : bool, optional
            For the standard. Equal elements always keep their order.

        Returns
        -------
        Tensor
            The shape and dtype of the tensor. NaN comes last.
        """
        return sorting.sort(self, axis=axis, descending=descending, stable=stable)

    def argsort(self, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
        """Return the indices that sort the elements along an axis; see `calor.argsort`.

        Parameters
        ----------
        axis : int, optional
            The axis to sort along. By default the last.
        descending : bool, optional
            Whether the largest element comes first. By default False.
        stable : bool, optional
            For the standard. Equal elements always keep their order.

        Returns
        -------
        Tensor
            Dtype int64, in the shape of the tensor. NaN comes last.
        """
        return sorting.argsort(self, axis=axis, descending=descending, stable=stable)

    def topk(self, k: int, axis: int = -1, *, largest: bool = True) -> tuple[Tensor, Tensor]:
        """Return the k largest or smallest elements along an axis, in order; see `calor.topk`.

        Parameters
        ----------
        k : int
            How many, from 0 to the size of the axis.
        axis : int, optional
            The axis to search. By default the last.
        largest : bool, optional
            Whether the largest are wanted (the default) or the smallest.

        Returns
        -------
        tuple of Tensor
            The elements, and their int64 indices; both with size k along the axis.

        Raises
        ------
        ArgumentError
            If ``k`` is negative or larger than the axis.
        """
        return sorting.topk(self, k, axis=axis, largest=largest)

    def nonzero(self) -> tuple[Tensor, ...]:
        """Return the indices of the elements that are not 0, for each axis; see `calor.nonzero`.

        Returns
        -------
        tuple of Tensor
            One int64 tensor of shape (n,) for each axis. The elements are read.

        Raises
        ------
        ShapeError
            If the tensor is 0-d.
        """
        return searching.nonzero(self)
