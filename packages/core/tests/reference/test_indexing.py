"""Gathers, scatters and slices at computed places."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from calor.reference.indexing import (
    dynamic_slice,
    dynamic_update_slice,
    gather,
    gather_nd,
    scatter_along,
    scatter_nd,
    take_along,
)

DTYPES = [
    np.bool_, np.int8, np.uint64, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2, np.float32, np.float64, np.complex64,
]  # fmt: skip
UPDATES = ["assign", "add", "mul", "max", "min"]


def whole(shape: tuple[int, ...], seed: int = 0, dtype: Any = np.float32) -> Any:
    """Return small whole numbers."""
    return np.random.default_rng(seed).integers(0, 4, shape).astype(dtype)


def join(update: str, old: Any, new: Any) -> Any:
    """Return one update."""
    if update in ("max", "min") and (old != old or new != new):
        return np.nan
    return {
        "assign": lambda: new,
        "add": lambda: old + new,
        "mul": lambda: old * new,
        "max": lambda: max(old, new),
        "min": lambda: min(old, new),
    }[update]()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint8, np.uint64])
def test_gather(dtype: Any, kind: Any) -> None:
    x = whole((3, 4, 2), dtype=dtype)
    for indices in (np.array(2), np.array([3, 0]), np.array([[0, 1], [1, 3]]), np.zeros((0, 2))):
        for axis in range(3):
            places = (indices % x.shape[axis]).astype(kind)
            got = gather(x, places, axis=axis)
            assert got.dtype == dtype
            assert got.shape == x.shape[:axis] + indices.shape + x.shape[axis + 1 :]
            rows = np.moveaxis(x, axis, 0)
            expected = np.array([rows[i] for i in places.ravel()], dtype)
            expected = expected.reshape(*indices.shape, *rows.shape[1:])
            source = tuple(range(indices.ndim))
            expected = np.moveaxis(expected, source, tuple(axis + i for i in source))
            np.testing.assert_array_equal(got, expected)


def test_negative_indices_count_from_the_end() -> None:
    x = np.arange(5)
    assert gather(x, np.array([-1, -5, 2], np.int8), axis=0).tolist() == [4, 0, 2]
    assert take_along(x, np.array([-2]), axis=0).tolist() == [3]
    assert gather_nd(x, np.array([[-3]])).tolist() == [2]
    got = scatter_nd(x, np.array([[-1]]), np.array([9]), update="assign")
    assert got.tolist() == [0, 1, 2, 3, 9]


@pytest.mark.parametrize("index", [5, -6, 2**63])
def test_out_of_range(index: int) -> None:
    x = np.zeros((2, 5))
    wrong = np.array([[0, index]], np.uint64 if index == 2**63 else np.int64)
    message = f"index {index} is out of range for axis 1 of size 5"
    row = np.zeros((1, 2))
    with pytest.raises(IndexError, match=message):
        gather(x, wrong, axis=1)
    with pytest.raises(IndexError, match=message):
        take_along(x[:1], wrong, axis=1)
    with pytest.raises(IndexError, match=message):
        gather_nd(x, wrong)
    with pytest.raises(IndexError, match=message):
        scatter_nd(x, wrong, np.zeros(1), update="add")
    with pytest.raises(IndexError, match=message):
        scatter_along(x[:1], wrong, row, axis=1, update="assign")


def test_an_empty_axis_has_no_index() -> None:
    x = np.zeros((0, 3))
    assert gather(x, np.zeros((0,), np.int64), axis=0).shape == (0, 3)
    with pytest.raises(IndexError, match="index 0 is out of range for axis 0 of size 0"):
        gather(x, np.array([0]), axis=0)


def test_take_along() -> None:
    x, indices = whole((3, 4, 2)), np.random.default_rng(1).integers(0, 4, (3, 6, 2))
    got = take_along(x, indices, axis=1)
    for a, b, c in np.ndindex(3, 6, 2):
        assert got[a, b, c] == x[a, indices[a, b, c], c]


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
@pytest.mark.parametrize("lead", [(), (5,), (2, 3), (0,)])
def test_gather_nd(depth: int, lead: tuple[int, ...]) -> None:
    x = whole((3, 4, 2))
    sizes = np.array(x.shape[:depth], np.int64)
    indices = np.random.default_rng(1).integers(0, 9, (*lead, depth)) % sizes
    got = gather_nd(x, indices)
    assert got.shape == lead + x.shape[depth:]
    for at in np.ndindex(*lead):
        np.testing.assert_array_equal(got[at], x[tuple(indices[at])])


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_scatter_nd_applies_updates_in_order(depth: int, update: str) -> None:
    x = whole((3, 2, 2))
    before = x.copy()
    sizes = np.array(x.shape[:depth], np.int64)
    indices = np.random.default_rng(1).integers(0, 9, (3, 4, depth)) % sizes
    updates = np.random.default_rng(2).standard_normal((3, 4, *x.shape[depth:])).astype(np.float32)
    got = scatter_nd(x, indices, updates, update=update)
    expected = x.copy()
    for at in np.ndindex(3, 4):
        place = tuple(indices[at])
        old = np.asarray(expected[place])
        new = np.asarray(updates[at])
        for inner in np.ndindex(*old.shape):
            expected[(*place, *inner)] = join(update, old[inner].item(), new[inner].item())
    if update in ("add", "mul"):
        np.testing.assert_allclose(got, expected, rtol=1e-6)
    else:
        np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scatter_along(axis: int, update: str) -> None:
    x = whole((3, 4, 2), dtype=np.float64)
    before = x.copy()
    shape = list(x.shape)
    shape[axis] = 5
    indices = np.random.default_rng(1).integers(-x.shape[axis], x.shape[axis], shape)
    updates = whole(tuple(shape), 2, np.float64)
    got = scatter_along(x, indices, updates, axis=axis, update=update)
    expected = x.copy()
    for at in np.ndindex(*shape):
        place = (*at[:axis], indices[at], *at[axis + 1 :])
        expected[place] = join(update, expected[place], updates[at])
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("update", UPDATES)
def test_scatter_dtypes(update: str, dtype: Any) -> None:
    kind = np.dtype(dtype).kind
    if (kind == "b" and update != "assign") or (kind == "c" and update in ("max", "min")):
        return
    x = whole((4,), 1, dtype)
    indices, updates = np.array([1, 3, 1, 1]), whole((4,), 3, dtype)
    expected = x.copy()
    for i, v in zip(indices, updates, strict=True):
        expected[i] = np.array(join(update, expected[i], v)).astype(dtype)
    for got in (
        scatter_nd(x, indices[:, None], updates, update=update),
        scatter_along(x, indices, updates, axis=0, update=update),
    ):
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, expected)


def test_scatter_add_of_half_types_rounds_once() -> None:
    indices = np.zeros((256, 1), np.int64)
    updates = np.full(256, 2.0**-9, ml_dtypes.bfloat16)
    got = scatter_nd(np.ones(2, ml_dtypes.bfloat16), indices, updates, update="add")
    assert got.astype(float).tolist() == [1.5, 1.0]


@pytest.mark.parametrize("update", ["max", "min"])
def test_scatter_extremes_keep_nan(update: str) -> None:
    x = np.array([np.nan, 1.0])
    got = scatter_nd(x, np.array([[0], [1], [1]]), np.array([1.0, np.nan, 2.0]), update=update)
    assert np.isnan(got).all()


def test_scatter_of_nothing() -> None:
    x = whole((3, 2))
    none = np.zeros((0, 1), np.int64)
    for update in UPDATES:
        got = scatter_nd(x, none, np.zeros((0, 2), np.float32), update=update)
        np.testing.assert_array_equal(got, x)
        assert not np.shares_memory(got, x)


@pytest.mark.parametrize(
    ("starts", "first"),
    [((1, 2), (1, 2)), ((-3, 0), (0, 0)), ((9, 9), (2, 3)), ((2, 3), (2, 3))],
)
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_dynamic_slices_clamp(starts: Any, first: Any, kind: Any) -> None:
    x = whole((4, 5), dtype=ml_dtypes.bfloat16)
    a, b = first
    at = np.array(starts, kind)
    np.testing.assert_array_equal(dynamic_slice(x, at, sizes=(2, 2)), x[a : a + 2, b : b + 2])
    expected = x.copy()
    expected[a : a + 2, b : b + 2] = 7
    got = dynamic_update_slice(x, np.full((2, 2), 7, x.dtype), at)
    np.testing.assert_array_equal(got, expected)
    assert not np.shares_memory(got, x)


def test_dynamic_slices_of_numbers_and_nothing() -> None:
    none = np.zeros(0, np.int32)
    assert dynamic_slice(np.array(3.0), none, sizes=()) == 3.0
    assert dynamic_update_slice(np.array(3.0), np.array(4.0), none) == 4.0
    assert dynamic_slice(np.zeros(3), np.array([2**63], np.uint64), sizes=(0,)).shape == (0,)
