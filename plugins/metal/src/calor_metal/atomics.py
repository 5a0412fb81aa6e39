"""Atomic operations in the Metal Shading Language (6.15.2).

Requirements: 32-bit integers use the language's functions in relaxed order, the only order for
them. Floats use a compare-and-exchange loop on their bits, which also ends for NaN. 64-bit types
have no atomics.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from calor_kernel.ir.nodes import Operation
from calor_kernel.ir.types import Type
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.dialect import Dialect, Helpers
from calor_kernel.printers.elementwise import Scalars
from calor_kernel.printers.expressions import Expression

_SPACES: Final = MappingProxyType({"global": "device", "shared": "threadgroup"})
_ORDER: Final = "memory_order_relaxed"
_RELAXED: Final = Expression(_ORDER)


def atomic(
    dialect: Dialect,
    operation: Operation,
    place: Expression,
    values: Sequence[Expression],
    helpers: Helpers,
) -> Expression:
    """Return an atomic operation on an element, which returns the old value."""
    memory, dtype = operation.memory, operation.result.type.dtype
    assert memory is not None
    if memory.space not in _SPACES or dtype.itemsize != 4:
        dialect.refuse(f"atomics on {dtype} in {memory.space} memory")
    kind, space, type = operation.attributes["kind"], _SPACES[memory.space], dialect.types[dtype]
    fetched = dtype.kind != "float" or (kind == "add" and space == "device")
    if kind == "exchange" or (fetched and kind != "compare"):
        name = "atomic_exchange_explicit" if kind == "exchange" else f"atomic_fetch_{kind}_explicit"
        pointer = ex.prefix(f"({space} atomic_{type} *)", place)
        return ex.call(name, pointer, *(dialect.cast(dtype, v) for v in values), _RELAXED)
    function = f"atomic_{kind}_{dtype.name}_{memory.space}"
    swap = f"atomic_compare_exchange_weak_explicit(whole, &seen, {{}}, {_ORDER}, {_ORDER})"
    lines = [f"{space} atomic_uint *whole = ({space} atomic_uint *)place;"]
    if kind == "compare":
        names: tuple[str, ...] = ("a", "b")
        # The weak exchange may fail spuriously.
        lines.append("uint seen = as_type<uint>(a);")
        test = f"!{swap.format('as_type<uint>(b)')} && seen == as_type<uint>(a)"
    else:
        names, like = ("a",), Type(dtype)
        old = [Expression(f"as_type<{type}>(seen)"), Expression("a")]
        changed = Scalars(dialect, helpers).operation(kind, like, [like, like], old, {}).text
        lines.append(f"uint seen = atomic_load_explicit(whole, {_ORDER});")
        test = f"!{swap.format(f'as_type<uint>({changed})')}"
    lines += [f"while ({test}) {{}}", f"return as_type<{type}>(seen);"]
    declared = ", ".join(f"{type} {n}" for n in names)
    head = f"{dialect.function_prefix} {type} {function}({space} {type} *place, {declared})"
    body = "".join(f"  {line}\n" for line in lines)
    return ex.call(helpers.add(function, f"{head} {{\n{body}}}"), place, *values)
