"""Pooling layers with windows at random steps, by PyTorch's names and arguments."""

from __future__ import annotations

from typing import Any, ClassVar

from calor import Tensor
from calor_nn import functional
from calor_nn.functional.fractional_pool import Ratios, Sizes
from calor_nn.module import Module


class _FractionalMaxPool(Module):
    rank: ClassVar[int]

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: Ratios | None = None,
        return_indices: bool = False,
    ) -> None:
        self.kernel_size = kernel_size
        self.output_size = output_size
        self.output_ratio = output_ratio
        self.return_indices = return_indices

    def forward(
        self, x: Tensor, *, random_samples: Tensor | None = None, key: Tensor | None = None
    ) -> Any:
        """Return the largest element of each window.

        Parameters
        ----------
        x : Tensor
            Shape (N, C, *S), or without N; real.
        random_samples : Tensor, optional
            Shape (N, C, number of spatial axes), in [0, 1); drawn if left out.
        key : Tensor, optional
            The key to draw with (`calor.random.key`); the global generator if left out.

        Returns
        -------
        Tensor or tuple of Tensor
            Shape (N, C, *S'), without N if `x` has no batch; with `return_indices` a pair with the
            flat indices into the spatial axes, int64.

        Raises
        ------
        ShapeError
            If `x` has another number of axes, the windows do not fit it, or `random_samples` has
            another shape.
        ArgumentError
            If not one of `output_size` and `output_ratio` was given, a size is below 1, or a ratio
            outside (0, 1).
        """
        function = (functional.fractional_max_pool2d, functional.fractional_max_pool3d)
        return function[self.rank - 2](
            x,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            random_samples=random_samples,
            key=key,
        )

    def extra_repr(self) -> str:
        """Return kernel, and the number of windows or their ratio."""
        if self.output_size is not None:
            return f"kernel_size={self.kernel_size}, output_size={self.output_size}"
        return f"kernel_size={self.kernel_size}, output_ratio={self.output_ratio}"


class FractionalMaxPool2d(_FractionalMaxPool):
    """Maxima of windows that begin at random steps along two spatial axes.

    See :func:`functional.fractional_max_pool2d`.

    Parameters
    ----------
    kernel_size : int or sequence of int
        The window's size along each axis, in elements.
    output_size : int or sequence of int, optional
        H', W': the number of windows along each axis.
    output_ratio : float or sequence of float, optional
        Instead of `output_size`: the number of windows as a part of each axis, in (0, 1).
    return_indices : bool
        Also return where the maxima are.

    References
    ----------
    Graham, "Fractional Max-Pooling", 2014.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.FractionalMaxPool2d(2, output_ratio=0.7)(calor.ones((1, 3, 10, 20))).shape
    (1, 3, 7, 14)
    """

    rank = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """Maxima of windows that begin at random steps along three spatial axes.

    See :func:`functional.fractional_max_pool3d`.

    Parameters
    ----------
    kernel_size : int or sequence of int
        The window's size along each axis, in elements.
    output_size : int or sequence of int, optional
        D', H', W': the number of windows along each axis.
    output_ratio : float or sequence of float, optional
        Instead of `output_size`: the number of windows as a part of each axis, in (0, 1).
    return_indices : bool
        Also return where the maxima are.

    References
    ----------
    Graham, "Fractional Max-Pooling", 2014.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.FractionalMaxPool3d(2, output_size=3)(calor.ones((1, 2, 5, 6, 7))).shape
    (1, 2, 3, 3, 3)
    """

    rank = 3
