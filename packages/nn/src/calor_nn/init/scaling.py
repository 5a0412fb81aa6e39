"""Initial values whose variance follows from the fans of a weight."""

from __future__ import annotations

import math
from typing import Any, Literal

from calor import Tensor
from calor.errors import ArgumentError, ShapeError
from calor_nn.init.distributions import Shape, normal, uniform

Mode = Literal["fan_in", "fan_out"]
_GAINS = {
    "linear": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3.0,
    "relu": math.sqrt(2.0),
    "selu": 0.75,
}


def gain(nonlinearity: str, slope: float = 0.01) -> float:
    """Return the factor that keeps the variance of activations constant through a nonlinearity.

    Parameters
    ----------
    nonlinearity : str
        "linear", "sigmoid", "tanh", "relu", "leaky_relu" or "selu".
    slope : float
        The negative slope, for "leaky_relu" alone.

    Returns
    -------
    float
        The factor of the weights' standard deviation.

    Raises
    ------
    ArgumentError
        If no factor is known for the nonlinearity.

    References
    ----------
    He et al., "Delving Deep into Rectifiers", 2015.

    Examples
    --------
    >>> from calor import nn
    >>> round(nn.init.gain("relu"), 4)
    1.4142
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        known = ", ".join(sorted([*_GAINS, "leaky_relu"]))
        raise ArgumentError(
            f"nonlinearity {nonlinearity!r} has no known gain; choose one of {known}"
        )
    return _GAINS[nonlinearity]


def fans(shape: Shape) -> tuple[int, int]:
    """Return how many inputs each output of a weight has, and how many outputs each input.

    Parameters
    ----------
    shape : sequence of int
        The shape of a weight: (O, I), or (O, I, *K) with a kernel.

    Returns
    -------
    fan_in : int
        Inputs of an output: I times the elements of the kernel.
    fan_out : int
        Outputs of an input: O times the elements of the kernel.

    Raises
    ------
    ShapeError
        If the shape has fewer than two axes.

    Examples
    --------
    >>> from calor import nn
    >>> nn.init.fans((8, 3, 5, 5))
    (75, 200)
    """
    if len(shape) < 2:
        raise ShapeError(f"a weight of shape {tuple(shape)} has no fans; give 2 axes or more")
    if min(shape) < 0:
        raise ShapeError(f"a weight of shape {tuple(shape)} has a negative size")
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def xavier_uniform(
    shape: Shape,
    gain: float = 1.0,
    *,
    key: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return uniform numbers of variance gain² · 2 / (fan_in + fan_out).

    Parameters
    ----------
    shape : sequence of int
        The shape of a weight: (O, I), or (O, I, *K) with a kernel.
    gain : float
        The factor of the standard deviation; see :func:`gain`.
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

    Raises
    ------
    ShapeError
        If the shape has fewer than two axes.

    References
    ----------
    Glorot and Bengio, "Understanding the Difficulty of Training Deep Feedforward Neural Networks",
    2010.

    Examples
    --------
    >>> from calor import nn
    >>> nn.init.xavier_uniform((3, 2)).shape
    (3, 2)
    """
    bound = gain * math.sqrt(6.0 / max(sum(fans(shape)), 1))
    return uniform(shape, -bound, bound, key=key, dtype=dtype, device=device)


def xavier_normal(
    shape: Shape,
    gain: float = 1.0,
    *,
    key: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return normal numbers of variance gain² · 2 / (fan_in + fan_out).

    Parameters
    ----------
    shape : sequence of int
        The shape of a weight: (O, I), or (O, I, *K) with a kernel.
    gain : float
        The factor of the standard deviation; see :func:`gain`.
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

    Raises
    ------
    ShapeError
        If the shape has fewer than two axes.

    References
    ----------
    Glorot and Bengio, "Understanding the Difficulty of Training Deep Feedforward Neural Networks",
    2010.

    Examples
    --------
    >>> from calor import nn
    >>> nn.init.xavier_normal((3, 2)).shape
    (3, 2)
    """
    std = gain * math.sqrt(2.0 / max(sum(fans(shape)), 1))
    return normal(shape, 0.0, std, key=key, dtype=dtype, device=device)


def kaiming_uniform(
    shape: Shape,
    slope: float = 0.0,
    *,
    mode: Mode = "fan_in",
    nonlinearity: str = "leaky_relu",
    key: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return uniform numbers of variance gain² / fan.

    Parameters
    ----------
    shape : sequence of int
        The shape of a weight: (O, I), or (O, I, *K) with a kernel.
    slope : float
        The negative slope of a leaky ReLU; 0 for a ReLU.
    mode : {"fan_in", "fan_out"}
        Which fan counts: "fan_in" keeps the variance forward, "fan_out" that of gradients.
    nonlinearity : str
        The nonlinearity that follows; see :func:`gain`.
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

    Raises
    ------
    ShapeError
        If the shape has fewer than two axes.
    ArgumentError
        If `mode` or `nonlinearity` is unknown.

    References
    ----------
    He et al., "Delving Deep into Rectifiers", 2015.

    Examples
    --------
    >>> from calor import nn
    >>> nn.init.kaiming_uniform((3, 2)).shape
    (3, 2)
    """
    bound = math.sqrt(3.0) * _kaiming(shape, slope, mode, nonlinearity)
    return uniform(shape, -bound, bound, key=key, dtype=dtype, device=device)


def kaiming_normal(
    shape: Shape,
    slope: float = 0.0,
    *,
    mode: Mode = "fan_in",
    nonlinearity: str = "leaky_relu",
    key: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return normal numbers of variance gain² / fan.

    Parameters
    ----------
    shape : sequence of int
        The shape of a weight: (O, I), or (O, I, *K) with a kernel.
    slope : float
        The negative slope of a leaky ReLU; 0 for a ReLU.
    mode : {"fan_in", "fan_out"}
        Which fan counts: "fan_in" keeps the variance forward, "fan_out" that of gradients.
    nonlinearity : str
        The nonlinearity that follows; see :func:`gain`.
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

    Raises
    ------
    ShapeError
        If the shape has fewer than two axes.
    ArgumentError
        If `mode` or `nonlinearity` is unknown.

    References
    ----------
    He et al., "Delving Deep into Rectifiers", 2015.

    Examples
    --------
    >>> from calor import nn
    >>> nn.init.kaiming_normal((3, 2)).shape
    (3, 2)
    """
    std = _kaiming(shape, slope, mode, nonlinearity)
    return normal(shape, 0.0, std, key=key, dtype=dtype, device=device)


def _kaiming(shape: Shape, slope: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ArgumentError(f'mode must be "fan_in" or "fan_out", not {mode!r}')
    fan = fans(shape)[0 if mode == "fan_in" else 1]
    return gain(nonlinearity, slope) / math.sqrt(max(fan, 1))
