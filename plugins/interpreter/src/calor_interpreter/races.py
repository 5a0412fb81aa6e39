"""The race detector: the last accesses to each element, and their order.

Requirements: a race is found by the ordering in the kernel, not by the order of execution. Barriers
order the units of a cube or plane, a release and a later acquire order cubes, atomics need no order
among themselves. An element costs a few numbers and an access a few NumPy calls, even if thousands
of units read one element. The bookkeeping is that of shadow memory (Savage et al., "Eraser", 1997),
with a clock of barriers in the place of locks.

A *mark* identifies units: 0 nobody, u + 1 the unit with number u, −1 − c several units of cube c,
``SEVERAL`` units of several cubes. Zero pages are allocated lazily by the system. Each access asks
whether a mask has any element; counting them is NumPy's fastest answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor_interpreter.access import Access
from calor_interpreter.machine import Batch

Array = np.ndarray[Any, Any]
SEVERAL = -(2**62)


class Shadow:
    """The last writers and readers of a memory's cells, with the clock of the access.

    ``reads``: whether readers are recorded, which is needed if the kernel also writes. ``shared``:
    whether a cell belongs to one cube, so that marks of different cubes never meet.
    """

    __slots__ = (
        "atomic", "latest_read", "latest_write", "read_at", "reader", "reads", "shared", "writer",
        "written_at",
    )  # fmt: skip

    def __init__(self, cells: int, reads: bool, shared: bool = False) -> None:
        self.writer = np.zeros(cells, np.int64)
        self.written_at = np.zeros(cells, np.int64)
        self.reader = np.zeros(cells if reads else 0, np.int64)
        self.read_at = np.zeros(cells if reads else 0, np.int64)
        self.atomic: Array | None = None
        # The clock of the latest write and read of any cell, 0 before.
        self.latest_write = self.latest_read = 0
        self.reads = reads
        self.shared = shared

    def read(self, access: Access) -> None:
        """Note a read; KernelCheckError for a concurrent write."""
        batch = access.batch
        who = _of(batch, batch.who, access.lanes)
        self._after_writes(access, who)
        if self.reads and not access.atomic:
            self._note(access, self.reader, self.read_at, self.latest_read, who)
            self.latest_read = batch.launch.clock

    def write(self, access: Access) -> None:
        """Note a write; KernelCheckError for another unit's concurrent access."""
        cells, batch = access.places, access.batch
        who = _of(batch, batch.who, access.lanes)
        self._after_writes(access, who)
        if self.latest_read:
            if not self._ordered(batch, self.latest_read):
                marks = self.reader.take(cells)
                foreign = (marks != who) & (marks != 0)
                if np.count_nonzero(foreign):
                    foreign = self._racing(access, foreign, marks, self.read_at)
                    if np.count_nonzero(foreign):
                        _complain(access, foreign, marks, "reads")
            self.reader[cells] = 0
        if access.atomic:
            if self.atomic is None:
                self.atomic = np.zeros(len(self.writer), np.bool_)
            self._note(access, self.writer, self.written_at, self.latest_write, who)
            self.latest_write = batch.launch.clock
            self.atomic[cells] = True
            return
        self.writer[cells] = who
        self.written_at[cells] = self.latest_write = batch.launch.clock
        if self.atomic is not None:
            self.atomic[cells] = False
        if batch.lanes == 1:
            return
        last = self.writer.take(cells)
        clash = last != who
        if np.count_nonzero(clash):
            _complain(access, clash, last, "writes")

    def _ordered(self, batch: Batch, latest: int) -> bool:
        """Return whether all accesses up to a clock are ordered before now, without a look at them.

        That is so before any, and for one cube's memory before its last barrier.
        """
        return not latest or (self.shared and batch.crew == 1 and latest < batch.all_passed)

    def _after_writes(self, access: Access, who: Array) -> None:
        if self._ordered(access.batch, self.latest_write):
            return
        marks = self.writer.take(access.places)
        foreign = (marks != who) & (marks != 0)
        if not np.count_nonzero(foreign):
            return
        if access.atomic and self.atomic is not None:
            foreign &= ~self.atomic.take(access.places)
        foreign = self._racing(access, foreign, marks, self.written_at)
        if np.count_nonzero(foreign):
            _complain(access, foreign, marks, "writes")

    def _note(self, access: Access, held: Array, times: Array, latest: int, who: Array) -> None:
        """Set marks; unordered earlier marks are joined with the new ones."""
        batch, cells, lanes = access.batch, access.places, access.lanes
        made = who
        if not self._ordered(batch, latest):
            marks = held.take(cells)
            foreign = (marks != who) & (marks != 0)
            if np.count_nonzero(foreign):
                foreign = self._racing(access, foreign, marks, times)
                if np.count_nonzero(foreign):
                    made = np.where(foreign, self._joined(batch, marks, who, lanes), who)
        held[cells] = made
        times[cells] = batch.launch.clock
        if batch.lanes == 1:
            return
        last = held.take(cells)
        clash = last != made
        if np.count_nonzero(clash):
            # Several units accessed it together; the widest mark must stay, and is set last.
            joined = self._joined(batch, last[clash], made[clash], lanes[clash])
            where, wide = cells[clash], joined == SEVERAL
            held[where] = joined
            if np.count_nonzero(wide):
                held[where[wide]] = SEVERAL

    def _joined(self, batch: Batch, a: Array, b: Array, lanes: Array) -> Array:
        """Return the union of two marks; ``b`` is of the lanes' own cubes."""
        ours = batch.cubes[lanes]
        if self.shared:
            return np.asarray(-1 - ours)
        same = (_cubes(a, batch.units) == ours) & (b != SEVERAL)
        return np.where(same, -1 - ours, SEVERAL)

    def _racing(self, access: Access, foreign: Array, marks: Array, times: Array) -> Array:
        """Return the mask of foreign accesses, among the candidates, not ordered before now."""
        batch, lanes = access.batch, access.lanes
        units, plane, launch = batch.units, batch.launch.kernel.plane, batch.launch
        when = times.take(access.places)
        racing = foreign & (when >= _of(batch, batch.last_barrier, lanes))
        ours = _of(batch, batch.cubes, lanes)
        if self.shared:
            if batch.crew > 1:
                # Barriers of a cube do not order accesses of other cubes of the cluster.
                racing |= foreign & (marks > 0) & (_cubes(marks, units) != ours)
            if not np.count_nonzero(racing):
                return racing
            theirs = ours
        else:
            theirs = _cubes(marks, units)
            racing |= foreign & (theirs != ours)
        one = (theirs == ours) & (marks > 0)
        if plane > 1:
            near = (marks - 1) % batch.peers // plane == lanes % batch.peers // plane
            racing &= ~(one & near & (when < batch.last_meeting[lanes]))
        if len(batch.known):
            # For several units, knowledge of one is enough: fewer races are found, and none
            # falsely.
            of_one = batch.known[lanes, np.where(one, (marks - 1) % batch.peers, 0)]
            clock = np.where(one, of_one, batch.known[lanes].max(axis=1))
            racing &= ~((theirs == ours) & (when < clock))
        if launch.published:
            # The last release among several cubes is unknown; the access is assumed to be ordered.
            released = (theirs < 0) | (launch.released[np.maximum(theirs, 0)] > when)
            racing &= ~(released & (launch.acquired[ours] > when))
        return racing


def _of(batch: Batch, values: Array, lanes: Array) -> Array:
    """Return a value of each unit for the units of an access, which often are all in order."""
    return values if lanes is batch.every else values.take(lanes)


def _cubes(marks: Array, units: int) -> Array:
    """Return the cube of each mark, −1 for several and for nobody."""
    several = np.where(marks > SEVERAL, -1 - marks, -1)
    return np.where(marks > 0, (marks - 1) // units, several)


def _complain(access: Access, bad: Array, marks: Array, does: str) -> None:
    batch, state, first = access.batch, access.state, int(np.argmax(bad))
    lane, mark = int(access.lanes[first]), int(marks[first])
    cube = int(_cubes(marks[first : first + 1], batch.units)[0])
    if mark > 0:
        other, unit = batch.name(mark - 1)
        who = f"unit {unit} of cube {other} {does} it too"
    else:
        who = f"other units {does.removesuffix('s')} it too"
    if cube == int(batch.cubes[lane]):
        advice = "no barrier stands between"
    else:
        advice = "cubes of a launch run in any order; take an atomic, or two launches"
    index, name = state.index(int(access.places[first]), lane), state.memory.name
    batch.fail(access.operation, "race", lane, f"{who}; {advice}", memory=name, index=index)
