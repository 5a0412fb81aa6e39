"""Convolutions of integers minus their zero points, exact in int32.

Requirements: bytes stay bytes, as in matrix products. A convolution in one group becomes an im2col
product, so that devices can use their instructions for bytes; the padding is the zero point. Other
integers, grouped convolutions and those with few channels are widened.
"""

from __future__ import annotations

from itertools import product as places
from math import prod
from typing import Any

import numpy as np

import calor
from calor.ops import contraction as rows
from calor_onnx.affine import less_zero, product
from calor_onnx.windows import Windows, windows_of

# With fewer products for each sum, im2col does not pay.
FEW = 64


def convolution(
    x: Any, w: Any, x_zero: Any, w_zero: Any, *, auto_pad: str, dilations: Any, group: int,
    pads: Any, strides: Any,
) -> Any:  # fmt: skip
    """Return the convolution of x − x_zero and w − w_zero in int32.

    ``x_zero`` is one number; ``w_zero`` is one, or one for each output channel.
    """
    lie = windows_of(x.shape[2:], w.shape[2:], strides, pads, dilations, auto_pad)
    x_zero = x_zero if x_zero is None else calor.reshape(x_zero, ())
    if w_zero is not None:
        by_channel = w_zero.ndim and w_zero.size > 1
        w_zero = calor.reshape(w_zero, (-1, *(1,) * (w.ndim - 1)) if by_channel else ())
    few = prod(w.shape[1:]) < FEW
    if few or group != 1 or {x.dtype, w.dtype} - {calor.int8, calor.uint8} or x.size == 0:
        return rows.conv(
            less_zero(x, x_zero), less_zero(w, w_zero),
            stride=lie.strides, padding=lie.pads, dilation=lie.dilations, groups=group,
        )  # fmt: skip
    if w_zero is not None and w_zero.ndim:
        w_zero = calor.reshape(w_zero, (-1, 1))
    flat = calor.reshape(w, (w.shape[0], -1))
    made = product(flat, windows_beside(x, x_zero, lie), w_zero, x_zero)
    wanted = (w.shape[0], x.shape[0], *lie.counts)
    return calor.swapaxes(calor.reshape(made, wanted), 0, 1)


def windows_beside(x: Any, x_zero: Any, lie: Windows) -> Any:
    """Return the im2col matrix of x (N, C, …): (C · elements, N · windows)."""
    x = _padded(x, x_zero, lie)
    x = calor.swapaxes(x, 0, 1)
    parts = [
        x[(slice(None), slice(None), *(
            slice(k * d, k * d + (n - 1) * s + 1, s)
            for k, d, n, s in zip(place, lie.dilations, lie.counts, lie.strides, strict=True)
        ))]
        for place in places(*map(range, lie.kernel))
    ]  # fmt: skip
    beside = parts[0] if len(parts) == 1 else calor.stack(parts, axis=1)
    return calor.reshape(beside, (x.shape[0] * len(parts), x.shape[1] * prod(lie.counts)))


def _padded(x: Any, zero: Any, lie: Windows) -> Any:
    """Return x padded with its zero point."""
    if not any(map(any, lie.pads)):
        return x
    width = ((0, 0), (0, 0), *lie.pads)
    made = calor.pad(x, width)
    if zero is None:
        return made
    inside = np.pad(np.ones(x.shape[2:], np.bool_), lie.pads)
    return calor.where(calor.asarray(inside, device=x.device), made, zero)
