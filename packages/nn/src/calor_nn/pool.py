"""Pooling layers, by PyTorch's names and arguments."""

from __future__ import annotations

from typing import Any, ClassVar

from calor import Tensor
from calor_nn import functional
from calor_nn.functional.conv import Sizes
from calor_nn.module import Module


class _MaxPool(Module):
    rank: ClassVar[int]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, x: Tensor) -> Any:
        """Return the largest element of each window.

        Parameters
        ----------
        x : Tensor
            Shape (N, C, *S), or without N.

        Returns
        -------
        Tensor or tuple of Tensor
            Shape (N, C, *S'); with `return_indices` the pair (values, indices).

        Raises
        ------
        ShapeError
            If `x` has another number of axes, or a window does not fit it.
        ArgumentError
            If a size, stride or dilation is below 1, or the padding exceeds half a window.
        """
        return (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)[self.rank - 1](
            x,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )

    def extra_repr(self) -> str:
        """Return kernel, stride and padding."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxPool1d(_MaxPool):
    """The largest element of each window of (N, C, L); see :func:`functional.max_pool1d`.

    Parameters
    ----------
    kernel_size : int or sequence of int
        The window's size along each axis, in elements.
    stride : int or sequence of int, optional
        Distance of neighbouring windows; the window's size if left out.
    padding : int or sequence of int
        Elements of −inf added at both ends of each axis; at most half a window.
    dilation : int or sequence of int
        Distance of neighbouring kernel elements along each axis, in elements.
    return_indices : bool
        Return the positions of the largest elements too.
    ceil_mode : bool
        Round the number of windows up: the last window may end beyond the right padding, but begins
        in `x` or in its left padding.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.MaxPool1d(2)(calor.ones((1, 1, 6))).shape
    (1, 1, 3)
    """

    rank = 1


class MaxPool2d(_MaxPool):
    """The largest element of each window of (N, C, H, W); see :func:`functional.max_pool2d`.

    Parameters
    ----------
    kernel_size : int or sequence of int
        The window's size along each axis, in elements.
    stride : int or sequence of int, optional
        Distance of neighbouring windows; the window's size if left out.
    padding : int or sequence of int
        Elements of −inf added at both ends of each axis; at most half a window.
    dilation : int or sequence of int
        Distance of neighbouring kernel elements along each axis, in elements.
    return_indices : bool
        Return the positions of the largest elements too.
    ceil_mode : bool
        Round the number of windows up: the last window may end beyond the right padding, but begins
        in `x` or in its left padding.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.MaxPool2d(2)(calor.ones((1, 1, 6, 4))).shape
    (1, 1, 3, 2)
    """

    rank = 2


class MaxPool3d(_MaxPool):
    """The largest element of each window of (N, C, D, H, W); see :func:`functional.max_pool3d`.

    Parameters
    ----------
    kernel_size : int or sequence of int
        The window's size along each axis, in elements.
    stride : int or sequence of int, optional
        Distance of neighbouring windows; the window's size if left out.
    padding : int or sequence of int
        Elements of −inf added at both ends of each axis; at most half a window.
    dilation : int or sequence of int
        Distance of neighbouring kernel elements along each axis, in elements.
    return_indices : bool
        Return the positions of the largest elements too.
    ceil_mode : bool
        Round the number of windows up: the last window may end beyond the right padding, but begins
        in `x` or in its left padding.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.MaxPool3d(2)(calor.ones((1, 1, 2, 6, 4))).shape
    (1, 1, 1, 3, 2)
    """

    rank = 3


class AvgPool1d(Module):
    """The mean of each window of (N, C, L); see :func:`functional.avg_pool1d`.

    Parameters
    ----------
    kernel_size : int or sequence of int
        The window's size along each axis, in elements.
    stride : int or sequence of int, optional
        Distance of neighbouring windows; the window's size if left out.
    padding : int or sequence of int
        Zeros added at both ends of each axis; at most half a window.
    ceil_mode : bool
        Round the number of windows up: the last window may end beyond the right padding, but begins
        in `x` or in its left padding.
    count_include_pad : bool
        Count the zeros of the padding as elements of the mean.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.AvgPool1d(2)(calor.ones((1, 1, 6))).shape
    (1, 1, 3)
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean of each window.

        Parameters
        ----------
        x : Tensor
            Shape (N, C, L), or without N; a real dtype.

        Returns
        -------
        Tensor
            Shape (N, C, L'), without N if `x` has no batch.

        Raises
        ------
        ShapeError
            If `x` has another number of axes, or a window does not fit it.
        ArgumentError
            If a size or stride is below 1, or the padding exceeds half a window.
        """
        return functional.avg_pool1d(
            x,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )

    def extra_repr(self) -> str:
        """Return kernel, stride and padding."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPool(AvgPool1d):
    rank: ClassVar[int]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean of each window.

        Parameters
        ----------
        x : Tensor
            Shape (N, C, *S), or without N; a real dtype.

        Returns
        -------
        Tensor
            Shape (N, C, *S'), without N if `x` has no batch.

        Raises
        ------
        ShapeError
            If `x` has another number of axes, or a window does not fit it.
        ArgumentError
            If a size or stride is below 1, the padding exceeds half a window, or `divisor_override`
            is 0.
        """
        return (functional.avg_pool2d, functional.avg_pool3d)[self.rank - 2](
            x,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPool):
    """The mean of each window of (N, C, H, W); see :func:`functional.avg_pool2d`.

    Parameters
    ----------
    kernel_size : int or sequence of int
        The window's size along each axis, in elements.
    stride : int or sequence of int, optional
        Distance of neighbouring windows; the window's size if left out.
    padding : int or sequence of int
        Zeros added at both ends of each axis; at most half a window.
    ceil_mode : bool
        Round the number of windows up: the last window may end beyond the right padding, but begins
        in `x` or in its left padding.
    count_include_pad : bool
        Count the zeros of the padding as elements of the mean.
    divisor_override : int, optional
        What the sums are divided by; the number of elements if left out.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.AvgPool2d(2)(calor.ones((1, 1, 6, 4))).shape
    (1, 1, 3, 2)
    """

    rank = 2


class AvgPool3d(_AvgPool):
    """The mean of each window of (N, C, D, H, W); see :func:`functional.avg_pool3d`.

    Parameters
    ----------
    kernel_size : int or sequence of int
        The window's size along each axis, in elements.
    stride : int or sequence of int, optional
        Distance of neighbouring windows; the window's size if left out.
    padding : int or sequence of int
        Zeros added at both ends of each axis; at most half a window.
    ceil_mode : bool
        Round the number of windows up: the last window may end beyond the right padding, but begins
        in `x` or in its left padding.
    count_include_pad : bool
        Count the zeros of the padding as elements of the mean.
    divisor_override : int, optional
        What the sums are divided by; the number of elements if left out.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.AvgPool3d(2)(calor.ones((1, 1, 2, 6, 4))).shape
    (1, 1, 1, 3, 2)
    """

    rank = 3


class _LPPool(Module):
    rank: ClassVar[int]

    def __init__(
        self,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> None:
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.ceil_mode = ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        """Return the p-norm of each window.

        Parameters
        ----------
        x : Tensor
            Shape (N, C, *S), or without N; a real dtype.

        Returns
        -------
        Tensor
            Shape (N, C, *S'), without N if `x` has no batch.

        Raises
        ------
        ShapeError
            If `x` has another number of axes, or a window does not fit it.
        ArgumentError
            If a size or stride is below 1, or `norm_type` is not above 0.
        """
        function = (functional.lp_pool1d, functional.lp_pool2d, functional.lp_pool3d)[self.rank - 1]
        return function(x, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        """Return norm, kernel and stride."""
        return f"{self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}"


class LPPool1d(_LPPool):
    """The p-norm of each window of (N, C, L); see :func:`functional.lp_pool1d`.

    Parameters
    ----------
    norm_type : float
        The exponent p; above 0.
    kernel_size : int or sequence of int
        The window's size along each axis, in elements.
    stride : int or sequence of int, optional
        Distance of neighbouring windows; the window's size if left out.
    ceil_mode : bool
        Round the number of windows up: the last window may end beyond the right padding, but begins
        in `x` or in its left padding.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.LPPool1d(2.0, 2)(calor.ones((1, 1, 6))).shape
    (1, 1, 3)
    """

    rank = 1


class LPPool2d(_LPPool):
    """The p-norm of each window of (N, C, H, W); see :func:`functional.lp_pool2d`.

    Parameters
    ----------
    norm_type : float
        The exponent p; above 0.
    kernel_size : int or sequence of int
        The window's size along each axis, in elements.
    stride : int or sequence of int, optional
        Distance of neighbouring windows; the window's size if left out.
    ceil_mode : bool
        Round the number of windows up: the last window may end beyond the right padding, but begins
        in `x` or in its left padding.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.LPPool2d(2.0, 2)(calor.ones((1, 1, 6, 4))).shape
    (1, 1, 3, 2)
    """

    rank = 2


class LPPool3d(_LPPool):
    """The p-norm of each window of (N, C, D, H, W); see :func:`functional.lp_pool3d`.

    Parameters
    ----------
    norm_type : float
        The exponent p; above 0.
    kernel_size : int or sequence of int
        The window's size along each axis, in elements.
    stride : int or sequence of int, optional
        Distance of neighbouring windows; the window's size if left out.
    ceil_mode : bool
        Round the number of windows up: the last window may end beyond the right padding, but begins
        in `x` or in its left padding.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.LPPool3d(2.0, 2)(calor.ones((1, 1, 2, 6, 4))).shape
    (1, 1, 1, 3, 2)
    """

    rank = 3
