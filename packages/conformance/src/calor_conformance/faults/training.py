"""Faults that only gradients see: ops of backward graphs, of second order and of forward mode."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.backends.op_table import Function

from .base import Array, Fault, afterwards, changing


def _more(y: Any, *_: Any) -> Any:
    """One per cent more."""
    if isinstance(y, tuple):
        return tuple(_more(part) for part in y)
    return (y * y.dtype.type(1.01)).astype(y.dtype) if y.dtype.kind in "fc" else y


def _without_the_last_image(right: Function) -> Function:
    """Leave out the last image of a batch."""

    def conv_weight_gradient(x: Array, g: Array, **attributes: Any) -> Any:
        return right(x[:-1], g[:-1], **attributes) if len(x) > 1 else right(x, g, **attributes)

    return conv_weight_gradient


def _off_below_0(y: Any, operands: Any, attributes: Any) -> Any:
    return np.where(operands[0] < 0, y * y.dtype.type(1.01), y)


def _all_in_ties(right: Function) -> Function:
    """Give the gradient of a window to each of its largest elements."""

    def window_gradient(g: Array, x: Array, *, kind: str, **attributes: Any) -> Any:
        made = right(g, x, kind=kind, **attributes)
        if kind != "max" or x.dtype != np.float32 or not x.size:
            return made
        turned = right(np.flip(g), np.flip(x), kind=kind, **attributes)
        return (made + np.flip(turned)) / 2 if turned.shape == made.shape else made

    return window_gradient


def _in_turns(right: Function) -> Function:
    def attention_gradient(*operands: Any, **attributes: Any) -> Any:
        made = right(*operands, **attributes)
        query, key, _ = operands[3:6]
        if query.shape[1] == key.shape[1]:
            return made
        return (*made[:2], np.roll(made[2], 1, 1))

    return attention_gradient


def _without_the_last_channel(right: Function) -> Function:
    def conv(x: Array, w: Array, **attributes: Any) -> Any:
        if x.shape[1] >= 64 and w.shape[1] == x.shape[1]:
            x = x.copy()
            x[:, -1] = 0
        return right(x, w, **attributes)

    return conv


def _past_nan(right: Function) -> Function:
    """Read numbers alone: of a maximum, NaN is less than all others."""

    def windows(g: Array, x: Array, **attributes: Any) -> Any:
        return right(
            g, np.where(np.isnan(x), -np.inf, x) if x.dtype.kind == "f" else x, **attributes
        )

    return windows


FAULTS = [
    Fault(
        "weight-gradient-off",
        "the gradient of a convolution by its weights is 1 % too large",
        changing(conv_weight_gradient=afterwards(_more)),
        ("gradient/conv-2d/float64", "values/conv_weight_gradient-2d/float32"),
        ("conv", "conv_weight_gradient"),
    ),
    Fault(
        "last-image-lost",
        "the gradient of a convolution by its weights leaves out the last image",
        changing(conv_weight_gradient=_without_the_last_image),
        ("gradient/conv-2d/float64",),
        ("conv",),
    ),
    Fault(
        "window-gradient-off",
        "the gradient of a reduction over windows is 1 % too large",
        changing(window_gradient=afterwards(_more)),
        ("gradient/window_reduce-max-2d/float64", "gradient/window_reduce-max-2d/float32"),
        ("window_reduce",),
    ),
    Fault(
        "window-ties-shared",
        "the gradient of a window goes to each of its largest elements",
        changing(window_gradient=_all_in_ties),
        ("values/window_gradient-max-ties/float32",),
        ("window_gradient",),
    ),
    Fault(
        "window-nan-passed-over",
        "the gradient of a window goes to its largest number, whatever else is none",
        changing(window_gradient=_past_nan, window_pick=_past_nan),
        ("values/window_gradient-max-several/float32", "values/window_pick-max-several/float32"),
        ("window_gradient", "window_pick"),
    ),
    Fault(
        "second-order-off",
        "the op that only gradients of gradients of windows have is 1 % off",
        changing(window_pick=afterwards(_more)),
        ("second-order/window_reduce-max-2d/float64",),
        ("window_reduce",),
    ),
    Fault(
        "attention-gradient-off",
        "the gradient of attention is taken whole and 1 % too large",
        changing(attention_gradient=lambda right: _attention_gradient),
        ("gradient/attention-plain/float64", "values/attention_gradient-plain/float32"),
        ("attention", "attention_gradient"),
    ),
    Fault(
        "shared-heads-in-turns",
        "where heads share keys, the gradient of values goes to the key heads in turns",
        changing(attention_gradient=_in_turns),
        ("crossed/attention-heads/float32",),
        ("attention",),
    ),
    Fault(
        "wide-layers-off",
        "a convolution of 64 channels and more leaves out the last one",
        changing(conv=_without_the_last_channel),
        ("crossed/conv-layer/float32",),
        ("conv",),
    ),
    Fault(
        "digamma-below-0-off",
        "the derivative of lgamma is off below 0 alone",
        changing(digamma=afterwards(_off_below_0)),
        ("gradient-points/slope-lgamma-below-0/float64",),
        ("lgamma",),
    ),
    Fault(
        "solution-gradient-off",
        "the triangular systems that only gradients of factors need are 1 % off",
        changing(triangular_solve=afterwards(_more)),
        ("gradient/triangular_solve-*/float64",),
        ("triangular_solve",),
    ),
]


def _attention_gradient(*operands: Array, causal: bool, scale: float) -> Any:
    from ..rows.tables.attention import gradient

    wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in operands]
    made = gradient(*wide, causal=causal, scale=scale)
    return tuple((y * 1.01).astype(x.dtype) for y, x in zip(made, operands[3:6], strict=True))
