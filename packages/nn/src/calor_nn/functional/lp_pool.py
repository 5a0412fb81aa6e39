"""Pooling by p-norms over one, two and three spatial axes."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from calor.errors import ArgumentError
from calor.functions.activation import floating
from calor.functions.half_types import in_float32
from calor.functions.operands import pair, single
from calor.ops import elementwise as e
from calor.ops.composites import relu
from calor.ops.contraction import window_reduce
from calor_nn.functional.conv import Sizes, batched, unbatched
from calor_nn.functional.pool_windows import Windows, baked

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor


@in_float32(autocast=False)
def lp_pool1d(
    x: Operand,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the p-norm of each window over one spatial axis.

    The norm is (Σ x^p)^(1/p), with the sign of an odd power: a negative sum has no root and gives
    NaN, unless p is 1. As in PyTorch, the sum of a window that ends beyond `x` is scaled by the
    number of elements of a whole window, over those that it has.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, L), or (C, L) without a batch.
    norm_type : float
        The exponent p; above 0. Infinity takes the largest magnitude, minus infinity the least.
    kernel_size : int or sequence of int
        The window's size along each axis, in elements.
    stride : int or sequence of int, optional
        Distance of neighbouring windows; the window's size if left out.
    ceil_mode : bool
        Round the number of windows up: the last window may end beyond the right padding, but begins
        in `x` or in its left padding.

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
        If a size, stride or dilation is below 1 or `norm_type` is neither above 0 nor -inf.
    TypeError
        If a size is not a whole number.
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.lp_pool1d(calor.asarray([[[3.0, 4.0]]]), 2.0, 2).item()
    5.0
    """
    return _lp_pool(x, norm_type, kernel_size, stride, ceil_mode, 1)


@in_float32(autocast=False)
def lp_pool2d(
    x: Operand,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the p-norm of each window over two spatial axes.

    The norm is (Σ x^p)^(1/p), with the sign of an odd power: a negative sum has no root and gives
    NaN, unless p is 1. As in PyTorch, the sum of a window that ends beyond `x` is scaled by the
    number of elements of a whole window, over those that it has.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, H, W), or (C, H, W) without a batch.
    norm_type : float
        The exponent p; above 0. Infinity takes the largest magnitude, minus infinity the least.
    kernel_size : int or sequence of int
        The window's size along each axis, in elements.
    stride : int or sequence of int, optional
        Distance of neighbouring windows; the window's size if left out.
    ceil_mode : bool
        Round the number of windows up: the last window may end beyond the right padding, but begins
        in `x` or in its left padding.

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
        If a size, stride or dilation is below 1 or `norm_type` is neither above 0 nor -inf.
    TypeError
        If a size is not a whole number.
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.lp_pool2d(calor.ones((1, 1, 2, 2)), 2.0, 2).item()
    2.0
    """
    return _lp_pool(x, norm_type, kernel_size, stride, ceil_mode, 2)


@in_float32(autocast=False)
def lp_pool3d(
    x: Operand,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the p-norm of each window over three spatial axes.

    The norm is (Σ x^p)^(1/p), with the sign of an odd power: a negative sum has no root and gives
    NaN, unless p is 1. As in PyTorch, the sum of a window that ends beyond `x` is scaled by the
    number of elements of a whole window, over those that it has.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, D, H, W), or (C, D, H, W) without a batch.
    norm_type : float
        The exponent p; above 0. Infinity takes the largest magnitude, minus infinity the least.
    kernel_size : int or sequence of int
        The window's size along each axis, in elements.
    stride : int or sequence of int, optional
        Distance of neighbouring windows; the window's size if left out.
    ceil_mode : bool
        Round the number of windows up: the last window may end beyond the right padding, but begins
        in `x` or in its left padding.

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
        If a size, stride or dilation is below 1 or `norm_type` is neither above 0 nor -inf.
    TypeError
        If a size is not a whole number.
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.lp_pool3d(calor.ones((1, 1, 1, 2, 2)), 2.0, (1, 2, 2)).item()
    2.0
    """
    return _lp_pool(x, norm_type, kernel_size, stride, ceil_mode, 3)


def _lp_pool(
    x: Any, norm_type: float, kernel: Any, stride: Any, ceil_mode: bool, rank: int
) -> Tensor:
    what = f"lp_pool{rank}d"
    if not (norm_type > 0 or norm_type == -inf):
        raise ArgumentError(f"{what}: norm_type {norm_type} must be above 0, or -inf")
    x, added = batched(floating(x, what), rank, what)
    windows = Windows(x, kernel, stride, 0, 1, ceil_mode, rank, what)
    if norm_type == inf:
        most: Tensor = window_reduce(abs(x), **windows.attributes("max"))
        return unbatched(most, added)
    if norm_type == -inf:
        least: Tensor = window_reduce(-abs(x), **windows.attributes("max"))
        return unbatched(-least, added)
    total = windows.sums(pair(e.power, x, float(norm_type)))
    if ceil_mode and not windows.whole:
        total = _of_whole_windows(total, windows)
    # A sum of 0 has the slope 0, by the mask of relu.
    total = pair(e.mul, single(e.sign, total), single(relu, abs(total)))
    return unbatched(pair(e.power, total, 1.0 / norm_type), added)


def _of_whole_windows(total: Any, windows: Windows) -> Any:
    """Return sums with those of windows that end beyond the operand scaled to a whole window."""
    for axis, counts in enumerate(windows.divisors(include_padding=True)):
        if (counts != windows.kernel[axis]).any():
            shape = [1] * total.ndim
            shape[axis - len(windows.kernel)] = len(counts)
            rates = baked((windows.kernel[axis] / counts).reshape(shape), total)
            total = pair(e.mul, total, rates)
    return total
