"""A GPU of AMD, imitated on the processor, keeps the contract of devices."""

from typing import Any

import pytest

from device_contract import *  # noqa: F403 - its tests
from device_contract import Contract

CONTRACT = Contract(
    plugin="calor_hip",
    driver="cupy_backends",
    refused='extern "C" __global__ void k() { nothing_known = 1; }',
    too_much="out of memory: allocating .* in smaller parts",
    timed=True,
)


@pytest.fixture
def device(cdna: Any) -> Any:
    return cdna
