"""Casts and bit casts."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from calor.reference.conversion import bitcast, cast

BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
INTEGERS = [
    np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
]  # fmt: skip
FLOATS = [np.float16, BF16, np.float32, np.float64, E4M3, E5M2]
COMPLEX = [np.complex64, np.complex128]
ALL = [np.bool_, *INTEGERS, *FLOATS, *COMPLEX]
INF, NAN = np.inf, np.nan


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", FLOATS)
def test_float_to_integer_truncates_and_saturates(source: Any, target: Any) -> None:
    numbers = [0.0, -0.0, 1.75, -1.75, 100, -100, 448, -448, NAN]
    numbers += [2.0**k for k in (7, 8, 15)] + [-(2.0**k) for k in (7, 8, 15)]
    if source in (np.float32, np.float64):
        numbers += [s * 2.0**k for k in (16, 31, 32, 63, 64, 100) for s in (1, -1)]
        numbers += [2.0**31 - 128, 2.0**63 - 2**39, 2.0**64 - 2**40]
    if source is not E4M3:
        numbers += [INF, -INF]
    x = np.array(numbers).astype(source)
    limits = np.iinfo(target)
    expected = []
    for v in x.astype(np.float64):
        if v != v:
            expected.append(0)
        elif np.isinf(v):
            expected.append(limits.max if v > 0 else limits.min)
        else:
            expected.append(min(max(int(v), limits.min), limits.max))
    got = cast(x, dtype=target)
    assert got.dtype == target
    assert got.tolist() == expected


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", INTEGERS)
def test_integer_to_integer_wraps(source: Any, target: Any) -> None:
    limits = np.iinfo(source)
    x = np.array([0, 1, 127, limits.min, limits.max], source)
    bits = 8 * np.dtype(target).itemsize
    sign = 2 ** (bits - 1) if np.dtype(target).kind == "i" else 0
    assert cast(x, dtype=target).tolist() == [(int(v) + sign) % 2**bits - sign for v in x.tolist()]


@pytest.mark.parametrize("source", [*INTEGERS, *FLOATS, *COMPLEX])
def test_to_bool_is_not_zero(source: Any) -> None:
    x = np.array([0, 1, 2]).astype(source)
    assert cast(x, dtype=np.bool_).tolist() == [False, True, True]
    if source in FLOATS:
        x = np.array([-0.0, NAN, 2.0**-9]).astype(source)
        assert cast(x, dtype=np.bool_).tolist() == [False, True, True]
    if source in COMPLEX:
        assert cast(np.array([1j, 0j, NAN], source), dtype=np.bool_).tolist() == [True, False, True]


@pytest.mark.parametrize("target", ALL)
def test_complex_to_real_takes_the_real_part(target: Any) -> None:
    x = np.array([1.5 + 2j, -1 + NAN * 1j, 3 - 1j])
    x[1] = complex(-1, 7)
    if np.dtype(target).kind in "bc":
        return
    expected = cast(x.real, dtype=target)
    np.testing.assert_array_equal(cast(x, dtype=target), expected)
    np.testing.assert_array_equal(cast(x.astype(np.complex64), dtype=target), expected)


@pytest.mark.parametrize("source", ALL)
@pytest.mark.parametrize("target", ALL)
def test_every_pair_keeps_small_numbers_and_shapes(source: Any, target: Any) -> None:
    for shape in ((), (0,), (2, 2)):
        x = np.ones(shape).astype(source)
        got = cast(x, dtype=target)
        assert (got.dtype, got.shape) == (np.dtype(target), shape)
        np.testing.assert_array_equal(got, np.ones(shape).astype(target))


@cache
def finite(target: Any) -> Any:
    """Return the finite numbers of a narrow type that are not negative, in order."""
    size = np.dtype(target).itemsize
    with np.errstate(invalid="ignore"):
        numbers = np.arange(2 ** (8 * size - 1)).astype(f"u{size}").view(target).astype(np.float64)
    return numbers[np.isfinite(numbers)]


def nearest(value: Fraction, target: Any) -> float:
    """Return the number of a narrow type next to a value, the even one of two."""
    numbers = finite(target)
    index = int(np.searchsorted(numbers, float(abs(value))))
    sign = -1.0 if value < 0 else 1.0
    near = [i for i in range(index - 2, index + 3) if 0 <= i < len(numbers)]
    best = min(near, key=lambda i: (abs(Fraction(numbers[i]) - abs(value)), i % 2))
    limit = Fraction(numbers[-1]) + (Fraction(numbers[-1]) - Fraction(numbers[-2])) / 2
    if abs(value) > limit or (abs(value) == limit and (len(numbers) - 1) % 2):
        return NAN if target is E4M3 else sign * INF
    return sign * float(numbers[best])


@pytest.mark.parametrize("target", [np.float16, BF16, E4M3, E5M2])
@pytest.mark.parametrize("source", [np.float64, np.float32, np.int64, np.uint64, np.int32])
def test_rounds_once_to_nearest_even(source: Any, target: Any) -> None:
    random = np.random.default_rng(0)
    codes = np.arange(2 ** (8 * np.dtype(target).itemsize - 1) - 1)
    picked = random.choice(codes, 300).astype(f"u{np.dtype(target).itemsize}")
    with np.errstate(all="ignore"):
        low = picked.view(target).astype(np.float64)
        high = (picked + 1).astype(picked.dtype).view(target).astype(np.float64)
        middle = (low + high) / 2
        middle = middle[np.isfinite(middle)]
        points = [middle, np.nextafter(middle, 0), np.nextafter(middle, INF), middle * (1 + 2**-30)]
    values = np.concatenate(points)
    values = np.concatenate([values, -values])
    if np.dtype(source).kind in "iu":
        limit = float(np.iinfo(source).max) / 2
        values = np.trunc(values[np.abs(values) < limit])
        whole = [int(v) + d for v in values.tolist() for d in (-1, 0, 1)]
        whole += [2**40 + 2**32 + 1, 2**62 + 2**54, 2**62 + 2**54 + 1, 2**62 + 2**54 - 1]
        limits = np.iinfo(source)
        x = np.array([v for v in whole if limits.min <= v <= limits.max], source)
    else:
        with np.errstate(over="ignore", under="ignore"):
            x = values.astype(source)
        x = x[np.isfinite(x)]
    got = cast(x, dtype=target).astype(np.float64)
    expected = [nearest(Fraction(v), target) for v in x.tolist()]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("target", [np.float16, BF16, E4M3, E5M2, np.float32])
def test_beyond_the_range(target: Any) -> None:
    x = np.array([1e300, -1e300, INF, -INF, NAN, 1e-300, -1e-300])
    got = cast(x, dtype=target).astype(np.float64)
    high = NAN if target is E4M3 else INF
    np.testing.assert_array_equal(got, [high, -high, high, -high, NAN, 0.0, -0.0])
    assert np.signbit(got[-1])


@pytest.mark.parametrize("dtype", ALL)
def test_bitcast_to_bytes_and_back(dtype: Any) -> None:
    x = np.array([[0, 1], [1, 0]]).astype(dtype)
    parts = bitcast(x, dtype=np.uint8)
    size = np.dtype(dtype).itemsize
    assert parts.shape == ((2, 2) if size == 1 else (2, 2, size))
    assert parts.tobytes() == x.tobytes()
    np.testing.assert_array_equal(bitcast(parts, dtype=dtype), x)


def test_bitcast_orders_parts_from_the_least_significant() -> None:
    x = np.array(0x01020304, np.uint32)
    assert bitcast(x, dtype=np.uint8).tolist() == [4, 3, 2, 1]
    assert bitcast(x, dtype=np.uint16).tolist() == [0x0304, 0x0102]
    assert bitcast(np.array(1.0, np.float32), dtype=np.int32).item() == 0x3F800000
    assert bitcast(np.array([2, 0, 1], np.uint8), dtype=np.bool_).tolist() == [True, False, True]
    view = np.arange(12, dtype=np.int16).reshape(3, 4).T
    np.testing.assert_array_equal(bitcast(view, dtype=np.int8), bitcast(view.copy(), dtype=np.int8))
    assert bitcast(np.zeros((0, 2), np.int16), dtype=np.int32).shape == (0,)


@pytest.mark.parametrize("shape", [(), (3,), (4, 1)])
def test_bitcast_needs_a_fitting_last_axis(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="needs a last axis of 2"):
        bitcast(np.zeros(shape, np.int16), dtype=np.int32)
