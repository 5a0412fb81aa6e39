"""Asynchronous products: computed when issued, not readable before the wait.

Requirements: hardware may finish late, so reading a result, or changing an operand in shared
memory, before the wait is an error here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from calor_interpreter.barriers import together
from calor_interpreter.copies import flight_of
from calor_interpreter.machine import WARPGROUP, Batch, Compiler, Step
from calor_interpreter.matrices import as_factor
from calor_interpreter.memory import reach
from calor_interpreter.state import State
from calor_kernel.ir.nodes import Operation
from calor_kernel.language.layouts import Swizzled
from calor_kernel.language.matrices import MatrixShape, lane_places

Array = np.ndarray[Any, Any]
Read = tuple[State, Array, Array]


class Unfinished:
    """Accumulators in flight: the values, and for each unit whether they have arrived."""

    def __init__(self, batch: Batch, operation: Operation, values: Array) -> None:
        self.batch = batch
        self.operation = operation
        self.values = values
        self.arrived = np.zeros(batch.lanes, np.bool_)

    def __len__(self) -> int:
        return len(self.values)

    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Fail, because the values are accessed too early."""
        lane = int(np.argmax(~self.arrived & self.batch.active()))
        message = "its result is looked at before wait_mma names it"
        self.batch.fail(self.operation, "pending", lane, message)

    __array__ = __array_ufunc__ = __array_function__ = __getitem__ = astype = reshape = refuse
    shape = ndim = property(refuse)


class Merged(Unfinished):
    """Accumulators that differ among units, because loops end earlier for some."""

    def __init__(self, mask: Array, new: Unfinished | Array, old: Unfinished | Array) -> None:
        first = new if isinstance(new, Unfinished) else old
        assert isinstance(first, Unfinished)
        sides = [x.values if isinstance(x, Unfinished) else first.batch.full(x) for x in (new, old)]
        self.mask, self.sides = mask, (new, old)
        super().__init__(first.batch, first.operation, np.where(mask[:, None], *sides))

    @property
    def arrived(self) -> Array:
        """Whether they have arrived, for each unit."""
        new, old = (x.arrived if isinstance(x, Unfinished) else True for x in self.sides)
        return np.where(self.mask, new, old)

    @arrived.setter
    def arrived(self, value: Array) -> None:
        """Do nothing: the merged accumulators know."""


@dataclass(slots=True)
class Product:
    """A product in flight: the shared memory that it reads, and its result."""

    operation: Operation
    lanes: Array
    reads: list[Read]
    result: Unfinished

    def finish(self, batch: Batch, done: Array) -> None:
        """Deliver the results of some units."""
        mine = done[self.lanes]
        arrived = self.lanes[mine]
        for state, places, data in self.reads if batch.launch.checks else ():
            now, before = state.data[places[arrived]], data[arrived]
            same = (now == before) | (np.isnan(now) & np.isnan(before))
            changed = ~same.all(axis=1)
            if changed.any():
                lane = int(arrived[np.argmax(changed)])
                message = "an operand in shared memory was written before the wait"
                batch.fail(self.operation, "race", lane, message, memory=state.memory.name)
        self.result.arrived[arrived] = True
        self.lanes = self.lanes[~mine]

    def part(self, chosen: Array) -> Product:
        """Return the part of some of its units."""
        return Product(self.operation, self.lanes[chosen], self.reads, self.result)


def async_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step that issues a product."""
    shape: MatrixShape = operation.attributes["shape"]
    group = min(compiler.kernel.plane * WARPGROUP, compiler.kernel.units)
    c_slot, a_slot, b_slot = compiler.slots(operation.operands)
    result, width = compiler.slot(operation.result), operation.result.type.width
    host = operation.result.type.dtype.numpy
    said = operation.attributes
    b_number = compiler.number(operation.memory)
    a_number = compiler.number(said["source"]) if "source" in said else None
    a_at, c_at = lane_places(shape, "a"), lane_places(shape, "c")

    def step(batch: Batch) -> None:
        together(batch, operation, group)
        values = batch.values
        reads: list[Read] = []
        before = values[c_slot]
        held = before.values if isinstance(before, Unfinished) else batch.full(before)
        c = np.zeros((batch.lanes // group, shape.m, shape.n), host)
        c[:, c_at[0], c_at[1]] = held.reshape(-1, group, width)
        if a_number is None:
            a = np.zeros((len(c), shape.m, shape.k), shape.a_dtype.numpy)
            a[:, a_at[0], a_at[1]] = batch.full(values[a_slot]).reshape(-1, group, a_at.shape[2])
        else:
            reads.append(_read(batch, a_number, values[a_slot], said["a"], shape.extent("a")))
            a = reads[-1][2].reshape(len(c), -1)[:, : shape.m * shape.k]
        reads.append(_read(batch, b_number, values[b_slot], said["b"], shape.extent("b")))
        b = reads[-1][2].reshape(len(c), -1)[:, : shape.k * shape.n]
        left = _factor(a, shape, 0).astype(host).reshape(-1, shape.m, shape.k)
        right = _factor(b, shape, 1).astype(host).reshape(-1, shape.k, shape.n)
        for p in range(shape.k):
            c = c + left[:, :, p, None] * right[:, None, p, :]
        made = Unfinished(batch, operation, c[:, c_at[0], c_at[1]].reshape(batch.lanes, width))
        values[result] = made
        lanes = np.flatnonzero(batch.active())
        flight = flight_of(batch, "matrix")
        flight.open.append(Product(operation, lanes, reads, made))

    def _read(batch: Batch, number: int, index: Array, at: Any, extent: tuple[int, int]) -> Read:
        """Return a memory, and a matrix in it as indices and data, broadcast over a group."""
        state, (rows, columns) = batch.states[number], extent
        plain = at.layout if isinstance(at, Swizzled) else at
        offsets = plain(*np.indices((rows, columns)).reshape(2, -1))
        each = -(-offsets.size // group)
        spread = np.resize(offsets, (group, each))
        where = batch.full(index)[:, None] + np.tile(spread, (batch.lanes // group, 1))
        if isinstance(at, Swizzled):
            where = at.swizzle(where)
        places, needed = reach(batch, operation, state, where, None)
        if batch.launch.checks and state.watch is not None:
            state.watch.read(batch, operation, state, places, needed)
        return state, places, state.data.take(places)

    return step


def _factor(values: Array, shape: MatrixShape, side: int) -> Array:
    """Return the elements of a (0) or b (1) in the instruction's order."""
    if shape.formats is not None:
        return np.ascontiguousarray(values).view(shape.formats[side].numpy)
    return as_factor(values, shape.tf32)


def result_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step that reads arrived accumulators."""
    (given,), result = compiler.slots(operation.operands), compiler.slot(operation.result)

    def step(batch: Batch) -> None:
        value = batch.values[given]
        if isinstance(value, Unfinished):
            late = ~value.arrived & batch.active()
            if late.any():
                message = "the product's group is not yet waited for"
                batch.fail(operation, "pending", int(np.argmax(late)), message)
            value = value.values
        batch.values[result] = value

    return step
