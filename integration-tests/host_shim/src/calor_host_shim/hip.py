"""HIP on the processor: CuPy's functions of its runtime and driver, and what stands behind them.

Requirements: calor-hip runs on it unchanged; images are shared objects of the host, and a launch
reads its arguments where the driver reads them; a launch that the processor in question does not
take raises; calls are kept for tests that ask for them, and ``fails`` is the code with which the
next one fails. (Names are CuPy's, numbers are those of AMD's data sheets.)
"""

from __future__ import annotations

import ctypes
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from functools import partial
from time import perf_counter
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from calor_host_shim.compiler import Program

_COMMON: Final = {
    "maxThreadsDim": (1024, 1024, 1024),
    "maxThreadsPerBlock": 1024,
    "maxGridSize": (2**31 - 1, 65536, 65536),
    "sharedMemPerBlock": 64 << 10,
}
# An MI300X, a Radeon RX 7900 XTX and one half of an MI250X.
DEVICES: Final = (
    {"gcnArchName": b"gfx942:sramecc+:xnack-", "warpSize": 64, "multiProcessorCount": 304}
    | {"name": b"imitated MI300X", "l2CacheSize": 4 << 20, "totalGlobalMem": 192 << 30, **_COMMON},
    {"gcnArchName": b"gfx1100", "warpSize": 32, "multiProcessorCount": 48}
    | {"name": b"imitated RX 7900", "l2CacheSize": 6 << 20, "totalGlobalMem": 24 << 30, **_COMMON},
    {"gcnArchName": b"gfx90a:sramecc+:xnack-", "warpSize": 64, "multiProcessorCount": 104}
    | {"name": b"imitated MI250X", "l2CacheSize": 8 << 20, "totalGlobalMem": 64 << 30, **_COMMON},
)
_ALIGN: Final = 256
_LATE: Final = 16  # things to do that wait


class HipError(RuntimeError):
    """An error as CuPy raises it."""

    def __init__(self, status: int) -> None:
        super().__init__(f"hipError{status}")
        self.status = status


class ImitatedHip:
    """The state of a driver. ``runtime`` and ``driver`` are its modules; ``limit``: its memory."""

    def __init__(self, limit: int = 8 << 30) -> None:
        self.limit = limit
        self.fails = 0
        self.devices: tuple[dict[str, Any], ...] = DEVICES
        self.calls: list[str] = []
        # Pairs of GPUs that are not connected, and those of which the first reaches the second.
        self.apart: set[tuple[int, int]] = set()
        self.reach: set[tuple[int, int]] = set()
        self.pieces: dict[int, np.ndarray[Any, Any]] = {}
        # Page-locked memory of the host.
        self.locked: dict[int, np.ndarray[Any, Any]] = {}
        self.starts: list[int] = []
        self.programs: list[Program] = []
        self.times: dict[int, float] = {}
        self.queued: deque[Callable[[], object]] = deque()
        # Any thread may call, and what is queued runs in its order.
        self.lock = threading.RLock()
        # Each thread has a device that its calls mean.
        self.current = threading.local()
        self.runtime = self._module("runtime")
        self.driver = self._module("driver")
        numbers = {"streamNonBlocking": 1, "eventDisableTiming": 2, "is_hip": True}
        ways = ("HostToHost", "HostToDevice", "DeviceToHost", "DeviceToDevice")
        numbers |= {f"memcpy{way}": number for number, way in enumerate(ways)}
        vars(self.runtime).update(numbers)

    @property
    def device(self) -> int:
        """The number of the device that this thread's calls mean."""
        return int(getattr(self.current, "device", 0))

    def _module(self, kind: str) -> SimpleNamespace:
        names = [n for n in dir(self) if n.startswith(f"{kind}_")]
        return SimpleNamespace(
            **{n.removeprefix(f"{kind}_"): self._call(getattr(self, n)) for n in names}
        )

    def _call(self, function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__.partition("_")[2]

        def call(*arguments: Any) -> Any:
            self.calls.append(name)
            if self.fails:
                code, self.fails = self.fails, 0
                raise HipError(code)
            return function(*arguments)

        return call

    def _later(self, task: Callable[[], object]) -> None:
        """Keep something to do, so that a wait that was forgotten shows."""
        with self.lock:
            self.queued.append(task)
            if len(self.queued) > _LATE:
                self.queued.popleft()()

    def _finish(self) -> None:
        with self.lock:
            while self.queued:
                self.queued.popleft()()

    # The runtime.
    def runtime_getDeviceCount(self) -> int:
        if not self.devices:
            raise HipError(100)
        return len(self.devices)

    def runtime_getDeviceProperties(self, number: int) -> dict[str, Any]:
        return self.devices[number]

    def runtime_driverGetVersion(self) -> int:
        return 70051831

    def runtime_setDevice(self, number: int) -> None:
        assert number < len(self.devices)
        self.current.device = number

    def runtime_streamCreateWithFlags(self, flags: int) -> int:
        assert flags == 1
        return 70 + self.device

    def runtime_streamSynchronize(self, stream: int) -> None:
        assert stream == 70 + self.device
        self._finish()

    def runtime_malloc(self, size: int) -> int:
        assert size > 0
        if size + sum(p.nbytes for p in self.pieces.values()) > self.limit:
            raise HipError(2)
        raw = np.full(size + _ALIGN, 0xFF, np.uint8)
        start = -raw.ctypes.data % _ALIGN
        address = raw.ctypes.data + start
        self.pieces[address] = raw[start : start + size]
        self.starts = sorted(self.pieces)
        return address

    def runtime_free(self, address: int) -> None:
        self._finish()
        del self.pieces[address]
        self.starts = sorted(self.pieces)

    def runtime_hostAlloc(self, size: int, flags: int) -> int:
        assert flags == 1
        raw = np.full(size, 0xFF, np.uint8)
        self.locked[raw.ctypes.data] = raw
        return int(raw.ctypes.data)

    def runtime_freeHost(self, address: int) -> None:
        del self.locked[address]

    def runtime_memcpyAsync(self, to: int, of: int, size: int, kind: int, stream: int) -> None:
        # What the device holds is within a piece.
        for address in [a for a, at in ((to, (1, 3)), (of, (2, 3))) if kind in at]:
            start = self.starts[bisect_right(self.starts, address) - 1]
            assert self.pieces[start].nbytes >= address - start + size
        if kind == 1:
            # What the host holds is taken over at once.
            held = ctypes.string_at(of, size)
            self._later(lambda: ctypes.memmove(to, held, size))
        else:
            self._later(lambda: ctypes.memmove(to, of, size))

    def runtime_deviceCanAccessPeer(self, number: int, other: int) -> int:
        assert number != other
        return int((number, other) not in self.apart)

    def runtime_deviceEnablePeerAccess(self, other: int) -> None:
        assert (self.device, other) not in self.reach
        self.reach.add((self.device, other))

    def runtime_memcpyPeerAsync(
        self, to: int, target: int, of: int, source: int, size: int, stream: int
    ) -> None:
        assert stream == 70 + self.device == 70 + target
        assert target != source
        self._later(lambda: ctypes.memmove(to, of, size))

    def runtime_eventCreate(self) -> int:
        self.times[len(self.times)] = 0.0
        return len(self.times) - 1

    def runtime_eventCreateWithFlags(self, flags: int) -> int:
        assert flags == 2
        return self.runtime_eventCreate()

    def runtime_streamWaitEvent(self, stream: int, event: int) -> None:
        # All that is queued has one order here.
        assert stream == 70 + self.device
        assert event in self.times

    def runtime_eventRecord(self, event: int, stream: int) -> None:
        assert stream == 70 + self.device
        self._later(lambda: self.times.update({event: perf_counter()}))

    def runtime_eventElapsedTime(self, first: int, second: int) -> float:
        return (self.times[second] - self.times[first]) * 1e3

    def runtime_eventDestroy(self, event: int) -> None:
        assert event in self.times

    # The driver.
    def driver_moduleLoadData(self, image: bytes) -> int:
        self.programs.append(Program(image))
        return len(self.programs)

    def driver_moduleGetFunction(self, module: int, name: str) -> int:
        return module

    def driver_launchKernel(self, function: int, *said: int) -> None:
        cubes, units = said[:3], said[3:6]
        shared, stream, parameters, extra = said[6:]
        limits = self.devices[self.device]
        assert (shared, stream, extra) == (0, 70 + self.device, 0)
        assert all(0 < n * size < 1 << 32 for n, size in zip(cubes, units, strict=True))
        program = self.programs[function - 1]
        count = ctypes.c_uint32.in_dll(program.loaded, "calor_arguments").value
        # The arguments are copied at once, from a cell each.
        places = (ctypes.c_uint64 * count).from_address(parameters)
        held = b"".join(ctypes.string_at(place, 8) for place in places)
        self._later(partial(self._launched, program, held, cubes, units, limits["warpSize"]))

    def _launched(self, program: Program, held: bytes, cubes: Any, units: Any, plane: int) -> None:
        why = program.run(held, cubes, units, plane)
        if why is not None:
            raise RuntimeError(why)
