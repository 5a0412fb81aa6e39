"""Guards: a launch that does nothing if a word is set."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from calor.dtypes import bool_, int64, uint32
from calor_kernel.ir.nodes import Block, Kernel, Memory, Operation, Parameter
from calor_kernel.ir.passes.early import AWAIT
from calor_kernel.ir.passes.rewriting import Rewriter
from calor_kernel.ir.types import Buffer, Type

# The parameter with the word. It is not declared as constant: where launches overlap, a compiler
# may move a load of constant memory before the wait for the launch that sets the word.
GUARD: Final = Buffer(uint32, align=4)
_NAME: Final = "guard"


def guard(kernel: Kernel) -> Kernel:
    """Return the kernel with a word as its last parameter; it runs only if the word is 0.

    All units read the same word, so the kernel's barriers stay uniform. The word is read once the
    launches before have ended; what a kernel does before it waits for them changes no memory.
    """
    return _Guarded().run(kernel)


class _Guarded(Rewriter):
    def run(self, kernel: Kernel) -> Kernel:
        self._word = Memory(_NAME, "global", Type(uint32), align=GUARD.align)
        made = super().run(kernel)
        parameter = Parameter(_NAME, GUARD, memory=self._word)
        return replace(made, parameters=(*made.parameters, parameter))

    def _visit(self, source: Block, target: Block) -> None:
        self.block = target
        operations = list(source.operations)
        early = next((i + 1 for i, one in enumerate(operations) if one.name == AWAIT), 0)
        for operation in operations[:early]:
            self._step(operation)
        first = self.constant(0, int64)
        (word,) = self.emit("load", (first,), (Type(uint32),), memory=self._word)
        (clear,) = self.emit("eq", (word, self.constant(0, uint32)), (Type(bool_),))
        regions = (self.region(Block((), operations[early:])), Block())
        self.block.operations.append(Operation("if", (clear,), (), {}, regions))
