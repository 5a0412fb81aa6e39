"""Layers that resize, shuffle pixels, and take images apart into patches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor import Tensor
from calor_nn import functional
from calor_nn.functional.conv import Sizes
from calor_nn.module import Module


class Upsample(Module):
    """Resizes (N, C, *S) to a size or by a factor; see :func:`functional.interpolate`.

    >>> import calor
    >>> from calor import nn
    >>> nn.Upsample(scale_factor=2, mode="bilinear")(calor.ones((1, 1, 3, 3))).shape
    (1, 1, 6, 6)
    """

    def __init__(
        self,
        size: Sizes | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: Any = "nearest",
        align_corners: bool = False,
    ) -> None:
        self.size = size
        self.scale_factor = scale_factor
        self.mode = mode
        self.align_corners = align_corners

    def forward(self, x: Tensor) -> Tensor:
        """Return x resized."""
        return functional.interpolate(
            x, self.size, self.scale_factor, self.mode, self.align_corners
        )

    def extra_repr(self) -> str:
        """Return the size or factor, and the mode."""
        how = f"size={self.size}" if self.size is not None else f"scale_factor={self.scale_factor}"
        return f"{how}, mode={self.mode!r}"


class PixelShuffle(Module):
    """(*N, C · r², H, W) as (*N, C, H · r, W · r); see :func:`functional.pixel_shuffle`.

    >>> import calor
    >>> from calor import nn
    >>> nn.PixelShuffle(2)(calor.ones((1, 4, 3, 3))).shape
    (1, 1, 6, 6)
    """

    def __init__(self, upscale_factor: int) -> None:
        self.upscale_factor = upscale_factor

    def forward(self, x: Tensor) -> Tensor:
        """Return x with channels made pixels."""
        return functional.pixel_shuffle(x, self.upscale_factor)

    def extra_repr(self) -> str:
        """Return the factor."""
        return f"{self.upscale_factor}"


class PixelUnshuffle(Module):
    """(*N, C, H · r, W · r) as (*N, C · r², H, W); see :func:`functional.pixel_unshuffle`."""

    def __init__(self, downscale_factor: int) -> None:
        self.downscale_factor = downscale_factor

    def forward(self, x: Tensor) -> Tensor:
        """Return x with pixels made channels."""
        return functional.pixel_unshuffle(x, self.downscale_factor)

    def extra_repr(self) -> str:
        """Return the factor."""
        return f"{self.downscale_factor}"


class Unfold(Module):
    """Patches of (N, C, H, W) as columns; see :func:`functional.im2col`.

    >>> import calor
    >>> from calor import nn
    >>> nn.Unfold(2, stride=2)(calor.ones((1, 3, 4, 4))).shape
    (1, 12, 4)
    """

    def __init__(
        self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Return the columns."""
        return functional.im2col(
            x,
            self.kernel_size,
            dilation=self.dilation,
            padding=self.padding,
            stride=self.stride,
        )


class Fold(Unfold):
    """Columns added up to an image; see :func:`functional.col2im`."""

    def __init__(
        self,
        output_size: Sequence[int],
        kernel_size: Sizes,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        stride: Sizes = 1,
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = tuple(output_size)

    def forward(self, x: Tensor) -> Tensor:
        """Return the image."""
        return functional.col2im(
            x,
            self.output_size,
            self.kernel_size,
            dilation=self.dilation,
            padding=self.padding,
            stride=self.stride,
        )
