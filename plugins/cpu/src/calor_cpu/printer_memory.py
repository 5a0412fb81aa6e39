"""Printing of memory accesses: loads, stores, gathers, atomics, prefetches.

Requirements: bool is a byte in memory. Masked-off lanes are never accessed. Read-only memory is
marked so that loads can move. A cube is one unit, so memory that is not global belongs to one
thread and needs no atomic instructions.
"""

from __future__ import annotations

from math import gcd
from typing import Final

from calor.dtypes import DType
from calor_cpu.printer_casts import zero_bytes
from calor_cpu.printer_values import combine, flags, prints
from calor_cpu.writer import Writer, llvm, stored, suffix, vector
from calor_kernel.ir.nodes import Memory, Operation, Value
from calor_kernel.ir.types import Type

_ORDERS: Final = {
    "relaxed": "monotonic",
    "acquire": "acquire",
    "release": "release",
    "acq_rel": "acq_rel",
    "seq_cst": "seq_cst",
}
_OWN_ALIGN: Final = 64


def address(w: Writer, memory: Memory, index: Value) -> str:
    """Return a pointer to an element, or a vector of pointers for a vector of indices."""
    type, name = index.type, w.use(index)
    if type.dtype.kind == "uint" and type.dtype.itemsize < 8:
        wide = vector("i64", type.width)
        name, of = w.let(f"zext {llvm(type)} {name} to {wide}"), wide
    else:
        of = llvm(type)
    item = stored(memory.type.dtype)
    return w.let(f"getelementptr {item}, ptr {w.pointers[memory]}, {of} {name}", "p")


def from_memory(w: Writer, type: Type, name: str) -> str:
    """Return a loaded element as a value."""
    if type.dtype.kind != "bool":
        return name
    return w.let(f"icmp ne {vector('i8', type.width)} {name}, {zero_bytes(type.width)}")


def to_memory(w: Writer, type: Type, name: str) -> str:
    """Return a value in its form in memory."""
    if type.dtype.kind != "bool":
        return name
    return w.let(f"zext {llvm(type)} {name} to {vector('i8', type.width)}")


def _align(operation: Operation, dtype: DType) -> int:
    """Return the alignment of an access in bytes: declared, or derived from memory and index."""
    said = int(operation.attributes.get("align") or dtype.itemsize)
    memory, index = operation.memory, operation.operands[0]
    assert memory is not None
    whole = memory.align if memory.space == "global" else _OWN_ALIGN
    if not whole or index.type.width > 1:
        return said
    return max(said, gcd(whole, index.divisible * dtype.itemsize))


def _notes(w: Writer, operation: Operation) -> str:
    notes = ", !nontemporal !0" if operation.attributes.get("nontemporal") else ""
    memory = operation.memory
    if operation.name == "load" and memory is not None and not memory.writable:
        notes += ", !invariant.load !1"
    return notes


@prints("load")
def _load(w: Writer, operation: Operation) -> None:
    memory, type = operation.memory, operation.result.type
    assert memory is not None
    index, *masked = operation.operands
    place = address(w, memory, index)
    of, align = vector(stored(type.dtype), type.width), _align(operation, type.dtype)
    order = operation.attributes.get("order")
    if order:
        if type.width > 1:
            raise w.refuse(operation, "an ordered load takes one element")
        name = w.let(f"load atomic {of}, ptr {place} {_ORDERS[order]}, align {align}")
    elif index.type.width > 1:
        name = _gather(w, type, place, align, masked)
    elif masked and type.width == 1:
        name = _load_one(w, operation, of, place, align)
    elif masked:
        mask, other = masked
        given = to_memory(w, type, w.use(other))
        name = w.call(
            of,
            f"llvm.masked.load.{suffix(stored(type.dtype), type.width)}.p0",
            (f"ptr align {align}", place),
            w.pair(mask),
            (of, given),
        )
    else:
        name = w.let(f"load {of}, ptr {place}, align {align}{_notes(w, operation)}")
    w.names[operation.result] = from_memory(w, type, name)


def _gather(w: Writer, type: Type, places: str, align: int, masked: list[Value]) -> str:
    of = vector(stored(type.dtype), type.width)
    mask, given = "splat (i1 true)", "poison"
    if masked:
        mask, given = w.use(masked[0]), to_memory(w, type, w.use(masked[1]))
    return w.call(
        of,
        f"llvm.masked.gather.{suffix(stored(type.dtype), type.width)}.v{type.width}p0",
        (f"{vector('ptr', type.width)} align {align}", places),
        (vector("i1", type.width), mask),
        (of, given),
    )


def _load_one(w: Writer, operation: Operation, of: str, place: str, align: int) -> str:
    mask, other = operation.operands[1:]
    given = to_memory(w, operation.result.type, w.use(other))
    before, there, after = w.label, w.fresh("read"), w.fresh("after")
    w.choose(w.use(mask), there, after)
    w.block(there)
    name = w.let(f"load {of}, ptr {place}, align {align}{_notes(w, operation)}")
    w.jump(after)
    w.block(after)
    return w.let(f"phi {of} [ {name}, %{there} ], [ {given}, %{before} ]")


@prints("store")
def _store(w: Writer, operation: Operation) -> None:
    memory = operation.memory
    assert memory is not None
    index, value, *masked = operation.operands
    type = value.type
    place = address(w, memory, index)
    of, align = vector(stored(type.dtype), type.width), _align(operation, type.dtype)
    name = to_memory(w, type, w.use(value))
    order = operation.attributes.get("order")
    if order:
        if type.width > 1:
            raise w.refuse(operation, "an ordered store takes one element")
        w.line(f"store atomic {of} {name}, ptr {place} {_ORDERS[order]}, align {align}")
    elif index.type.width > 1:
        mask = w.use(masked[0]) if masked else "splat (i1 true)"
        w.call(
            "void",
            f"llvm.masked.scatter.{suffix(stored(type.dtype), type.width)}.v{type.width}p0",
            (of, name),
            (f"{vector('ptr', type.width)} align {align}", place),
            (vector("i1", type.width), mask),
        )
    elif masked and type.width == 1:
        there, after = w.fresh("write"), w.fresh("after")
        w.choose(w.use(masked[0]), there, after)
        w.block(there)
        w.line(f"store {of} {name}, ptr {place}, align {align}{_notes(w, operation)}")
        w.jump(after)
        w.block(after)
    elif masked and w.target.masked_access:
        _store_lanes(w, type, name, place, align, masked[0])
    elif masked:
        # Stores of selected lanes are slow, and most vectors are whole.
        width, every = type.width, f"llvm.vector.reduce.and.v{type.width}i1"
        whole, some, after = w.fresh("whole"), w.fresh("some"), w.fresh("after")
        w.choose(w.call("i1", every, (vector("i1", width), w.use(masked[0]))), whole, some)
        w.block(whole)
        w.line(f"store {of} {name}, ptr {place}, align {align}{_notes(w, operation)}")
        w.jump(after)
        w.block(some)
        _store_lanes(w, type, name, place, align, masked[0])
        w.jump(after)
        w.block(after)
    else:
        w.line(f"store {of} {name}, ptr {place}, align {align}{_notes(w, operation)}")


def _store_lanes(w: Writer, type: Type, name: str, place: str, align: int, mask: Value) -> None:
    """Write the lanes of a vector that a mask selects."""
    w.call(
        "void",
        f"llvm.masked.store.{suffix(stored(type.dtype), type.width)}.p0",
        (vector(stored(type.dtype), type.width), name),
        (f"ptr align {align}", place),
        w.pair(mask),
    )


@prints("select_memory")
def _select(w: Writer, operation: Operation) -> None:
    """Jump by the number, and join the pointers."""
    assert operation.memory is not None
    (number,), memories = operation.operands, operation.attributes["memories"]
    after, labels = w.fresh("selected"), [w.fresh("memory") for _ in memories]
    of = llvm(number.type)
    cases = " ".join(f"{of} {k}, label %{one}" for k, one in enumerate(labels[:-1]))
    w.line(f"switch {of} {w.use(number)}, label %{labels[-1]} [ {cases} ]")
    for label in labels:
        w.block(label)
        w.jump(after)
    w.block(after)
    pairs = (f"[ {w.pointers[m]}, %{one} ]" for m, one in zip(memories, labels, strict=True))
    w.pointers[operation.memory] = w.let(f"phi ptr {', '.join(pairs)}", "p")


@prints("prefetch")
def _prefetch(w: Writer, operation: Operation) -> None:
    assert operation.memory is not None
    said = operation.attributes
    w.call(
        "void",
        "llvm.prefetch.p0",
        ("ptr", address(w, operation.memory, operation.operands[0])),
        ("i32", str(int(bool(said.get("write"))))),
        ("i32", str(said.get("locality", 3))),
        ("i32", "1"),
    )


@prints("fence")
def _fence(w: Writer, operation: Operation) -> None:
    if operation.attributes.get("scope") in ("device", "cluster"):
        w.line(f"fence {_ORDERS[operation.attributes['order']].replace('monotonic', 'acquire')}")


_FLOAT_KINDS: Final = {"add": "fadd", "min": "fminimum", "max": "fmaximum"}


def _kind(kind: str, dtype: DType) -> str:
    if kind == "exchange":
        return "xchg"
    if dtype.kind == "float":
        return _FLOAT_KINDS.get(kind, "")
    if kind in ("min", "max"):
        return kind if dtype.kind == "int" else f"u{kind}"
    return kind if kind in ("add", "and", "or", "xor") else ""


@prints("atomic")
def _atomic(w: Writer, operation: Operation) -> None:
    memory, type = operation.memory, operation.result.type
    assert memory is not None
    kind = operation.attributes["kind"]
    of, align = stored(type.dtype), type.dtype.itemsize
    place = address(w, memory, operation.operands[0])
    values = [to_memory(w, type, w.use(v)) for v in operation.operands[1:]]
    order = _ORDERS[operation.attributes.get("order") or "relaxed"]
    name = _kind(kind, type.dtype)
    if kind == "compare":
        old = _compare_exchange(w, type, place, values, order)
    elif not name or (type.dtype.kind == "float" and type.dtype.itemsize == 2):
        raise w.refuse(operation, f"there is no atomic {kind} of {type}")
    elif memory.space != "global" or operation.attributes.get("scope") not in ("device", None):
        old = w.let(f"load {of}, ptr {place}, align {align}")
        new = values[0]
        if kind != "exchange":
            new = combine(w, kind, type, old, new, flags(operation))
        w.line(f"store {of} {new}, ptr {place}, align {align}")
    else:
        old = w.let(f"atomicrmw {name} ptr {place}, {of} {values[0]} {order}, align {align}")
    w.names[operation.result] = from_memory(w, type, old)


def _compare_exchange(w: Writer, type: Type, place: str, values: list[str], order: str) -> str:
    """Exchange if the bits are the expected ones; floats are compared by their bits."""
    dtype, of = type.dtype, stored(type.dtype)
    bits = f"i{dtype.itemsize * 8}"
    if dtype.kind == "float" and of != bits:
        values = [w.let(f"bitcast {of} {v} to {bits}") for v in values]
    expected, new = values
    failed = {"release": "monotonic", "acq_rel": "acquire"}.get(order, order)
    pair = w.let(f"cmpxchg ptr {place}, {bits} {expected}, {bits} {new} {order} {failed}")
    old = w.let(f"extractvalue {{ {bits}, i1 }} {pair}, 0")
    return w.let(f"bitcast {bits} {old} to {of}") if of != bits else old


def allocate(w: Writer, memory: Memory) -> None:
    """Allocate memory of a cube or a unit on the stack; a cube is one unit here."""
    dtype = memory.type.dtype
    name = f"%memory.{memory.name}"
    align = max(memory.align, _OWN_ALIGN)
    item = vector(stored(dtype), memory.type.width)
    w.pointers[memory] = name
    w.allocations.append(f"  {name} = alloca {item}, i64 {memory.size or 0}, align {align}")


def parameter(w: Writer, place: int, declared: Type | None) -> str:
    """Return a kernel's argument: a pointer, or a number."""
    slot = w.let(f"getelementptr i8, ptr %args, i64 {8 * place}", "slot")
    if declared is None:
        return w.let(f"load ptr, ptr {slot}, align 8, !invariant.load !1")
    of = stored(declared.dtype)
    name = w.let(f"load {of}, ptr {slot}, align 8, !invariant.load !1")
    return from_memory(w, declared, name)
