"""The device of the tests: the first adapter, such as lavapipe on the processor."""

from collections.abc import Iterator
from typing import Any

import pytest

from device_contract import held

ABSENT = "there is no wgpu device; apt-get install mesa-vulkan-drivers makes the processor one"


@pytest.fixture(scope="session")
def device() -> Iterator[Any]:
    """The first device, or a skip that says how to get one."""
    from calor_wgpu._bindings import adapters
    from calor_wgpu.device import WgpuDevice

    if not adapters():
        pytest.skip(ABSENT)
    yield from held(WgpuDevice(0))
