"""The device: memory, a compiler, a queue, and what it says of itself."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from calor.dtypes import ALL, bfloat16, float16
from calor.errors import CompileError, OutOfMemoryError
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.device.protocol import Device, Memory, Queue, Slot, Step, Toolchain
from calor_kernel.ir.nodes import Kernel
from calor_kernel.printers import PlainC, bits_of, print_kernel
from calor_kernel.runtime.backend import KernelBackend

Array = np.ndarray[Any, Any]
ALIGN = 64
COMPUTED = {t for t in ALL if t.kind in ("bool", "int", "uint", "float")} - {float16, bfloat16}
INFO = DeviceInfo(
    description="A thimble: a C compiler",
    dtypes=frozenset(COMPUTED),
    features=frozenset(("atomics", "atomics_64", "float_atomics", "print")),
    vector_bytes=8,
    caches=(32 << 10, 1 << 20),
    align=ALIGN,
)


class ThimbleMemory(Memory):
    """Bytes of the host that calor never looks into. A handle is an array of bytes."""

    def alloc(self, nbytes: int) -> Array:
        try:
            raw = np.empty(nbytes + ALIGN, np.uint8)
        except MemoryError as error:
            raise OutOfMemoryError(f"a thimble does not hold {nbytes} bytes") from error
        start = -raw.ctypes.data % ALIGN
        return raw[start : start + nbytes]

    def free(self, handle: Array) -> None:
        """The last reference frees it."""

    def copy_in(self, handle: Array, offset: int, array: Array) -> None:
        handle[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)

    def copy_out(self, handle: Array, offset: int, array: Array) -> None:
        array.reshape(-1).view(np.uint8)[:] = handle[offset : offset + array.nbytes]

    def copy(self, target: Array, at: int, source: Array, offset: int, nbytes: int) -> None:
        target[at : at + nbytes] = source[offset : offset + nbytes].copy()


class ThimbleToolchain(Toolchain):
    """Kernels as C, and as the shared objects that a C compiler makes of it."""

    def __init__(self) -> None:
        self.compiler = os.environ.get("CC", "cc")
        # Sums and products are not contracted: what that would round once is rounded twice.
        self.options = ("-std=c11", "-O2", "-ffp-contract=off", "-shared", "-fPIC")
        self.target = " ".join((self.compiler, *self.options))

    def source(self, kernel: Kernel) -> str:
        return print_kernel(kernel, PlainC())

    def compile(self, source: str, name: str) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            text, image = Path(folder, f"{name}.c"), Path(folder, f"{name}.so")
            text.write_text(source, "utf-8")
            command = [self.compiler, *self.options, "-o", str(image), str(text), "-lm"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            except OSError as error:
                raise CompileError(f"{error}; set CC to the name of a C compiler") from error
            if done.returncode:
                raise CompileError(f"{self.compiler} refuses {name}: {done.stderr}\n{source}")
            return image.read_bytes()


@dataclass
class Launch:
    """A function with its slots: 8 bytes for each argument, and the numbers of cubes."""

    function: Any
    cubes: int
    slots: Array
    pointers: list[tuple[int, Slot]]

    def run(self, handles: Sequence[Array]) -> None:
        # Threads may run it at once, each with handles of its own.
        slots = self.slots.copy()
        for place, slot in self.pointers:
            slots[place] = handles[slot.number].ctypes.data + slot.offset
        self.function(slots.ctypes.data, 0, self.cubes)


class ThimbleQueue(Queue):
    """Runs at once what it is given."""

    def load(self, image: bytes, kernel: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"{kernel.name}.so")
            path.write_bytes(image)
            function = getattr(ctypes.CDLL(str(path)), PlainC().entry(kernel.name))
        function.restype = None
        function.argtypes = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        return function, kernel.parameters

    def record(self, steps: Sequence[Step], slots: int) -> list[Launch]:
        return [self._launch(step) for step in steps]

    def _launch(self, step: Step) -> Launch:
        function, parameters = step.function
        slots = np.zeros(len(parameters) + 3, np.uint64)
        slots[len(parameters) :] = step.cubes
        pointers = []
        for place, (given, parameter) in enumerate(zip(step.arguments, parameters, strict=True)):
            if isinstance(given, Slot):
                pointers.append((place, given))
            else:
                slots[place] = bits_of(given, parameter.declared.dtype)
        return Launch(function, prod(step.cubes), slots, pointers)

    def run(self, recorded: list[Launch], handles: Sequence[Array]) -> None:
        for launch in recorded:
            launch.run(handles)

    def synchronize(self) -> None:
        """Everything that was run is finished."""

    def seconds(self, recorded: list[Launch], handles: Sequence[Array]) -> list[float]:
        found = []
        for launch in recorded:
            start = perf_counter()
            launch.run(handles)
            found.append(perf_counter() - start)
        return found


class Thimble(Device):
    """The one device, ``thimble:0``."""

    def __init__(self, index: int = 0) -> None:
        self.info = INFO
        self.memory = ThimbleMemory()
        self.toolchain = ThimbleToolchain()
        self.queue = ThimbleQueue()


def backend() -> KernelBackend:
    """Return the backend of all thimbles, of which there is one."""
    return KernelBackend("thimble", Thimble)
