"""Dropout: elements or channels set to 0 at random in training; and random categories.

Random numbers come from the global generator, or from ``key``; the same on every device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calor import random
from calor.errors import ArgumentError, ShapeError
from calor.functions.activation import floating, softmax
from calor.functions.half_types import in_float32
from calor.functions.manipulation import expand_dims, reshape
from calor.functions.operands import pair, select
from calor.functions.ranges import arange
from calor.functions.searching import argmax
from calor.ops import elementwise as e

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor


def dropout(
    x: Operand, /, p: float = 0.5, *, training: bool = True, key: Tensor | None = None
) -> Tensor:
    """Return x with elements set to 0 at random, the others divided by 1 − p.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; real. Integers are converted to float32.
    p : float
        Probability with which an element is set to 0, in [0, 1].
    training : bool
        Drop elements; otherwise the result is a copy of `x`.
    key : Tensor, optional
        The key to draw with (`calor.random.key`); the global generator if left out.

    Returns
    -------
    Tensor
        The shape and dtype of `x`.

    Raises
    ------
    ArgumentError
        If `p` is outside [0, 1].
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.

    References
    ----------
    Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", 2014.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> x = functional.dropout(calor.ones(1000), 0.5, key=calor.random.key(0))
    >>> sorted(set(x.tolist())), 400 < calor.count_nonzero(x).item() < 600
    ([0.0, 2.0], True)
    """
    x = floating(x, "dropout")
    return _dropped(x, x.shape, p, training, key, "dropout")


def channel_dropout(
    x: Operand, /, p: float = 0.5, *, training: bool = True, key: Tensor | None = None
) -> Tensor:
    """Return x with whole channels set to 0 at random, the others divided by 1 − p.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, *S); real. Integers are converted to float32.
    p : float
        Probability with which a channel is set to 0, in [0, 1].
    training : bool
        Drop channels; otherwise the result is a copy of `x`.
    key : Tensor, optional
        The key to draw with (`calor.random.key`); the global generator if left out.

    Returns
    -------
    Tensor
        The shape and dtype of `x`.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes.
    ArgumentError
        If `p` is outside [0, 1].
    DTypeError
        If `x` is complex or float8, or not a tensor, array or number.

    References
    ----------
    Tompson et al., "Efficient Object Localization Using Convolutional Networks", 2015.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> x = functional.channel_dropout(calor.ones((2, 8, 5)), key=calor.random.key(0))
    >>> {len(set(channel)) for image in x.tolist() for channel in image}
    {1}
    """
    x = floating(x, "channel_dropout")
    if x.ndim < 2:
        raise ShapeError(f"channel_dropout: shape {x.shape} must be (N, C, *S)")
    return _dropped(x, (*x.shape[:2], *(1,) * (x.ndim - 2)), p, training, key, "channel_dropout")


def _dropped(
    x: Tensor, shape: tuple[int, ...], p: float, training: bool, key: Any, what: str
) -> Tensor:
    if not 0 <= p <= 1:
        raise ArgumentError(f"{what}: p {p} must be within [0, 1]")
    if not training or p == 0:
        return x.copy()
    kept = random.bernoulli(shape, 1.0 - p, key=key, device=x.device)
    # At p = 1 nothing is kept, so the factor does not matter and must not be infinite.
    scaled = pair(e.mul, x, 1.0 / (1.0 - p) if p < 1 else 0.0)
    return select(kept, scaled, 0.0)


def alpha_dropout(
    x: Operand, /, p: float = 0.5, *, training: bool = False, key: Tensor | None = None
) -> Tensor:
    """Return x with elements set to the lower end of SELU at random, of the same mean and variance.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; real. Integers are converted to float32.
    p : float
        Probability with which an element is set, in [0, 1].
    training : bool
        Drop elements; otherwise the result is a copy of `x`.
    key : Tensor, optional
        The key to draw with (`calor.random.key`); the global generator if left out.

    Returns
    -------
    Tensor
        The shape and dtype of `x`.

    Raises
    ------
    ArgumentError
        If `p` is outside [0, 1].
    DTypeError
        If `x` is complex or float8.

    References
    ----------
    Klambauer et al., "Self-Normalizing Neural Networks", 2017.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.alpha_dropout(calor.ones(2)).tolist()
    [1.0, 1.0]
    """
    x = floating(x, "alpha_dropout")
    return _set_to_end(x, x.shape, p, training, key, "alpha_dropout")


def feature_alpha_dropout(
    x: Operand, /, p: float = 0.5, *, training: bool = False, key: Tensor | None = None
) -> Tensor:
    """Return x with whole channels set to the lower end of SELU at random.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, *S); real. Integers are converted to float32.
    p : float
        Probability with which a channel is set, in [0, 1].
    training : bool
        Drop channels; otherwise the result is a copy of `x`.
    key : Tensor, optional
        The key to draw with (`calor.random.key`); the global generator if left out.

    Returns
    -------
    Tensor
        The shape and dtype of `x`.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes.
    ArgumentError
        If `p` is outside [0, 1].
    DTypeError
        If `x` is complex or float8.

    References
    ----------
    Klambauer et al., "Self-Normalizing Neural Networks", 2017.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.feature_alpha_dropout(calor.ones((1, 2))).tolist()
    [[1.0, 1.0]]
    """
    what = "feature_alpha_dropout"
    x = floating(x, what)
    if x.ndim < 2:
        raise ShapeError(f"{what}: shape {x.shape} must be (N, C, *S)")
    return _set_to_end(x, (*x.shape[:2], *(1,) * (x.ndim - 2)), p, training, key, what)


# The limit of SELU at −∞.
_END = -1.7580993408473766


@in_float32(autocast=False)
def _set_to_end(
    x: Tensor, shape: tuple[int, ...], p: float, training: bool, key: Any, what: str
) -> Tensor:
    if not 0 <= p <= 1:
        raise ArgumentError(f"{what}: p {p} must be within [0, 1]")
    if not training or p == 0:
        return x.copy()
    if p == 1:
        return pair(e.mul, x, 0.0)
    kept = random.bernoulli(shape, 1.0 - p, key=key, device=x.device)
    # a · x + b has the mean and the variance that x has.
    scale = ((1 - p) * (1 + p * _END**2)) ** -0.5
    return pair(e.add, pair(e.mul, select(kept, x, _END), scale), -scale * p * _END)


def gumbel_softmax(
    logits: Operand,
    tau: float = 1.0,
    hard: bool = False,
    *,
    axis: int = -1,
    key: Tensor | None = None,
) -> Tensor:
    """Return samples of categories that have a gradient: softmax((logits + noise) / tau).

    Parameters
    ----------
    logits : Tensor, ndarray or number
        Unnormalized log-probabilities, at least one axis; real.
    tau : float
        The temperature, above 0: near 0 samples are nearly one-hot.
    hard : bool
        Return one-hot samples, whose gradient is that of the soft ones.
    axis : int
        The axis of categories.
    key : Tensor, optional
        The key to draw with (`calor.random.key`); the global generator if left out.

    Returns
    -------
    Tensor
        The shape and dtype of `logits`.

    Raises
    ------
    ArgumentError
        If `tau` is not above 0.
    AxisError
        If `logits` has no such axis.
    DTypeError
        If `logits` is complex or float8.

    References
    ----------
    Jang et al., "Categorical Reparameterization with Gumbel-Softmax", 2017.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> y = functional.gumbel_softmax(calor.zeros(4), hard=True, key=calor.random.key(0))
    >>> sorted(y.tolist())
    [0.0, 0.0, 0.0, 1.0]
    """
    logits = floating(logits, "gumbel_softmax")
    if not tau > 0:
        raise ArgumentError(f"gumbel_softmax: tau {tau} must be above 0")
    noise = random.gumbel(logits.shape, key=key, dtype=logits.dtype, device=logits.device)
    soft = softmax(pair(e.div, pair(e.add, logits, noise), tau), axis=axis)
    if not hard:
        return soft
    axis = axis % max(logits.ndim, 1)
    chosen = expand_dims(argmax(soft, axis=axis), axis)
    along = (-1,) + (1,) * (logits.ndim - axis - 1)
    hits = pair(e.equal, reshape(arange(soft.shape[axis], device=soft.device), along), chosen)
    # One-hot values exactly, and the slope of the soft ones.
    straight = pair(e.sub, soft, soft.detach())
    made: Tensor = pair(e.add, e.cast(hits, dtype=soft.dtype), straight)
    return made
