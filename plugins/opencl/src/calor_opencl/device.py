"""An OpenCL device, 1.2 or newer: memory, queue, and description.

Requirements: any driver works, so features beyond 1.2 are used only if listed. One in-order queue
needs no events. Kernels take a buffer and an offset, so a part of a buffer is no object of the
driver.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyopencl as cl

from calor.errors import DeviceError, OutOfMemoryError
from calor.units import bytes_text
from calor_kernel.device.batches import Batch
from calor_kernel.device.launch_cache import Kept
from calor_kernel.device.protocol import Device, Memory, Queue, Step
from calor_kernel.device.words import Piece
from calor_kernel.ir.nodes import Kernel
from calor_opencl.plane_probe import planes_hold

from ._bindings import (
    Function,
    Launches,
    context,
    devices,
    enqueue,
    seconds,
    takes_ptx,
    typed,
)
from .description import describe, language
from .toolchain import OpenCLToolchain

_BATCH: Final = 8  # limit of launches that are not flushed to the device
# Number of buffer sets for which a list keeps its own kernels: a loop that holds a result while it
# computes the next alternates between a few sets, and then sets no argument. An update of many
# tensors took the host three times as long to set them. Long lists keep fewer sets, so that a list
# has at most so many kernels.
_SETS: Final = 8
_KERNELS: Final = 512


class OpenCLMemory(Memory):
    """Buffers of a context. A handle is a Piece."""

    def __init__(self, found: Any, queue: Any, most: int) -> None:
        self.context = found
        self.queue = queue
        self.most = most

    def alloc(self, nbytes: int) -> Piece:
        """Return a buffer, which the driver allocates on the device at once."""
        if nbytes > self.most:
            raise OutOfMemoryError(
                f"a buffer of {bytes_text(nbytes)} exceeds the device's limit of "
                f"{bytes_text(self.most)}; compute in smaller parts"
            )
        with typed(f"allocating {nbytes} bytes"):
            buffer = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, max(nbytes, 1))
            undefined = cl.mem_migration_flags.CONTENT_UNDEFINED
            cl.enqueue_migrate_mem_objects(self.queue, [buffer], undefined)
        return Piece(buffer, 0, nbytes)

    def free(self, handle: Piece) -> None:
        """Release a buffer; the driver keeps it until queued work is done."""
        with typed("freeing memory"):
            handle.buffer.release()

    def copy_in(self, handle: Piece, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Write from the host, and wait."""
        at = handle.start + offset
        self._copied(handle.buffer, array, array.nbytes, dst_offset=at, is_blocking=True)

    def copy_out(self, handle: Piece, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Read to the host, and wait."""
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
        """Return a part, which needs no object of the driver."""
        return Piece(handle.buffer, handle.start + offset, nbytes)


class Recorded:
    """A list of launches, with arguments for the buffers of its last runs."""

    def __init__(self, steps: Sequence[Step], queue: int) -> None:
        self.steps, self.queue = steps, queue
        self.work = sum(s.work for s in steps)
        self.on = Kept(self._put, max(1, min(_SETS, _KERNELS // (len(steps) or 1))))

    def _put(self, handles: Sequence[Piece], oldest: Launches | None) -> Launches:
        made = oldest or Launches(self.steps, self.queue)
        made.put(handles)
        return made


class OpenCLQueue(Queue):
    """One in-order queue of the driver."""

    def __init__(self, found: Any, toolchain: OpenCLToolchain, queue: Any) -> None:
        self.context, self.toolchain, self.queue = found, toolchain, queue
        # One thread at a time sets a kernel's arguments and launches it.
        self._lock = threading.Lock()
        self._batch = Batch(typed("telling the device to begin")(queue.flush), _BATCH)

    def load(self, image: bytes, kernel: Kernel | Any) -> Function:
        """Return the function of an image."""
        name = self.toolchain.dialect.entry(kernel.name)
        return Function(self.toolchain.program(image, kernel.name), name, kernel)

    def record(self, steps: Sequence[Step], slots: int) -> Recorded:
        """Return the launches; kernels are created when they run."""
        return Recorded(steps, self.queue.int_ptr)

    def run(self, recorded: Recorded, handles: Sequence[Piece]) -> None:
        """Queue all launches and return; the queue is flushed when enough launches wait."""
        self.direct(recorded)(*handles)

    def direct(self, recorded: Recorded) -> Callable[..., None]:
        """Return the fastest function that runs a list with a handle for each slot."""
        lock, add, on = self._lock, self._batch.add, recorded.on
        launches, work = len(recorded.steps), recorded.work

        def call(*handles: Piece) -> None:
            with lock:
                enqueue(on(handles).ready)
                add(launches, work)

        return call

    def synchronize(self) -> None:
        """Wait for the queue."""
        with typed("waiting for kernels"):
            self.queue.finish()

    def seconds(self, recorded: Recorded, handles: Sequence[Piece]) -> list[float]:
        """Run once on a profiling queue, and return the device's times in seconds."""
        self.synchronize()
        with self._lock, typed("timing kernels"):
            return seconds(self.context, recorded.on(handles).all)


class OpenCLDevice(Device):
    """The device with a number in the list of all platforms' devices."""

    memory: OpenCLMemory
    toolchain: OpenCLToolchain
    queue: OpenCLQueue

    def __init__(self, number: int = 0) -> None:
        found = devices()
        if number >= len(found):
            raise DeviceError(
                f"there is no OpenCL device {number}; the drivers list {len(found)}, numbered from "
                f"0: see `clinfo -l`"
            )
        device = found[number]
        made = context(number)
        with typed("opening the device"):
            queue = cl.CommandQueue(made)
        words = (device.platform.name, device.platform.version, device.name, device.driver_version)
        for subgroups in ("ptx", "") if takes_ptx(device) else ("",):
            dialect, options = language(device, subgroups)
            target = f"opencl {' '.join(words)} {options} {dialect.key}"
            self.info = describe(device, dialect)
            self.toolchain = OpenCLToolchain(dialect, target, options, number)
            self.memory = OpenCLMemory(made, queue, self.info.max_buffer_bytes)
            self.queue = OpenCLQueue(made, self.toolchain, queue)
            if subgroups and planes_hold(self):
                break
