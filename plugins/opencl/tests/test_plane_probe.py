"""Whether planes hold is tried by a kernel, and what goes wrong is a no."""

from typing import Any

import numpy as np
import pytest

from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_opencl import plane_probe


def test_planes_that_hold() -> None:
    assert plane_probe.planes_hold(LanesDevice(MANY_UNITS))


def test_a_device_that_refuses_the_kernel_has_none() -> None:
    assert not plane_probe.planes_hold(LanesDevice(ONE_UNIT))


@pytest.mark.parametrize("row", range(plane_probe.ROWS))
def test_each_way_to_planes_is_looked_at(row: int, monkeypatch: pytest.MonkeyPatch) -> None:
    device = LanesDevice(MANY_UNITS)
    copy_out = device.memory.copy_out

    def wrong(handle: Any, offset: int, array: Any) -> None:
        copy_out(handle, offset, array)
        array.reshape(plane_probe.ROWS, -1)[row, -1] += np.uint32(1)

    monkeypatch.setattr(device.memory, "copy_out", wrong)
    assert not plane_probe.planes_hold(device)
