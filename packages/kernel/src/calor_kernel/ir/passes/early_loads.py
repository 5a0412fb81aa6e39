"""Loads ahead of the stores and the branches before them, so that they wait for memory together.

Requirements: a compiler that is not told, or does not believe, that buffers do not overlap leaves a
load behind the stores before it. Only loads of memory move that the kernel does not write: if it is
written in place, as other memory, a kernel has read each element before. Loads pass no barrier:
what is read long before its use takes registers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from calor_kernel.ir.nodes import Block, Kernel, Memory, Operation, Value
from calor_kernel.ir.ops import OPS

# Bytes that a unit reads at most ahead of the stores of a block.
AHEAD: Final = 128


def load_early(kernel: Kernel) -> None:
    """Move loads in front of the stores and branches that delay them, in place.

    >>> from calor.dtypes import float32, int64
    >>> from calor_kernel.language import Buffer, Scalar, kernel
    >>> @kernel
    ... def copy(x, y, i):
    ...     y[i] = x[i]
    ...     y[i + 1] = x[i + 1]
    >>> made = copy.build([Buffer(float32), Buffer(float32), Scalar(int64)])  # doctest: +SKIP
    >>> load_early(made)  # doctest: +SKIP
    >>> [o.name for o in made.body.operations if o.memory]  # doctest: +SKIP
    ['load', 'load', 'store', 'store']
    """
    _reorder(kernel.body, written_by(kernel))


def written_by(kernel: Kernel) -> set[Memory]:
    """Return the memories that a kernel may write, and those that stand for others."""
    found = set[Memory]()
    for operation in kernel.body.walk():
        if operation.memory is not None and operation.name not in ("load", "prefetch"):
            found.update((operation.memory, *operation.attributes.get("memories", ())))
    return found


def reads_alone(operation: Operation, written: Collection[Memory]) -> bool:
    """Return whether an operation loads from global memory that the kernel does not write."""
    memory = operation.memory
    if operation.name != "load" or memory is None or memory in written:
        return False
    return memory.space == "global" and not operation.attributes.get("order")


def needed_by(operations: Sequence[Operation], ends: Iterable[Operation]) -> set[int]:
    """Return the operations, by identity, that others of them need, with those."""
    found = {id(one) for one in ends}
    wanted = {v for one in operations if id(one) in found for v in one.operands}
    for one in reversed(operations):
        if not wanted.isdisjoint(one.results):
            found.add(id(one))
            wanted.update(one.operands)
    return found


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
        if moves and reads_alone(one, written) and nbytes < AHEAD:
            loads.append(one)
            nbytes += one.result.type.nbytes
        elif not (moves and OPS[one.name].pure):
            stay.update(one.results)
    moved = needed_by(behind, loads)
    ahead = [one for one in behind if id(one) in moved]
    return [*part[:first], *ahead, *(one for one in behind if id(one) not in moved)]
