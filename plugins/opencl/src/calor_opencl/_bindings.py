"""What calor-opencl uses of pyopencl, and what OpenCL's error codes mean to calor.

Requirements: every failure of the driver becomes a typed error in one place; importing this loads
the driver, so that only what runs on a device does.
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import pyopencl as cl

from calor.errors import CompileError, DeviceError, DeviceLostError, OutOfMemoryError

# Codes of CL/cl.h, and one of NVIDIA's own.
_MEMORY: Final = {
    -4: "CL_MEM_OBJECT_ALLOCATION_FAILURE",
    -5: "CL_OUT_OF_RESOURCES (NVIDIA's driver says so after a fault of a kernel too)",
    -6: "CL_OUT_OF_HOST_MEMORY",
    -61: "CL_INVALID_BUFFER_SIZE",
}
_LOST: Final = {
    -2: "CL_DEVICE_NOT_AVAILABLE",
    -14: "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
    -34: "CL_INVALID_CONTEXT",
    -36: "CL_INVALID_COMMAND_QUEUE",
    -9999: "a kernel read or wrote where there is no memory",
}


def failure(code: int, what: str, said: object = "") -> DeviceError:
    """Return the error of a code; ``what`` says what was tried."""
    if code in _MEMORY:
        return OutOfMemoryError(f"OpenCL: {_MEMORY[code]}: {what}")
    if code in _LOST:
        return DeviceLostError(f"OpenCL: {_LOST[code]}: {what}")
    return DeviceError(f"OpenCL: {what}: {said or f'code {code}'}")


@contextmanager
def typed(what: str) -> Iterator[None]:
    """Turn errors of OpenCL into those of calor; ``what`` says what was tried."""
    try:
        yield
    except cl.Error as error:
        raise failure(int(getattr(error, "code", 0)), what, error) from error


@cache
def _library() -> Any:
    """Return the loader of drivers: that which pyopencl is linked to, or the system's."""
    windows = sys.platform == "win32"
    found = ctypes.CDLL("OpenCL.dll" if windows else cl._cl.__file__)
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint
    found.clSetKernelArg.argtypes = [pointer, number, size, pointer]
    # What is queued comes with its types: converting it took as long as the call.
    return found


class Launch:
    """A launch of a kernel, whose arguments are set by their places.

    The driver's functions are called directly: pyopencl asks for an event at each launch, which
    takes longer than the launch. What they are given by address never moves.
    """

    def __init__(self, kernel: Any, units: Sequence[int], local: Sequence[int]) -> None:
        self._kernel = kernel
        # Whether there are no units, so that there is nothing to queue.
        self.empty = 0 in units
        self._sizes = (ctypes.c_size_t * 6)(*units, *local)
        self._pointer: int = kernel.int_ptr
        self._cell = ctypes.c_uint64()
        self._at = ctypes.addressof(self._cell)
        self._set = _library().clSetKernelArg

    def set(self, place: int, value: int, nbytes: int = 8) -> None:
        """Set an argument: a number's bits, or the pointer of a buffer."""
        self._cell.value = value
        code = self._set(self._pointer, place, nbytes, self._at)
        if code:
            raise failure(code, "setting an argument")

    def on(self, queue: int, event: int | None = None) -> tuple[Any, ...]:
        """Return what :func:`enqueue` takes to queue the launch on the queue of a pointer.

        The launch's event is written to an address.
        """
        address = ctypes.c_void_p
        start = ctypes.addressof(self._sizes)
        shape = 3, None, address(start), address(start + ctypes.sizeof(self._sizes) // 2)
        return address(queue), address(self._pointer), *shape, 0, None, address(event)


def enqueue(launches: Iterable[tuple[Any, ...]]) -> None:
    """Queue launches."""
    call = _library().clEnqueueNDRangeKernel
    for launch in launches:
        code = call(*launch)
        if code:
            raise failure(code, "running kernels")


def seconds(found: Any, launches: Sequence[Launch]) -> list[float]:
    """Return how long each launch takes on the device, on a queue of its own that takes times."""
    profiling = cl.command_queue_properties.PROFILING_ENABLE
    queue = cl.CommandQueue(found, properties=profiling)
    events = (ctypes.c_size_t * len(launches))()
    places = range(ctypes.addressof(events), sys.maxsize, ctypes.sizeof(ctypes.c_size_t))
    asked = zip(launches, places, strict=False)
    enqueue(one.on(queue.int_ptr, place) for one, place in asked if not one.empty)
    queue.finish()
    times = [cl.Event.from_int_ptr(event, False).profile if event else None for event in events]
    return [0.0 if t is None else (t.end - t.start) * 1e-9 for t in times]


def devices() -> list[Any]:
    """Return all devices of all platforms, in the drivers' order.

    ``CALOR_OPENCL_PLATFORM`` keeps those of platforms whose name contains it, in any case.
    """
    wanted = os.environ.get("CALOR_OPENCL_PLATFORM", "").lower()
    try:
        platforms = cl.get_platforms()
    except cl.Error:
        # The loader says that there is no platform by an error.
        return []
    found = []
    for platform in platforms:
        if wanted not in platform.name.lower():
            continue
        try:
            found += platform.get_devices()
        except cl.Error:
            continue
    return found


def count() -> int:
    """Return how many devices there are."""
    return len(devices())


@cache
def context(number: int) -> Any:
    """Return the context of a device, one in a process."""
    with typed(f"opening device {number}"):
        return cl.Context([devices()[number]])


def build(found: Any, text: str | bytes, options: str, name: str) -> Any:
    """Return a built program of a text or a binary."""
    with warnings.catch_warnings():
        # pyopencl warns of every remark in a build log, and that its cache is passed by.
        warnings.simplefilter("ignore")
        try:
            if isinstance(text, str):
                program = cl.Program(found, text)
                program.get_info(cl.program_info.REFERENCE_COUNT)
            else:
                program = cl.Program(found, found.devices, [text])
            return program.build(options)
        except cl.Error as error:
            code = int(getattr(error, "code", 0))
            if code in _LOST or code in (-4, -6):
                # That is nothing about the kernel; -5 may be, which takes more than there is.
                raise failure(code, f"building kernel {name!r}") from error
            shown = text if isinstance(text, str) else "(a stored binary)"
            raise CompileError(f"OpenCL refuses kernel {name!r}: {error}\n{shown}") from error


def image(program: Any) -> bytes:
    """Return the binary of a program of one device, empty where the driver has none."""
    (binary,) = program.get_info(cl.program_info.BINARIES)
    return bytes(binary or b"")
