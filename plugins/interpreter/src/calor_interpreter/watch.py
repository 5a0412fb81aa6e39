"""The state of memory elements beside their values: initialized, in flight, last accesses.

Requirements: memory that a kernel only reads costs nothing. Elements of arguments that share memory
are the same cells, whatever their types. Memory without races (of one unit) has no shadow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor_interpreter.access import Access
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
        self.read_each(Access(batch, operation, state, flat, lanes, atomic))

    def read_each(self, access: Access) -> None:
        """Check reads of one element each, made by the units one after another."""
        self._settled(access)
        if self.unset is not None:
            bad = self.unset.take(access.places)
            if np.count_nonzero(bad):
                access.fail(bad, "uninitialized", "nobody wrote it; what it holds is not defined")
        if self.shadow is not None:
            self.shadow.read(self._cells(access))

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
        self.write_each(Access(batch, operation, state, flat, lanes, atomic), starts)

    def write_each(self, access: Access, starts: bool = False) -> None:
        """Check writes to one element each, made by the units one after another."""
        self._settled(access)
        if starts:
            if self.pending is None:
                self.pending = np.zeros(len(access.state.data), np.bool_)
            self.pending[access.places] = True
            self._note(access)
        else:
            self.arrive(access)

    def arrive(self, access: Access) -> None:
        """Note that data is there, such as an asynchronous copy's for the unit that waited."""
        if self.unset is not None:
            self.unset[access.places] = False
        self._note(access)

    def _note(self, access: Access) -> None:
        if self.shadow is not None:
            self.shadow.write(self._cells(access))

    def _settled(self, access: Access) -> None:
        if self.pending is not None:
            bad = self.pending.take(access.places)
            if np.count_nonzero(bad):
                message = "an asynchronous copy is on the way to it; wait_async comes first"
                access.fail(bad, "pending", message)

    def place(self, cell: int) -> int:
        """Return the index of a cell's element."""
        return (cell - self.origin) // self.cells

    def _cells(self, access: Access) -> Access:
        """Return the access with the elements' cells."""
        flat = access.places
        if self.cells == 1:
            if not self.origin:
                return access
            batch, operation, state, _, lanes, atomic = access
            return Access(batch, operation, state, flat + self.origin, lanes, atomic)
        every = (flat * self.cells + self.origin)[:, None] + np.arange(self.cells)
        lanes = np.repeat(access.lanes, self.cells)
        return access._replace(places=every.reshape(-1), lanes=lanes)


def reached(batch: Batch, places: Array, needed: Array | None) -> tuple[Array, Array]:
    """Return the accessed elements, flattened, and the unit of each."""
    places = batch.full(places)
    if needed is None:
        if places.ndim == 1:
            return places, batch.every
        return places.reshape(-1), batch.spread(places.shape[1])
    if places.ndim == 1:
        lanes = np.flatnonzero(batch.full(needed))
        return places.take(lanes), lanes
    width = places.shape[1]
    if needed.shape[1] < width:
        lanes = np.flatnonzero(batch.full(needed))
        return places[lanes].reshape(-1), lanes.repeat(width)
    elements = np.flatnonzero(batch.full(needed))
    return places.take(elements), batch.spread(width).take(elements)
