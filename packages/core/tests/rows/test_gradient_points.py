"""Gradients at kinks, ties, zeros and infinities follow the conventions that the rows state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor
from calor.ops.base import find

from .tables.points import POINTS, Point


def _tensor(value: Any, dtype: str) -> Any:
    array = np.asarray(value)
    wanted = dtype if array.dtype.kind in "fc" else array.dtype
    return calor.asarray(array.astype(wanted))


@pytest.mark.parametrize("row", POINTS, ids=lambda p: f"{p.op}-{p.operands[0]}")
def test_gradient_at_a_point(row: Point) -> None:
    tensors = [_tensor(v, row.dtype) for v in row.operands]
    attributes = {
        name.removesuffix("_"): calor.dtypes.as_dtype(v) if name == "dtype_" else v
        for name, v in row.attributes.items()
    }
    y, pull = calor.vjp(lambda *given: find(row.op)(*given, **attributes), *tensors)
    cotangent = np.ones(y.shape) if row.cotangent is None else np.asarray(row.cotangent)
    found = pull(_tensor(cotangent.astype(y.dtype.numpy), y.dtype.name))
    for got, want in zip(found, row.gradients, strict=True):
        if want is None:
            assert got is None or not np.any(got.numpy())
        else:
            np.testing.assert_allclose(got.numpy(), want, rtol=4e-7, atol=1e-300)
