"""A GPU of Apple's: memory, queue, and what it says of itself.

Requirements: memory is the host's and the GPU's at once, and nobody waits for the GPU to write; one
command buffer and one encoder hold all launches of a plan, which run one after another; a launch
gets its arguments as one structure, with the addresses of buffers in it; whatever a command buffer
uses lives until it is done, and what Metal makes for a moment goes at the end of a call. (Names are
those of Apple's documentation of Metal.)
"""

from __future__ import annotations

import struct
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from calor.dtypes import ALL, bfloat16, float64
from calor.errors import DeviceError, OutOfMemoryError
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.device.protocol import Device, Queue, Slot, Step
from calor_kernel.device.words import WORD, Bytes, Piece, WordMemory
from calor_kernel.ir.nodes import Kernel
from calor_kernel.printers import bits_of

from ._bindings import bindings, devices, failure_of
from .dialect import PLANE
from .matrices import MATRICES
from .toolchain import MetalToolchain

# Bytes of what is written by a second buffer, so that nobody waits.
_STAGED: Final = 1 << 20
_KINDS: Final = ("bool", "int", "uint", "float")
_FEATURES: Final = ("barrier", "planes", "atomics", "float_atomics", "fma", "matrix")
# Metal does not say how many cores a GPU has; those of the first M1 have as many at least.
_CORES: Final = 8
_CACHES: Final = (8 << 10, 8 << 20)


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """An MTLBuffer: its address on the GPU, and its bytes as the host has them."""

    made: Any
    address: int
    bytes: Bytes


class MetalMemory(WordMemory):
    """Buffers that the processor and the GPU share, of which the GPU itself copies whole words."""

    def __init__(self, metal: Any, device: Any, queue: MetalQueue) -> None:
        self.metal = metal
        self.device = device
        self.queue = queue

    def alloc(self, nbytes: int) -> Piece:
        """Return a buffer; OutOfMemoryError where Metal gives none."""
        most, made = self.device.maxBufferLength(), None
        size = max(-(-nbytes // WORD), 1) * WORD
        if size <= most:
            shared = self.metal.MTLResourceStorageModeShared
            made = self.device.newBufferWithLength_options_(size, shared)
        if made is None:
            raise OutOfMemoryError(
                f"Metal has no buffer of {nbytes} bytes; one has {most} at most; free tensors, or "
                f"compute in parts"
            )
        whole = np.frombuffer(made.contents().as_buffer(size), np.uint8)
        return Piece(Shared(made, made.gpuAddress(), whole), 0, size)

    def free(self, handle: Piece) -> None:
        """Leave a buffer to whoever uses it still; the last reference gives it back."""

    def read(self, buffer: Shared, start: int, nbytes: int) -> Bytes:
        """Return what the GPU has written."""
        self.queue.synchronize()
        return buffer.bytes[start : start + nbytes]

    def put(self, buffer: Shared, start: int, data: Bytes) -> None:
        """Write at once where the GPU does nothing, little else by a buffer that it copies from."""
        if data.size <= _STAGED and not self.queue.idle():
            staged = self.alloc(data.size).buffer
            staged.bytes[:] = data
            self.move(buffer, start, staged, 0, data.size)
        else:
            self.queue.synchronize()
            buffer.bytes[start : start + data.size] = data

    def move(self, target: Shared, at: int, source: Shared, start: int, nbytes: int) -> None:
        """Copy in the order of the queue."""
        self.queue.copy(target, at, source, start, nbytes)


@dataclass(frozen=True, slots=True)
class Function:
    """A loaded kernel: its pipeline and what it is given."""

    pipeline: Any
    kernel: Kernel


class Recorded:
    """A launch: its numbers as words, and where the addresses of buffers go among them."""

    def __init__(self, step: Step, size: Any) -> None:
        function: Function = step.function
        self.pipeline = function.pipeline
        self.cubes = size(*step.cubes)
        self.units = size(*function.kernel.cube)
        self.empty = 0 in step.cubes
        self.slots = [
            (i, given) for i, given in enumerate(step.arguments) if isinstance(given, Slot)
        ]
        self.words = [
            0 if isinstance(given, Slot) else bits_of(given, parameter.declared.dtype)
            for parameter, given in zip(function.kernel.parameters, step.arguments, strict=True)
        ]

    def encode(self, encoder: Any, handles: Sequence[Piece]) -> None:
        """Encode the launch with its buffers."""
        if self.empty:
            return
        words = self.words.copy()
        for place, slot in self.slots:
            piece = handles[slot.number]
            words[place] = piece.buffer.address + piece.start + slot.offset
        arguments = struct.pack(f"<{len(words)}Q", *words)
        encoder.setComputePipelineState_(self.pipeline)
        encoder.setBytes_length_atIndex_(arguments, len(arguments), 0)
        encoder.dispatchThreadgroups_threadsPerThreadgroup_(self.cubes, self.units)


class MetalQueue(Queue):
    """One MTLCommandQueue, of which command buffers run in order."""

    def __init__(self, metal: Any, device: Any, toolchain: MetalToolchain) -> None:
        self.metal = metal
        self.toolchain = toolchain
        self.queue = device.newCommandQueue()
        self._lock = threading.Lock()
        # Command buffers that may still run, each with what it uses.
        self._running: deque[tuple[Any, Sequence[Any]]] = deque()
        # What failed since somebody waited.
        self._failed: DeviceError | None = None

    def load(self, image: bytes, kernel: Kernel | Any) -> Function:
        """Return the function of an image."""
        return Function(self.toolchain.pipeline(image.decode(), kernel.name), kernel)

    def record(self, steps: Sequence[Step], slots: int) -> list[Recorded]:
        """Return the launches with all arguments set but the addresses of buffers."""
        return [Recorded(step, self.metal.MTLSizeMake) for step in steps]

    def run(self, recorded: Sequence[Recorded], handles: Sequence[Piece]) -> None:
        """Commit all launches as one command buffer, and return."""
        self._run(recorded, handles)

    def _run(self, recorded: Sequence[Recorded], handles: Sequence[Piece]) -> Any:
        """Commit all launches; what their command buffer uses lives until it is done."""
        with self._turn():
            commands = self.queue.commandBuffer()
            encoder = commands.computeCommandEncoder()
            buffers = list({id(p.buffer): p.buffer.made for p in handles}.values())
            if buffers:
                # Addresses in arguments tell Metal nothing: it is said what is used.
                usage = self.metal.MTLResourceUsageRead | self.metal.MTLResourceUsageWrite
                encoder.useResources_count_usage_(buffers, len(buffers), usage)
            for launch in recorded:
                launch.encode(encoder, handles)
            return self._commit(commands, encoder, handles)

    def copy(self, target: Shared, at: int, source: Shared, start: int, nbytes: int) -> None:
        """Commit a copy between buffers, of whole words, and return."""
        with self._turn():
            commands = self.queue.commandBuffer()
            encoder = commands.blitCommandEncoder()
            encoder.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_(
                source.made, start, target.made, at, nbytes
            )
            self._commit(commands, encoder, (target, source))

    def _commit(self, commands: Any, encoder: Any, used: Sequence[Any]) -> Any:
        encoder.endEncoding()
        commands.commit()
        self._running.append((commands, tuple(used)))
        return commands

    @contextmanager
    def _turn(self, waiting: bool = False) -> Iterator[None]:
        """Let go of the command buffers that are done, or wait for all, and keep others out."""
        with self._lock, self.toolchain.pool():
            while self._running:
                commands, _ = self._running[0]
                if waiting:
                    commands.waitUntilCompleted()
                elif commands.status() < self.metal.MTLCommandBufferStatusCompleted:
                    break
                self._running.popleft()
                self._failed = self._failed or failure_of(self.metal, commands)
            yield

    def idle(self) -> bool:
        """Return whether everything that was committed is done."""
        with self._turn():
            return not self._running

    def synchronize(self) -> None:
        """Wait for all command buffers; a typed DeviceError, the first, if some failed."""
        with self._turn(waiting=True):
            failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def seconds(self, recorded: Sequence[Recorded], handles: Sequence[Piece]) -> list[float]:
        """Run each launch as a command buffer of its own, and return the GPU's times."""
        self.synchronize()
        found = []
        for launch in recorded:
            commands = self._run([launch], handles)
            self.synchronize()
            found.append(commands.GPUEndTime() - commands.GPUStartTime())
        return found


def describe(device: Any) -> DeviceInfo:
    """Return what kernels and their choice depend on."""
    most = device.maxThreadsPerThreadgroup()
    computed = {t for t in ALL if t.kind in _KINDS} - {float64, bfloat16}
    return DeviceInfo(
        description=f"{device.name()} (Metal)",
        dtypes=frozenset(computed),
        features=frozenset(_FEATURES),
        max_units=most.width,
        max_cube=(most.width, most.height, most.depth),
        planes=(PLANE,),
        shared_bytes=device.maxThreadgroupMemoryLength(),
        cores=_CORES,
        caches=_CACHES,
        memory_bytes=device.recommendedMaxWorkingSetSize(),
        max_buffer_bytes=device.maxBufferLength(),
        matrices=MATRICES,
        native={"registry": device.registryID()},
    )


class MetalDevice(Device):
    """The GPU of a number in the list of all; ``toolchain``: of another module than PyObjC's."""

    memory: MetalMemory
    toolchain: MetalToolchain
    queue: MetalQueue

    def __init__(self, number: int = 0, toolchain: MetalToolchain | None = None) -> None:
        metal = bindings() if toolchain is None else toolchain.metal()
        found = devices(metal)
        if number >= len(found):
            raise DeviceError(
                f"there are {len(found)} GPUs that Metal 3 runs on, and none of number {number}; "
                f"About This Mac names those that the machine has"
            )
        device = found[number]
        self.info = describe(device)
        self.toolchain = toolchain or MetalToolchain(f"metal 3.2 {device.name()}", number)
        self.queue = MetalQueue(metal, device, self.toolchain)
        self.memory = MetalMemory(metal, device, self.queue)
