"""Kernels printed as HIP C++ compute what lanes compute, on the processor, in waves of 64 units."""

from typing import Any

import pytest

from calor.dtypes import DType, float32, float64, int32, int64, uint32
from device_operations import (
    pytest_generate_tests,
    test_a_kernel,
    test_an_operation,
    test_lanes_of_a_vector,
    test_planes,
)
from device_runs import run
from kernel_cases import assert_alike
from kernel_products import planes_case

__all__ = [
    "pytest_generate_tests",
    "test_a_kernel",
    "test_an_operation",
    "test_lanes_of_a_vector",
    "test_planes",
]


@pytest.fixture
def device(cdna: Any) -> Any:
    return cdna


@pytest.mark.parametrize("dtype", [int32, uint32, int64, float32, float64], ids=str)
def test_waves_of_32_units(rdna: Any, dtype: DType) -> None:
    assert rdna.info.planes == (32,)
    case = planes_case(dtype, 32)
    got, want = case.fresh(), case.expected()
    run(rdna, case.kernel, case.cubes, got)
    for place, (a, b) in enumerate(zip(got, want, strict=True)):
        assert_alike(a, b, f"argument {place}")
