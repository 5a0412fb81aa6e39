"""An NVIDIA GPU: memory, queue, and what it says of itself.

Requirements: all work of a device is in the order of one stream, so that nothing needs events, and
memory that is freed serves what was queued before; any thread may call, so that each call says
which device it means; a handle of memory is its address, so that parts are sums.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Final

import numpy as np

from calor.errors import DeviceLostError
from calor_kernel.ir.nodes import Kernel
from calor_kernel.printers.cuda_cpp.dialect import STATIC_BYTES
from calor_kernel.runtime.device import Device, Memory, Queue, Step

from .bindings import modules, require, typed
from .description import describe
from .exchange import CudaExchange
from .launches import Function, Recorded, load
from .links import CudaLinks
from .peers import Peers
from .toolchain import CudaToolchain, architecture

_FOREVER: Final = 2**63 - 1


class Stream:
    """A stream of a device, and the functions of the driver that use it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.runtime, self.driver = modules()
        # Why the GPU is lost to this process, once it is: the driver fails every call from then on.
        self.lost = ""
        with self.told("opening the device"):
            self.runtime.setDevice(number)
            self.stream = self.runtime.streamCreateWithFlags(self.runtime.streamNonBlocking)
        self.lock = threading.Lock()

    @contextmanager
    def told(self, what: str) -> Iterator[None]:
        """Turn errors of CUDA into those of calor, and remember that the GPU is lost."""
        try:
            with typed(what, self.number):
                yield
        except DeviceLostError as error:
            self.lost = self.lost or str(error)
            raise

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the stream to other libraries, by version 0 of their protocol."""
        return 0, self.stream

    def use(self) -> None:
        """Make the device the one that this thread's calls mean; DeviceLostError if it is lost."""
        if self.lost:
            raise DeviceLostError(self.lost)
        self.runtime.setDevice(self.number)

    def wait(self) -> None:
        """Wait for what was queued."""
        self.runtime.streamSynchronize(self.stream)


class CudaMemory(Memory):
    """Memory of the driver's stream-ordered allocator. A handle is an address."""

    def __init__(self, stream: Stream) -> None:
        self.on = stream
        runtime = stream.runtime
        with stream.told("opening the device"):
            # What is freed stays with the process: giving it back to the system would wait.
            pool = runtime.deviceGetDefaultMemPool(stream.number)
            runtime.memPoolSetAttribute(pool, runtime.cudaMemPoolAttrReleaseThreshold, _FOREVER)
        self.pool = pool
        self.peers = Peers(self)

    def alloc(self, nbytes: int) -> int:
        """Return memory that what is queued from now on may use."""
        with self.on.told(f"allocating {nbytes} bytes"):
            self.on.use()
            return int(self.on.runtime.mallocAsync(max(nbytes, 1), self.on.stream))

    def free(self, handle: int) -> None:
        """Give memory back in the order of the stream."""
        with self.on.told("freeing memory"):
            self.on.use()
            self.on.runtime.freeAsync(handle, self.on.stream)

    def copy_in(self, handle: int, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Write from the host, and wait for it: the array may lie in memory that is not staged."""
        if self._copied(handle + offset, _address(array), array.nbytes, "HostToDevice"):
            self.on.wait()

    def write(self, handle: int, data: bytes) -> None:
        """Write a few bytes, which the driver takes over before it returns."""
        self._copied(handle, _address(np.frombuffer(data, np.uint8)), len(data), "HostToDevice")

    def copy_out(self, handle: int, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Read to the host, and wait for it."""
        if self._copied(_address(array), handle + offset, array.nbytes, "DeviceToHost"):
            with self.on.told("computing what was read"):
                self.on.wait()

    def copy(self, target: int, at: int, source: int, offset: int, nbytes: int) -> None:
        """Copy between places of the device, in the order of the stream."""
        self._copied(target + at, source + offset, nbytes, "DeviceToDevice")

    def receive(
        self, handle: int, at: int, sender: Memory, source: int, offset: int, nbytes: int
    ) -> bool:
        """Copy from another GPU, in the order of both streams."""
        if not isinstance(sender, CudaMemory):
            return False
        self.peers.receive(handle + at, sender, source + offset, nbytes)
        return True

    def _copied(self, target: int, source: int, nbytes: int, way: str) -> bool:
        if not nbytes:
            return False
        runtime = self.on.runtime
        with self.on.told(f"copying {nbytes} bytes"):
            self.on.use()
            kind = getattr(runtime, f"memcpy{way}")
            runtime.memcpyAsync(target, source, nbytes, kind, self.on.stream)
        return True

    def part(self, handle: int, offset: int, nbytes: int) -> int:
        """Return the address of a part."""
        return handle + offset


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


class CudaQueue(Queue):
    """One stream; recorded lists are launches, or a graph from their second run on."""

    def __init__(self, stream: Stream, toolchain: CudaToolchain) -> None:
        self.on = stream
        self.toolchain = toolchain

    def load(self, image: bytes, kernel: Kernel | Any) -> Function:
        """Return the function of an image."""
        name = self.toolchain.dialect.entry(kernel.name)
        with self.on.told(f"loading kernel {kernel.name!r}"):
            self.on.use()
            return load(self.on.driver, image, kernel, name, STATIC_BYTES)

    def record(self, steps: Sequence[Step], slots: int) -> Recorded:
        """Return the launches with all arguments set but buffers."""
        return Recorded(steps, self.on.stream)

    def run(self, recorded: Recorded, handles: Sequence[int]) -> None:
        """Queue all launches and return."""
        on = self.on
        with on.lock:
            on.runtime.setDevice(on.number)
            try:
                recorded.run(handles, on.driver.launchKernel, on.runtime.graphLaunch)
            except RuntimeError:
                with self.on.told("running kernels"):
                    raise

    def direct(self, recorded: Recorded) -> Callable[..., None] | None:
        """Return what runs a launch with a handle per slot; None for more launches."""
        if len(recorded.launches) != 1:
            return None
        (launch,), on = recorded.launches, self.on
        lock, use, launch_kernel = on.lock, on.runtime.setDevice, on.driver.launchKernel
        number, place = on.number, recorded.put

        def call(*handles: int) -> None:
            with lock:
                use(number)
                if handles != recorded.handles:
                    place(handles)
                try:
                    launch_kernel(*launch)
                except RuntimeError:
                    with on.told("running kernels"):
                        raise

        return call

    def synchronize(self) -> None:
        """Wait for the stream."""
        with self.on.told("waiting for kernels"):
            self.on.use()
            self.on.wait()

    def seconds(self, recorded: Recorded, handles: Sequence[int]) -> list[float]:
        """Run once, launch by launch with events between, and return the device's times."""
        runtime, stream = self.on.runtime, self.on.stream
        with self.on.lock, self.on.told("timing kernels"):
            self.on.use()
            recorded.put(handles)
            events = [runtime.eventCreate() for _ in range(len(recorded.launches) + 1)]
            try:
                runtime.eventRecord(events[0], stream)
                for launch, event in zip(recorded.launches, events[1:], strict=True):
                    self.on.driver.launchKernel(*launch)
                    runtime.eventRecord(event, stream)
                self.on.wait()
                times = [runtime.eventElapsedTime(*pair) * 1e-3 for pair in pairwise(events)]
            finally:
                for event in events:
                    runtime.eventDestroy(event)
        found = iter(times)
        return [0.0 if empty else next(found) for empty in recorded.empty]


class CudaDevice(Device):
    """The GPU of a number in the driver's list."""

    memory: CudaMemory
    toolchain: CudaToolchain
    queue: CudaQueue

    def __init__(self, number: int = 0) -> None:
        require(number)
        runtime, _ = modules()
        with typed("asking what the device is"):
            found = runtime.getDeviceProperties(number)
            versions = {
                "driver": runtime.driverGetVersion(),
                "runtime": runtime.runtimeGetVersion(),
            }
        target = architecture((found["major"], found["minor"]))
        self.toolchain = CudaToolchain(target)
        self.info = describe(found, {**versions, "target": self.toolchain.target})
        stream = Stream(number)
        self.memory = CudaMemory(stream)
        self.queue = CudaQueue(stream, self.toolchain)
        self.exchange = CudaExchange(number, stream)

    def link(self, devices: Sequence[Device]) -> CudaLinks:
        """Return NCCL's communicators of these GPUs."""
        return CudaLinks([d for d in devices if isinstance(d, CudaDevice)])

    def close(self) -> None:
        """Wait for what was queued, and give idle memory back to the system."""
        self.queue.synchronize()
        with typed("closing the device"):
            self.memory.on.runtime.memPoolTrimTo(self.memory.pool, 0)
