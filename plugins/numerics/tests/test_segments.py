"""Reductions of segments, in any order of their numbers, against a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import ArgumentError, DTypeError, ShapeError

KINDS: dict[str, Callable[..., Any]] = {
    "sum": np.sum, "mean": np.mean, "prod": np.prod, "max": np.max, "min": np.min,
}  # fmt: skip
STARTS = {"sum": 0, "mean": np.nan, "prod": 1, "max": -np.inf, "min": np.inf}
IDS = np.array([2, 0, 2, 4, 0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int16", "complex64"])
def test_segments_are_reduced(kind: str, axis: int, dtype: str) -> None:
    if (dtype == "int16" and kind == "mean") or (dtype == "complex64" and kind in ("max", "min")):
        return
    x = calor.asarray(np.random.default_rng(0).integers(-4, 5, (5, 3, 5)), dtype=dtype)
    f = getattr(calor, f"segment_{kind}")
    found = f(x, calor.asarray(IDS), axis=axis)
    host = x.astype("float32").numpy() if dtype == "bfloat16" else x.numpy()
    empty: Any = STARTS[kind]
    if dtype == "int16" and kind in ("max", "min"):
        empty = np.iinfo(np.int16).min if kind == "max" else np.iinfo(np.int16).max
    parts = [
        KINDS[kind](host.compress(i == IDS, axis), axis)
        if (i == IDS).any()
        else np.full(np.delete(host.shape, axis), empty)
        for i in range(5)
    ]
    wanted = np.stack(parts, axis).astype(host.dtype)
    assert found.dtype is x.dtype
    np.testing.assert_allclose(found.astype(calor.asarray(host).dtype).numpy(), wanted, rtol=1e-2)
    assert f(x, calor.asarray(IDS), 7, axis=axis).shape[axis] == 7


def test_segments_have_gradients_and_are_jitted() -> None:
    x, ids = calor.asarray([1.0, 4.0, 2.0]), calor.asarray([1, 0, 1])
    mean = calor.jit(lambda x: calor.segment_mean(x, ids, 2))
    assert mean(x).tolist() == [4.0, 1.5]
    assert calor.grad(lambda x: mean(x).sum())(x).tolist() == [0.5, 1.0, 0.5]
    assert calor.grad(lambda x: calor.segment_max(x, ids, 2).sum())(x).tolist() == [0.0, 1.0, 1.0]


def test_no_slices_and_no_segments() -> None:
    none = calor.asarray(np.zeros(0, np.int64))
    assert calor.segment_sum(calor.zeros((0, 2)), none).shape == (0, 2)
    assert calor.segment_sum(calor.zeros((0, 2)), none, 3).tolist() == [[0.0, 0.0]] * 3


REFUSED = [
    (lambda: calor.segment_sum(calor.ones(3), calor.ones(3)), DTypeError, "integers"),
    (lambda: calor.segment_sum(calor.ones(3), calor.asarray([0])), ShapeError, "its 3 places"),
    (lambda: calor.segment_sum(calor.ones(1), calor.asarray([0]), -1), ArgumentError, "at least 0"),
    (lambda: calor.segment_mean(calor.asarray([1]), calor.asarray([0])), DTypeError, "cast it"),
]


@pytest.mark.parametrize(("call", "kind", "match"), REFUSED, ids=[m for *_, m in REFUSED])
def test_wrong_operands_are_refused(call: Callable[[], Any], kind: Any, match: str) -> None:
    with pytest.raises(kind, match=match):
        call()
