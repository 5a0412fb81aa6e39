"""The device of the tests: the first OpenCL device, such as PoCL on the processor."""

from collections.abc import Iterator
from typing import Any

import pytest

ABSENT = "there is no OpenCL device; apt-get install pocl-opencl-icd makes the processor one"


@pytest.fixture(scope="session")
def device() -> Iterator[Any]:
    """The first device, or a skip that says how to get one."""
    from calor_opencl._bindings import devices
    from calor_opencl.device import OpenCLDevice

    if not devices():
        pytest.skip(ABSENT)
    opened = OpenCLDevice(0)
    # Contraction is tested by itself; here results are compared bit for bit.
    opened.toolchain.dialect.fast_fma = False
    yield opened
    opened.close()
