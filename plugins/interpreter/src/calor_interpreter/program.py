"""A kernel as a list of Python functions, each running one operation for all units.

Requirements: a kernel is compiled once and run many times, so that an operation costs little beside
its NumPy call. Values live in numbered slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from calor_interpreter import (
    barriers,
    blocks,
    control,
    copies,
    effects,
    inline,
    matrices,
    mbarriers,
    memory,
    planes,
    products,
    roles,
    tile_products,
    tma,
)
from calor_interpreter.arithmetic import ARITHMETIC
from calor_interpreter.machine import Batch, Step
from calor_interpreter.state import selections
from calor_interpreter.vectors import VECTORS
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.nodes import Block, Kernel, Memory, Operation, Value
from calor_kernel.ir.ops import OPS

Array = np.ndarray[Any, Any]


class Program:
    """A kernel ready to run: ``steps``, and the slots of its parameters.

    ``values`` is a batch's initial state: constants in their slots. ``memories`` are numbered:
    parameters' first, then the kernel's own; ``written`` and ``read`` are those that the kernel
    writes and reads. ``in_order``: whether a cube may wait for an earlier one. ``named``: whether
    there are barriers by name or in memory.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        compiler = Compiler(kernel)
        self.parameters = [
            compiler.slot(p.value) if p.value is not None else compiler.number(p.memory)
            for p in kernel.parameters
        ]
        self.steps = compiler.block(kernel.body)
        self.values = compiler.values
        self.memories = list(compiler.memories)
        walked = list(kernel.body.walk())
        self.written = _touched(
            walked, "store", "atomic", "copy_async", "copy_tensor", "store_tensor", "tile_product"
        )
        self.read = _touched(walked, "load", "load_matrix", "atomic", "mma_async") | {
            op.attributes[name]
            for op in walked
            for name in ("source", "right")
            if name in op.attributes
        }
        self.read |= {op.memory for op in walked if op.attributes.get("add")}
        self.named = any(
            op.name != "barrier" or op.attributes.get("count")
            for op in walked
            if op.name in ("arrive", "barrier", "mbarrier_arrive", "copy_tensor")
        )
        self.width = max([1, *(v.type.width for op in walked for v in op.results)])
        # Memory that is selected by a number is the same in one cube, not in several.
        self.in_order = any(
            op.name == "select_memory" or (op.name == "while" and _waits(op)) for op in walked
        )


def _touched(operations: Sequence[Operation], *names: str) -> set[Memory]:
    found = {op.memory for op in operations if op.memory is not None and op.name in names}
    for op in operations:
        if op.name == "select_memory" and op.memory in found:
            found.update(op.attributes["memories"])
    return found


def _waits(loop: Operation) -> bool:
    """Return whether a loop may wait for another cube."""
    return any(
        op.name == "atomic" or (op.name == "load" and op.attributes.get("order"))
        for region in loop.regions
        for op in region.walk()
    )


class Compiler:
    """Makes the steps of a kernel's blocks."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.values: list[Any] = []
        self._slots: dict[Value, int] = {}
        of_parameters = [p.memory for p in kernel.parameters if p.memory is not None]
        self.memories: dict[Memory, int] = {}
        for one in (*of_parameters, *kernel.memories, *selections(kernel)):
            self.memories[one] = len(self.memories)

    def slot(self, value: Value) -> int:
        """Return the slot of a value."""
        found = self._slots.get(value)
        if found is None:
            found = self._slots[value] = len(self.values)
            self.values.append(None)
        return found

    def slots(self, values: Iterable[Value]) -> list[int]:
        """Return the slots of values."""
        return [self.slot(v) for v in values]

    def number(self, memory: Memory | None) -> int:
        """Return a memory's number."""
        assert memory is not None
        return self.memories[memory]

    def block(self, block: Block) -> Sequence[Step]:
        """Return the steps of a block."""
        steps: list[Step] = []
        together: list[Operation] = []
        for operation in block.operations:
            if operation.name == "role":
                together.append(operation)
                continue
            if together and not OPS[operation.name].pure:
                steps.append(roles.party_step(self, together))
                together = []
            if operation.name == "constant":
                self.values[self.slot(operation.result)] = _constant(operation)
            else:
                steps.append(self.step(operation))
        if together:
            steps.append(roles.party_step(self, together))
        return steps

    def step(self, operation: Operation) -> Step:
        """Return the step of an operation."""
        name = operation.name
        maker = MAKERS.get(name)
        if maker is not None:
            return maker(self, operation)
        if name in VECTORS:
            return self.apply(operation, VECTORS[name](operation))
        if name in ARITHMETIC:
            return self.apply(operation, ARITHMETIC[name])
        raise KernelTypeError(f"lanes cannot run the operation {name!r}")

    def apply(self, operation: Operation, function: Callable[..., Array]) -> Step:
        """Return the step of an operation that is a function of its operands."""
        result = self.slot(operation.result)
        operands = self.slots(operation.operands)
        if len(operands) == 1:
            (only,) = operands

            def unary(batch: Batch) -> None:
                values = batch.values
                values[result] = function(values[only])

            return unary
        if len(operands) == 2:
            a, b = operands

            def binary(batch: Batch) -> None:
                values = batch.values
                values[result] = function(values[a], values[b])

            return binary

        def step(batch: Batch) -> None:
            values = batch.values
            values[result] = function(*[values[s] for s in operands])

        return step


def _constant(operation: Operation) -> Array:
    type = operation.result.type
    value = operation.attributes["value"]
    made = np.array([value], type.dtype.numpy)
    return made if type.width == 1 else np.broadcast_to(made.reshape(1, -1), (1, type.width))


def _cube_position(compiler: Compiler, operation: Operation) -> Step:
    result, axis = compiler.slot(operation.result), operation.attributes["axis"]
    host = operation.result.type.dtype.numpy
    return lambda batch: _set(batch, result, batch.cube_position(axis).astype(host))


def _cube_count(compiler: Compiler, operation: Operation) -> Step:
    result, axis = compiler.slot(operation.result), operation.attributes["axis"]
    host = operation.result.type.dtype.numpy
    return lambda batch: _set(batch, result, np.array([batch.launch.cubes[axis]], host))


def _unit_position(compiler: Compiler, operation: Operation) -> Step:
    result, axis = compiler.slot(operation.result), operation.attributes["axis"]
    host = operation.result.type.dtype.numpy
    return lambda batch: _set(batch, result, batch.unit_position(axis).astype(host))


def _in_plane(compiler: Compiler, operation: Operation) -> Step:
    result, plane = compiler.slot(operation.result), compiler.kernel.plane
    host = operation.result.type.dtype.numpy
    place = np.mod if operation.name == "lane_position" else np.floor_divide

    def step(batch: Batch) -> None:
        batch.values[result] = place(batch.linear_position(), plane).astype(host)

    return step


def _set(batch: Batch, slot: int, value: Array) -> None:
    batch.values[slot] = value


def _nothing(compiler: Compiler, operation: Operation) -> Step:
    return lambda batch: None


MAKERS: dict[str, Callable[[Compiler, Operation], Step]] = {
    "cube_position": _cube_position,
    "cube_count": _cube_count,
    "unit_position": _unit_position,
    "lane_position": _in_plane,
    "plane_position": _in_plane,
    "prefetch": _nothing,
    "await_launches": _nothing,
    "select_memory": memory.select_step,
    "inline": inline.inline_step,
    "quotient": effects.division_step,
    "modulo": effects.division_step,
    "shl": effects.shift_step,
    "shr": effects.shift_step,
    "barrier": barriers.barrier_step,
    "fence": barriers.fence_step,
    "arrive": roles.arrive_step,
    "plane_shuffle": planes.shuffle_step,
    "plane_reduce": planes.reduce_step,
    "plane_scan": planes.scan_step,
    "plane_ballot": planes.ballot_step,
    "mma": matrices.mma_step,
    "copy_tensor": tma.copy_step,
    "mbarrier_init": mbarriers.init_step,
    "mbarrier_expect": mbarriers.expect_step,
    "mbarrier_arrive": mbarriers.arrive_step,
    "mbarrier_wait": mbarriers.wait_step,
    "tile_product": tile_products.product_step,
    "load_matrix": blocks.load_step,
    "store_tensor": tma.store_step,
    "mma_async": products.async_step,
    "mma_result": products.result_step,
    "copy_async": copies.copy_step,
    "commit_async": copies.commit_step,
    "wait_async": copies.wait_step,
    "print": effects.print_step,
    "assert": effects.assert_step,
    "if": control.if_step,
    "for": control.for_step,
    "while": control.while_step,
    "load": memory.load_step,
    "store": memory.store_step,
    "atomic": memory.atomic_step,
}
