"""Loads, stores and atomic changes in WGSL, of one element or of four words.

Requirements: what is changed atomically or in a set order anywhere is an array of atomics
everywhere, and what some access takes four words of at once is an array of vectors everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from calor.dtypes import DType, float32
from calor_kernel.ir.nodes import Block, Kernel, Memory, Operation
from calor_kernel.ir.types import Type
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.expressions import Expression

if TYPE_CHECKING:
    from .dialect import WGSL
    from .printer import WGSLPrinter

_ATOMICS: Final = {k: f"atomic{k.title()}" for k in ("add", "min", "max", "and", "or", "xor")}


def native_of(kernel: Kernel, dialect: WGSL) -> set[Memory]:
    """Return the memories of float32 that the adapter adds to itself."""
    kinds: dict[Memory, set[str]] = {}
    for operation in kernel.body.walk():
        memory = operation.memory
        if operation.name == "atomic" and memory is not None and memory.type.dtype is float32:
            kinds.setdefault(memory, set()).add(operation.attributes["kind"])
    added = (m for m, found in kinds.items() if found == {"add"} and m.space == "global")
    return set(added) if dialect.float_atomics else set()


def wide_of(kernel: Kernel) -> set[Memory]:
    """Return the memories that are arrays of four words."""
    return {
        o.memory
        for o in kernel.body.walk()
        if o.name in ("load", "store") and o.memory is not None and width_of(o) > 1
    }


def width_of(operation: Operation) -> int:
    """Return how many elements a load or store is of."""
    return (*operation.operands, *operation.results)[1].type.width


def held_in(printer: WGSLPrinter, memory: Memory) -> DType:
    """Return the dtype in which a memory holds its elements: atomics of floats are their bits."""
    dialect, dtype = printer.dialect, memory.type.dtype
    of_bits = memory in printer.atomics and memory not in printer.native and dtype.kind == "float"
    return dialect.bits(dtype) if of_bits else dialect.held(dtype)


def element_type(printer: WGSLPrinter, memory: Memory) -> str:
    """Return the type of the elements of a memory's array."""
    dialect, dtype = printer.dialect, memory.type.dtype
    one = dialect.types[held_in(printer, memory)]
    if memory not in printer.atomics:
        return f"vec4<{one}>" if memory in printer.wide else one
    if dtype.itemsize == 8 and not (dialect.atomics_64 and dialect.wide):
        dialect.refuse(f"atomics of {dtype}")
    return f"atomic<{one}>"


def _place(printer: WGSLPrinter, operation: Operation, index: Expression) -> str:
    """Return what an access is of; an element of an array of four words is one of their lanes."""
    memory = operation.memory
    assert memory is not None
    name = printer.memories[memory]
    if memory not in printer.wide or width_of(operation) > 1:
        return f"{name}[{index.text}]"
    one = index.at(ex.UNARY)
    return f"{name}[{one} >> 2u][{one} & 3u]"


def _order(printer: WGSLPrinter, operation: Operation) -> bool:
    """Return whether an access is ordered, relaxed, which is all that WGSL has."""
    order = operation.attributes.get("order")
    if order not in (None, "", "relaxed"):
        printer.dialect.refuse(f"{operation.name}s with {order} order")
    return bool(order)


def load(printer: WGSLPrinter, operation: Operation, block: Block) -> None:
    """Print a load."""
    memory, dtype = operation.memory, operation.result.type.dtype
    assert memory is not None
    ordered = _order(printer, operation)
    if not printer.uses[operation.result] and not ordered:
        return
    index = printer.operand(operation.operands[0])
    made = Expression(_place(printer, operation, index))
    if memory in printer.atomics:
        made = ex.call("atomicLoad", Expression(f"&{made.text}"))
        made = printer.scalars.bitcast(made, held_in(printer, memory), dtype)
    made = Expression(made.text, reads=memory.writable or index.reads)
    if ordered:
        printer.effect(operation, block, made, memory.name + "_")
    else:
        printer.define(operation.result, made, memory.name + "_", block)


def store(printer: WGSLPrinter, operation: Operation, block: Block) -> None:
    """Print a store."""
    memory, dtype = operation.memory, operation.operands[1].type.dtype
    _order(printer, operation)
    index, value = (printer.operand(v) for v in operation.operands)
    printer.settle()
    place = _place(printer, operation, index)
    if memory in printer.atomics:
        bits = printer.scalars.bitcast(value, dtype, held_in(printer, memory))
        printer.line(f"atomicStore(&{place}, {bits.text});")
    else:
        printer.line(f"{place} = {value.text};")


def atomic(printer: WGSLPrinter, operation: Operation, block: Block) -> None:
    """Print an atomic change of an element, relaxed, which is all that WGSL has."""
    memory, dtype = operation.memory, operation.result.type.dtype
    assert memory is not None
    _order(printer, operation)
    if dtype.itemsize < 4:
        printer.dialect.refuse(f"atomics of {dtype}")
    held, bitcast = held_in(printer, memory), printer.scalars.bitcast
    kind = operation.attributes["kind"]
    at, *values = (printer.operand(v) for v in operation.operands)
    printer.settle()
    pointer = f"&{printer.memories[memory]}[{at.text}]"
    if kind in ("exchange", "compare"):
        given = ", ".join(bitcast(v, dtype, held).text for v in values)
        if kind == "exchange":
            text = f"atomicExchange({pointer}, {given})"
        else:
            text = f"atomicCompareExchangeWeak({pointer}, {given}).old_value"
        made = bitcast(Expression(text), held, dtype)
    elif dtype.kind != "float" or memory in printer.native:
        made = Expression(f"{_ATOMICS[kind]}({pointer}, {values[0].text})")
    else:
        made = ex.call(_float_helper(printer, memory, kind), at, values[0])
    if not (operation.results and printer.uses[operation.results[0]]):
        # A call whose value nobody takes is a statement only of functions that need not be used.
        made = Expression(f"_ = {made.text}")
    printer.effect(operation, block, made, "before")


def _float_helper(printer: WGSLPrinter, memory: Memory, kind: str) -> str:
    """Return a function that exchanges an element until nobody else was there in between."""
    dtype = memory.type.dtype
    type, array = Type(dtype), printer.memories[memory]
    f, name = printer.dialect.type(type), f"fn_{array}_{kind}"
    seen = [Expression(f"bitcast<{f}>(old)"), Expression("v")]
    changed = printer.scalars.operation(kind, type, [type, type], seen, {})
    bits = printer.scalars.bitcast(changed, dtype, held_in(printer, memory)).text
    return printer.helpers.add(
        name,
        f"""fn {name}(k: u32, v: {f}) -> {f} {{
  var old = atomicLoad(&{array}[k]);
  loop {{
    let tried = atomicCompareExchangeWeak(&{array}[k], old, {bits});
    if (tried.exchanged) {{ break; }}
    old = tried.old_value;
  }}
  return bitcast<{f}>(old);
}}""",
    )
