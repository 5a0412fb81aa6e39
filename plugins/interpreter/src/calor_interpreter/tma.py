"""Box copies between a tensor and shared memory by the copy engine.

Requirements: elements outside the tensor are read as zeros and never written. Data does not arrive
before the wait, at a barrier in memory or by a group. One unit of a cube copies a box, so indices
are computed only for the active units. A box begins at a multiple of 16 bytes along its dense axis;
for other positions compute capability 9.0 stops the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calor_interpreter.access import Access
from calor_interpreter.copies import Copy, Fill, flight_of
from calor_interpreter.machine import Batch, Compiler, Step
from calor_interpreter.mbarriers import barriers_of
from calor_interpreter.memory import reach_each
from calor_interpreter.state import State
from calor_kernel.ir.nodes import Operation

if TYPE_CHECKING:
    from calor_kernel.language.tensor_maps import Descriptor

Array = np.ndarray[Any, Any]
# Bytes that divide a box's position along its dense axis.
_PIECE = 16


def copy_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step that starts copying a box to shared memory."""
    said = operation.attributes
    number, origin = compiler.number(operation.memory), compiler.number(said["source"])
    barrier_number = compiler.number(said["barrier"])
    to, barrier, *numbers = compiler.slots(operation.operands)
    offsets, inside = _offsets(said["map"]), _inside(said["map"])
    cubes_each = said.get("cubes", 1)

    def step(batch: Batch) -> None:
        values, source, target = batch.values, batch.states[origin], batch.states[number]
        lanes = np.flatnonzero(batch.active())
        index, exists = _elements(batch, operation, source, lanes, inside, numbers)
        readers, writers = _each(lanes, exists), np.repeat(lanes, offsets.size)
        to_index = batch.full(values[to])[lanes, None] + offsets
        froms = reach_each(batch, operation, source, index[exists], readers)
        tos = reach_each(batch, operation, target, to_index.reshape(-1), writers)
        if source.watch is not None:
            source.watch.read_each(Access(batch, operation, source, froms, readers))
        phases, own, places = barriers_of(batch, operation, barrier_number, values[barrier])
        per_lane = np.split(froms, np.cumsum(exists.sum(axis=1))[:-1])
        for member in range(cubes_each):
            # The same address in each cube of the cluster, or in the own cube.
            cubes = own // cubes_each * cubes_each + member
            away = (cubes - own) * (target.memory.size or 0)
            there = tos + np.repeat(away, offsets.size)
            if target.watch is not None:
                target.watch.write_each(
                    Access(batch, operation, target, there, writers), starts=True
                )
            rows = zip(
                lanes.tolist(),
                zip(cubes.tolist(), places.tolist(), strict=True),
                per_lane,
                there.reshape(exists.shape),
                exists,
                strict=True,
            )
            for lane, where, starts, box, here in rows:
                now, ends, empty = int(phases.phase[where]), box[here], box[~here]
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
    offsets, inside = _offsets(said["map"]), _inside(said["map"])

    def step(batch: Batch) -> None:
        values, source, target = batch.values, batch.states[origin], batch.states[number]
        lanes = np.flatnonzero(batch.active())
        index, exists = _elements(batch, operation, target, lanes, inside, numbers)
        each = _each(lanes, exists)
        from_index = batch.full(values[start])[lanes, None] + offsets
        starts = reach_each(batch, operation, source, from_index[exists], each)
        ends = reach_each(batch, operation, target, index[exists], each)
        if source.watch is not None:
            source.watch.read_each(Access(batch, operation, source, starts, each))
        if target.watch is not None:
            target.watch.write_each(Access(batch, operation, target, ends, each), starts=True)
        made = Copy(operation, source, target, starts, ends, each, source.data[starts])
        flight_of(batch, said["group"]).open.append(made)

    return step


def _offsets(made: Descriptor) -> Array:
    """Return the offsets of a box's elements in shared memory."""
    return np.asarray(made.at(*np.indices(made.box).reshape(len(made.box), -1)))


def _inside(made: Descriptor) -> Array:
    """Return the coordinates of a box's elements in the box, by axis."""
    return np.indices(made.box).reshape(len(made.box), -1)


def _each(lanes: Array, exists: Array) -> Array:
    """Return the unit of each existing element."""
    return np.repeat(lanes, exists.sum(axis=1))


def _elements(
    batch: Batch,
    operation: Operation,
    tensor: State,
    lanes: Array,
    inside: Array,
    numbers: list[int],
) -> tuple[Array, Array]:
    """Return the indices of boxes' elements in a tensor, a row per unit, and which exist."""
    rank, shape = len(inside), (len(lanes), inside.shape[1])
    given = [batch.full(batch.values[n])[lanes, None].astype(np.int64) for n in numbers]
    bad = given[rank - 1] * tensor.memory.type.nbytes % _PIECE != 0
    if batch.launch.checks and bad.any():
        first = int(np.argmax(bad))
        message = (
            f"the box begins at {given[rank - 1][first, 0]} along its dense axis, which is no "
            f"multiple of {_PIECE} bytes"
        )
        batch.fail(operation, "align", int(lanes[first]), message)
    exists, index = np.ones(shape, np.bool_), np.zeros(shape, np.int64)
    axes = (given[:rank], given[rank : 2 * rank], given[2 * rank :], inside)
    for start, size, stride, along in zip(*axes, strict=True):
        place = start + along
        exists &= (place >= 0) & (place < size)
        index += place * stride
    return index, exists
