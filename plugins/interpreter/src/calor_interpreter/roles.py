"""Roles: concurrent parts of a cube's units, and their named barriers.

Requirements: a copying and a computing part pass memory to each other, so neither can run to its
end first. Each runs until it waits at a named barrier and then yields to the others, in a fixed
order, so that runs are reproducible. A deadlock is an error, not a hang.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from calor_interpreter.machine import WARPGROUP, Batch, Compiler, Step
from calor_interpreter.machine import Party as Around
from calor_kernel.ir.nodes import Operation

Array = np.ndarray[Any, Any]
_GONE = -1


class NamedBarrier:
    """A named barrier of each cube of a batch.

    ``arrived``: the units that have arrived in this round; ``rounds``: the number of completed
    rounds; ``held`` and ``passed``: the knowledge of the arrived units, in this round and in the
    last complete one. Knowledge is a vector clock over the units of the cluster (Lamport; Mattern,
    1988): accesses of a unit before its clock precede one's own.
    """

    def __init__(self, cubes: int, peers: int) -> None:
        self.arrived = np.zeros(cubes, np.int64)
        self.rounds = np.zeros(cubes, np.int64)
        self.held = np.zeros((cubes, peers), np.int64)
        self.passed = np.zeros((cubes, peers), np.int64)

    def arrive(self, batch: Batch, operation: Operation, wanted: int) -> Array:
        """Count the active units, and return their cubes."""
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
    """Return the step that arrives at a named barrier without waiting."""
    name, wanted = operation.attributes["name"], operation.attributes["count"]

    def step(batch: Batch) -> None:
        named(batch, name).arrive(batch, operation, wanted)
        if batch.party is not None:
            batch.party.moved()

    return step


def wait_named(batch: Batch, operation: Operation, name: int, wanted: int) -> None:
    """Arrive at a named barrier, and let other roles run until all units have arrived."""
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
    """Concurrent roles, each in a thread, with one running at a time.

    ``around``: the party of the role that has these roles, None if no role has them.
    """

    def __init__(
        self, roles: Sequence[tuple[Batch, Sequence[Step]]], around: Around | None = None
    ) -> None:
        self.roles = roles
        self.around = around
        self.alive = list(range(len(roles)))
        self.turn = 0
        self.idle = 0
        self.changed = threading.Condition()
        self.failure: BaseException | None = None
        self.numbers: dict[int, int] = {}

    def run(self) -> None:
        """Run all roles to their end."""
        # To the party around, these roles are the one that has them.
        outer = self.around and self.around.numbers[threading.get_ident()]
        threads = [
            threading.Thread(target=self._role, args=(i, outer), daemon=True)
            for i in range(len(self.roles))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failure is not None:
            raise self.failure

    def moved(self) -> None:
        """Note an event for which others may wait."""
        self.idle = 0
        if self.around is not None:
            self.around.moved()

    def give_way(self) -> bool:
        """Let the other roles run; False on a deadlock: all wait and nothing moved."""
        self.idle += 1
        if self.failure is not None:
            return False
        if self.idle > len(self.alive):
            self.idle = 0
            return self.around is not None and self.around.give_way()
        me = self.numbers[threading.get_ident()]
        with self.changed:
            self._next(me)
            self.changed.wait_for(lambda: self.turn == me or self.failure is not None)
        return self.failure is None

    def _next(self, me: int) -> None:
        later = [i for i in self.alive if i > me]
        self.turn = later[0] if later else self.alive[0] if self.alive else _GONE
        self.changed.notify_all()

    def _role(self, number: int, outer: int | None) -> None:
        self.numbers[threading.get_ident()] = number
        if self.around is not None and outer is not None:
            self.around.numbers[threading.get_ident()] = outer
        batch, steps = self.roles[number]
        with self.changed:
            self.changed.wait_for(lambda: self.turn == number or self.failure is not None)
        try:
            if self.failure is None:
                with np.errstate(all="ignore"):
                    for step in steps:
                        step(batch)
        except BaseException as error:
            # The other roles' errors after the first failure are consequences of it.
            self.failure = self.failure or error
        with self.changed:
            self.idle = 0
            self.alive.remove(number)
            self._next(number)


def party_step(compiler: Compiler, operations: Sequence[Operation]) -> Step:
    """Return the step of adjacent roles."""
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
                # Concurrent roles that run the same steps have separate values.
                fork.values = list(batch.values)
                roles.append((fork, steps))
        party = Party(roles, batch.party)
        for one, _ in roles:
            one.party = party
        party.run()
        for one, _ in roles:
            batch.passed(np.maximum(batch.last_barrier, one.last_barrier))
            batch.last_meeting = np.maximum(batch.last_meeting, one.last_meeting)

    return step
