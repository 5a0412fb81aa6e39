"""Faults where options of layers meet: uneven paddings, ends of windows, masks and order."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.backends.op_table import Function

from .base import Array, Fault, changing


def _swapped(right: Function) -> Function:
    """Pad after an axis what belongs before it."""

    def conv(x: Array, w: Array, *, padding: Any, **options: Any) -> Any:
        return right(x, w, padding=tuple((b, a) for a, b in padding), **options)

    return conv


def _cut_short(right: Function) -> Function:
    """Leave the padding of an end out where there is none before the axis."""

    def window_reduce(x: Array, *, padding: Any, kind: str, **options: Any) -> Any:
        made = right(x, padding=padding, kind=kind, **options)
        past = [n for n, (a, b) in enumerate(padding) if b > a]
        if kind != "max" or not past or not made.size or x.dtype != np.float32:
            return made
        axis = past[0] - len(padding) + made.ndim
        last = np.arange(made.shape[axis]) == made.shape[axis] - 1
        spread = [-1 if n == axis else 1 for n in range(made.ndim)]
        return np.where(last.reshape(spread), np.float32(0), made)

    return window_reduce


def _order_alone(right: Function) -> Function:
    """Hide later keys, and forget the mask."""

    def attention(q: Array, k: Array, v: Array, *extras: Array, causal: bool, scale: float,
                  **options: Any) -> Any:  # fmt: skip
        from ..rows.tables.attention import attention as attended

        kept = [x for x in extras if not causal or x.dtype != np.bool_]
        wide = (x.astype(np.float64) for x in (q, k, v))
        made, total = attended(*wide, *kept, causal=causal, scale=scale)
        return made.astype(q.dtype), total.astype(np.float32)

    return attention


FAULTS = [
    Fault(
        "uneven-padding-swapped",
        "convolutions pad after an axis what belongs before it, as for even windows",
        changing(conv=_swapped),
        ("functions/paired-options-convolution",),
        ("conv",),
    ),
    Fault(
        "last-windows-lost",
        "the largest of a last window that ends past the axis is 0",
        changing(window_reduce=_cut_short),
        ("functions/paired-options-pooling",),
        ("window_reduce",),
    ),
    Fault(
        "order-without-mask",
        "attention in causal order forgets its mask",
        changing(attention=_order_alone),
        ("functions/paired-options-attention",),
        ("attention",),
    ),
]
