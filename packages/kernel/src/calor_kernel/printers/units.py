"""What units do together, prints and texts of the language's own, in the C family.

Requirements: a kernel for one unit prints no barrier; whatever orders memory is an effect, over
which no load moves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calor_kernel.ir.nodes import Block, Operation
from calor_kernel.printers import expressions as ex
from calor_kernel.printers import planes
from calor_kernel.printers.expressions import Expression

if TYPE_CHECKING:
    from calor_kernel.printers.c import Printer


def barrier(printer: Printer, operation: Operation, block: Block) -> None:
    """Print a barrier, nothing where a unit would only wait for itself."""
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
    """Print an operation of a plane, at the place where all its units meet."""
    operands = [printer.operand(v) for v in operation.operands]
    if any(v.type.width > 1 for v in (*operation.operands, *operation.results)):
        printer.dialect.refuse(f"{operation.name} of vectors")
    made = planes.plane(printer, operation, operands)
    printer.effect(operation, block, made, operation.name.removeprefix("plane_"))


def printed(printer: Printer, operation: Operation, block: Block) -> None:
    """Print a print."""
    values = [(printer.operand(v), v.type) for v in operation.operands]
    printer.settle()
    printer.line(printer.dialect.printed(operation.attributes.get("text", ""), values))


def asserted(printer: Printer, operation: Operation, block: Block) -> None:
    """Print an assertion as a message of the units that break it."""
    condition = printer.operand(operation.operands[0])
    printer.settle()
    place = operation.position
    where = f" at line {place[1]}" if place is not None else ""
    said = f"broken{where}: {operation.attributes.get('text', '')}"
    with printer.braces(f"if ({ex.prefix('!', condition).text})"):
        printer.line(printer.dialect.printed(said, ()))


def inline(printer: Printer, operation: Operation, block: Block) -> None:
    """Print the text of an intrinsic in the first language of the dialect that it has."""
    intrinsic = operation.attributes["intrinsic"]
    texts = intrinsic.texts
    found = next((texts[n] for n in printer.dialect.inline_names if n in texts), None)
    if found is None:
        printer.dialect.refuse(f"text of the intrinsic {intrinsic.name}")
    operands = [printer.operand(v).at(ex.UNARY) for v in operation.operands]
    printer.effect(operation, block, Expression(found.format(*operands)), intrinsic.name)
