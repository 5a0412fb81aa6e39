"""Plane operations composed of shuffles, for languages without others.

Sums add halves first, as on lanes, so all units and all devices have the same bits. NaN and zeros
in min and max follow the scalar rules, unlike in hardware reductions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calor.dtypes import DType, int32, uint32, uint64
from calor_kernel.ir.nodes import Operation
from calor_kernel.ir.types import Type
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.expressions import Expression
from calor_kernel.printers.printer import Printer

_VALUE = Expression("x")


def plane(printer: Printer, operation: Operation, operands: Sequence[Expression]) -> Expression:
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
