"""Barriers that order accesses of storage, of those that order shared memory alone.

Requirements: a barrier of storage in WGSL is one of the device, and on an H200 takes several times
as long as one of shared memory. Kernels that hand values over through storage have many barriers
between stages of sums in shared memory, which need none. Of two accesses with barriers between
them the first barrier orders both, so only the next barrier behind an access orders storage, and
none behind the last access.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from calor_kernel.ir.nodes import Block, Kernel, Memory, Operation

_LOOPS: Final = frozenset(("for", "while"))


def ordering_barriers(kernel: Kernel, handed: Collection[Memory]) -> set[int]:
    """Return the barriers of the cube, by identity, that order accesses of memories.

    Each is the next one behind an access or a fence, and precedes another one.

    >>> from calor.dtypes import float32
    >>> from calor_kernel.language import Buffer, barrier, kernel, shared, unit_position
    >>> @kernel
    ... def turned(x):
    ...     held, i = shared(64, x.dtype), unit_position()
    ...     held[i] = x[i]
    ...     barrier()
    ...     value = held[63 - i]
    ...     barrier()
    ...     x[i] = value
    >>> made = turned.build([Buffer(float32)], cube=(64, 1, 1))  # doctest: +SKIP
    >>> len(ordering_barriers(made, [made.parameters[0].memory]))  # doctest: +SKIP
    1
    """
    found = _Found(handed)
    found.block(kernel.body, False)
    return found.barriers & set(_before(kernel.body, handed, False))


def _is_barrier(operation: Operation) -> bool:
    return operation.name == "barrier" and operation.attributes.get("scope", "cube") == "cube"


def _touches(operation: Operation, handed: Collection[Memory]) -> bool:
    """Return whether an operation accesses one of the memories, or is a fence of its accesses."""
    memories = operation.memory, operation.attributes.get("source")
    return operation.name == "fence" or any(m in handed for m in memories if m is not None)


def _before(block: Block, handed: Collection[Memory], later: bool) -> Iterator[int]:
    """Yield the barriers of a block that precede an access; ``later``: one is behind the block."""
    for operation in reversed(block.operations):
        inner = (one for region in operation.regions for one in region.walk())
        within = any(_touches(one, handed) for one in (operation, *inner))
        for region in operation.regions:
            again = within and operation.name in _LOOPS
            yield from _before(region, handed, later or again)
        if later and _is_barrier(operation):
            yield id(operation)
        later = later or within


class _Found:
    """Follows accesses forwards to the barriers that come next."""

    def __init__(self, handed: Collection[Memory]) -> None:
        self.handed = handed
        self.barriers = set[int]()

    def block(self, block: Block, open_: bool) -> bool:
        """Return whether an access without a barrier behind it reaches the end of a block."""
        for operation in block.operations:
            open_ = self.operation(operation, open_)
        return open_

    def operation(self, operation: Operation, open_: bool) -> bool:
        """Return whether an access without a barrier behind it passes an operation."""
        if _is_barrier(operation):
            if open_:
                self.barriers.add(id(operation))
            return False
        if operation.regions:
            return self.regions(operation, open_)
        return open_ or _touches(operation, self.handed)

    def regions(self, operation: Operation, open_: bool) -> bool:
        """Return the same of an operation with regions: ways of a branch, or parts of a loop."""
        if operation.name not in _LOOPS:
            ends = [self.block(region, open_) for region in operation.regions]
            return any(ends) or (open_ and len(ends) < 2)
        # What the end of a part leaves open, any part may begin with.
        for _ in range(2):
            for region in operation.regions:
                open_ = self.block(region, open_) or open_
        return open_
