"""Guards: a launch that does nothing if a word is set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from calor.dtypes import bool_, int64, uint32
from calor_kernel.ir.nodes import Block, Kernel, Memory, Operation, Parameter
from calor_kernel.ir.passes.rewriting import Parts, Rewriter
from calor_kernel.ir.types import Buffer, Type

# The parameter with the word. It is not declared as constant: where launches overlap, a compiler
# may move a load of constant memory before the wait for the launch that sets the word.
GUARD: Final = Buffer(uint32, align=4)
_NAME: Final = "guard"


def guard(kernel: Kernel) -> Kernel:
    """Return the kernel with a word as its last parameter; it runs only if the word is 0.

    All units read the same word, so the kernel's barriers stay uniform. It waits for the launches
    before at its first instruction, as it reads the word.
    """
    return _Guarded().run(kernel)


class _Guarded(Rewriter):
    def run(self, kernel: Kernel) -> Kernel:
        self._word = Memory(_NAME, "global", Type(uint32), align=GUARD.align)
        made = super().run(kernel)
        parameter = Parameter(_NAME, GUARD, memory=self._word)
        attributes = {name: said for name, said in made.attributes.items() if name != "awaits"}
        parameters = (*made.parameters, parameter)
        return replace(made, parameters=parameters, attributes=attributes)

    def operation(self, operation: Operation) -> Sequence[Parts] | None:
        """Drop a later wait for the launches before."""
        return [] if operation.name == "await_launches" else None

    def _visit(self, source: Block, target: Block) -> None:
        self.block = target
        first = self.constant(0, int64)
        (word,) = self.emit("load", (first,), (Type(uint32),), memory=self._word)
        (clear,) = self.emit("eq", (word, self.constant(0, uint32)), (Type(bool_),))
        regions = (self.region(source), Block())
        self.block.operations.append(Operation("if", (clear,), (), {}, regions))
