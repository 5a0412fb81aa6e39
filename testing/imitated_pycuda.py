"""PyCUDA and cuda-bindings without a GPU, on the memory of the imitated driver.

Requirements: it takes the calls that calor-cuda makes of both, with their argument types, and has
PyCUDA's rules: an object is made while its context is on the stack of the thread, which is empty
when the thread ends, and belongs to the context then; errors have no codes but the driver's words.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from types import ModuleType, SimpleNamespace
from typing import Any

from imitated_cuda import H200, CudaError, Fake

# What the driver says of a code, with PyCUDA's class of error for it.
MEANINGS = {
    1: "invalid argument",
    2: "out of memory",
    100: "no CUDA-capable device is detected",
    700: "an illegal memory access was encountered",
    719: "unspecified launch failure",
}
NAMES = {
    "COMPUTE_CAPABILITY_MAJOR": "major",
    "COMPUTE_CAPABILITY_MINOR": "minor",
    "MAX_THREADS_PER_BLOCK": "maxThreadsPerBlock",
    "WARP_SIZE": "warpSize",
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": "sharedMemPerBlockOptin",
    "MULTIPROCESSOR_COUNT": "multiProcessorCount",
    "L2_CACHE_SIZE": "l2CacheSize",
}


class Error(Exception):
    """PyCUDA's errors, which are no RuntimeErrors."""


class MemoryError_(Error):
    """PyCUDA's error of memory."""


class ImitatedPyCuda:
    """The state that PyCUDA adds to that of the driver, and its module."""

    def __init__(self, fake: Fake) -> None:
        self.fake = fake
        self.thread = threading.local()
        # Every object by the thread that made it: PyCUDA cannot give others back.
        self.events = 0
        self.fails = 0
        made = self.module = ModuleType("pycuda.driver")
        parts = {
            "Error": Error,
            "MemoryError": MemoryError_,
            "Device": type("Device", (Device,), {"of": self, "count": staticmethod(self.count)}),
            "Context": SimpleNamespace(pop=self.pop),
            "Stream": lambda flags: Stream(self, flags),
            "Event": lambda flags: Event(self, flags),
            "device_attribute": SimpleNamespace(
                **{n: n for n in NAMES},
                **{f"MAX_{kind}_DIM_{axis}": (kind, axis)
                   for kind in ("BLOCK", "GRID") for axis in "XYZ"},
            ),
        }  # fmt: skip
        for name in ("init", "get_version", "get_driver_version"):
            parts[name] = getattr(self, name)
        for name in ("memcpy_htod_async", "memcpy_dtoh_async", "memcpy_dtod_async"):
            parts[name] = getattr(self, name)
        for name, value in parts.items():
            setattr(made, name, value)

    @property
    def stack(self) -> list[Any]:
        """The contexts of this thread as PyCUDA knows them."""
        if not hasattr(self.thread, "stack"):
            self.thread.stack = []
        found: list[Any] = self.thread.stack
        return found

    def install(self, patch: Any) -> None:
        """Put PyCUDA where CuPy is not."""
        from calor_cuda import pycuda_driver

        whole = ModuleType("pycuda")
        whole.driver = self.module  # type: ignore[attr-defined]
        patch.setitem(sys.modules, "pycuda", whole)
        patch.setitem(sys.modules, "pycuda.driver", self.module)
        patch.setitem(sys.modules, "cupy_backends.cuda.api", None)
        for name in (n for n in dir(self) if n.startswith("cu")):
            if name != "count":
                patch.setattr(f"cuda.bindings.driver.{name}", self.answered(getattr(self, name)))
        made = pycuda_driver.PyCuda(self.module, sys.modules["cuda.bindings.driver"])
        patch.setattr(pycuda_driver, "pycuda_driver", lambda: made)

    # PyCUDA.
    def failing(self, name: str) -> None:
        """Raise what PyCUDA raises, if that was asked for."""
        self.fake.calls.append(name)
        if self.fails:
            code, self.fails = self.fails, 0
            raise (MemoryError_ if code == 2 else Error)(f"{name} failed: {MEANINGS[code]}")

    def init(self) -> None:
        self.failing("cuInit")
        if not self.fake.devices:
            raise Error(f"cuInit failed: {MEANINGS[100]}")

    def count(self) -> int:
        return len(self.fake.devices)

    def get_version(self) -> tuple[int, int, int]:
        return 13, 0, 0

    def get_driver_version(self) -> int:
        return 13000

    def pop(self) -> None:
        self.stack.pop()

    def _copied(self, name: str, to: int, of: int, size: int, kind: int, on: Stream) -> None:
        self.failing(name)
        self.fake.runtime_memcpyAsync(to, of, size, kind, on.handle)

    def memcpy_htod_async(self, target: int, source: Any, on: Stream) -> None:
        view = memoryview(source)
        address = ctypes.addressof((ctypes.c_char * view.nbytes).from_buffer(view))
        self._copied("memcpy_htod_async", target, address, view.nbytes, 1, on)

    def memcpy_dtoh_async(self, target: Any, source: int, on: Stream) -> None:
        view = memoryview(target)
        assert not view.readonly
        address = ctypes.addressof((ctypes.c_char * view.nbytes).from_buffer(view))
        self._copied("memcpy_dtoh_async", address, source, view.nbytes, 2, on)

    def memcpy_dtod_async(self, target: int, source: int, size: int, on: Stream) -> None:
        self._copied("memcpy_dtod_async", target, source, size, 3, on)

    # cuda-bindings: a code, and what was made.
    def answered(self, function: Any) -> Any:
        name = function.__name__

        def call(*arguments: Any) -> Any:
            self.fake.calls.append(name)
            try:
                made = function(*arguments)
            except CudaError as error:
                return error.status, None
            return (0,) if made is None else (0, made)

        return call

    def cuGetErrorString(self, code: Any) -> bytes:
        if int(code) not in MEANINGS:
            raise CudaError(1)
        return MEANINGS[int(code)].encode()

    def cuCtxSetCurrent(self, context: int) -> None:
        self.fake.runtime_setDevice(context - 500)

    def cuDeviceGet(self, number: int) -> int:
        return number

    def cuDeviceGetDefaultMemPool(self, number: int) -> int:
        return self.fake.runtime_deviceGetDefaultMemPool(number)

    def cuMemPoolSetAttribute(self, pool: int, attribute: Any, value: Any) -> None:
        assert attribute.name == "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD"
        self.fake.runtime_memPoolSetAttribute(pool, int(attribute), int(value))

    def cuMemPoolTrimTo(self, pool: int, size: int) -> None:
        self.fake.runtime_memPoolTrimTo(pool, size)

    def cuMemAllocAsync(self, size: int, stream: int) -> int:
        assert stream == 77 + self.fake.current
        return self.fake.runtime_mallocAsync(size, stream)

    def cuMemHostAlloc(self, size: int, flags: int) -> int:
        return self.fake.runtime_hostAlloc(size, flags)

    def cuMemFreeHost(self, address: int) -> None:
        self.fake.runtime_freeHost(address)

    def cuMemFreeAsync(self, address: int, stream: int) -> None:
        self.fake.runtime_freeAsync(address, stream)

    def cuMemcpyPeerAsync(
        self, to: int, target: int, of: int, source: int, size: int, stream: int
    ) -> None:
        self.fake.runtime_memcpyPeerAsync(to, target - 500, of, source - 500, size, stream)

    def cuModuleLoadData(self, image: bytes) -> int:
        return self.fake.driver_moduleLoadData(image)

    def cuModuleGetFunction(self, module: int, name: bytes) -> int:
        assert isinstance(name, bytes)
        return module

    def cuFuncSetAttribute(self, function: int, attribute: Any, value: int) -> None:
        assert attribute.name == "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"
        self.fake.driver_funcSetAttribute(function, 8, value)

    def cuLaunchKernel(self, *given: int) -> None:
        if self.fails:
            code, self.fails = self.fails, 0
            raise CudaError(code)
        self.fake.driver_launchKernel(*given)

    def cuLaunchCooperativeKernel(self, *given: int) -> None:
        self.fake.driver_launchCooperativeKernel(*given)

    def cuGraphLaunch(self, graph: int, stream: int) -> None:
        self.fake.runtime_graphLaunch(graph, stream)


class Device:
    """A device of PyCUDA."""

    of: ImitatedPyCuda

    def __init__(self, number: int) -> None:
        self.number = number

    def name(self) -> str:
        return self.said["name"].decode()  # type: ignore[no-any-return]

    @property
    def said(self) -> dict[str, Any]:
        return self.of.fake.devices[self.number]

    def total_memory(self) -> int:
        return int(self.said["totalGlobalMem"])

    def get_attribute(self, name: Any) -> int:
        if isinstance(name, tuple):
            found = "maxThreadsDim" if name[0] == "BLOCK" else "maxGridSize"
            return int(self.said[found]["XYZ".index(name[1])])
        return int(self.said[NAMES[name]])

    def can_access_peer(self, other: Device) -> bool:
        return bool(self.of.fake.runtime_deviceCanAccessPeer(self.number, other.number))

    def retain_primary_context(self) -> Context:
        return Context(self.of, self.number)


class Context:
    """A primary context, by the handle 500 and the number of its device."""

    def __init__(self, of: ImitatedPyCuda, number: int) -> None:
        self.of = of
        self.number = number
        self.handle = 500 + number

    def push(self) -> None:
        self.of.stack.append(self)
        self.of.fake.current = self.number


class Made:
    """What belongs to the context on top of the thread's stack."""

    def __init__(self, of: ImitatedPyCuda) -> None:
        assert of.stack, "no currently active context?"
        self.of = of
        self.number = of.stack[-1].number


class Stream(Made):
    """A stream, by the handle that the imitated driver has for it."""

    def __init__(self, of: ImitatedPyCuda, flags: int) -> None:
        super().__init__(of)
        self.handle = of.fake.runtime_streamCreateWithFlags(flags)

    def synchronize(self) -> None:
        self.of.failing("cuStreamSynchronize")
        self.of.fake.runtime_streamSynchronize(self.handle)

    def wait_for_event(self, event: Event) -> None:
        self.of.fake.runtime_streamWaitEvent(self.handle, 90 + event.number)


class Event(Made):
    """An event; those without times are those that order streams."""

    def __init__(self, of: ImitatedPyCuda, flags: int) -> None:
        super().__init__(of)
        assert flags in (0, 2)
        self.flags = flags
        of.events += 1

    def record(self, stream: Stream) -> Event:
        self.of.fake.runtime_eventRecord(90 + self.number if self.flags else 9, stream.handle)
        return self

    def time_since(self, first: Event) -> float:
        assert self.flags == first.flags == 0
        return 0.25


assert {"name", "totalGlobalMem", *NAMES.values()} < set(H200)
