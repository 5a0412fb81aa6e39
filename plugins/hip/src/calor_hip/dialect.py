"""The dialect HIP C++ for AMD's CDNA and RDNA processors, with clang's builtins.

Requirements: everything that AMD's processors share with NVIDIA's is in calor-cupy's dialect. The
wave size is the target's, 64 or 32. The printer contracts expressions, never the compiler
(``-ffp-contract=off``). Results equal those of other devices, so no function of the device
libraries is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from calor.dtypes import DType, bool_, float32, float64, uint32
from calor_cupy.gpu_cpp import GpuCpp
from calor_kernel.ir.nodes import Kernel, Operation
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.expressions import Expression

from . import matrices, tables

# Shared memory of a cube (LDS); it is static, so a launch requests none.
SHARED_BYTES: Final = 64 << 10


class HipCpp(GpuCpp):
    """HIP C++ without headers; ``wave`` is the wave size, ``instructions`` are the matrix ones."""

    name = "HIP C++"
    inline_names = ("hip", "c")
    static_bytes = SHARED_BYTES
    atomic_names = tables.ATOMICS
    positions = tables.POSITIONS
    templates = tables.TEMPLATES
    own_helpers = tables.HELPERS
    statements = MappingProxyType({"mma": matrices.mma})
    reserved = GpuCpp.reserved | tables.RESERVED

    def __init__(self, wave: int = 64) -> None:
        self.wave = wave

    def special(self, number: float, dtype: DType) -> Expression:
        """Return an infinity or NaN by the compiler's builtins."""
        suffix = "f" if dtype is float32 else ""
        name = f'__builtin_nan{suffix}("")' if number != number else f"__builtin_inf{suffix}()"
        made = Expression(name)
        made = made if dtype in (float32, float64) else self.cast(dtype, made)
        return ex.prefix("-", made) if number < 0 else made

    def reinterpret(self, dtype: DType, value: Expression, source: DType) -> Expression:
        """Return a scalar's bits as another type of the same size."""
        if dtype.kind != "float" and source.kind != "float":
            return self.cast(dtype, value)
        return ex.call("__builtin_bit_cast", Expression(self.types[dtype]), value)

    def barrier(self, scope: str, name: int, count: int) -> str:
        """Return a barrier of a cube or of a wave."""
        if name or count or scope not in ("cube", "plane"):
            self.refuse(f"named barriers, nor one of a {scope}")
        return f"meet_{scope}();"

    def fence(self, scope: str, order: str) -> str:
        """Return a fence for the memory of a scope."""
        return f'__builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "{tables.SCOPES[scope]}");'

    def shuffle(self, kind: str, dtype: DType, value: Expression, lane: Expression) -> Expression:
        """Return a shuffle within a wave by ds_bpermute, which moves 32 bits."""
        narrow = dtype.itemsize < 4
        # The text of a literal has no type.
        held = self.cast(uint32 if narrow else dtype, value)
        made = ex.call(f"shuffle_{kind}", held, lane)
        if dtype is bool_:
            return ex.infix("!=", ex.EQUAL, made, Expression("0"))
        return self.cast(self.held(dtype), made) if narrow else made

    def plane(
        self, operation: Operation, operands: Sequence[Expression], plane: int
    ) -> Expression | None:
        """Return a ballot; other plane operations are built from shuffles."""
        if plane != self.wave:
            self.refuse(f"planes of {plane} where waves are of {self.wave}")
        if operation.name != "plane_ballot":
            return None
        made = ex.call(f"__builtin_amdgcn_ballot_w{self.wave}", *operands)
        return self.cast(operation.result.type.dtype, made)

    def pieces(self, kernel: Kernel) -> Mapping[str, str]:
        """Return the functions that a kernel may need before it."""
        return tables.pieces(self.wave, kernel.cube)

    def bounds(self, kernel: Kernel) -> str:
        """Return the launch bounds of a cube's units."""
        return f"__attribute__((amdgpu_flat_work_group_size({kernel.units}, {kernel.units})))"

    def kernel(self, kernel: Kernel, names: Mapping[str, str], body: str, helpers: str) -> str:
        """Return the macros of function and memory kinds, followed by the text."""
        if kernel.shared_bytes > SHARED_BYTES:
            self.refuse(f"cubes with {kernel.shared_bytes} bytes of shared memory")
        return f"{tables.HEADER}\n{super().kernel(kernel, names, body, helpers)}"
