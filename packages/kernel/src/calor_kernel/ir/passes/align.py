"""What indices are known to divide by, through loops and branches, and how wide accesses may be.

Requirements: an index that a loop moves along by steps of eight is a multiple of eight in every
round, however the loop is written; what was assumed of a value stays true; an access says its
alignment, because a wide one on an address that does not have it fails or is slow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd, lcm

from calor_kernel.ir import fold
from calor_kernel.ir.nodes import Block, Kernel, Operation, Value
from calor_kernel.ir.ops import OPS
from calor_kernel.ir.passes.dead import carried_from
from calor_kernel.ir.passes.rewriting import clone


def align_accesses(kernel: Kernel) -> Kernel:
    """Return the kernel with what is known of indices' divisors said at the accesses."""
    made = clone(kernel)
    align(made)
    return made


def align(kernel: Kernel) -> None:
    """Say the alignment of accesses in a kernel that nobody else holds."""
    _Divisors().block(kernel.body)
    for operation in kernel.body.walk():
        if operation.name in ("load", "store"):
            _access(operation)


def _access(operation: Operation) -> None:
    memory, index = operation.memory, operation.operands[0]
    value = operation.result if operation.name == "load" else operation.operands[1]
    if memory is None or not memory.align or value.type.width == 1 or index.type.width > 1:
        return
    size = memory.type.nbytes
    known = gcd(memory.align, index.divisible * size)
    if known > max(size, operation.attributes.get("align", 0)):
        operation.attributes = {**operation.attributes, "align": known}


@dataclass(slots=True)
class _Divisors:
    """Walks a kernel and notes on its values what they divide by.

    A value that a loop carries starts with its first value's divisor, which rounds only lower.
    """

    assumed: dict[Value, int] = field(default_factory=dict)

    def block(self, block: Block) -> None:
        """Note the divisors of a block's values."""
        for operation in block.operations:
            if operation.name in ("for", "while"):
                self._loop(operation)
            elif operation.name == "if":
                for region in operation.regions:
                    self.block(region)
                for place, result in enumerate(operation.results):
                    self._set(result, gcd(*(r.yields[place].divisible for r in operation.regions)))
            elif operation.regions:
                for region in operation.regions:
                    self.block(region)
            elif OPS[operation.name].pure and operation.operands:
                result = operation.result
                self._set(result, fold.divisor(operation.name, operation.operands, result.type))

    def _set(self, value: Value, divisor: int) -> None:
        if value.type.width > 1 or value.type.dtype.kind not in ("int", "uint"):
            return
        assumed = self.assumed.setdefault(value, value.divisible)
        value.divisible = lcm(assumed, divisor)

    def _loop(self, loop: Operation) -> None:
        first, lead = carried_from(loop), int(loop.name == "for")
        starts = [v.divisible for v in loop.operands[first:]]
        arguments = [region.arguments[lead:] for region in loop.regions]
        if lead:
            start, _, step = loop.operands[:3]
            self._set(loop.regions[0].arguments[0], gcd(start.divisible, step.divisible))
        now = starts
        while True:
            for group in arguments:
                for argument, divisor in zip(group, now, strict=True):
                    self._set(argument, divisor)
            for region in loop.regions:
                self.block(region)
            yields = loop.regions[-1].yields
            after = [gcd(a, y.divisible) for a, y in zip(now, yields, strict=True)]
            if after == now:
                break
            now = after
        for result, divisor in zip(loop.results, now, strict=True):
            self._set(result, divisor)
