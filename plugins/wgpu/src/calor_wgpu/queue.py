"""Launches on a device of wgpu, in order.

Requirements: numbers are written to memory once, when launches are recorded, so that running them
only binds buffers; bind groups are kept for handles that come again; in a pass wgpu orders
dispatches by the buffers that they use, which are all bound for reading and writing, for pieces of
one buffer are read and written by one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

import numpy as np
import wgpu

from calor.dtypes import DType
from calor.errors import ArgumentError, DeviceError
from calor_kernel.ir.nodes import Kernel
from calor_kernel.ir.types import Buffer
from calor_kernel.printers import bits_of
from calor_kernel.runtime.device import Queue, Slot, Step

from ._bindings import module, nanoseconds, typed
from .memory import WORD, Piece, Stream
from .toolchain import WgpuToolchain
from .wgsl import COUNTS, MOST_CUBES, arguments

_BINDINGS: Final = 32  # sets of handles for which a recorded list keeps its bind groups
_ALIGN: Final = 256  # of bindings, enough for every adapter


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

    def encode(self, commands: Any, handles: Sequence[Piece]) -> None:
        """Add all launches to a pass."""
        groups = self.bound(handles)
        for step, grid, group in zip(self.steps, self.grids, groups, strict=True):
            commands.set_pipeline(step.function.pipeline)
            commands.set_bind_group(0, group)
            commands.dispatch_workgroups(*grid)

    def _group(self, step: Step, place: int, handles: Sequence[Piece]) -> Any:
        function: Function = step.function
        opened = self.queue.stream.device
        entries, begins = [], []
        for given in step.arguments:
            if isinstance(given, Slot):
                piece = handles[given.number]
                begin, nbytes = self.queue.window(piece, given.offset)
                begins.append(begin)
                entries.append(_entry(len(begins), piece.buffer, piece.start + begin, nbytes))
        if self.queue.stream.trouble is not None:
            entries.append(_entry(len(entries) + 1, self.queue.stream.trouble, 0, WORD))
        buffer = self.buffer
        if any(begins):
            # Windows begin elsewhere for these handles, and so do offsets.
            usage = wgpu.BufferUsage.UNIFORM
            data = _packed(step, begins)
            buffer, place = opened.create_buffer_with_data(data=data, usage=usage), 0
        entries.append(_entry(0, buffer, place, function.fields.itemsize))
        return opened.create_bind_group(layout=function.layout, entries=entries)


def _entry(binding: int, buffer: Any, offset: int, size: int) -> dict[str, Any]:
    return {"binding": binding, "resource": {"buffer": buffer, "offset": offset, "size": size}}


def _grid(cubes: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return the dispatch of a launch: x is folded into y where it is too long."""
    x, y, z = cubes
    folded = (x, y, z) if x <= MOST_CUBES else (MOST_CUBES, y * -(-x // MOST_CUBES), z)
    if max(folded) > MOST_CUBES:
        raise DeviceError(f"a launch of {cubes} cubes is above what the device dispatches")
    return folded


def _packed(step: Step, begins: Sequence[int] = ()) -> bytes:
    """Return the arguments of a launch as its kernel takes them.

    ``begins``: where the window of each buffer begins in its piece, 0 if nothing is said.
    """
    fields, before = step.function.fields, iter(begins)
    row = np.zeros((), fields)
    for name, parameter, given in zip(
        fields.names, step.function.kernel.parameters, step.arguments, strict=False
    ):
        dtype: DType = parameter.declared.dtype
        if isinstance(given, Slot):
            row[name] = (given.offset - next(before, 0)) // dtype.itemsize & 0xFFFFFFFF
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
        self.most = limits["max-storage-buffer-binding-size"] // _ALIGN * _ALIGN

    def window(self, piece: Piece, offset: int) -> tuple[int, int]:
        """Return where to begin binding in a piece, and how many bytes to bind.

        All of it, or as much as is bound at once: as much before an offset as behind it, so that a
        value of half the size is inside wherever a kernel begins in it.
        """
        nbytes = -(-piece.nbytes // WORD) * WORD
        if nbytes <= self.most:
            return 0, nbytes
        begin = max(offset - self.most // 2, 0) // _ALIGN * _ALIGN
        return begin, min(self.most, nbytes - begin)

    def load(self, image: bytes, kernel: Kernel | Any) -> Function:
        """Return the pipeline of an image."""
        opened, number = self.stream.device, self.toolchain.number
        assert number is not None
        buffers = sum(isinstance(p.declared, Buffer) for p in kernel.parameters)
        with typed(f"loading kernel {kernel.name}"):
            shader = module(number, image.decode(), kernel.name)
            buffers += self.stream.trouble is not None
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
            recorded.encode(self.stream.commands(), handles)
            self.stream.queued(len(recorded.steps))

    def synchronize(self) -> None:
        """Wait for the queue."""
        with self.stream.lock, typed("waiting for kernels"):
            self.stream.submit()
            self.stream.device._poll_wait()
            self.stream.check()

    def seconds(self, recorded: Recorded, handles: Sequence[Piece]) -> list[float]:
        """Run once, each launch in a pass that takes times, and return the device's."""
        opened = self.stream.device
        if "timestamp-query" not in opened.features:
            return [self._clocked(step, handles) for step in recorded.all]
        found: list[float] = []
        for step in recorded.all:
            with self.stream.lock, typed("timing kernels"):
                found.append(self._timed(Recorded(self, [step]), handles))
        return found

    def _clocked(self, step: Step, handles: Sequence[Piece]) -> float:
        one = Recorded(self, [step])
        self.synchronize()
        start = perf_counter()
        self.run(one, handles)
        self.synchronize()
        return perf_counter() - start

    def _timed(self, one: Recorded, handles: Sequence[Piece]) -> float:
        opened = self.stream.device
        queries = opened.create_query_set(type="timestamp", count=2)
        usage = wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC
        times = opened.create_buffer(size=16, usage=usage)
        encoder = self.stream.between()
        commands = encoder.begin_compute_pass(
            timestamp_writes={
                "query_set": queries,
                "beginning_of_pass_write_index": 0,
                "end_of_pass_write_index": 1,
            }
        )
        one.encode(commands, handles)
        commands.end()
        encoder.resolve_query_set(queries, 0, 2, times, 0)
        self.stream.submit()
        start, end = np.frombuffer(opened.queue.read_buffer(times), np.uint64).tolist()
        steps: int = max(end - start, 0)
        return steps * nanoseconds(opened) * 1e-9
