"""Loads ahead of the stores and the branches before them, so that they wait for memory together.

Requirements: WGSL cannot promise that buffers do not overlap, so a compiler leaves a load behind
the stores before it, and a unit waits for the load of a branch before it begins the next one. Only
loads of memory move that the kernel does not write: if it is written in place, as other memory, a
kernel has read each element before. A load leaves its branch as a masked load, which a device must
permit that reads zeros beyond a buffer. Loads pass no barrier: what is read long before its use
takes registers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from calor.dtypes import bool_
from calor_kernel.ir.nodes import Block, Kernel, Memory, Operation, Value
from calor_kernel.ir.ops import OPS
from calor_kernel.ir.passes.rewriting import Parts, Rewriter
from calor_kernel.ir.types import Type

# Bytes that a unit reads at most ahead of the stores of a block, and of a branch.
_AHEAD: Final = 128
# Operations that are not repeated for units that do not need them.
_DEAR: Final = ("quotient", "modulo", "div", "sqrt")


def advance_loads(kernel: Kernel) -> Kernel:
    """Return the kernel with loads of branches masked, and loads ahead of stores.

    >>> from calor.dtypes import float32, int64
    >>> from calor_kernel.language import Buffer, Scalar, kernel
    >>> @kernel
    ... def copy(x, y, i, n):
    ...     if i < n:
    ...         y[i] = x[i]
    >>> given = [Buffer(float32), Buffer(float32), Scalar(int64), Scalar(int64)]
    >>> made = advance_loads(copy.build(given))  # doctest: +SKIP
    >>> [o.name for o in made.body.operations][-2:]  # doctest: +SKIP
    ['load', 'if']
    """
    made = _Unbranched(_written(kernel)).run(kernel)
    _reorder(made.body, _written(made))
    return made


def _written(kernel: Kernel) -> set[Memory]:
    """Return the memories that a kernel may write, and those that stand for others."""
    found = set[Memory]()
    for operation in kernel.body.walk():
        if operation.memory is not None and operation.name not in ("load", "prefetch"):
            found.update((operation.memory, *operation.attributes.get("memories", ())))
    return found


def _reads(operation: Operation, written: Collection[Memory]) -> bool:
    """Return whether an operation loads from global memory that the kernel does not write."""
    memory = operation.memory
    if operation.name != "load" or memory is None or memory in written:
        return False
    return memory.space == "global" and not operation.attributes.get("order")


def _cheap(operation: Operation) -> bool:
    """Return whether an operation may run in units that do not need it."""
    return OPS[operation.name].pure and operation.name not in _DEAR


def _has_zeros(load: Operation) -> bool:
    """Return whether a load has no mask, and reads zeros beyond its memory."""
    dtype = load.result.type.dtype
    plain = len(load.operands) == 1 and load.operands[0].type.width == 1
    return plain and dtype is not bool_ and dtype.itemsize <= 4


def _needed(operations: Sequence[Operation], ends: Iterable[Operation]) -> set[int]:
    """Return the operations, by identity, that others of them need, with those."""
    found = {id(one) for one in ends}
    wanted = {v for one in operations if id(one) in found for v in one.operands}
    for one in reversed(operations):
        if not wanted.isdisjoint(one.results):
            found.add(id(one))
            wanted.update(one.operands)
    return found


class _Unbranched(Rewriter):
    """Moves loads, and what their indices need, in front of branches that store what they read."""

    def __init__(self, written: Collection[Memory]) -> None:
        super().__init__()
        self.unread = written

    def operation(self, operation: Operation) -> Sequence[Parts] | None:
        """Emit the loads of a branch as masked loads before it."""
        if operation.name != "if" or operation.results or operation.regions[1].operations:
            return None
        before, then = self.parted(operation.regions[0])
        if not before:
            return None
        for one in before:
            if one.name == "load":
                self.stand(one.result, (self.masked(one, self.get(operation.operands[0])),))
            else:
                self._step(one)
        with self.inside(Block()) as region:
            for one in then:
                self._step(one)
        self.emit("if", (self.get(operation.operands[0]),), regions=(region, Block()))
        return []

    def parted(self, block: Block) -> tuple[list[Operation], list[Operation]]:
        """Return the operations of a branch that move in front of it, and the others."""
        stay, loads, nbytes = set[Value](), list[Operation](), 0
        for one in block.operations:
            moves = stay.isdisjoint(one.operands)
            if moves and _reads(one, self.unread) and _has_zeros(one) and nbytes < _AHEAD:
                loads.append(one)
                nbytes += one.result.type.nbytes
            elif not (moves and _cheap(one)):
                stay.update(one.results)
        first = _needed(block.operations, loads)
        before = [one for one in block.operations if id(one) in first]
        return before, [one for one in block.operations if id(one) not in first]

    def masked(self, load: Operation, mask: Value) -> Value:
        """Return a load that gives zeros where a mask is false."""
        type = load.result.type
        if type.width > 1:
            (mask,) = self.emit("splat", (mask,), (Type(bool_, type.width),))
        other = self.constant(0, type.dtype, type.width)
        operands = self.get(load.operands[0]), mask, other
        return self.again(load, operands, None, {**load.attributes, "masked": True})[0]


def _writes(operation: Operation) -> bool:
    """Return whether an operation only reads and writes elements, maybe in a branch."""
    if operation.name == "if" and not operation.results:
        inner = [one for region in operation.regions for one in region.walk()]
        return all(OPS[one.name].pure or _writes(one) for one in inner if one.name != "load")
    return operation.name == "store" and not operation.attributes.get("order")


def _delays(operation: Operation) -> bool:
    """Return whether loads behind an operation wait for it: a branch, or a store that may overlap.

    No buffer overlaps shared memory, which compilers know.
    """
    if operation.name == "store":
        return operation.memory is not None and operation.memory.space == "global"
    return operation.name == "if"


def _reorder(block: Block, written: Collection[Memory]) -> None:
    """Move loads in front of the stores and branches that delay them, in place."""
    done: list[Operation] = []
    part: list[Operation] = []
    for operation in block.operations:
        for region in operation.regions:
            _reorder(region, written)
        row = OPS[operation.name]
        if _writes(operation) or ((row.pure or operation.name == "load") and not row.regions):
            part.append(operation)
        else:
            done += [*_advanced(part, written), operation]
            part = []
    block.operations = done + _advanced(part, written)


def _advanced(part: Sequence[Operation], written: Collection[Memory]) -> list[Operation]:
    """Return operations in which loads are in front of what delays them."""
    first = next((i for i, one in enumerate(part) if _delays(one)), len(part))
    behind, stay, loads, nbytes = part[first:], set[Value](), list[Operation](), 0
    for one in behind:
        moves = stay.isdisjoint(one.operands)
        if moves and _reads(one, written) and nbytes < _AHEAD:
            loads.append(one)
            nbytes += one.result.type.nbytes
        elif not (moves and OPS[one.name].pure):
            stay.update(one.results)
    moved = _needed(behind, loads)
    ahead = [one for one in behind if id(one) in moved]
    return [*part[:first], *ahead, *(one for one in behind if id(one) not in moved)]
