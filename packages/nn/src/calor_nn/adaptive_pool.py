"""Pooling layers of a given output size, by PyTorch's names and arguments."""

from __future__ import annotations

from typing import ClassVar

from calor import Tensor
from calor_nn import functional
from calor_nn.functional.adaptive import OutputSize
from calor_nn.module import Module


class _Adaptive(Module):
    function: ClassVar[str]

    def __init__(self, output_size: OutputSize) -> None:
        self.output_size = output_size

    def forward(self, x: Tensor) -> Tensor:
        """Return one element for each window.

        Parameters
        ----------
        x : Tensor
            Shape (N, C, *S), or without N; a real dtype.

        Returns
        -------
        Tensor
            Shape (N, C, *output_size), without N if `x` has no batch.

        Raises
        ------
        ShapeError
            If `x` has another number of axes, or a size is below 1.
        """
        made: Tensor = getattr(functional, self.function)(x, self.output_size)
        return made

    def extra_repr(self) -> str:
        """Return the output size."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_Adaptive):
    """The means of a given number of windows of (N, C, L).

    See :func:`functional.adaptive_avg_pool1d`.

    Parameters
    ----------
    output_size : int or sequence of int or None
        L': the number of windows along each axis. None keeps the size of the axis.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.AdaptiveAvgPool1d(3)(calor.ones((1, 2, 8))).shape
    (1, 2, 3)
    """

    function = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_Adaptive):
    """The means of a given number of windows of (N, C, H, W).

    See :func:`functional.adaptive_avg_pool2d`.

    Parameters
    ----------
    output_size : int or sequence of int or None
        H', W': the number of windows along each axis. None keeps the size of the axis.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.AdaptiveAvgPool2d(1)(calor.ones((1, 2, 8, 8))).shape
    (1, 2, 1, 1)
    """

    function = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_Adaptive):
    """The means of a given number of windows of (N, C, D, H, W).

    See :func:`functional.adaptive_avg_pool3d`.

    Parameters
    ----------
    output_size : int or sequence of int or None
        D', H', W': the number of windows along each axis. None keeps the size of the axis.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.AdaptiveAvgPool3d(1)(calor.ones((1, 2, 4, 4, 4))).shape
    (1, 2, 1, 1, 1)
    """

    function = "adaptive_avg_pool3d"


class AdaptiveMaxPool1d(_Adaptive):
    """The largest elements of a given number of windows of (N, C, L).

    See :func:`functional.adaptive_max_pool1d`.

    Parameters
    ----------
    output_size : int or sequence of int or None
        L': the number of windows along each axis. None keeps the size of the axis.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.AdaptiveMaxPool1d(3)(calor.ones((1, 2, 8))).shape
    (1, 2, 3)
    """

    function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_Adaptive):
    """The largest elements of a given number of windows of (N, C, H, W).

    See :func:`functional.adaptive_max_pool2d`.

    Parameters
    ----------
    output_size : int or sequence of int or None
        H', W': the number of windows along each axis. None keeps the size of the axis.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.AdaptiveMaxPool2d((1, None))(calor.ones((1, 2, 8, 8))).shape
    (1, 2, 1, 8)
    """

    function = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_Adaptive):
    """The largest elements of a given number of windows of (N, C, D, H, W).

    See :func:`functional.adaptive_max_pool3d`.

    Parameters
    ----------
    output_size : int or sequence of int or None
        D', H', W': the number of windows along each axis. None keeps the size of the axis.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.AdaptiveMaxPool3d(1)(calor.ones((1, 2, 4, 4, 4))).shape
    (1, 2, 1, 1, 1)
    """

    function = "adaptive_max_pool3d"
