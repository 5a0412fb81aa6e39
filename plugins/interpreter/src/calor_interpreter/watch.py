"""The state of memory elements beside their values: initialized, in flight, last accesses.

Requirements: memory that a kernel only reads costs nothing. Elements of arguments that share memory
are the same cells, whatever their types. Memory without races (of one unit) has no shadow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor_interpreter.machine import Batch
from calor_interpreter.races import Shadow
from calor_interpreter.state import State
from calor_kernel.ir.nodes import Operation

Array = np.ndarray[Any, Any]


class Watch:
    """The checks of one memory.

    ``unset``: uninitialized elements (None: all are initialized before the kernel). ``pending``:
    elements with an asynchronous copy in flight. ``shadow``: the last accesses per cell; an element
    is ``cells`` cells from ``origin`` + its index · ``cells`` on.
    """

    __slots__ = ("cells", "origin", "pending", "shadow", "unset")

    def __init__(
        self, shadow: Shadow | None, unset: Array | None, origin: int = 0, cells: int = 1
    ) -> None:
        self.shadow = shadow
        self.unset = unset
        self.pending: Array | None = None
        self.origin = origin
        self.cells = cells

    def read(
        self,
        batch: Batch,
        operation: Operation,
        state: State,
        places: Array,
        needed: Array | None,
        atomic: bool = False,
    ) -> None:
        """Check a read of elements; ``needed`` masks the ones actually read."""
        flat, lanes = reached(batch, places, needed)
        self.read_each(batch, operation, state, flat, lanes, atomic)

    def read_each(
        self,
        batch: Batch,
        operation: Operation,
        state: State,
        flat: Array,
        lanes: Array,
        atomic: bool = False,
    ) -> None:
        """Check reads of one element each, made by the units one after another."""
        self._settled(batch, operation, state, flat, lanes)
        if self.unset is not None:
            bad = self.unset.take(flat)
            if bad.any():
                message = "nobody wrote it; what it holds is not defined"
                _fail(batch, operation, state, flat, lanes, bad, "uninitialized", message)
        if self.shadow is not None:
            cells, lanes = self._cells(flat, lanes)
            self.shadow.read(batch, operation, state, cells, lanes, atomic)

    def write(
        self,
        batch: Batch,
        operation: Operation,
        state: State,
        places: Array,
        needed: Array | None,
        atomic: bool = False,
        starts: bool = False,
    ) -> None:
        """Check a write to elements; ``needed`` masks the ones actually written.

        ``starts``: the start of an asynchronous copy, whose data arrives later.
        """
        flat, lanes = reached(batch, places, needed)
        self.write_each(batch, operation, state, flat, lanes, atomic, starts)

    def write_each(
        self,
        batch: Batch,
        operation: Operation,
        state: State,
        flat: Array,
        lanes: Array,
        atomic: bool = False,
        starts: bool = False,
    ) -> None:
        """Check writes to one element each, made by the units one after another."""
        self._settled(batch, operation, state, flat, lanes)
        if starts:
            if self.pending is None:
                self.pending = np.zeros(len(state.data), np.bool_)
            self.pending[flat] = True
        elif self.unset is not None:
            self.unset[flat] = False
        if self.shadow is not None:
            cells, lanes = self._cells(flat, lanes)
            self.shadow.write(batch, operation, state, cells, lanes, atomic)

    def arrive(
        self, batch: Batch, operation: Operation, state: State, places: Array, lanes: Array
    ) -> None:
        """Note the arrival of an asynchronous copy's data, for the unit that waited for it."""
        if self.unset is not None:
            self.unset[places] = False
        if self.shadow is not None:
            cells, lanes = self._cells(places, lanes)
            self.shadow.write(batch, operation, state, cells, lanes, False)

    def _settled(
        self, batch: Batch, operation: Operation, state: State, flat: Array, lanes: Array
    ) -> None:
        if self.pending is not None:
            bad = self.pending.take(flat)
            if bad.any():
                message = "an asynchronous copy is on the way to it; wait_async comes first"
                _fail(batch, operation, state, flat, lanes, bad, "pending", message)

    def place(self, cell: int) -> int:
        """Return the index of a cell's element."""
        return (cell - self.origin) // self.cells

    def _cells(self, flat: Array, lanes: Array) -> tuple[Array, Array]:
        if self.cells == 1:
            return (flat + self.origin if self.origin else flat), lanes
        every = (flat * self.cells + self.origin)[:, None] + np.arange(self.cells)
        return every.reshape(-1), np.repeat(lanes, self.cells)


def reached(batch: Batch, places: Array, needed: Array | None) -> tuple[Array, Array]:
    """Return the accessed elements, flattened, and the unit of each."""
    if needed is None and places.ndim == 1 and len(places) == batch.lanes:
        return places, batch.every
    shape: tuple[int, ...] = (batch.lanes, *places.shape[1:])
    spread = np.broadcast_to(places, shape)
    lanes = np.broadcast_to(batch.every if len(shape) == 1 else batch.every[:, None], shape)
    if needed is None:
        return spread.reshape(-1), lanes.reshape(-1)
    chosen = np.broadcast_to(needed, shape)
    return spread[chosen], lanes[chosen]


def _fail(
    batch: Batch,
    operation: Operation,
    state: State,
    places: Array,
    lanes: Array,
    bad: Array,
    rule: str,
    message: str,
) -> None:
    first = int(np.argmax(bad))
    place, lane = int(places[first]), int(lanes[first])
    name = state.memory.name
    index = place - state.start(lane)
    batch.fail(operation, rule, lane, message, memory=name, index=index)
