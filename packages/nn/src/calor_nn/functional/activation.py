"""Activation functions beside those that tensors have as methods.

Requirements: those of :mod:`calor.functions.activation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calor.errors import ArgumentError, ShapeError
from calor.functions.activation import floating, sigmoid, softplus
from calor.functions.arguments import one_axis
from calor.functions.half_types import in_float32
from calor.functions.joining import chunk
from calor.functions.manipulation import reshape
from calor.functions.operands import as_operands, as_tensor, pair, select, single
from calor.ops import composites as c
from calor.ops import elementwise as e

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor


def relu6(x: Operand, /) -> Tensor:
    """Return x clamped to [0, 6].

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; a real dtype.

    Returns
    -------
    Tensor
        The shape of `x`; NaN stays NaN. The gradient is 0 at both bounds and beyond.

    Raises
    ------
    DTypeError
        If `x` is complex, or not a tensor, array or number.

    References
    ----------
    Krizhevsky, "Convolutional Deep Belief Networks on CIFAR-10", 2010.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.relu6(calor.asarray([-1.0, 2.0, 9.0])).tolist()
    [0.0, 2.0, 6.0]
    """
    return hard_tanh(x, 0.0, 6.0)


def hard_tanh(x: Operand, /, min_value: float = -1.0, max_value: float = 1.0) -> Tensor:
    """Return x clamped to an interval.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; a real dtype.
    min_value : float
        The lower bound.
    max_value : float
        The upper bound.

    Returns
    -------
    Tensor
        The shape of `x`; NaN stays NaN. The gradient is 0 at both bounds and beyond.

    Raises
    ------
    DTypeError
        If `x` is complex, or not a tensor, array or number.

    References
    ----------
    Collobert, "Large Scale Machine Learning", 2004.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.hard_tanh(calor.asarray([-3.0, 0.5, 3.0])).tolist()
    [-1.0, 0.5, 1.0]
    """
    x = as_tensor(x)
    low = select(pair(e.less_equal, x, min_value), min_value, x)
    return select(pair(e.greater_equal, x, max_value), max_value, low)


def prelu(x: Operand, weight: Operand, /) -> Tensor:
    """Return x where it is positive and a learned slope times x elsewhere.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, *S) or (L,); real. Integers are converted to float32.
    weight : Tensor, ndarray or number
        One slope, or one for each of the C channels; shape () or (1,) or (C,).

    Returns
    -------
    Tensor
        The shape of `x`; the common dtype of `x` and `weight`.

    Raises
    ------
    ShapeError
        If the number of slopes is neither 1 nor the number of channels.
    DTypeError
        If an operand is complex or float8, or not a tensor, array or number.

    References
    ----------
    He et al., "Delving Deep into Rectifiers", 2015.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.prelu(calor.asarray([[-2.0, -2.0]]), calor.asarray([0.5, 0.25])).tolist()
    [[-1.0, -0.5]]
    """
    x, weight = (floating(t, "prelu") for t in as_operands(x, weight, floating=True))
    channels = x.shape[1] if x.ndim > 1 else 1
    if weight.size not in (1, channels):
        raise ShapeError(
            f"prelu: {weight.size} slopes do not fit shape {x.shape}; "
            f"give one, or one for each of the {channels} channels"
        )
    shape = (weight.size,) + (1,) * max(x.ndim - 2, 0) if weight.size > 1 else ()
    return select(pair(e.greater, x, 0), x, pair(e.mul, x, reshape(weight, shape)))


def celu(x: Operand, /, alpha: float = 1.0) -> Tensor:
    """Return the continuously differentiable exponential linear unit.

    It is x where x is positive, and alpha · (exp(x / alpha) − 1) elsewhere.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; real. Integers are converted to float32.
    alpha : float
        Scale of the negative part, which tends to −alpha; not 0.

    Returns
    -------
    Tensor
        The shape and dtype of `x`.

    Raises
    ------
    ArgumentError
        If `alpha` is 0.
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.

    References
    ----------
    Barron, "Continuously Differentiable Exponential Linear Units", 2017.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.celu(calor.asarray([0.0, 2.0]), 2.0).tolist()
    [0.0, 2.0]
    """
    if alpha == 0:
        raise ArgumentError("celu: alpha must not be 0, as x is divided by it")
    rate = 1 / float(alpha)
    made: Tensor = c.elu(floating(x, "celu"), alpha=float(alpha), scale=1.0, rate=rate)
    return made


def selu(x: Operand, /) -> Tensor:
    """Return the scaled exponential linear unit.

    Its two constants keep activations of mean 0 and variance 1 at mean 0 and variance 1.

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
        If `x` is complex or float8, or not a tensor, array or number.

    References
    ----------
    Klambauer et al., "Self-Normalizing Neural Networks", 2017.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> round(functional.selu(calor.asarray(1.0)).item(), 4)
    1.0507
    """
    made: Tensor = c.elu(floating(x, "selu"), alpha=_SELU_ALPHA, scale=_SELU_SCALE, rate=1.0)
    return made


_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_ALPHA = 1.6732632423543772848170429916717


def mish(x: Operand, /) -> Tensor:
    """Return x · tanh(softplus(x)).

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
        If `x` is complex or float8, or not a tensor, array or number.

    References
    ----------
    Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", 2019.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> round(functional.mish(calor.asarray(1.0)).item(), 4)
    0.8651
    """
    return single(c.mish, x)


def log_sigmoid(x: Operand, /) -> Tensor:
    """Return log(sigmoid(x)), which does not overflow.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; real. Integers are converted to float32.

    Returns
    -------
    Tensor
        The shape and dtype of `x`; at most 0.

    Raises
    ------
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.log_sigmoid(calor.asarray(-1000.0)).item()
    -1000.0
    """
    return single(e.neg, softplus(single(e.neg, floating(x, "log_sigmoid"))))


@in_float32(autocast=False)
def softsign(x: Operand, /) -> Tensor:
    """Return x / (1 + |x|).

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; real. Integers are converted to float32.

    Returns
    -------
    Tensor
        The shape and dtype of `x`; within (−1, 1).

    Raises
    ------
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.

    References
    ----------
    Bergstra et al., "Quadratic Polynomials Learn Better Image Features", 2009.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.softsign(calor.asarray([-1.0, 3.0])).tolist()
    [-0.5, 0.75]
    """
    x = floating(x, "softsign")
    return pair(e.div, x, pair(e.add, single(e.abs, x), 1))


def hard_sigmoid(x: Operand, /) -> Tensor:
    """Return (x + 3) / 6 clamped to [0, 1].

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; real. Integers are converted to float32.

    Returns
    -------
    Tensor
        The shape and dtype of `x`; a piecewise linear approximation of the sigmoid.

    Raises
    ------
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.

    References
    ----------
    Howard et al., "Searching for MobileNetV3", 2019.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.hard_sigmoid(calor.asarray([-4.0, 0.0, 4.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    x = floating(x, "hard_sigmoid")
    # A number that is none has no slope; it is 0 elsewhere, and so is its square's slope.
    none = select(pair(e.equal, x, x), 0.0, x)
    made = pair(e.div, relu6(pair(e.add, x, 3)), 6)
    return pair(e.add, made, pair(e.mul, none, none))


def hard_swish(x: Operand, /) -> Tensor:
    """Return x · hard_sigmoid(x).

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
        If `x` is complex or float8, or not a tensor, array or number.

    References
    ----------
    Howard et al., "Searching for MobileNetV3", 2019.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.hard_swish(calor.asarray([1.5, 4.0])).tolist()
    [1.125, 4.0]
    """
    return single(c.hard_swish, x)


def glu(x: Operand, /, axis: int = -1) -> Tensor:
    """Return the first half of an axis times the sigmoid of the second half.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; real. Integers are converted to float32.
    axis : int
        The axis that is halved; negative numbers count from the end.

    Returns
    -------
    Tensor
        The shape of `x` with half the size along `axis`; the dtype of `x`.

    Raises
    ------
    AxisError
        If `x` does not have the axis.
    ShapeError
        If the axis has an odd size.
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.

    References
    ----------
    Dauphin et al., "Language Modeling with Gated Convolutional Networks", 2016.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.glu(calor.asarray([3.0, 0.0])).tolist()
    [1.5]
    """
    x = floating(x, "glu")
    axis = one_axis(axis, x.shape, "glu")
    if x.shape[axis] % 2:
        raise ShapeError(
            f"glu: axis {axis} of shape {x.shape} has an odd size and cannot be halved"
        )
    value, gate = chunk(x, 2, axis=axis)
    return pair(e.mul, value, sigmoid(gate))
