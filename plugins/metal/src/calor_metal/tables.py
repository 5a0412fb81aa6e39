"""Words and templates of the Metal Shading Language.

Requirements: templates contain no implementation-defined behaviour; the common printer's functions
in plain C cover it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from calor.dtypes import bfloat16, float16
from calor_kernel.printers.dialect import SHORT_NAMES, words

TYPES: Final = MappingProxyType({**SHORT_NAMES, float16: "half", bfloat16: "bfloat"})
SPACES: Final = MappingProxyType({"global": "device", "shared": "threadgroup", "private": "thread"})
SUFFIXES: Final = MappingProxyType(
    {"float16": "f", "bfloat16": "f", "float32": "f", "uint32": "u", "uint64": "ul"}
)
POSITIONS: Final = MappingProxyType(
    {
        "cube_position": "cube.{}",
        "cube_count": "cubes.{}",
        "unit_position": "unit.{}",
        "lane_position": "lane",
        "plane_position": "plane",
    }
)
ATTRIBUTES: Final = (
    "uint3 cube [[threadgroup_position_in_grid]]",
    "uint3 cubes [[threadgroups_per_grid]]",
    "uint3 unit [[thread_position_in_threadgroup]]",
    "uint lane [[thread_index_in_simdgroup]]",
    "uint plane [[simdgroup_index_in_threadgroup]]",
)
SCOPES: Final = MappingProxyType(
    {"unit": "thread", "plane": "simdgroup", "cube": "threadgroup", "warpgroup": "threadgroup"}
)
BOTH: Final = "mem_flags::mem_device | mem_flags::mem_threadgroup"
HEADER: Final = """#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

"""
_ROUNDED: Final = ("floor", "ceil", "trunc", "rint")
TEMPLATES: Final = MappingProxyType(
    {
        "abs float": "fabs({0})",
        "fma float16": "fma({0}, {1}, {2})",
        "fma float32": "fma({0}, {1}, {2})",
        "copysign": "copysign({0}, {1})",
        **{name: f"{name}({{0}})" for name in _ROUNDED},
        "sqrt float16": "sqrt({0})",
        "sqrt float32": "precise::sqrt({0})",
        # bfloat has operators only. Through float these functions are exact, or round once.
        "abs bfloat16": "(bfloat)fabs((float){0})",
        "copysign bfloat16": "(bfloat)copysign((float){0}, (float){1})",
        **{f"{name} bfloat16": f"(bfloat){name}((float){{0}})" for name in _ROUNDED},
        "sqrt bfloat16": "(bfloat)precise::sqrt((float){0})",
        **{f"{f} {d}": f"{f}({{0}}, {{1}})" for f in ("min", "max") for d in ("int32", "uint32")},
        **{f"{f} {d}": f"{f}({{0}})" for f in ("clz", "popcount") for d in ("int32", "uint32")},
        "mulhi int32": "mulhi({0}, {1})",
        "mulhi uint32": "mulhi({0}, {1})",
    }
)
RESERVED: Final = words(
    "Arguments access alignas arguments array as_type asm atomic bfloat catch class "
    "clamp constant constexpr cross cube cubes decltype delete device discard distance "
    "explicit fract fragment friend half imageblock kernel lane length level matrix mem_flags "
    "metal mix mutable namespace new noexcept normalize nullptr object operator packed patch plane "
    "precise private protected public ptrdiff_t quad ray_data reflect rotate sampler saturate sign "
    "simdgroup sincos size_t smoothstep static_assert static_cast step template texture this "
    "thread thread_local threadgroup threadgroup_barrier throw try typeid typename uchar uint "
    "ulong unit ushort using vec vertex virtual visible wchar_t"
)
