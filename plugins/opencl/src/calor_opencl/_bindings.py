"""The functions of pyopencl that calor-opencl uses, and the meaning of OpenCL's error codes.

Requirements: every failure of the driver becomes a typed error in one place. Importing this module
loads the driver, so only code that runs on a device imports it. A repeated launch is one call of
the driver, which sets only changed arguments.
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

import pyopencl as cl

from calor.errors import CompileError, DeviceError, DeviceLostError, OutOfMemoryError
from calor_kernel.device.protocol import Slot, Step, scalar_bits
from calor_kernel.device.words import Piece
from calor_kernel.ir.nodes import Kernel

_NONE: Final = Piece(None, -1, 0)
_NVIDIA: Final = "cl_nv_device_attribute_query"
# Codes of CL/cl.h, and one of NVIDIA's.
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
    """Return the error for a code; ``what`` is the failed action."""
    if code in _MEMORY:
        return OutOfMemoryError(f"OpenCL: {_MEMORY[code]}: {what}")
    if code in _LOST:
        return DeviceLostError(f"OpenCL: {_LOST[code]}: {what}")
    return DeviceError(f"OpenCL: {what}: {said or f'code {code}'}")


@contextmanager
def typed(what: str) -> Iterator[None]:
    """Convert errors of OpenCL to those of calor; ``what`` is the action."""
    try:
        yield
    except cl.Error as error:
        raise failure(int(getattr(error, "code", 0)), what, error) from error


@cache
def _library() -> Any:
    """Return the driver loader that pyopencl is linked to, or the system's."""
    windows = sys.platform == "win32"
    found = ctypes.CDLL("OpenCL.dll" if windows else cl._cl.__file__)
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint
    found.clSetKernelArg.argtypes = [pointer, number, size, pointer]
    # Arguments are passed with their types, because a conversion took as long as the call.
    return found


class Launch:
    """A launch of a kernel with arguments set by index.

    The driver's functions are called directly, because pyopencl requests an event for each launch,
    which takes longer than the launch. Data that they get by address never move.
    """

    def __init__(self, kernel: Any, units: Sequence[int], local: Sequence[int]) -> None:
        self._kernel = kernel
        # Whether the launch has no units, so that nothing is queued.
        self.empty = 0 in units
        self._sizes = (ctypes.c_size_t * 6)(*units, *local)
        self._pointer: int = kernel.int_ptr
        self._cell = ctypes.c_uint64()
        self._at = ctypes.addressof(self._cell)
        self._set = _library().clSetKernelArg

    def set(self, place: int, value: int, nbytes: int = 8) -> None:
        """Set an argument: a number's bits, or a buffer's pointer."""
        self._cell.value = value
        code = self._set(self._pointer, place, nbytes, self._at)
        if code:
            raise failure(code, "setting an argument")

    def on(self, queue: int, event: int | None = None) -> Callable[[], int]:
        """Return a function that queues the launch on a queue and returns the driver's code.

        The launch's event is stored at an address.
        """
        address = ctypes.c_void_p
        start = ctypes.addressof(self._sizes)
        shape = 3, None, address(start), address(start + ctypes.sizeof(self._sizes) // 2)
        places = address(queue), address(self._pointer), *shape, 0, None, address(event)
        return partial(_library().clEnqueueNDRangeKernel, *places)


@dataclass(frozen=True, slots=True)
class Function:
    """A loaded kernel: its program, and its name there."""

    program: Any
    name: str
    kernel: Kernel


class Launches:
    """Launches with their numbers set; only changed buffers are set again."""

    def __init__(self, steps: Sequence[Step], queue: int) -> None:
        self.all: list[Launch] = []
        # For each slot: the launches that take it, the argument's index, the offset and the size.
        self.users: dict[int, list[tuple[Launch, int, int, int]]] = {}
        for step in steps:
            self._launch(step)
        self.ready = [launch.on(queue) for launch in self.all if not launch.empty]
        self.last: Sequence[Piece] = ()

    def _launch(self, step: Step) -> None:
        function: Function = step.function
        with typed(f"recording {function.name}"):
            kernel, local = cl.Kernel(function.program, function.name), function.kernel.cube
        launch = Launch(kernel, [c * u for c, u in zip(step.cubes, local, strict=True)], local)
        self.all.append(launch)
        place = 0
        for parameter, given in zip(function.kernel.parameters, step.arguments, strict=True):
            dtype = parameter.declared.dtype
            if isinstance(given, Slot):
                user = launch, place, given.offset, dtype.itemsize
                self.users.setdefault(given.number, []).append(user)
            else:
                launch.set(place, scalar_bits(given, dtype), dtype.itemsize)
            # The argument after a buffer is its offset.
            place += 1 + isinstance(given, Slot)

    def put(self, handles: Sequence[Piece]) -> None:
        """Set the buffers and their offsets."""
        last = self.last or (_NONE,) * len(handles)
        for number, users in self.users.items():
            piece, before = handles[number], last[number]
            # A released buffer may compare equal to its replacement, but is another buffer.
            if piece.buffer is not before.buffer:
                pointer = piece.buffer.int_ptr
                for launch, place, _, _ in users:
                    launch.set(place, pointer)
            if piece.start != before.start:
                for launch, place, offset, size in users:
                    launch.set(place + 1, (piece.start + offset) // size)
        self.last = handles


def enqueue(launches: Iterable[Callable[[], int]]) -> None:
    """Queue launches."""
    for launch in launches:
        code = launch()
        if code:
            raise failure(code, "running kernels")


def seconds(found: Any, launches: Sequence[Launch]) -> list[float]:
    """Return the duration of each launch on the device, on a profiling queue."""
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

    ``CALOR_OPENCL_PLATFORM`` selects platforms whose name contains it, ignoring case.
    """
    wanted = os.environ.get("CALOR_OPENCL_PLATFORM", "").lower()
    try:
        platforms = cl.get_platforms()
    except cl.Error:
        # The loader reports a missing platform as an error.
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


def has(device: Any, *extensions: str) -> bool:
    """Return whether a device lists extensions.

    ``CALOR_OPENCL_WITHOUT`` disables some, separated by commas.
    """
    without = {w.strip() for w in os.environ.get("CALOR_OPENCL_WITHOUT", "").split(",")}
    return set(extensions) <= set(device.extensions.split()) - without


def takes_ptx(device: Any) -> bool:
    """Return whether a compiler may accept inline PTX; a trial decides."""
    return has(device, _NVIDIA) and device.warp_size_nv == 32


def capability(device: Any) -> int:
    """Return the major compute capability of an NVIDIA device, 0 for any other."""
    return int(device.compute_capability_major_nv) if has(device, _NVIDIA) else 0


def count() -> int:
    """Return the number of devices."""
    return len(devices())


@cache
def context(number: int) -> Any:
    """Return the context of a device; a process has one for each."""
    with typed(f"opening device {number}"):
        return cl.Context([devices()[number]])


def build(found: Any, text: str | bytes, options: str, name: str) -> Any:
    """Return a program built from a text or a binary."""
    with warnings.catch_warnings():
        # pyopencl warns about every remark in a build log, and that its cache is not used.
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
                # These errors are not about the kernel; -5 may be, if it needs more resources.
                raise failure(code, f"building kernel {name!r}") from error
            shown = text if isinstance(text, str) else "(a stored binary)"
            raise CompileError(f"OpenCL refuses kernel {name!r}: {error}\n{shown}") from error


def image(program: Any) -> bytes:
    """Return the binary of a program for one device, empty if the driver has none."""
    (binary,) = program.get_info(cl.program_info.BINARIES)
    return bytes(binary or b"")
