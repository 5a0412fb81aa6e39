"""PyCUDA under the names of CuPy's driver functions.

Requirements: PyCUDA has devices, primary contexts, streams, events and copies. It has no
stream-ordered memory and no graphs, and hides the handles of functions, by which graphs and launch
attributes name kernels; cuda-bindings provides those, as it does beside CuPy. A thread that ends
with a context on PyCUDA's stack aborts the process, so contexts are on it only while an object is
created. PyCUDA cannot free an object that another thread than its creator deletes, and it frees a
primary context by the call for other contexts; contexts, streams and events are therefore kept
until the process ends.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, NamedTuple

# CuPy's names of device properties, and PyCUDA's names of the attributes.
_ATTRIBUTES: Final = {
    "major": "COMPUTE_CAPABILITY_MAJOR",
    "minor": "COMPUTE_CAPABILITY_MINOR",
    "maxThreadsPerBlock": "MAX_THREADS_PER_BLOCK",
    "warpSize": "WARP_SIZE",
    "sharedMemPerBlockOptin": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "multiProcessorCount": "MULTIPROCESSOR_COUNT",
    "l2CacheSize": "L2_CACHE_SIZE",
}


class PyCudaError(RuntimeError):
    """A failure with the driver's code, as CuPy's errors have it; 0 if unknown."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status


class Event(NamedTuple):
    """An event of PyCUDA, and the list to which it returns."""

    event: Any
    idle: list[Any]


class PyCuda:
    """The functions of the runtime and the driver that calor uses, under CuPy's names."""

    streamNonBlocking = 1
    eventDisableTiming = 2
    memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice = 1, 2, 3
    cudaMemPoolAttrReleaseThreshold = 4
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8

    def __init__(self, pycuda: Any, bindings: Any) -> None:
        self.pycuda = pycuda
        self.bindings = bindings
        self.lock = threading.Lock()
        self.contexts: dict[int, Any] = {}
        self.handles: dict[int, int] = {}
        self.streams: dict[int, Any] = {}
        # By device and flags.
        self.idle: dict[tuple[int, int], list[Any]] = {}
        self.thread = threading.local()

    # Devices.
    def driverGetVersion(self) -> int:
        """Return the driver's CUDA version: 1000 times the major plus 10 times the minor number."""
        with self._told():
            return int(self.pycuda.get_driver_version())

    def runtimeGetVersion(self) -> int:
        """Return the CUDA version for which PyCUDA was built, in the same form."""
        major, minor, *_ = self.pycuda.get_version()
        return int(1000 * major + 10 * minor)

    def getDeviceCount(self) -> int:
        """Return the number of GPUs.

        Raises
        ------
        PyCudaError
            If the driver cannot start.
        """
        with self._told():
            self.pycuda.init()
            return int(self.pycuda.Device.count())

    def getDeviceProperties(self, number: int) -> dict[str, Any]:
        """Return the used device properties."""
        with self._told():
            self.pycuda.init()
            device = self.pycuda.Device(number)

            def ask(name: str) -> int:
                return int(device.get_attribute(getattr(self.pycuda.device_attribute, name)))

            return {
                "name": device.name(),
                "totalGlobalMem": int(device.total_memory()),
                "maxThreadsDim": tuple(ask(f"MAX_BLOCK_DIM_{axis}") for axis in "XYZ"),
                "maxGridSize": tuple(ask(f"MAX_GRID_DIM_{axis}") for axis in "XYZ"),
                **{name: ask(theirs) for name, theirs in _ATTRIBUTES.items()},
            }

    def deviceCanAccessPeer(self, number: int, other: int) -> int:
        """Return whether a GPU can access another one's memory."""
        with self._told():
            device = self.pycuda.Device
            return int(device(number).can_access_peer(device(other)))

    def setDevice(self, number: int) -> None:
        """Make a device's primary context current in this thread."""
        handle = self.handles.get(number) or self._context(number).handle
        self._made(self.bindings.cuCtxSetCurrent(handle))
        self.thread.number = number

    def _context(self, number: int) -> Any:
        with self.lock, self._told():
            if number not in self.contexts:
                self.pycuda.init()
                found = _kept(self.pycuda.Device(number).retain_primary_context())
                self.contexts[number], self.handles[number] = found, int(found.handle)
            return self.contexts[number]

    @contextmanager
    def _pushed(self) -> Iterator[None]:
        """Keep the context on PyCUDA's stack, which it reads when it creates an object."""
        number = self.thread.number
        with self._told():
            self._context(number).push()
            try:
                yield
            finally:
                self.pycuda.Context.pop()
        # Popping restores PyCUDA's previous context in this thread.
        self.setDevice(number)

    # Streams and events.
    def streamCreateWithFlags(self, flags: int) -> int:
        """Return the handle of a stream, which is never freed."""
        with self._pushed():
            stream = _kept(self.pycuda.Stream(flags))
        self.streams[stream.handle] = stream
        return int(stream.handle)

    def streamSynchronize(self, stream: int) -> None:
        """Wait for the work of a stream."""
        with self._told():
            self.streams[stream].synchronize()

    def streamWaitEvent(self, stream: int, event: Event) -> None:
        """Let later work of a stream wait for an event."""
        with self._told():
            self.streams[stream].wait_for_event(event.event)

    def eventCreate(self) -> Event:
        """Return an event with a time."""
        return self.eventCreateWithFlags(0)

    def eventCreateWithFlags(self, flags: int) -> Event:
        """Return an event, reused or new."""
        idle = self.idle.setdefault((self.thread.number, flags), [])
        try:
            return Event(idle.pop(), idle)
        except IndexError:
            with self._pushed():
                return Event(_kept(self.pycuda.Event(flags)), idle)

    def eventRecord(self, event: Event, stream: int) -> None:
        """Record an event after the present work of a stream."""
        with self._told():
            event.event.record(self.streams[stream])

    def eventElapsedTime(self, first: Event, second: Event) -> float:
        """Return the milliseconds between two events."""
        with self._told():
            return float(second.event.time_since(first.event))

    def eventDestroy(self, event: Event) -> None:
        """Keep an event for reuse."""
        event.idle.append(event.event)

    # Memory of the host, and copies.
    def hostAlloc(self, nbytes: int, flags: int) -> int:
        """Return page-locked memory."""
        (address,) = self._made(self.bindings.cuMemHostAlloc(nbytes, flags))
        return int(address)

    def freeHost(self, address: int) -> None:
        """Free page-locked memory."""
        self._made(self.bindings.cuMemFreeHost(address))

    def memcpyAsync(self, target: int, source: int, nbytes: int, kind: int, stream: int) -> None:
        """Queue a copy; data of the host have been read on return."""
        on = self.streams[stream]
        with self._told():
            if kind == self.memcpyHostToDevice:
                self.pycuda.memcpy_htod_async(target, _host(source, nbytes), on)
            elif kind == self.memcpyDeviceToHost:
                self.pycuda.memcpy_dtoh_async(_host(target, nbytes), source, on)
            else:
                self.pycuda.memcpy_dtod_async(target, source, nbytes, on)

    # Memory, kernels and graphs, by cuda-bindings.
    def deviceGetDefaultMemPool(self, number: int) -> int:
        """Return the handle of a device's pool."""
        (device,) = self._made(self.bindings.cuDeviceGet(number))
        (pool,) = self._made(self.bindings.cuDeviceGetDefaultMemPool(device))
        return int(pool)

    def memPoolSetAttribute(self, pool: int, attribute: int, value: int) -> None:
        """Set an attribute of a pool."""
        name = self.bindings.CUmemPool_attribute(attribute)
        given = self.bindings.cuuint64_t(value)
        self._made(self.bindings.cuMemPoolSetAttribute(pool, name, given))

    def memPoolTrimTo(self, pool: int, nbytes: int) -> None:
        """Return idle memory to the system."""
        self._made(self.bindings.cuMemPoolTrimTo(pool, nbytes))

    def mallocAsync(self, nbytes: int, stream: int) -> int:
        """Return memory in the order of a stream."""
        (address,) = self._made(self.bindings.cuMemAllocAsync(nbytes, stream))
        return int(address)

    def freeAsync(self, address: int, stream: int) -> None:
        """Free memory in the order of a stream."""
        self._made(self.bindings.cuMemFreeAsync(address, stream))

    def memcpyPeerAsync(
        self, target: int, number: int, source: int, other: int, nbytes: int, stream: int
    ) -> None:
        """Queue a copy between two GPUs; PyCUDA's own function takes no contexts."""
        to, of = self.handles[number], self.handles[other]
        self._made(self.bindings.cuMemcpyPeerAsync(target, to, source, of, nbytes, stream))

    def moduleLoadData(self, image: bytes) -> int:
        """Return the handle of a module loaded from an image."""
        (module,) = self._made(self.bindings.cuModuleLoadData(image))
        return int(module)

    def moduleGetFunction(self, module: int, name: str) -> int:
        """Return the handle of a kernel."""
        (function,) = self._made(self.bindings.cuModuleGetFunction(module, name.encode()))
        return int(function)

    def funcSetAttribute(self, function: int, attribute: int, value: int) -> None:
        """Set an attribute of a kernel."""
        name = self.bindings.CUfunction_attribute(attribute)
        self._made(self.bindings.cuFuncSetAttribute(function, name, value))

    def launchKernel(self, *given: int) -> None:
        """Queue a launch: function, grid, block, shared bytes, stream, addresses of arguments."""
        self._made(self.bindings.cuLaunchKernel(*given))

    def launchCooperativeKernel(self, *given: int) -> None:
        """Queue a launch whose cubes all start together; arguments without the last one."""
        self._made(self.bindings.cuLaunchCooperativeKernel(*given))

    def graphLaunch(self, graph: int, stream: int) -> None:
        """Queue the launches of a graph."""
        self._made(self.bindings.cuGraphLaunch(graph, stream))

    # Errors.
    def _made(self, answer: tuple[Any, ...]) -> list[Any]:
        code, *made = answer
        if int(code):
            raise PyCudaError(int(code), str(code))
        return made

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Convert PyCUDA's errors, which name the driver's error, to its code."""
        try:
            yield
        except self.pycuda.Error as error:
            said = str(error).partition(" failed: ")[2]
            raise PyCudaError(self._code(said), str(error)) from error

    def _code(self, said: str) -> int:
        for code in self.bindings.CUresult:
            answer, meaning = self.bindings.cuGetErrorString(code)
            if not int(answer) and said.startswith(meaning.decode()):
                return int(code)
        return 0


def _kept(made: Any) -> Any:
    """Return an object of PyCUDA that is never deleted, even at the interpreter's end."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return made


def _host(address: int, nbytes: int) -> Any:
    """Return host memory at an address as an object with a buffer."""
    return (ctypes.c_char * nbytes).from_address(address)


@cache
def pycuda_driver() -> PyCuda:
    """Return PyCUDA's functions under CuPy's names.

    Raises
    ------
    ImportError
        If PyCUDA or cuda-bindings is not installed.
    """
    import pycuda.driver
    from cuda.bindings import driver

    return PyCuda(pycuda.driver, driver)
