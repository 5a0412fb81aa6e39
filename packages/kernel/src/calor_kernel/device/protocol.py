"""The contract between calor-kernel and a device: memory, toolchain, queue and a description.

Requirements: about 200 lines make a new device; every method is declared and typed, and nothing is
found by ``hasattr``; printing and compiling are pure, so that they run in worker processes, are
cached by hash and are tested without the hardware; what the base class can do itself is no duty of
a device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calor.errors import UnsupportedError
from calor.specs import Spec
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.device.calls import Giving, NativeCall
from calor_kernel.ir.nodes import Kernel

if TYPE_CHECKING:
    from calor_kernel.device.links import Links


class Memory(ABC):
    """A device's memory. A handle is whatever the device knows a piece by; offsets are in bytes.

    ``apart``: bytes above which a pool asks for each piece by itself, None where parts of large
    pieces serve as well.
    """

    apart: int | None = None

    @abstractmethod
    def alloc(self, nbytes: int) -> Any:
        """Return a piece of memory, aligned to ``info.align``; OutOfMemoryError where none is."""

    @abstractmethod
    def free(self, handle: Any) -> None:
        """Give a piece back. What was queued before may still use it."""

    @abstractmethod
    def copy_in(self, handle: Any, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous host array into a piece, in the order of the queue.

        The array may change when this returns.
        """

    def write(self, handle: Any, data: bytes) -> None:
        """Copy a few bytes to the start of a piece, as ``copy_in`` does; on the way of each call.

        A device that has a quicker way than through an array overrides it.
        """
        self.copy_in(handle, 0, np.frombuffer(data, np.uint8))

    @abstractmethod
    def copy_out(self, handle: Any, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Copy from a piece into a contiguous host array; what was queued before is finished."""

    @abstractmethod
    def copy(self, target: Any, at: int, source: Any, offset: int, nbytes: int) -> None:
        """Copy between pieces of this device, in the order of the queue."""

    def receive(
        self, handle: Any, at: int, sender: Memory, source: Any, offset: int, nbytes: int
    ) -> bool:
        """Copy from a piece of another device of this kind, in the order of both queues.

        False where that is not possible; it is then copied over the host.
        """
        return False

    def address(self, handle: Any) -> int | None:
        """Return the host's address of a piece where the host can read it, else None.

        A device that has addresses runs the copies above at once, so that what the host reads
        after ``Queue.synchronize`` is what was computed.
        """
        return None

    def part(self, handle: Any, offset: int, nbytes: int) -> Any | None:
        """Return a handle of a part of a piece, None where the device has no such handles.

        ``offset`` divides by ``info.align``. The part is never freed by itself. A pool splits
        pieces where parts exist, and so needs less memory; it looks their handles up, so they are
        hashable.
        """
        return None

    def adopt(self, address: int, nbytes: int) -> Any | None:
        """Return a handle of host memory that somebody else owns, None where kernels cannot use it.

        The address divides by ``info.align``. The handle is never freed.
        """
        return None


class Toolchain(ABC):
    """How a kernel becomes an image. Pure: the same kernel gives the same text and image.

    ``target`` names everything that the image depends on beside the text: compiler and version,
    processor, features. Instances are pickled to worker processes.
    """

    target: str

    @abstractmethod
    def source(self, kernel: Kernel) -> str:
        """Return the kernel as text of the device's language; CompileError where it cannot be."""

    @abstractmethod
    def compile(self, source: str, name: str) -> bytes:
        """Return the image of a text; CompileError with the compiler's message and the text."""


@dataclass(frozen=True, slots=True)
class Varying:
    """A whole number of a step that is another one each time: its place among those numbers."""

    place: int

    def of(self, numbers: Sequence[int] | Mapping[int, int]) -> int:
        """Return the number of this time."""
        return numbers[self.place]


@dataclass(frozen=True, slots=True)
class Slot:
    """A buffer argument of a recorded launch: a slot of the run, and an offset in bytes."""

    number: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """A launch: a loaded function, the cubes along x, y and z, and an argument per parameter.

    A buffer argument is a Slot; a scalar is a Python number of the parameter's type, of which
    a negative one may come as 64 bits (2⁶⁴ − 3 for −3). ``flops`` and ``nbytes`` are what the
    launch computes and moves, 0 where nobody says: a device that divides a launch among threads
    needs them.
    """

    function: Any
    cubes: tuple[int, int, int]
    arguments: tuple[Slot | int | float, ...]
    flops: int = 0
    nbytes: int = 0

    @property
    def work(self) -> int:
        """What it takes, roughly: bytes, and an eighth of the flops."""
        return self.nbytes + self.flops // 8


def filled(step: Step, numbers: Sequence[int] | Mapping[int, int], function: Any = None) -> Step:
    """Return a step with the numbers of this time, and with its function if it is another one."""

    def known(given: Any) -> Any:
        if isinstance(given, Varying):
            return given.of(numbers)
        return Slot(given.number, known(given.offset)) if isinstance(given, Slot) else given

    x, y, z = map(known, step.cubes)
    arguments = tuple(map(known, step.arguments))
    made = step.function if function is None else function
    return Step(made, (x, y, z), arguments, known(step.flops), known(step.nbytes))


Form = Callable[[Sequence[int], Mapping[int, Any]], Any]


class Queue(ABC):
    """Runs kernels in order. Its methods are called from any thread, several at a time."""

    @abstractmethod
    def load(self, image: bytes, kernel: Kernel | Any) -> Any:
        """Return the function of an image; ``kernel`` has the name, parameters, cube and plane."""

    @abstractmethod
    def record(self, steps: Sequence[Step], slots: int) -> Any:
        """Return a list of launches as the device runs it fastest; ``slots`` handles are given."""

    def form(self, steps: Sequence[Step], slots: int) -> Form:
        """Return what records steps for given numbers: those that are Varying in the steps.

        They are so among the numbers of arguments, offsets of slots, cubes, and figures of work.
        Functions may be others each time too, with the same parameters: they are given by the
        number of their step, in a mapping that does not change. A device that records steps of
        which it knows most quicker than from the beginning overrides this.
        """

        def record(numbers: Sequence[int], functions: Mapping[int, Any]) -> Any:
            return self.record(
                [filled(s, numbers, functions.get(i)) for i, s in enumerate(steps)], slots
            )

        return record

    @abstractmethod
    def run(self, recorded: Any, handles: Sequence[Any]) -> None:
        """Run a recorded list with a memory handle per slot; may return before it is finished."""

    def direct(self, recorded: Any) -> Callable[..., None] | None:
        """Return what runs a recorded list with a handle per argument.

        A device that has something quicker than ``run`` overrides it.
        """
        return lambda *handles: self.run(recorded, handles)

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until everything that was run is finished; a typed DeviceError if it failed."""

    @abstractmethod
    def seconds(self, recorded: Any, handles: Sequence[Any]) -> list[float]:
        """Run a recorded list and return how long each step took on the device."""


class Exchange(ABC):
    """How a device of its own memory shares that with other libraries."""

    # The device type and number of DLPack.
    place: tuple[int, int]

    @abstractmethod
    def dlpack(self, handle: Any, spec: Spec, owner: Any, **options: Any) -> Any:
        """Return a capsule of a dense piece of memory, which keeps ``owner`` while it lives."""

    @abstractmethod
    def take(self, array: Any, copy: bool) -> tuple[Any, Spec, Any]:
        """Return handle, spec and owner of another library's array, dense.

        What the array's own library queued comes before what this device is given from now on.
        One that is not dense is copied where ``copy``, else an ExchangeError.
        """

    def cuda_array_interface(self, handle: Any, spec: Spec) -> dict[str, Any] | None:
        """Return what the protocol of this name says of a piece; None where it is not CUDA's."""
        return None


class Device(ABC):
    """One device: what a plugin makes, and a KernelBackend runs."""

    # What shares memory that the host cannot read; None where nothing does.
    exchange: Exchange | None = None
    info: DeviceInfo
    memory: Memory
    toolchain: Toolchain
    queue: Queue

    def link(self, devices: Sequence[Device]) -> Links:
        """Return the means by which these devices exchange memory; it needs the feature links.

        This device is one of them. DeviceError where what it needs is missing.
        """
        raise UnsupportedError("the device has no links to others")

    def caller(self, call: NativeCall, keep: object) -> Callable[..., Any] | None:
        """Return a compiled bound call, which owns ``keep`` too; None where that is not done."""
        return None

    def finalizer(self, giving: Giving) -> Any | None:
        """Return a compiled method that gives memory back; None where that is not done."""
        return None

    def close(self) -> None:
        """Wait for what was queued, and free everything; the device is not used afterwards."""
        self.queue.synchronize()

    def restart(self) -> None:  # noqa: B027 - asked only of devices with the feature "fork"
        """Work on in a forked child, whose only thread calls this: start threads and locks anew."""
