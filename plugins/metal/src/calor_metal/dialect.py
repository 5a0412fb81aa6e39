"""The dialect of the Metal Shading Language, 3.2 and newer.

Requirements: a kernel has one argument, a structure of pointers and numbers of 8 bytes each, so it
may have any number of buffers and a launch sets its arguments in one call. The printer contracts
expressions, never the compiler. There is no double. Vectors are for memory accesses and computed
lane by lane, as the units of Apple's GPUs do anyway. (Sections are those of the Metal Shading
Language Specification 3.2.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from calor.dtypes import DType, bfloat16, bool_, int32, uint32
from calor_kernel.ir.nodes import Kernel, Memory, Operation
from calor_kernel.ir.types import Type
from calor_kernel.printers import Dialect
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.dialect import FUNCTIONS, Helpers, Values, in_memory
from calor_kernel.printers.expressions import Expression

from . import atomics, matrices, tables

# SIMD-group size of every GPU of Apple's.
PLANE: Final = 32
_WIDEST: Final = 16  # bytes of an access
MOST_ARGUMENTS: Final = 512  # limit of arguments of 8 bytes each that a launch passes in one call
_REDUCED: Final = ("min", "max", "and", "or", "xor")


class Metal(Dialect):
    """The Metal Shading Language."""

    name = "Metal"
    inline_names = ("metal", "c")
    suffixes = tables.SUFFIXES
    types = tables.TYPES
    templates = tables.TEMPLATES
    spaces = tables.SPACES
    positions = tables.POSITIONS
    fast_fma = True
    statements = MappingProxyType({"mma": matrices.mma})
    reserved = Dialect.reserved | FUNCTIONS | tables.RESERVED

    def widths(self, dtype: DType) -> tuple[int, ...]:
        """Return the vector widths: up to four lanes and 16 bytes."""
        return tuple(n for n in (1, 2, 4) if n * dtype.itemsize <= _WIDEST)

    def reinterpret(self, dtype: DType, value: Expression, source: DType) -> Expression:
        """Return the bits as another type (2.18)."""
        return ex.call(f"as_type<{self.types[dtype]}>", value)

    def own_helper(self, name: str, *dtypes: DType) -> tuple[str, str] | None:
        """Refuse the one bfloat function that would round twice through float."""
        if name == "fma":
            self.refuse(f"fused multiply-add of {dtypes[0]}")
        return None

    # Vectors.
    def vector_type(self, type: Type) -> str:
        """Return a vector type (2.2)."""
        return f"{self.types[type.dtype]}{type.width}"

    def vector(self, type: Type, lanes: Sequence[Expression]) -> Expression:
        """Return a vector of scalars."""
        return ex.call(self.vector_type(type), *lanes)

    def lane(self, value: Expression, type: Type, lane: int) -> Expression:
        """Return a component."""
        return ex.reading(Expression(f"{value.at(ex.ATOM)}.{'xyzw'[lane]}"), value)

    def gather(self, memory: Memory, type: Type, place: Expression) -> Expression:
        """Return an access of a packed vector, which needs no alignment (2.2.3)."""
        stored = self.vector_type(in_memory(type))
        made = ex.call(stored, self.pointed(memory, f"const packed_{stored}", place))
        return made if type.dtype is not bool_ else ex.call(self.vector_type(type), made)

    def scatter(self, memory: Memory, type: Type, place: Expression, value: Expression) -> str:
        """Return an assignment of a packed vector."""
        stored = self.vector_type(in_memory(type))
        value = value if type.dtype is not bool_ else ex.call(stored, value)
        return f"{self.pointed(memory, f'packed_{stored}', place).text} = {value.text};"

    def bools_of(self, value: Expression, stored: Type, type: Type) -> Expression:
        """Return each lane converted."""
        return ex.call(self.vector_type(type), value)

    def bytes_of(self, value: Expression, stored: Type, type: Type) -> Expression:
        """Return each lane converted."""
        return ex.call(self.vector_type(stored), value)

    # Statements.
    def declare_memory(self, memory: Memory, name: str) -> str:
        """Return the declaration of an array, aligned for vector accesses."""
        space = f"alignas({max(memory.align, _WIDEST)}) "
        space += "threadgroup " if memory.space == "shared" else ""
        return f"{space}{self.storage(memory.type.dtype)} {name}[{memory.size}];"

    def barrier(self, scope: str, name: int, count: int) -> str:
        """Return the barrier of a threadgroup or of a SIMD-group (6.9.1)."""
        if name or count or scope not in ("cube", "plane"):
            self.refuse(f"named barriers, nor one of a {scope}")
        return f"{'threadgroup' if scope == 'cube' else 'simdgroup'}_barrier({tables.BOTH});"

    def fence(self, scope: str, order: str) -> str:
        """Return a fence of both memories (6.15.3)."""
        inner = tables.SCOPES.get(scope, "device")
        return f"atomic_thread_fence({tables.BOTH}, memory_order_seq_cst, thread_scope_{inner});"

    def atomic(
        self,
        operation: Operation,
        place: Expression,
        values: Sequence[Expression],
        helpers: Helpers,
    ) -> Expression:
        """Return an atomic function, or a loop around one (6.15.2)."""
        return atomics.atomic(self, operation, place, values, helpers)

    def shuffle(self, kind: str, dtype: DType, value: Expression, lane: Expression) -> Expression:
        """Return a permutation within a SIMD-group (6.9.2); 64 bits go as two times 32."""
        name = "simd_shuffle" if kind == "index" else f"simd_shuffle_{kind}"
        if dtype is bool_:
            made = ex.call(name, self.cast(uint32, value), lane)
            return ex.infix("!=", ex.EQUAL, made, Expression("0"))
        if dtype.itemsize < 8 and dtype is not bfloat16:
            return ex.call(name, value, lane)
        bits = "uint2" if dtype.itemsize == 8 else "ushort"
        made = ex.call(name, ex.call(f"as_type<{bits}>", value), lane)
        return ex.call(f"as_type<{self.types[dtype]}>", made)

    def plane(
        self, operation: Operation, operands: Sequence[Expression], plane: int
    ) -> Expression | None:
        """Return a ballot, or a reduction of 32-bit integers (6.9.2)."""
        if plane != PLANE:
            self.refuse(f"planes of {plane}")
        dtype, kind = operation.operands[0].type.dtype, operation.attributes.get("kind")
        if operation.name == "plane_ballot":
            votes = ex.prefix("(simd_vote::vote_t)", ex.call("simd_ballot", *operands))
            return self.cast(operation.result.type.dtype, votes)
        if operation.name != "plane_reduce" or dtype not in (int32, uint32):
            return None
        return ex.call(f"simd_{kind}", *operands) if kind in _REDUCED else None

    def printed(self, text: str, values: Sequence[Values]) -> str:
        """Raise an error: no caller of ours reads the log of shaders."""
        self.refuse("prints")

    def kernel(self, kernel: Kernel, names: Mapping[str, str], body: str, helpers: str) -> str:
        """Return header, helpers, the structure of arguments, and the kernel."""
        if len(kernel.parameters) > MOST_ARGUMENTS:
            self.refuse(f"kernels of {len(kernel.parameters)} arguments")
        fields, lines = [], []
        for parameter in kernel.parameters:
            name, type = names[parameter.name], self.storage(parameter.declared.dtype)
            if parameter.memory is not None:
                type = f"device {type if parameter.memory.writable else f'const {type}'} *"
            else:
                type += " "
            fields.append(f"  alignas(8) {type}{name};\n")
            lines.append(f"  {type}{name} = arguments.{name};\n")
        used = [a for a in tables.ATTRIBUTES if re.search(rf"\b{a.split()[1]}\b", body)]
        declared = ",\n    ".join(("constant Arguments &arguments [[buffer(0)]]", *used))
        x, y, z = kernel.cube
        return (
            f"{tables.HEADER}{helpers}struct Arguments {{\n{''.join(fields)}}};\n\n"
            f"[[max_total_threads_per_threadgroup({x * y * z})]]\n"
            f"kernel void {self.entry(kernel.name)}(\n    {declared}) {{\n"
            f"{''.join(lines)}{body}}}\n"
        )
