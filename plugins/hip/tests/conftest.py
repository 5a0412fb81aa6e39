"""The devices of the tests: what HIP's text does, on the processor, and clang for code objects."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from amd_code import TOOLS, missing

ABSENT = "there is no C++ compiler for Linux"
NO_CLANG = "there is no clang for AMD's processors; apt-get install clang-22 lld-22 llvm-22"


def opened(number: int) -> Any:
    from calor_host_shim.compiler import compiler, runtime
    from calor_host_shim.devices import hip_device

    if compiler() is None:
        pytest.skip(ABSENT)
    # What it compiles is kept on disk by its own hash, also by tests without calor's cache.
    runtime()
    made = hip_device(number)
    # Contraction is tested by itself: here results have the same bits.
    made.toolchain.dialect.fast_fma = False
    return made


@pytest.fixture(scope="session")
def cdna() -> Iterator[Any]:
    """A device with waves of 64 units, or a skip where nothing compiles its text."""
    made = opened(0)
    yield made
    made.close()


@pytest.fixture(scope="session")
def rdna() -> Iterator[Any]:
    """A device with waves of 32 units."""
    made = opened(1)
    yield made
    made.close()


@pytest.fixture
def fake() -> Any:
    """An imitated driver of its own, whose calls and failures nobody else sees."""
    from calor_host_shim.hip import ImitatedHip

    return ImitatedHip()


@pytest.fixture(scope="session")
def clang() -> str:
    """A clang that compiles for AMD's processors, or a skip that says how to get it."""
    found = shutil.which(TOOLS[0])
    if found is None or missing() is not None:
        pytest.skip(NO_CLANG)
    return found
