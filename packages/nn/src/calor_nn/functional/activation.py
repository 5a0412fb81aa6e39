"""Activation functions beside those that tensors have as methods.

Requirements: those of :mod:`calor.functions.activation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calor.errors import ArgumentError, ShapeError
from calor.functions.activation import exponential_unit, floating, sigmoid, softplus
from calor.functions.joining import chunk
from calor.functions.manipulation import reshape
from calor.functions.operands import as_tensor, one_axis, pair, select, single
from calor.ops import elementwise as e

if TYPE_CHECKING:
    from calor.functions.operands import Operand
    from calor.tensor.tensor import Tensor


def relu6(x: Operand, /) -> Tensor:
    """Return x held between 0 and 6.

    >>> import calor
    >>> from calor.nn import functional
    >>> functional.relu6(calor.asarray([-1.0, 2.0, 9.0])).tolist()
    [0.0, 2.0, 6.0]
    """
    return hard_tanh(x, 0.0, 6.0)


def hard_tanh(x: Operand, /, min_value: float = -1.0, max_value: float = 1.0) -> Tensor:
    """Return x held between two numbers; the slope outside and at them is 0.

    >>> import calor
    >>> from calor.nn import functional
    >>> functional.hard_tanh(calor.asarray([-3.0, 0.5, 3.0])).tolist()
    [-1.0, 0.5, 1.0]
    """
    x = as_tensor(x)
    low = select(pair(e.less_equal, x, min_value), min_value, x)
    return select(pair(e.greater_equal, x, max_value), max_value, low)


def prelu(x: Operand, weight: Operand, /) -> Tensor:
    """Return x where it is positive, a learned slope times x elsewhere.

    ``weight`` holds one slope, or one for each channel of axis 1 (axis 0 of a tensor of one axis).
    Raises ShapeError for any other number of slopes.

    >>> import calor
    >>> from calor.nn import functional
    >>> functional.prelu(calor.asarray([[-2.0, -2.0]]), calor.asarray([0.5, 0.25])).tolist()
    [[-1.0, -0.5]]
    """
    x, weight = floating(x, "prelu"), floating(weight, "prelu")
    channels = x.shape[1] if x.ndim > 1 else 1
    if weight.size not in (1, channels):
        raise ShapeError(
            f"prelu: {weight.size} slopes do not fit shape {x.shape}; "
            f"give one, or one for each of the {channels} channels"
        )
    shape = (weight.size,) + (1,) * max(x.ndim - 2, 0) if weight.size > 1 else ()
    return select(pair(e.greater, x, 0), x, pair(e.mul, x, reshape(weight, shape)))


def celu(x: Operand, /, alpha: float = 1.0) -> Tensor:
    """Return x where it is positive, ``alpha`` · (exp(x / alpha) − 1) elsewhere (Barron, 2017).

    >>> import calor
    >>> from calor.nn import functional
    >>> functional.celu(calor.asarray([0.0, 2.0]), 2.0).tolist()
    [0.0, 2.0]
    """
    if alpha == 0:
        raise ArgumentError("celu: alpha is 0, which x is divided by")
    return exponential_unit(floating(x, "celu"), 1.0, alpha, 1 / alpha)


def selu(x: Operand, /) -> Tensor:
    """Return the scaled exponential linear unit, which keeps mean 0 and variance 1.

    Source: Klambauer et al., "Self-normalizing neural networks", 2017.

    >>> import calor
    >>> from calor.nn import functional
    >>> round(functional.selu(calor.asarray(1.0)).item(), 4)
    1.0507
    """
    return exponential_unit(floating(x, "selu"), _SELU_SCALE, _SELU_SCALE * _SELU_ALPHA, 1.0)


_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_ALPHA = 1.6732632423543772848170429916717


def mish(x: Operand, /) -> Tensor:
    """Return x · tanh(softplus(x)) (Misra, 2019).

    >>> import calor
    >>> from calor.nn import functional
    >>> round(functional.mish(calor.asarray(1.0)).item(), 4)
    0.8651
    """
    x = floating(x, "mish")
    return pair(e.mul, x, single(e.tanh, softplus(x)))


def log_sigmoid(x: Operand, /) -> Tensor:
    """Return log(sigmoid(x)) without overflow.

    >>> import calor
    >>> from calor.nn import functional
    >>> functional.log_sigmoid(calor.asarray(-1000.0)).item()
    -1000.0
    """
    x = floating(x, "log_sigmoid")
    return single(e.neg, pair(e.logaddexp, single(e.neg, x), 0))


def softsign(x: Operand, /) -> Tensor:
    """Return x / (1 + |x|).

    >>> import calor
    >>> from calor.nn import functional
    >>> functional.softsign(calor.asarray([-1.0, 3.0])).tolist()
    [-0.5, 0.75]
    """
    x = floating(x, "softsign")
    return pair(e.div, x, pair(e.add, single(e.abs, x), 1))


def hard_sigmoid(x: Operand, /) -> Tensor:
    """Return (x + 3) / 6 held between 0 and 1.

    >>> import calor
    >>> from calor.nn import functional
    >>> functional.hard_sigmoid(calor.asarray([-4.0, 0.0, 4.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    return pair(e.div, relu6(pair(e.add, floating(x, "hard_sigmoid"), 3)), 6)


def hard_swish(x: Operand, /) -> Tensor:
    """Return x · hard_sigmoid(x) (Howard et al., "Searching for MobileNetV3", 2019).

    >>> import calor
    >>> from calor.nn import functional
    >>> functional.hard_swish(calor.asarray([1.5, 4.0])).tolist()
    [1.125, 4.0]
    """
    x = floating(x, "hard_swish")
    return pair(e.mul, x, hard_sigmoid(x))


def glu(x: Operand, /, *, axis: int = -1) -> Tensor:
    """Return the first half along an axis times the sigmoid of the second (Dauphin et al., 2016).

    Raises ShapeError when the axis has an odd size.

    >>> import calor
    >>> from calor.nn import functional
    >>> functional.glu(calor.asarray([3.0, 0.0])).tolist()
    [1.5]
    """
    x = floating(x, "glu")
    axis = one_axis(axis, x.shape, "glu")
    if x.shape[axis] % 2:
        raise ShapeError(f"glu: axis {axis} of shape {x.shape} has an odd size, no two halves")
    value, gate = chunk(x, 2, axis=axis)
    return pair(e.mul, value, sigmoid(gate))
