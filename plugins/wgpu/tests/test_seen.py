"""A launch sees a part of a buffer: what it touches is within, or it is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import Device, device_of
from calor.dtypes import float32
from calor.errors import OutOfMemoryError
from calor_kernel.device.protocol import Slot, Step, Varying, filled
from calor_kernel.device.words import Piece
from calor_kernel.runtime.backend import KernelBackend
from calor_wgpu.structs import windows

MOST = 4096
COUNT = MOST // 4


@pytest.fixture(scope="module")
def narrow(device: Any) -> Device:
    """A device whose launches see little of a buffer."""
    from calor_wgpu.device import WgpuDevice

    def opened(index: int) -> Any:
        made = WgpuDevice(index)
        made.info = replace(made.info, max_seen_bytes=MOST)
        made.queue.most = MOST
        return made

    return device_of(KernelBackend("narrow", opened), 0)


@pytest.mark.parametrize("at", [0, 256, 1000, 7000])
def test_a_window_begins_where_a_launch_touches_a_buffer(at: int) -> None:
    def window(before: int, behind: int) -> tuple[int, int]:
        step = Step(None, (1, 1, 1), (Slot(0, at, before, behind),))
        ((_, begin, nbytes),) = windows(step, [Piece("x", 0, 9000)], 1024, 256)
        return begin, begin + nbytes

    for before in (0, min(at, 700)):
        behind = 760 - before
        begin, end = window(before, behind)
        assert begin % 256 == 0
        assert begin <= at - before < at + behind <= end
    with pytest.raises(OutOfMemoryError, match="a value of 1.5 KiB exceeds the 1.0 KiB"):
        window(0, 1536)


def test_what_a_launch_touches_is_kept_for_sizes_that_vary() -> None:
    step = Step(None, (1, 1, 1), (Slot(1, Varying(0), Varying(1), 8), 5))
    assert filled(step, [16, 4]).arguments == (Slot(1, 16, 4, 8), 5)


@pytest.mark.parametrize("n", [COUNT // 2 + 1, COUNT - 64])
def test_values_of_more_than_half_of_a_window_lie_anywhere(narrow: Device, n: int) -> None:
    def turned(x: Any) -> Any:
        # A running product needs all of its operand, so values of the arena are many.
        made = [calor.flip(calor.cumulative_sum(x * k, axis=0), 0) for k in (1.0, 2.0, 3.0, 4.0)]
        return sum(made[1:], made[0])

    data = np.arange(n, dtype=np.float32) % 7
    with calor.device(narrow):
        got = calor.jit(turned)(calor.asarray(data)).numpy()
    np.testing.assert_allclose(got, 10 * np.cumsum(data)[::-1], rtol=1e-5)


def test_a_part_of_a_value_is_seen_where_the_value_is_not(narrow: Device) -> None:
    data = np.arange(3 * COUNT, dtype=np.float32)
    first, last = COUNT, 2 * COUNT - 64
    with calor.device(narrow):
        x = calor.asarray(data)
        part = calor.jit(lambda x: calor.flip(x[first:last], 0) * 2.0)
        assert part(x).numpy().tolist() == (data[first:last][::-1] * 2).tolist()
        with pytest.raises(OutOfMemoryError, match="12.0 KiB exceeds the 4.0 KiB"):
            (x * 2.0).numpy()
        with pytest.raises(OutOfMemoryError, match="compute in smaller parts"):
            calor.zeros((COUNT + 1,), dtype=float32).numpy()
        # What was refused leaves the device as it was.
        assert part(x).numpy()[0] == 2 * data[last - 1]
