"""The devices that run on imitated drivers."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from calor_metal.device import MetalDevice
from calor_metal.toolchain import MetalToolchain

from .compiler import version
from .metal import METAL


class HostMetalToolchain(MetalToolchain):
    """Metal's toolchain on the imitation."""

    def metal(self) -> Any:
        """Return the imitation."""
        return METAL

    def pool(self) -> AbstractContextManager[Any]:
        """Return the imitation's."""
        return METAL.autorelease_pool()


def metal_device(number: int = 0) -> MetalDevice:
    """Return calor-metal's device on the imitation of Metal."""
    return MetalDevice(number, HostMetalToolchain(f"metal on {version()}", number))
