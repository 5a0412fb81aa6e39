"""Rounding to types of few bits, beside ml_dtypes, for every float16 number."""

import ml_dtypes
import numpy as np
import pytest

import calor
from calor_onnx.carrier_rounding import narrowed
from calor_onnx.values import to_host, upload

HALVES = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
FLOATS = [
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float4_e2m1fn,
    ml_dtypes.float6_e2m3fn,
    ml_dtypes.float6_e3m2fn,
]
INTEGERS = [ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2]


def given(array: np.ndarray, dtype: type, *, saturate: bool) -> np.ndarray:
    """The elements after a conversion on the device and back, as float32."""
    x = calor.asarray(array, device="numpy")
    return to_host(narrowed(x, np.dtype(dtype), saturate, "up")).astype(np.float32)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.__name__)
def test_floats_are_rounded_to_the_nearest(dtype: type) -> None:
    with np.errstate(invalid="ignore"):
        wanted = HALVES.astype(dtype).astype(np.float32)
    made = given(HALVES, dtype, saturate=False)
    # ml_dtypes makes a zero of NaN where the type has none; so do we, with no sign.
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("dtype", FLOATS[:2], ids=lambda dtype: dtype.__name__)
def test_floats_saturate(dtype: type) -> None:
    limits = ml_dtypes.finfo(dtype)
    low, high = float(limits.min), float(limits.max)
    with np.errstate(invalid="ignore"):
        wanted = np.clip(HALVES, low, high).astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(given(HALVES, dtype, saturate=True), wanted)


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda dtype: dtype.__name__)
def test_integers_keep_their_lowest_bits(dtype: type) -> None:
    numbers = np.arange(-300, 300, dtype=np.int32)
    wanted = numbers.astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(given(numbers, dtype, saturate=True), wanted)


@pytest.mark.parametrize(
    ("mode", "wanted"), [("up", [1, 2, 4, 4]), ("down", [1, 1, 2, 2]), ("nearest", [1, 1, 2, 4])]
)
def test_scales_are_powers_of_two(mode: str, wanted: list[float]) -> None:
    x = calor.asarray([1.0, 1.25, 2.5, 3.5], device="numpy")
    made = narrowed(x, np.dtype(ml_dtypes.float8_e8m0fnu), True, mode)
    assert to_host(made).astype(np.float32).tolist() == wanted


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=lambda dtype: dtype.__name__)
def test_all_numbers_come_back(dtype: type) -> None:
    bits = (
        8 if dtype in FLOATS[:2] else 2 if "2" in dtype.__name__[-2:] and dtype in INTEGERS else 4
    )
    bits = 6 if "float6" in dtype.__name__ else bits
    array = np.arange(2**bits, dtype=np.uint8).view(dtype)
    back = to_host(upload(array, calor.device("numpy")))
    np.testing.assert_array_equal(back.astype(np.float32), array.astype(np.float32))
