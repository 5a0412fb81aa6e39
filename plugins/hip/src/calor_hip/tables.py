"""Tables of HIP C++ texts: functions, positions, and declarations before a kernel.

Requirements: the text needs no header and no device library, so plain clang compiles it like
hipRTC, and definitions that one of them has already are skipped. Instructions are clang's builtins,
whose names a header can define to run the text elsewhere.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from calor_cupy.gpu_cpp.tables import INLINE, VECTOR_PIECES
from calor_kernel.printers.dialect import words

HEADER: Final = "".join(
    f"#ifndef {name}\n#define {name}{text}\n#endif\n"
    for name, text in (
        ("__global__", " __attribute__((global))"),
        ("__device__", " __attribute__((device))"),
        ("__shared__", " __attribute__((shared))"),
        ("__forceinline__", " inline __attribute__((always_inline))"),
        ("__align__", "(n) __attribute__((aligned(n)))"),
    )
)
RESERVED: Final = words(
    "atomic_add atomic_and atomic_compare atomic_exchange atomic_max atomic_min atomic_or "
    "atomic_xor cubes_x cubes_y cubes_z from_lane meet_cube meet_plane shuffle_down shuffle_index "
    "shuffle_up shuffle_xor"
)
POSITIONS: Final = MappingProxyType(
    {
        "cube_position": "__builtin_amdgcn_workgroup_id_{}()",
        "cube_count": "cubes_{}()",
        "unit_position": "__builtin_amdgcn_workitem_id_{}()",
        "lane_position": "lane_of_plane()",
        "plane_position": "plane_of_cube()",
    }
)
ATOMICS: Final = MappingProxyType(
    {
        kind: f"atomic_{kind}"
        for kind in ("add", "min", "max", "and", "or", "xor", "exchange", "compare")
    }
)
# Scopes of a fence, in LLVM's names.
SCOPES: Final = MappingProxyType(
    {
        "unit": "singlethread",
        "plane": "wavefront",
        "warpgroup": "workgroup",
        "cube": "workgroup",
        "device": "agent",
        "system": "",
    }
)
TEMPLATES: Final = MappingProxyType(
    {
        "abs float32": "__builtin_fabsf({0})",
        "abs float64": "__builtin_fabs({0})",
        **{
            f"{name} {dtype}": f"__builtin_{name}{suffix}({operands})"
            for dtype, suffix in (("float32", "f"), ("float64", ""))
            for name, operands in (
                *((name, "{0}") for name in ("sqrt", "floor", "ceil", "trunc", "rint")),
                ("copysign", "{0}, {1}"),
                ("fma", "{0}, {1}, {2}"),
            )
        },
        **{f"popcount {d}32": "({T})__builtin_popcount({0})" for d in ("int", "uint")},
        **{f"popcount {d}64": "({T})__builtin_popcountll({0})" for d in ("int", "uint")},
    }
)

_RELAXED: Final = "__ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT"


def _helper(name: str, result: str, parameter: str, made: str) -> tuple[str, str]:
    return name, f"static {INLINE} {result} {name}({parameter}) {{\n  return {made};\n}}"


# Functions that replace helpers in C, by the helper's name and its dtypes.
HELPERS: Final = MappingProxyType(
    {
        "float32_of_float16": _helper(
            "float32_of_float16", "float", "uint16 h", "(float)__builtin_bit_cast(_Float16, h)"
        ),
        "of_float32_float16": _helper(
            "float16_of_float32", "uint16", "float x", "__builtin_bit_cast(uint16, (_Float16)x)"
        ),
        **{
            f"clz_{kind}{size}": _helper(
                f"clz_{kind}{size}",
                f"{kind}{size}",
                f"{kind}{size} a",
                f"a ? __builtin_clz{long}(a) : {size}",
            )
            for kind in ("int", "uint")
            for size, long in ((32, ""), (64, "ll"))
        },
    }
)


def _fetch(kind: str) -> str:
    call = "exchange" if kind == "exchange" else f"fetch_{kind}"
    # calor's memory is on the device, so float atomics may use instructions. A compiler without
    # this attribute generates loops instead.
    own = "[[clang::atomic(no_remote_memory, no_fine_grained_memory)]] " if kind == "add" else ""
    body = f"T old;\n  {own}{{ old = __hip_atomic_{call}(p, (T)x, {_RELAXED}); }}\n  return old;"
    return f"template <class T, class U> {INLINE} T atomic_{kind}(T *p, U x) {{\n  {body}\n}}\n"


def pieces(wave: int, cube: tuple[int, int, int]) -> dict[str, str]:
    """Return the functions that may precede a kernel, by the prefix of their use."""
    x, y, _ = cube
    lanes = "__builtin_amdgcn_mbcnt_lo(~0u, 0u)"
    if wave == 64:
        lanes = f"__builtin_amdgcn_mbcnt_hi(~0u, {lanes})"
    unit = "__builtin_amdgcn_workitem_id_{}()"
    index = f"{unit.format('x')} + {x} * ({unit.format('y')} + {y} * {unit.format('z')})"
    made = dict(VECTOR_PIECES)
    for axis, size in zip("xyz", cube, strict=True):
        made[f"cubes_{axis}("] = (
            f"{INLINE} unsigned int cubes_{axis}() {{\n"
            f"  return __builtin_amdgcn_grid_size_{axis}() / {size};\n}}\n"
        )
    made["lane_of_plane("] = f"{INLINE} unsigned int lane_of_plane() {{\n  return {lanes};\n}}\n"
    made["plane_of_cube("] = (
        f"{INLINE} unsigned int plane_of_cube() {{\n  return ({index}) / {wave};\n}}\n"
    )
    for group, scope, wait in (
        ("cube", "workgroup", "__builtin_amdgcn_s_barrier"),
        ("plane", "wavefront", "__builtin_amdgcn_wave_barrier"),
    ):
        made[f"meet_{group}("] = (
            f"{INLINE} void meet_{group}() {{\n"
            f'  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "{scope}");\n  {wait}();\n'
            f'  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "{scope}");\n}}\n'
        )
    made["from_lane("] = (
        f"template <class T> {INLINE} T from_lane(T x, unsigned int lane) {{\n"
        "  int parts[sizeof(T) / 4];\n  __builtin_memcpy(parts, &x, sizeof x);\n#pragma unroll\n"
        "  for (int i = 0; i < sizeof(T) / 4; i++)\n"
        "    parts[i] = __builtin_amdgcn_ds_bpermute((int)(lane << 2), parts[i]);\n"
        "  __builtin_memcpy(&x, parts, sizeof x);\n  return x;\n}\n"
    )
    for kind, lane in (
        ("index", "n"),
        ("xor", "lane_of_plane() ^ n"),
        ("up", "lane_of_plane() < n ? lane_of_plane() : lane_of_plane() - n"),
        ("down", f"lane_of_plane() + n < {wave} ? lane_of_plane() + n : lane_of_plane()"),
    ):
        made[f"shuffle_{kind}("] = (
            f"template <class T> {INLINE} T shuffle_{kind}(T x, unsigned int n) {{\n"
            f"  return from_lane(x, {lane});\n}}\n"
        )
    for kind in ("add", "min", "max", "and", "or", "xor", "exchange"):
        made[f"atomic_{kind}("] = _fetch(kind)
    made["atomic_compare("] = (
        f"template <class T, class U> {INLINE} T atomic_compare(T *p, U expected, U x) {{\n"
        "  T seen = (T)expected;\n"
        "  __hip_atomic_compare_exchange_strong(p, &seen, (T)x, __ATOMIC_RELAXED, "
        f"{_RELAXED});\n  return seen;\n}}\n"
    )
    return made
