"""Kernels printed as CUDA C++ compute on a GPU what lanes compute, scalars and vectors."""

from typing import Any

import pytest

from device_operations import *  # noqa: F403 - its tests


@pytest.fixture
def device(gpu: Any) -> Any:
    return gpu
