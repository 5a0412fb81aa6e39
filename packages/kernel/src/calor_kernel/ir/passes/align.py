"""Alignment analysis: known divisors of indices through loops and branches.

An index that a loop advances in steps of eight is a multiple of eight in every round. An access
states its alignment, because a wide access at an unaligned address fails or is slow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd, lcm

from calor_kernel.ir import fold
from calor_kernel.ir.nodes import Block, Kernel, Operation, Value, carried_from
from calor_kernel.ir.ops import OPS


def align(kernel: Kernel) -> None:
    """Annotate the alignment of accesses in place, in a kernel without other references."""
    _Divisors().block(kernel.body)
    for operation in kernel.body.walk():
        memory = operation.memory
        if operation.name not in ("load", "store") or memory is None or not memory.align:
            continue
        index = operation.operands[0]
        value = operation.result if operation.name == "load" else operation.operands[1]
        size = memory.type.nbytes
        known = gcd(memory.align, index.divisible * size)
        wide = value.type.width > 1 and index.type.width == 1
        if wide and known > max(size, operation.attributes.get("align", 0)):
            operation.attributes = {**operation.attributes, "align": known}


@dataclass(slots=True)
class _Divisors:
    """Walks a kernel and annotates its values with divisors.

    A carried value starts with its first value's divisor, and rounds can only lower it.
    """

    assumed: dict[Value, int] = field(default_factory=dict)

    def block(self, block: Block) -> None:
        """Annotate the divisors of a block's values."""
        for operation in block.operations:
            if operation.name in ("for", "while"):
                self._loop(operation)
            elif operation.regions:
                for region in operation.regions:
                    self.block(region)
                for place, result in enumerate(operation.results):
                    self._set(result, gcd(*(r.yields[place].divisible for r in operation.regions)))
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
