"""Memory chosen by a number, in a language without pointers to buffers.

Requirements: the number is equal in a cube, so what follows the choice is printed once for each
memory, under a condition that all units of a cube share; it may have barriers. Choices by the same
number are made together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from calor.errors import CompileError
from calor_kernel.ir.nodes import Block, Kernel, Operation, Value
from calor_kernel.ir.passes.rewriting import Parts, Rewriter


def choose_memory(kernel: Kernel) -> Kernel:
    """Return the kernel with a body for each memory that a number chooses.

    Raises
    ------
    CompileError
        If memory is chosen in a branch or a loop.
    """
    if all(operation.name != "select_memory" for operation in kernel.body.walk()):
        return kernel
    return _Bodies().run(kernel)


class _Bodies(Rewriter):
    def _visit(self, source: Block, target: Block) -> None:
        self.block = target
        self._follow(source.operations, {})
        target.yields = tuple(self.flat(source.yields))

    def operation(self, operation: Operation) -> Sequence[Parts] | None:
        """Copy an operation; a choice comes here only from a branch or a loop."""
        if operation.name == "select_memory":
            raise CompileError("WGSL chooses memory outside of branches and loops only")
        return None

    def _follow(self, operations: Sequence[Operation], chosen: Mapping[Value, int]) -> None:
        """Emit operations; ``chosen``: what numbers are known to be."""
        for place, operation in enumerate(operations):
            if operation.name != "select_memory":
                self._step(operation)
                continue
            memories, (number,) = operation.attributes["memories"], operation.operands
            if number not in chosen:
                self._choose(operations[place:], chosen, number, 0, len(memories))
                return
            assert operation.memory is not None
            self._memories[operation.memory] = self.memory(memories[chosen[number]])

    def _choose(
        self,
        operations: Sequence[Operation],
        chosen: Mapping[Value, int],
        number: Value,
        low: int,
        high: int,
    ) -> None:
        """Emit operations for each number from ``low`` up to ``high``."""
        if high - low == 1:
            self._follow(operations, {**chosen, number: low})
            return
        middle, regions, value = (low + high) // 2, [], self.get(number)
        for begin, end in ((low, middle), (middle, high)):
            with self.inside(Block()) as region:
                self._choose(operations, chosen, number, begin, end)
            regions.append(region)
        self.emit("if", (self.make("lt", value, self.like(middle, value)),), (), regions=regions)
