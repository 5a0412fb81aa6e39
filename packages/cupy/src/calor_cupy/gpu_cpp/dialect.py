"""C++ for GPUs as CUDA and HIP write it: types, vectors, memory, and a kernel's declaration.

Requirements: float16 and bfloat16 are held as bits. Vectors are structures of up to 16 bytes, one
access if aligned, and are computed lane by lane. Instructions are the derived dialects'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from calor.dtypes import ALL, DType
from calor_cupy.gpu_cpp import tables
from calor_cupy.gpu_cpp.atomics import atomic
from calor_kernel.ir.nodes import Kernel, Memory, Operation
from calor_kernel.ir.types import Type
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.dialect import FUNCTIONS, Dialect, Helpers, listed
from calor_kernel.printers.expressions import Expression


class GpuCpp(Dialect):
    """C++ for GPUs with calor's names of number types."""

    function_prefix = "static __device__ __forceinline__"
    restrict = "__restrict__"
    # Shared memory beyond this is requested by the launch.
    static_bytes: int
    # The language's atomic functions, by kind.
    atomic_names: Mapping[str, str]
    spaces = tables.SPACES
    suffixes = MappingProxyType({"float32": "f", "uint32": "u", "uint64": "ull"})
    types = tables.TYPES
    reserved = Dialect.reserved | FUNCTIONS | tables.RESERVED | {d.name for d in ALL}

    def widths(self, dtype: DType) -> tuple[int, ...]:
        """Return the vector widths up to 16 bytes, the widest access."""
        return tuple(n for n in (1, 2, 4, 8, 16) if n * dtype.itemsize <= 16)

    # Vectors.
    def vector_type(self, type: Type) -> str:
        """Return the name of a structure, declared if used."""
        return f"{self.held(type.dtype).name}x{type.width}"

    def vector(self, type: Type, lanes: Sequence[Expression]) -> Expression:
        """Return a structure of lanes."""
        inner = ", ".join(lane.text for lane in lanes)
        return ex.reading(Expression(f"{self.vector_type(type)}{{{inner}}}"), *lanes)

    def lane(self, value: Expression, type: Type, lane: int) -> Expression:
        """Return a lane of a structure."""
        return ex.reading(Expression(f"{value.at(ex.ATOM)}.v[{lane}]"), value)

    def gather(self, memory: Memory, type: Type, place: Expression) -> Expression:
        """Return a gather, with one access per lane."""
        return ex.call(f"gather<{self.vector_type(type)}>", place)

    def scatter(self, memory: Memory, type: Type, place: Expression, value: Expression) -> str:
        """Return a scatter, with one access per lane."""
        return f"scatter({place.text}, {value.text});"

    def bools_of(self, value: Expression, stored: Type, type: Type) -> Expression:
        """Return each lane converted."""
        return ex.call(f"lanes<{self.vector_type(type)}>", value)

    def bytes_of(self, value: Expression, stored: Type, type: Type) -> Expression:
        """Return each lane converted."""
        return ex.call(f"lanes<{self.vector_type(stored)}>", value)

    # Statements.
    def declare_memories(self, kernel: Kernel, names: Sequence[str]) -> Sequence[str]:
        """Return array declarations; large shared ones are parts of dynamic shared memory."""
        large, at, lines = kernel.shared_bytes > self.static_bytes, 0, []
        for memory, name in zip(kernel.memories, names, strict=True):
            type, align = self.storage(memory.type.dtype), max(memory.align, memory.type.nbytes)
            if memory.space == "shared" and large:
                at = -(-at // align) * align
                lines.append(f"{type} *{name} = ({type} *)(launched_memory + {at});")
                at += memory.type.nbytes * (memory.size or 0)
                continue
            space = "__shared__ " if memory.space == "shared" else ""
            lines.append(f"{space}__align__({align}) {type} {name}[{memory.size}];")
        return lines

    def atomic(
        self,
        operation: Operation,
        place: Expression,
        values: Sequence[Expression],
        helpers: Helpers,
    ) -> Expression:
        """Return an atomic function, or a loop around one."""
        return atomic(self, self.atomic_names, operation, place, values, helpers)

    def pieces(self, kernel: Kernel) -> Mapping[str, str]:
        """Return the functions that may precede a kernel, by the start of their call."""
        raise NotImplementedError

    def bounds(self, kernel: Kernel) -> str:
        """Return the launch bounds."""
        raise NotImplementedError

    def kernel(self, kernel: Kernel, names: Mapping[str, str], body: str, helpers: str) -> str:
        """Return the kernel after the parts of the prelude and the helpers that it uses."""
        declared = [self.parameter(p, names[p.name]) for p in kernel.parameters]
        if kernel.shared_bytes > self.static_bytes:
            helpers = f"extern __shared__ __align__(1024) uint8 launched_memory[];\n\n{helpers}"
        return self.whole(kernel, declared, body, helpers)

    def whole(self, kernel: Kernel, declared: Sequence[str], body: str, helpers: str) -> str:
        """Return the kernel with its parameters as declared."""
        return (
            f"{tables.prelude(helpers + body, self.pieces(kernel))}{helpers}"
            f'extern "C" __global__ void {self.bounds(kernel)}\n'
            f"{self.entry(kernel.name)}({listed(declared)}) {{\n{body}}}\n"
        )
