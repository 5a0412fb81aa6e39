"""Dropout layers."""

from __future__ import annotations

from typing import ClassVar

from calor import Tensor
from calor.errors import ArgumentError, ShapeError
from calor_nn import functional
from calor_nn.module import Module


class Dropout(Module):
    """In training each element is 0 with probability ``p``, the others divided by 1 − p.

    Draws from the global generator (``calor.random.seed``); see :func:`functional.dropout`.

    >>> import calor
    >>> from calor import nn
    >>> nn.Dropout(0.5).eval()(calor.ones(2)).tolist()
    [1.0, 1.0]
    """

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p <= 1:
            raise ArgumentError(f"{type(self).__name__}: p {p} must be within [0, 1]")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x."""
        return functional.dropout(x, self.p, training=self.training)

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"p={self.p}"


class _ChannelDropout(Dropout):
    rank: ClassVar[int]

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x (N, C, *S)."""
        if x.ndim != self.rank + 2:
            raise ShapeError(
                f"{type(self).__name__} takes batch, channels and {self.rank} spatial axes, not "
                f"shape {x.shape}"
            )
        return functional.channel_dropout(x, self.p, training=self.training)


class Dropout1d(_ChannelDropout):
    """In training each channel of (N, C, L) is 0 with probability ``p``."""

    rank = 1


class Dropout2d(_ChannelDropout):
    """In training each channel of (N, C, H, W) is 0 with probability ``p``."""

    rank = 2


class Dropout3d(_ChannelDropout):
    """In training each channel of (N, C, D, H, W) is 0 with probability ``p``."""

    rank = 3
