"""Memory and queue of a GPU, run by CuPy's driver functions.

Requirements: all work of a device is in one stream's order, so no events are needed and freed
memory remains valid for queued work. Any thread may call, so each call selects its device. A handle
of memory is its address, so parts are sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from calor_cupy.driver.launches import Function, Recorded, load
from calor_cupy.driver.loads import Loads
from calor_cupy.driver.page_locked import PageLocked
from calor_cupy.driver.stream import Stream
from calor_kernel.device.protocol import Memory, Queue, Step
from calor_kernel.ir.nodes import Kernel


class StreamMemory(Memory):
    """Memory with addresses as handles; plugins allocate it."""

    def __init__(self, stream: Stream) -> None:
        self.on = stream
        self.page_locked = PageLocked(stream)
        self.loads = Loads(stream)

    def host_array(self, nbytes: int) -> np.ndarray[Any, Any] | None:
        """Return page-locked memory of the host."""
        return self.page_locked.array(nbytes)

    def load(self, handle: int, array: np.ndarray[Any, Any]) -> None:
        """Begin a copy from the host on a stream of its own."""
        if array.nbytes:
            self.loads.load(handle, _address(array), array.nbytes, array)

    def settle(self, handles: Iterable[int] | None = None) -> None:
        """Let the stream wait for copies."""
        self.loads.settle(handles)

    def unload(self, handle: int, array: np.ndarray[Any, Any]) -> None:
        """Begin a copy to the host in stream order; the array lives until it is done."""
        if self._copied(_address(array), handle, array.nbytes, "DeviceToHost"):
            self.on.keep(array)

    def copy_in(self, handle: int, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Write from the host and wait, because pageable memory may not be staged yet."""
        if self._copied(handle + offset, _address(array), array.nbytes, "HostToDevice"):
            with self.on.told("computing what comes before a copy"):
                self.on.wait()

    def write(self, handle: int, data: bytes) -> None:
        """Write a few bytes, which the driver copies before it returns."""
        self._copied(handle, _address(np.frombuffer(data, np.uint8)), len(data), "HostToDevice")

    def copy_out(self, handle: int, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Read to the host and wait."""
        if self._copied(_address(array), handle + offset, array.nbytes, "DeviceToHost"):
            with self.on.told("computing what was read"):
                self.on.wait()

    def copy(self, target: int, at: int, source: int, offset: int, nbytes: int) -> None:
        """Copy between addresses of the device, in stream order."""
        self._copied(target + at, source + offset, nbytes, "DeviceToDevice")

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


class StreamQueue(Queue):
    """One stream, and its recorded launches. ``entry``: the kernel's name in the text."""

    def __init__(self, stream: Stream, entry: Callable[[str], str], static_bytes: int) -> None:
        self.on = stream
        self.entry = entry
        self.static_bytes = static_bytes

    def load(self, image: bytes, kernel: Kernel | Any) -> Function:
        """Return the function of an image."""
        name = self.entry(kernel.name)
        with self.on.told(f"loading kernel {kernel.name!r}"):
            self.on.use()
            return load(self.on.driver, image, kernel, name, self.static_bytes)

    def record(self, steps: Sequence[Step], slots: int) -> Recorded:
        """Return the launches with all arguments set except buffers."""
        return Recorded(steps, self.on.stream)

    def run(self, recorded: Recorded, handles: Sequence[int]) -> None:
        """Queue all launches and return."""
        on = self.on
        with on.lock:
            try:
                on.runtime.setDevice(on.number)
                recorded.run(handles, self._launch(recorded))
            except RuntimeError:
                with on.told("running kernels"):
                    raise

    def direct(self, recorded: Recorded) -> Callable[..., None]:
        """Return the runner of a list with a handle per slot; a single launch has a fast path."""
        on = self.on
        lock, use, launch_kernel = on.lock, on.runtime.setDevice, self._launch(recorded)
        number, place, run = on.number, recorded.put, recorded.run
        if len(recorded.launches) != 1:

            def several(*handles: int) -> None:
                with lock:
                    try:
                        use(number)
                        run(handles, launch_kernel)
                    except RuntimeError:
                        with on.told("running kernels"):
                            raise

            return several
        (launch,) = recorded.launches

        def call(*handles: int) -> None:
            with lock:
                try:
                    use(number)
                    if handles != recorded.handles:
                        place(handles)
                    launch_kernel(*launch)
                except RuntimeError:
                    with on.told("running kernels"):
                        raise

        return call

    def _launch(self, recorded: Recorded) -> Callable[..., None]:
        """Return the call that queues a launch of a list.

        Cubes that wait for each other start together, or the driver refuses the launch.
        """
        driver, together = self.on.driver, recorded.together
        if not together:
            return driver.launchKernel

        def launch(function: int, *given: int) -> None:
            if function in together:
                driver.launchCooperativeKernel(function, *given[:-1])
            else:
                driver.launchKernel(function, *given)

        return launch

    def synchronize(self) -> None:
        """Wait for the stream."""
        with self.on.told("waiting for kernels"):
            self.on.use()
            self.on.wait()

    def seconds(self, recorded: Recorded, handles: Sequence[int]) -> list[float]:
        """Run once, with events between the launches, and return the device times."""
        runtime, stream = self.on.runtime, self.on.stream
        with self.on.lock, self.on.told("timing kernels"):
            self.on.use()
            recorded.put(handles)
            launch_kernel = self._launch(recorded)
            events = [runtime.eventCreate() for _ in range(len(recorded.launches) + 1)]
            try:
                runtime.eventRecord(events[0], stream)
                for launch, event in zip(recorded.launches, events[1:], strict=True):
                    launch_kernel(*launch)
                    runtime.eventRecord(event, stream)
                self.on.wait()
                times = [runtime.eventElapsedTime(*pair) * 1e-3 for pair in pairwise(events)]
            finally:
                for event in events:
                    runtime.eventDestroy(event)
        found = iter(times)
        return [0.0 if empty else next(found) for empty in recorded.empty]
