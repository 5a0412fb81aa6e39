"""Asynchronous copies: data arrives at the wait, not before.

Requirements: hardware may deliver data early or late, so a kernel must not read before its wait.
Here data never arrives early; an early read is an error, and so is a change of the source during
the copy. Groups are counted per unit, as in hardware: a wait leaves the unit's latest ``pending``
groups in flight.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from calor_interpreter.access import Access
from calor_interpreter.machine import Batch, Compiler, Step
from calor_interpreter.memory import reach
from calor_interpreter.state import State
from calor_interpreter.watch import reached
from calor_kernel.ir.nodes import Operation

Array = np.ndarray[Any, Any]


class OnTheWay(Protocol):
    """Data in flight, delivered by the waits of some units before others."""

    lanes: Array

    def finish(self, batch: Batch, done: Array) -> None:
        """Deliver the data of some units."""

    def part(self, chosen: Array) -> OnTheWay:
        """Return the part of some of its ``lanes``."""


@dataclass(slots=True)
class Copy:
    """Elements in flight: source, target, and the unit of each copy."""

    operation: Operation
    source: State
    target: State
    starts: Array
    ends: Array
    lanes: Array
    data: Array

    def finish(self, batch: Batch, done: Array) -> None:
        """Deliver the elements of some units."""
        mine = done[self.lanes]
        ends, lanes, data = self.ends[mine], self.lanes[mine], self.data[mine]
        now = self.source.data[self.starts[mine]]
        watch = self.target.watch
        if watch is not None:
            changed = _bytes(now) != _bytes(data)
            if changed.any():
                first = int(np.argmax(changed.reshape(len(changed), -1).any(axis=1)))
                lane = int(lanes[first])
                index = int(self.starts[mine][first]) - self.source.start(lane)
                message = "its source was written before the copy was waited for"
                name = self.source.memory.name
                batch.fail(self.operation, "race", lane, message, memory=name, index=index)
            assert watch.pending is not None
            watch.pending[ends] = False
            watch.arrive(Access(batch, self.operation, self.target, ends, lanes))
        self.target.data[ends] = data
        keep = ~mine
        self.starts, self.ends = self.starts[keep], self.ends[keep]
        self.lanes, self.data = self.lanes[keep], self.data[keep]

    def part(self, chosen: Array) -> Copy:
        """Return some of the elements."""
        parts = (self.starts, self.ends, self.lanes, self.data)
        return Copy(self.operation, self.source, self.target, *(p[chosen] for p in parts))


@dataclass(slots=True)
class Fill:
    """Zeros in flight to elements, for a copy without a source."""

    operation: Operation
    target: State
    ends: Array
    lanes: Array

    def finish(self, batch: Batch, done: Array) -> None:
        """Deliver the zeros of some units."""
        mine = done[self.lanes]
        ends, watch = self.ends[mine], self.target.watch
        if watch is not None:
            assert watch.pending is not None
            watch.pending[ends] = False
            watch.arrive(Access(batch, self.operation, self.target, ends, self.lanes[mine]))
        self.target.data[ends] = 0
        self.ends, self.lanes = self.ends[~mine], self.lanes[~mine]

    def part(self, chosen: Array) -> Fill:
        """Return some of the elements."""
        return Fill(self.operation, self.target, self.ends[chosen], self.lanes[chosen])


def _bytes(values: Array) -> Array:
    return np.ascontiguousarray(values).view(np.uint8).reshape(*values.shape, values.itemsize)


@dataclass(slots=True)
class Group:
    """Copies committed together, and the units that committed them."""

    members: Array
    copies: list[OnTheWay]


@dataclass(slots=True)
class Flight:
    """A batch's copies of one name: those not yet committed, and the groups in order."""

    open: list[OnTheWay] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)


def flight_of(batch: Batch, group: str | None) -> Flight:
    """Return a batch's copies in flight under a group's name."""
    found: Flight = batch.flights.setdefault(group, Flight())
    return found


def copy_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step that starts a copy."""
    number = compiler.number(operation.memory)
    origin = compiler.number(operation.attributes["source"])
    elements = operation.attributes.get("elements", 1)
    end, start, *masks = compiler.slots(operation.operands)
    spread = np.arange(elements)

    def step(batch: Batch) -> None:
        values, source, target = batch.values, batch.states[origin], batch.states[number]
        wanted = values[masks[0]][:, None] if masks else None
        froms, read = reach(batch, operation, source, values[start][:, None] + spread, wanted)
        tos, needed = reach(batch, operation, target, values[end][:, None] + spread, None)
        if source.watch is not None:
            source.watch.read(batch, operation, source, froms, read)
        if target.watch is not None:
            target.watch.write(batch, operation, target, tos, needed, starts=True)
        starts, _ = reached(batch, froms, read)
        ends, lanes = reached(batch, tos, read)
        made = Copy(operation, source, target, starts, ends, lanes, source.data[starts])
        flight = flight_of(batch, operation.attributes.get("group"))
        flight.open.append(made)
        if wanted is not None:
            empty = ~wanted if needed is None else needed & ~wanted
            flight.open.append(Fill(operation, target, *reached(batch, tos, empty)))

    return step


def commit_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step that closes a group."""
    group = operation.attributes.get("group")

    def step(batch: Batch) -> None:
        flight, active = flight_of(batch, group), batch.active()
        committed, left = [], []
        for copy in flight.open:
            mine = active[copy.lanes]
            if mine.all():
                committed.append(copy)
                continue
            committed.append(copy.part(mine))
            left.append(copy.part(~mine))
        flight.open = left
        flight.groups.append(Group(active.copy(), committed))

    return step


def wait_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step that waits for all but the latest groups."""
    name, pending = operation.attributes.get("group"), operation.attributes.get("pending", 0)

    def step(batch: Batch) -> None:
        flight, active = flight_of(batch, name), batch.active()
        later = np.zeros(batch.lanes, np.int64)
        for group in reversed(flight.groups):
            done = active & group.members & (later >= pending)
            later += group.members
            if done.any():
                for copy in group.copies:
                    copy.finish(batch, done)
                group.members = group.members & ~done
        flight.groups = [group for group in flight.groups if group.members.any()]

    return step
