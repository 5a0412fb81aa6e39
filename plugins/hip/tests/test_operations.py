"""Kernels printed as HIP C++ compute what lanes compute, on the processor, in waves of 64 units."""

from typing import Any

import pytest

from calor.dtypes import DType, float32, float64, int32, int64, uint32
from device_operations import *  # noqa: F403 - its tests
from device_operations import assert_case
from kernel_products import planes_case


@pytest.fixture
def device(cdna: Any) -> Any:
    return cdna


@pytest.mark.parametrize("dtype", [int32, uint32, int64, float32, float64], ids=str)
def test_waves_of_32_units(rdna: Any, dtype: DType) -> None:
    assert rdna.info.planes == (32,)
    assert_case(rdna, planes_case(dtype, 32))
