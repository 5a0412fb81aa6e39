"""Loads, stores, atomics and copies in the C family.

A mask guards each lane's access, because masked-off elements may be out of bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from calor_kernel.ir.nodes import Block, Memory, Operation
from calor_kernel.ir.types import Type
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.expressions import Expression
from calor_kernel.printers.printer import Printer, memory_of


def moved(index: Expression, lane: int) -> Expression:
    """Return the index of a lane of consecutive elements."""
    return ex.infix("+", ex.SUM, index, Expression(str(lane), bare=True)) if lane else index


def load(printer: Printer, operation: Operation, block: Block) -> None:
    """Print a load: one element, consecutive ones, or a gather."""
    memory, type = memory_of(operation), operation.result.type
    if operation.attributes.get("order"):
        ordered_load(printer, operation, block)
        return
    if not printer.uses[operation.result]:
        return
    index_type = operation.operands[0].type
    masked = operation.attributes.get("masked", False)
    if type.width > 1 and index_type.width == 1 and not masked:
        index = printer.operand(operation.operands[0])
        made = printer.dialect.vector_load(
            printer.memories[memory], memory, index, type, _aligned(operation, type)
        )
        made = ex.reading(replace(made, reads=memory.writable, loads=True), index)
    else:
        lanes = []
        for place, rest in _pieces(printer, operation, type.width):
            found = printer.elements.value(memory, place)
            if masked:
                found = printer.dialect.choose_as(type.dtype, rest[0], found, rest[1])
            lanes.append(found)
        made = lanes[0] if type.width == 1 else printer.dialect.vector(type, lanes)
        made = ex.reading(made, *lanes)
    printer.define(operation.result, made, memory.name + "_", block)


def _aligned(operation: Operation, type: Type) -> bool:
    align = operation.attributes.get("align", 0)
    return bool(align) and align % type.nbytes == 0


def _pieces(
    printer: Printer, operation: Operation, width: int
) -> Iterator[tuple[Expression, list[Expression]]]:
    """Yield each lane's element in its stored form, and its other operands."""
    memory, values = memory_of(operation), operation.operands
    if width == 1:
        index, *rest = (printer.operand(v) for v in values)
        yield printer.elements.place(memory, index), rest
        return
    atoms = [(printer.atom(v), v.type) for v in values]
    for lane in range(width):
        index, *rest = (printer.dialect.lane(e, t, lane) if t.width > 1 else e for e, t in atoms)
        index = moved(index, lane) if values[0].type.width == 1 else index
        yield printer.elements.place(memory, index), rest


def select(printer: Printer, operation: Operation, block: Block) -> None:
    """Print a pointer to the memory with a number."""
    made, memories = memory_of(operation), operation.attributes["memories"]
    # A pointer to memory of which some is written takes the rest without its const.
    plain = f"({printer.dialect.pointer(made, '').strip()})"
    names = [
        f"{plain if made.writable and not m.writable else ''}{printer.memories[m]}"
        for m in memories
    ]
    number = printer.operand(operation.operands[0])
    name = printer.memories[made] = printer.fresh(made.name)
    printer.line(f"{printer.dialect.pointer(made, name)};")
    with printer.braces(f"switch ({number.text})"):
        for place, one in enumerate(names[:-1]):
            printer.line(f"case {place}: {name} = {one}; break;")
        printer.line(f"default: {name} = {names[-1]};")


def ordered_load(printer: Printer, operation: Operation, block: Block) -> None:
    """Print a load ordered with other units' stores."""
    memory, dialect = memory_of(operation), printer.dialect
    if operation.result.type.width > 1 or operation.attributes.get("masked"):
        dialect.refuse("ordered loads of vectors or with masks")
    place = printer.elements.place(memory, printer.operand(operation.operands[0]))
    made = printer.elements.value(memory, dialect.ordered(memory, place))
    printer.effect(operation, block, made, memory.name + "_")
    if operation.attributes["order"] != "relaxed":
        printer.line(dialect.fence(operation.attributes.get("scope") or "device", "acquire"))


def store(printer: Printer, operation: Operation, block: Block) -> None:
    """Print a store: one element, consecutive ones, or a scatter."""
    memory, dialect = memory_of(operation), printer.dialect
    index_value, value_value, *mask_value = operation.operands
    type = value_value.type
    order = operation.attributes.get("order")
    if type.width > 1 and index_value.type.width == 1 and not mask_value and not order:
        index, value = printer.operand(index_value), printer.operand(value_value)
        printer.settle()
        aligned = _aligned(operation, type)
        name = printer.memories[memory]
        printer.line(dialect.vector_store(name, memory, index, value, type, aligned))
        return
    if order and type.width > 1:
        dialect.refuse("ordered stores of vectors")
    pieces = list(_pieces(printer, operation, type.width))
    printer.settle()
    if order and order != "relaxed":
        printer.line(dialect.fence(operation.attributes.get("scope") or "device", order))
    for place, (value, *mask) in pieces:
        place = dialect.ordered(memory, place) if order else place
        statement = printer.elements.written(memory, place, value)
        printer.line(f"if ({mask[0].text}) {{ {statement} }}" if mask else statement)


def atomic(printer: Printer, operation: Operation, block: Block) -> None:
    """Print an atomic update of an element."""
    dialect = printer.dialect
    index, *values = (printer.operand(v) for v in operation.operands)
    order = operation.attributes.get("order", "relaxed")
    scope = operation.attributes.get("scope", "device")
    printer.settle()
    if order in ("release", "acq_rel", "seq_cst"):
        printer.line(dialect.fence(scope, "release"))
    made = printer.elements.changed(operation, index, values)
    printer.effect(operation, block, made, "before")
    if order in ("acquire", "acq_rel", "seq_cst"):
        printer.line(dialect.fence(scope, "acquire"))


def prefetch(printer: Printer, operation: Operation, block: Block) -> None:
    """Print a prefetch, or nothing if the language has none."""
    index = printer.operand(operation.operands[0])
    place = ex.prefix("&", printer.elements.place(memory_of(operation), index))
    text = printer.dialect.prefetch(memory_of(operation), place)
    if text:
        printer.line(text)


def copy(printer: Printer, operation: Operation, block: Block) -> None:
    """Print an asynchronous copy as a synchronous one."""
    source: Memory = operation.attributes["source"]
    target, dialect = memory_of(operation), printer.dialect
    dtype, count = target.type.dtype, operation.attributes["elements"]
    to, of, *mask = (printer.atom(v) for v in operation.operands)
    printer.settle()
    type = Type(dtype, count)
    zero = dialect.literal(0, dtype)
    if count > 1 and count in dialect.widths(dtype) and not mask:
        value = dialect.vector_load(printer.memories[source], source, of, type, False)
        printer.line(dialect.vector_store(printer.memories[target], target, to, value, type, False))
        return
    for lane in range(count):
        value = printer.elements.place(source, moved(of, lane))
        if mask:
            value = dialect.choose(mask[0], value, zero)
        place = printer.elements.place(target, moved(to, lane))
        printer.line(f"{place.text} = {value.text};")


def nothing(printer: Printer, operation: Operation, block: Block) -> None:
    """Print nothing: copies are finished already."""
