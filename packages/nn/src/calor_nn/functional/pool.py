"""Pooling over one, two and three spatial axes.

Requirements: shapes and arguments are PyTorch's: input (N, C, *S) or (C, *S). ``stride`` defaults
to the window's size. With ``ceil_mode`` the last window may end beyond the right padding, but
begins in x or in its left padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from calor.dtypes import int64
from calor.errors import ArgumentError, ShapeError
from calor.functions.activation import floating
from calor.functions.manipulation import reshape
from calor.functions.operands import as_tensor, as_tensors, pair, stretched
from calor.ops import contraction as rows
from calor.ops import elementwise as e
from calor.ops.sources import iota
from calor.sizes import is_size
from calor_nn.functional.conv import Sizes, batched, unbatched
from calor_nn.functional.pool_windows import Windows, baked

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor


def max_pool1d(
    x: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest element of each window over one spatial axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, L), or (C, L) without a batch.
    kernel_size : int or sequence of int
        The window's size along each axis, in elements.
    stride : int or sequence of int, optional
        Distance of neighbouring windows; the window's size if left out.
    padding : int or sequence of int
        Elements of −inf added at both ends of each axis; at most half a window.
    dilation : int or sequence of int
        Distance of neighbouring kernel elements along each axis, in elements.
    ceil_mode : bool
        Round the number of windows up: the last window may end beyond the right padding, but begins
        in `x` or in its left padding.
    return_indices : bool
        Return the positions of the largest elements too.

    Returns
    -------
    Tensor or tuple of Tensor
        Shape (N, C, L'), without N if `x` has no batch; the dtype of `x`. With `return_indices` the
        pair (values, indices): int64 flat indices into the spatial axes of `x`.

    Raises
    ------
    ShapeError
        If `x` has another number of axes, a window does not fit, or an argument has a wrong number
        of sizes.
    ArgumentError
        If a size, stride or dilation is below 1, or the padding exceeds half a window.
    TypeError
        If a size is not a whole number.
    DTypeError
        If `x` is not a tensor, array or number.

    Notes
    -----
    A window that contains NaN gives NaN. Of equal elements the first one counts, for the index and
    for the gradient alike.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.max_pool1d(calor.asarray([[[1.0, 3.0, 2.0, 0.0]]]), 2).tolist()
    [[[3.0, 2.0]]]
    """
    return _max_pool(x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 1)


def max_pool2d(
    x: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest element of each window over two spatial axes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, H, W), or (C, H, W) without a batch.
    kernel_size : int or sequence of int
        The window's size along each axis, in elements.
    stride : int or sequence of int, optional
        Distance of neighbouring windows; the window's size if left out.
    padding : int or sequence of int
        Elements of −inf added at both ends of each axis; at most half a window.
    dilation : int or sequence of int
        Distance of neighbouring kernel elements along each axis, in elements.
    ceil_mode : bool
        Round the number of windows up: the last window may end beyond the right padding, but begins
        in `x` or in its left padding.
    return_indices : bool
        Return the positions of the largest elements too.

    Returns
    -------
    Tensor or tuple of Tensor
        Shape (N, C, H', W'), without N if `x` has no batch; the dtype of `x`. With `return_indices`
        the pair (values, indices): int64 flat indices into the spatial axes of `x`.

    Raises
    ------
    ShapeError
        If `x` has another number of axes, a window does not fit, or an argument has a wrong number
        of sizes.
    ArgumentError
        If a size, stride or dilation is below 1, or the padding exceeds half a window.
    TypeError
        If a size is not a whole number.
    DTypeError
        If `x` is not a tensor, array or number.

    Notes
    -----
    A window that contains NaN gives NaN. Of equal elements the first one counts, for the index and
    for the gradient alike.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.max_pool2d(calor.asarray([[[1.0, 3.0], [2.0, 0.0]]]), 2).tolist()
    [[[3.0]]]
    """
    return _max_pool(x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 2)


def max_pool3d(
    x: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest element of each window over three spatial axes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, D, H, W), or (C, D, H, W) without a batch.
    kernel_size : int or sequence of int
        The window's size along each axis, in elements.
    stride : int or sequence of int, optional
        Distance of neighbouring windows; the window's size if left out.
    padding : int or sequence of int
        Elements of −inf added at both ends of each axis; at most half a window.
    dilation : int or sequence of int
        Distance of neighbouring kernel elements along each axis, in elements.
    ceil_mode : bool
        Round the number of windows up: the last window may end beyond the right padding, but begins
        in `x` or in its left padding.
    return_indices : bool
        Return the positions of the largest elements too.

    Returns
    -------
    Tensor or tuple of Tensor
        Shape (N, C, D', H', W'), without N if `x` has no batch; the dtype of `x`. With
        `return_indices` the pair (values, indices): int64 flat indices into the spatial axes of
        `x`.

    Raises
    ------
    ShapeError
        If `x` has another number of axes, a window does not fit, or an argument has a wrong number
        of sizes.
    ArgumentError
        If a size, stride or dilation is below 1, or the padding exceeds half a window.
    TypeError
        If a size is not a whole number.
    DTypeError
        If `x` is not a tensor, array or number.

    Notes
    -----
    A window that contains NaN gives NaN. Of equal elements the first one counts, for the index and
    for the gradient alike.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.max_pool3d(calor.ones((1, 1, 2, 4, 4)), 2).shape
    (1, 1, 1, 2, 2)
    """
    return _max_pool(x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 3)


def avg_pool1d(
    x: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean of each window over one spatial axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, L), or (C, L) without a batch.
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

    Returns
    -------
    Tensor
        Shape (N, C, L'), without N if `x` has no batch; the dtype of `x`, float32 for integers.

    Raises
    ------
    ShapeError
        If `x` has another number of axes, a window does not fit, or an argument has a wrong number
        of sizes.
    ArgumentError
        If a size, stride or dilation is below 1, or the padding exceeds half a window.
    TypeError
        If a size is not a whole number.
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.avg_pool1d(calor.asarray([[[1.0, 3.0, 2.0, 0.0]]]), 2).tolist()
    [[[2.0, 1.0]]]
    """
    return _avg_pool(x, kernel_size, stride, padding, ceil_mode, count_include_pad, None, 1)


def avg_pool2d(
    x: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window over two spatial axes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, H, W), or (C, H, W) without a batch.
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

    Returns
    -------
    Tensor
        Shape (N, C, H', W'), without N if `x` has no batch; the dtype of `x`, float32 for integers.

    Raises
    ------
    ShapeError
        If `x` has another number of axes, a window does not fit, or an argument has a wrong number
        of sizes.
    ArgumentError
        If a size, stride or dilation is below 1, the padding exceeds half a window, or
        `divisor_override` is 0.
    TypeError
        If a size is not a whole number.
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.avg_pool2d(calor.asarray([[[1.0, 3.0], [2.0, 0.0]]]), 2).tolist()
    [[[1.5]]]
    """
    divisor = divisor_override
    return _avg_pool(x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor, 2)


def avg_pool3d(
    x: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window over three spatial axes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, D, H, W), or (C, D, H, W) without a batch.
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

    Returns
    -------
    Tensor
        Shape (N, C, D', H', W'), without N if `x` has no batch; the dtype of `x`, float32 for
        integers.

    Raises
    ------
    ShapeError
        If `x` has another number of axes, a window does not fit, or an argument has a wrong number
        of sizes.
    ArgumentError
        If a size, stride or dilation is below 1, the padding exceeds half a window, or
        `divisor_override` is 0.
    TypeError
        If a size is not a whole number.
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.avg_pool3d(calor.ones((1, 1, 2, 2, 2)), 2).item()
    1.0
    """
    divisor = divisor_override
    return _avg_pool(x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor, 3)


def max_unpool(x: Operand, indices: Tensor, /, output_size: Sequence[int]) -> Tensor:
    """Return zeros with x at the positions that a max pool returned.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, *S) or (C, *S): the values.
    indices : Tensor
        The shape of `x`; int64 flat indices into the spatial axes of the result.
    output_size : sequence of int
        The spatial sizes of the result.

    Returns
    -------
    Tensor
        Shape (N, C, *output_size), without N if `x` has no batch; the dtype of `x`.

    Raises
    ------
    ShapeError
        If `x` and `indices` differ in shape, or do not have the spatial axes of `output_size` after
        one or two others.
    DTypeError
        If `x` is not a tensor, array or number.

    References
    ----------
    Zeiler and Fergus, "Visualizing and Understanding Convolutional Networks", 2014.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> y, places = functional.max_pool1d(calor.asarray([[[1.0, 3.0]]]), 2, return_indices=True)
    >>> functional.max_unpool(y, places, (2,)).tolist()
    [[[0.0, 3.0]]]
    """
    from calor.functions.creation import zeros
    from calor.ops.indexing import scatter_along

    x, indices = as_tensors(x, indices)
    sizes = tuple(output_size)
    lead = x.shape[: x.ndim - len(sizes)]
    if indices.shape != x.shape or len(lead) not in (1, 2):
        raise ShapeError(
            f"max_unpool: indices of shape {indices.shape} and values of shape {x.shape} must "
            f"agree, with {len(sizes)} spatial axes as in the output size {sizes}"
        )
    flat = zeros((*lead, int(np.prod(sizes))), dtype=x.dtype, device=x.device)
    made = scatter_along(
        flat,
        reshape(indices, (*lead, -1)),
        reshape(x, (*lead, -1)),
        axis=len(lead),
        update="assign",
    )
    return reshape(made, (*lead, *sizes))


def _max_pool(
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    return_indices: bool,
    rank: int,
) -> Any:
    what = f"max_pool{rank}d"
    x, added = batched(as_tensor(x), rank, what)
    windows = Windows(x, kernel, stride, padding, dilation, ceil_mode, rank, what)
    attributes = windows.attributes("max")
    made = unbatched(rows.window_reduce(x, **attributes), added)
    if not return_indices:
        return made
    with x.device:
        flat = iota(length=int(np.prod(windows.sizes)), dtype=int64)
    places = stretched(reshape(flat, windows.sizes), x.shape)
    return made, unbatched(rows.window_pick(places, x.detach(), **attributes), added)


def _avg_pool(
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
    rank: int,
) -> Tensor:
    what = f"avg_pool{rank}d"
    if divisor == 0:
        raise ArgumentError(f"{what}: divisor_override must not be 0")
    x, added = batched(floating(x, what), rank, what)
    windows = Windows(x, kernel, stride, padding, 1, ceil_mode, rank, what)
    total = windows.sums(x)
    if divisor is not None:
        return unbatched(pair(e.div, total, float(divisor)), added)
    if windows.whole:
        elements = prod(windows.kernel)
        number = elements if is_size(elements) else float(elements)
        return unbatched(pair(e.div, total, number), added)
    counts = windows.divisors(count_include_pad)
    if all(c.size and (c == c[0]).all() for c in counts):
        total = pair(e.div, total, float(np.prod([c[0] for c in counts])))
    else:
        product = counts[0]
        for more in counts[1:]:
            product = product[..., None] * more
        total = pair(e.div, total, baked(product, total))
    return unbatched(total, added)
