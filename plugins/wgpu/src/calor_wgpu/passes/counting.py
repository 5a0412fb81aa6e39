"""Indices in units of vectors, for languages with arrays of vectors.

An address remains a sum with a constant part, as in machine addressing modes, without a shift at
each access.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calor_kernel.ir.nodes import Kernel, Operation, Value
from calor_kernel.ir.passes.rewriting import Parts, Rewriter


def count_vectors(kernel: Kernel, size: Callable[[Operation], int]) -> Kernel:
    """Return the kernel with the indices of some loads and stores in units of vectors.

    ``size`` returns the elements per vector of a load or store, 1 for an unchanged one; the index
    is a multiple of that power of two.
    """
    return _Counter(size).run(kernel)


class _Counter(Rewriter):
    def __init__(self, size: Callable[[Operation], int]) -> None:
        super().__init__()
        self.size = size
        # The operation of a value, and its loop depth.
        self.makers: dict[Value, tuple[Operation, int]] = {}
        self.loops = 0

    def emit(self, *given: Any, **named: Any) -> tuple[Value, ...]:
        made = super().emit(*given, **named)
        last = self.block.operations[-1:]
        if last and last[0].results == made:
            self.makers.update((value, (last[0], self.loops)) for value in made)
        return made

    def operation(self, operation: Operation) -> Sequence[Parts] | None:
        if operation.name in ("for", "while"):
            self.loops += 1
            copied = self.copy(operation)
            self.loops -= 1
            return copied
        size = self.size(operation) if operation.name in ("load", "store") else 1
        if size == 1:
            return None
        index, *others = operation.operands
        counted = self.divided(self.get(index), size)
        return [(value,) for value in self.again(operation, [counted, *self.flat(others)])]

    def divided(self, value: Value, size: int) -> Value:
        """Return a number divided by a power of two that divides it."""
        if isinstance(value.known, int):
            return self.like(value.known // size, value)
        # A cast of an index drops only zero bits.
        maker, loops = self.makers.get(value, (None, 0))
        index = maker is not None and maker.operands[0].type.dtype.kind in ("int", "uint")
        if maker is not None and index and maker.name == "cast":
            return self.convert(self.divided(maker.operands[0], size), value.type.dtype)
        if maker is not None and maker.name == "select":
            chosen, *values = maker.operands
            operands = (chosen, *(self.divided(one, size) for one in values))
            return self.emit("select", operands, (value.type,))[0]
        if maker is not None and maker.name in ("add", "sub", "mul"):
            a, b = maker.operands
            near = isinstance(b.known, int) or loops == self.loops
            if maker.name != "mul" and near and a.divisible % size == b.divisible % size == 0:
                return self.make(maker.name, self.divided(a, size), self.divided(b, size))
            if maker.name == "mul" and isinstance(b.known, int) and b.known % size == 0:
                return self.make("mul", a, self.divided(b, size))
        return self.make("shr", value, self.like(size.bit_length() - 1, value))
