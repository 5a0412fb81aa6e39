"""The device of the tests: the first OpenCL device, such as PoCL on the processor."""

from collections.abc import Iterator
from typing import Any

import pytest

from device_contract import held

ABSENT = "there is no OpenCL device; apt-get install pocl-opencl-icd makes the processor one"


@pytest.fixture(scope="session")
def device() -> Iterator[Any]:
    """The first device, or a skip that says how to get one."""
    from calor_opencl._bindings import devices
    from calor_opencl.device import OpenCLDevice

    if not devices():
        pytest.skip(ABSENT)
    yield from held(OpenCLDevice(0))
