"""Vector operations: whole if the language supports them, else lane by lane.

Reductions combine halves first, so every device rounds alike.
"""

from __future__ import annotations

from collections.abc import Sequence

from calor_kernel.ir.nodes import Operation
from calor_kernel.ir.types import UNSIGNED, Type
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.expressions import Expression
from calor_kernel.printers.printer import Printer

# Operations defined by lanes only, also for scalars, which have one lane.
OF_LANES = frozenset(("splat", "extract", "insert", "shuffle", "pack", "vreduce", "dot"))


def vector(printer: Printer, operation: Operation, wide: bool) -> Expression:
    """Return a pure operation on lanes; ``wide``: whether there are several."""
    dialect = printer.dialect
    operands = [printer.operand(v) for v in operation.operands]
    whole = dialect.vector_operation(operation, operands, printer.helpers) if wide else None
    if whole is not None:
        return ex.reading(whole, *operands)
    pairs = zip(operands, operation.operands, strict=True)
    atoms = [printer.named(e, v.type, v.hint) for e, v in pairs]
    if operation.name == "extract":
        # Of the sums of a matrix product each lane is extracted: only that one is made.
        (value,), (atom,), lane = operation.operands, atoms, operation.attributes["lane"]
        return dialect.lane(atom, value.type, lane) if value.type.width > 1 else atom
    pairs = zip(atoms, operation.operands, strict=True)
    made = _lanes(printer, operation, [_split(printer, e, v.type) for e, v in pairs])
    result = operation.result.type
    return made[0] if result.width == 1 else dialect.vector(result, made)


def _lanes(
    printer: Printer, operation: Operation, lanes: Sequence[list[Expression]]
) -> list[Expression]:
    """Return the lanes of the result."""
    name, attributes, result = operation.name, operation.attributes, operation.result.type
    types = [v.type for v in operation.operands]
    if name == "vreduce":
        return [_reduced(printer, operation, lanes[0])]
    if name == "splat":
        return lanes[0] * result.width
    if name == "pack":
        return [lane for one in lanes for lane in one]
    if name == "insert":
        place = attributes["lane"]
        return [*lanes[0][:place], lanes[1][0], *lanes[0][place + 1 :]]
    if name == "shuffle":
        both = lanes[0] + lanes[1]
        return [both[i] for i in attributes["lanes"]]
    if name == "dot":
        return _dot(printer, operation, lanes)
    if name == "bitcast" and types[0].width != result.width:
        return _regrouped(printer, lanes[0], types[0], result)
    scalars = [t.scalar for t in types]
    return [
        printer.scalars.operation(name, result.scalar, scalars, parts, attributes)
        for parts in zip(*lanes, strict=True)
    ]


def _split(printer: Printer, atom: Expression, type: Type) -> list[Expression]:
    if type.width == 1:
        return [atom]
    return [printer.dialect.lane(atom, type, i) for i in range(type.width)]


def _reduced(printer: Printer, operation: Operation, lanes: list[Expression]) -> Expression:
    said, dtype = operation.attributes, operation.operands[0].type.dtype
    kind = said["kind"]
    while len(lanes) > 1:
        half = (len(lanes) + 1) // 2
        pairs = zip(lanes[:half], lanes[half:], strict=False)
        joined = [printer.scalars.of(kind, dtype, a, b, attributes=said) for a, b in pairs]
        lanes = joined + lanes[len(joined) : half]
    return lanes[0]


def _dot(
    printer: Printer, operation: Operation, lanes: Sequence[list[Expression]]
) -> list[Expression]:
    """Return operand 2 plus, per lane, the dot product of its group of lanes."""
    scalars = printer.scalars
    a, b, totals = lanes
    source, second = operation.operands[0].type.dtype, operation.operands[1].type.dtype
    wide = operation.result.type.dtype
    group = len(a) // len(totals)
    made = []
    for i, total in enumerate(totals):
        for j in range(i * group, (i + 1) * group):
            x, y = scalars.cast(a[j], source, wide), scalars.cast(b[j], second, wide)
            total = scalars.of("add", wide, total, scalars.of("mul", wide, x, y))
        made.append(total)
    return made


def _regrouped(
    printer: Printer, lanes: list[Expression], source: Type, result: Type
) -> list[Expression]:
    """Return the same bits regrouped into other lanes, the least significant first."""
    dialect, scalars = printer.dialect, printer.scalars
    small, large = sorted((source.dtype.itemsize, result.dtype.itemsize))
    narrow, wide = UNSIGNED[small], UNSIGNED[large]
    parts = large // small
    bits = [scalars.bitcast(lane, source.dtype, UNSIGNED[source.dtype.itemsize]) for lane in lanes]
    shifts = [Expression(str(8 * small * k), bare=True) for k in range(parts)]
    made = []
    if source.dtype.itemsize == large:
        for part in bits:
            moved = [ex.infix(">>", ex.SHIFT, part, s) if s.text != "0" else part for s in shifts]
            made += [dialect.cast(narrow, m) for m in moved]
    else:
        for i in range(0, len(bits), parts):
            wider = [dialect.cast(wide, part) for part in bits[i : i + parts]]
            total = wider[0]
            for part, shift in zip(wider[1:], shifts[1:], strict=True):
                total = ex.infix("|", ex.BIT_OR, total, ex.infix("<<", ex.SHIFT, part, shift))
            made.append(total)
    unsigned = UNSIGNED[result.dtype.itemsize]
    return [scalars.bitcast(m, unsigned, result.dtype) for m in made]
