"""Each test of the rows runs on the rows' device, in a trace of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import calor
from calor.graph.trace import flush_all

from .device import DEVICE


@pytest.fixture(autouse=True)
def rows_device() -> Iterator[None]:
    with calor.device(DEVICE):
        yield
        flush_all()
