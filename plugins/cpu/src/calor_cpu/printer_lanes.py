"""Printing of operations on the lanes of vectors.

Requirements: lanes are reduced by halves, as on every device, so sums of floats have the same bits.
Integers use one intrinsic, because their order does not matter.
"""

from __future__ import annotations

from calor_cpu.printer_values import combine, computes, flags, letter, prints
from calor_cpu.writer import Writer, element, llvm, suffix
from calor_kernel.ir.nodes import Operation, Value
from calor_kernel.ir.types import Type


@prints("splat")
def _splat(w: Writer, operation: Operation) -> None:
    (a,) = operation.operands
    name = w.splat(element(a.type.dtype), operation.result.type.width, w.use(a))
    w.names[operation.result] = name


@prints("extract")
def _extract(w: Writer, operation: Operation) -> None:
    (a,) = operation.operands
    if a.type.width == 1:
        w.names[operation.result] = w.use(a)
        return
    w.result(operation, f"extractelement {w.typed(a)}, i64 {operation.attributes['lane']}")


@prints("insert")
def _insert(w: Writer, operation: Operation) -> None:
    a, b = operation.operands
    if a.type.width == 1:
        w.names[operation.result] = w.use(b)
        return
    lane = operation.attributes["lane"]
    w.result(operation, f"insertelement {w.typed(a)}, {w.typed(b)}, i64 {lane}")


@prints("pack")
def _pack(w: Writer, operation: Operation) -> None:
    type = operation.result.type
    if type.width == 1:
        w.names[operation.result] = w.use(operation.operands[0])
        return
    name = "poison"
    for lane, value in enumerate(operation.operands):
        name = w.let(f"insertelement {llvm(type)} {name}, {w.typed(value)}, i64 {lane}")
    w.names[operation.result] = name


@prints("shuffle")
def _shuffle(w: Writer, operation: Operation) -> None:
    a, b = operation.operands
    lanes = operation.attributes["lanes"]
    if a.type.width == 1:
        parts = [a if lane == 0 else b for lane in lanes]
        type = operation.result.type
        name = "poison" if len(parts) > 1 else w.use(parts[0])
        for lane, value in enumerate(parts if len(parts) > 1 else ()):
            name = w.let(f"insertelement {llvm(type)} {name}, {w.typed(value)}, i64 {lane}")
        w.names[operation.result] = name
    elif len(lanes) == 1:
        source = a if lanes[0] < a.type.width else b
        w.result(operation, f"extractelement {w.typed(source)}, i64 {lanes[0] % a.type.width}")
    else:
        other = "poison" if b is a and max(lanes) < a.type.width else w.use(b)
        w.names[operation.result] = w.shuffle(a.type, w.use(a), lanes, other)


@prints("vreduce")
def _reduce(w: Writer, operation: Operation) -> None:
    (a,) = operation.operands
    computes(w, operation, a.type.dtype)
    kind = operation.attributes["kind"]
    if a.type.dtype.kind != "float" and a.type.width > 1:
        # Integer reductions do not depend on the order.
        call = f"{letter(a.type.dtype)}{kind}" if kind in ("min", "max") else kind
        name = f"llvm.vector.reduce.{call}.{suffix(element(a.type.dtype), a.type.width)}"
        w.names[operation.result] = w.call(element(a.type.dtype), name, w.pair(a))
        return
    w.names[operation.result] = halves(w, kind, a, flags(operation))


def halves(w: Writer, kind: str, a: Value, said: str = "") -> str:
    """Return the combined lanes of a vector: the upper half onto the lower until one is left.

    For an odd number, the middle lane waits for the next round.
    """
    type, name = a.type, w.use(a)
    while type.width > 1:
        half, odd = divmod(type.width, 2)
        low = _lanes(w, type, name, range(half))
        high = _lanes(w, type, name, range(half + odd, type.width))
        combined = combine(w, kind, type.wide(half), low, high, said)
        if odd:
            rest = w.let(f"extractelement {llvm(type)} {name}, i64 {half}")
            lanes = [*range(half), half]
            of = llvm(type.wide(half + 1))
            grown = combined if half == 1 else w.shuffle(type.wide(half), combined, lanes)
            if half == 1:
                one = f"{element(type.dtype)} {combined}"
                grown = w.let(f"insertelement {of} poison, {one}, i64 0")
            one = f"{element(type.dtype)} {rest}"
            combined = w.let(f"insertelement {of} {grown}, {one}, i64 {half}")
        type, name = type.wide(half + odd), combined
    return name


def _lanes(w: Writer, type: Type, name: str, lanes: range) -> str:
    if len(lanes) == 1:
        return w.let(f"extractelement {llvm(type)} {name}, i64 {lanes[0]}")
    return w.shuffle(type, name, list(lanes))
