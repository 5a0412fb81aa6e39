"""Barriers in shared memory (mbarriers), which count arrivals and bytes of copies.

Requirements: a phase ends for all units once its arrivals and bytes are complete. Data arrives when
a unit waits for the phase, not before. A deadlock is an error, not a hang.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor_interpreter.copies import Copy, Fill
from calor_interpreter.machine import Batch, Compiler, Step
from calor_interpreter.memory import reach
from calor_kernel.ir.nodes import Operation

Array = np.ndarray[Any, Any]


class Phases:
    """The barriers of a memory, per cube of a batch.

    Attributes: ``wanted``, the arrivals per phase; ``arrived`` and ``missing``, this phase's
    arrivals, and outstanding bytes; ``phase``, the number of completed phases; ``held`` and
    ``passed``, the knowledge of the arrived units, in this phase and in the completed ones (as for
    named barriers); ``landing``, (phase, copy) by (cube, barrier).
    """

    def __init__(self, cubes: int, size: int, units: int) -> None:
        shape = (cubes, size)
        self.wanted = np.zeros(shape, np.int64)
        self.arrived = np.zeros(shape, np.int64)
        self.missing = np.zeros(shape, np.int64)
        self.phase = np.zeros(shape, np.int64)
        self.held = np.zeros((*shape, units), np.int64)
        self.passed = np.zeros((*shape, units), np.int64)
        self.landing: dict[tuple[int, int], list[tuple[int, Copy | Fill]]] = {}

    def settle(self, batch: Batch, operation: Operation, cubes: Array, places: Array) -> None:
        """End the complete phases of barriers."""
        batch.launch.clock += 1
        here = np.unique(np.stack([cubes, places]), axis=1)
        where = (here[0], here[1])
        over = self.arrived[where] > self.wanted[where]
        if over.any():
            cube, place = (int(i) for i in here[:, np.argmax(over)])
            message = (
                f"{self.arrived[cube, place]} arrive at barrier {place}, where a phase has "
                f"{self.wanted[cube, place]}"
            )
            batch.fail(operation, "barrier", int(np.argmax(batch.active())), message)
        done = (self.arrived[where] == self.wanted[where]) & (self.missing[where] == 0)
        ended = (here[0][done], here[1][done])
        self.arrived[ended] = 0
        self.phase[ended] += 1
        self.passed[ended] = np.maximum(self.passed[ended], self.held[ended])
        self.held[ended] = 0
        if batch.party is not None:
            batch.party.moved()

    def land(self, batch: Batch, cubes: Array, places: Array) -> None:
        """Deliver the data of completed phases."""
        for cube, place in np.unique(np.stack([cubes, places]), axis=1).T.tolist():
            flying = self.landing.get((cube, place), [])
            over = [copy for phase, copy in flying if phase < self.phase[cube, place]]
            if not over:
                continue
            self.landing[cube, place] = flying[len(over) :]
            done = np.ones(batch.lanes, np.bool_)
            batch.launch.clock += 1
            for copy in over:
                who = copy.lanes % batch.peers
                copy.finish(batch, done)
                self.passed[cube, place, who] = batch.launch.clock + 1
            batch.launch.clock += 1


def phases_of(batch: Batch, number: int) -> Phases:
    """Return the barriers of a memory."""
    size = batch.states[number].memory.size or 0
    found: Phases = batch.mbarriers.setdefault(number, Phases(batch.count, size, batch.peers))
    return found


def barriers_of(
    batch: Batch, operation: Operation, number: int, index: Array
) -> tuple[Phases, Array, Array]:
    """Return a memory's barriers, and the cube and barrier of each active unit."""
    state = batch.states[number]
    places, needed = reach(batch, operation, state, index, None)
    if state.watch is not None:
        state.watch.read(batch, operation, state, places, needed, True)
    lanes = np.flatnonzero(batch.active())
    return phases_of(batch, number), lanes // batch.units, batch.full(index)[lanes].astype(int)


def init_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step that initializes a barrier."""
    number = compiler.number(operation.memory)
    place, wanted = compiler.slots(operation.operands)

    def step(batch: Batch) -> None:
        state, index = batch.states[number], batch.values[place]
        places, needed = reach(batch, operation, state, index, None)
        if state.watch is not None:
            state.watch.write(batch, operation, state, places, needed)
        lanes = np.flatnonzero(batch.active())
        where = (lanes // batch.units, batch.full(index)[lanes].astype(int))
        phases_of(batch, number).wanted[where] = batch.full(batch.values[wanted])[lanes]

    return step


def expect_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step that expects bytes."""
    number = compiler.number(operation.memory)
    place, nbytes = compiler.slots(operation.operands)

    def step(batch: Batch) -> None:
        phases, cubes, places = barriers_of(batch, operation, number, batch.values[place])
        more = batch.full(batch.values[nbytes])[batch.active()]
        np.add.at(phases.missing, (cubes, places), more)

    return step


def arrive_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step that counts an arrival."""
    number = compiler.number(operation.memory)
    place, *rank = compiler.slots(operation.operands)

    def step(batch: Batch) -> None:
        phases, cubes, places = barriers_of(batch, operation, number, batch.values[place])
        if rank:
            cubes = _of_rank(batch, operation, cubes, batch.values[rank[0]])
        np.add.at(phases.arrived, (cubes, places), 1)
        lanes = np.flatnonzero(batch.active())
        np.maximum.at(phases.held, (cubes, places), batch.known[lanes])
        phases.held[cubes, places, lanes % batch.peers] = batch.launch.clock + 1
        phases.settle(batch, operation, cubes, places)

    return step


def _of_rank(batch: Batch, operation: Operation, cubes: Array, rank: Array) -> Array:
    """Return the cubes of a rank in the clusters of the active units' cubes."""
    wanted = batch.full(rank)[batch.active()].astype(np.int64)
    bad = (wanted < 0) | (wanted >= batch.crew)
    if bad.any():
        lane = int(np.flatnonzero(batch.active())[np.argmax(bad)])
        message = f"a cluster of {batch.crew} cubes has none of rank {int(wanted[np.argmax(bad)])}"
        batch.fail(operation, "bounds", lane, message)
    return np.asarray(cubes // batch.crew * batch.crew + wanted)


def wait_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step that waits for the end of a phase."""
    number = compiler.number(operation.memory)
    place, parity = compiler.slots(operation.operands)

    def step(batch: Batch) -> None:
        phases, cubes, places = barriers_of(batch, operation, number, batch.values[place])
        of_phase = batch.full(batch.values[parity])[batch.active()]
        while True:
            late = phases.phase[cubes, places] & 1 == of_phase
            if not late.any():
                break
            if batch.party is None or not batch.party.give_way():
                first = int(np.argmax(late))
                where = (int(cubes[first]), int(places[first]))
                lane = int(np.flatnonzero(batch.active())[first])
                message = (
                    f"barrier {where[1]} has {phases.arrived[where]} of {phases.wanted[where]} "
                    f"arrivals and waits for {phases.missing[where]} bytes, and none will come"
                )
                batch.fail(operation, "barrier", lane, message)
        phases.land(batch, cubes, places)
        lanes = np.flatnonzero(batch.active())
        batch.known[lanes] = np.maximum(batch.known[lanes], phases.passed[cubes, places])

    return step
