"""Substitution of values in blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from calor_kernel.ir.nodes import Block, Value


def substitute(blocks: Iterable[Block], replaced: Mapping[Value, Value]) -> None:
    """Replace values in operands and yields, also in regions; chains are followed."""
    if not replaced:
        return

    def now(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(map(last, values))

    def last(value: Value) -> Value:
        while value in replaced:
            value = replaced[value]
        return value

    for block in blocks:
        block.yields = now(block.yields)
        for operation in block.walk():
            operation.operands = now(operation.operands)
            for region in operation.regions:
                region.yields = now(region.yields)
