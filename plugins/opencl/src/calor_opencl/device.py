"""An OpenCL device, 1.2 or newer: memory, queue, and what it says of itself.

Requirements: any driver will do, so nothing beyond 1.2 is used unless the device lists it; one
queue in order, so that nothing needs events; kernels take a buffer and an offset, so that a part of
a buffer is no object of the driver's.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl

from calor.dtypes import DType, bfloat16, float16
from calor.errors import DeviceError, OutOfMemoryError
from calor_kernel.ir.nodes import Kernel
from calor_kernel.runtime.device import Device, Memory, Queue, Slot, Step

from ._bindings import context, devices, typed
from .description import describe, language
from .toolchain import OpenCLToolchain


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a buffer, from a byte on."""

    buffer: Any
    start: int


class OpenCLMemory(Memory):
    """Buffers of a context. A handle is a Piece."""

    def __init__(self, found: Any, queue: Any, most: int) -> None:
        self.context = found
        self.queue = queue
        self.most = most

    def alloc(self, nbytes: int) -> Piece:
        """Return a buffer, which the driver puts on the device at once."""
        if nbytes > self.most:
            raise OutOfMemoryError(
                f"the device has buffers of up to {self.most} bytes, and none of {nbytes}; "
                f"compute in parts"
            )
        with typed(f"allocating {nbytes} bytes"):
            buffer = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, max(nbytes, 1))
            undefined = cl.mem_migration_flags.CONTENT_UNDEFINED
            cl.enqueue_migrate_mem_objects(self.queue, [buffer], undefined)
        return Piece(buffer, 0)

    def free(self, handle: Piece) -> None:
        """Release a buffer; the driver keeps it until what was queued is done."""
        handle.buffer.release()

    def copy_in(self, handle: Piece, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Write from the host, and wait for it."""
        at = handle.start + offset
        self._copied(handle.buffer, array, array.nbytes, dst_offset=at, is_blocking=True)

    def copy_out(self, handle: Piece, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Read to the host, and wait for it."""
        at = handle.start + offset
        self._copied(array, handle.buffer, array.nbytes, src_offset=at, is_blocking=True)

    def copy(self, target: Piece, at: int, source: Piece, offset: int, nbytes: int) -> None:
        """Copy between buffers, in the order of the queue."""
        to, start = target.start + at, source.start + offset
        places = {"byte_count": nbytes, "dst_offset": to, "src_offset": start}
        self._copied(target.buffer, source.buffer, nbytes, **places)

    def _copied(self, target: Any, source: Any, nbytes: int, **places: Any) -> None:
        if nbytes:
            with typed(f"copying {nbytes} bytes"):
                cl.enqueue_copy(self.queue, target, source, **places)

    def part(self, handle: Piece, offset: int, nbytes: int) -> Piece:
        """Return a part, which needs no object of the driver's."""
        return Piece(handle.buffer, handle.start + offset)


@dataclass(frozen=True, slots=True)
class Function:
    """A loaded kernel: its program, and what it is called there."""

    program: Any
    name: str
    kernel: Kernel


class Recorded:
    """A launch with its scalars set; buffers are set when it runs."""

    def __init__(self, step: Step) -> None:
        function: Function = step.function
        self.kernel = cl.Kernel(function.program, function.name)
        self.local = function.kernel.cube
        self.units = tuple(c * u for c, u in zip(step.cubes, self.local, strict=True))
        self.slots: list[tuple[int, Slot, int]] = []
        place = 0
        for parameter, given in zip(function.kernel.parameters, step.arguments, strict=True):
            dtype = parameter.declared.dtype
            if isinstance(given, Slot):
                self.slots.append((place, given, dtype.itemsize))
                place += 2
            else:
                self.kernel.set_arg(place, _scalar(given, dtype))
                place += 1

    def enqueue(self, queue: Any, handles: Sequence[Piece]) -> Any:
        """Queue the launch with its buffers, and return its event; None for no cubes."""
        if 0 in self.units:
            return None
        for place, slot, size in self.slots:
            piece = handles[slot.number]
            self.kernel.set_arg(place, piece.buffer)
            offset = (piece.start + slot.offset) // size
            self.kernel.set_arg(place + 1, np.int64(offset))
        return cl.enqueue_nd_range_kernel(queue, self.kernel, self.units, self.local)


def _scalar(given: float, dtype: DType) -> Any:
    """Return a number as the kernel takes it: bools as bytes, float16 and bfloat16 as bits."""
    held = np.asarray(given).astype(dtype.numpy)
    if dtype in (float16, bfloat16):
        return held.view(np.uint16)[()]
    return held.view(np.uint8)[()] if dtype.kind == "bool" else held[()]


class OpenCLQueue(Queue):
    """One queue of the driver's, in order."""

    def __init__(self, found: Any, toolchain: OpenCLToolchain, queue: Any) -> None:
        self.context = found
        self.toolchain = toolchain
        self.queue = queue
        # A kernel's arguments are set before each launch, by one thread at a time.
        self._lock = threading.Lock()

    def load(self, image: bytes, kernel: Kernel | Any) -> Function:
        """Return the function of an image."""
        name = self.toolchain.dialect.entry(kernel.name)
        return Function(self.toolchain.program(image, kernel.name), name, kernel)

    def record(self, steps: Sequence[Step], slots: int) -> list[Recorded]:
        """Return the launches with all arguments set but buffers."""
        with typed("recording launches"):
            return [Recorded(step) for step in steps]

    def run(self, recorded: list[Recorded], handles: Sequence[Piece]) -> None:
        """Queue all launches and return."""
        with self._lock, typed("running kernels"):
            for launch in recorded:
                launch.enqueue(self.queue, handles)
            self.queue.flush()

    def synchronize(self) -> None:
        """Wait for the queue."""
        with typed("waiting for kernels"):
            self.queue.finish()

    def seconds(self, recorded: list[Recorded], handles: Sequence[Piece]) -> list[float]:
        """Run once on a queue that takes times, and return the device's."""
        self.synchronize()
        with self._lock, typed("timing kernels"):
            profiling = cl.command_queue_properties.PROFILING_ENABLE
            queue = cl.CommandQueue(self.context, properties=profiling)
            events = [launch.enqueue(queue, handles) for launch in recorded]
            queue.finish()
            return [(e.profile.end - e.profile.start) * 1e-9 if e else 0.0 for e in events]


class OpenCLDevice(Device):
    """The device of a number in the list of all platforms' devices."""

    memory: OpenCLMemory
    toolchain: OpenCLToolchain
    queue: OpenCLQueue

    def __init__(self, number: int = 0) -> None:
        found = devices()
        if number >= len(found):
            raise DeviceError(
                f"there are {len(found)} OpenCL devices, and none of number {number}; "
                f"`clinfo -l` lists what the drivers find"
            )
        device = found[number]
        made = context(number)
        with typed("opening the device"):
            queue = cl.CommandQueue(made)
        dialect, options = language(device)
        words = (device.platform.name, device.platform.version, device.name, device.driver_version)
        target = f"opencl {' '.join(words)} {options} {dialect.key}"
        self.info = describe(device, dialect)
        self.toolchain = OpenCLToolchain(dialect, target, options, number)
        self.memory = OpenCLMemory(made, queue, self.info.max_buffer_bytes)
        self.queue = OpenCLQueue(made, self.toolchain, queue)
