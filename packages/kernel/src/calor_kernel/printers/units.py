"""Collective operations, prints and inline texts in the C family.

A language whose only plane operations are shuffles has its collective operations composed of them.
A sum adds the halves of the plane first, as the interpreter does, so all units and all devices have
the same bits. In min and max, NaN and zeros follow the scalar rules; in hardware reductions they do
not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calor.dtypes import DType, int32, uint32, uint64
from calor_kernel.ir.nodes import Block, Operation
from calor_kernel.ir.types import Type
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.expressions import Expression
from calor_kernel.printers.printer import Printer

_VALUE = Expression("x")


def barrier(printer: Printer, operation: Operation, block: Block) -> None:
    """Print a barrier, or nothing if a unit would only wait for itself."""
    said = operation.attributes
    printer.settle(loads=True)
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
    made = _plane(printer, operation, operands)
    printer.effect(operation, block, made, operation.name.removeprefix("plane_"))


def _plane(printer: Printer, operation: Operation, operands: Sequence[Expression]) -> Expression:
    """Return a shuffle, reduction, scan or ballot of scalars."""
    dialect, dtype = printer.dialect, operation.operands[0].type.dtype
    if printer.kernel.plane == 1:
        return _alone(printer, operation, operands)
    own = dialect.plane(operation, operands, printer.kernel.plane)
    if own is not None:
        return own
    kind = operation.attributes.get("kind", "index")
    if operation.name == "plane_shuffle":
        return dialect.shuffle(kind, dtype, operands[0], operands[1])
    if operation.name == "plane_reduce":
        return ex.call(_reduction(printer, kind, dtype), operands[0])
    if operation.name == "plane_scan":
        exclusive = bool(operation.attributes.get("exclusive", False))
        # Functions of some languages cannot query the calling unit's position.
        lane = dialect.position("lane_position", 0, int32)
        return ex.call(_scan(printer, kind, dtype, exclusive), operands[0], lane)
    wide = uint64 if printer.kernel.plane > 32 else uint32
    place = dialect.position("lane_position", 0, wide)
    bit = printer.scalars.of("shl", wide, dialect.cast(wide, operands[0]), place)
    made = ex.call(_reduction(printer, "or", wide), bit)
    result = operation.result.type.dtype
    return made if result is wide else dialect.cast(result, made)


def _alone(printer: Printer, operation: Operation, operands: Sequence[Expression]) -> Expression:
    """Return the result for a plane of one unit."""
    result = operation.result.type.dtype
    if operation.name == "plane_ballot":
        return printer.dialect.cast(result, operands[0])
    if operation.name == "plane_scan" and operation.attributes.get("exclusive"):
        return printer.dialect.literal(identity(operation.attributes["kind"], result), result)
    return operands[0]


def _function(
    printer: Printer, name: str, dtype: DType, lines: Sequence[str], *more: tuple[DType, str]
) -> str:
    text = printer.dialect.function(name, dtype, [(dtype, "x"), *more], [*lines, "return x;"])
    return printer.helpers.add(name, text)


def _shuffled(printer: Printer, kind: str, dtype: DType, distance: int) -> Expression:
    return printer.dialect.shuffle(kind, dtype, _VALUE, Expression(str(distance), bare=True))


def _distances(printer: Printer) -> list[int]:
    plane = printer.kernel.plane
    return [plane >> i for i in range(1, plane.bit_length())]


def _reduction(printer: Printer, kind: str, dtype: DType) -> str:
    lines = []
    for distance in _distances(printer):
        other = _shuffled(printer, "xor", dtype, distance)
        lines.append(f"x = {printer.scalars.of(kind, dtype, _VALUE, other).text};")
    return _function(printer, f"plane_{kind}_{dtype.name}", dtype, lines)


def _scan(printer: Printer, kind: str, dtype: DType, exclusive: bool) -> str:
    # Hillis and Steele, "Data parallel algorithms", 1986.
    dialect, lane = printer.dialect, Expression("lane")

    def chosen(sign: str, place: int, then: str, otherwise: str) -> str:
        condition = ex.infix(sign, ex.ORDER, lane, Expression(str(place), bare=True))
        return dialect.choose(condition, Expression(then), Expression(otherwise)).text

    lines = [dialect.declare(Type(dtype), "y")]
    for distance in reversed(_distances(printer)):
        lines.append(f"y = {_shuffled(printer, 'up', dtype, distance).text};")
        combined = printer.scalars.of(kind, dtype, Expression("y"), _VALUE).text
        lines.append(f"x = {chosen('>=', distance, combined, 'x')};")
    if exclusive:
        neutral = dialect.literal(identity(kind, dtype), dtype).text
        lines.append(f"y = {_shuffled(printer, 'up', dtype, 1).text};")
        lines.append(f"x = {chosen('==', 0, neutral, 'y')};")
    name = f"plane_{'exclusive_' if exclusive else ''}scan_{kind}_{dtype.name}"
    return _function(printer, name, dtype, lines, (int32, "lane"))


def identity(kind: str, dtype: DType) -> Any:
    """Return the identity element of a reduction.

    >>> from calor.dtypes import float32, uint8
    >>> identity("min", float32), identity("and", uint8)
    (inf, 255)
    """
    if kind in ("add", "or", "xor"):
        return 0
    if kind == "mul":
        return 1
    if dtype.kind == "bool":
        return True
    if dtype.kind == "float":
        return np.inf if kind == "min" else -np.inf
    limits = np.iinfo(dtype.numpy)
    if kind == "and":
        return -1 if dtype.kind == "int" else int(limits.max)
    return int(limits.max if kind == "min" else limits.min)


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
