"""These tests run on the strict device, in a trace of their own."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

import calor
from calor.backends.device import Device
from calor.plugins.discovery import get_device
from calor.recording.trace import flush_all

DEVICE = "strict:numpy"


@pytest.fixture(autouse=True)
def device() -> Iterator[Device]:
    with calor.device(DEVICE):
        yield get_device(DEVICE)
        flush_all()


@pytest.fixture
def in_use(device: Device) -> Callable[[], int]:
    """Return a function that gives the bytes in use on the device, garbage aside."""

    def measure() -> int:
        flush_all()
        gc.collect()
        return device.memory.in_use

    return measure
