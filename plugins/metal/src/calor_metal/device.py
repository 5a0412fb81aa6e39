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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from calor.dtypes import ALL, bfloat16, float64
from calor.errors import DeviceError, OutOfMemoryError
from calor_kernel.ir.nodes import Kernel
from calor_kernel.printers import bits_of
from calor_kernel.runtime.device import Device, DeviceInfo, Memory, Queue, Slot, Step

from ._bindings import bindings, devices, failure_of
from .dialect import PLANE
from .matrices import MATRICES
from .toolchain import MetalToolchain

_WORD: Final = 8
# Bytes of what is written by a second buffer, so that nobody waits.
_STAGED: Final = 1 << 20
_FEATURES: Final = ("barrier", "planes", "atomics", "float_atomics", "fma", "matrix")
# Metal does not say how many cores a GPU has; those of the first M1 have as many at least.
_CORES: Final = 8
_CACHES: Final = (8 << 10, 8 << 20)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an MTLBuffer, from a byte on, which is at an address of the GPU's."""

    buffer: Any
    start: int
    address: int

    def bytes(self, offset: int, nbytes: int) -> np.ndarray[Any, Any]:
        """Return the host's view of some bytes."""
        at = self.start + offset
        whole = self.buffer.contents().as_buffer(self.buffer.length())
        return np.frombuffer(whole, np.uint8)[at : at + nbytes]


def _in_words(*numbers: int) -> bool:
    """Return whether the GPU's own copies have such places and sizes: multiples of 4 bytes."""
    return all(number % 4 == 0 for number in numbers)


class MetalMemory(Memory):
    """Buffers that the processor and the GPU share. A handle is a Piece."""

    def __init__(self, metal: Any, device: Any, queue: MetalQueue) -> None:
        self.metal = metal
        self.device = device
        self.queue = queue

    def alloc(self, nbytes: int) -> Piece:
        """Return a buffer; OutOfMemoryError where Metal gives none."""
        most = self.device.maxBufferLength()
        buffer = None
        if nbytes <= most:
            shared = self.metal.MTLResourceStorageModeShared
            buffer = self.device.newBufferWithLength_options_(max(nbytes, 1), shared)
        if buffer is None:
            raise OutOfMemoryError(
                f"Metal has no buffer of {nbytes} bytes; one has {most} at most; free tensors, or "
                f"compute in parts"
            )
        return Piece(buffer, 0, buffer.gpuAddress())

    def free(self, handle: Piece) -> None:
        """Leave a buffer to whoever uses it still; the last reference gives it back."""

    def copy_in(self, handle: Piece, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Write at once where the GPU does nothing, little else by a buffer that it copies from."""
        data = array.reshape(-1).view(np.uint8)
        small = 0 < array.nbytes <= _STAGED and _in_words(handle.start + offset, array.nbytes)
        if small and not self.queue.idle():
            staged = self.alloc(array.nbytes)
            staged.bytes(0, array.nbytes)[:] = data
            self.queue.copy(handle, offset, staged, 0, array.nbytes)
            return
        self.queue.synchronize()
        handle.bytes(offset, array.nbytes)[:] = data

    def copy_out(self, handle: Piece, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Read what the GPU has written."""
        self.queue.synchronize()
        array.reshape(-1).view(np.uint8)[:] = handle.bytes(offset, array.nbytes)

    def copy(self, target: Piece, at: int, source: Piece, offset: int, nbytes: int) -> None:
        """Copy in the order of the queue, or by the processor what are no whole words."""
        if _in_words(target.start + at, source.start + offset, nbytes):
            if nbytes:
                self.queue.copy(target, at, source, offset, nbytes)
            return
        self.queue.synchronize()
        target.bytes(at, nbytes)[:] = source.bytes(offset, nbytes).copy()

    def part(self, handle: Piece, offset: int, nbytes: int) -> Piece:
        """Return a part, which needs no object of Metal's."""
        return Piece(handle.buffer, handle.start + offset, handle.address + offset)


@dataclass(frozen=True, slots=True)
class Function:
    """A loaded kernel: its pipeline and what it is given."""

    pipeline: Any
    kernel: Kernel


class Recorded:
    """A launch: its numbers as bytes, and where the addresses of buffers go among them."""

    def __init__(self, step: Step, size: Any) -> None:
        function: Function = step.function
        self.pipeline = function.pipeline
        self.cubes = size(*step.cubes)
        self.units = size(*function.kernel.cube)
        self.empty = 0 in step.cubes
        self.slots: list[tuple[int, Slot]] = []
        words = []
        pairs = zip(function.kernel.parameters, step.arguments, strict=True)
        for place, (parameter, given) in enumerate(pairs):
            if isinstance(given, Slot):
                self.slots.append((place * _WORD, given))
                words.append(0)
            else:
                words.append(bits_of(given, parameter.declared.dtype))
        self.arguments = struct.pack(f"<{len(words)}Q", *words)

    def encode(self, encoder: Any, handles: Sequence[Piece]) -> None:
        """Encode the launch with its buffers."""
        if self.empty:
            return
        arguments = bytearray(self.arguments)
        for place, slot in self.slots:
            address = handles[slot.number].address + slot.offset
            struct.pack_into("<Q", arguments, place, address)
        encoder.setComputePipelineState_(self.pipeline)
        encoder.setBytes_length_atIndex_(bytes(arguments), len(arguments), 0)
        encoder.dispatchThreadgroups_threadsPerThreadgroup_(self.cubes, self.units)


class MetalQueue(Queue):
    """One MTLCommandQueue, of which command buffers run in order."""

    def __init__(self, metal: Any, device: Any, toolchain: MetalToolchain) -> None:
        self.metal = metal
        self.toolchain = toolchain
        self.queue = device.newCommandQueue()
        self._lock = threading.Lock()
        # Command buffers that may still run, each with what it uses.
        self._running: deque[tuple[Any, Sequence[Piece]]] = deque()
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
        with self._lock, self.toolchain.pool():
            self._settle(waiting=False)
            self._running.append((self._commit(recorded, handles), tuple(handles)))

    def _commit(self, recorded: Sequence[Recorded], handles: Sequence[Piece]) -> Any:
        metal, commands = self.metal, self.queue.commandBuffer()
        encoder = commands.computeCommandEncoder()
        buffers = list({id(p.buffer): p.buffer for p in handles}.values())
        if buffers:
            # Addresses in arguments tell Metal nothing: it is said what is used.
            usage = metal.MTLResourceUsageRead | metal.MTLResourceUsageWrite
            encoder.useResources_count_usage_(buffers, len(buffers), usage)
        for launch in recorded:
            launch.encode(encoder, handles)
        encoder.endEncoding()
        commands.commit()
        return commands

    def copy(self, target: Piece, at: int, source: Piece, offset: int, nbytes: int) -> None:
        """Commit a copy between buffers, of whole words, and return."""
        with self._lock, self.toolchain.pool():
            self._settle(waiting=False)
            commands = self.queue.commandBuffer()
            encoder = commands.blitCommandEncoder()
            encoder.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_(
                source.buffer, source.start + offset, target.buffer, target.start + at, nbytes
            )
            encoder.endEncoding()
            commands.commit()
            self._running.append((commands, (target, source)))

    def idle(self) -> bool:
        """Return whether everything that was committed is done."""
        with self._lock, self.toolchain.pool():
            self._settle(waiting=False)
            return not self._running

    def synchronize(self) -> None:
        """Wait for all command buffers; a typed DeviceError, the first, if some failed."""
        with self._lock, self.toolchain.pool():
            self._settle(waiting=True)
            failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def _settle(self, waiting: bool) -> None:
        """Let go of the command buffers that are done, or wait for all."""
        while self._running:
            commands, _ = self._running[0]
            if waiting:
                commands.waitUntilCompleted()
            elif commands.status() < self.metal.MTLCommandBufferStatusCompleted:
                return
            self._running.popleft()
            self._failed = self._failed or failure_of(self.metal, commands)

    def seconds(self, recorded: Sequence[Recorded], handles: Sequence[Piece]) -> list[float]:
        """Run each launch as a command buffer of its own, and return the GPU's times."""
        self.synchronize()
        found = []
        with self._lock, self.toolchain.pool():
            for launch in recorded:
                commands = self._commit([launch], handles)
                commands.waitUntilCompleted()
                failed = failure_of(self.metal, commands)
                if failed is not None:
                    raise failed
                found.append(commands.GPUEndTime() - commands.GPUStartTime())
        return found


def describe(device: Any) -> DeviceInfo:
    """Return what kernels and their choice depend on."""
    most = device.maxThreadsPerThreadgroup()
    computed = {t for t in ALL if t.kind in ("bool", "int", "uint", "float")}
    computed -= {float64, bfloat16}
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

    def close(self) -> None:
        """Wait for what was queued."""
        self.queue.synchronize()
