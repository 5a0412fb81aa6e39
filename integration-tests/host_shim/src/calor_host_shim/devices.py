"""The devices that run on imitated drivers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from calor.errors import CompileError
from calor_hip.description import architecture
from calor_hip.device import ROCM, HipDevice
from calor_hip.toolchain import HipToolchain
from calor_metal.device import MetalDevice
from calor_metal.toolchain import MetalToolchain

from .compiler import Refused, version
from .cupy_arrays import ImitatedCupy
from .hip import ImitatedHip
from .hip_text import host_image
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


class HostHipToolchain(HipToolchain):
    """HIP C++ as images of the host."""

    def __init__(self, processor: str, wave: int) -> None:
        super().__init__(processor, wave, version=version())

    def compile(self, source: str, name: str) -> bytes:
        """Return the shared object; CompileError with the compiler's message and the text."""
        try:
            return host_image(source)
        except Refused as error:
            raise CompileError(
                f"the compiler refuses kernel {name!r}: {error}\n{source}"
            ) from error


class HostHipDevice(HipDevice):
    """calor-hip's device on an imitation of CuPy."""

    def compiler_for(self, found: Mapping[str, Any]) -> HipToolchain:
        """Return the host's."""
        return HostHipToolchain(architecture(found), int(found["warpSize"]))

    def arrays(self) -> Any:
        """Return the imitation of CuPy's arrays."""
        return ImitatedCupy(self.memory.on.runtime, ROCM, self.memory.alloc)


@cache
def imitated_hip() -> ImitatedHip:
    """Return the imitation that the devices share."""
    return ImitatedHip()


def hip_device(number: int = 0) -> HipDevice:
    """Return calor-hip's device on the imitation: 0 has waves of 64 units, and 1 of 32."""
    hip = imitated_hip()
    return HostHipDevice(number, (hip.runtime, hip.driver))
