"""Initial values of parameters.

Each function takes a shape and returns a tensor; where fans matter, a shape is that of ``Linear``
and ``Conv2d`` weights, (out, in, \\*kernel). Random ones draw from the global generator, or from
``key``.

>>> from calor import nn
>>> layer = nn.Linear(4, 3)
>>> layer.weight = nn.Parameter(nn.init.orthogonal(layer.weight.shape))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import calor
from calor import Tensor
from calor.errors import ArgumentError, ShapeError

Shape = Sequence[int]
Mode = Literal["fan_in", "fan_out"]


def zeros(shape: Shape, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return zeros.

    >>> from calor import nn
    >>> nn.init.zeros((2,)).tolist()
    [0.0, 0.0]
    """
    return calor.zeros(tuple(shape), dtype=dtype, device=device)


def ones(shape: Shape, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return ones.

    >>> from calor import nn
    >>> nn.init.ones((2,)).tolist()
    [1.0, 1.0]
    """
    return calor.ones(tuple(shape), dtype=dtype, device=device)


def constant(shape: Shape, value: float, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return one number everywhere.

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
    """Return numbers uniform in [low, high).

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
    """Return normal numbers.

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
    """Return normal numbers cut at ``low`` and ``high`` standard deviations from the mean.

    >>> from calor import nn
    >>> bool((abs(nn.init.truncated_normal((100,), std=0.02)) <= 0.04).all())
    True
    """
    return calor.random.truncated_normal(
        tuple(shape), mean, std, low=low, high=high, key=key, dtype=dtype, device=device
    )


_GAINS = {
    "linear": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3.0,
    "relu": math.sqrt(2.0),
    "selu": 0.75,
}


def gain(nonlinearity: str, slope: float = 0.01) -> float:
    """Return the factor that keeps the variance through an activation; ArgumentError if unknown.

    "leaky_relu" takes its negative slope.

    >>> from calor import nn
    >>> round(nn.init.gain("relu"), 4)
    1.4142
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        known = ", ".join(sorted([*_GAINS, "leaky_relu"]))
        raise ArgumentError(f"no gain is known for {nonlinearity!r}; there is one for {known}")
    return _GAINS[nonlinearity]


def fans(shape: Shape) -> tuple[int, int]:
    """Return how many inputs and outputs each output and input of a weight is connected to.

    >>> from calor import nn
    >>> nn.init.fans((8, 3, 5, 5))
    (75, 200)
    """
    if len(shape) < 2:
        raise ShapeError(f"a weight of shape {tuple(shape)} has no fans; it needs 2 axes or more")
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
    """Return uniform numbers of variance gain² · 2 / (inputs + outputs) (Glorot and Bengio, 2010).

    >>> from calor import nn
    >>> nn.init.xavier_uniform((3, 2)).shape
    (3, 2)
    """
    bound = gain * math.sqrt(6.0 / sum(fans(shape)))
    return uniform(shape, -bound, bound, key=key, dtype=dtype, device=device)


def xavier_normal(
    shape: Shape,
    gain: float = 1.0,
    *,
    key: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return normal numbers of variance gain² · 2 / (inputs + outputs) (Glorot and Bengio, 2010).

    >>> from calor import nn
    >>> nn.init.xavier_normal((3, 2)).shape
    (3, 2)
    """
    std = gain * math.sqrt(2.0 / sum(fans(shape)))
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
    """Return uniform numbers of variance gain² / fan (He et al., 2015).

    ``slope`` is the negative slope of a leaky relu.

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
    """Return normal numbers of variance gain² / fan (He et al., 2015).

    >>> from calor import nn
    >>> nn.init.kaiming_normal((3, 2)).shape
    (3, 2)
    """
    std = _kaiming(shape, slope, mode, nonlinearity)
    return normal(shape, 0.0, std, key=key, dtype=dtype, device=device)


def _kaiming(shape: Shape, slope: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ArgumentError(f'mode {mode!r} is neither "fan_in" nor "fan_out"')
    fan = fans(shape)[0 if mode == "fan_in" else 1]
    return gain(nonlinearity, slope) / math.sqrt(max(fan, 1))


def orthogonal(
    shape: Shape,
    gain: float = 1.0,
    *,
    key: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return a matrix whose rows (or columns, where there are more rows) are orthonormal.

    Axes after the first count as one (Saxe et al., 2013). Raises ShapeError below two axes.

    >>> from calor import nn
    >>> w = nn.init.orthogonal((2, 4))
    >>> bool(calor.allclose(w @ w.T, calor.eye(2), atol=1e-5))
    True
    """
    if len(shape) < 2:
        raise ShapeError(f"orthogonal needs 2 axes or more, not {tuple(shape)}")
    rows, columns = shape[0], math.prod(shape[1:])
    tall = (max(rows, columns), min(rows, columns))
    drawn = normal(tall, key=key, dtype=dtype, device=device)
    q, r = calor.linalg.qr(drawn)
    # The signs of r's diagonal make the distribution uniform (Mezzadri, 2007).
    q = q * calor.sign(calor.linalg.diagonal(r))
    return calor.reshape((q.T if rows < columns else q) * gain, tuple(shape))


def dirac(shape: Shape, groups: int = 1, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a convolution weight (O, C / groups, \\*K) that passes its input channels through.

    >>> from calor import nn
    >>> nn.init.dirac((1, 1, 3)).tolist()
    [[[0.0, 1.0, 0.0]]]
    """
    if not 3 <= len(shape) <= 5 or shape[0] % groups:
        raise ShapeError(
            f"dirac needs a shape (O, C, *K) whose outputs divide by {groups} groups, not "
            f"{tuple(shape)}"
        )
    part = shape[0] // groups
    made = zeros(shape, dtype=dtype, device=device)
    centre = tuple(n // 2 for n in shape[2:])
    for group in range(groups):
        for channel in range(min(part, shape[1])):
            made[(group * part + channel, channel, *centre)] = 1.0
    return made


if not TYPE_CHECKING:
    # Hidden from type checkers, for which a module with __getattr__ has every attribute.
    def __getattr__(name: str) -> object:
        from calor_nn.migration import missing

        raise missing(__name__, name)
