"""A GPU of NVIDIA, imitated or real, keeps the contract of devices."""

from typing import Any

import pytest

from device_contract import *  # noqa: F403 - its tests
from device_contract import Contract

CONTRACT = Contract(
    plugin="calor_cuda",
    driver="cupy_backends",
    refused='extern "C" __global__ void k() { nothing_known = 1; }',
    too_much="out of memory: allocating .* in smaller parts",
    timed=True,
)


@pytest.fixture(params=["imitated", "by_pycuda", "gpu"])
def device(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)
