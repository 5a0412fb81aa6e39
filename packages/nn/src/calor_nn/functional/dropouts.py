"""Dropout: elements or channels set to 0 at random in training.

Random numbers come from the global generator, or from ``key``; the same on every device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calor import random
from calor.errors import ArgumentError, ShapeError
from calor.functions.activation import floating
from calor.functions.operands import pair, select
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
