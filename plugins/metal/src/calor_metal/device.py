"""A GPU of Apple's: memory, queue, and description.

Requirements: host and GPU share memory, and writes never wait for the GPU. One command buffer and
one encoder hold all launches of a plan, which run in order. A launch gets its arguments as one
structure with the addresses of buffers. Objects that a command buffer uses live until it is done;
Metal's temporaries are released at the end of a call. (Names are those of Apple's documentation of
Metal.)
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
from calor.units import bytes_text
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.device.protocol import Device, Queue, Slot, Step
from calor_kernel.device.words import WORD, Bytes, Piece, WordMemory
from calor_kernel.ir.nodes import Kernel
from calor_kernel.printers import bits_of

from ._bindings import bindings, devices, failure_of
from .dialect import MOST_ARGUMENTS, PLANE
from .matrices import MATRICES
from .toolchain import MetalToolchain

# Limit in bytes of writes through a second buffer, which need not wait.
_STAGED: Final = 1 << 20
_KINDS: Final = ("bool", "int", "uint", "float")
_FEATURES: Final = ("barrier", "planes", "atomics", "float_atomics", "fma", "matrix", "pointers")
# Metal does not report the number of GPU cores; the first M1 has at least this many.
_CORES: Final = 8
_CACHES: Final = (8 << 10, 8 << 20)


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """An MTLBuffer: its GPU address, and its bytes on the host."""

    made: Any
    address: int
    bytes: Bytes


class MetalMemory(WordMemory):
    """Buffers shared by processor and GPU; the GPU copies whole words between them."""

    def __init__(self, metal: Any, device: Any, queue: MetalQueue) -> None:
        self.metal = metal
        self.device = device
        self.queue = queue

    def alloc(self, nbytes: int) -> Piece:
        """Return a buffer.

        Raises
        ------
        OutOfMemoryError
            If Metal allocates none.
        """
        most, made = self.device.maxBufferLength(), None
        size = max(-(-nbytes // WORD), 1) * WORD
        if size <= most:
            shared = self.metal.MTLResourceStorageModeShared
            made = self.device.newBufferWithLength_options_(size, shared)
        if made is None:
            raise OutOfMemoryError(
                f"Metal cannot allocate a buffer of {bytes_text(nbytes)}; the limit is "
                f"{bytes_text(most)}; free tensors, or compute in smaller parts"
            )
        whole = np.frombuffer(made.contents().as_buffer(size), np.uint8)
        return Piece(Shared(made, made.gpuAddress(), whole), 0, size)

    def free(self, handle: Piece) -> None:
        """Drop a reference; the last one frees the buffer."""

    def read(self, buffer: Shared, start: int, nbytes: int) -> Bytes:
        """Return the data that the GPU has written."""
        self.queue.synchronize()
        return buffer.bytes[start : start + nbytes]

    def put(self, buffer: Shared, start: int, data: Bytes) -> None:
        """Write at once if the GPU is idle, else small data through a buffer that it copies."""
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
    """A loaded kernel: its pipeline and its parameters."""

    pipeline: Any
    kernel: Kernel


class Recorded:
    """A launch: its numbers as words, and the positions of buffer addresses among them."""

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
    """One MTLCommandQueue, which runs command buffers in order."""

    def __init__(self, metal: Any, device: Any, toolchain: MetalToolchain) -> None:
        self.metal = metal
        self.toolchain = toolchain
        self.queue = device.newCommandQueue()
        self._lock = threading.Lock()
        # Command buffers that may still run, each with the objects that it uses.
        self._running: deque[tuple[Any, Sequence[Any]]] = deque()
        # Errors since the last wait.
        self._failed: DeviceError | None = None

    def load(self, image: bytes, kernel: Kernel | Any) -> Function:
        """Return the function of an image."""
        return Function(self.toolchain.pipeline(image.decode(), kernel.name), kernel)

    def record(self, steps: Sequence[Step], slots: int) -> list[Recorded]:
        """Return the launches with all arguments set except buffer addresses."""
        return [Recorded(step, self.metal.MTLSizeMake) for step in steps]

    def run(self, recorded: Sequence[Recorded], handles: Sequence[Piece]) -> None:
        """Commit all launches as one command buffer, and return."""
        self._run(recorded, handles)

    def _run(self, recorded: Sequence[Recorded], handles: Sequence[Piece]) -> Any:
        """Commit all launches; the objects of their command buffer live until it is done."""
        with self._turn():
            commands = self.queue.commandBuffer()
            encoder = commands.computeCommandEncoder()
            buffers = list({id(p.buffer): p.buffer.made for p in handles}.values())
            if buffers:
                # Metal does not see addresses in arguments, so used buffers are declared.
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
        """Release finished command buffers, or wait for all, under the lock."""
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
        """Return whether all committed work is done."""
        with self._turn():
            return not self._running

    def synchronize(self) -> None:
        """Wait for all command buffers.

        Raises
        ------
        DeviceError
            If some failed; it is the first error.
        """
        with self._turn(waiting=True):
            failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def seconds(self, recorded: Sequence[Recorded], handles: Sequence[Piece]) -> list[float]:
        """Run each launch in its own command buffer, and return the GPU's times in seconds."""
        self.synchronize()
        found = []
        for launch in recorded:
            commands = self._run([launch], handles)
            self.synchronize()
            found.append(commands.GPUEndTime() - commands.GPUStartTime())
        return found


def describe(device: Any) -> DeviceInfo:
    """Return the device description."""
    most = device.maxThreadsPerThreadgroup()
    computed = {t for t in ALL if t.kind in _KINDS} - {float64, bfloat16}
    return DeviceInfo(
        description=f"{device.name()} (Metal)",
        dtypes=frozenset(computed),
        features=frozenset(_FEATURES),
        arguments=MOST_ARGUMENTS,
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
    """The GPU with a number in the list of all; ``toolchain`` may use an imitation of Metal."""

    memory: MetalMemory
    toolchain: MetalToolchain
    queue: MetalQueue

    def __init__(self, number: int = 0, toolchain: MetalToolchain | None = None) -> None:
        metal = bindings() if toolchain is None else toolchain.metal()
        found = devices(metal)
        if number >= len(found):
            raise DeviceError(
                f"there is no GPU {number} with Metal 3; the system lists {len(found)}, numbered "
                f"from 0: see About This Mac"
            )
        device = found[number]
        self.info = describe(device)
        self.toolchain = toolchain or MetalToolchain(f"metal 3.2 {device.name()}", number)
        self.queue = MetalQueue(metal, device, self.toolchain)
        self.memory = MetalMemory(metal, device, self.queue)
