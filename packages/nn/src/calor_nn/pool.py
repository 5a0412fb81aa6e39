"""Pooling layers, by PyTorch's names and arguments."""

from __future__ import annotations

from typing import Any, ClassVar

from calor import Tensor
from calor_nn import functional
from calor_nn.functional.adaptive import OutputSize
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
        """Return the largest element of each window, and their places when asked for."""
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
    """Largest element of windows of (N, C, L); see :func:`functional.max_pool1d`.

    >>> import calor
    >>> from calor import nn
    >>> nn.MaxPool1d(2)(calor.ones((1, 1, 6))).shape
    (1, 1, 3)
    """

    rank = 1


class MaxPool2d(_MaxPool):
    """Largest element of windows of (N, C, H, W); see :func:`functional.max_pool2d`.

    >>> import calor
    >>> from calor import nn
    >>> nn.MaxPool2d(2)(calor.ones((1, 1, 6, 4))).shape
    (1, 1, 3, 2)
    """

    rank = 2


class MaxPool3d(_MaxPool):
    """Largest element of windows of (N, C, D, H, W); see :func:`functional.max_pool3d`.

    >>> import calor
    >>> from calor import nn
    >>> nn.MaxPool3d(2)(calor.ones((1, 1, 2, 6, 4))).shape
    (1, 1, 1, 3, 2)
    """

    rank = 3


class AvgPool1d(Module):
    """Mean of windows of (N, C, L); see :func:`functional.avg_pool1d`.

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
        """Return the mean of each window."""
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
        """Return the mean of each window."""
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
    """Mean of windows of (N, C, H, W); see :func:`functional.avg_pool2d`.

    >>> import calor
    >>> from calor import nn
    >>> nn.AvgPool2d(2)(calor.ones((1, 1, 6, 4))).shape
    (1, 1, 3, 2)
    """

    rank = 2


class AvgPool3d(_AvgPool):
    """Mean of windows of (N, C, D, H, W); see :func:`functional.avg_pool3d`.

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
        """Return the norm of each window."""
        function = (functional.lp_pool1d, functional.lp_pool2d)[self.rank - 1]
        return function(x, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        """Return norm, kernel and stride."""
        return f"{self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}"


class LPPool1d(_LPPool):
    """p-norm of windows of (N, C, L); see :func:`functional.lp_pool1d`.

    >>> import calor
    >>> from calor import nn
    >>> nn.LPPool1d(2.0, 2)(calor.ones((1, 1, 6))).shape
    (1, 1, 3)
    """

    rank = 1


class LPPool2d(_LPPool):
    """p-norm of windows of (N, C, H, W); see :func:`functional.lp_pool2d`.

    >>> import calor
    >>> from calor import nn
    >>> nn.LPPool2d(2.0, 2)(calor.ones((1, 1, 6, 4))).shape
    (1, 1, 3, 2)
    """

    rank = 2


class _Adaptive(Module):
    function: ClassVar[str]

    def __init__(self, output_size: OutputSize) -> None:
        self.output_size = output_size

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor with the wanted spatial sizes."""
        made: Tensor = getattr(functional, self.function)(x, self.output_size)
        return made

    def extra_repr(self) -> str:
        """Return the output size."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_Adaptive):
    """Means of a given number of windows of (N, C, L).

    >>> import calor
    >>> from calor import nn
    >>> nn.AdaptiveAvgPool1d(3)(calor.ones((1, 2, 8))).shape
    (1, 2, 3)
    """

    function = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_Adaptive):
    """Means of a given number of windows of (N, C, H, W).

    >>> import calor
    >>> from calor import nn
    >>> nn.AdaptiveAvgPool2d(1)(calor.ones((1, 2, 8, 8))).shape
    (1, 2, 1, 1)
    """

    function = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_Adaptive):
    """Means of a given number of windows of (N, C, D, H, W)."""

    function = "adaptive_avg_pool3d"


class AdaptiveMaxPool1d(_Adaptive):
    """Largest elements of a given number of windows of (N, C, L)."""

    function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_Adaptive):
    """Largest elements of a given number of windows of (N, C, H, W)."""

    function = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_Adaptive):
    """Largest elements of a given number of windows of (N, C, D, H, W)."""

    function = "adaptive_max_pool3d"
