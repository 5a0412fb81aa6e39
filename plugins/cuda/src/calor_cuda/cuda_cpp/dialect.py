"""The dialect of CUDA C++, for processors of compute capability 8.0 and newer.

Requirements: the text needs no header, so any run-time compiler accepts it. The printer alone
contracts, never the compiler (``--fmad=false``). (PTX is NVIDIA's Parallel Thread Execution ISA.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from calor.dtypes import DType, bfloat16, bool_, float32, float64, int32, int64, uint32
from calor_cuda.cuda_cpp import tables, tma
from calor_cuda.cuda_cpp.statements import STATEMENTS
from calor_cupy.gpu_cpp import GpuCpp
from calor_kernel.ir.nodes import Kernel, Memory, Operation
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.dialect import Helpers
from calor_kernel.printers.expressions import Expression

STATIC_BYTES: Final = 48 << 10


class CudaCpp(GpuCpp):
    """CUDA C++ with calor's names of number types."""

    name = "CUDA C++"
    inline_names = ("cuda", "c")
    printf = ("ll", "long long", "unsigned long long")
    # Shared memory beyond this is requested by the launch.
    static_bytes = STATIC_BYTES
    atomic_names = tables.ATOMICS
    positions = tables.POSITIONS
    templates = tables.TEMPLATES
    own_helpers = tables.HELPERS
    fast_fma = True
    statements = STATEMENTS

    def special(self, number: float, dtype: DType) -> Expression:
        """Return an infinity or NaN, which the compiler cannot name without headers."""
        made = Expression(f"__int_as_float({'0x7fc00000' if number != number else '0x7f800000'})")
        made = made if dtype is float32 else self.cast(dtype, made)
        return ex.prefix("-", made) if number < 0 else made

    def reinterpret(self, dtype: DType, value: Expression, source: DType) -> Expression:
        """Return a scalar's bits reinterpreted, by the compiler's functions."""
        if dtype.kind != "float" and source.kind != "float":
            return self.cast(dtype, value)
        double = dtype is float64 or source is float64
        whole = int64 if double else uint32 if uint32 in (dtype, source) else int32
        names = {float32: "float", float64: "double", int32: "int", uint32: "uint"}
        names[int64] = "longlong"
        if dtype.kind == "float":
            return ex.call(f"__{names[whole]}_as_{names[dtype]}", value)
        made = ex.call(f"__{names[source]}_as_{names[whole]}", value)
        return made if whole is dtype else self.cast(dtype, made)

    def vector_operation(
        self, operation: Operation, operands: Sequence[Expression], helpers: Helpers
    ) -> Expression | None:
        """Return a rounding to halves or a widening of bfloat16, in pairs."""
        if operation.name != "cast":
            return None
        source, target = operation.operands[0].type, operation.result.type
        types = self.vector_type(target), self.vector_type(source)
        if source.dtype is float32 and target.dtype in tables.HALVES and target.width % 2 == 0:
            name, text = tables.rounded_pairs(target.dtype, target.width, *types)
        elif source.dtype is bfloat16 and target.dtype is float32 and target.width % 2 == 0:
            name, text = tables.widened_pairs(target.width, *types)
        else:
            return None
        return ex.call(helpers.add(name, text), *operands)

    def barrier(self, scope: str, name: int, count: int) -> str:
        """Return a barrier of a scope, or one of the sixteen named ones."""
        if name:
            return f'asm volatile("bar.sync {name}, {count};" ::: "memory");'
        if scope not in tables.BARRIERS:
            self.refuse(f"barrier without a name of a {scope}")
        return tables.BARRIERS[scope]

    def fence(self, scope: str, order: str) -> str:
        """Return a fence for a scope.

        The device's fence gives release and acquire semantics. ``__threadfence()`` would also order
        all fences sequentially, which costs waiting time.
        """
        if order == "async":
            return 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
        if scope == "device" and order != "seq_cst":
            return 'asm volatile("fence.acq_rel.gpu;" ::: "memory");'
        return f"__threadfence{tables.FENCES.get(scope, '')}();"

    def prefetch(self, memory: Memory, place: Expression) -> str:
        """Return a prefetch of global memory into the L2 cache."""
        return f"prefetch({place.text});" if memory.space == "global" else ""

    def shuffle(self, kind: str, dtype: DType, value: Expression, lane: Expression) -> Expression:
        """Return a shuffle of a whole warp."""
        name = "__shfl_sync" if kind == "index" else f"__shfl_{kind}_sync"
        narrow = dtype.itemsize < 4
        held = self.cast(uint32, value) if narrow else value
        made = ex.call(name, Expression(tables.ALL_LANES), held, lane)
        if dtype is bool_:
            return ex.infix("!=", ex.EQUAL, made, Expression("0"))
        return self.cast(self.held(dtype), made) if narrow else made

    def plane(
        self, operation: Operation, operands: Sequence[Expression], plane: int
    ) -> Expression | None:
        """Return a ballot, or a reduction of 32-bit integers, as one instruction."""
        if plane != 32:
            self.refuse(f"planes of {plane}")
        dtype, kind = operation.operands[0].type.dtype, operation.attributes.get("kind")
        if operation.name == "plane_ballot":
            made = ex.call("__ballot_sync", Expression(tables.ALL_LANES), *operands)
            return self.cast(operation.result.type.dtype, made)
        if operation.name != "plane_reduce" or kind not in tables.REDUCED.get(dtype, ()):
            return None
        return ex.call(f"__reduce_{kind}_sync", Expression(tables.ALL_LANES), *operands)

    def pieces(self, kernel: Kernel) -> Mapping[str, str]:
        """Return the functions that may precede a kernel, by the start of their call."""
        return tables.PIECES

    def bounds(self, kernel: Kernel) -> str:
        """Return the launch bounds: the units of a cube, and the cubes per core if known."""
        # The compiler honours register budgets only if it knows the cubes per core.
        cubes = kernel.attributes.get("cubes_per_core")
        bounds = f"__launch_bounds__({kernel.units}{f', {cubes}' if cubes else ''})"
        cluster = kernel.attributes.get("cluster", (1, 1, 1))
        if cluster == (1, 1, 1):
            return bounds
        return f"{bounds} __cluster_dims__({', '.join(map(str, cluster))})"

    def whole(self, kernel: Kernel, declared: Sequence[str], body: str, helpers: str) -> str:
        """Return the kernel, with its tensor maps as parameters."""
        maps = tma.declared_maps(kernel)
        awaits = kernel.attributes.get("awaits")
        body = f"{tables.READY if awaits else tables.BEGIN}{body}"
        if awaits:
            # The assembler moves loads of memory that it knows to be constant across the wait.
            declared = [one.replace(self.restrict, "") for one in declared]
        if maps:
            helpers, body = f"{tma.TYPE}\n{helpers}", f"{tma.fetched_maps(len(maps))}{body}"
        return super().whole(kernel, [*declared, *maps], body, helpers)
