"""Loads in front of the branches that store what they read, and of other stores and branches.

Requirements: WGSL cannot promise that buffers do not overlap, so a compiler leaves a load behind
the stores before it, and a unit waits for the load of a branch before it begins the next one. A
load leaves its branch as a masked load, which a device must permit that reads zeros beyond a
buffer. Which loads move otherwise, :mod:`calor_kernel.ir.passes.early_loads` says.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from calor.dtypes import bool_
from calor_kernel.ir.nodes import Block, Kernel, Memory, Operation, Value
from calor_kernel.ir.ops import OPS
from calor_kernel.ir.passes.early_loads import (
    AHEAD,
    load_early,
    needed_by,
    reads_alone,
    written_by,
)
from calor_kernel.ir.passes.rewriting import Parts, Rewriter
from calor_kernel.ir.types import Type

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
    made = _Unbranched(written_by(kernel)).run(kernel)
    load_early(made)
    return made


def _cheap(operation: Operation) -> bool:
    """Return whether an operation may run in units that do not need it."""
    return OPS[operation.name].pure and operation.name not in _DEAR


def _has_zeros(load: Operation) -> bool:
    """Return whether a load has no mask, and reads zeros beyond its memory."""
    dtype = load.result.type.dtype
    plain = len(load.operands) == 1 and load.operands[0].type.width == 1
    return plain and dtype is not bool_ and dtype.itemsize <= 4


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
            if moves and reads_alone(one, self.unread) and _has_zeros(one) and nbytes < AHEAD:
                loads.append(one)
                nbytes += one.result.type.nbytes
            elif not (moves and _cheap(one)):
                stay.update(one.results)
        first = needed_by(block.operations, loads)
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
