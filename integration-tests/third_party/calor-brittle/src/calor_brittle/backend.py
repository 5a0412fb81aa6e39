"""The devices: memory of ctypes with a limit, calor's own meaning of each op, and the faults."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import RLock
from typing import Any, Final
from weakref import WeakSet

import numpy as np

from calor.backends.op_table import OpTable, OpTableExecutable
from calor.backends.protocol import FULL, NOT_YET, Info, MemoryFigures, impossible
from calor.errors import CompileError, DeviceLostError, OutOfMemoryError
from calor.graph.graph import Graph
from calor.ops.base import table
from calor.specs import Spec

from .faults import FAULTS

Array = np.ndarray[Any, Any]
DEVICES: Final = 16
# What one device holds; there is no more than this, whatever limit is set.
CAPACITY: Final = 4 << 20
WORKING: Final = (
    "interactive",
    "dynamic_shapes",
    "control_flow",
    "in_place",
    "memory_limit",
    "fork",
)
INFO: Final = Info(
    description=f"A device with {CAPACITY >> 20} MiB that fails when it is told to",
    features={
        **dict.fromkeys(WORKING, FULL),
        "serialize": NOT_YET,
        "host_views": NOT_YET,
        "dlpack": NOT_YET,
        "quantized_only": impossible("it computes in every dtype"),
    },
    # Of operands and result of one op, each may be so large.
    limits={"max_buffer_bytes": CAPACITY // 4},
)


class Piece:
    """Memory of a device; when the device is lost, it is gone."""

    exported = False

    def __init__(self, chip: Chip, data: Array) -> None:
        self.chip, self.nbytes = chip, data.nbytes
        self.memory: Any = ctypes.create_string_buffer(data.tobytes(), data.nbytes)
        chip.hold(self)

    def __del__(self) -> None:
        self.chip.release(self.nbytes)

    def array(self, spec: Spec) -> Array:
        """Return the contents as an array on the memory."""
        self.chip.answer()
        return np.ndarray(spec.shape, spec.dtype.numpy, self.memory)


class Chip:
    """What one device is at the moment: its figures, and whether it still answers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lost = False
        self.in_use = self.peak = 0
        self.limit: int | None = None
        self.pieces: WeakSet[Piece] = WeakSet()
        # A piece may die at any time, also while its own thread counts another one.
        self.lock = RLock()

    def answer(self) -> None:
        """Raise DeviceLostError when the device is lost."""
        if self.lost:
            raise DeviceLostError(
                f"{self.name} stopped answering, and what it held is gone; compute on another "
                f"device, and start a new process to use this one again"
            )

    def lose(self) -> None:
        """Stop answering, and forget everything."""
        with self.lock:
            self.lost = True
            for piece in self.pieces:
                piece.memory = None
        self.answer()

    def hold(self, piece: Piece) -> None:
        """Count a new piece."""
        with self.lock:
            self.in_use += piece.nbytes
            self.pieces.add(piece)

    def release(self, nbytes: int) -> None:
        """Count the end of a piece."""
        with self.lock:
            self.in_use -= nbytes

    def reserve(self, nbytes: int) -> None:
        """Raise OutOfMemoryError unless there are that many bytes."""
        self.answer()
        with self.lock:
            most = CAPACITY if self.limit is None else min(self.limit, CAPACITY)
            if self.in_use + nbytes > most:
                raise OutOfMemoryError(
                    f"{self.name} needs {nbytes} bytes, and {self.in_use} of {most} are in use; "
                    f"free tensors, or compute in smaller parts"
                )
            self.peak = max(self.peak, self.in_use + nbytes)


class Brittle(OpTable):
    """Sixteen devices, so that one can be lost and the rest be used."""

    name = "brittle"

    def __init__(self) -> None:
        self.chips = [Chip(f"{self.name}:{n}") for n in range(DEVICES)]
        self._tables = [self._table(chip) for chip in self.chips]

    def _table(self, chip: Chip) -> Mapping[str, Callable[..., Any]]:
        rows = table().items()
        return {n: partial(_run, chip, n, r.reference) for n, r in rows if r.reference is not None}

    def enumerate(self) -> int:
        """Return how many devices there are."""
        return DEVICES

    def info(self, index: int) -> Info:
        """Return what each device is."""
        return INFO

    def table(self, index: int) -> Mapping[str, Callable[..., Any]]:
        """Return the ops as a device computes them."""
        return self._tables[index]

    def compile(self, index: int, graph: Graph) -> OpTableExecutable:
        """Prepare a graph, unless its compiler is to fail at an op of it."""
        self.chips[index].answer()
        for node in graph.nodes:
            if FAULTS.strikes("compile", node.op.name):
                why = f"the compiler of {self.chips[index].name} gave up"
                raise CompileError(f"{why}; compute on another device", op=node.op.name)
        return super().compile(index, graph)

    def reserve(self, index: int, nbytes: int) -> None:
        """Raise OutOfMemoryError when a plan does not fit."""
        self.chips[index].reserve(nbytes)

    def enter(self, index: int, given: Any, spec: Spec) -> Array:
        """Return a piece's memory, or a host number, as an array."""
        if isinstance(given, Piece):
            return given.array(spec)
        return np.asarray(given, spec.dtype.numpy)

    def own(self, index: int, values: Sequence[Any], inputs: Sequence[Array]) -> list[Array]:
        """Return copies."""
        return [np.array(value, order="C") for value in values]

    def leave(self, index: int, value: Array, spec: Spec, into: Any) -> Any:
        """Return a new piece with an array's elements, or the given one with them."""
        if into is None:
            return Piece(self.chips[index], value)
        into.array(spec)[...] = value
        return into

    def upload(self, index: int, array: Array) -> Piece:
        """Copy an array."""
        self.chips[index].reserve(array.nbytes)
        return Piece(self.chips[index], array)

    def download(self, index: int, buffer: Piece, spec: Spec) -> Array:
        """Copy a piece."""
        return buffer.array(spec).copy()

    def copy(self, index: int, buffer: Piece, spec: Spec, target: int) -> Piece:
        """Copy a piece to a device."""
        return self.upload(target, buffer.array(spec))

    def synchronize(self, index: int) -> None:
        """Return at once, unless the device is lost."""
        self.chips[index].answer()

    def memory(self, index: int) -> MemoryFigures:
        """Return the figures of a device; without a limit of its own, that of its capacity."""
        chip = self.chips[index]
        return MemoryFigures(chip.in_use, chip.peak, chip.limit)

    def set_memory_limit(self, index: int, limit: int | None) -> None:
        """Set a limit below the capacity."""
        self.chips[index].limit = limit


def _run(
    chip: Chip, op: str, function: Callable[..., Any], *operands: Any, **attributes: Any
) -> Any:
    """Compute an op, unless it is to fail."""
    if FAULTS.strikes("lost", op):
        chip.lose()
    chip.answer()
    if FAULTS.strikes("out_of_memory", op):
        raise OutOfMemoryError(f"{chip.name} found no memory in the middle of a plan")
    with np.errstate(all="ignore"):
        return function(*operands, **attributes)
