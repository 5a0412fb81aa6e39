"""The contract between calor-kernel and a device: memory, toolchain, queue and a description.

Requirements: about 200 lines are enough for a new device. Every method is declared and typed;
``hasattr`` is never used. Printing and compiling are pure: they run in worker processes, are cached
by hash and are tested without the hardware. A device need not implement anything that the base
class can do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from calor.backends.communication import Collective
from calor.dtypes import DType, bfloat16, float16
from calor.errors import UnsupportedError
from calor.specs import Spec
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.device.calls import NativeCall
from calor_kernel.ir.nodes import Kernel

Handles = Sequence[Sequence[Any]]
_BITS: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Memory(ABC):
    """A device's memory. Handles are opaque to the caller; offsets are in bytes.

    ``apart``: the size in bytes above which a pool allocates a block of its own instead of
    splitting a larger one; None if parts of larger blocks are always as good.
    """

    apart: int | None = None

    @abstractmethod
    def alloc(self, nbytes: int) -> Any:
        """Return a block of memory, aligned to ``info.align``, or raise OutOfMemoryError."""

    @abstractmethod
    def free(self, handle: Any) -> None:
        """Free a block. Work queued before may still use it."""

    @abstractmethod
    def copy_in(self, handle: Any, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous host array into a block, in queue order.

        The array may change after the return.
        """

    def host_array(self, nbytes: int) -> np.ndarray[Any, Any] | None:
        """Return bytes of the host that the device copies fast; None if all are alike."""
        return None

    def load(self, handle: Any, array: np.ndarray[Any, Any]) -> None:
        """Copy a host array that never changes to the start of a block, as ``copy_in`` does.

        The copy may be under way on return; ``settle`` comes before work that reads the block.
        """
        self.copy_in(handle, 0, array)

    def settle(self, handles: Iterable[Any] | None = None) -> None:  # noqa: B027 - most are done
        """Let work that is queued from now on wait for loads: of these blocks, or of all."""

    def unload(self, handle: Any, array: np.ndarray[Any, Any]) -> None:
        """Copy the start of a block to an array of ``host_array``, as ``copy_out`` does.

        The copy may be under way on return; the host reads the array after ``queue.synchronize``.
        The block may be freed meanwhile, and the array may be one of ``load``.
        """
        self.copy_out(handle, 0, array)

    def write(self, handle: Any, data: bytes) -> None:
        """Copy a few bytes to the start of a block, as ``copy_in`` does; runs at every call.

        A device with a faster path than a NumPy array overrides it.
        """
        self.copy_in(handle, 0, np.frombuffer(data, np.uint8))

    @abstractmethod
    def copy_out(self, handle: Any, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Copy from a block into a contiguous host array, after all work queued before."""

    @abstractmethod
    def copy(self, target: Any, at: int, source: Any, offset: int, nbytes: int) -> None:
        """Copy between blocks of this device, in queue order."""

    def receive(
        self, handle: Any, at: int, sender: Memory, source: Any, offset: int, nbytes: int
    ) -> bool:
        """Copy from a block of another device of this kind, in the order of both queues.

        Returns False if that is impossible; the copy then goes through the host.
        """
        return False

    def address(self, handle: Any) -> int | None:
        """Return the host address of a block that the host can read, else None.

        A device with host addresses runs the copies above immediately, so that the host reads the
        computed values after ``Queue.synchronize``.
        """
        return None

    def part(self, handle: Any, offset: int, nbytes: int) -> Any | None:
        """Return a handle of a part of a block, or None if the device has no such handles.

        ``offset`` is a multiple of ``info.align``. A part is never freed on its own. A pool splits
        blocks on devices with parts, which saves memory. Handles of parts must be hashable: the
        pool looks them up.
        """
        return None

    def adopt(self, address: int, nbytes: int) -> Any | None:
        """Return a handle of host memory with another owner, or None if kernels cannot use it.

        The address is a multiple of ``info.align``. The handle is never freed.
        """
        return None


class Toolchain(ABC):
    """Compiles a kernel to an image. Pure: the same kernel gives the same text and image.

    ``target`` names everything beside the text on which the image depends: compiler and version,
    processor, features. Instances are pickled to worker processes.
    """

    target: str

    def classes(self) -> tuple[type, ...]:
        """Return the classes whose packages make text and image, beside calor-kernel's own."""
        return type(self).__mro__

    def prepare(self) -> None:  # noqa: B027 - most compilers load in no time
        """Load the compiler ahead of the first kernel, in a worker that waits for one."""

    @abstractmethod
    def source(self, kernel: Kernel) -> str:
        """Return the kernel's source in the device's language, or raise CompileError."""

    @abstractmethod
    def compile(self, source: str, name: str) -> bytes:
        """Return the compiled image; CompileError holds the compiler's message and the source."""


def scalar_bits(given: float, dtype: DType) -> int:
    """Return a number's bits in a kernel's argument form: bools as bytes, halves as their bits."""
    held = np.asarray(given).astype(dtype.numpy)
    if dtype in (float16, bfloat16):
        return int(held.view(np.uint16))
    return int(held.view(_BITS[dtype.itemsize]))


@dataclass(frozen=True, slots=True)
class Varying:
    """An integer of a step that changes from run to run: its index among the run's numbers."""

    place: int

    def of(self, numbers: Sequence[int] | Mapping[int, int]) -> int:
        """Return the number of this run."""
        return numbers[self.place]


@dataclass(frozen=True, slots=True)
class Slot:
    """A buffer argument of a recorded launch: a slot of the run, and an offset in bytes.

    ``before`` and ``behind``: the bytes that the launch may touch before the offset, and from there
    on. They are 0 if they are unknown, as they are on a device whose launches see whole buffers.
    """

    number: int
    offset: int = 0
    before: int = 0
    behind: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """A launch: a loaded function, the grid along x, y and z, and an argument per parameter.

    A buffer argument is a Slot. A scalar is a Python number of the parameter's type; a negative one
    may be given as its 64-bit two's complement (2⁶⁴ − 3 for −3). ``flops`` and ``nbytes`` are the
    launch's work and traffic, 0 if unknown; a device needs them to divide a launch among threads.

    ``loop``, for the last launch of a loop on a device with the feature "repeats": the number of
    its launches, and how often they run. ``moves``, for a launch in a loop: for each argument the
    bytes by which its address moves before every second time, from the first repetition on, and
    before the others.
    """

    function: Any
    cubes: tuple[int, int, int]
    arguments: tuple[Slot | int | float, ...]
    flops: int = 0
    nbytes: int = 0
    loop: tuple[int, int] | None = None
    moves: tuple[tuple[int, int], ...] = ()

    @property
    def work(self) -> int:
        """A rough cost: bytes, plus an eighth of the flops."""
        return self.nbytes + self.flops // 8

    def mapped(self, number: Callable[[Any], Any], function: Any = None) -> Step:
        """Return the step with ``number`` of each number: scalars, offsets, cubes and work.

        ``function`` takes the place of the step's own if it is given.
        """
        x, y, z = map(number, self.cubes)
        arguments = tuple(
            Slot(a.number, *map(number, (a.offset, a.before, a.behind)))
            if isinstance(a, Slot)
            else number(a)
            for a in self.arguments
        )
        made = self.function if function is None else function
        loop = None if self.loop is None else (self.loop[0], number(self.loop[1]))
        moves = tuple((number(a), number(b)) for a, b in self.moves)
        return Step(
            made, (x, y, z), arguments, number(self.flops), number(self.nbytes), loop, moves
        )


def filled(step: Step, numbers: Sequence[int] | Mapping[int, int], function: Any = None) -> Step:
    """Return a step with the numbers of this run, and with another function if one is given."""
    return step.mapped(lambda n: n.of(numbers) if isinstance(n, Varying) else n, function)


Form = Callable[[Sequence[int], Mapping[int, Any]], Any]


class Queue(ABC):
    """Runs kernels in order. Its methods are thread-safe.

    ``loops``: whether :meth:`record_loop` is supported.
    """

    loops: bool = False

    @abstractmethod
    def load(self, image: bytes, kernel: Kernel | Any) -> Any:
        """Return the function of an image; ``kernel`` has the name, parameters, cube and plane."""

    @abstractmethod
    def record(self, steps: Sequence[Step], slots: int) -> Any:
        """Record launches in the device's fastest form; a run passes ``slots`` handles."""

    def record_loop(
        self,
        before: Sequence[Step],
        body: Sequence[Step],
        slots: int,
        flag: Slot,
        words: Slot,
        spaced: tuple[int, int],
    ) -> Any:
        """Record launches, and launches that are repeated while a bool on the device is true.

        Both lists write the bool in the slot ``flag``. The loop also ends when a 32-bit word is not
        zero: there are ``spaced[0]`` of them, every ``spaced[1]`` bytes from ``words`` on.
        """
        raise UnsupportedError("the device has no loops of its own")

    def form(self, steps: Sequence[Step], slots: int) -> Form:
        """Return a form that records these steps for given values of their Varying numbers.

        Varying numbers may be scalar arguments, slot offsets, cube counts and work estimates.
        Functions may change too, with the same parameters: a mapping that is never modified gives
        them by step number. A device overrides this if it can prepare most of the recording in
        advance.
        """

        def record(numbers: Sequence[int], functions: Mapping[int, Any]) -> Any:
            return self.record(
                [filled(s, numbers, functions.get(i)) for i, s in enumerate(steps)], slots
            )

        return record

    @abstractmethod
    def run(self, recorded: Any, handles: Sequence[Any]) -> None:
        """Run a recorded list with a memory handle per slot; may return before the end."""

    def direct(self, recorded: Any) -> Callable[..., None] | None:
        """Return a function that runs a recorded list, with a handle per argument.

        A device with a faster path than ``run`` overrides it.
        """
        return lambda *handles: self.run(recorded, handles)

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for all queued work; raises a typed DeviceError if any failed."""

    @abstractmethod
    def seconds(self, recorded: Any, handles: Sequence[Any]) -> list[float]:
        """Run a recorded list and return the device time of each step in seconds."""


class Exchange(ABC):
    """Shares the memory of a device with other libraries."""

    # The DLPack device type and number.
    place: tuple[int, int]

    @abstractmethod
    def dlpack(self, handle: Any, spec: Spec, owner: Any, **options: Any) -> Any:
        """Return a DLPack capsule of a dense block; the capsule keeps ``owner`` alive."""

    @abstractmethod
    def take(self, array: Any, copy: bool) -> tuple[Any, Spec, Any]:
        """Return handle, spec and owner of another library's dense array.

        Work queued by that library runs before any work queued here afterwards. A non-dense array
        is copied if ``copy`` is set; otherwise it is an ExchangeError.
        """

    def cuda_array_interface(self, handle: Any, spec: Spec) -> dict[str, Any] | None:
        """Return the block's ``__cuda_array_interface__``; None if this is not CUDA memory."""
        return None


class Meeting(ABC):
    """The synchronization of several devices' queues, for kernels that access all their memory.

    A handle of one device's memory is then valid in the kernels of every other. ``lock`` is held
    while joint work is queued.
    """

    lock: AbstractContextManager[Any]

    @abstractmethod
    def gather(self) -> None:
        """Let the first device wait for the queued work of all."""

    @abstractmethod
    def release(self) -> None:
        """Let all devices wait for the queued work of the first."""


class Links(ABC):
    """Memory exchange between devices of the feature "links", in the order of each one's queue."""

    @abstractmethod
    def takes(self, call: Collective) -> bool:
        """Return whether a collective is supported with its definition, for its dtype too."""

    @abstractmethod
    def prepare(self, calls: Sequence[Collective]) -> Callable[[Handles, Handles], None]:
        """Return a function that queues collectives as one.

        Its arguments are ``given`` and ``made``: ``given[i][r]`` and ``made[i][r]`` are the handles
        of member r's input and result of call i.
        """

    def meeting(self) -> Meeting | None:
        """Return how the devices synchronize; None if kernels cannot access all memory."""
        return None

    def close(self) -> None:  # noqa: B027 - most hold nothing that needs closing
        """Free everything; unusable afterwards."""


class Device(ABC):
    """One device: made by a plugin, run by a KernelBackend."""

    # Shares memory that the host cannot read; None without sharing.
    exchange: Exchange | None = None
    info: DeviceInfo
    memory: Memory
    toolchain: Toolchain
    queue: Queue

    def link(self, devices: Sequence[Device]) -> Links:
        """Return the links between these devices, this one included; requires the feature links.

        DeviceError if a library or a driver for it is missing.
        """
        raise UnsupportedError("the device has no links to others")

    def caller(self, call: NativeCall, keep: object) -> Callable[..., Any] | None:
        """Return a compiled bound call, which also owns ``keep``; None if not supported."""
        return None

    def finalizer(self, kind: type, pools: type) -> Any | None:
        """Return ``kind.__del__`` of buffers of ``pools``, compiled; None if not supported.

        So a result that is made without Python is freed without Python.
        """
        return None

    def close(self) -> None:
        """Wait for queued work and free everything; the device is unusable afterwards."""
        self.queue.synchronize()

    def restart(self) -> None:  # noqa: B027 - asked only of devices with the feature "fork"
        """Resume in a forked child, in its only thread: create new threads and locks."""
