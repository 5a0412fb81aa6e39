"""Division by numbers of a launch: exact for every index, and what follows from assumptions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calor.dtypes import DType, float32, int32, int64, uint32, uint64
from calor_interpreter.launch import run_on_lanes
from calor_kernel.errors import KernelTypeError
from calor_kernel.language import (
    Buffer,
    FastDivmod,
    In,
    Out,
    Scalar,
    absolute_position,
    assume_multiple,
    index_dtype,
    kernel,
    offset_of,
    unravel,
)

DTYPES = [int32, int64, uint32, uint64]


def bits_of(dtype: DType) -> int:
    return 8 * dtype.itemsize - (dtype.kind == "int")


def divided(dividend: int, numbers: tuple[int, int, int], dtype: DType) -> int:
    """What FastDivmod.divide computes, in Python's integers."""
    _, multiplier, shift = numbers
    bits = 8 * dtype.itemsize
    assert multiplier < 1 << bits
    if dtype.kind == "int":
        return (2 * dividend * multiplier >> bits) >> shift
    high = dividend * multiplier >> bits
    first = min(shift, 1)
    return (high + ((dividend - high) >> first)) >> (shift - first)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@given(data=st.data())
def test_quotients_are_exact(dtype: DType, data: st.DataObject) -> None:
    most = (1 << bits_of(dtype)) - 1
    divisor = data.draw(st.integers(1, most) | st.integers(1, 4096))
    quotient = data.draw(st.integers(0, most // divisor))
    numbers = FastDivmod.arguments(divisor, dtype)
    # Where a rounding would show first: at multiples of the divisor and one below.
    for dividend in (quotient * divisor, max(quotient * divisor - 1, 0), most):
        assert divided(dividend, numbers, dtype) == dividend // divisor


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_divisors_at_the_ends(dtype: DType) -> None:
    most = (1 << bits_of(dtype)) - 1
    for divisor in (1, 2, 3, most // 2, most // 2 + 1, most // 2 + 2, most - 1, most):
        numbers = FastDivmod.arguments(divisor, dtype)
        for dividend in (0, 1, divisor - 1, divisor, min(divisor + 1, most), most - 1, most):
            assert divided(dividend, numbers, dtype) == dividend // divisor
    for wrong in (0, -1, most + 1):
        with pytest.raises(ValueError, match="no divisor"):
            FastDivmod.arguments(wrong, dtype)


@pytest.mark.parametrize(
    ("limit", "dtype"), [(0, int32), (2**30, int32), (2**31 - 1, int64), (2**40, int64)]
)
def test_index_dtype(limit: int, dtype: DType) -> None:
    assert index_dtype(1, limit) is dtype


@given(st.lists(st.integers(1, 9), max_size=4), st.integers(0, 10**6))
def test_coordinates_of_what_the_build_knows(sizes: list[int], seed: int) -> None:
    strides, step = [], 1
    for size in reversed(sizes):
        strides.insert(0, step)
        step *= size
    index = seed % step
    position = unravel(index, sizes)
    assert all(0 <= p < n for p, n in zip(position, sizes, strict=True))
    assert offset_of(position, strides) == index


@kernel
def aligned(x, y, n, *, divisor):
    m = assume_multiple(n, divisor)
    for i in range(0, n, 8):
        y.store(i, x.load(i * 2 + m, 4))


@pytest.mark.parametrize(("divisor", "align"), [(2, 8), (4, 16), (6, 8), (16, 32)])
def test_accesses_are_as_aligned_as_is_known(divisor: int, align: int) -> None:
    floats = Buffer(float32, align=32)
    built = aligned.build([floats, floats, Scalar(int64)], divisor=divisor)
    load, store = [o for o in built.body.walk() if o.name in ("load", "store")]
    assert load.attributes["align"] == align
    assert store.attributes["align"] == 32


def test_assumptions_are_checked_in_debug_builds() -> None:
    floats = Buffer(float32)
    signature = [floats, floats, Scalar(int64)]
    built = aligned.build(signature, divisor=4, features=frozenset({"debug"}))
    assert [o.attributes["text"] for o in built.body.walk() if o.name == "assert"] == [
        "a multiple of 4"
    ]
    with pytest.raises(KernelTypeError, match="7 is no multiple of 4"):
        assume_multiple(7, 4)


@kernel
def split(
    x: In,
    q: Out,
    r: Out,
    a: Out,
    b: Out,
    c: Out,
    one: FastDivmod,
    two: FastDivmod,
    *,
    vector: int,
) -> None:
    i = absolute_position() * vector
    quotient, rest = one.divmod(x.load(i, vector))
    q.store(i, quotient)
    r.store(i, rest)
    for p, found in zip((a, b, c), unravel(x.load(i, vector), (2, two, 5)), strict=True):
        p.store(i, found)


@pytest.mark.parametrize("vector", [1, 4])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_division_on_lanes(dtype: DType, vector: int) -> None:
    most = (1 << bits_of(dtype)) - 1
    x = np.array([0, 1, 6, 7, 34, 35, most - 1, most], dtype.numpy)
    found = [np.zeros_like(x) for _ in range(5)]
    numbers = [*FastDivmod.arguments(7, dtype), *FastDivmod.arguments(3, dtype)]
    signature = [Buffer(dtype)] * 6 + [*FastDivmod.declared(dtype)] * 2
    index = int32 if dtype.itemsize == 4 else int64
    built = split.build(signature, vector=vector, index=index)
    run_on_lanes(built, (len(x) // vector, 1, 1), [x, *found, *numbers])
    for made, wanted in zip(found, [x // 7, x % 7, x // 15, x // 5 % 3, x % 5], strict=True):
        np.testing.assert_array_equal(made, wanted)
