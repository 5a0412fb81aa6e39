"""Collective operations, prints and inline texts in the C family."""

from __future__ import annotations

from collections.abc import Callable

from calor.dtypes import int32
from calor_kernel.ir.nodes import Block, Operation
from calor_kernel.ir.types import Type
from calor_kernel.printers import expressions as ex
from calor_kernel.printers import planes
from calor_kernel.printers.expressions import Expression
from calor_kernel.printers.printer import Printer


def barrier(printer: Printer, operation: Operation, block: Block) -> None:
    """Print a barrier, or nothing if a unit would only wait for itself."""
    said = operation.attributes
    printer.settle()
    scope = said.get("scope", "cube")
    alone = printer.kernel.units == 1 or (scope == "plane" and printer.kernel.plane == 1)
    if not alone:
        printer.line(printer.dialect.barrier(scope, said.get("name", 0), said.get("count", 0)))


def fence(printer: Printer, operation: Operation, block: Block) -> None:
    """Print a fence."""
    said = operation.attributes
    printer.settle()
    text = printer.dialect.fence(said.get("scope", "device"), said.get("order", "acq_rel"))
    if text:
        printer.line(text)


def plane(printer: Printer, operation: Operation, block: Block) -> None:
    """Print an operation of a plane, at the point where all its units converge."""
    operands = [printer.operand(v) for v in operation.operands]
    if any(v.type.width > 1 for v in (*operation.operands, *operation.results)):
        printer.dialect.refuse(f"{operation.name} of vectors")
    made = planes.plane(printer, operation, operands)
    printer.effect(operation, block, made, operation.name.removeprefix("plane_"))


def role(
    printer: Printer,
    operation: Operation,
    block: Block,
    first_of_all: Callable[[], None] = lambda: None,
) -> None:
    """Print the work of some units of a cube as a branch on the unit's number.

    ``first_of_all`` prints the start of the branch.
    """
    printer.settle()
    first, count = operation.attributes["first"], operation.attributes["count"]
    x, y, z = printer.kernel.cube
    index = printer.dialect.position("unit_position", 0, int32)
    for axis, size in ((1, x), (2, x * y)):
        if (y, z)[axis - 1] > 1:
            place = printer.dialect.position("unit_position", axis, int32)
            scaled = ex.infix("*", ex.PRODUCT, place, Expression(str(size), bare=True))
            index = ex.infix("+", ex.SUM, index, scaled)
    unit = printer.named(index, Type(int32), "unit")
    below = ex.infix("<", ex.ORDER, unit, Expression(str(first + count), bare=True))
    above = ex.infix(">=", ex.ORDER, unit, Expression(str(first), bare=True))
    inside = below if first == 0 else ex.infix("&&", ex.AND, above, below)
    with printer.braces(f"if ({inside.text})"):
        first_of_all()
        printer.block(operation.regions[0])


def printed(printer: Printer, operation: Operation, block: Block) -> None:
    """Print a print: a text with ``{}`` for each value."""
    dialect = printer.dialect
    atoms = [(printer.atom(v), v.type) for v in operation.operands]
    printer.settle()
    values = []
    for atom, type in atoms:
        whole = type.width == 1
        lanes = [atom] if whole else [dialect.lane(atom, type, i) for i in range(type.width)]
        values.append([(lane, type.dtype) for lane in lanes])
    printer.line(dialect.printed(operation.attributes.get("text", ""), values))


def asserted(printer: Printer, operation: Operation, block: Block) -> None:
    """Print an assertion as a message of the failing units."""
    condition = printer.operand(operation.operands[0])
    printer.settle()
    place = operation.position
    where = f" at line {place[1]}" if place is not None else ""
    text = operation.attributes.get("text") or "the condition does not hold"
    said = text.replace("{", "{{").replace("}", "}}")
    with printer.braces(f"if ({ex.prefix('!', condition).text})"):
        printer.line(printer.dialect.printed(f"assertion{where}: {said}", ()))


def inline(printer: Printer, operation: Operation, block: Block) -> None:
    """Print an intrinsic's text in the dialect's first supported language."""
    intrinsic = operation.attributes["intrinsic"]
    text = intrinsic.text(*printer.dialect.inline_names)
    operands = [printer.atom(v) for v in operation.operands]
    exact = [
        printer.scalars.typed(v.type.dtype, o).at(ex.UNARY) if v.type.width == 1 else o.text
        for o, v in zip(operands, operation.operands, strict=True)
    ]
    printer.effect(operation, block, Expression(text.format(*exact)), intrinsic.name)
