"""The functions of wgpu-py that calor-wgpu uses, and the meaning of its errors.

Requirements: every failure of the driver becomes a typed error in one place. Importing this module
loads the driver, so only code that runs on a device imports it. OpenGL is excluded, because it
lacks features that kernels need, and each of its devices also has another driver.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from time import perf_counter
from typing import Any, Final, NamedTuple

import numpy as np
import wgpu
from wgpu.backends.wgpu_native import _api as native
from wgpu.backends.wgpu_native.extras import set_instance_extras

from calor.errors import CompileError, DeviceError, DeviceLostError, OutOfMemoryError
from calor_kernel.device.batches import Batch
from calor_kernel.ir.nodes import Kernel
from calor_kernel.ir.types import Buffer
from calor_wgpu.structs import VECTOR

_BACKENDS: Final = ("Vulkan", "Metal", "DX12")
# Features that are requested if the adapter has them.
_WANTED: Final = frozenset(
    (
        "memory-decoration-coherent",
        "shader-f64",
        "shader-float32-atomic",
        "shader-int64",
        "shader-int64-atomic-all-ops",
        "subgroup",
        "subgroup-barrier",
        "timestamp-query",
    )
)
# Number of waiting dispatches at first and at most, and the limit of their work. An H200 was seen
# idle for 25 µs between submissions, and the host spends as much on each.
_BATCH, _MOST = 16, 64
_WORK: Final = 1 << 32
_TROUBLE: Final = VECTOR  # bytes
# Size in bytes of the temporary buffer for copies within a buffer, which is kept for reuse.
_BETWEEN: Final = 16 << 20
# Buffers from this size in bytes are bound read-only; larger tensors are never parts of a buffer.
APART: Final = 1 << 18
# Of more buffers that a kernel reads, all are bound read-only or none: the update of an optimizer
# would have a pipeline for each of its launches, as gradients lie apart from what it writes or not.
_CHOSEN: Final = 8
ALIGN: Final = 256  # alignment of bindings in bytes, sufficient for every adapter
STORAGE: Final = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST

# How a text declares a buffer that its kernel only reads.
READ_ONLY: Final = "@binding({}) var<storage, read>"

Part = tuple[Any, int, int]
"""A part of a buffer: where it begins, and its bytes."""


@contextmanager
def typed(what: str) -> Iterator[None]:
    """Convert errors of wgpu to those of calor; ``what`` is the action."""
    try:
        yield
    except wgpu.GPUOutOfMemoryError as error:
        raise OutOfMemoryError(f"wgpu: out of memory: {what}") from error
    except (wgpu.GPUError, wgpu.GPUPipelineError, RuntimeError) as error:
        kind = DeviceLostError if "lost" in str(error).lower() else DeviceError
        if isinstance(error, DeviceError):
            raise
        raise kind(f"wgpu: {what}: {error}") from error


@contextmanager
def _runtime_directory() -> Iterator[None]:
    """Set XDG_RUNTIME_DIR if it is unset.

    Mesa's drivers look for a display there, and one of their libraries prints a warning without it.
    """
    if os.environ.get("XDG_RUNTIME_DIR"):
        yield
        return
    os.environ["XDG_RUNTIME_DIR"] = tempfile.gettempdir()
    try:
        yield
    finally:
        del os.environ["XDG_RUNTIME_DIR"]


@cache
def adapters() -> tuple[Any, ...]:
    """Return the adapters with compute shaders, in the drivers' order.

    ``CALOR_WGPU_ADAPTER`` selects adapters whose name contains it, ignoring case.
    """
    set_instance_extras(backends=_BACKENDS)
    wanted = os.environ.get("CALOR_WGPU_ADAPTER", "").lower()
    try:
        with _runtime_directory():
            found = wgpu.gpu.enumerate_adapters_sync()
    except RuntimeError:
        # The loader reports a missing driver as an error.
        return ()
    return tuple(
        a
        for a in found
        if a.info["backend_type"] in _BACKENDS and wanted in a.info["device"].lower()
    )


def count() -> int:
    """Return the number of adapters."""
    return len(adapters())


@cache
def device(number: int) -> Any:
    """Return the device of an adapter with its maximal limits; a process has one for each.

    ``CALOR_WGPU_WITHOUT`` disables features, separated by commas.
    """
    adapter = adapters()[number]
    without = os.environ.get("CALOR_WGPU_WITHOUT", "").split(",")
    features = sorted((_WANTED & adapter.features) - {w.strip() for w in without})
    with typed(f"opening device {number}"), _runtime_directory():
        return adapter.request_device_sync(
            required_features=features, required_limits=dict(adapter.limits)
        )


def most_seen(opened: Any) -> int:
    """Return the largest binding in bytes, which is what a launch sees of a buffer."""
    most: int = opened.limits["max-storage-buffer-binding-size"]
    return most // ALIGN * ALIGN


def module(number: int, text: str, name: str) -> Any:
    """Return the shader module of a text.

    naga adds no bounds checks and no checks for endless loops, because kernels are checked when
    they run on lanes; ``CALOR_WGPU_CHECKS=1`` enables them.

    Raises
    ------
    CompileError
        If wgpu refuses the text; the message has the compiler's message and the text.
    """
    opened = device(number)
    try:
        if os.environ.get("CALOR_WGPU_CHECKS", "0") not in ("", "0"):
            return opened.create_shader_module(code=text, label=name)
        return _trusted(opened, text, name)
    except wgpu.GPUError as error:
        raise CompileError(f"wgpu refuses kernel {name!r}: {error}\n{text}") from error


def _trusted(opened: Any, text: str, name: str) -> Any:
    """Return a shader module without run-time checks, for which wgpu-py has no method."""
    source = native.new_struct_p("WGPUShaderSourceWGSL *", code=native.to_c_string_view(text))
    source[0].chain.next = native.ffi.NULL
    source[0].chain.sType = native.lib.WGPUSType_ShaderSourceWGSL
    descriptor = native.new_struct_p(
        "WGPUShaderModuleDescriptor *",
        nextInChain=native.ffi.cast("WGPUChainedStruct *", source),
        label=native.to_c_string_view(name),
    )
    made = native.libf.wgpuDeviceCreateShaderModuleTrusted(opened._internal, descriptor, 0)
    return native.GPUShaderModule(name, made, opened)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A compute pipeline, its bind group layout, and the name of its kernel."""

    made: Any
    layout: Any
    name: str


class Pipelines:
    """The pipelines of a kernel, by the set of its input buffers that are bound read-only.

    wgpu forbids a buffer that is both written and bound read-only in one dispatch, and tensors may
    be parts of one buffer. Large buffers that are only read are bound read-only: on an H200 a
    softmax then takes 0.76 of the time and a matrix product 0.9, because the driver's compiler may
    assume that the data do not change.
    """

    def __init__(self, stream: Stream, number: int, text: str, kernel: Kernel) -> None:
        self._number, self._text, self._name = number, text, kernel.name
        self._limited = stream.trouble is not None
        count = sum(isinstance(p.declared, Buffer) for p in kernel.parameters)
        self._written = [READ_ONLY.format(i + 1) not in text for i in range(count)]
        # Made on use: the driver compiles each for a long time, and a kernel rarely needs two.
        self._made: dict[frozenset[int], Pipeline] = {}

    @property
    def length(self) -> int:
        """The characters of the text."""
        return len(self._text)

    def of(self, shown: Sequence[Part]) -> Pipeline:
        """Return the pipeline for parts of buffers, each with its offset and size."""
        chosen = self.apart(shown)
        found = self._made.get(chosen)
        return self.add(chosen) if found is None else found

    def has(self, read: frozenset[int]) -> bool:
        """Return whether there is a pipeline for a set of buffers that are bound read-only."""
        return read in self._made

    def add(self, read: frozenset[int]) -> Pipeline:
        """Make the pipeline for a set of buffers that are bound read-only."""
        found = self._made[read] = self._make(read)
        return found

    def apart(self, shown: Sequence[Part]) -> frozenset[int]:
        """Return the numbers of the buffers that are bound read-only for these parts."""
        both = list(zip(shown, self._written, strict=True))
        taken = {id(buffer) for (buffer, _, _), written in both if written}
        apart = [
            (i, size)
            for i, ((buffer, _, size), written) in enumerate(both)
            if not written and id(buffer) not in taken
        ]
        large = sum(size for _, size in apart) > APART
        read = len(both) - sum(self._written)
        if not large or (read > _CHOSEN and len(apart) < read):
            return frozenset()
        return frozenset(i for i, _ in apart)

    def _make(self, read: frozenset[int]) -> Pipeline:
        text, kinds = self._text, [i not in read for i in range(len(self._written))]
        for i, both in enumerate(kinds):
            if both:
                begin = READ_ONLY.format(i + 1)
                text = text.replace(begin, begin.replace("read", "read_write"))
        return pipeline(self._number, text, self._name, kinds + [True] * self._limited)


def add_pipelines(wanted: Iterable[tuple[Pipelines, Sequence[Part]]]) -> None:
    """Make the pipelines that parts of buffers need and that are not there, several at a time.

    A long text comes first: the driver takes several seconds for it, and all others may be made
    beside it.
    """
    sets = {(made, made.apart(shown)): None for made, shown in wanted}
    lacking = [one for one in sets if not one[0].has(one[1])]
    lacking.sort(key=lambda one: -one[0].length)
    if len(lacking) < 2:
        for made, read in lacking:
            made.add(read)
        return
    with ThreadPoolExecutor(thread_name_prefix="calor-wgpu") as pool:
        # Errors are raised here.
        [*pool.map(lambda one: one[0].add(one[1]), lacking)]


def pipeline(number: int, text: str, name: str, written: Sequence[bool]) -> Pipeline:
    """Return the pipeline of a text: numbers are binding 0, followed by buffers, written or not.

    A bind group with less than a vector of a buffer is refused when it is made: without a minimum,
    wgpu refuses all that waits for submission when it is submitted, and names no launch.
    """
    opened, shader = device(number), module(number, text, name)
    buffers: list[dict[str, Any]] = [{"type": "uniform"}]
    for both in written:
        kind = "storage" if both else "read-only-storage"
        buffers.append({"type": kind, "min_binding_size": VECTOR})
    layout = opened.create_bind_group_layout(
        entries=[
            {"binding": i, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": buffer}
            for i, buffer in enumerate(buffers)
        ]
    )
    try:
        made = opened.create_compute_pipeline(
            layout=opened.create_pipeline_layout(bind_group_layouts=[layout]),
            compute={"module": shader, "entry_point": "main"},
        )
    except (wgpu.GPUValidationError, wgpu.GPUPipelineError) as error:
        # A kernel's need of registers and shared memory is known only here.
        raise CompileError(f"wgpu refuses kernel {name!r}: {error}\n{text}") from error
    return Pipeline(made, layout, name)


def uniform(opened: Any, data: bytes) -> Any:
    """Return a buffer of constant numbers."""
    return opened.create_buffer_with_data(data=data, usage=wgpu.BufferUsage.UNIFORM)


class Dispatch(NamedTuple):
    """A dispatch of a pass: its pipeline, its bind group, the driver's names of both, its grid."""

    to: Pipeline
    group: Any
    pipeline: Any
    bound: Any
    x: int
    y: int
    z: int

    @classmethod
    def of(cls, to: Pipeline, group: Any, grid: tuple[int, int, int]) -> Dispatch:
        """Return a dispatch, which keeps its bind group."""
        return cls(to, group, to.made._internal, group._internal, *grid)


class Commands:
    """A compute pass that skips settings which are already in effect.

    wgpu-py checks for errors around each call, which takes longer than the call; errors of a pass
    are reported at its end. ``ran``: the list to which the pipelines of its dispatches are added.
    """

    __slots__ = ("_group", "_pass", "_ran", "_to")

    def __init__(self, made: Any, ran: list[Pipeline]) -> None:
        self._pass = made
        self._ran = ran
        self._to: Pipeline | None = None
        self._group: Any = None

    def dispatch(self, some: Iterable[Dispatch]) -> None:
        """Add dispatches. A list of hundreds is one call, without look-ups for each of them."""
        lib, nothing, made, ran = native.lib, native.ffi.NULL, self._pass, self._ran
        choose, use = lib.wgpuComputePassEncoderSetPipeline, lib.wgpuComputePassEncoderSetBindGroup
        run = lib.wgpuComputePassEncoderDispatchWorkgroups
        last_to, last_group = self._to, self._group
        for to, group, pipeline, bound, x, y, z in some:
            if to is not last_to:
                choose(made, pipeline)
                last_to = to
                ran.append(to)
            if group is not last_group:
                use(made, 0, bound, 0, nothing)
                last_group = group
            run(made, x, y, z)
        self._to, self._group = last_to, last_group

    def end(self) -> None:
        """End the pass, which must not be used afterwards."""
        native.libf.wgpuComputePassEncoderEnd(self._pass)
        native.lib.wgpuComputePassEncoderRelease(self._pass)


class Stream:
    """The work that waits for submission, in order. The caller of its methods holds its lock.

    Encoding and submission cost more than a small dispatch, so dispatches collect in one compute
    pass until a result is needed, or until there is enough work to keep the device busy.
    """

    def __init__(self, opened: Any, limited: bool) -> None:
        self.device = opened
        # Memory where kernels report a loop that the device cut off.
        self.trouble: Any = opened.create_buffer(size=_TROUBLE, usage=STORAGE) if limited else None
        self.lock = threading.RLock()
        # The first error, after which results are unreliable.
        self.lost = ""
        self._room: Any = None
        self._encoder: Any = None
        self._pass: Commands | None = None
        # The pipelines of the waiting dispatches, which errors name.
        self.ran: list[Pipeline] = []
        self._submitted = native.ffi.new("WGPUCommandBuffer[1]")
        submit = typed("running kernels")(self.submit)
        self.waiting = Batch(submit, _BATCH, _WORK, _MOST)

    def commands(self) -> Commands:
        """Return the compute pass."""
        if self._pass is None:
            # wgpu-py's objects for passes and submissions cost as much as several dispatches.
            with typed("running kernels"):
                begin, encoder = native.libf.wgpuCommandEncoderBeginComputePass, self.between()
                self._pass = Commands(begin(encoder._internal, native.ffi.NULL), self.ran)
        return self._pass

    def between(self) -> Any:
        """Return the encoder after the waiting dispatches."""
        if self.lost:
            raise DeviceLostError(self.lost)
        with self._whole():
            if self._pass is not None:
                ended, self._pass = self._pass, None
                ended.end()
            if self._encoder is None:
                self._encoder = self.device.create_command_encoder()
        return self._encoder

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Make later reads fail after an error in an encoder, whose results are incomplete."""
        try:
            yield
        except Exception as error:
            names = ", ".join(dict.fromkeys(one.name for one in self.ran))
            if self._encoder is not None:
                told = f" (kernels {names})" if names else ""
                self.lost = f"wgpu: what waited for the device{told} was not computed: {error}"
            self.drop()
            with typed(f"running kernels {names}".rstrip()):
                raise

    def drop(self) -> None:
        """Discard the waiting work."""
        self._encoder = self._pass = None
        self.ran.clear()
        self.waiting.begun()

    def copy(self, target: Any, at: int, source: Any, start: int, nbytes: int) -> None:
        """Add a copy; a copy within one buffer goes through a temporary one."""
        copy = self.between().copy_buffer_to_buffer
        if source is not target:
            copy(source, start, target, at, nbytes)
            return
        # Overlapping ranges are read completely before the first write.
        most = _BETWEEN if abs(at - start) >= nbytes else nbytes
        room = self._room
        if room is None or room.size < min(nbytes, most):
            room = self.device.create_buffer(size=min(nbytes, most), usage=STORAGE)
        if room.size <= _BETWEEN:
            self._room = room
        for first in range(0, nbytes, most):
            size = min(most, nbytes - first)
            copy(source, start + first, room, 0, size)
            copy(room, 0, target, at + first, size)

    def submit(self) -> None:
        """Submit all waiting work."""
        if self._encoder is not None or self.lost:
            lib, encoder = native.libf, self.between()
            with self._whole():
                made = self._submitted[0] = lib.wgpuCommandEncoderFinish(
                    encoder._internal, native.ffi.NULL
                )
                lib.wgpuQueueSubmit(self.device.queue._internal, 1, self._submitted)
                native.lib.wgpuCommandBufferRelease(made)
            self.drop()

    def read(self, buffer: Any, start: int, nbytes: int) -> np.ndarray[Any, Any]:
        """Return bytes of a buffer, after the waiting work."""
        self.submit()
        found = self.device.queue.read_buffer(buffer, start, nbytes)
        self.waiting.rested()
        self.check()
        return np.frombuffer(found, np.uint8)

    def wait(self) -> None:
        """Wait for all work.

        A poll that does not wait is not sufficient: NVIDIA's Vulkan driver was seen to report no
        work while kernels ran.
        """
        self.submit()
        self.device._poll_wait()
        self.waiting.rested()
        self.check()

    def check(self) -> None:
        """Raise errors of kernels since the last check."""
        queue = self.device.queue
        if self.trouble is not None and any(queue.read_buffer(self.trouble)):
            queue.write_buffer(self.trouble, 0, bytes(_TROUBLE))
            raise DeviceError(
                "the driver cut off a loop, as Mesa's software device does after 65535 iterations; "
                "compute in smaller parts, or on another device"
            )


def bind(stream: Stream, to: Pipeline, numbers: Part, shown: Sequence[Part]) -> Any:
    """Return a bind group of numbers and of parts of buffers.

    wgpu-py's method takes five times as long, as it makes each of its structures by name.
    """
    told = [] if stream.trouble is None else [(stream.trouble, 0, _TROUBLE)]
    parts = [numbers, *shown, *told]
    entries = native.ffi.new("WGPUBindGroupEntry[]", len(parts))
    for number, (buffer, offset, size) in enumerate(parts):
        entry = entries[number]
        entry.binding, entry.buffer = number, buffer._internal
        entry.offset, entry.size = offset, size
    descriptor = native.ffi.new("WGPUBindGroupDescriptor *")
    descriptor.layout, descriptor.entries = to.layout._internal, entries
    descriptor.entryCount = len(parts)
    device = stream.device
    made = native.libf.wgpuDeviceCreateBindGroup(device._internal, descriptor)
    return native.GPUBindGroup("", made, device)


def compute(number: int, text: str, data: bytes) -> memoryview:
    """Run one cube of a text on a buffer, its binding 1, and return the result."""
    stream = Stream(device(number), limited=False)
    buffer = stream.device.create_buffer_with_data(data=data, usage=STORAGE)
    made = pipeline(number, text, "probe", [True])
    numbers = uniform(stream.device, bytes(16)), 0, 16
    group = bind(stream, made, numbers, [(buffer, 0, len(data))])
    stream.commands().dispatch([Dispatch.of(made, group, (1, 1, 1))])
    return stream.read(buffer, 0, len(data)).data


def timed(stream: Stream, encode: Callable[[Commands], None]) -> float:
    """Return the duration of a pass in seconds, by the device's clock, or else by the host's."""
    opened, clock = stream.device, "timestamp-query" in stream.device.features
    stream.wait()
    queries = opened.create_query_set(type="timestamp", count=2) if clock else None
    writes = {
        "query_set": queries,
        "beginning_of_pass_write_index": 0,
        "end_of_pass_write_index": 1,
    }
    begin = perf_counter()
    encoder = stream.between()
    try:
        commands = encoder.begin_compute_pass(timestamp_writes=writes if clock else None)
        encode(Commands(commands._internal, stream.ran))
        commands.end()
    except Exception:
        stream.drop()
        raise
    if not clock:
        stream.wait()
        return perf_counter() - begin
    usage = wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC
    times = opened.create_buffer(size=16, usage=usage)
    encoder.resolve_query_set(queries, 0, 2, times, 0)
    start, end = stream.read(times, 0, 16).view("<u8").tolist()
    period = native.libf.wgpuQueueGetTimestampPeriod(opened.queue._internal)
    seconds: float = max(end - start, 0) * period * 1e-9
    return seconds
