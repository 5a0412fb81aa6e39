"""An AMD GPU: memory, queue, and what it says of itself.

Requirements: CuPy's build for ROCm has no stream-ordered allocator, so that memory comes from the
driver's plain one, which waits where it frees; pools ask it rarely.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calor.errors import DeviceError
from calor_kernel.device.cupy_driver.device import Stream, StreamQueue
from calor_kernel.device.cupy_driver.exchange import CupyExchange
from calor_kernel.device.cupy_driver.peers import PeerMemory
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
        """Give memory back when everything that was queued is finished, for which this waits."""
        with self.on.told("freeing memory"):
            self.on.use()
            self.on.wait()
            self.on.runtime.free(handle)

    def admit(self, other: int) -> None:
        """Let another GPU read and write memory of this one, which is asked of that one."""
        with self.on.told(f"opening memory to GPU {other}"):
            self.on.runtime.setDevice(other)
            self.on.runtime.deviceEnablePeerAccess(self.on.number)


class HipDevice(Device):
    """The GPU of a number in the driver's list."""

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
        # HIP_VERSION is 10,000,000 times the major number, 100,000 times the minor, and the patch.
        release = f"{version // 10_000_000}.{version // 100_000 % 100}"
        self.info = describe(said, {"driver": release, "target": self.toolchain.target})
        stream = Stream(number, runtime, driver, CODES)
        self.memory = HipMemory(stream)
        self.queue = StreamQueue(stream, self.toolchain.dialect.entry, SHARED_BYTES)
        self.exchange = CupyExchange((ROCM, number), stream, self.arrays)

    def arrays(self) -> Any:
        """Return CuPy, which makes the capsules of DLPack."""
        return arrays()

    def compiler_for(self, found: Mapping[str, Any]) -> HipToolchain:
        """Return what compiles for a device of these properties."""
        wave = int(found["warpSize"])
        if wave not in (32, 64):
            raise DeviceError(f"calor-hip is for waves of 32 and 64 units, not {wave}")
        major, minor = compiler().getVersion()
        return HipToolchain(architecture(found), wave, version=f"{major}.{minor}")

    def close(self) -> None:
        """Wait for what was queued."""
        self.queue.synchronize()
        self.memory.peers.close()
