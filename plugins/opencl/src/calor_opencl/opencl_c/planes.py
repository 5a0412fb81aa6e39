"""Planes of OpenCL C: subgroups with a shuffle extension, or warps by inline PTX.

Requirements: "khr" and "intel" are cl_khr_subgroup_shuffle and Intel's earlier extension. "ptx" is
for NVIDIA devices, whose OpenCL has no such extension but accepts PTX (NVIDIA's Parallel Thread
Execution ISA, 9.7.9 and 9.7.13) as inline assembly; the device tests whether it does. Only the
functions used by a kernel are printed before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from calor.dtypes import DType, bool_, float16, int32, uint16, uint32, uint64
from calor_kernel.ir.nodes import Kernel, Operation
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.dialect import Dialect
from calor_kernel.printers.expressions import Expression
from calor_opencl.opencl_c import tables

# The units of a warp, and by kind the name and bound of a PTX shuffle.
WARP: Final = 32
_SHUFFLES: Final = MappingProxyType(
    {"index": ("idx", "0x1f"), "xor": ("bfly", "0x1f"), "up": ("up", "0"), "down": ("down", "0x1f")}
)
_PREFIX: Final = {"khr": "sub_group_shuffle", "intel": "intel_sub_group_shuffle"}
_WARP_POSITIONS: Final = {"lane_position": "warp_lane()", "plane_position": "warp_of_cube()"}


def _pieces() -> dict[str, str]:
    made = {}
    for name, bound in _SHUFFLES.values():
        made[f"warp_{name}_64("] = (
            f"static inline ulong warp_{name}_64(ulong x, uint lane) {{\n"
            f"  uint2 y = as_uint2(x);\n"
            f"  return as_ulong((uint2)(warp_{name}(y.x, lane), warp_{name}(y.y, lane)));\n}}\n"
        )
        made[f"warp_{name}("] = (
            f"static inline uint warp_{name}(uint x, uint lane) {{\n  uint y;\n"
            f'  asm volatile("shfl.sync.{name}.b32 %0, %1, %2, {bound}, 0xffffffff;"\n'
            f'    : "=r"(y) : "r"(x), "r"(lane));\n  return y;\n}}\n'
        )
    made["warp_ballot("] = (
        "static inline uint warp_ballot(uint x) {\n  uint y;\n"
        '  asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; "\n'
        '    "vote.sync.ballot.b32 %0, p, 0xffffffff; }" : "=r"(y) : "r"(x));\n  return y;\n}\n'
    )
    made["warp_lane("] = (
        "static inline uint warp_lane(void) {\n  uint y;\n"
        '  asm("mov.u32 %0, %%laneid;" : "=r"(y));\n  return y;\n}\n'
    )
    made["warp_of_cube("] = (
        "static inline uint warp_of_cube(void) {\n"
        "  size_t row = get_local_id(1) + get_local_size(1) * get_local_id(2);\n"
        f"  return (get_local_id(0) + get_local_size(0) * row) / {WARP};\n}}\n"
    )
    return made


# Functions by the start of their call; callees come first.
_PIECES: Final[Mapping[str, str]] = MappingProxyType(_pieces())


def pieces(used: str) -> str:
    """Return the warp functions that a text uses, with their callees."""
    chosen = ""
    for key, text in _PIECES.items():
        if key in used or key in chosen:
            chosen = text + chosen
    return f"{chosen}\n" if chosen else ""


def positions(subgroups: str) -> Mapping[str, str]:
    """Return the expressions of a unit's position, from data that pickles with the toolchain."""
    return {**tables.POSITIONS, **(_WARP_POSITIONS if subgroups == "ptx" else {})}


def barrier(subgroups: str) -> str:
    """Return the barrier of a plane."""
    if subgroups == "ptx":
        return 'asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");'
    return f"sub_group_barrier({tables.FENCES});"


def attribute(dialect: Dialect, subgroups: str, kernel: Kernel) -> str:
    """Return the line that fixes the size of subgroups."""
    if kernel.plane == 1:
        return ""
    warps = subgroups == "ptx"
    if not subgroups or (warps and kernel.plane != WARP):
        dialect.refuse(f"planes of {kernel.plane}")
    return "" if warps else f"__attribute__((intel_reqd_sub_group_size({kernel.plane})))\n"


def ballot(
    dialect: Dialect, subgroups: str, operation: Operation, operands: Sequence[Expression]
) -> Expression | None:
    """Return a warp's vote as one instruction; None for operations made of shuffles."""
    if subgroups != "ptx" or operation.name != "plane_ballot":
        return None
    made = ex.call("warp_ballot", dialect.cast(uint32, operands[0]))
    return dialect.cast(operation.result.type.dtype, made)


def shuffle(
    dialect: Dialect, subgroups: str, kind: str, dtype: DType, value: Expression, lane: Expression
) -> Expression:
    """Return a shuffle of a subgroup, or of a warp."""
    if subgroups == "ptx":
        return _of_warp(dialect, kind, dtype, value, lane)
    if not subgroups:
        dialect.refuse("subgroups that shuffle")
    name = _PREFIX[subgroups]
    own, distance = "(int)get_sub_group_local_id()", lane.at(ex.PRODUCT)
    number = dialect.cast(int32, lane).text
    if kind == "xor":
        name, index = f"{name}_xor", f"(uint){lane.at(ex.UNARY)}"
    elif kind == "index":
        index = f"(uint){lane.at(ex.UNARY)}"
    elif kind == "up":
        index = f"(uint)({own} < {number} ? {own} : {own} - {distance})"
    else:
        last = "(int)get_sub_group_size()"
        index = f"(uint)({own} + {distance} < {last} ? {own} + {distance} : {own})"
    if dtype is bool_:
        made = Expression(f"{name}((uint){value.at(ex.UNARY)}, {index})")
        return ex.infix("!=", ex.EQUAL, made, Expression("0"))
    return ex.reading(Expression(f"{name}({value.text}, {index})"), value, lane)


def _of_warp(
    dialect: Dialect, kind: str, dtype: DType, value: Expression, lane: Expression
) -> Expression:
    """Return a shuffle of a value's bits; small types are shuffled as 32 bits."""
    held, other = dialect.held(dtype), dialect.cast(uint32, lane)
    name = f"warp_{_SHUFFLES[kind][0]}"
    if dtype.itemsize == 8:
        made = ex.call(f"{name}_64", dialect.reinterpret(uint64, value, held), other)
        return dialect.reinterpret(held, made, uint64)
    if dtype.itemsize == 4:
        made = ex.call(name, dialect.reinterpret(uint32, value, held), other)
        return dialect.reinterpret(held, made, uint32)
    if held is float16:
        value = dialect.reinterpret(uint16, value, held)
    made = ex.call(name, dialect.cast(uint32, value), other)
    if dtype is bool_:
        return ex.infix("!=", ex.EQUAL, made, Expression("0"))
    if held is float16:
        return dialect.reinterpret(held, dialect.cast(uint16, made), uint16)
    return dialect.cast(held, made)
