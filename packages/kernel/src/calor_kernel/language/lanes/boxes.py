"""Copies of boxes between a tensor and shared memory, of a device's copy engine.

Requirements: what lies outside of the tensor is read as zeros and never written; data does not
arrive before it is waited for, at a barrier in memory or by a group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calor_kernel.ir.nodes import Operation
from calor_kernel.language.lanes.copies import Copy, Fill, flight_of
from calor_kernel.language.lanes.machine import Batch, Compiler, Step
from calor_kernel.language.lanes.mbarriers import barriers_of
from calor_kernel.language.lanes.memory import reach
from calor_kernel.language.lanes.watch import reached

if TYPE_CHECKING:
    from calor_kernel.language.tensor_maps import Descriptor

Array = np.ndarray[Any, Any]


def copy_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step that starts copying a box to shared memory."""
    said = operation.attributes
    number, origin = compiler.number(operation.memory), compiler.number(said["source"])
    barrier_number = compiler.number(said["barrier"])
    to, barrier, *numbers = compiler.slots(operation.operands)
    offsets, cubes_each = _offsets(said["map"]), said.get("cubes", 1)

    def step(batch: Batch) -> None:
        values, source, target = batch.values, batch.states[origin], batch.states[number]
        index, exists = _elements(batch, said["map"].box, numbers)
        to_index = batch.full(values[to])[:, None] + offsets
        froms, read = reach(batch, operation, source, index, exists)
        tos, needed = reach(batch, operation, target, to_index, None)
        if source.watch is not None:
            source.watch.read(batch, operation, source, froms, read)
        phases, own, places = barriers_of(batch, operation, barrier_number, values[barrier])
        for member in range(cubes_each):
            # The same place of each cube of the cluster, or of one's own.
            cubes = own // cubes_each * cubes_each + member
            away = np.zeros((batch.lanes, 1), np.int64)
            away[batch.active(), 0] = (cubes - own) * (target.memory.size or 0)
            there = tos + away
            if target.watch is not None:
                target.watch.write(batch, operation, target, there, needed, starts=True)
            for lane, where in zip(
                np.flatnonzero(batch.active()).tolist(),
                zip(cubes.tolist(), places.tolist(), strict=True),
                strict=True,
            ):
                here, now = exists[lane], int(phases.phase[where])
                starts, ends, empty = froms[lane][here], there[lane][here], there[lane][~here]
                who, data = np.full(len(starts), lane), source.data[starts]
                landing = phases.landing.setdefault(where, [])
                landing.append((now, Copy(operation, source, target, starts, ends, who, data)))
                landing.append((now, Fill(operation, target, empty, np.full(len(empty), lane))))
                phases.missing[where] -= offsets.size * target.data.itemsize
            phases.settle(batch, operation, cubes, places)

    return step


def store_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step that starts copying a box from shared memory."""
    said = operation.attributes
    number, origin = compiler.number(operation.memory), compiler.number(said["source"])
    start, *numbers = compiler.slots(operation.operands)
    offsets = _offsets(said["map"])

    def step(batch: Batch) -> None:
        values, source, target = batch.values, batch.states[origin], batch.states[number]
        index, exists = _elements(batch, said["map"].box, numbers)
        from_index = batch.full(values[start])[:, None] + offsets
        froms, read = reach(batch, operation, source, from_index, exists)
        tos, needed = reach(batch, operation, target, index, exists)
        if source.watch is not None:
            source.watch.read(batch, operation, source, froms, read)
        if target.watch is not None:
            target.watch.write(batch, operation, target, tos, needed, starts=True)
        starts, lanes = reached(batch, froms, read)
        ends, _ = reached(batch, tos, needed)
        made = Copy(operation, source, target, starts, ends, lanes, source.data[starts])
        flight_of(batch, said["group"]).open.append(made)

    return step


def _offsets(made: Descriptor) -> Array:
    """Return where a box's elements lie in shared memory."""
    return np.asarray(made.at(*np.indices(made.box).reshape(len(made.box), -1)))


def _elements(batch: Batch, box: tuple[int, ...], numbers: list[int]) -> tuple[Array, Array]:
    """Return the indices of a box's elements in a tensor, and which of them exist."""
    rank, inside = len(box), np.indices(box).reshape(len(box), -1)
    given = [batch.full(batch.values[n]).astype(np.int64)[:, None] for n in numbers]
    exists = np.ones((batch.lanes, inside.shape[1]), np.bool_)
    index = np.zeros((batch.lanes, inside.shape[1]), np.int64)
    axes = (given[:rank], given[rank : 2 * rank], given[2 * rank :], inside)
    for start, size, stride, along in zip(*axes, strict=True):
        place = start + along
        exists &= (place >= 0) & (place < size)
        index += place * stride
    return index, exists
