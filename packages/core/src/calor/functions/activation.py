"""Activation functions.

Requirements: half types are rounded once where a function is recorded whole; at a kink the slope
is PyTorch's (relu's is 0 at 0); no branch that is not taken sends NaN back through a gradient.
"""

from __future__ import annotations

from typing import Any, Literal

from calor import dtypes
from calor.errors import ArgumentError, DTypeError
from calor.functions.arguments import one_axis
from calor.functions.operands import any_complex, as_tensor, pair, prepared, select, single
from calor.ops import composites as c
from calor.ops import elementwise as e
from calor.tensor.tensor import Operand, Tensor


def floating(x: Any, what: str) -> Tensor:
    """Return a real floating tensor; integers are converted to the default floating dtype.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape.
    what : str
        The function's name, for the error.

    Returns
    -------
    Tensor
        The shape of ``x``, and its dtype if that is floating.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.
    """
    x = as_tensor(x)
    if x.dtype.kind == "float":
        return x  # type: ignore[no-any-return]
    if x.dtype.kind in ("complex", "storage"):
        raise DTypeError(f"{what} needs a real floating tensor, not {x.dtype.name}; cast it first")
    made: Tensor = e.cast(x, dtype=dtypes.default_float())
    return made


def inexact(x: Any, what: str) -> Tensor:
    """Return a floating or complex tensor; integers are converted to the default floating dtype.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape.
    what : str
        The function's name, for the error.

    Returns
    -------
    Tensor
        The shape of ``x``, and its dtype if that is floating or complex.

    Raises
    ------
    DTypeError
        If ``x`` is float8.
    """
    x = as_tensor(x)
    return x if x.dtype.is_complex else floating(x, what)


def relu(x: Operand, /) -> Tensor:
    """Return x where it is positive and 0 elsewhere.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; a real dtype other than bool. Half types are not widened.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``. NaN stays NaN; the gradient at 0 is 0.

    Raises
    ------
    DTypeError
        If ``x`` is bool, complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.relu(calor.asarray([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return single(c.relu, x)


def leaky_relu(x: Operand, /, negative_slope: float = 0.01) -> Tensor:
    """Return x where it is positive, ``negative_slope`` times x elsewhere.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape, any real dtype.
    negative_slope : float, optional
        The slope for negative elements. By default 0.01.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    References
    ----------
    Maas, Hannun and Ng, "Rectifier nonlinearities improve neural network acoustic models", ICML
    2013.

    Examples
    --------
    >>> import calor
    >>> calor.leaky_relu(calor.asarray([-2.0, 2.0]), 0.5).tolist()
    [-1.0, 2.0]
    """
    x = floating(x, "leaky_relu")
    return select(pair(e.greater, x, 0), x, pair(e.mul, x, negative_slope))


def elu(x: Operand, /, alpha: float = 1.0) -> Tensor:
    """Return x where it is positive, ``alpha`` · (exp(x) − 1) elsewhere.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape, any real dtype.
    alpha : float, optional
        The negative of the limit for x → −∞. By default 1.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    References
    ----------
    Clevert, Unterthiner and Hochreiter, "Fast and accurate deep network learning by exponential
    linear units", 2015.

    Examples
    --------
    >>> import calor
    >>> calor.elu(calor.asarray([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    made: Tensor = c.elu(floating(x, "elu"), alpha=float(alpha), scale=1.0, rate=1.0)
    return made


def gelu(x: Operand, /, approximate: Literal["none", "tanh"] = "none") -> Tensor:
    """Return x · Φ(x), where Φ is the standard normal distribution function.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape, any real dtype.
    approximate : {"none", "tanh"}, optional
        "none" (the default) computes Φ with the error function, "tanh" the paper's approximation by
        tanh.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32.

    Raises
    ------
    ArgumentError
        If ``approximate`` is another name.
    DTypeError
        If ``x`` is complex or float8.

    References
    ----------
    Hendrycks and Gimpel, "Gaussian error linear units (GELUs)", 2016.

    Examples
    --------
    >>> import calor
    >>> round(calor.gelu(calor.asarray(1.0)).item(), 4)
    0.8413
    """
    if approximate not in ("none", "tanh"):
        raise ArgumentError(f'gelu: approximate {approximate!r} is neither "none" nor "tanh"')
    return single(c.gelu if approximate == "none" else c.gelu_tanh, x)


def silu(x: Operand, /) -> Tensor:
    """Return x · sigmoid(x), also called swish.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape, any dtype except float8.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating or complex, else float32.

    Raises
    ------
    DTypeError
        If ``x`` is float8.

    References
    ----------
    Elfwing, Uchibe and Doya, "Sigmoid-weighted linear units for neural network function
    approximation in reinforcement learning", 2017.

    Examples
    --------
    >>> import calor
    >>> round(calor.silu(calor.asarray(1.0)).item(), 4)
    0.7311
    """
    try:
        return single(c.silu, x)
    except DTypeError:
        if not any_complex(x):
            raise
    return pair(e.mul, x, _complex_sigmoid(as_tensor(x)))


def sigmoid(x: Operand, /) -> Tensor:
    """Return 1 / (1 + exp(−x)), accurate in both tails.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape, any dtype except float8.

    Returns
    -------
    Tensor
        Values in [0, 1]; the shape of ``x``; its dtype if that is floating or complex, else
        float32.

    Raises
    ------
    DTypeError
        If ``x`` is float8.

    Examples
    --------
    >>> import calor
    >>> calor.sigmoid(calor.asarray(0.0)).item()
    0.5
    """
    try:
        return single(c.sigmoid, x)
    except DTypeError:
        if not any_complex(x):
            raise
    return _complex_sigmoid(as_tensor(x))


def _complex_sigmoid(x: Tensor) -> Tensor:
    """Return 1 / (1 + exp(−x)); the power is of the side on which it does not overflow."""
    left = pair(e.less, single(e.real, x), 0)
    power = single(e.exp, select(left, x, single(e.neg, x)))
    return pair(e.div, select(left, power, 1), pair(e.add, power, 1))


def softplus(x: Operand, /, beta: float = 1.0) -> Tensor:
    """Return log(1 + exp(beta · x)) / beta, a smooth relu, without overflow.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape, any real dtype.
    beta : float, optional
        The sharpness; the larger, the closer to relu. By default 1.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.softplus(calor.asarray(1000.0)).item()
    1000.0
    """
    made: Tensor = c.softplus(floating(prepared(c.softplus, x), "softplus"), beta=float(beta))
    return made


def softmax(x: Operand, /, axis: int = -1) -> Tensor:
    """Return exp(x) divided by its sum along an axis, without overflow.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis, any real dtype.
    axis : int, optional
        The axis along which the results add up to 1. By default the last.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. NaN where a whole slice is
        −inf, which has no distribution (attention gives 0 there).

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.softmax(calor.asarray([1000.0, 1000.0])).tolist()
    [0.5, 0.5]
    """
    x = floating(prepared(c.softmax, x), "softmax")
    axis = one_axis(axis, x.shape, "softmax")
    made: Tensor = c.softmax(x, axis=axis) if x.shape[axis] else x.copy()
    return made


def log_softmax(x: Operand, /, axis: int = -1) -> Tensor:
    """Return log(softmax(x)) along an axis, accurate where the softmax is near 0.

    Parameters
    ----------
    x : Tensor, ndarray or number
        At least one axis, any real dtype.
    axis : int, optional
        The axis of the softmax. By default the last.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32.

    Raises
    ------
    AxisError
        If ``axis`` does not fit the shape of ``x``.
    DTypeError
        If ``x`` is complex or float8.

    Notes
    -----
    The logarithm is of a sum in which the largest element counts as 1. So where the softmax is near
    1, the error is a rounding of that 1, as in PyTorch: in float32 a class that all others together
    reach by less than 6e-8 has 0.

    Examples
    --------
    >>> import calor
    >>> calor.log_softmax(calor.asarray([0.0, 1000.0])).tolist()
    [-1000.0, 0.0]
    """
    x = floating(prepared(c.log_softmax, x), "log_softmax")
    axis = one_axis(axis, x.shape, "log_softmax")
    made: Tensor = c.log_softmax(x, axis=axis) if x.shape[axis] else x.copy()
    return made
