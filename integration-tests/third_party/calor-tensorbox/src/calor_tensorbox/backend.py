"""The backend: cells of memory, and programs that run on them."""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from typing import Any

import numpy as np

from calor.backends.protocol import Backend, Buffer, Claim, Executable, Info, MemoryFigures
from calor.graph.graph import Graph
from calor.specs import Spec

from .compiler import compile_program
from .description import INFO, objections
from .program import Place, Program
from .units import Array, run


class Cell:
    """Bytes in the memory of the box; any dtype can be stored, computed are four."""

    exported = False

    def __init__(self, box: Tensorbox, data: bytes) -> None:
        self.box, self.data, self.nbytes = box, bytearray(data), len(data)
        box.count(self.nbytes)

    def __del__(self) -> None:
        self.box.count(-self.nbytes)


class Loaded:
    """A program in the box, ready to run."""

    def __init__(self, box: Tensorbox, program: Program) -> None:
        self.box, self.program = box, program
        self.required_bytes = program.arena + program.result_bytes

    def __call__(
        self, inputs: Sequence[Any], into: Sequence[Buffer | None] | None = None
    ) -> list[Any]:
        """Run the steps, then move the results to cells of their own."""
        self.box.reserve(self.required_bytes)
        arena = bytearray(self.program.arena)
        for step in self.program.steps:
            operands = [_array(place, arena, inputs) for place in step.operands]
            result = _array(step.result, arena, inputs)
            result[...] = run(step.command, operands, result.dtype, step.settings)
        made = [_array(place, arena, inputs).tobytes() for place in self.program.results]
        targets: Sequence[Any] = [None] * len(made) if into is None else into
        return [self.box.store(d, t) for d, t in zip(made, targets, strict=True)]


def _array(place: Place, arena: bytearray, inputs: Sequence[Any]) -> Array:
    dtype = np.dtype(place.dtype)
    if place.start >= 0:
        return np.ndarray(place.shape, dtype, arena, place.start)
    given = inputs[-1 - place.start]
    # What is no cell is a number, or a small array, that the host hands over.
    return np.ndarray(place.shape, dtype, given.data if isinstance(given, Cell)
                      else np.asarray(given, dtype))  # fmt: skip


class Tensorbox(Backend):
    """One device, ``tensorbox:0``."""

    name = "tensorbox"

    def __init__(self) -> None:
        # A cell may die at any time, also while its own thread counts another one.
        self._lock = RLock()
        self._in_use = self._peak = 0

    def enumerate(self) -> int:
        """Return 1."""
        return 1

    def info(self, index: int) -> Info:
        """Return what the box is."""
        return INFO

    def claim(self, index: int, graph: Graph) -> Claim:
        """Take what the units compute."""
        reasons = objections(graph)
        taken = tuple(i for i in range(len(graph.nodes)) if i not in reasons)
        return Claim((taken,) if taken else (), reasons)

    def compile(self, index: int, graph: Graph) -> Loaded:
        """Compile the whole graph."""
        return Loaded(self, compile_program(graph))

    def serialize(self, index: int, executable: Executable) -> bytes:
        """Return the program."""
        assert isinstance(executable, Loaded)
        return executable.program.to_bytes()

    def deserialize(self, index: int, data: bytes) -> Loaded:
        """Load a program."""
        return Loaded(self, Program.from_bytes(data))

    def upload(self, index: int, array: Array) -> Cell:
        """Copy an array."""
        self.reserve(array.nbytes)
        return Cell(self, array.tobytes())

    def download(self, index: int, buffer: Cell, spec: Spec) -> Array:
        """Copy a cell."""
        return np.ndarray(spec.shape, spec.dtype.numpy, buffer.data).copy()

    def copy(self, index: int, buffer: Cell, spec: Spec, target: int) -> Cell:
        """Copy a cell within the box."""
        self.reserve(buffer.nbytes)
        return Cell(self, bytes(buffer.data))

    def store(self, data: bytes, into: Any) -> Cell:
        """Return a new cell, or the given one written over."""
        if into is None:
            return Cell(self, data)
        cell: Cell = into
        cell.data[:] = data
        return cell

    def count(self, nbytes: int) -> None:
        """Count bytes of a cell that begins (or, negative, ends)."""
        with self._lock:
            self._in_use += nbytes
            self._peak = max(self._peak, self._in_use)

    def reserve(self, nbytes: int) -> None:
        """Count what a run or an upload is about to take."""
        with self._lock:
            self._peak = max(self._peak, self._in_use + nbytes)

    def synchronize(self, index: int) -> None:
        """Return at once: a program has ended when its call returns."""

    def memory(self, index: int) -> MemoryFigures:
        """Return the bytes of the cells."""
        with self._lock:
            return MemoryFigures(self._in_use, self._peak, None)
