"""Activation functions.

Requirements: half types are rounded once where a function is recorded whole; at a kink the slope
is PyTorch's (relu's is 0 at 0); no branch that is not taken sends NaN back through a gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from calor import dtypes
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.functions.joining import chunk
from calor.functions.manipulation import reshape
from calor.functions.operands import as_tensor, one_axis, pair, select, single
from calor.ops import composites as c
from calor.ops import elementwise as e

if TYPE_CHECKING:
    from calor.functions.operands import Operand
    from calor.tensor.tensor import Tensor


def floating(x: Any, what: str) -> Tensor:
    """Return a real floating tensor, integers in the default floating type; DTypeError else."""
    x = as_tensor(x)
    if x.dtype.kind == "float":
        return x  # type: ignore[no-any-return]
    if x.dtype.kind in ("complex", "storage"):
        raise DTypeError(f"{what} needs a real floating tensor, not {x.dtype.name}; cast it first")
    made: Tensor = e.cast(x, dtype=dtypes.DEFAULT_FLOAT)
    return made


def relu(x: Operand, /) -> Tensor:
    """Return x where it is positive, 0 elsewhere; NaN stays NaN.

    >>> import calor
    >>> calor.relu(calor.asarray([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return single(c.relu, x)


def relu6(x: Operand, /) -> Tensor:
    """Return x held between 0 and 6.

    >>> import calor
    >>> calor.relu6(calor.asarray([-1.0, 2.0, 9.0])).tolist()
    [0.0, 2.0, 6.0]
    """
    return hard_tanh(x, 0.0, 6.0)


def hard_tanh(x: Operand, /, min_value: float = -1.0, max_value: float = 1.0) -> Tensor:
    """Return x held between two numbers; the slope outside and at them is 0.

    >>> import calor
    >>> calor.hard_tanh(calor.asarray([-3.0, 0.5, 3.0])).tolist()
    [-1.0, 0.5, 1.0]
    """
    x = as_tensor(x)
    low = select(pair(e.less_equal, x, min_value), min_value, x)
    return select(pair(e.greater_equal, x, max_value), max_value, low)


def leaky_relu(x: Operand, /, negative_slope: float = 0.01) -> Tensor:
    """Return x where it is positive, ``negative_slope`` · x elsewhere.

    >>> import calor
    >>> calor.leaky_relu(calor.asarray([-2.0, 2.0]), 0.5).tolist()
    [-1.0, 2.0]
    """
    x = floating(x, "leaky_relu")
    return select(pair(e.greater, x, 0), x, pair(e.mul, x, negative_slope))


def prelu(x: Operand, weight: Operand, /) -> Tensor:
    """Return x where it is positive, a learned slope times x elsewhere.

    ``weight`` holds one slope, or one for each channel of axis 1 (axis 0 of a tensor of one axis).
    Raises ShapeError for any other number of slopes.

    >>> import calor
    >>> calor.prelu(calor.asarray([[-2.0, -2.0]]), calor.asarray([0.5, 0.25])).tolist()
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


def elu(x: Operand, /, alpha: float = 1.0) -> Tensor:
    """Return x where it is positive, ``alpha`` · (exp(x) − 1) elsewhere (Clevert et al., 2015).

    >>> import calor
    >>> calor.elu(calor.asarray([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return _exponential(floating(x, "elu"), 1.0, alpha, 1.0)


def celu(x: Operand, /, alpha: float = 1.0) -> Tensor:
    """Return x where it is positive, ``alpha`` · (exp(x / alpha) − 1) elsewhere (Barron, 2017).

    >>> import calor
    >>> calor.celu(calor.asarray([0.0, 2.0]), 2.0).tolist()
    [0.0, 2.0]
    """
    if alpha == 0:
        raise ArgumentError("celu: alpha is 0, which x is divided by")
    return _exponential(floating(x, "celu"), 1.0, alpha, 1 / alpha)


def selu(x: Operand, /) -> Tensor:
    """Return the scaled exponential linear unit, which keeps mean 0 and variance 1.

    Source: Klambauer et al., "Self-normalizing neural networks", 2017.

    >>> import calor
    >>> round(calor.selu(calor.asarray(1.0)).item(), 4)
    1.0507
    """
    return _exponential(floating(x, "selu"), _SELU_SCALE, _SELU_SCALE * _SELU_ALPHA, 1.0)


_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_ALPHA = 1.6732632423543772848170429916717


def _exponential(x: Tensor, positive: float, negative: float, rate: float) -> Tensor:
    """Return positive · x where x > 0, negative · (exp(rate · x) − 1) elsewhere."""
    above = pair(e.greater, x, 0)
    below = single(e.expm1, pair(e.mul, select(above, 0, x), rate))
    line = x if positive == 1.0 else pair(e.mul, x, positive)
    return select(above, line, pair(e.mul, below, negative))


def gelu(x: Operand, /, approximate: Literal["none", "tanh"] = "none") -> Tensor:
    """Return x times the normal distribution's probability below x (Hendrycks and Gimpel, 2016).

    ``approximate="tanh"`` takes the paper's approximation by tanh. Raises ArgumentError for
    another name.

    >>> import calor
    >>> round(calor.gelu(calor.asarray(1.0)).item(), 4)
    0.8413
    """
    if approximate not in ("none", "tanh"):
        raise ArgumentError(f'gelu: approximate {approximate!r} is neither "none" nor "tanh"')
    return single(c.gelu if approximate == "none" else c.gelu_tanh, x)


def silu(x: Operand, /) -> Tensor:
    """Return x · sigmoid(x), also called swish (Elfwing et al., 2017).

    >>> import calor
    >>> round(calor.silu(calor.asarray(1.0)).item(), 4)
    0.7311
    """
    return single(c.silu, x)


def mish(x: Operand, /) -> Tensor:
    """Return x · tanh(softplus(x)) (Misra, 2019).

    >>> import calor
    >>> round(calor.mish(calor.asarray(1.0)).item(), 4)
    0.8651
    """
    x = floating(x, "mish")
    return pair(e.mul, x, single(e.tanh, softplus(x)))


def sigmoid(x: Operand, /) -> Tensor:
    """Return 1 / (1 + exp(−x)), precise in both tails.

    >>> import calor
    >>> calor.sigmoid(calor.asarray(0.0)).item()
    0.5
    """
    return single(c.sigmoid, x)


def log_sigmoid(x: Operand, /) -> Tensor:
    """Return log(sigmoid(x)) without overflow.

    >>> import calor
    >>> calor.log_sigmoid(calor.asarray(-1000.0)).item()
    -1000.0
    """
    x = floating(x, "log_sigmoid")
    return single(e.neg, pair(e.logaddexp, single(e.neg, x), 0))


def softplus(x: Operand, /, beta: float = 1.0) -> Tensor:
    """Return log(1 + exp(beta · x)) / beta without overflow, a smooth relu.

    >>> import calor
    >>> calor.softplus(calor.asarray(1000.0)).item()
    1000.0
    """
    x = floating(x, "softplus")
    if beta == 1.0:
        return pair(e.logaddexp, x, 0)
    return pair(e.div, pair(e.logaddexp, pair(e.mul, x, beta), 0), beta)


def softsign(x: Operand, /) -> Tensor:
    """Return x / (1 + |x|).

    >>> import calor
    >>> calor.softsign(calor.asarray([-1.0, 3.0])).tolist()
    [-0.5, 0.75]
    """
    x = floating(x, "softsign")
    return pair(e.div, x, pair(e.add, single(e.abs, x), 1))


def hard_sigmoid(x: Operand, /) -> Tensor:
    """Return (x + 3) / 6 held between 0 and 1.

    >>> import calor
    >>> calor.hard_sigmoid(calor.asarray([-4.0, 0.0, 4.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    return pair(e.div, relu6(pair(e.add, floating(x, "hard_sigmoid"), 3)), 6)


def hard_swish(x: Operand, /) -> Tensor:
    """Return x · hard_sigmoid(x) (Howard et al., "Searching for MobileNetV3", 2019).

    >>> import calor
    >>> calor.hard_swish(calor.asarray([1.5, 4.0])).tolist()
    [1.125, 4.0]
    """
    x = floating(x, "hard_swish")
    return pair(e.mul, x, hard_sigmoid(x))


def glu(x: Operand, /, *, axis: int = -1) -> Tensor:
    """Return the first half along an axis times the sigmoid of the second (Dauphin et al., 2016).

    Raises ShapeError when the axis has an odd size.

    >>> import calor
    >>> calor.glu(calor.asarray([3.0, 0.0])).tolist()
    [1.5]
    """
    x = floating(x, "glu")
    axis = one_axis(axis, x.shape, "glu")
    if x.shape[axis] % 2:
        raise ShapeError(f"glu: axis {axis} of shape {x.shape} has an odd size, no two halves")
    value, gate = chunk(x, 2, axis=axis)
    return pair(e.mul, value, sigmoid(gate))


def softmax(x: Operand, /, *, axis: int = -1) -> Tensor:
    """Return exp(x) divided by its sum along an axis, without overflow.

    NaN where all of a slice is −inf, which has no distribution (attention gives 0 there).

    >>> import calor
    >>> calor.softmax(calor.asarray([1000.0, 1000.0])).tolist()
    [0.5, 0.5]
    """
    x = floating(x, "softmax")
    axis = one_axis(axis, x.shape, "softmax")
    made: Tensor = c.softmax(x, axis=axis) if x.shape[axis] else x.copy()
    return made


def log_softmax(x: Operand, /, *, axis: int = -1) -> Tensor:
    """Return log(softmax(x)) along an axis, precise where the softmax is close to 0 or 1.

    >>> import calor
    >>> calor.log_softmax(calor.asarray([0.0, 1000.0])).tolist()
    [-1000.0, 0.0]
    """
    x = floating(x, "log_softmax")
    axis = one_axis(axis, x.shape, "log_softmax")
    made: Tensor = c.log_softmax(x, axis=axis) if x.shape[axis] else x.copy()
    return made
