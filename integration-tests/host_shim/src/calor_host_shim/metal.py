"""Metal on the processor: PyObjC's names, and what stands behind them.

Requirements: calor-metal runs on it unchanged; a text is compiled as C++ with a header in place of
Metal's library, and its launches run unit by unit; a call out of Metal's order, or with arguments
that Metal does not take, raises; calls are kept for tests that ask for them. (Names, constants and
order are those of Apple's documentation.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Final

import numpy as np

from calor_host_shim.compiler import Program, Refused
from calor_host_shim.metal_text import host_program

_PLANE: Final = 32
_ALIGN: Final = 256
_LATE: Final = 16  # command buffers that wait
_MOST_BYTES: Final = 4096  # of setBytes


@dataclass(frozen=True)
class Size:
    """An MTLSize."""

    width: int
    height: int
    depth: int

    def __iter__(self) -> Any:
        return iter((self.width, self.height, self.depth))


@dataclass(frozen=True)
class Failure:
    """An NSError."""

    text: str
    number: int = 1

    def code(self) -> int:
        return self.number

    def localizedDescription(self) -> str:
        return self.text


class Contents:
    """What PyObjC makes of a pointer without a length."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def as_buffer(self, length: int) -> memoryview:
        assert length <= self.array.nbytes
        return self.array.data[:length]


class Buffer:
    """An MTLBuffer."""

    def __init__(self, nbytes: int) -> None:
        raw = np.empty(nbytes + _ALIGN, np.uint8)
        start = -raw.ctypes.data % _ALIGN
        self.array = raw[start : start + nbytes]

    def length(self) -> int:
        return self.array.nbytes

    def contents(self) -> Contents:
        return Contents(self.array)

    def gpuAddress(self) -> int:
        return int(self.array.ctypes.data)


@dataclass(frozen=True)
class Pipeline:
    """An MTLComputePipelineState."""

    program: Program
    name: str


@dataclass(frozen=True)
class Library:
    """An MTLLibrary of one kernel."""

    program: Program
    name: str

    def newFunctionWithName_(self, name: str) -> Library | None:
        return self if name == self.name else None


class Options:
    """An MTLCompileOptions."""

    def __init__(self) -> None:
        self.set: dict[str, int] = {}

    @classmethod
    def new(cls) -> Options:
        return cls()

    def setLanguageVersion_(self, version: int) -> None:
        self.set["languageVersion"] = version

    def setMathMode_(self, mode: int) -> None:
        self.set["mathMode"] = mode

    def setMathFloatingPointFunctions_(self, functions: int) -> None:
        self.set["mathFloatingPointFunctions"] = functions


class Encoder:
    """An MTLComputeCommandEncoder, or an MTLBlitCommandEncoder."""

    def __init__(self, commands: Commands) -> None:
        self.commands = commands
        self.pipeline: Pipeline | None = None
        self.arguments: bytes | None = None
        self.resources: list[Buffer] = []
        self.ended = False

    def note(self, *call: Any) -> None:
        assert not self.ended, "the encoder has ended"
        self.commands.metal.note(*call)

    def useResources_count_usage_(self, buffers: Sequence[Buffer], n: int, usage: int) -> None:
        self.note("useResources", n, usage)
        assert n == len(buffers)
        assert all(isinstance(b, Buffer) for b in buffers)
        self.resources += buffers

    def setComputePipelineState_(self, pipeline: Pipeline) -> None:
        self.note("setComputePipelineState", pipeline.name)
        self.pipeline = pipeline

    def setBytes_length_atIndex_(self, data: bytes, length: int, index: int) -> None:
        self.note("setBytes", length, index)
        assert len(data) == length <= _MOST_BYTES
        assert index == 0
        self.arguments = bytes(data)

    def dispatchThreadgroups_threadsPerThreadgroup_(self, cubes: Size, units: Size) -> None:
        self.note("dispatchThreadgroups", tuple(cubes), tuple(units))
        assert self.pipeline is not None
        assert self.arguments is not None
        assert min(cubes) > 0
        assert min(units) > 0
        self.commands.queued.append(
            partial(_dispatched, self.pipeline, self.arguments, tuple(cubes), tuple(units))
        )

    def copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_(
        self, source: Buffer, offset: int, target: Buffer, at: int, nbytes: int
    ) -> None:
        self.note("copyFromBuffer", offset, at, nbytes)
        assert not (offset | at | nbytes) & 3, "macOS copies multiples of four bytes"
        assert nbytes > 0
        assert offset + nbytes <= source.length()
        assert at + nbytes <= target.length()
        self.commands.queued.append(partial(_copied, source, offset, target, at, nbytes))

    def endEncoding(self) -> None:
        self.note("endEncoding")
        self.ended = True


def _dispatched(
    pipeline: Pipeline, arguments: bytes, cubes: tuple[int, ...], units: tuple[int, ...]
) -> str | None:
    why = pipeline.program.run(arguments, cubes, units, _PLANE)
    return None if why is None else f"{pipeline.name}: {why}"


def _copied(source: Buffer, offset: int, target: Buffer, at: int, nbytes: int) -> None:
    target.array[at : at + nbytes] = source.array[offset : offset + nbytes]


class Commands:
    """An MTLCommandBuffer, which runs late: when it is waited for, or many others have come."""

    def __init__(self, queue: CommandQueue) -> None:
        self.queue = queue
        self.metal = queue.metal
        self.queued: list[Callable[[], str | None]] = []
        self.encoder: Encoder | None = None
        self.state = 0
        self.failed: Failure | None = None
        self.times = (0.0, 0.0)

    def computeCommandEncoder(self) -> Encoder:
        return self._encoder("computeCommandEncoder")

    def blitCommandEncoder(self) -> Encoder:
        return self._encoder("blitCommandEncoder")

    def _encoder(self, name: str) -> Encoder:
        self.metal.note(name)
        assert self.encoder is None or self.encoder.ended
        self.encoder = Encoder(self)
        return self.encoder

    def commit(self) -> None:
        self.metal.note("commit")
        assert self.encoder is not None
        assert self.encoder.ended
        assert self.state == 0, "a command buffer is committed once"
        self.state = self.metal.MTLCommandBufferStatusCommitted
        self.queue.committed.append(self)
        if len(self.queue.committed) > _LATE:
            self.queue.committed.popleft().run()

    def run(self) -> None:
        start = perf_counter()
        for command in self.queued:
            why = command()
            if why is not None:
                self.failed = Failure(why)
                break
        self.times = (start, perf_counter())
        self.state = self.metal.MTLCommandBufferStatusCompleted
        if self.failed is not None:
            self.state = self.metal.MTLCommandBufferStatusError

    def waitUntilCompleted(self) -> None:
        assert self.state, "only what was committed ends"
        while self.state < self.metal.MTLCommandBufferStatusCompleted:
            self.queue.committed.popleft().run()

    def status(self) -> int:
        return self.state

    def error(self) -> Failure | None:
        return self.failed

    def GPUStartTime(self) -> float:
        return self.times[0]

    def GPUEndTime(self) -> float:
        return self.times[1]


class CommandQueue:
    """An MTLCommandQueue."""

    def __init__(self, metal: ImitatedMetal) -> None:
        self.metal = metal
        self.committed: deque[Commands] = deque()

    def commandBuffer(self) -> Commands:
        self.metal.note("commandBuffer")
        assert self.metal.pools, "it stays until a pool of its thread ends, and there is none"
        return Commands(self)


@dataclass(frozen=True)
class Gpu:
    """An MTLDevice."""

    metal: ImitatedMetal

    def name(self) -> str:
        return "a GPU imitated by the processor"

    def registryID(self) -> int:
        return 0

    def supportsFamily_(self, family: int) -> bool:
        return family == self.metal.MTLGPUFamilyMetal3

    def maxBufferLength(self) -> int:
        return 1 << 33

    def recommendedMaxWorkingSetSize(self) -> int:
        return 1 << 33

    def maxThreadsPerThreadgroup(self) -> Size:
        return Size(1024, 1024, 1024)

    def maxThreadgroupMemoryLength(self) -> int:
        return 32 << 10

    def newCommandQueue(self) -> CommandQueue:
        return CommandQueue(self.metal)

    def newBufferWithLength_options_(self, nbytes: int, options: int) -> Buffer | None:
        self.metal.note("newBuffer", nbytes, options)
        assert nbytes > 0
        try:
            return Buffer(nbytes)
        except MemoryError:
            return None

    def newLibraryWithSource_options_error_(
        self, source: str, options: Options, error: None
    ) -> tuple[Library | None, Failure | None]:
        self.metal.note("newLibrary", options.set)
        try:
            return Library(*self.metal.build(source)), None
        except Refused as refused:
            return None, Failure(str(refused))

    def newComputePipelineStateWithFunction_error_(
        self, function: Library | None, error: None
    ) -> tuple[Pipeline | None, Failure | None]:
        if function is None:
            return None, Failure("there is no such function")
        return Pipeline(function.program, function.name), None


class ImitatedMetal:
    """PyObjC's module Metal. ``calls`` keeps what was called, in order, if it is a list.

    ``build`` makes the program of a text, and its name, where tests run nothing.
    """

    MTLGPUFamilyMetal3 = 5001
    MTLLanguageVersion3_2 = (3 << 16) + 2
    MTLMathModeSafe = 0
    MTLMathFloatingPointFunctionsPrecise = 1
    MTLResourceStorageModeShared = 0
    MTLResourceUsageRead = 1
    MTLResourceUsageWrite = 2
    MTLCommandBufferStatusCommitted = 2
    MTLCommandBufferStatusCompleted = 4
    MTLCommandBufferStatusError = 5
    MTLCompileOptions = Options
    MTLSizeMake = Size

    def __init__(
        self,
        calls: list[tuple[Any, ...]] | None = None,
        build: Callable[[str], tuple[Any, str]] = host_program,
    ) -> None:
        self.calls = calls
        self.build = build
        # How many pools for objects that nobody keeps are open.
        self.pools = 0

    @contextmanager
    def autorelease_pool(self) -> Iterator[None]:
        """Do as the context of this name of PyObjC's module objc."""
        self.pools += 1
        try:
            yield
        finally:
            self.pools -= 1

    def note(self, *call: Any) -> None:
        if self.calls is not None:
            self.calls.append(call)

    def MTLCopyAllDevices(self) -> list[Gpu]:
        return [Gpu(self)]


METAL: Final = ImitatedMetal()
