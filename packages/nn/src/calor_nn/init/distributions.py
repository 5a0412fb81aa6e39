"""Initial values that are one number, or drawn from one distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import calor
from calor import Tensor

Shape = Sequence[int]


def zeros(shape: Shape, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return zeros.

    Parameters
    ----------
    shape : sequence of int
        The shape of the result.
    dtype : DType or str, optional
        Its dtype; float32 by default.
    device : Device or str, optional
        Where it lives; the default device if left out.

    Returns
    -------
    Tensor
        Zeros of the shape.

    Examples
    --------
    >>> from calor import nn
    >>> nn.init.zeros((2,)).tolist()
    [0.0, 0.0]
    """
    return calor.zeros(tuple(shape), dtype=dtype, device=device)


def ones(shape: Shape, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return ones.

    Parameters
    ----------
    shape : sequence of int
        The shape of the result.
    dtype : DType or str, optional
        Its dtype; float32 by default.
    device : Device or str, optional
        Where it lives; the default device if left out.

    Returns
    -------
    Tensor
        Ones of the shape.

    Examples
    --------
    >>> from calor import nn
    >>> nn.init.ones((2,)).tolist()
    [1.0, 1.0]
    """
    return calor.ones(tuple(shape), dtype=dtype, device=device)


def constant(shape: Shape, value: float, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return one number everywhere.

    Parameters
    ----------
    shape : sequence of int
        The shape of the result.
    value : float
        The number.
    dtype : DType or str, optional
        Its dtype; float32 by default.
    device : Device or str, optional
        Where it lives; the default device if left out.

    Returns
    -------
    Tensor
        The number in each element.

    Examples
    --------
    >>> from calor import nn
    >>> nn.init.constant((2,), 0.5).tolist()
    [0.5, 0.5]
    """
    known = calor.float32 if dtype is None else dtype
    return calor.full(tuple(shape), value, dtype=known, device=device)


def uniform(
    shape: Shape,
    low: float = 0.0,
    high: float = 1.0,
    *,
    key: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return numbers drawn uniformly from [low, high).

    Parameters
    ----------
    shape : sequence of int
        The shape of the result.
    low : float
        The lower bound, included.
    high : float
        The upper bound, excluded.
    key : Tensor, optional
        The key to draw with (`calor.random.key`); the global generator if left out.
    dtype : DType or str, optional
        Its dtype; float32 by default.
    device : Device or str, optional
        Where it lives; the default device if left out.

    Returns
    -------
    Tensor
        The numbers.

    Examples
    --------
    >>> from calor import nn
    >>> nn.init.uniform((2, 3), -1.0, 1.0).shape
    (2, 3)
    """
    return calor.random.uniform(tuple(shape), low, high, key=key, dtype=dtype, device=device)


def normal(
    shape: Shape,
    mean: float = 0.0,
    std: float = 1.0,
    *,
    key: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return numbers drawn from a normal distribution.

    Parameters
    ----------
    shape : sequence of int
        The shape of the result.
    mean : float
        Their mean.
    std : float
        Their standard deviation.
    key : Tensor, optional
        The key to draw with (`calor.random.key`); the global generator if left out.
    dtype : DType or str, optional
        Its dtype; float32 by default.
    device : Device or str, optional
        Where it lives; the default device if left out.

    Returns
    -------
    Tensor
        The numbers.

    Examples
    --------
    >>> from calor import nn
    >>> nn.init.normal((2, 3), std=0.02).shape
    (2, 3)
    """
    return calor.random.normal(tuple(shape), mean, std, key=key, dtype=dtype, device=device)


def truncated_normal(
    shape: Shape,
    mean: float = 0.0,
    std: float = 1.0,
    *,
    low: float = -2.0,
    high: float = 2.0,
    key: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return numbers drawn from a normal distribution without its tails.

    Parameters
    ----------
    shape : sequence of int
        The shape of the result.
    mean : float
        The mean before truncation.
    std : float
        The standard deviation before truncation.
    low : float
        The lower bound, in standard deviations from the mean.
    high : float
        The upper bound, in standard deviations from the mean.
    key : Tensor, optional
        The key to draw with (`calor.random.key`); the global generator if left out.
    dtype : DType or str, optional
        Its dtype; float32 by default.
    device : Device or str, optional
        Where it lives; the default device if left out.

    Returns
    -------
    Tensor
        The numbers, all of them within the bounds.

    Examples
    --------
    >>> from calor import nn
    >>> bool((abs(nn.init.truncated_normal((100,), std=0.02)) <= 0.04).all())
    True
    """
    return calor.random.truncated_normal(
        tuple(shape), mean, std, low=low, high=high, key=key, dtype=dtype, device=device
    )
