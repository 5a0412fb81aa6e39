"""Flags float operations that compilers cannot contract, so they need no protection.

A product that is never part of a sum, and an fma used only by other fmas, need not be hidden from a
compiler that contracts products into sums.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from calor_kernel.ir.nodes import Kernel, Value

# Operations that a compiler may contract or reorder, and those that only move numbers.
_JOINED: Final = frozenset(("add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge"))
_MOVED: Final = frozenset(("select", "extract", "insert", "shuffle", "pack", "splat"))
# Operations that no compiler contracts with an operand that is a product.
_COMPARED: Final = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
_APART: Final = _COMPARED | {"mul", "div", "fma", "sqrt", "store", "bitcast", "cast"}
_CHANGE: Final = MappingProxyType({"fma": "reassoc", "mul": "contract"})


def flag_unjoined(kernel: Kernel) -> None:
    """Permit changes to a kernel's products and fmas that nothing contracts."""
    joined: set[Value] = set()
    # The uses of values that blocks yield are unknown here.
    regions = [region for o in kernel.body.walk() for region in o.regions]
    summed = {value for block in (kernel.body, *regions) for value in block.yields}
    for operation in reversed(list(kernel.body.walk())):
        name, moved = operation.name, operation.name in _MOVED
        if name in _JOINED or (moved and operation.result in joined):
            joined.update(operation.operands)
        if operation.result in summed if moved else name not in _APART:
            summed.update(operation.operands)
        used = {"fma": joined, "mul": summed}.get(name)
        if used is not None and not used.intersection(operation.results):
            flags = (*operation.attributes.get("flags", ()), _CHANGE[name])
            operation.attributes = {**operation.attributes, "flags": flags}
