"""An AMD GPU: memory, queue, and description.

Requirements: CuPy's ROCm build has no stream-ordered allocator, so memory comes from the driver's
plain allocator, which waits when it frees; pools call it rarely.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calor.errors import DeviceError
from calor_cupy.driver.device import StreamQueue
from calor_cupy.driver.exchange import CupyExchange
from calor_cupy.driver.peers import PeerMemory
from calor_cupy.driver.stream import Stream
from calor_kernel.device.protocol import Device

from .bindings import CODES, arrays, compiler, modules, require, typed
from .description import architecture, describe
from .dialect import SHARED_BYTES
from .toolchain import HipToolchain

ROCM: Final = 10  # The device type of DLPack.


class HipMemory(PeerMemory):
    """Memory of the driver."""

    def alloc(self, nbytes: int) -> int:
        """Return memory."""
        with self.on.told(f"allocating {nbytes} bytes"):
            self.on.use()
            return int(self.on.runtime.malloc(max(nbytes, 1)))

    def free(self, handle: int) -> None:
        """Free memory after all queued work, for which this call waits."""
        with self.on.told("freeing memory"):
            self.on.use()
            self.on.wait()
            self.on.runtime.free(handle)

    def admit(self, other: int) -> None:
        """Let another GPU read and write this GPU's memory; the request goes to the other GPU."""
        with self.on.told(f"opening memory to GPU {other}"):
            self.on.runtime.setDevice(other)
            self.on.runtime.deviceEnablePeerAccess(self.on.number)


class HipDevice(Device):
    """The GPU with a number in the driver's list."""

    memory: HipMemory
    toolchain: HipToolchain
    queue: StreamQueue

    def __init__(self, number: int = 0, found: tuple[Any, Any] | None = None) -> None:
        runtime, driver = modules() if found is None else found
        require(number, runtime)
        with typed("asking what the device is"):
            said = runtime.getDeviceProperties(number)
            version = int(runtime.driverGetVersion())
        self.toolchain = self.compiler_for(said)
        # HIP_VERSION is 10,000,000 · major + 100,000 · minor + patch.
        release = f"{version // 10_000_000}.{version // 100_000 % 100}"
        self.info = describe(said, {"driver": release, "target": self.toolchain.target})
        stream = Stream(number, runtime, driver, CODES)
        self.memory = HipMemory(stream)
        self.queue = StreamQueue(stream, self.toolchain.dialect.entry, SHARED_BYTES)
        self.exchange = CupyExchange((ROCM, number), stream, self.arrays)

    def arrays(self) -> Any:
        """Return CuPy, which creates DLPack capsules."""
        return arrays()

    def compiler_for(self, found: Mapping[str, Any]) -> HipToolchain:
        """Return the toolchain for a device with these properties."""
        wave = int(found["warpSize"])
        if wave not in (32, 64):
            raise DeviceError(f"calor-hip supports waves of 32 and 64 units, not {wave}")
        major, minor = compiler().getVersion()
        return HipToolchain(architecture(found), wave, version=f"{major}.{minor}")

    def close(self) -> None:
        """Wait for queued work."""
        self.queue.synchronize()
        self.memory.peers.close()
