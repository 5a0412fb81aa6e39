"""Text tables of C++ for GPUs: types, spaces, vectors, and the prelude.

Requirements: a kernel's text begins with exactly the declarations that it uses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from calor.dtypes import (
    DType,
    bool_,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from calor_kernel.printers.dialect import words

_INTEGERS: Final = MappingProxyType(
    {
        int8: "signed char",
        int16: "short",
        int32: "int",
        int64: "long long",
        uint8: "unsigned char",
        uint16: "unsigned short",
        uint32: "unsigned int",
        uint64: "unsigned long long",
    }
)
TYPES: Final[Mapping[DType, str]] = MappingProxyType(
    {bool_: "bool", float32: "float", float64: "double"} | {d: d.name for d in _INTEGERS}
)
RESERVED: Final = words(
    "alignas alignof and and_eq asm assert atomicAdd atomicAnd atomicCAS atomicExch atomicMax "
    "atomicMin atomicOr atomicXor bitand bitor blockDim blockIdx catch char16_t char32_t class "
    "compl concept const_cast constexpr decltype delete dynamic_cast explicit export false friend "
    "gather gridDim j0 j1 jn lane_of_plane lanes launched_memory mutable namespace new noexcept "
    "norm not not_eq nullptr operator or or_eq plane_of_cube prefetch private protected public "
    "reinterpret_cast requires rnorm scatter static_assert static_cast template this thread_local "
    "tensor_map threadIdx throw try typeid typename using virtual warpSize wchar_t xor xor_eq y0 "
    "y1 yn"
) | {f"launched_map_{i}" for i in range(8)}
# A pointer type has no address space.
SPACES: Final = MappingProxyType(dict.fromkeys(("global", "shared", "private"), ""))
INLINE: Final = "__device__ __forceinline__"
_LANES: Final = "sizeof(V) / sizeof(V::v[0])"
# Functions printed before a kernel that uses them, by the start of their call.
VECTOR_PIECES: Final = MappingProxyType(
    {
        "gather<": f"template <class V, class T> {INLINE} V gather(const T *p) {{\n  V y;\n"
        f"#pragma unroll\n  for (int i = 0; i < {_LANES}; i++) y.v[i] = p[i];\n  return y;\n}}\n",
        "scatter(": f"template <class V, class T> {INLINE} void scatter(T *p, V x) {{\n"
        f"#pragma unroll\n  for (int i = 0; i < {_LANES}; i++) p[i] = x.v[i];\n}}\n",
        "lanes<": f"template <class V, class W> {INLINE} V lanes(W x) {{\n  V y;\n"
        f"#pragma unroll\n  for (int i = 0; i < {_LANES}; i++) y.v[i] = x.v[i];\n  return y;\n}}\n",
    }
)
_VECTORS: Final = MappingProxyType({d.name: (name, d.itemsize) for d, name in TYPES.items()})


def prelude(used: str, pieces: Mapping[str, str]) -> str:
    """Return the declarations that a text uses: integers, vectors, and functions of pieces.

    A piece may use earlier pieces.
    """
    chosen = []
    for key, piece in reversed(tuple(pieces.items())):
        if key in used:
            used += piece
            chosen.append(piece)
    found = sorted({(t, int(n)) for t, n in re.findall(r"\b([a-z]+\d*)x(\d+)\b", used)})
    made = [f"typedef {text} {dtype.name};\n" for dtype, text in _INTEGERS.items()]
    for name, lanes in found:
        if name in _VECTORS:
            type, size = _VECTORS[name]
            # Wider vectors are in registers; those with an odd number of parts are never in memory.
            align = min(size * lanes & -(size * lanes), 16)
            made.append(f"struct __align__({align}) {name}x{lanes} {{ {type} v[{lanes}]; }};\n")
    return f"{''.join((*made, *reversed(chosen)))}\n"
