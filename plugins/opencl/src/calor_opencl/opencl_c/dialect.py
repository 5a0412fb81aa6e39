"""The dialect of OpenCL C, 1.2 and newer.

Requirements: optional device features are arguments, so the text for any device can be printed
anywhere. The language's vectors are used directly; bools of a vector are the results of its
comparisons (a byte per lane, all bits or none). float16 is held as bits if the device does not
compute with it. (Section numbers are those of the OpenCL C 1.2 specification.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from calor.dtypes import DType, bool_, float16, float32, float64
from calor_kernel.ir.nodes import Kernel, Memory, Operation
from calor_kernel.ir.types import Type
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.dialect import (
    FUNCTIONS,
    SHORT_NAMES,
    Dialect,
    Helpers,
    Statement,
    in_memory,
    listed,
)
from calor_kernel.printers.expressions import Expression
from calor_opencl.opencl_c import atomics, copies, instructions, planes, tables, vectors


class OpenCLC(Dialect):
    """OpenCL C. ``half``, ``double``: whether the device computes with float16 and float64.

    ``fast_fma``: whether a fused multiply-add is fast. ``exact_sqrt``: whether the compiler was
    asked for correctly rounded square roots, and provides them. ``subgroups``: "khr" or "intel" for
    a shuffle extension, "ptx" for warps by inline assembly. ``dot``: whether there are dot products
    of 8-bit integers. ``fences``: fences order what other cubes see, by inline assembly; those of
    OpenCL 1.2 end at the cube. ``copies``: whether units copy to local memory asynchronously, by
    inline assembly. ``extremes``: whether there are instructions for extremes of floats and for
    rounding to bfloat16, by inline assembly.
    """

    name = "OpenCL C"
    inline_names = ("opencl", "c")
    printf = ("l", "long", "ulong")
    suffixes = MappingProxyType({"float32": "f", "uint32": "u", "uint64": "ul", "float16": "f"})
    reserved = Dialect.reserved | FUNCTIONS | tables.RESERVED
    spaces = tables.SPACES

    def __init__(
        self,
        *,
        half: bool = False,
        double: bool = True,
        fast_fma: bool = False,
        exact_sqrt: bool = True,
        subgroups: str = "",
        dot: bool = False,
        fences: bool = False,
        copies: bool = False,
        extremes: bool = False,
    ) -> None:
        self.fast_fma = fast_fma
        self.subgroups = subgroups
        self.loads_early = subgroups == "ptx"
        self.positions = planes.positions(subgroups)
        self.dot = dot
        self.fences = fences
        self.copies = copies
        self.extremes = extremes
        types = dict(SHORT_NAMES)
        if double:
            types[float64] = "double"
        if half:
            types[float16] = "half"
        self.types = types
        self.templates = tables.templates(double, exact_sqrt)
        # Identifies this dialect in the keys of images.
        has = (half, double, fast_fma, exact_sqrt, subgroups, dot, fences, copies, extremes)
        self.key = "".join(str(int(x)) if isinstance(x, bool) else x for x in has)

    @property
    def statements(self) -> Mapping[str, Statement]:  # type: ignore[override]
        """Return the operations that assembly does; a table of functions would not pickle."""
        return copies.STATEMENTS if self.copies else copies.NOTHING

    def widths(self, dtype: DType) -> tuple[int, ...]:
        """Return the language's vector widths."""
        return (1, 2, 4, 8, 16)

    def reinterpret(self, dtype: DType, value: Expression, source: DType) -> Expression:
        """Return a scalar's bits reinterpreted as another type of the same size."""
        return ex.call(f"as_{self.types[dtype]}", value)

    def own_helper(self, name: str, *dtypes: DType) -> tuple[str, str] | None:
        """Return instructions, or conversions of halves by vload_half and vstore_half (6.12.7)."""
        own = instructions.helper(name, dtypes) if self.extremes else None
        return own or vectors.half_helper(name, dtypes[0], Type(float32), self)

    # Vectors.
    def vector_type(self, type: Type) -> str:
        """Return a vector type; for bools that of bytes."""
        scalar = "char" if type.dtype is bool_ else self.types[self.held(type.dtype)]
        return f"{scalar}{type.width}"

    def vector(self, type: Type, lanes: Sequence[Expression]) -> Expression:
        """Return a vector literal."""
        return vectors.literal(self, type, lanes)

    def lane(self, value: Expression, type: Type, lane: int) -> Expression:
        """Return a component."""
        made = ex.reading(Expression(f"{value.at(ex.ATOM)}.s{lane:x}"), value)
        if type.dtype is not bool_:
            return made
        return ex.infix("!=", ex.EQUAL, made, Expression("0", bare=True))

    def vector_operation(
        self, operation: Operation, operands: Sequence[Expression], helpers: Helpers
    ) -> Expression | None:
        """Return an operation on whole vectors."""
        own = instructions.of_vectors(operation, operands, helpers) if self.extremes else None
        return own or vectors.operation(self, operation, operands, helpers, self.dot)

    def gather(self, memory: Memory, type: Type, place: Expression) -> Expression:
        """Return vload."""
        made, stored = ex.call(f"vload{type.width}", Expression("0"), place), in_memory(type)
        return made if stored is type else self.bools_of(made, stored, type)

    def scatter(self, memory: Memory, type: Type, place: Expression, value: Expression) -> str:
        """Return vstore."""
        stored = in_memory(type)
        value = value if stored is type else self.bytes_of(value, stored, type)
        return f"vstore{type.width}({value.text}, 0, {place.text});"

    def bools_of(self, value: Expression, stored: Type, type: Type) -> Expression:
        """Return a comparison, whose lanes have all bits set or none."""
        return ex.infix("!=", ex.EQUAL, value, Expression(f"({self.type(stored)})(0)"))

    def bytes_of(self, value: Expression, stored: Type, type: Type) -> Expression:
        """Return the last bit of each lane."""
        bits = ex.infix("&", ex.BIT_AND, value, Expression(f"({self.type(type)})(1)"))
        return ex.call(f"as_{self.type(stored)}", bits)

    # Statements.
    def declare_memory(self, memory: Memory, name: str) -> str:
        """Return the declaration of an array in its space."""
        align = f" __attribute__((aligned({memory.align})))" if memory.align else ""
        space = f"{self.spaces[memory.space]} " if memory.space == "shared" else ""
        return f"{space}{self.storage(memory.type.dtype)} {name}[{memory.size}]{align};"

    def barrier(self, scope: str, name: int, count: int) -> str:
        """Return the barrier of a work-group or a subgroup."""
        if name or count or scope not in ("cube", "plane"):
            self.refuse(f"named barriers, nor one of a {scope}")
        whole = f"barrier({tables.FENCES});"
        return whole if scope == "cube" else planes.barrier(self.subgroups)

    def fence(self, scope: str, order: str) -> str:
        """Return a fence of both memories."""
        if self.fences and scope == "device":
            return tables.DEVICE_FENCE
        return f"mem_fence({tables.FENCES});"

    def atomic(
        self,
        operation: Operation,
        place: Expression,
        values: Sequence[Expression],
        helpers: Helpers,
    ) -> Expression:
        """Return an atomic function, or a loop around one for floats (6.12.11)."""
        ptx = self.subgroups == "ptx"
        return atomics.atomic(self, operation, place, values, helpers, ptx)

    def prefetch(self, memory: Memory, place: Expression) -> str:
        """Return a prefetch of global memory."""
        return f"prefetch({place.text}, 1);" if memory.space == "global" else ""

    def shuffle(self, kind: str, dtype: DType, value: Expression, lane: Expression) -> Expression:
        """Return a shuffle of subgroups, or of warps."""
        return planes.shuffle(self, self.subgroups, kind, dtype, value, lane)

    def plane(
        self, operation: Operation, operands: Sequence[Expression], plane: int
    ) -> Expression | None:
        """Return a vote of a warp as one instruction."""
        return planes.ballot(self, self.subgroups, operation, operands)

    def kernel(self, kernel: Kernel, names: Mapping[str, str], body: str, helpers: str) -> str:
        """Return pragmas, helpers and the kernel; buffers are pointers with element offsets."""
        declared, moved = [], []
        for parameter in kernel.parameters:
            name = names[parameter.name]
            declared.append(self.parameter(parameter, name))
            if parameter.memory is not None:
                offset = names[f"{parameter.name} offset"]
                declared.append(f"long {offset}")
                moved.append(f"  {name} += {offset};\n")
        helpers, extensions = f"{planes.pieces(helpers + body)}{helpers}", ""
        if float16 in self.types:
            extensions += "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
        x, y, z = kernel.cube
        return (
            f"{extensions}#pragma OPENCL FP_CONTRACT OFF\n\n{helpers}"
            f"__kernel __attribute__((reqd_work_group_size({x}, {y}, {z})))\n"
            f"{planes.attribute(self, self.subgroups, kernel)}"
            f"void {self.entry(kernel.name)}({listed(declared)}) {{\n{''.join(moved)}{body}}}\n"
        )
