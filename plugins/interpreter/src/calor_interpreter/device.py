"""The lanes device: interprets kernels with NumPy, in the host's memory.

Requirements: it obeys the device contract like hardware, so planner, caches and library are tested
without hardware. An image holds the whole kernel, so it may come from another process or from disk.
Uninitialized memory is poison (NaN for floats, −1 for integers), so that tests detect reads of it.
A kernel that needs a feature beyond the device's description does not compile.
"""

from __future__ import annotations

import pickle
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

import numpy as np

from calor.dtypes import ALL, DType, bfloat16, float16, int8
from calor.errors import CompileError, OutOfMemoryError
from calor.units import bytes_text
from calor_interpreter.launch import run_on_lanes
from calor_interpreter.program import Program
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.device.protocol import Device, Memory, Queue, Slot, Step, Toolchain
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.nodes import Kernel, Operation
from calor_kernel.ir.text import kernel_text

_DTYPES = frozenset(t for t in ALL if t.kind in ("bool", "int", "uint", "float"))
_ATOMICS = frozenset(("atomics", "atomics_64", "float_atomics"))

ONE_UNIT: Final = DeviceInfo(
    description="lanes, cubes of one unit",
    dtypes=_DTYPES - {float16, bfloat16},
    features=frozenset(("fma", "gather", "compress", "masked_access", "pointers")) | _ATOMICS,
    vector_bytes=64,
    cores=2,
    caches=(32 << 10, 1 << 20),
)
MANY_UNITS: Final = DeviceInfo(
    description="lanes, cubes of up to 256 units in planes of 8",
    dtypes=_DTYPES,
    features=frozenset(
        [
            "barrier",
            "planes",
            "fma",
            "async_copy",
            "matrix",
            "forward_progress",
            "together",
            "print",
            "pointers",
        ]
    )
    | _ATOMICS,
    vector_bytes=16,
    max_units=256,
    max_cube=(256, 256, 64),
    planes=(8,),
    shared_bytes=48 << 10,
    cores=4,
    caches=(128 << 10, 4 << 20),
)
_NEEDS = {
    "select_memory": "pointers",
    "barrier": "barrier",
    "plane_shuffle": "planes",
    "plane_reduce": "planes",
    "plane_scan": "planes",
    "plane_ballot": "planes",
    "mma": "matrix",
    "copy_async": "async_copy",
    "mma_async": "async_matrix",
    "copy_tensor": "tensor_copy",
    "store_tensor": "tensor_copy",
    "load_matrix": "load_matrix",
    "mbarrier_init": "mbarrier",
    "atomic": "atomics",
    "print": "print",
}
_IMAGE = "# image "


class LanesMemory(Memory):
    """The host's memory; a handle is an array of bytes. ``limit``: the available bytes."""

    def __init__(self, align: int = 64, limit: int | None = None) -> None:
        self.align = align
        self.limit = limit
        self.allocated = 0

    def alloc(self, nbytes: int) -> Any:
        if self.limit is not None and self.allocated + nbytes > self.limit:
            raise OutOfMemoryError(
                f"a buffer needs {bytes_text(nbytes)}, but {bytes_text(self.allocated)} of the "
                f"limit of {bytes_text(self.limit)} are in use"
            )
        try:
            raw = np.full(nbytes + self.align, 0xFF, np.uint8)
        except MemoryError as error:
            raise OutOfMemoryError(
                f"a buffer needs {bytes_text(nbytes)}, more than the host has"
            ) from error
        self.allocated += nbytes
        start = -raw.ctypes.data % self.align
        return raw[start : start + nbytes]

    def free(self, handle: Any) -> None:
        self.allocated -= len(handle)

    def copy_in(self, handle: Any, offset: int, array: np.ndarray[Any, Any]) -> None:
        handle[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)

    def copy_out(self, handle: Any, offset: int, array: np.ndarray[Any, Any]) -> None:
        array.reshape(-1).view(np.uint8)[:] = handle[offset : offset + array.nbytes]

    def copy(self, target: Any, at: int, source: Any, offset: int, nbytes: int) -> None:
        target[at : at + nbytes] = source[offset : offset + nbytes].copy()

    def address(self, handle: Any) -> int | None:
        return int(handle.ctypes.data)


# Programs of kernels that were compiled in this process, which are loaded next; the kernel is kept,
# so that its identity is its own. Compiling a large kernel again takes as long as building it.
_MADE: Final[dict[int, tuple[Kernel, Program]]] = {}
_KEPT: Final = 256


class LanesToolchain(Toolchain):
    """Images are readable text with the pickled kernel in the last line."""

    target = "lanes-1"

    def __init__(self, info: DeviceInfo) -> None:
        self.info = info

    def source(self, kernel: Kernel) -> str:
        reason = _lacks(kernel, self.info)
        if reason is not None:
            raise CompileError(f"kernel {kernel.name} {reason} ({self.info.description})")
        try:
            _MADE[id(kernel)] = kernel, Program(kernel)
            while len(_MADE) > _KEPT:
                _MADE.pop(next(iter(_MADE)), None)
            image = pickle.dumps(kernel, protocol=5)
        except (KernelTypeError, pickle.PicklingError, AttributeError) as error:
            raise CompileError(f"kernel {kernel.name} does not become an image: {error}") from error
        return f"{kernel_text(kernel)}{_IMAGE}{b64encode(image).decode()}\n"

    def compile(self, source: str, name: str) -> bytes:
        _, found, image = source.rpartition(_IMAGE)
        if not found:
            raise CompileError(f"the text of kernel {name} has no image line:\n{source}")
        return b64decode(image)


def _lacks(kernel: Kernel, info: DeviceInfo) -> str | None:
    """Return the feature that a kernel needs and the device lacks, as words after its name."""
    if kernel.units > info.max_units or any(
        a > b for a, b in zip(kernel.cube, info.max_cube, strict=True)
    ):
        return f"has cubes of {kernel.cube}, above {info.max_units} units in {info.max_cube}"
    if kernel.plane not in (1, *info.planes):
        return f"has planes of {kernel.plane}, not one of {info.planes}"
    if kernel.shared_bytes > info.shared_bytes:
        return f"has {kernel.shared_bytes} bytes of shared memory, above {info.shared_bytes}"
    for operation in kernel.body.walk():
        for feature in _features(operation):
            if not info.has(feature):
                return f"has the operation {operation.name!r}, which takes {feature!r}"
    return None


def _features(operation: Operation) -> list[str]:
    if operation.name == "tile_product":
        narrow = operation.attributes["source"].type.dtype is int8
        return ["tile_8" if narrow else "tile_bfloat16"]
    needs = _NEEDS.get(operation.name)
    if operation.name != "atomic":
        return [needs] if needs is not None else []
    dtype: DType = operation.result.type.dtype
    if dtype.kind == "float":
        return ["float_atomics"]
    return ["atomics_64" if dtype.itemsize == 8 else "atomics"]


@dataclass(frozen=True, slots=True)
class _Bound:
    """A recorded launch: a program, its cubes, and per argument a slot with dtype, or a number."""

    program: Program
    cubes: tuple[int, int, int]
    arguments: tuple[tuple[Slot, np.dtype[Any]] | int | float, ...]

    def run(self, handles: Sequence[Any], checks: bool, output: Callable[[str], object]) -> None:
        given = [
            _array(handles[a[0].number], a[0].offset, a[1]) if isinstance(a, tuple) else a
            for a in self.arguments
        ]
        run_on_lanes(self.program, self.cubes, given, checks=checks, output=output)


def _array(handle: Any, offset: int, host: np.dtype[Any]) -> tuple[np.ndarray[Any, Any], int]:
    """Return a block of memory as elements, and a byte offset in elements."""
    start, rest = divmod(offset, host.itemsize)
    if rest:
        raise KernelTypeError(f"an offset of {offset} bytes is no whole number of {host}")
    return handle[: len(handle) // host.itemsize * host.itemsize].view(host), start


class LanesQueue(Queue):
    """Runs recorded lists immediately; ``checks`` as in :func:`run_on_lanes`.

    ``most``: the maximum cubes of a launch along each axis.
    """

    def __init__(
        self,
        checks: bool = True,
        output: Callable[[str], object] = print,
        most: tuple[int, int, int] = ONE_UNIT.max_cubes,
    ) -> None:
        self.checks = checks
        self.output = output
        self.most = most

    def load(self, image: bytes, kernel: Kernel | Any) -> Any:
        made = _MADE.pop(id(kernel), None)
        return Program(pickle.loads(image)) if made is None else made[1]

    def record(self, steps: Sequence[Step], slots: int) -> Any:
        for step in steps:
            if any(count > limit for count, limit in zip(step.cubes, self.most, strict=True)):
                raise KernelTypeError(f"{step.cubes} cubes are launched where {self.most} may be")
        return [_bind(step, slots) for step in steps]

    def run(self, recorded: Any, handles: Sequence[Any]) -> None:
        for bound in recorded:
            bound.run(handles, self.checks, self.output)

    def synchronize(self) -> None:
        """Do nothing: all work is finished."""

    def seconds(self, recorded: Any, handles: Sequence[Any]) -> list[float]:
        found = []
        for bound in recorded:
            start = perf_counter()
            bound.run(handles, self.checks, self.output)
            found.append(perf_counter() - start)
        return found


def _bind(step: Step, slots: int) -> _Bound:
    program: Program = step.function
    parameters = program.kernel.parameters
    if len(parameters) != len(step.arguments):
        raise KernelTypeError(
            f"kernel {program.kernel.name} takes {len(parameters)} arguments, "
            f"not {len(step.arguments)}"
        )
    arguments: list[tuple[Slot, np.dtype[Any]] | int | float] = []
    for parameter, given in zip(parameters, step.arguments, strict=True):
        if isinstance(given, Slot) != (parameter.memory is not None):
            wanted = "a slot" if parameter.memory is not None else "a number"
            raise KernelTypeError(f"{parameter.name} takes {wanted}, not {given!r}")
        if isinstance(given, Slot):
            if not 0 <= given.number < slots:
                raise KernelTypeError(f"{parameter.name} is slot {given.number} of {slots}")
            arguments.append((given, parameter.declared.dtype.numpy))
        elif parameter.declared.dtype.kind == "int" and given >= 1 << 63:
            # Varying numbers of a plan are held as unsigned 64-bit integers.
            arguments.append(int(given) - (1 << 64))
        else:
            arguments.append(given)
    return _Bound(program, step.cubes, tuple(arguments))


class LanesDevice(Device):
    """A device that runs kernels on lanes.

    ``info`` describes it: ``ONE_UNIT`` like a CPU, ``MANY_UNITS`` like a GPU, or a description of
    your own. ``checks``, ``output`` as in :func:`run_on_lanes`; ``limit``: bytes of memory.
    """

    def __init__(
        self,
        info: DeviceInfo = ONE_UNIT,
        *,
        checks: bool = True,
        limit: int | None = None,
        output: Callable[[str], object] = print,
    ) -> None:
        self.info = info
        self.memory = LanesMemory(info.align, limit)
        self.toolchain = LanesToolchain(info)
        self.queue = LanesQueue(checks, output, info.max_cubes)
