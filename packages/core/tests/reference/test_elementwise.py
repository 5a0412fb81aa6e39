"""Elementwise ops where C and NumPy leave a result open."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from calor.reference import elementwise as e

BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
SIGNED = [np.int8, np.int16, np.int32, np.int64]
UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]
FLOATS = [np.float16, BF16, np.float32, np.float64]
INF, NAN = math.inf, math.nan


def same(got: Any, expected: Any) -> None:
    """Compare values and signs of zeros."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.dtype == expected.dtype
    if got.dtype.kind in "biuc":
        np.testing.assert_array_equal(got, expected)
    else:  # as float64, because NumPy does not know the NaN of ml_dtypes' types
        np.testing.assert_array_equal(got.astype(np.float64), expected.astype(np.float64))
        numbers = expected == expected
        np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(expected)[numbers])


def pairs(values: list[Any], dtype: Any) -> tuple[Any, Any]:
    """Return all pairs of values as two arrays."""
    x = (
        np.array(values).astype(dtype)
        if not isinstance(values[0], int)
        else np.array(values, dtype)
    )
    return np.repeat(x, len(x)), np.tile(x, len(x))


def integers(dtype: Any) -> list[int]:
    """Return the interesting integers of a dtype."""
    limits = np.iinfo(dtype)
    numbers = {limits.min, limits.min + 1, limits.max - 1, limits.max, 0, 1, 2, 3, 7}
    return sorted(numbers | ({-1, -7} if limits.min else set()))


def wrap(value: int, dtype: Any) -> int:
    """Return an integer modulo the width of a dtype."""
    limits = np.iinfo(dtype)
    return (value - int(limits.min)) % (int(limits.max) - int(limits.min) + 1) + int(limits.min)


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_integer_division(dtype: Any) -> None:
    a, b = pairs(integers(dtype), dtype)
    both = list(zip(a.tolist(), b.tolist(), strict=True))
    floor = [wrap(p // q, dtype) if q else 0 for p, q in both]
    rest = [p % q if q else 0 for p, q in both]
    same(e.floor_divide(a, b), np.array(floor, dtype))
    same(e.remainder(a, b), np.array(rest, dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_division(dtype: Any) -> None:
    a = np.array([7, -7, 7, -7, 0, 1, -1, 0.0, INF, NAN, 5]).astype(dtype)
    b = np.array([2, 2, -2, -2, 3, 0, 0, 0.0, 2, 2, INF]).astype(dtype)
    floor = np.array([3, -4, -4, 3, 0, INF, -INF, NAN, NAN, NAN, 0]).astype(dtype)
    rest = np.array([1, 1, -1, -1, 0, NAN, NAN, NAN, NAN, NAN, 5]).astype(dtype)
    same(e.floor_divide(a, b), floor)
    same(e.remainder(a, b), rest)
    same(e.remainder(np.array([-1.0]).astype(dtype), np.array([-1.0]).astype(dtype)),
         np.array([-0.0]).astype(dtype))  # fmt: skip


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_shifts(dtype: Any) -> None:
    bits = 8 * np.dtype(dtype).itemsize
    counts = [0, 1, 3, bits - 1, bits, bits + 1, 100]
    counts += [-1, -bits, -128] if dtype in SIGNED else []
    numbers = integers(dtype)
    a = np.repeat(np.array(numbers, dtype), len(counts))
    b = np.tile(np.array(counts, dtype), len(numbers))
    left, right = [], []
    for p, q in zip(a.tolist(), b.tolist(), strict=True):
        far = not 0 <= q < bits
        left.append(0 if far else wrap(p << q, dtype))
        right.append((-1 if p < 0 else 0) if far else p >> q)
    same(e.shift_left(a, b), np.array(left, dtype))
    same(e.shift_right(a, b), np.array(right, dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_extremes(dtype: Any) -> None:
    values = [-INF, -1.0, -0.0, 0.0, 1.0, INF, NAN]
    a, b = pairs(values, dtype)
    order = {str(v): i for i, v in enumerate(values[:-1])}
    most, least = [], []
    for p, q in zip(a.astype(float).tolist(), b.astype(float).tolist(), strict=True):
        nan = p != p or q != q
        most.append(NAN if nan else max(p, q, key=lambda v: order[str(v)]))
        least.append(NAN if nan else min(p, q, key=lambda v: order[str(v)]))
    same(e.maximum(a, b), np.array(most).astype(dtype))
    same(e.minimum(a, b), np.array(least).astype(dtype))
    for i in range(len(a)):  # one by one, where vector code does not run
        same(e.maximum(a[i : i + 1], b[i : i + 1])[0], np.array(most).astype(dtype)[i])
        same(e.minimum(a[i], b[i]), np.array(least).astype(dtype)[i])


@pytest.mark.parametrize("dtype", [np.bool_, *SIGNED, *UNSIGNED])
def test_integer_extremes(dtype: Any) -> None:
    a, b = pairs([False, True] if dtype is np.bool_ else integers(dtype), dtype)
    both = list(zip(a.tolist(), b.tolist(), strict=True))
    same(e.maximum(a, b), np.array([max(p, q) for p, q in both], dtype))
    same(e.minimum(a, b), np.array([min(p, q) for p, q in both], dtype))


@pytest.mark.parametrize("exponent", [0.5, 2.0, 3.0, -1.0])
@pytest.mark.parametrize("dtype", [*FLOATS, np.complex64, np.complex128])
def test_power_does_not_depend_on_how_exponents_lie_in_memory(dtype: Any, exponent: float) -> None:
    a = (np.random.default_rng(0).uniform(0.2, 2.0, 37)).astype(dtype)
    dense = np.full(37, exponent, dtype)
    broadcast = np.broadcast_to(np.asarray(exponent, dtype), (37,))
    whole = e.power(a, dense)
    assert whole.tobytes() == e.power(a, broadcast).tobytes()
    # Nor on shapes, down to a scalar.
    for shape in ((), (1,), (1, 1)):
        one = e.power(np.broadcast_to(a[0], shape), np.broadcast_to(dense[0], shape))
        assert one.shape == shape
        assert one.tobytes() == whole[:1].tobytes()


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_integer_power(dtype: Any) -> None:
    exponents = [0, 1, 2, 3, 7, 31, 64, 127]
    exponents += [-1, -2, -3, int(np.iinfo(dtype).min)] if dtype in SIGNED else []
    numbers = integers(dtype)
    a = np.repeat(np.array(numbers, dtype), len(exponents))
    b = np.tile(np.array(exponents, dtype), len(numbers))
    expected = []
    for p, q in zip(a.tolist(), b.tolist(), strict=True):
        if q >= 0:
            expected.append(wrap(p**q, dtype))
        else:
            expected.append({1: 1, -1: -1 if q % 2 else 1}.get(p, 0))
    same(e.power(a, b), np.array(expected, dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("a", "b", "value"),
    [
        (2, 3, 8), (2, -1, 0.5), (4, 0.5, 2), (0, 0, 1), (NAN, 0, 1), (1, NAN, 1), (1, INF, 1),
        (-1, INF, 1), (-1, -INF, 1), (-2, 3, -8), (-8, 0.5, NAN), (0, -1, INF), (-0.0, -1, -INF),
        (-0.0, 3, -0.0), (-0.0, 2, 0), (INF, -1, 0), (-INF, 3, -INF), (0.5, INF, 0), (2, INF, INF),
        (NAN, 1, NAN), (2, NAN, NAN),
    ],
)  # fmt: skip
def test_float_power(dtype: Any, a: float, b: float, value: float) -> None:
    for n in (1, 33):
        x, y = np.full(n, a).astype(dtype), np.full(n, b).astype(dtype)
        same(e.power(x, y), np.full(n, value).astype(dtype))


def test_complex_power() -> None:
    a = np.array([2, 1j, 0], np.complex64)
    got = e.power(a, np.array([2, 2, 2], np.complex64))
    assert got.dtype == np.complex64
    np.testing.assert_allclose(got, [4, -1, 0], atol=1e-6)


@pytest.mark.parametrize("dtype", FLOATS)
def test_sign_and_rounding(dtype: Any) -> None:
    x = np.array([-INF, -2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5, INF, NAN]).astype(dtype)
    same(e.sign(x), np.array([-1, -1, -1, -1, 0, 1, 1, 1, 1, NAN]).astype(dtype))
    even = [-INF, -2.0, -2.0, -0.0, 0.0, 0.0, 2.0, 2.0, INF, NAN]
    same(e.round_half_even(x), np.array(even).astype(dtype))


def test_sign_and_rounding_of_other_types() -> None:
    same(e.sign(np.array([-128, 0, 5], np.int8)), np.array([-1, 0, 1], np.int8))
    same(e.sign(np.array([0, 5], np.uint8)), np.array([0, 1], np.uint8))
    same(e.round_half_even(np.array([3, -4])), np.array([3, -4]))
    same(e.round_half_even(np.array([1.5 - 2.5j])), np.array([2 - 2j]))
    got = e.sign(np.array([3 + 4j, 0, 1e300 + 1e300j, -2j, complex(NAN, 1)]))
    np.testing.assert_allclose(got[:4], [0.6 + 0.8j, 0, (1 + 1j) / math.sqrt(2), -1j], rtol=1e-15)
    assert np.isnan(got[4])


@pytest.mark.parametrize("dtype", [*FLOATS, E4M3, E5M2])
def test_nextafter_walks_every_number(dtype: Any) -> None:
    size = np.dtype(dtype).itemsize
    random = np.random.default_rng(0)
    codes = random.integers(0, 2 ** (8 * size - 1) - 1, 2000, np.uint64).astype(f"u{size}")
    x = np.sort(codes).view(dtype)
    up = (np.sort(codes) + 1).astype(codes.dtype).view(dtype)
    with np.errstate(invalid="ignore"):
        both = np.isfinite(x) & np.isfinite(up)
    x, up = x[both], up[both]
    top = np.array(448 if dtype == E4M3 else INF).astype(dtype)
    same(e.nextafter(x, np.full_like(x, top)), up)
    same(e.nextafter(up, -np.full_like(x, top)), np.where(x == 0, x.dtype.type(0), x))
    same(e.nextafter(-x, -np.full_like(x, top)), -up)


@pytest.mark.parametrize("dtype", FLOATS)
def test_nextafter_at_the_edges(dtype: Any) -> None:
    limits: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    tiny = float(limits.smallest_subnormal)
    a = np.array([0.0, -0.0, 0.0, limits.max, INF, NAN, 1, tiny, 0.0, -0.0]).astype(dtype)
    b = np.array([1, 1, -1, INF, 0, 1, NAN, 0, -0.0, 0.0]).astype(dtype)
    expected = [tiny, tiny, -tiny, INF, limits.max, NAN, NAN, 0.0, -0.0, 0.0]
    same(e.nextafter(a, b), np.array(expected).astype(dtype))


@pytest.mark.parametrize("dtype", [*FLOATS, E4M3, E5M2])
def test_copysign(dtype: Any) -> None:
    a = np.array([1.0, -1.0, 0.0, -0.0, NAN, -2.0]).astype(dtype)
    b = np.array([-0.0, 0.0, -1.0, 1.0, -1.0, -3.0]).astype(dtype)
    got = e.copysign(a, b)
    same(got, np.array([-1.0, 1.0, -0.0, 0.0, NAN, -2.0]).astype(dtype))
    assert np.signbit(got[4])


@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_of_two_floats(dtype: Any) -> None:
    def row(*values: float) -> Any:
        return np.array(values).astype(dtype)

    same(e.hypot(row(3, INF, NAN, -0.0), row(4, NAN, 1, 0)), row(5, INF, NAN, 0))
    same(e.atan2(row(0.0, -0.0, 0.0, 1, NAN), row(1, 1, -1, 0, 1)),
         row(0.0, -0.0, math.pi, math.pi / 2, NAN))  # fmt: skip
    same(e.logaddexp(row(-INF, INF, 0, 1, NAN), row(-INF, INF, 0, -INF, 0)),
         row(-INF, INF, math.log(2), 1, NAN))  # fmt: skip


def test_no_undue_overflow() -> None:
    big = np.array([3e300])
    np.testing.assert_allclose(e.hypot(big, np.array([4e300])), [5e300])
    np.testing.assert_allclose(e.logaddexp(big, big), big)
    wide = np.array([60000.0], np.float16)
    same(e.hypot(wide, wide), np.array([INF], np.float16))


BINARY = [
    e.floor_divide, e.remainder, e.maximum, e.minimum, e.power, e.atan2, e.hypot, e.logaddexp,
    e.copysign, e.nextafter,
]  # fmt: skip


@pytest.mark.parametrize("function", [*BINARY, e.sign, e.round_half_even, e.erf, e.lgamma])
@pytest.mark.parametrize("dtype", FLOATS)
def test_shapes_and_arrays(function: Any, dtype: Any) -> None:
    count = 2 if function in BINARY else 1
    for shape in ((), (0, 2), (3, 2)):
        got = function(*[np.ones(shape).astype(dtype)] * count)
        assert type(got) is np.ndarray
        assert (got.shape, got.dtype) == (shape, np.dtype(dtype))
    got = function(*[np.ones((2, 3)).astype(dtype).T[:, ::-1]] * count)
    assert got.shape == (3, 2)
