"""No function warns, not even at a signaling NaN, which NumPy reports when it is merely cast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from calor.reference import elementwise as e
from calor.reference import reductions as r
from calor.reference.contraction import dot_general
from calor.reference.convolution import conv, conv_input_gradient, conv_weight_gradient
from calor.reference.indexing import scatter_along, scatter_nd
from calor.reference.reductions import cumulative
from calor.reference.sorting import sort
from calor.reference.windows import window_pick, window_reduce, window_reduce_gradient

SIGNALING = {
    np.float16: (np.uint16, 0x7C01),
    ml_dtypes.bfloat16: (np.uint16, 0x7F81),
    ml_dtypes.float8_e5m2: (np.uint8, 0x7D),
    np.float32: (np.uint32, 0x7F800001),
    np.float64: (np.uint64, 0x7FF0000000000001),
}
CONV: dict[str, Any] = {"stride": (1,), "padding": ((1, 1),), "dilation": (1,), "groups": 1}
WINDOW: dict[str, Any] = {
    "window": (2,),
    "stride": (1,),
    "padding": ((1, 0),),
    "dilation": (1,),
}
AT = np.array([[0], [1]])
CALLS: dict[str, Callable[[Any], Any]] = {
    "cast": lambda x: [e.cast(x, dtype=t) for t in (np.int8, np.bool_, np.float16, np.float64)],
    "binary": lambda x: [
        f(x, x)
        for f in (
            e.floor_divide, e.remainder, e.maximum, e.minimum, e.power, e.atan2, e.hypot,
            e.logaddexp, e.copysign, e.nextafter,
        )
    ],
    "unary": lambda x: [
        f(x) for f in (e.sign, e.round_half_even, e.erf, e.erfinv, e.lgamma, e.digamma)
    ],
    "reductions": lambda x: [f(x, axes=(0,)) for f in (r.max, r.min, r.any, r.all)],
    "totals": lambda x: [f(x, axes=(0,), dtype=x.dtype) for f in (r.sum, r.prod)],
    "places": lambda x: [f(x, axis=0) for f in (r.argmax, r.argmin)],
    "scans": lambda x: [
        cumulative(x, kind=k, axis=0, reverse=False) for k in ("sum", "prod", "max", "min")
    ],
    "sort": lambda x: [sort(x, axis=0, descending=d) for d in (False, True)],
    "scatter_nd": lambda x: [
        scatter_nd(x, AT, x[:2], update=u) for u in ("assign", "add", "mul", "max", "min")
    ],
    "scatter_along": lambda x: [
        scatter_along(x, AT[:, 0], x[:2], axis=0, update=u) for u in ("assign", "add", "max")
    ],
    "windows": lambda x: [window_reduce(x, kind=k, **WINDOW) for k in ("max", "min", "sum")],
    "window gradients": lambda x: [
        f(x, x, kind=k, **WINDOW)
        for k in ("max", "sum")
        for f in (window_reduce_gradient, window_pick)
    ],
    "dot": lambda x: dot_general(x, x, contract=((0,), (0,)), batch=((), ())),
    "conv": lambda x: conv(x[None, None], x[None, None, :3], **CONV),
    "conv_weight_gradient": lambda x: conv_weight_gradient(
        x[None, None], x[None, None], weight_shape=(1, 1, 3), **CONV
    ),
    "conv_input_gradient": lambda x: conv_input_gradient(
        x[None, None], x[None, None, :3], input_shape=(1, 1, len(x)), **CONV
    ),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("dtype", SIGNALING)
def test_quiet(call: Callable[[Any], Any], dtype: Any) -> None:
    kind, bits = SIGNALING[dtype]
    x = np.array([1, 2, 0, 0, 3, 100], kind)
    x[2] = bits
    with np.errstate(all="raise"):
        call(x.view(dtype))
