"""Layers that resize, shuffle pixels, and take images apart into patches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor import Tensor
from calor_nn import functional
from calor_nn.functional.conv import Sizes
from calor_nn.module import Module


class Upsample(Module):
    """A layer that resizes signals, images or volumes; see :func:`functional.interpolate`.

    Parameters
    ----------
    size : int or sequence of int, optional
        The new spatial sizes; give this or `scale_factor`.
    scale_factor : float or sequence of float, optional
        What the sizes are multiplied by, the products rounded down.
    mode : str
        "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic" or "area".
    align_corners : bool
        Map the centres of the corner elements onto each other, in the linear and cubic modes.

    Examples
    --------
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
        """Return x resized.

        Parameters
        ----------
        x : Tensor
            Shape (N, C, *S).

        Returns
        -------
        Tensor
            Shape (N, C, *S').

        Raises
        ------
        ArgumentError
            If the arguments of the layer contradict each other, or the mode is unknown.
        ShapeError
            If `x` does not have the mode's number of spatial axes.
        """
        return functional.interpolate(
            x, self.size, self.scale_factor, self.mode, self.align_corners
        )

    def extra_repr(self) -> str:
        """Return the size or factor, and the mode."""
        how = f"size={self.size}" if self.size is not None else f"scale_factor={self.scale_factor}"
        return f"{how}, mode={self.mode!r}"


class PixelShuffle(Module):
    """A layer that rearranges channels into pixels; see :func:`functional.pixel_shuffle`.

    Parameters
    ----------
    upscale_factor : int
        The factor r of height and width.

    References
    ----------
    Shi et al., "Real-Time Single Image and Video Super-Resolution", 2016.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.PixelShuffle(2)(calor.ones((1, 4, 3, 3))).shape
    (1, 1, 6, 6)
    """

    def __init__(self, upscale_factor: int) -> None:
        self.upscale_factor = upscale_factor

    def forward(self, x: Tensor) -> Tensor:
        """Return x with its channels rearranged into pixels.

        Parameters
        ----------
        x : Tensor
            Shape (*N, C · r², H, W).

        Returns
        -------
        Tensor
            Shape (*N, C, H · r, W · r).

        Raises
        ------
        ShapeError
            If the channels do not divide by r².
        """
        return functional.pixel_shuffle(x, self.upscale_factor)

    def extra_repr(self) -> str:
        """Return the factor."""
        return f"{self.upscale_factor}"


class PixelUnshuffle(Module):
    """A layer that rearranges pixels into channels; see :func:`functional.pixel_unshuffle`.

    Parameters
    ----------
    downscale_factor : int
        The divisor r of height and width.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.PixelUnshuffle(2)(calor.ones((1, 1, 6, 6))).shape
    (1, 4, 3, 3)
    """

    def __init__(self, downscale_factor: int) -> None:
        self.downscale_factor = downscale_factor

    def forward(self, x: Tensor) -> Tensor:
        """Return x with its pixels rearranged into channels.

        Parameters
        ----------
        x : Tensor
            Shape (*N, C, H · r, W · r).

        Returns
        -------
        Tensor
            Shape (*N, C · r², H, W).

        Raises
        ------
        ShapeError
            If height and width do not divide by r.
        """
        return functional.pixel_unshuffle(x, self.downscale_factor)

    def extra_repr(self) -> str:
        """Return the factor."""
        return f"{self.downscale_factor}"


class Unfold(Module):
    """A layer that takes the patches of images as columns; see :func:`functional.im2col`.

    Parameters
    ----------
    kernel_size : int or sequence of int
        (KH, KW), the size of a patch.
    dilation : int or sequence of int
        Distance of neighbouring elements of a patch.
    padding : int or sequence of int
        Zeros added at both ends of each spatial axis.
    stride : int or sequence of int
        Distance of neighbouring patches.

    Examples
    --------
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

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the columns.

        Parameters
        ----------
        x : Tensor
            Shape (N, C, H, W), or without N.

        Returns
        -------
        Tensor
            Shape (N, C · KH · KW, P) for P patches.

        Raises
        ------
        ShapeError
            If the patches do not fit the padded image.
        """
        return functional.im2col(
            x,
            self.kernel_size,
            dilation=self.dilation,
            padding=self.padding,
            stride=self.stride,
        )


class Fold(Unfold):
    """A layer that adds columns up to images; see :func:`functional.col2im`.

    Parameters
    ----------
    output_size : sequence of int
        (H, W) of the images.
    kernel_size : int or sequence of int
        (KH, KW), the size of a patch.
    dilation : int or sequence of int
        Distance of neighbouring elements of a patch.
    padding : int or sequence of int
        Zeros added at both ends of each spatial axis.
    stride : int or sequence of int
        Distance of neighbouring patches.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Fold((4, 4), 2, stride=2)(calor.ones((1, 12, 4))).shape
    (1, 3, 4, 4)
    """

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

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"output_size={self.output_size}, {super().extra_repr()}"

    def forward(self, x: Tensor) -> Tensor:
        """Return the images.

        Parameters
        ----------
        x : Tensor
            Shape (N, C · KH · KW, P) for P patches, or without N.

        Returns
        -------
        Tensor
            Shape (N, C, H, W).

        Raises
        ------
        ShapeError
            If the columns do not fit such an image.
        """
        return functional.col2im(
            x,
            self.output_size,
            self.kernel_size,
            dilation=self.dilation,
            padding=self.padding,
            stride=self.stride,
        )
