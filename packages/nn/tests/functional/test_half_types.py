"""Slopes of functions made of several operations, in half types: computed wide, rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor
from calor.nn import functional as f

NAMES = ("elu", "celu", "selu", "softplus", "log_sigmoid", "mish", "hard_swish", "silu", "gelu")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", NAMES)
def test_a_slope_is_rounded_once(name: str, dtype: str) -> None:
    function: Any = getattr(f, name)
    points = calor.asarray(np.linspace(-6.0, 6.0, 193), dtype=dtype)

    def both(x: Any) -> Any:
        return function(x), calor.grad(lambda x: function(x).sum())(x)

    for got, exact in zip(both(points), both(points.astype("float64")), strict=True):
        assert got.dtype.name == dtype
        info = calor.finfo(dtype)
        error = np.abs(got.astype("float64").numpy() - exact.numpy())
        # Half a unit of rounding, and what float32 loses where terms cancel.
        limit = 0.51 * info.eps * np.abs(exact.numpy()) + float(info.smallest_normal) * info.eps
        assert (error <= limit + 4e-7).all()
