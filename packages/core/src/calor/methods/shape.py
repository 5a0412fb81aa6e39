"""Methods that change shapes and the order of elements; each calls the function of its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor.errors import ArgumentError, ShapeError
from calor.functions import indexing, joining, linear_algebra, manipulation, ranges, repeating
from calor.tensor.tensor import Axis, Tensor, with_methods


def _numbers(given: tuple[Any, ...]) -> tuple[int, ...]:
    """Return ``(2, 3)`` for the arguments ``(2, 3)`` as for ``((2, 3),)``."""
    if len(given) == 1 and not isinstance(given[0], int):
        return tuple(given[0])
    return given


@with_methods
class ShapeMethods(Tensor):
    """Shapes, order of axes, splitting, repeating, picking."""

    __slots__ = ()

    def reshape(self, *shape: int | Sequence[int]) -> Tensor:
        """Return the elements in row-major order under another shape; see `calor.reshape`.

        Parameters
        ----------
        *shape : int or sequence of int
            The new sizes, one by one or as one sequence; one may be −1.

        Returns
        -------
        Tensor
            The given shape.

        Raises
        ------
        ShapeError
            If the number of elements differs.
        """
        return manipulation.reshape(self, _numbers(shape))

    def flatten(self, start_axis: int = 0, end_axis: int = -1) -> Tensor:
        """Return the tensor with consecutive axes joined into one; see `calor.flatten`.

        Parameters
        ----------
        start_axis : int, optional
            The first axis to join. By default 0.
        end_axis : int, optional
            The last axis to join. By default the last.

        Returns
        -------
        Tensor
            The dtype of the tensor.

        Raises
        ------
        ShapeError
            If ``start_axis`` is after ``end_axis``.
        """
        return manipulation.flatten(self, start_axis=start_axis, end_axis=end_axis)

    def ravel(self) -> Tensor:  # numpydoc ignore=RS01
        """Return the elements in row-major order along one axis.

        Returns
        -------
        Tensor
            Shape (x.size,).
        """
        return manipulation.reshape(self, (-1,))

    def squeeze(self, axis: Axis = None) -> Tensor:
        """Return the tensor without axes of size 1; see `calor.squeeze`.

        Parameters
        ----------
        axis : int or tuple of int, optional
            The axes to remove. By default all of size 1.

        Returns
        -------
        Tensor
            The dtype of the tensor.

        Raises
        ------
        ShapeError
            If a given axis has another size than 1.
        """
        return manipulation.squeeze(self, axis=axis)

    def expand_dims(self, axis: int | tuple[int, ...] = 0) -> Tensor:
        """Return the tensor with new axes of size 1; see `calor.expand_dims`.

        Parameters
        ----------
        axis : int or tuple of int, optional
            Where the new axes stand in the result. By default first.

        Returns
        -------
        Tensor
            The dtype of the tensor.
        """
        return manipulation.expand_dims(self, axis=axis)

    def permute_dims(self, *axes: int | Sequence[int]) -> Tensor:
        """Return the tensor with its axes in another order; see `calor.permute_dims`.

        Parameters
        ----------
        *axes : int or sequence of int
            Each axis once, one by one or as one sequence.

        Returns
        -------
        Tensor
            The dtype of the tensor.

        Raises
        ------
        ShapeError
            If ``axes`` does not name each axis once.
        """
        return manipulation.permute_dims(self, _numbers(axes))

    def transpose(self, *axes: int | Sequence[int]) -> Tensor:
        """Return the tensor with its axes reversed, or in a given order, as in NumPy.

        Parameters
        ----------
        *axes : int or sequence of int
            The order of the axes, one by one or as one sequence. By default the order is reversed.

        Returns
        -------
        Tensor
            The dtype of the tensor.

        Raises
        ------
        ArgumentError
            For ``transpose(0, 1)``, which would change nothing. PyTorch exchanges the axes there;
            here ``swapaxes(0, 1)`` does.
        ShapeError
            If ``axes`` does not name each axis once.
        """
        if len(axes) == 2 and self.ndim > 2 and not any(isinstance(a, Sequence) for a in axes):
            raise ShapeError(
                f"transpose: {axes[0]} and {axes[1]} do not name each of the {self.ndim} axes of "
                f"shape {self.shape}; x.swapaxes({axes[0]}, {axes[1]}) exchanges two axes"
            )
        if axes == (0, 1):
            raise ArgumentError(
                "transpose(0, 1) leaves a matrix as it is; x.swapaxes(0, 1) or x.T exchanges the "
                "axes, x.transpose((0, 1)) keeps them"
            )
        return manipulation.transpose(self, _numbers(axes) if axes else None)

    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        """Return the tensor with two axes exchanged.

        Parameters
        ----------
        axis1 : int
            The one axis.
        axis2 : int
            The other axis.

        Returns
        -------
        Tensor
            The dtype of the tensor.
        """
        return manipulation.swapaxes(self, axis1, axis2)

    def moveaxis(self, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> Tensor:
        """Return the tensor with axes moved to other positions; see `calor.moveaxis`.

        Parameters
        ----------
        source : int or tuple of int
            The axes to move.
        destination : int or tuple of int
            Where each of them stands in the result.

        Returns
        -------
        Tensor
            The dtype of the tensor.

        Raises
        ------
        ShapeError
            If the numbers of axes differ.
        """
        return manipulation.moveaxis(self, source, destination)

    def broadcast_to(self, *shape: int | Sequence[int]) -> Tensor:
        """Return the tensor repeated along new leading axes and axes of size 1.

        Parameters
        ----------
        *shape : int or sequence of int
            The sizes of the result, one by one or as one sequence.

        Returns
        -------
        Tensor
            The given shape.
        """
        return manipulation.broadcast_to(self, _numbers(shape))

    def flip(self, axis: Axis = None) -> Tensor:
        """Return the tensor with the elements in reverse order along axes; see `calor.flip`.

        Parameters
        ----------
        axis : int or tuple of int, optional
            The axes to reverse. By default all.

        Returns
        -------
        Tensor
            The shape and dtype of the tensor.
        """
        return manipulation.flip(self, axis=axis)

    def roll(
        self, shift: int | tuple[int, ...], axis: int | tuple[int, ...] | None = None
    ) -> Tensor:
        """Return the tensor with the elements shifted cyclically; see `calor.roll`.

        Parameters
        ----------
        shift : int or tuple of int
            By how many positions; one number for all axes or one for each.
        axis : int or tuple of int, optional
            The axes to shift along. By default the flattened elements are shifted.

        Returns
        -------
        Tensor
            The shape and dtype of the tensor.

        Raises
        ------
        ArgumentError
            If the numbers of shifts and of axes differ.
        """
        return repeating.roll(self, shift, axis=axis)

    def repeat(self, repeats: int | Tensor, axis: int | None = None) -> Tensor:
        """Return the tensor with each element repeated; see `calor.repeat`.

        Parameters
        ----------
        repeats : int or Tensor
            How often: one number, or one for each element of the axis.
        axis : int, optional
            The axis to repeat along. By default the tensor is flattened.

        Returns
        -------
        Tensor
            The dtype of the tensor.

        Raises
        ------
        ArgumentError
            If a number is negative.
        """
        return repeating.repeat(self, repeats, axis=axis)

    def tile(self, *repetitions: int | Sequence[int]) -> Tensor:
        """Return copies of the tensor laid side by side along each axis; see `calor.tile`.

        Parameters
        ----------
        *repetitions : int or sequence of int
            How many copies along each axis, counted from the last.

        Returns
        -------
        Tensor
            The dtype of the tensor.

        Raises
        ------
        ArgumentError
            If a number is negative.
        """
        return repeating.tile(self, _numbers(repetitions))

    def split(self, sizes: Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
        """Return consecutive parts of given sizes along an axis; see `calor.split`.

        Parameters
        ----------
        sizes : sequence of int
            The size of each part; one may be −1 and takes the rest.
        axis : int, optional
            The axis to cut. By default the first.

        Returns
        -------
        tuple of Tensor
            One tensor for each size.

        Raises
        ------
        ArgumentError
            If ``sizes`` is not a sequence.
        ShapeError
            If the sizes do not add up to the size of the axis.
        """
        return joining.split(self, sizes, axis=axis)

    def chunk(self, chunks: int, axis: int = 0) -> tuple[Tensor, ...]:
        """Return a number of consecutive parts along an axis; see `calor.chunk`.

        Parameters
        ----------
        chunks : int
            The number of parts, at least 1.
        axis : int, optional
            The axis to cut. By default the first.

        Returns
        -------
        tuple of Tensor
            ``chunks`` tensors.

        Raises
        ------
        ArgumentError
            If ``chunks`` is less than 1.
        """
        return joining.chunk(self, chunks, axis=axis)

    def unstack(self, axis: int = 0) -> tuple[Tensor, ...]:
        """Return the slices along an axis, without that axis.

        Parameters
        ----------
        axis : int, optional
            The axis to take apart. By default the first.

        Returns
        -------
        tuple of Tensor
            One tensor for each index along the axis.
        """
        return joining.unstack(self, axis=axis)

    def take(self, indices: Tensor, axis: int | None = None) -> Tensor:
        """Return the slices at the given indices along an axis; see `calor.take`.

        Parameters
        ----------
        indices : Tensor
            Integers of any shape; negative ones count from the end.
        axis : int, optional
            The axis to index. It may be left out for a tensor of one axis.

        Returns
        -------
        Tensor
            The dtype of the tensor.

        Raises
        ------
        ShapeError
            If ``axis`` is left out and the tensor has not exactly one axis.
        """
        return indexing.take(self, indices, axis=axis)

    def take_along_axis(self, indices: Tensor, axis: int = -1) -> Tensor:
        """Return the element at each index along an axis; see `calor.take_along_axis`.

        Parameters
        ----------
        indices : Tensor
            Integers with as many axes as the tensor.
        axis : int, optional
            The axis to index. By default the last.

        Returns
        -------
        Tensor
            The dtype of the tensor.
        """
        return indexing.take_along_axis(self, indices, axis=axis)

    def tril(self, k: int = 0) -> Tensor:
        """Return the lower triangles: the elements above a diagonal are set to 0.

        Parameters
        ----------
        k : int, optional
            The diagonal of the last two axes: 0 (the default) the main one, positive above.

        Returns
        -------
        Tensor
            The shape and dtype of the tensor.
        """
        return ranges.tril(self, k=k)

    def triu(self, k: int = 0) -> Tensor:
        """Return the upper triangles: the elements below a diagonal are set to 0.

        Parameters
        ----------
        k : int, optional
            The diagonal of the last two axes: 0 (the default) the main one, positive above.

        Returns
        -------
        Tensor
            The shape and dtype of the tensor.
        """
        return ranges.triu(self, k=k)

    def matmul(self, other: Tensor) -> Tensor:
        """Return the matrix product ``x @ other``; see `calor.matmul`.

        Parameters
        ----------
        other : Tensor
            The right factor, of shape (..., K, N) or (K,).

        Returns
        -------
        Tensor
            Shape (..., M, N), in the common dtype.
        """
        return linear_algebra.matmul(self, other)
