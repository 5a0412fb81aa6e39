"""A device of wgpu: memory, a queue that batches dispatches, and what it says of itself.

Requirements: encoding and submitting cost more than a dispatch, so that dispatches wait in one
compute pass until somebody needs what they compute, or enough of them wait; in a pass wgpu orders
dispatches by the buffers they use; all buffers are bound for reading and writing, for pieces of one
buffer are read and written by one kernel; copies are of whole words, and what is left of a piece is
put together on the host.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

import numpy as np
import wgpu

from calor.dtypes import DType
from calor.errors import ArgumentError, DeviceError, OutOfMemoryError
from calor_kernel.ir.nodes import Kernel
from calor_kernel.printers import bits_of
from calor_kernel.runtime.device import Device, Memory, Queue, Slot, Step

from ._bindings import STORAGE, adapters, device, module, typed
from .description import describe, language
from .toolchain import WgpuToolchain
from .wgsl import COUNTS, MOST_CUBES, arguments

_BATCH: Final = 64  # dispatches that wait at most
_BINDINGS: Final = 32  # sets of handles for which a recorded list keeps its bind groups
_WORD: Final = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a buffer: where it begins, and its bytes."""

    buffer: Any
    start: int
    nbytes: int


class Stream:
    """What waits to be submitted, in order. Its methods are called with its lock held."""

    def __init__(self, opened: Any) -> None:
        self.device = opened
        self.lock = threading.RLock()
        self._encoder: Any = None
        self._pass: Any = None
        self._waiting = 0

    def commands(self) -> Any:
        """Return the compute pass."""
        if self._pass is None:
            self._pass = self.encoder().begin_compute_pass()
        return self._pass

    def encoder(self) -> Any:
        """Return the encoder, for what is no dispatch where no pass is open."""
        if self._encoder is None:
            self._encoder = self.device.create_command_encoder()
        return self._encoder

    def between(self) -> Any:
        """Return the encoder after the dispatches that wait."""
        if self._pass is not None:
            self._pass.end()
            self._pass = None
        return self.encoder()

    def queued(self, dispatches: int) -> None:
        """Count dispatches, and submit when enough wait."""
        self._waiting += dispatches
        if self._waiting >= _BATCH:
            self.submit()

    def submit(self) -> None:
        """Hand over everything that waits."""
        if self._encoder is not None:
            finished = self.between().finish()
            self._encoder, self._waiting = None, 0
            self.device.queue.submit([finished])


class WgpuMemory(Memory):
    """Buffers of a device. A handle is a Piece."""

    def __init__(self, stream: Stream, most: int, parts: bool) -> None:
        self.stream = stream
        self.most = most
        self.parts = parts
        self._between: Any = None

    def alloc(self, nbytes: int) -> Piece:
        """Return a buffer."""
        if nbytes > self.most:
            raise OutOfMemoryError(
                f"the device has buffers of up to {self.most} bytes, and none of {nbytes}; "
                f"compute in parts"
            )
        size = max(-(-nbytes // 64) * 64, 64)
        with typed(f"allocating {nbytes} bytes"):
            buffer = self.stream.device.create_buffer(size=size, usage=STORAGE)
        return Piece(buffer, 0, size)

    def free(self, handle: Piece) -> None:
        """Release a buffer; the driver keeps it until what was submitted is done."""
        with self.stream.lock, typed("freeing a buffer"):
            self.stream.submit()
            handle.buffer.destroy()

    def part(self, handle: Piece, offset: int, nbytes: int) -> Piece | None:
        """Return a part, which needs no object of the driver's."""
        return Piece(handle.buffer, handle.start + offset, nbytes) if self.parts else None

    def copy_in(self, handle: Piece, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Write from the host, after what waits."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        start, end = handle.start + offset, handle.start + offset + len(data)
        if not len(data):
            return
        with self.stream.lock, typed(f"writing {len(data)} bytes"):
            if start % _WORD or end % _WORD:
                whole = self._words(handle.buffer, start, end).copy()
                whole[start % _WORD :][: len(data)] = data
                data, start = whole, start // _WORD * _WORD
            self.stream.submit()
            self.stream.device.queue.write_buffer(handle.buffer, start, data)

    def copy_out(self, handle: Piece, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Read to the host, and wait for it."""
        target = array.reshape(-1).view(np.uint8)
        start = handle.start + offset
        if not len(target):
            return
        with self.stream.lock, typed(f"reading {len(target)} bytes"):
            whole = self._words(handle.buffer, start, start + len(target))
        target[:] = whole[start % _WORD :][: len(target)]

    def _words(self, buffer: Any, start: int, end: int) -> np.ndarray[Any, Any]:
        self.stream.submit()
        first, last = start // _WORD * _WORD, -(-end // _WORD) * _WORD
        read = self.stream.device.queue.read_buffer(buffer, first, last - first)
        return np.frombuffer(read, np.uint8)

    def copy(self, target: Piece, at: int, source: Piece, offset: int, nbytes: int) -> None:
        """Copy between pieces, in the order of the queue; what is no whole word by the host."""
        to, of = target.start + at, source.start + offset
        whole = 0 if to % _WORD or of % _WORD else nbytes // _WORD * _WORD
        if whole:
            with self.stream.lock, typed(f"copying {nbytes} bytes"):
                self._copy_words(target.buffer, to, source.buffer, of, whole)
        if nbytes > whole:
            rest = np.empty(nbytes - whole, np.uint8)
            self.copy_out(source, offset + whole, rest)
            self.copy_in(target, at + whole, rest)

    def _copy_words(self, target: Any, to: int, source: Any, of: int, nbytes: int) -> None:
        encoder = self.stream.between()
        if source is target:
            # A buffer is not copied to itself.
            if self._between is None or self._between.size < nbytes:
                self._between = self.stream.device.create_buffer(size=nbytes, usage=STORAGE)
            encoder.copy_buffer_to_buffer(source, of, self._between, 0, nbytes)
            source, of = self._between, 0
        encoder.copy_buffer_to_buffer(source, of, target, to, nbytes)
        self.stream.queued(1)


@dataclass(frozen=True, slots=True)
class Function:
    """A loaded kernel: its pipeline, the layout of its bindings, its arguments as a struct."""

    pipeline: Any
    layout: Any
    fields: np.dtype[Any]
    kernel: Kernel


class Recorded:
    """Launches with their numbers written to a buffer; bind groups are kept per handles."""

    def __init__(self, queue: WgpuQueue, steps: Sequence[Step]) -> None:
        self.queue = queue
        self.steps = [s for s in steps if 0 not in s.cubes]
        self.all = steps
        self.grids = [_grid(s.cubes) for s in self.steps]
        step = queue.argument_align
        sizes = [-(-s.function.fields.itemsize // step) * step for s in self.steps]
        self.places = [sum(sizes[:i]) for i in range(len(sizes))]
        self.buffer: Any = None
        if sizes:
            data = bytearray(sum(sizes))
            for step_, place in zip(self.steps, self.places, strict=True):
                packed = _packed(step_)
                data[place : place + len(packed)] = packed
            usage = wgpu.BufferUsage.UNIFORM
            self.buffer = queue.stream.device.create_buffer_with_data(data=data, usage=usage)
        self.groups: dict[tuple[Piece, ...], list[Any]] = {}

    def bound(self, handles: Sequence[Piece]) -> list[Any]:
        """Return the bind groups of all launches."""
        key = tuple(handles)
        found = self.groups.get(key)
        if found is None:
            if len(self.groups) >= _BINDINGS:
                self.groups.clear()
            pairs = zip(self.steps, self.places, strict=True)
            found = self.groups[key] = [self._group(s, p, handles) for s, p in pairs]
        return found

    def _group(self, step: Step, place: int, handles: Sequence[Piece]) -> Any:
        function: Function = step.function
        size = function.fields.itemsize
        entries = [_entry(0, self.buffer, place, size)]
        for given in step.arguments:
            if isinstance(given, Slot):
                piece = handles[given.number]
                if piece.nbytes > self.queue.most:
                    raise DeviceError(
                        f"kernel {function.kernel.name} reaches into memory of {piece.nbytes} "
                        f"bytes, and the device binds {self.queue.most} at most; compute in parts"
                    )
                nbytes = -(-piece.nbytes // _WORD) * _WORD
                entries.append(_entry(len(entries), piece.buffer, piece.start, nbytes))
        return self.queue.stream.device.create_bind_group(layout=function.layout, entries=entries)


def _entry(binding: int, buffer: Any, offset: int, size: int) -> dict[str, Any]:
    return {"binding": binding, "resource": {"buffer": buffer, "offset": offset, "size": size}}


def _grid(cubes: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return the dispatch of a launch: x is folded into y where it is too long."""
    x, y, z = cubes
    folded = (x, y, z) if x <= MOST_CUBES else (MOST_CUBES, y * -(-x // MOST_CUBES), z)
    if max(folded) > MOST_CUBES:
        raise DeviceError(f"a launch of {cubes} cubes is above what the device dispatches")
    return folded


def _packed(step: Step) -> bytes:
    """Return the arguments of a launch as its kernel takes them."""
    fields = step.function.fields
    row = np.zeros((), fields)
    for name, parameter, given in zip(
        fields.names, step.function.kernel.parameters, step.arguments, strict=False
    ):
        dtype: DType = parameter.declared.dtype
        if isinstance(given, Slot):
            row[name] = given.offset // dtype.itemsize & 0xFFFFFFFF
        elif dtype.kind == "float" and dtype.itemsize == 2:
            row[name] = bits_of(given, dtype)
        else:
            held = np.asarray(given).astype(dtype.numpy)
            if held != row[name].dtype.type(held):
                raise ArgumentError(
                    f"{parameter.name} of kernel {step.function.kernel.name} is {given}, which the "
                    f"device's 32-bit indices do not hold"
                )
            row[name] = held
    for name, count in zip(COUNTS, step.cubes, strict=False):
        row[name] = count
    return row.tobytes()


class WgpuQueue(Queue):
    """The device's queue, in order."""

    def __init__(self, stream: Stream, toolchain: WgpuToolchain) -> None:
        self.stream = stream
        self.toolchain = toolchain
        limits = stream.device.limits
        self.argument_align = max(16, limits["min-uniform-buffer-offset-alignment"])
        self.most = limits["max-storage-buffer-binding-size"]

    def load(self, image: bytes, kernel: Kernel | Any) -> Function:
        """Return the pipeline of an image."""
        opened, number = self.stream.device, self.toolchain.number
        assert number is not None
        buffers = sum(p.declared.__class__.__name__ == "Buffer" for p in kernel.parameters)
        with typed(f"loading kernel {kernel.name}"):
            shader = module(number, image.decode(), kernel.name)
            kinds = ["uniform", *["storage"] * buffers]
            layout = opened.create_bind_group_layout(
                entries=[
                    {"binding": i, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": k}}
                    for i, k in enumerate(kinds)
                ]
            )
            pipeline = opened.create_compute_pipeline(
                layout=opened.create_pipeline_layout(bind_group_layouts=[layout]),
                compute={"module": shader, "entry_point": "main"},
            )
        fields = arguments(kernel.parameters, self.toolchain.dialect)
        return Function(pipeline, layout, fields, kernel)

    def record(self, steps: Sequence[Step], slots: int) -> Recorded:
        """Return the launches with their numbers where kernels read them."""
        with typed("recording launches"):
            return Recorded(self, steps)

    def run(self, recorded: Recorded, handles: Sequence[Piece]) -> None:
        """Queue all launches and return."""
        with self.stream.lock, typed("running kernels"):
            groups = recorded.bound(handles)
            commands = self.stream.commands()
            for step, grid, group in zip(recorded.steps, recorded.grids, groups, strict=True):
                commands.set_pipeline(step.function.pipeline)
                commands.set_bind_group(0, group)
                commands.dispatch_workgroups(*grid)
            self.stream.queued(len(groups))

    def synchronize(self) -> None:
        """Wait for the queue."""
        with self.stream.lock, typed("waiting for kernels"):
            self.stream.submit()
            self.stream.device._poll_wait()

    def seconds(self, recorded: Recorded, handles: Sequence[Piece]) -> list[float]:
        """Run once, one launch after another, and return how long each took."""
        found = []
        for step in recorded.all:
            one = Recorded(self, [step])
            self.synchronize()
            start = perf_counter()
            self.run(one, handles)
            self.synchronize()
            found.append(perf_counter() - start)
        return found


class WgpuDevice(Device):
    """The device of a number in the list of all adapters."""

    memory: WgpuMemory
    toolchain: WgpuToolchain
    queue: WgpuQueue

    def __init__(self, number: int = 0) -> None:
        found = adapters()
        if number >= len(found):
            raise DeviceError(
                f"there are {len(found)} wgpu devices, and none of number {number}; a driver of "
                f"Vulkan, Metal or Direct3D 12 makes one"
            )
        opened = device(number)
        dialect, plane = language(opened, number)
        info = opened.adapter.info
        words = (info["backend_type"], info["device"], info["description"], wgpu.__version__)
        self.info = describe(opened, dialect, plane)
        self.toolchain = WgpuToolchain(dialect, f"wgpu {' '.join(words)} {dialect.key}", number)
        stream = Stream(opened)
        align = opened.limits["min-storage-buffer-offset-alignment"]
        most = opened.limits["max-buffer-size"]
        self.memory = WgpuMemory(stream, most, parts=align <= 64)
        self.queue = WgpuQueue(stream, self.toolchain)

    def close(self) -> None:
        """Wait for what was queued."""
        self.queue.synchronize()
