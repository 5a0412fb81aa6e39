"""The partial inverses of max pooling, by PyTorch's names and arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from calor import Tensor
from calor.errors import ShapeError
from calor_nn import functional
from calor_nn.functional.conv import Sizes, per_axis
from calor_nn.module import Module


class _MaxUnpool(Module):
    rank: ClassVar[int]

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding

    def forward(
        self, x: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        """Return zeros with x where the pooling found it.

        Parameters
        ----------
        x : Tensor
            Shape (N, C, *S), or without N: what the pooling returned, or computed of it.
        indices : Tensor
            The shape of `x`; the indices that the pooling returned, int64.
        output_size : sequence of int, optional
            The shape of the result, or its spatial sizes; by default the smallest that the pooling
            takes to the sizes of `x`.

        Returns
        -------
        Tensor
            Shape (N, C, *output_size), without N if `x` has no batch; the dtype of `x`.

        Raises
        ------
        ShapeError
            If `x` and `indices` differ in shape, or the sizes are not those of spatial axes.
        """
        sizes = x.shape[-self.rank :] if output_size is None else tuple(output_size)
        if output_size is None:
            name = type(self).__name__
            window, step, before = (
                per_axis(given, self.rank, f"{name}: {what}")
                for given, what in (
                    (self.kernel_size, "kernel_size"),
                    (self.stride, "stride"),
                    (self.padding, "padding"),
                )
            )
            sizes = tuple(
                (n - 1) * s + k - 2 * p
                for n, s, k, p in zip(sizes, step, window, before, strict=True)
            )
        elif len(sizes) == x.ndim:
            sizes = sizes[-self.rank :]
        if len(sizes) != self.rank:
            raise ShapeError(
                f"{type(self).__name__}: output_size {sizes} must have {self.rank} sizes, or those "
                f"of all {x.ndim} axes"
            )
        return functional.max_unpool(x, indices, sizes)

    def extra_repr(self) -> str:
        """Return kernel, stride and padding."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """The partial inverse of :class:`MaxPool1d`; see :func:`functional.max_unpool`.

    Parameters
    ----------
    kernel_size : int or sequence of int
        The window's size of the pooling, in elements.
    stride : int or sequence of int, optional
        Distance of its windows; the window's size if left out.
    padding : int or sequence of int
        Its padding.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> y, places = nn.MaxPool1d(2, return_indices=True)(calor.asarray([[[1.0, 3.0, 4.0, 2.0]]]))
    >>> nn.MaxUnpool1d(2)(y, places).tolist()
    [[[0.0, 3.0, 4.0, 0.0]]]
    """

    rank = 1


class MaxUnpool2d(_MaxUnpool):
    """The partial inverse of :class:`MaxPool2d`; see :func:`functional.max_unpool`.

    Parameters
    ----------
    kernel_size : int or sequence of int
        The window's size of the pooling along each axis, in elements.
    stride : int or sequence of int, optional
        Distance of its windows; the window's size if left out.
    padding : int or sequence of int
        Its padding.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> y, places = nn.MaxPool2d(2, return_indices=True)(calor.ones((1, 2, 4, 6)))
    >>> nn.MaxUnpool2d(2)(y, places).shape
    (1, 2, 4, 6)
    """

    rank = 2


class MaxUnpool3d(_MaxUnpool):
    """The partial inverse of :class:`MaxPool3d`; see :func:`functional.max_unpool`.

    Parameters
    ----------
    kernel_size : int or sequence of int
        The window's size of the pooling along each axis, in elements.
    stride : int or sequence of int, optional
        Distance of its windows; the window's size if left out.
    padding : int or sequence of int
        Its padding.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> y, places = nn.MaxPool3d(2, return_indices=True)(calor.ones((1, 2, 4, 4, 4)))
    >>> nn.MaxUnpool3d(2)(y, places, output_size=(5, 4, 4)).shape
    (1, 2, 5, 4, 4)
    """

    rank = 3
