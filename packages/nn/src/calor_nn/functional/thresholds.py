"""Activations that cut elements off at a threshold, and the smallest-first softmax.

Requirements: at a threshold the value and the slope are PyTorch's; half types are rounded once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calor import random
from calor.errors import ArgumentError
from calor.functions.activation import floating, softmax
from calor.functions.half_types import in_float32
from calor.functions.operands import pair, select, single
from calor.ops import elementwise as e

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor


def hard_shrink(x: Operand, /, threshold: float = 0.5) -> Tensor:
    """Return x where it is outside [−threshold, threshold], and 0 inside.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; real. Integers are converted to float32.
    threshold : float
        The bound, at least 0.

    Returns
    -------
    Tensor
        The shape and dtype of `x`. NaN stays NaN.

    Raises
    ------
    DTypeError
        If `x` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.hard_shrink(calor.asarray([-1.0, 0.25, 2.0])).tolist()
    [-1.0, 0.0, 2.0]
    """
    x = floating(x, "hard_shrink")
    return select(pair(e.less_equal, single(e.abs, x), threshold), 0.0, x)


@in_float32(autocast=False)
def soft_shrink(x: Operand, /, threshold: float = 0.5) -> Tensor:
    """Return x moved towards 0 by a threshold, and 0 where it is nearer.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; real. Integers are converted to float32.
    threshold : float
        The distance, at least 0.

    Returns
    -------
    Tensor
        The shape and dtype of `x`. NaN stays NaN.

    Raises
    ------
    ArgumentError
        If `threshold` is negative.
    DTypeError
        If `x` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.soft_shrink(calor.asarray([-1.0, 0.25, 2.0])).tolist()
    [-0.5, 0.0, 1.5]
    """
    x = floating(x, "soft_shrink")
    if threshold < 0:
        raise ArgumentError(f"soft_shrink: threshold {threshold} must be at least 0")
    below = pair(e.add, x, threshold)
    near = select(pair(e.less_equal, single(e.abs, x), threshold), 0.0, below)
    return select(pair(e.greater, x, threshold), pair(e.sub, x, threshold), near)


@in_float32(autocast=False)
def tanh_shrink(x: Operand, /) -> Tensor:
    """Return x − tanh(x).

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; real. Integers are converted to float32.

    Returns
    -------
    Tensor
        The shape and dtype of `x`.

    Raises
    ------
    DTypeError
        If `x` is complex or float8.

    Examples
    --------
    >>> from calor.nn import functional
    >>> functional.tanh_shrink(0.0).item()
    0.0
    """
    x = floating(x, "tanh_shrink")
    return pair(e.sub, x, single(e.tanh, x))


def threshold(x: Operand, /, threshold: float, value: float) -> Tensor:
    """Return x where it is above a threshold, and a value elsewhere.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; real. Integers are converted to float32.
    threshold : float
        The bound.
    value : float
        What elements up to the bound become.

    Returns
    -------
    Tensor
        The shape and dtype of `x`. NaN stays NaN.

    Raises
    ------
    DTypeError
        If `x` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.threshold(calor.asarray([0.5, 2.0]), 1.0, -1.0).tolist()
    [-1.0, 2.0]
    """
    x = floating(x, "threshold")
    return select(pair(e.less_equal, x, threshold), value, x)


def softmin(x: Operand, /, *, axis: int = -1) -> Tensor:
    """Return the softmax of −x along an axis.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis; real. Integers are converted to float32.
    axis : int
        The axis along which the results sum to 1.

    Returns
    -------
    Tensor
        The shape and dtype of `x`.

    Raises
    ------
    AxisError
        If `x` has no such axis.
    DTypeError
        If `x` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.softmin(calor.asarray([1.0, 1.0])).tolist()
    [0.5, 0.5]
    """
    return softmax(single(e.neg, floating(x, "softmin")), axis=axis)


def rrelu(
    x: Operand,
    /,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    *,
    training: bool = False,
    key: Tensor | None = None,
) -> Tensor:
    """Return x where it is positive, and elsewhere x times a slope drawn for each element.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; real. Integers are converted to float32.
    lower : float
        The smallest slope.
    upper : float
        The largest slope.
    training : bool
        Draw slopes; otherwise each is the mean of both bounds.
    key : Tensor, optional
        The key to draw with (`calor.random.key`); the global generator if left out.

    Returns
    -------
    Tensor
        The shape and dtype of `x`.

    Raises
    ------
    ArgumentError
        If `lower` is above `upper`.
    DTypeError
        If `x` is complex or float8.

    References
    ----------
    Xu et al., "Empirical Evaluation of Rectified Activations in Convolutional Network", 2015.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.rrelu(calor.asarray([-2.0, 1.0]), 0.25, 0.75).tolist()
    [-1.0, 1.0]
    """
    x = floating(x, "rrelu")
    if lower > upper:
        raise ArgumentError(f"rrelu: lower {lower} must not be above upper {upper}")
    slope: Tensor | float = (lower + upper) / 2
    if training:
        slope = random.uniform(x.shape, lower, upper, key=key, dtype=x.dtype, device=x.device)
    return select(pair(e.greater_equal, x, 0.0), x, pair(e.mul, x, slope))
