"""Which float operations compilers have nothing to join with, and may change without harm.

Requirements: a language that lets its compilers contract products into sums, or sum in another
order, has only the hiding of results against them, which costs; what is never part of a sum, and an
fma that only goes on into others, need not be hidden.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from calor_kernel.ir.nodes import Block, Kernel, Value

# What a compiler would compute otherwise than it is written, and what only moves numbers to it.
_JOINED: Final = frozenset(("add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge"))
_MOVED: Final = frozenset(("select", "extract", "insert", "shuffle", "pack", "splat"))
# What no compiler joins with a product that it is given.
_COMPARED: Final = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
_APART: Final = _COMPARED | {"mul", "div", "fma", "sqrt", "store", "bitcast", "cast"}
_CHANGE: Final = MappingProxyType({"fma": "reassoc", "mul": "contract"})


def flag_unjoined(kernel: Kernel) -> None:
    """Allow changes of the products and fmas of a kernel that nothing joins with others."""
    joined: set[Value] = set()
    summed = _handed_on(kernel.body)
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


def _handed_on(body: Block) -> set[Value]:
    """Return what blocks yield, of which it is not known here where it goes."""
    regions = [region for o in body.walk() for region in o.regions]
    return {value for block in (body, *regions) for value in block.yields}
