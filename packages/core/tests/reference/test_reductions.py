"""Reductions, scans and sorts in every dtype."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from calor.reference import reductions as r
from calor.reference.reductions import cumulative
from calor.reference.sorting import sort

BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
FLOATS = [np.float16, BF16, np.float32, np.float64, E4M3, E5M2]
COMPLEX = [np.complex64, np.complex128]
AXES: list[tuple[int, ...]] = [(), (0,), (1,), (0, 2), (0, 1, 2)]
INF, NAN = math.inf, math.nan


def whole(shape: tuple[int, ...], dtype: Any, low: int = 0, high: int = 3) -> Any:
    """Return small whole numbers."""
    return np.random.default_rng(0).integers(low, high, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, *COMPLEX])
@pytest.mark.parametrize("axes", AXES)
def test_sum_and_prod(dtype: Any, axes: tuple[int, ...]) -> None:
    x = whole((2, 3, 2), dtype)
    wide = x.astype(np.complex128 if np.dtype(dtype).kind == "c" else np.float64)
    for function, other in ((r.sum, np.sum), (r.prod, np.prod)):
        got = function(x, axes=axes, dtype=dtype)
        assert got.dtype == dtype
        assert type(got) is np.ndarray
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(got, other(wide, axis=axes).astype(dtype))


def test_sums_wrap_in_the_given_dtype() -> None:
    x = np.full(3, 100, np.int8)
    assert r.sum(x, axes=(0,), dtype=np.int8).tolist() == 300 - 256
    assert r.sum(x, axes=(0,), dtype=np.int64).tolist() == 300
    assert r.prod(x, axes=(0,), dtype=np.uint16).tolist() == 10**6 % 2**16
    assert r.sum(np.array([True, True]), axes=(0,), dtype=np.int64).tolist() == 2
    assert r.sum(x, axes=(0,), dtype=np.float32).tolist() == 300.0


@pytest.mark.parametrize("dtype", [np.float16, BF16])
def test_half_types_round_once(dtype: Any) -> None:
    x = np.full(257, 2.0**-12, dtype)
    x[0] = 1
    assert float(r.sum(x, axes=(0,), dtype=dtype)) == 1.0625
    assert float(cumulative(x, kind="sum", axis=0, reverse=False)[-1]) == 1.0625
    assert r.sum(x, axes=(0,), dtype=np.float64) == 1.0625
    # 1e4 · 1e4 is beyond float16 and within float32.
    y = np.array([1e4, 1e4, 1e-4, 1e-4]).astype(dtype)
    assert abs(float(r.prod(y, axes=(0,), dtype=dtype)) - 1) < 0.02


def test_float64_to_a_narrow_dtype_rounds_once() -> None:
    x = np.array([1.0, 2.0**-8, 2.0**-30])
    assert float(r.sum(x, axes=(0,), dtype=BF16)) == 1.0078125


def test_empty_reductions() -> None:
    x = np.zeros((2, 0, 3), np.float32)
    assert r.sum(x, axes=(1,), dtype=np.float32).tolist() == [[0.0] * 3] * 2
    assert r.prod(x, axes=(1, 2), dtype=np.float32).tolist() == [1.0] * 2
    assert r.any(x, axes=(1,)).tolist() == [[False] * 3] * 2
    assert r.all(x, axes=(1,)).tolist() == [[True] * 3] * 2
    assert r.max(x, axes=(2,)).shape == (2, 0)
    assert r.argmin(x, axis=2).shape == (2, 0)
    for function in (r.max, r.min):
        with pytest.raises(ValueError, match=r"float32\[2, 0, 3\] has no m.* axis 1 is empty"):
            function(x, axes=(0, 1))
    for place in (r.argmax, r.argmin):
        with pytest.raises(ValueError, match="axis 1 is empty"):
            place(x, axis=1)


@pytest.mark.parametrize("dtype", [np.bool_, *INTEGERS, *FLOATS])
@pytest.mark.parametrize("axes", AXES)
def test_extremes(dtype: Any, axes: tuple[int, ...]) -> None:
    x = whole((2, 3, 2), dtype)
    wide = x.astype(np.float64)
    for function, other in ((r.max, np.max), (r.min, np.min)):
        got = function(x, axes=axes)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got.astype(np.float64), other(wide, axis=axes))
    for at in axes:
        first, last = r.argmax(x, axis=at), r.argmin(x, axis=at)
        assert first.dtype == last.dtype == np.int64
        np.testing.assert_array_equal(first, np.argmax(wide, at))
        np.testing.assert_array_equal(last, np.argmin(wide, at))


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_wins(dtype: Any) -> None:
    x = np.array([[1, NAN, 3, NAN], [4, 4, 2, 2]]).astype(dtype)
    for extreme in (r.max, r.min):
        got = extreme(x, axes=(1,)).astype(float)
        assert np.isnan(got[0])
        assert got[1] in (2, 4)
    assert r.argmax(x, axis=1).tolist() == [1, 0]
    assert r.argmin(x, axis=1).tolist() == [1, 2]
    for kind in ("max", "min"):
        got = cumulative(x, kind=kind, axis=1, reverse=False).astype(float)
        assert np.isnan(got[0]).tolist() == [False, True, True, True]
        got = cumulative(x, kind=kind, axis=1, reverse=True).astype(float)
        assert np.isnan(got[0]).tolist() == [True] * 4


@pytest.mark.parametrize("dtype", [np.bool_, *INTEGERS, *FLOATS, *COMPLEX])
def test_truth(dtype: Any) -> None:
    x = np.array([[0, 0], [0, 1], [1, 1]]).astype(dtype)
    assert r.any(x, axes=(1,)).tolist() == [False, True, True]
    assert r.all(x, axes=(1,)).tolist() == [False, False, True]
    assert r.any(x, axes=(0, 1)).tolist() is True
    assert r.all(x, axes=()).tolist() == (x != 0).tolist()
    if np.dtype(dtype) in [np.dtype(t) for t in FLOATS]:
        nan = np.array([NAN, -0.0]).astype(dtype)
        assert r.any(nan, axes=(0,)).tolist() is True
        assert r.all(nan, axes=(0,)).tolist() is False


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, *COMPLEX])
@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(dtype: Any, kind: str, reverse: bool) -> None:
    if np.dtype(dtype).kind == "c" and kind in ("max", "min"):
        return
    x = whole((2, 4, 3), dtype)
    step = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[kind]
    wide = x.astype(np.complex128 if np.dtype(dtype).kind == "c" else np.float64)
    for axis in range(3):
        rows = np.moveaxis(wide, axis, 0).copy()
        order = range(len(rows) - 2, -1, -1) if reverse else range(1, len(rows))
        for i in order:
            rows[i] = step(rows[i], rows[i + 1 if reverse else i - 1])
        got = cumulative(x, kind=kind, axis=axis, reverse=reverse)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, np.moveaxis(rows, 0, axis).astype(dtype))


def test_scans_wrap_and_take_empties() -> None:
    x = np.full(3, 100, np.int8)
    got = cumulative(x, kind="sum", axis=0, reverse=False)
    assert got.tolist() == [100, -56, 44]
    assert cumulative(np.zeros((0, 2)), kind="max", axis=0, reverse=True).shape == (0, 2)


def order_of(value: Any) -> Any:
    """Return a key that sorts NaN last."""
    value = complex(value)
    return (value != value, 0.0 if value.real != value.real else value.real, value.imag)


@pytest.mark.parametrize("dtype", [np.bool_, *INTEGERS, *FLOATS, *COMPLEX])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable(dtype: Any, descending: bool) -> None:
    x = whole((3, 40), dtype, 0, 2 if dtype is np.bool_ else 6)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * whole((40, 3), dtype).T
    for axis, array in ((1, x), (0, x.T)):
        values, places = sort(array, axis=axis, descending=descending)
        assert values.dtype == dtype
        assert places.dtype == np.int64
        lines = array if axis == 1 else array.T
        for line, at in zip(lines, places if axis == 1 else places.T, strict=True):
            keys = [order_of(v) for v in line.tolist()]
            turned = [(-k[1], -k[2]) if descending else k[1:] for k in keys]
            expected = sorted(range(len(keys)), key=turned.__getitem__)
            assert at.tolist() == expected
        np.testing.assert_array_equal(values, np.take_along_axis(array, places, axis))


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32, np.float64, E5M2])
def test_sort_places_nan_last_and_zeros_as_equals(dtype: Any) -> None:
    x = np.array([NAN, 1, -0.0, INF, 0.0, NAN, -0.0, -INF]).astype(dtype)
    assert sort(x, axis=0, descending=False)[1].tolist() == [7, 2, 4, 6, 1, 3, 0, 5]
    assert sort(x, axis=0, descending=True)[1].tolist() == [3, 1, 2, 4, 6, 7, 0, 5]


def test_sort_edges() -> None:
    lowest = np.array([-128, 127, 0, -128], np.int8)
    assert sort(lowest, axis=0, descending=True, stable=False)[1].tolist() == [1, 2, 0, 3]
    largest = np.array([0, 2**64 - 1, 2**63], np.uint64)
    assert sort(largest, axis=0, descending=True)[1].tolist() == [1, 2, 0]
    values, places = sort(np.zeros((2, 0)), axis=1, descending=True)
    assert values.shape == places.shape == (2, 0)
    x = np.array([complex(NAN, 1), 2 + 1j, complex(1, NAN), 2 - 1j])
    assert sort(x, axis=0, descending=False)[1].tolist()[:2] == [3, 1]
    assert sort(x, axis=0, descending=True)[1].tolist()[:2] == [1, 3]


@pytest.mark.parametrize("shape", [(200, 3), (1000, 5), (1024, 2), (40_001, 2), (2, 999, 3)])
@pytest.mark.parametrize("kind", [np.float32, np.complex64])
def test_sums_along_the_first_axes_lose_few_units(shape: tuple[int, ...], kind: type) -> None:
    axis = len(shape) - 2
    x = np.full(shape, 0.1, kind)
    got = r.sum(x, axes=(axis,), dtype=kind)
    due = shape[axis] * float(np.float32(0.1))
    assert got.dtype == kind
    assert got.shape == (*shape[:axis], shape[-1])
    assert np.abs(got / due - 1).max() < 32 * 2.0**-24


@pytest.mark.parametrize("kind", ["sum", "prod"])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("axis", [0, 1])
def test_long_running_sums_and_products_are_rounded_once(kind: str, dtype: Any, axis: int) -> None:
    x = np.random.default_rng(1).random((17_000, 2) if axis == 0 else (2, 17_000))
    x = (1 + x / 1000 if kind == "prod" else x).astype(dtype)
    exact = getattr(np, f"cum{kind}")(x.astype(np.complex128), axis).real
    got = cumulative(x, kind=kind, axis=axis, reverse=False)
    assert got.dtype == dtype
    units = np.abs(got.real - exact) / np.spacing(exact.astype(np.float32))
    assert units.max() <= 0.501
