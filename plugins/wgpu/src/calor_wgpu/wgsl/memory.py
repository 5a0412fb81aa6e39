"""Accesses to memory elements in WGSL, single or as four words, and atomics.

Requirements: memory with any atomic or ordered access is an array of atomics for all accesses.
Memory with any access of four words is an array of vectors for all accesses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calor.dtypes import DType, float32
from calor_kernel.ir.nodes import Memory, Operation
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.expressions import Expression
from calor_kernel.printers.printer import Elements, Printer, memory_of
from calor_wgpu.passes import atomics_of

from .dialect import WGSL
from .scalars import WGSLScalars

_ATOMICS: Final = {
    **{kind: f"atomic{kind.title()}" for kind in ("add", "min", "max", "and", "or", "xor")},
    "exchange": "atomicExchange",
    "compare": "atomicCompareExchangeWeak",
}


def width_of(operation: Operation) -> int:
    """Return the number of elements of a load or store."""
    return (*operation.operands, *operation.results)[1].type.width


class WGSLElements(Elements):
    """Reads and writes of the elements of a kernel's memories."""

    def __init__(self, printer: Printer, dialect: WGSL, scalars: WGSLScalars) -> None:
        super().__init__(printer)
        self.dialect = dialect
        self.scalars = scalars
        self.atomics = atomics_of(printer.kernel)
        operations = list(printer.kernel.body.walk())
        changes = {(memory_of(o), o.attributes["kind"]) for o in operations if o.name == "atomic"}
        added = {m for m, _ in changes} - {m for m, kind in changes if kind != "add"}
        if not dialect.float_atomics:
            added.clear()
        # Float memories with native atomic add, and memories that are arrays of four words.
        self.native = {m for m in added if m.type.dtype is float32 and m.space == "global"}
        moved = (o for o in operations if o.name in ("load", "store"))
        self.wide = {memory_of(o) for o in moved if width_of(o) > 1}

    def held(self, memory: Memory) -> DType:
        """Return the dtype of a memory's elements: atomic floats are held as bits."""
        dialect, dtype = self.dialect, memory.type.dtype
        of_bits = memory in self.atomics and memory not in self.native and dtype.kind == "float"
        return dialect.bits(dtype) if of_bits else dialect.held(dtype)

    def type(self, memory: Memory) -> str:
        """Return the type of the elements of a memory's array."""
        dialect, dtype = self.dialect, memory.type.dtype
        one = dialect.types[self.held(memory)]
        if memory not in self.atomics:
            return f"vec4<{one}>" if memory in self.wide else one
        if dtype.itemsize == 8 and not (dialect.atomics_64 and dialect.wide):
            dialect.refuse(f"atomics of {dtype}")
        return f"atomic<{one}>"

    def place(self, memory: Memory, index: Expression) -> Expression:
        """Return the expression of an element; in an array of four words it is a lane."""
        if memory not in self.wide:
            return super().place(memory, index)
        one = index.at(ex.UNARY)
        words = super().place(memory, ex.reading(Expression(f"{one} >> 2u"), index))
        return ex.reading(Expression(f"{words.text}[{one} & 3u]"), words)

    def within(self, memory: Memory, index: Expression) -> Expression:
        """Return four words; in place of those beyond the memory its last ones."""
        last = Expression(f"arrayLength(&{self.printer.memories[memory]}) - 1u", ex.SUM)
        return super().place(memory, ex.call("min", index, last))

    def value(self, memory: Memory, stored: Expression) -> Expression:
        """Return an element as a value."""
        if memory not in self.atomics:
            return stored
        made = ex.call("atomicLoad", ex.prefix("&", stored))
        return self.scalars.bitcast(made, self.held(memory), memory.type.dtype)

    def written(self, memory: Memory, place: Expression, value: Expression) -> str:
        """Return a statement that writes an element."""
        if memory not in self.atomics:
            return super().written(memory, place, value)
        bits = self.scalars.bitcast(value, memory.type.dtype, self.held(memory))
        return f"atomicStore(&{place.text}, {bits.text});"

    def changed(
        self, operation: Operation, index: Expression, values: Sequence[Expression]
    ) -> Expression:
        """Return a relaxed atomic operation, the only order in WGSL."""
        memory, dtype = memory_of(operation), operation.result.type.dtype
        if dtype.itemsize < 4:
            self.dialect.refuse(f"atomics of {dtype}")
        kind, held = operation.attributes["kind"], self.held(memory)
        exchanged, bitcast = kind in ("exchange", "compare"), self.scalars.bitcast
        if dtype.kind == "float" and memory not in self.native and not exchanged:
            made = ex.call(self._loop(memory, kind), index, values[0])
        else:
            given = [bitcast(v, dtype, held) for v in values]
            made = ex.call(_ATOMICS[kind], ex.prefix("&", self.place(memory, index)), *given)
            if kind == "compare":
                made = Expression(f"{made.text}.old_value")
            made = bitcast(made, held, dtype)
        if self.printer.uses[operation.result]:
            return made
        # A call with an unused value is a statement only for functions without @must_use.
        return Expression(f"_ = {made.text}")

    def _loop(self, memory: Memory, kind: str) -> str:
        """Return a function that repeats a compare-and-exchange until it succeeds."""
        printer, type, array = self.printer, memory.type, self.printer.memories[memory]
        f, name = self.dialect.type(type), f"fn_{array}_{kind}"
        seen = [Expression(f"bitcast<{f}>(old)"), Expression("v")]
        changed = self.scalars.operation(kind, type, [type, type], seen, {})
        bits = printer.scalars.bitcast(changed, type.dtype, self.held(memory)).text
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
