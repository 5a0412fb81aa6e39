"""The devices of the tests: what Metal's text does, on the processor, and calls that are kept."""

from collections.abc import Iterator
from typing import Any

import pytest

ABSENT = "there is no C++ compiler for Linux"


@pytest.fixture(scope="session")
def device() -> Iterator[Any]:
    """The device on the imitation of Metal, or a skip where nothing compiles its text."""
    from calor_host_shim.compiler import compiler
    from calor_host_shim.devices import metal_device

    if compiler() is None:
        pytest.skip(ABSENT)
    opened = metal_device()
    yield opened
    opened.close()


@pytest.fixture
def exact(device: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """That device without contraction, which is tested by itself: results have the same bits."""
    monkeypatch.setattr(device.toolchain.dialect, "fast_fma", False)
    return device
