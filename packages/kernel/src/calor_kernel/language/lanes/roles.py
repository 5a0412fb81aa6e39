"""Roles: parts of a cube's units that run beside each other, and the named barriers they meet at.

Requirements: a copying and a computing part hand each other memory, so neither can run to its end
first; each runs until it waits at a named barrier and then lets the others run, in a fixed order,
so that a run can be repeated; parts that wait for each other are an error and not a hang.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from calor_kernel.ir.nodes import Operation
from calor_kernel.language.lanes.machine import Batch, Compiler, Step

Array = np.ndarray[Any, Any]
_GONE = -1
# Planes in a warpgroup.
WARPGROUP = 4


class NamedBarrier:
    """A named barrier of each cube of a batch.

    ``arrived``: the units that have, in this round; ``rounds``: how often all had; ``held`` and
    ``passed``: what those who arrive know, in this round and in the last one that was complete. To
    know is to have a clock for each unit of the cluster (Lamport; Mattern, 1988): accesses of the
    unit before it come before one's own.
    """

    def __init__(self, cubes: int, peers: int) -> None:
        self.arrived = np.zeros(cubes, np.int64)
        self.rounds = np.zeros(cubes, np.int64)
        self.held = np.zeros((cubes, peers), np.int64)
        self.passed = np.zeros((cubes, peers), np.int64)

    def arrive(self, batch: Batch, operation: Operation, wanted: int) -> Array:
        """Count the active units, and return in which cubes there are some."""
        active = batch.active().reshape(batch.count, batch.units)
        here = active.sum(axis=1)
        batch.launch.clock += 1
        self.arrived += here
        if (self.arrived > wanted).any():
            lane = int(np.argmax(batch.active()))
            message = f"{int(self.arrived.max())} units arrive where {wanted} are waited for"
            batch.fail(operation, "barrier", lane, message)
        rows = batch.known.reshape(batch.count, batch.units, batch.peers)
        self.held = np.maximum(self.held, np.where(active[:, :, None], rows, 0).max(axis=1))
        lanes = np.flatnonzero(active)
        self.held[lanes // batch.units, lanes % batch.peers] = batch.launch.clock
        full = (self.arrived == wanted) & (here > 0)
        self.passed[full] = self.held[full]
        self.held[full] = 0
        self.arrived[full] = 0
        self.rounds[full] += 1
        return np.asarray(here > 0)


def named(batch: Batch, name: int) -> NamedBarrier:
    """Return a batch's barrier of a name."""
    found: NamedBarrier = batch.named.setdefault(name, NamedBarrier(batch.count, batch.peers))
    return found


def arrive_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step that counts at a named barrier without waiting."""
    name, wanted = operation.attributes["name"], operation.attributes["count"]

    def step(batch: Batch) -> None:
        named(batch, name).arrive(batch, operation, wanted)
        if batch.party is not None:
            batch.party.moved()

    return step


def wait_named(batch: Batch, operation: Operation, name: int, wanted: int) -> None:
    """Arrive at a named barrier, and let other roles run until all units have."""
    barrier = named(batch, name)
    before = barrier.rounds.copy()
    mine = barrier.arrive(batch, operation, wanted)
    if batch.party is not None:
        batch.party.moved()
    while (waits := mine & (barrier.rounds == before)).any():
        if batch.party is None or not batch.party.give_way():
            lane = int(np.argmax(batch.active() & np.repeat(waits, batch.units)))
            arrived = barrier.arrived[lane // batch.units]
            message = f"{arrived} of {wanted} units reach it, and no other one will"
            batch.fail(operation, "barrier", lane, message)
    lanes = np.flatnonzero(batch.active())
    passed = barrier.passed[lanes // batch.units]
    batch.known[lanes] = np.maximum(batch.known[lanes], passed)


class Party:
    """The roles that run at the same time, each in a thread, of which one at a time goes on."""

    def __init__(self, roles: Sequence[tuple[Batch, Sequence[Step]]]) -> None:
        self.roles = roles
        self.alive = list(range(len(roles)))
        self.turn = 0
        self.idle = 0
        self.changed = threading.Condition()
        self.failure: BaseException | None = None
        self._numbers: dict[int, int] = {}

    def run(self) -> None:
        """Run all roles to their end."""
        threads = [
            threading.Thread(target=self._role, args=(i,), daemon=True)
            for i in range(len(self.roles))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failure is not None:
            raise self.failure

    def moved(self) -> None:
        """Note that something happened for which others may wait."""
        self.idle = 0

    def give_way(self) -> bool:
        """Let the other roles run; False where all wait and nothing moved."""
        self.idle += 1
        if self.failure is not None or self.idle > len(self.alive):
            return False
        me = self._numbers[threading.get_ident()]
        with self.changed:
            self._next(me)
            self.changed.wait_for(lambda: self.turn == me or self.failure is not None)
        return self.failure is None

    def _next(self, me: int) -> None:
        later = [i for i in self.alive if i > me]
        self.turn = later[0] if later else self.alive[0] if self.alive else _GONE
        self.changed.notify_all()

    def _role(self, number: int) -> None:
        self._numbers[threading.get_ident()] = number
        batch, steps = self.roles[number]
        with self.changed:
            self.changed.wait_for(lambda: self.turn == number or self.failure is not None)
        try:
            if self.failure is None:
                with np.errstate(all="ignore"):
                    for step in steps:
                        step(batch)
        except BaseException as error:
            # What a failure makes the other roles raise says nothing new.
            self.failure = self.failure or error
        with self.changed:
            self.idle = 0
            self.alive.remove(number)
            self._next(number)


def party_step(compiler: Compiler, operations: Sequence[Operation]) -> Step:
    """Return the step of roles that stand next to each other."""
    group, parts = compiler.kernel.plane * WARPGROUP, []
    for op in operations:
        first, count = op.attributes["first"], op.attributes["count"]
        steps, size = compiler.block(op.regions[0]), group if op.attributes.get("apart") else count
        parts += [(start, size, steps) for start in range(first, first + count, size)]

    def step(batch: Batch) -> None:
        place, roles = batch.linear_position(), []
        for first, count, steps in parts:
            mine = (place >= first) & (place < first + count) & batch.active()
            if mine.any():
                fork = batch.fork(mine)
                # Those that run the same steps beside each other have values of their own.
                fork.values = list(batch.values)
                roles.append((fork, steps))
        party = Party(roles)
        for one, _ in roles:
            one.party = party
        party.run()
        for one, _ in roles:
            batch.last_barrier = np.maximum(batch.last_barrier, one.last_barrier)
            batch.last_meeting = np.maximum(batch.last_meeting, one.last_meeting)

    return step
