"""Kernels printed as CUDA C++ compute on a GPU what lanes compute, scalars and vectors."""

from typing import Any

import pytest

from device_operations import (
    pytest_generate_tests,
    test_a_kernel,
    test_an_operation,
    test_lanes_of_a_vector,
    test_planes,
)

__all__ = [
    "pytest_generate_tests",
    "test_a_kernel",
    "test_an_operation",
    "test_lanes_of_a_vector",
    "test_planes",
]


@pytest.fixture
def device(gpu: Any) -> Any:
    return gpu
