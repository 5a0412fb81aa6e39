"""Memory chosen by a number, in a language without pointers to buffers.

Requirements: the number is equal in a cube, so what follows the choice in its block is printed once
for each memory, under a condition that all units of a cube share; it may have barriers. Choices by
the same number are made together. A choice may be in a branch or a loop, as that of a launch is
which does nothing after a failure; the values of its block come out of the conditions.
"""

from __future__ import annotations

from collections.abc import Sequence

from calor_kernel.ir.nodes import Block, Kernel, Operation, Value
from calor_kernel.ir.passes.rewriting import Rewriter


def choose_memory(kernel: Kernel) -> Kernel:
    """Return the kernel with a body for each memory that a number chooses."""
    if all(operation.name != "select_memory" for operation in kernel.body.walk()):
        return kernel
    return _Bodies().run(kernel)


class _Bodies(Rewriter):
    """Copies the rest of a block for each choice. What numbers are known to be is ``chosen``."""

    def __init__(self) -> None:
        super().__init__()
        self.chosen: dict[Value, int] = {}

    def _visit(self, source: Block, target: Block) -> None:
        self.block = target
        target.yields = self._follow(source.operations, source.yields)

    def region(self, block: Block) -> Block:
        """Return a copy of a block with its choices made."""
        arguments = tuple(part for value in block.arguments for part in self.bind(value))
        with self.inside(Block(arguments)) as made:
            made.yields = self._follow(block.operations, block.yields)
        return made

    def _follow(
        self, operations: Sequence[Operation], yields: Sequence[Value]
    ) -> tuple[Value, ...]:
        """Emit the operations of a block, and return the values that it yields."""
        for place, operation in enumerate(operations):
            if operation.name != "select_memory":
                self._step(operation)
                continue
            memories, (number,) = operation.attributes["memories"], operation.operands
            if number not in self.chosen:
                return self._choose(operations[place:], yields, number, 0, len(memories))
            assert operation.memory is not None
            self._memories[operation.memory] = self.memory(memories[self.chosen[number]])
        return tuple(self.flat(yields))

    def _choose(
        self,
        operations: Sequence[Operation],
        yields: Sequence[Value],
        number: Value,
        low: int,
        high: int,
    ) -> tuple[Value, ...]:
        """Emit operations for each number from ``low`` up to ``high``, and return as above."""
        if high - low == 1:
            self.chosen[number] = low
            made = self._follow(operations, yields)
            del self.chosen[number]
            return made
        middle, regions, value = (low + high) // 2, [], self.get(number)
        for begin, end in ((low, middle), (middle, high)):
            with self.inside(Block()) as region:
                region.yields = self._choose(operations, yields, number, begin, end)
            regions.append(region)
        less = self.make("lt", value, self.like(middle, value))
        return tuple(self.emit("if", (less,), [v.type for v in yields], regions=regions))
