"""Convolutions and transposed convolutions over one, two and three spatial axes.

Requirements: shapes and arguments are PyTorch's: input (N, C, *S) or without the batch (C, *S),
weight (O, C / groups, *K), of a transposed convolution (C, O / groups, *K).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from calor.errors import ArgumentError, ShapeError
from calor.functions.arguments import integer
from calor.functions.manipulation import reshape
from calor.functions.operands import as_tensor, lowered, pair, together
from calor.ops import contraction as rows
from calor.ops import elementwise as e
from calor.ops.movement import number_like, pad, slice_
from calor.precision import permitted

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor

Sizes = int | Sequence[int]
ConvPadding = int | Sequence[int] | Literal["same", "valid"]
Axes = tuple[int, ...]


def conv1d(
    x: Operand,
    weight: Operand,
    bias: Operand | None = None,
    stride: Sizes = 1,
    padding: ConvPadding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the cross-correlation of signals with a bank of kernels.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, L), or (C, L) without a batch.
    weight : Tensor, ndarray or number
        Shape (O, C / groups, K).
    bias : Tensor, optional
        Shape (O,); nothing is added if left out.
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

    Returns
    -------
    Tensor
        Shape (N, O, L'), without N if `x` has no batch; the common dtype of `x` and `weight`. Along
        each axis, S' = ⌊(S + 2 · padding − dilation · (K − 1) − 1) / stride⌋ + 1.

    Raises
    ------
    ShapeError
        If `x` or `weight` has another number of axes, the channels do not fit the groups, the
        kernel does not fit the padded input, or an argument has a wrong number of sizes.
    ArgumentError
        If `padding` is another text, or "same" with a stride above 1, or a stride, dilation or
        group count is below 1.
    DTypeError
        If the dtypes have no common one.
    TypeError
        If a size is not a whole number.

    References
    ----------
    - LeCun et al., "Gradient-Based Learning Applied to Document Recognition", 1998.
    - Yu and Koltun, "Multi-Scale Context Aggregation by Dilated Convolutions", 2015.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.conv1d(calor.ones((1, 1, 4)), calor.ones((1, 1, 3)), padding="same").tolist()
    [[[2.0, 3.0, 3.0, 2.0]]]
    """
    return _conv(x, weight, bias, stride, padding, dilation, groups, 1)


def conv2d(
    x: Operand,
    weight: Operand,
    bias: Operand | None = None,
    stride: Sizes = 1,
    padding: ConvPadding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the cross-correlation of images with a bank of kernels.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, H, W), or (C, H, W) without a batch.
    weight : Tensor, ndarray or number
        Shape (O, C / groups, KH, KW).
    bias : Tensor, optional
        Shape (O,); nothing is added if left out.
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

    Returns
    -------
    Tensor
        Shape (N, O, H', W'), without N if `x` has no batch; the common dtype of `x` and `weight`.
        Along each axis, S' = ⌊(S + 2 · padding − dilation · (K − 1) − 1) / stride⌋ + 1.

    Raises
    ------
    ShapeError
        If `x` or `weight` has another number of axes, the channels do not fit the groups, the
        kernel does not fit the padded input, or an argument has a wrong number of sizes.
    ArgumentError
        If `padding` is another text, or "same" with a stride above 1, or a stride, dilation or
        group count is below 1.
    DTypeError
        If the dtypes have no common one.
    TypeError
        If a size is not a whole number.

    References
    ----------
    - LeCun et al., "Gradient-Based Learning Applied to Document Recognition", 1998.
    - Yu and Koltun, "Multi-Scale Context Aggregation by Dilated Convolutions", 2015.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.conv2d(calor.ones((1, 1, 3, 3)), calor.ones((1, 1, 2, 2)), stride=2).tolist()
    [[[[4.0]]]]
    """
    return _conv(x, weight, bias, stride, padding, dilation, groups, 2)


def conv3d(
    x: Operand,
    weight: Operand,
    bias: Operand | None = None,
    stride: Sizes = 1,
    padding: ConvPadding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the cross-correlation of volumes with a bank of kernels.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, D, H, W), or (C, D, H, W) without a batch.
    weight : Tensor, ndarray or number
        Shape (O, C / groups, KD, KH, KW).
    bias : Tensor, optional
        Shape (O,); nothing is added if left out.
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

    Returns
    -------
    Tensor
        Shape (N, O, D', H', W'), without N if `x` has no batch; the common dtype of `x` and
        `weight`. Along each axis, S' = ⌊(S + 2 · padding − dilation · (K − 1) − 1) / stride⌋ + 1.

    Raises
    ------
    ShapeError
        If `x` or `weight` has another number of axes, the channels do not fit the groups, the
        kernel does not fit the padded input, or an argument has a wrong number of sizes.
    ArgumentError
        If `padding` is another text, or "same" with a stride above 1, or a stride, dilation or
        group count is below 1.
    DTypeError
        If the dtypes have no common one.
    TypeError
        If a size is not a whole number.

    References
    ----------
    - LeCun et al., "Gradient-Based Learning Applied to Document Recognition", 1998.
    - Yu and Koltun, "Multi-Scale Context Aggregation by Dilated Convolutions", 2015.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.conv3d(calor.ones((1, 1, 2, 2, 2)), calor.ones((1, 1, 2, 2, 2))).item()
    8.0
    """
    return _conv(x, weight, bias, stride, padding, dilation, groups, 3)


def conv_transpose1d(
    x: Operand,
    weight: Operand,
    bias: Operand | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Return the transposed convolution of signals with a bank of kernels.

    It is the gradient of `conv1d` for its input.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, L), or (C, L) without a batch.
    weight : Tensor, ndarray or number
        Shape (C, O / groups, K).
    bias : Tensor, optional
        Shape (O,); nothing is added if left out.
    stride : int or sequence of int
        Distance of neighbouring windows along each axis, in elements.
    padding : int or sequence of int
        Elements that are cut off at both ends of each axis of the result.
    output_padding : int or sequence of int
        Elements added at the far end of each axis; below the stride or the dilation.
    groups : int
        Into how many groups the channels are divided; each group of outputs reads one group of
        inputs.
    dilation : int or sequence of int
        Distance of neighbouring kernel elements along each axis, in elements.

    Returns
    -------
    Tensor
        Shape (N, O, L'), without N if `x` has no batch; the common dtype of `x` and `weight`. Along
        each axis, S' = (S − 1) · stride − 2 · padding + dilation · (K − 1) + output_padding + 1.

    Raises
    ------
    ShapeError
        If `x` or `weight` has another number of axes, the channels do not fit the groups, `padding`
        leaves nothing, or an argument has a wrong number of sizes.
    ArgumentError
        If `output_padding` is not below the stride or the dilation, or a stride, dilation or
        group count is below 1.
    DTypeError
        If the dtypes have no common one.
    TypeError
        If a size is not a whole number.

    References
    ----------
    Zeiler et al., "Deconvolutional Networks", 2010.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.conv_transpose1d(calor.ones((1, 1, 2)), calor.ones((1, 1, 2)), stride=2).tolist()
    [[[1.0, 1.0, 1.0, 1.0]]]
    """
    return _transposed(x, weight, bias, stride, padding, output_padding, groups, dilation, 1)


def conv_transpose2d(
    x: Operand,
    weight: Operand,
    bias: Operand | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Return the transposed convolution of images with a bank of kernels.

    It is the gradient of `conv2d` for its input.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, H, W), or (C, H, W) without a batch.
    weight : Tensor, ndarray or number
        Shape (C, O / groups, KH, KW).
    bias : Tensor, optional
        Shape (O,); nothing is added if left out.
    stride : int or sequence of int
        Distance of neighbouring windows along each axis, in elements.
    padding : int or sequence of int
        Elements that are cut off at both ends of each axis of the result.
    output_padding : int or sequence of int
        Elements added at the far end of each axis; below the stride or the dilation.
    groups : int
        Into how many groups the channels are divided; each group of outputs reads one group of
        inputs.
    dilation : int or sequence of int
        Distance of neighbouring kernel elements along each axis, in elements.

    Returns
    -------
    Tensor
        Shape (N, O, H', W'), without N if `x` has no batch; the common dtype of `x` and `weight`.
        Along each axis, S' = (S − 1) · stride − 2 · padding + dilation · (K − 1) + output_padding +
        1.

    Raises
    ------
    ShapeError
        If `x` or `weight` has another number of axes, the channels do not fit the groups, `padding`
        leaves nothing, or an argument has a wrong number of sizes.
    ArgumentError
        If `output_padding` is not below the stride or the dilation, or a stride, dilation or
        group count is below 1.
    DTypeError
        If the dtypes have no common one.
    TypeError
        If a size is not a whole number.

    References
    ----------
    Zeiler et al., "Deconvolutional Networks", 2010.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.conv_transpose2d(calor.ones((1, 1, 2, 2)), calor.ones((1, 1, 2, 2))).tolist()
    [[[[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]]]
    """
    return _transposed(x, weight, bias, stride, padding, output_padding, groups, dilation, 2)


def conv_transpose3d(
    x: Operand,
    weight: Operand,
    bias: Operand | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Return the transposed convolution of volumes with a bank of kernels.

    It is the gradient of `conv3d` for its input.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, D, H, W), or (C, D, H, W) without a batch.
    weight : Tensor, ndarray or number
        Shape (C, O / groups, KD, KH, KW).
    bias : Tensor, optional
        Shape (O,); nothing is added if left out.
    stride : int or sequence of int
        Distance of neighbouring windows along each axis, in elements.
    padding : int or sequence of int
        Elements that are cut off at both ends of each axis of the result.
    output_padding : int or sequence of int
        Elements added at the far end of each axis; below the stride or the dilation.
    groups : int
        Into how many groups the channels are divided; each group of outputs reads one group of
        inputs.
    dilation : int or sequence of int
        Distance of neighbouring kernel elements along each axis, in elements.

    Returns
    -------
    Tensor
        Shape (N, O, D', H', W'), without N if `x` has no batch; the common dtype of `x` and
        `weight`. Along each axis, S' = (S − 1) · stride − 2 · padding + dilation · (K − 1) +
        output_padding + 1.

    Raises
    ------
    ShapeError
        If `x` or `weight` has another number of axes, the channels do not fit the groups, `padding`
        leaves nothing, or an argument has a wrong number of sizes.
    ArgumentError
        If `output_padding` is not below the stride or the dilation, or a stride, dilation or
        group count is below 1.
    DTypeError
        If the dtypes have no common one.
    TypeError
        If a size is not a whole number.

    References
    ----------
    Zeiler et al., "Deconvolutional Networks", 2010.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.conv_transpose3d(calor.ones((1, 1, 1, 1, 1)), calor.ones((1, 1, 2, 1, 1))).shape
    (1, 1, 2, 1, 1)
    """
    return _transposed(x, weight, bias, stride, padding, output_padding, groups, dilation, 3)


def per_axis(value: Any, rank: int, what: str) -> Axes:
    """Return one whole number for each spatial axis; a single number counts for all."""
    given = tuple(value) if isinstance(value, Sequence) else (value,)
    if len(given) not in (1, rank):
        raise ShapeError(f"{what} {value!r} needs one number, or one for each of {rank} axes")
    return tuple(integer(n, what) for n in (given * rank if len(given) == 1 else given))


def batched(x: Tensor, rank: int, what: str) -> tuple[Tensor, bool]:
    """Return x as (N, C, *S), and whether the batch was added; ShapeError for other ranks."""
    if x.ndim == rank + 2:
        return x, False
    if x.ndim != rank + 1:
        raise ShapeError(
            f"{what}: shape {x.shape} must be batch, channels and {rank} spatial axes, or the "
            f"same without the batch"
        )
    return reshape(x, (1, *x.shape)), True


def unbatched(x: Tensor, added: bool) -> Tensor:
    """Return x without the batch axis that :func:`batched` added."""
    return reshape(x, x.shape[1:]) if added else x


def _pairs(
    padding: Any, kernel: Axes, stride: Axes, dilation: Axes, what: str
) -> tuple[tuple[int, int], ...]:
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding == "same":
        if any(s != 1 for s in stride):
            raise ArgumentError(f'{what}: padding "same" needs stride 1, not {stride}')
        reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        return tuple((n // 2, n - n // 2) for n in reach)
    if isinstance(padding, str):
        raise ArgumentError(
            f'{what}: padding {padding!r} is unknown; give numbers, "same" or "valid"'
        )
    return tuple((n, n) for n in per_axis(padding, len(kernel), f"{what}: padding"))


def _operands(x: Any, weight: Any, rank: int, what: str) -> tuple[Tensor, Tensor, bool]:
    x, weight = together((lowered(x), lowered(weight)), what)
    x, added = batched(x, rank, what)
    if weight.ndim != rank + 2:
        raise ShapeError(f"{what}: weight of shape {weight.shape} must have {rank + 2} axes")
    if not all(weight.shape[2:]):
        raise ShapeError(f"{what}: weight of shape {weight.shape} has no elements of a kernel")
    return x, weight, added


def _with_bias(made: Tensor, bias: Any, what: str) -> Tensor:
    if bias is None:
        return made
    if bias.shape != (made.shape[1],):
        raise ShapeError(
            f"{what}: bias of shape {bias.shape} must hold one number for each of the "
            f"{made.shape[1]} output channels"
        )
    return pair(
        e.add, made, reshape(lowered(as_tensor(bias, made)), (-1,) + (1,) * (made.ndim - 2))
    )


def _conv(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    rank: int,
) -> Tensor:
    what = f"conv{rank}d"
    x, weight, added = _operands(x, weight, rank, what)
    strides = per_axis(stride, rank, f"{what}: stride")
    dilations = per_axis(dilation, rank, f"{what}: dilation")
    made = rows.conv(
        x,
        weight,
        stride=strides,
        padding=_pairs(padding, weight.shape[2:], strides, dilations, what),
        dilation=dilations,
        groups=integer(groups, f"{what}: groups"),
        **permitted(x.dtype, convolution=True),
    )
    return unbatched(_with_bias(made, bias, what), added)


def _transposed(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
    rank: int,
) -> Tensor:
    what = f"conv_transpose{rank}d"
    x, weight, added = _operands(x, weight, rank, what)
    strides = per_axis(stride, rank, f"{what}: stride")
    paddings = per_axis(padding, rank, f"{what}: padding")
    more = per_axis(output_padding, rank, f"{what}: output_padding")
    dilations = per_axis(dilation, rank, f"{what}: dilation")
    for extra, s, d in zip(more, strides, dilations, strict=True):
        if not 0 <= extra < max(s, d):
            raise ArgumentError(
                f"{what}: output_padding {extra} must be below the stride {s} or the dilation {d}"
            )
    whole = tuple(
        (n - 1) * s + d * (k - 1) + 1
        for n, s, d, k in zip(x.shape[2:], strides, dilations, weight.shape[2:], strict=True)
    )
    # With an output padding below the stride, this is the input gradient of a convolution that
    # leaves elements over. A larger one (up to the dilation) is cropped from the whole output.
    direct = all(m < s for m, s in zip(more, strides, strict=True))
    sizes = tuple(n - 2 * p + m for n, p, m in zip(whole, paddings, more, strict=True))
    if any(n < 1 for n in sizes):
        raise ShapeError(f"{what}: padding {paddings} leaves {sizes} of {whole}; reduce it")
    made = rows.conv_input_gradient(
        x,
        weight,
        input_shape=(x.shape[0], weight.shape[1] * groups, *(sizes if direct else whole)),
        stride=strides,
        padding=tuple((p, p) if direct else (0, 0) for p in paddings),
        dilation=dilations,
        groups=integer(groups, f"{what}: groups"),
        **permitted(x.dtype, convolution=True),
    )
    if not direct:
        made = _cropped(made, paddings, sizes)
    return unbatched(_with_bias(made, bias, what), added)


def _cropped(x: Tensor, starts: Axes, sizes: Axes) -> Tensor:
    """Return ``sizes`` spatial elements from ``starts`` on, with zeros beyond the end of x."""
    ends = tuple(a + n for a, n in zip(starts, sizes, strict=True))
    missing = tuple(max(b - n, 0) for b, n in zip(ends, x.shape[2:], strict=True))
    none = (0,) * x.ndim
    padded = pad(x, number_like(x, 0), low=none, high=(0, 0, *missing), interior=none)
    made: Tensor = slice_(
        padded, starts=(0, 0, *starts), stops=(*x.shape[:2], *ends), steps=(1,) * x.ndim
    )
    return made
