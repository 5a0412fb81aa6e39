"""Convolution layers, by PyTorch's names and shapes."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar, Literal

import calor
from calor import Tensor
from calor.errors import ArgumentError
from calor_nn import functional
from calor_nn.functional.conv import ConvPadding, Sizes, per_axis
from calor_nn.init import Init, drawn, fans, kaiming_uniform, uniform
from calor_nn.module import Module, Parameter

PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]

# The names that calor.pad has for PyTorch's padding modes.
_PAD_MODES: dict[str, Any] = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


class _Conv(Module):
    rank: ClassVar[int]
    transposed: ClassVar[bool] = False

    def _build(
        self,
        inputs: int,
        outputs: int,
        kernel: Sizes,
        groups: int,
        bias: bool,
        options: Any,
        init: Init,
    ) -> None:
        if groups < 1 or inputs % groups or outputs % groups:
            raise ArgumentError(
                f"{type(self).__name__}: {inputs} input and {outputs} output channels must both "
                f"divide into {groups} groups"
            )
        self.in_channels = inputs
        self.out_channels = outputs
        self.groups = groups
        self.kernel_size = per_axis(kernel, self.rank, "kernel_size")
        first, second = (inputs, outputs) if self.transposed else (outputs, inputs)
        shape = (first, second // groups, *self.kernel_size)
        default = partial(kaiming_uniform, slope=math.sqrt(5.0))
        self.weight = Parameter(drawn(init, default, shape, **options))
        self.bias = None
        if bias:
            bound = 1 / math.sqrt(max(fans(shape)[0], 1))
            self.bias = Parameter(uniform((outputs,), -bound, bound, **options))

    def extra_repr(self) -> str:
        """Return the channels and every argument that is not the default."""
        parts = [f"{self.in_channels}, {self.out_channels}", f"kernel_size={self.kernel_size}"]
        plain: dict[str, Any] = {
            "stride": (1,) * self.rank,
            "padding": (0,) * self.rank,
            "output_padding": (0,) * self.rank,
            "dilation": (1,) * self.rank,
            "groups": 1,
            "padding_mode": "zeros",
        }
        for name, default in plain.items():
            value = getattr(self, name, default)
            if value != default:
                parts.append(f"{name}={value!r}")
        if self.bias is None:
            parts.append("bias=False")
        return ", ".join(parts)


class _Forward(_Conv):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: ConvPadding = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: PaddingMode = "zeros",
        *,
        init: Init = None,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        self.stride = per_axis(stride, self.rank, "stride")
        self.padding: Any = (
            padding if isinstance(padding, str) else per_axis(padding, self.rank, "padding")
        )
        self.dilation = per_axis(dilation, self.rank, "dilation")
        self.padding_mode = padding_mode
        options = {"dtype": dtype, "device": device}
        self._build(in_channels, out_channels, kernel_size, groups, bias, options, init)

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolution of x.

        Parameters
        ----------
        x : Tensor
            Shape (N, in_channels, *S), or without N.

        Returns
        -------
        Tensor
            Shape (N, out_channels, *S'), without N if `x` has no batch.

        Raises
        ------
        ShapeError
            If `x` has another number of axes or channels, or the kernel does not fit it.
        ArgumentError
            If `padding` is another text, or "same" with a stride above 1, or a stride or dilation
            is below 1.
        """
        padding = self.padding
        if self.padding_mode != "zeros":
            x = calor.pad(x, self._widths(x.ndim), mode=_PAD_MODES[self.padding_mode])
            padding = 0
        function = (functional.conv1d, functional.conv2d, functional.conv3d)[self.rank - 1]
        return function(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _widths(self, ndim: int) -> list[tuple[int, int]]:
        """Return the widths for `calor.pad`, in the padding modes other than zeros."""
        spatial = [(0, 0)] * self.rank
        if self.padding == "same":
            reach = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            spatial = [(n // 2, n - n // 2) for n in reach]
        elif self.padding != "valid":
            spatial = [(n, n) for n in self.padding]
        return [(0, 0)] * (ndim - self.rank) + spatial


class _Transposed(_Conv):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        *,
        init: Init = None,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        self.stride = per_axis(stride, self.rank, "stride")
        self.padding = per_axis(padding, self.rank, "padding")
        self.output_padding = per_axis(output_padding, self.rank, "output_padding")
        self.dilation = per_axis(dilation, self.rank, "dilation")
        options = {"dtype": dtype, "device": device}
        self._build(in_channels, out_channels, kernel_size, groups, bias, options, init)

    def forward(self, x: Tensor) -> Tensor:
        """Return the transposed convolution of x.

        Parameters
        ----------
        x : Tensor
            Shape (N, in_channels, *S), or without N.

        Returns
        -------
        Tensor
            Shape (N, out_channels, *S'), without N if `x` has no batch.

        Raises
        ------
        ShapeError
            If `x` has another number of axes or channels, or `padding` leaves nothing.
        ArgumentError
            If `output_padding` is not below the stride or the dilation, or a stride or dilation
            is below 1.
        """
        functions = (
            functional.conv_transpose1d,
            functional.conv_transpose2d,
            functional.conv_transpose3d,
        )
        return functions[self.rank - 1](
            x,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.output_padding,
            self.groups,
            self.dilation,
        )


class Conv1d(_Forward):
    """A convolution over (N, C, L); see :func:`functional.conv1d`.

    `weight` is (out_channels, in_channels / groups, K) and `bias` (out_channels,), both drawn
    uniformly from ±1 / √fan, where fan is the number of elements of one kernel.

    Parameters
    ----------
    in_channels : int
        The channels of the input.
    out_channels : int
        The channels of the output.
    kernel_size : int or sequence of int
        K, in elements.
    stride : int or sequence of int
        Distance of neighbouring windows along each axis, in elements.
    padding : int, sequence of int, "same" or "valid"
        Zeros added at both ends of each axis. "valid" adds none; "same" keeps the spatial sizes,
        and needs stride 1.
    dilation : int or sequence of int
        Distance of neighbouring kernel elements along each axis, in elements.
    groups : int
        Into how many groups the channels are divided; each group of outputs reads one group of
        inputs.
    bias : bool
        Whether there is a bias.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}
        What the padding holds: zeros, the mirrored input, its edge, or its other end.
    init : str or callable, optional
        How the weight is drawn: a name of `nn.init` such as "xavier_normal", or a function of a
        shape, `dtype` and `device`; as above if left out.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    Raises
    ------
    ArgumentError
        If the channels do not divide into the groups, or `padding_mode` is unknown.
    ShapeError
        If an argument has a wrong number of sizes.
    TypeError
        If a size is not a whole number.

    References
    ----------
    LeCun et al., "Gradient-Based Learning Applied to Document Recognition", 1998.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Conv1d(3, 8, 5, padding=2)(calor.ones((2, 3, 10))).shape
    (2, 8, 10)
    """

    rank = 1


class Conv2d(_Forward):
    """A convolution over (N, C, H, W); see :func:`functional.conv2d`.

    `weight` is (out_channels, in_channels / groups, KH, KW) and `bias` (out_channels,), both drawn
    uniformly from ±1 / √fan, where fan is the number of elements of one kernel.

    Parameters
    ----------
    in_channels : int
        The channels of the input.
    out_channels : int
        The channels of the output.
    kernel_size : int or sequence of int
        KH, KW, in elements.
    stride : int or sequence of int
        Distance of neighbouring windows along each axis, in elements.
    padding : int, sequence of int, "same" or "valid"
        Zeros added at both ends of each axis. "valid" adds none; "same" keeps the spatial sizes,
        and needs stride 1.
    dilation : int or sequence of int
        Distance of neighbouring kernel elements along each axis, in elements.
    groups : int
        Into how many groups the channels are divided; each group of outputs reads one group of
        inputs.
    bias : bool
        Whether there is a bias.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}
        What the padding holds: zeros, the mirrored input, its edge, or its other end.
    init : str or callable, optional
        How the weight is drawn: a name of `nn.init` such as "xavier_normal", or a function of a
        shape, `dtype` and `device`; as above if left out.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    Raises
    ------
    ArgumentError
        If the channels do not divide into the groups, or `padding_mode` is unknown.
    ShapeError
        If an argument has a wrong number of sizes.
    TypeError
        If a size is not a whole number.

    References
    ----------
    LeCun et al., "Gradient-Based Learning Applied to Document Recognition", 1998.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Conv2d(3, 8, 3, stride=2, padding=1)(calor.ones((1, 3, 8, 8))).shape
    (1, 8, 4, 4)
    """

    rank = 2


class Conv3d(_Forward):
    """A convolution over (N, C, D, H, W); see :func:`functional.conv3d`.

    `weight` is (out_channels, in_channels / groups, KD, KH, KW) and `bias` (out_channels,), both
    drawn uniformly from ±1 / √fan, where fan is the number of elements of one kernel.

    Parameters
    ----------
    in_channels : int
        The channels of the input.
    out_channels : int
        The channels of the output.
    kernel_size : int or sequence of int
        KD, KH, KW, in elements.
    stride : int or sequence of int
        Distance of neighbouring windows along each axis, in elements.
    padding : int, sequence of int, "same" or "valid"
        Zeros added at both ends of each axis. "valid" adds none; "same" keeps the spatial sizes,
        and needs stride 1.
    dilation : int or sequence of int
        Distance of neighbouring kernel elements along each axis, in elements.
    groups : int
        Into how many groups the channels are divided; each group of outputs reads one group of
        inputs.
    bias : bool
        Whether there is a bias.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}
        What the padding holds: zeros, the mirrored input, its edge, or its other end.
    init : str or callable, optional
        How the weight is drawn: a name of `nn.init` such as "xavier_normal", or a function of a
        shape, `dtype` and `device`; as above if left out.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    Raises
    ------
    ArgumentError
        If the channels do not divide into the groups, or `padding_mode` is unknown.
    ShapeError
        If an argument has a wrong number of sizes.
    TypeError
        If a size is not a whole number.

    References
    ----------
    LeCun et al., "Gradient-Based Learning Applied to Document Recognition", 1998.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Conv3d(1, 2, (1, 3, 3))(calor.ones((1, 1, 4, 5, 5))).shape
    (1, 2, 4, 3, 3)
    """

    rank = 3


class ConvTranspose1d(_Transposed):
    """A transposed convolution over (N, C, L); see :func:`functional.conv_transpose1d`.

    `weight` is (in_channels, out_channels / groups, K) and `bias` (out_channels,), both drawn
    uniformly from ±1 / √fan, with fan = out_channels / groups · the elements of the kernel.

    Parameters
    ----------
    in_channels : int
        The channels of the input.
    out_channels : int
        The channels of the output.
    kernel_size : int or sequence of int
        K, in elements.
    stride : int or sequence of int
        Distance of neighbouring windows along each axis, in elements.
    padding : int or sequence of int
        Elements that are cut off at both ends of each axis of the result.
    output_padding : int or sequence of int
        Elements added at the far end of each axis; below the stride or the dilation.
    groups : int
        Into how many groups the channels are divided; each group of outputs reads one group of
        inputs.
    bias : bool
        Whether there is a bias.
    dilation : int or sequence of int
        Distance of neighbouring kernel elements along each axis, in elements.
    init : str or callable, optional
        How the weight is drawn: a name of `nn.init` such as "xavier_normal", or a function of a
        shape, `dtype` and `device`; as above if left out.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    Raises
    ------
    ArgumentError
        If the channels do not divide into the groups.
    ShapeError
        If an argument has a wrong number of sizes.
    TypeError
        If a size is not a whole number.

    References
    ----------
    Zeiler et al., "Deconvolutional Networks", 2010.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.ConvTranspose1d(3, 8, 2, stride=2)(calor.ones((1, 3, 5))).shape
    (1, 8, 10)
    """

    rank = 1


class ConvTranspose2d(_Transposed):
    """A transposed convolution over (N, C, H, W); see :func:`functional.conv_transpose2d`.

    `weight` is (in_channels, out_channels / groups, KH, KW) and `bias` (out_channels,), both drawn
    uniformly from ±1 / √fan, with fan = out_channels / groups · the elements of the kernel.

    Parameters
    ----------
    in_channels : int
        The channels of the input.
    out_channels : int
        The channels of the output.
    kernel_size : int or sequence of int
        KH, KW, in elements.
    stride : int or sequence of int
        Distance of neighbouring windows along each axis, in elements.
    padding : int or sequence of int
        Elements that are cut off at both ends of each axis of the result.
    output_padding : int or sequence of int
        Elements added at the far end of each axis; below the stride or the dilation.
    groups : int
        Into how many groups the channels are divided; each group of outputs reads one group of
        inputs.
    bias : bool
        Whether there is a bias.
    dilation : int or sequence of int
        Distance of neighbouring kernel elements along each axis, in elements.
    init : str or callable, optional
        How the weight is drawn: a name of `nn.init` such as "xavier_normal", or a function of a
        shape, `dtype` and `device`; as above if left out.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    Raises
    ------
    ArgumentError
        If the channels do not divide into the groups.
    ShapeError
        If an argument has a wrong number of sizes.
    TypeError
        If a size is not a whole number.

    References
    ----------
    Zeiler et al., "Deconvolutional Networks", 2010.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.ConvTranspose2d(3, 8, 2, stride=2)(calor.ones((1, 3, 5, 5))).shape
    (1, 8, 10, 10)
    """

    rank = 2


class ConvTranspose3d(_Transposed):
    """A transposed convolution over (N, C, D, H, W); see :func:`functional.conv_transpose3d`.

    `weight` is (in_channels, out_channels / groups, KD, KH, KW) and `bias` (out_channels,), both
    drawn uniformly from ±1 / √fan, with fan = out_channels / groups · the elements of the kernel.

    Parameters
    ----------
    in_channels : int
        The channels of the input.
    out_channels : int
        The channels of the output.
    kernel_size : int or sequence of int
        KD, KH, KW, in elements.
    stride : int or sequence of int
        Distance of neighbouring windows along each axis, in elements.
    padding : int or sequence of int
        Elements that are cut off at both ends of each axis of the result.
    output_padding : int or sequence of int
        Elements added at the far end of each axis; below the stride or the dilation.
    groups : int
        Into how many groups the channels are divided; each group of outputs reads one group of
        inputs.
    bias : bool
        Whether there is a bias.
    dilation : int or sequence of int
        Distance of neighbouring kernel elements along each axis, in elements.
    init : str or callable, optional
        How the weight is drawn: a name of `nn.init` such as "xavier_normal", or a function of a
        shape, `dtype` and `device`; as above if left out.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    Raises
    ------
    ArgumentError
        If the channels do not divide into the groups.
    ShapeError
        If an argument has a wrong number of sizes.
    TypeError
        If a size is not a whole number.

    References
    ----------
    Zeiler et al., "Deconvolutional Networks", 2010.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.ConvTranspose3d(1, 1, 2, stride=2)(calor.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 4, 4, 4)
    """

    rank = 3
