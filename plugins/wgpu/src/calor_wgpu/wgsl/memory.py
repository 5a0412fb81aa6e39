"""Loads, stores and atomic changes in WGSL.

Requirements: elements of fewer than 32 bits share words of a buffer: they are read by shifts, words
are written whole where one unit writes all of one, and else by exchanges that leave the neighbours
as they are, whoever writes them; in shared and private memory each has a word of its own. What is
changed atomically or in a set order anywhere is an array of atomics everywhere. A mask is a branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from calor.dtypes import DType, bool_, float32, uint32
from calor_kernel.ir.nodes import Block, Kernel, Memory, Operation
from calor_kernel.ir.types import Type
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.expressions import Expression

if TYPE_CHECKING:
    from .dialect import WGSL
    from .printer import WGSLPrinter

_ATOMICS: Final = {k: f"atomic{k.title()}" for k in ("add", "min", "max", "and", "or", "xor")}


def is_packed(memory: Memory) -> bool:
    """Return whether elements of a memory share words."""
    return memory.space == "global" and memory.type.dtype.itemsize < 4


def of(operation: Operation) -> Memory:
    """Return the memory of an access."""
    assert operation.memory is not None
    return operation.memory


def _whole_words(operation: Operation) -> bool:
    index, value, *mask = operation.operands
    size = of(operation).type.dtype.itemsize * value.type.width
    return size == 4 and index.type.width == 1 and not mask and _aligned(operation)


def _aligned(operation: Operation) -> bool:
    align = operation.attributes.get("align", 0)
    return bool(align) and align % 4 == 0


def atomics_of(kernel: Kernel) -> set[Memory]:
    """Return the memories that are arrays of atomics."""
    found = set()
    for operation in kernel.body.walk():
        name, partial = operation.name, False
        if name in ("store", "copy_async"):
            partial = is_packed(of(operation))
            partial = partial and not (name == "store" and _whole_words(operation))
        ordered = name in ("load", "store") and operation.attributes.get("order")
        if name == "atomic" or ordered or partial:
            found.add(of(operation))
    return found


def native_of(kernel: Kernel, dialect: WGSL) -> set[Memory]:
    """Return the memories of float32 that the adapter adds to itself."""
    kinds: dict[Memory, set[str]] = {}
    for operation in kernel.body.walk():
        if operation.name == "atomic" and of(operation).type.dtype is float32:
            kinds.setdefault(of(operation), set()).add(operation.attributes["kind"])
    added = (m for m, found in kinds.items() if found == {"add"} and m.space == "global")
    return set(added) if dialect.float_atomics else set()


def wide_of(kernel: Kernel, atomics: set[Memory]) -> set[Memory]:
    """Return the memories that are arrays of four elements, which some access takes at once."""
    return {
        of(operation)
        for operation in kernel.body.walk()
        if operation.name in ("load", "store") and is_wide(operation, atomics)
    }


def is_wide(operation: Operation, atomics: set[Memory]) -> bool:
    """Return whether a load or store takes four words at once."""
    memory, align = of(operation), operation.attributes.get("align", 0)
    value = (*operation.operands, *operation.results)[1]
    plain = len(operation.operands) == (1 if operation.results else 2) and memory not in atomics
    four = value.type.width == 4 and value.type.dtype.itemsize == 4
    whole = memory.space != "private" and (memory.size or 0) % 4 == 0
    known = operation.operands[0].type.width == 1 and align > 0 and align % 16 == 0
    return plain and four and whole and known


def element_type(printer: WGSLPrinter, memory: Memory) -> str:
    """Return the type of the elements of a memory's array."""
    dialect, dtype = printer.dialect, memory.type.dtype
    if memory not in printer.atomics:
        one = "u32" if is_packed(memory) else dialect.types[dialect.held(dtype)]
        return f"vec4<{one}>" if memory in printer.wide else one
    if is_packed(memory):
        return "atomic<u32>"
    if memory in printer.native:
        return "atomic<f32>"
    if dtype.itemsize == 8 and not (dialect.atomics_64 and dialect.wide):
        dialect.refuse(f"atomics of {dtype}")
    if dtype.itemsize < 4:
        dialect.refuse(f"atomics of {dtype} in {memory.space} memory")
    return f"atomic<{dialect.types[dtype if dtype.kind != 'float' else dialect.bits(dtype)]}>"


def place(printer: WGSLPrinter, memory: Memory, index: Expression, lane: int = 0) -> Expression:
    """Return the number of an element in the array, as u32."""
    made = printer.dialect.cast(uint32, index)
    if memory.space == "global":
        made = ex.infix("+", ex.SUM, Expression(printer.offsets[memory]), made)
    return ex.infix("+", ex.SUM, made, Expression(f"{lane}u")) if lane else made


def wide_element(printer: WGSLPrinter, memory: Memory, index: Expression) -> Expression:
    """Return four words, of which the index counts those before."""
    made = printer.dialect.cast(uint32, index)
    if memory.space == "global":
        # Offsets of memories that are read so divide by four.
        offset = ex.infix(">>", ex.SHIFT, Expression(printer.offsets[memory]), Expression("2u"))
        made = ex.infix("+", ex.SUM, offset, made)
    return Expression(f"{printer.memories[memory]}[{made.text}]")


def loaded(printer: WGSLPrinter, memory: Memory, at: Expression) -> Expression:
    """Return an element as a value."""
    name, dtype = printer.memories[memory], memory.type.dtype
    if is_packed(memory):
        return ex.call(_load_helper(printer, memory), at)
    if memory in printer.wide:
        return Expression(f"{name}[{_four(at)}][{at.at(ex.UNARY)} & 3u]")
    if memory not in printer.atomics:
        return Expression(f"{name}[{at.text}]")
    found = f"atomicLoad(&{name}[{at.text}])"
    return Expression(found) if memory in printer.native else _of_bits(printer, dtype, found)


def _four(at: Expression) -> str:
    """Return the number of the four elements among which one is."""
    return f"{at.at(ex.UNARY)} >> 2u"


def _of_bits(printer: WGSLPrinter, dtype: DType, text: str) -> Expression:
    if dtype.kind != "float":
        return Expression(text)
    return Expression(f"bitcast<{printer.dialect.types[dtype]}>({text})")


def _bits_of(printer: WGSLPrinter, dtype: DType, value: Expression) -> str:
    if dtype.kind != "float":
        return value.text
    return f"bitcast<{printer.dialect.types[printer.dialect.bits(dtype)]}>({value.text})"


def stored(printer: WGSLPrinter, memory: Memory, at: Expression, value: Expression) -> str:
    """Return the statement that writes an element."""
    name, dtype = printer.memories[memory], memory.type.dtype
    if is_packed(memory):
        return f"{_store_helper(printer, memory)}({at.text}, {_word(dtype, value)});"
    if memory in printer.wide:
        return f"{name}[{_four(at)}][{at.at(ex.UNARY)} & 3u] = {value.text};"
    if memory not in printer.atomics:
        return f"{name}[{at.text}] = {value.text};"
    bits = value.text if memory in printer.native else _bits_of(printer, dtype, value)
    return f"atomicStore(&{name}[{at.text}], {bits});"


def _word(dtype: DType, value: Expression) -> str:
    """Return an element's bits as u32, with nothing above them."""
    if dtype.kind == "int":
        return f"(u32({value.text}) & {hex((1 << 8 * dtype.itemsize) - 1)}u)"
    return f"u32({value.text})" if dtype is bool_ else value.text


# What reads and writes parts of words.
def _split(dtype: DType) -> tuple[int, str, str]:
    """Return bits of an element, the word of element k and its shift there."""
    per = 4 // dtype.itemsize
    return (
        8 * dtype.itemsize,
        f"k >> {per.bit_length() - 1}u",
        f"((k & {per - 1}u) * {8 * dtype.itemsize}u)",
    )


def _read_word(printer: WGSLPrinter, memory: Memory, word: str) -> str:
    text = f"{printer.memories[memory]}[{word}]"
    return f"atomicLoad(&{text})" if memory in printer.atomics else text


def _part(dtype: DType, word: str, shift: str) -> str:
    bits = 8 * dtype.itemsize
    if dtype.kind == "int":
        return f"extractBits(bitcast<i32>({word}), {shift}, {bits}u)"
    made = f"extractBits({word}, {shift}, {bits}u)"
    return f"({made} != 0u)" if dtype is bool_ else made


def _load_helper(printer: WGSLPrinter, memory: Memory) -> str:
    dtype, dialect = memory.type.dtype, printer.dialect
    _, word, shift = _split(dtype)
    name = f"fn_{printer.memories[memory]}_load"
    part = _part(dtype, _read_word(printer, memory, word), shift)
    result = dialect.types[dialect.held(dtype)]
    return printer.helpers.add(name, f"fn {name}(k: u32) -> {result} {{\n  return {part};\n}}")


def _store_helper(printer: WGSLPrinter, memory: Memory) -> str:
    bits, word, shift = _split(memory.type.dtype)
    array, name = printer.memories[memory], f"fn_{printer.memories[memory]}_store"
    return printer.helpers.add(
        name,
        f"""fn {name}(k: u32, v: u32) {{
  let shift = {shift};
  let kept = ~({hex((1 << bits) - 1)}u << shift);
  var old = atomicLoad(&{array}[{word}]);
  loop {{
    let made = (old & kept) | (v << shift);
    let tried = atomicCompareExchangeWeak(&{array}[{word}], old, made);
    if (tried.exchanged) {{ break; }}
    old = tried.old_value;
  }}
}}""",
    )


def _load_word_helper(printer: WGSLPrinter, memory: Memory, type: Type) -> str:
    dtype = memory.type.dtype
    bits, word, _ = _split(dtype)
    vector, name = printer.dialect.type(type), f"fn_{printer.memories[memory]}_load_word"
    lanes = ", ".join(_part(dtype, "word", f"{bits * i}u") for i in range(type.width))
    body = f"  let word = {_read_word(printer, memory, word)};\n  return {vector}({lanes});\n"
    return printer.helpers.add(name, f"fn {name}(k: u32) -> {vector} {{\n{body}}}")


# Operations.
def load(printer: WGSLPrinter, operation: Operation, block: Block) -> None:
    """Print a load: one element, consecutive ones, or a gather."""
    memory, type = of(operation), operation.result.type
    ordered = operation.attributes.get("order")
    if ordered not in (None, "", "relaxed"):
        printer.dialect.refuse(f"loads with {ordered} order")
    if not printer.uses[operation.result] and not ordered:
        return
    if operation.attributes.get("masked"):
        _masked_load(printer, operation)
        return
    operands = [(printer.operand(v), v.type) for v in operation.operands]
    wide = is_wide(operation, printer.atomics)
    if type.width > 1 and not wide:
        operands = [(printer.named(e, t), t) for e, t in operands]
    index, index_type = operands[0]
    if wide:
        made = wide_element(printer, memory, index)
    elif type.width > 1 and index_type.width == 1 and is_packed(memory) and _aligned(operation):
        made = ex.call(_load_word_helper(printer, memory, type), place(printer, memory, index))
    else:
        lanes = [
            loaded(printer, memory, _lane_place(printer, memory, index, index_type, i))
            for i in range(type.width)
        ]
        made = lanes[0] if type.width == 1 else printer.dialect.vector(type, lanes)
    reads = memory.writable or index.reads
    made = Expression(made.text, made.level, reads=reads)
    if ordered:
        printer.effect(operation, block, made, memory.name + "_")
    else:
        printer.define(operation.result, made, memory.name + "_", block)


def _lane_place(
    printer: WGSLPrinter, memory: Memory, index: Expression, type: Type, lane: int
) -> Expression:
    if type.width == 1:
        return place(printer, memory, index, lane)
    return place(printer, memory, printer.dialect.lane(index, type, lane))


def _masked_load(printer: WGSLPrinter, operation: Operation) -> None:
    memory, type = of(operation), operation.result.type
    (index, index_type), *rest = [(printer.atom(v), v.type) for v in operation.operands]
    (mask, mask_type), (other, _) = rest
    name = printer.fresh(operation.result.hint or memory.name + "_")
    printer.line(printer.dialect.declare(type, name, other))
    for lane in range(type.width):
        at = _lane_place(printer, memory, index, index_type, lane)
        found = loaded(printer, memory, at)
        inside = mask if mask_type.width == 1 else printer.dialect.lane(mask, mask_type, lane)
        target = name if type.width == 1 else f"{name}.{'xyzw'[lane]}"
        printer.line(f"if ({inside.text}) {{ {target} = {found.text}; }}")
    printer.texts[operation.result] = Expression(name)


def store(printer: WGSLPrinter, operation: Operation, block: Block) -> None:
    """Print a store: one element, consecutive ones, or a scatter."""
    memory, dialect = of(operation), printer.dialect
    order = operation.attributes.get("order")
    if order not in (None, "", "relaxed"):
        dialect.refuse(f"stores with {order} order")
    value_type = operation.operands[1].type
    if value_type.width == 1:
        index, value, *mask = (printer.operand(v) for v in operation.operands)
        printer.settle()
        _guarded(printer, mask, stored(printer, memory, place(printer, memory, index), value))
        return
    operands = [(printer.atom(v), v.type) for v in operation.operands]
    printer.settle()
    if is_wide(operation, printer.atomics):
        target = wide_element(printer, memory, operands[0][0])
        printer.line(f"{target.text} = {operands[1][0].text};")
        return
    lanes = [_at_lane(printer, operands, i) for i in range(value_type.width)]
    if is_packed(memory) and _whole_words(operation):
        _store_word(printer, memory, operands[0][0], [value for _, value, *_ in lanes])
        return
    for lane, (index, value, *mask) in enumerate(lanes):
        step = lane if operands[0][1].width == 1 else 0
        at = place(printer, memory, index, step)
        _guarded(printer, mask, stored(printer, memory, at, value))


def _at_lane(
    printer: WGSLPrinter, operands: Sequence[tuple[Expression, Type]], lane: int
) -> list[Expression]:
    return [printer.dialect.lane(e, t, lane) if t.width > 1 else e for e, t in operands]


def _store_word(
    printer: WGSLPrinter, memory: Memory, index: Expression, values: Sequence[Expression]
) -> None:
    dtype = memory.type.dtype
    bits, _, _ = _split(dtype)
    parts = [_word(dtype, v) for v in values]
    word = " | ".join(f"({p} << {bits * i}u)" if i else p for i, p in enumerate(parts))
    at = f"({place(printer, memory, index).text}) >> {len(values).bit_length() - 1}u"
    target = f"{printer.memories[memory]}[{at}]"
    atomic_ = memory in printer.atomics
    printer.line(f"atomicStore(&{target}, {word});" if atomic_ else f"{target} = {word};")


def _guarded(printer: WGSLPrinter, mask: Sequence[Expression], statement: str) -> None:
    printer.line(f"if ({mask[0].text}) {{ {statement} }}" if mask else statement)


def atomic(printer: WGSLPrinter, operation: Operation, block: Block) -> None:
    """Print an atomic change of an element, relaxed, which is all that WGSL has."""
    memory, dtype = of(operation), operation.result.type.dtype
    order = operation.attributes.get("order", "relaxed")
    if order not in ("", "relaxed"):
        printer.dialect.refuse(f"atomics with {order} order")
    if dtype.itemsize < 4:
        printer.dialect.refuse(f"atomics of {dtype}")
    kind = operation.attributes["kind"]
    index, *values = (printer.operand(v) for v in operation.operands)
    at = place(printer, memory, index)
    printer.settle()
    pointer = f"&{printer.memories[memory]}[{at.text}]"
    if kind in ("exchange", "compare"):
        given = ", ".join(_bits_of(printer, dtype, v) for v in values)
        if kind == "exchange":
            text = f"atomicExchange({pointer}, {given})"
        else:
            text = f"atomicCompareExchangeWeak({pointer}, {given}).old_value"
        made = _of_bits(printer, dtype, text)
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
    bits = _bits_of(printer, dtype, changed)
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


def copy(printer: WGSLPrinter, operation: Operation, block: Block) -> None:
    """Print an asynchronous copy as one that is finished at once."""
    source: Memory = operation.attributes["source"]
    target, dtype = of(operation), of(operation).type.dtype
    to, at, *mask = (printer.atom(v) for v in operation.operands)
    printer.settle()
    for lane in range(operation.attributes["elements"]):
        found = loaded(printer, source, place(printer, source, at, lane))
        put = stored(printer, target, place(printer, target, to, lane), found)
        if not mask:
            printer.line(put)
            continue
        zero = printer.dialect.literal(0, dtype)
        none = stored(printer, target, place(printer, target, to, lane), zero)
        printer.line(f"if ({mask[0].text}) {{ {put} }} else {{ {none} }}")


def nothing(printer: WGSLPrinter, operation: Operation, block: Block) -> None:
    """Print nothing."""
    for value in operation.operands:
        printer.operand(value)
