"""An NVIDIA GPU: memory, queue, and description.

Requirements: memory comes from the driver's stream-ordered allocator, and the process keeps freed
memory. A recorded list that runs again becomes a graph.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from calor_cuda.cuda_cpp.dialect import STATIC_BYTES
from calor_cupy.driver.launches import Recorded
from calor_cupy.driver.links import CupyLinks
from calor_cupy.driver.peers import PeerMemory
from calor_cupy.driver.stream import Stream
from calor_kernel.device.protocol import Device, Step

from .bindings import CODES, arrays, failure, library, nccl_module, require, typed
from .description import describe, shares_cores
from .exchange import CUDA, ByCapsules, ByCupy
from .launches import OVERLAP, Repeated
from .loops import LoopQueue, switched_on
from .toolchain import CudaToolchain, architecture

_FOREVER: Final = 2**63 - 1


class CudaMemory(PeerMemory):
    """Memory of the driver's stream-ordered allocator."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        runtime = stream.runtime
        with stream.told("opening the device"):
            # The process keeps freed memory, because a return to the system would wait.
            pool = runtime.deviceGetDefaultMemPool(stream.number)
            runtime.memPoolSetAttribute(pool, runtime.cudaMemPoolAttrReleaseThreshold, _FOREVER)
        self.pool = pool

    def alloc(self, nbytes: int) -> int:
        """Return memory for work that is queued from now on."""
        with self.on.told(f"allocating {nbytes} bytes"):
            self.on.use()
            return int(self.on.runtime.mallocAsync(max(nbytes, 1), self.on.stream))

    def free(self, handle: int) -> None:
        """Free memory in the order of the stream."""
        with self.on.told("freeing memory"):
            self.on.use()
            self.on.runtime.freeAsync(handle, self.on.stream)

    def admit(self, other: int) -> None:
        """Let another GPU read and write memory of the pool."""
        from cuda.bindings import driver

        said = driver.CUmemAccessDesc()
        said.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        said.location.id = other
        said.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        (code, *_) = driver.cuMemPoolSetAccess(driver.CUmemoryPool(self.pool), [said], 1)
        if int(code):
            raise failure(int(code), f"opening memory to GPU {other}", number=self.on.number)


class CudaQueue(LoopQueue):
    """One stream; recorded lists are launches, and a graph from their second run on.

    ``overlapping``: whether a launch of a graph starts while the one before it ends.
    """

    overlapping = False

    def record(self, steps: Sequence[Step], slots: int) -> Repeated:
        """Return the launches with all arguments set except buffers."""
        launch = self.on.runtime.graphLaunch
        return Repeated(steps, self.on.stream, launch, self.overlapping)

    def seconds(self, recorded: Recorded, handles: Sequence[int]) -> list[float]:
        """Run once, as a graph with events between the launches, and return the device times."""
        assert isinstance(recorded, Repeated)
        with self.on.lock, self.on.told("timing kernels"):
            self.on.use()
            graph = recorded.timed(handles)
            self.on.runtime.graphLaunch(graph.executable, self.on.stream)
            self.on.wait()
            found = iter(graph.seconds())
        return [0.0 if empty else next(found) for empty in recorded.empty]


class CudaDevice(Device):
    """The GPU with a number in the driver's list."""

    memory: CudaMemory
    toolchain: CudaToolchain
    queue: CudaQueue

    def __init__(self, number: int = 0) -> None:
        require(number)
        name, (runtime, driver) = library()
        with typed("asking what the device is"):
            found = runtime.getDeviceProperties(number)
            version = runtime.driverGetVersion()
            versions = {
                "library": name,
                "driver": version,
                "runtime": runtime.runtimeGetVersion(),
            }
        target = architecture((found["major"], found["minor"]))
        self.toolchain = CudaToolchain(target)
        own = {"target": self.toolchain.target, "shared": shares_cores(os.environ)}
        self.info = describe(found, {**versions, **own})
        stream = Stream(number, runtime, driver, CODES)
        self.memory = CudaMemory(stream)
        self.queue = CudaQueue(stream, self.toolchain.dialect.entry, STATIC_BYTES)
        self.queue.overlapping = found["major"] >= 9 and os.environ.get(OVERLAP, "1") != "0"
        self.queue.compile = self.toolchain.compile
        self.queue.loops = switched_on(version)
        place = (CUDA, number)
        if name == "CuPy":
            self.exchange = ByCupy(place, stream, arrays)
        else:
            self.exchange = ByCapsules(place, stream.stream, self.queue.synchronize)

    def link(self, devices: Sequence[Device]) -> CupyLinks:
        """Return NCCL communicators of these GPUs."""
        memories = [d.memory for d in devices if isinstance(d, CudaDevice)]
        return CupyLinks(memories, nccl_module())

    def close(self) -> None:
        """Wait for queued work, and return idle memory to the system."""
        self.queue.synchronize()
        self.memory.peers.close()
        self.memory.page_locked.close()
        with typed("closing the device"):
            self.memory.on.runtime.memPoolTrimTo(self.memory.pool, 0)
