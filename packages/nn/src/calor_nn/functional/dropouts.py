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
    from calor.functions.operands import Operand
    from calor.tensor.tensor import Tensor


def dropout(
    x: Operand, /, p: float = 0.5, *, training: bool = True, key: Tensor | None = None
) -> Tensor:
    """Return x with each element 0 with probability ``p``, the others divided by 1 − p.

    Outside training x itself. Raises ArgumentError for p outside [0, 1]. Source: Srivastava et al.,
    "Dropout", 2014.

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
    """Return x (N, C, \\*S) with whole channels 0 with probability ``p``, the others over 1 − p.

    Source: Tompson et al., "Efficient object localization using convolutional networks", 2015.

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
        raise ArgumentError(f"{what}: p {p} is no probability; it must be within [0, 1]")
    if not training or p == 0:
        return x.copy()
    kept = random.bernoulli(shape, 1.0 - p, key=key, device=x.device)
    # At p = 1 nothing is kept, so the factor does not matter and must not be infinite.
    scaled = pair(e.mul, x, 1.0 / (1.0 - p) if p < 1 else 0.0)
    return select(kept, scaled, 0.0)
