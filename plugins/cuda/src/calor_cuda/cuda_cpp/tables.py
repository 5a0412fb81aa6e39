"""Text tables of CUDA C++: functions, positions, and instructions.

Requirements: every function has the results of :mod:`calor_kernel.ir.ops`; library functions with
other rounding are not listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from calor.dtypes import DType, bfloat16, float16, int32, uint32
from calor_cupy.gpu_cpp.tables import INLINE, VECTOR_PIECES

# Warp reductions with an instruction of their own.
REDUCED: Final = MappingProxyType(
    {
        int32: ("add", "min", "max"),
        uint32: ("add", "min", "max", "and", "or", "xor"),
    }
)
ATOMICS: Final = MappingProxyType(
    {
        "add": "atomicAdd",
        "min": "atomicMin",
        "max": "atomicMax",
        "and": "atomicAnd",
        "or": "atomicOr",
        "xor": "atomicXor",
        "exchange": "atomicExch",
        "compare": "atomicCAS",
    }
)
ALL_LANES: Final = "0xffffffffu"
FENCES: Final = MappingProxyType(
    dict.fromkeys(("unit", "plane", "warpgroup", "cube"), "_block") | {"system": "_system"}
)
# A kernel begins when the launch before it ends, and lets the next one get ready. One that waits
# itself lets the next one get ready first: all launches wait for those before, so none overtakes.
_WAIT: Final = '  asm volatile("griddepcontrol.wait;" ::: "memory");\n'
_LAUNCH: Final = '  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");\n'
AWAITED, READY, BEGIN = (
    f"#if __CUDA_ARCH__ >= 900\n{lines}#endif\n" for lines in (_WAIT, _LAUNCH, _WAIT + _LAUNCH)
)
# Of the sixteen named barriers, kernels use the first eight, warp groups the others.
BARRIERS: Final = MappingProxyType(
    {
        "plane": "__syncwarp();",
        "warpgroup": 'asm volatile("bar.sync %0, 128;" ::"r"(15 - plane_of_cube() / 4) '
        ': "memory");',
        "cube": "__syncthreads();",
        "cluster": 'asm volatile("barrier.cluster.arrive.release;\\n'
        'barrier.cluster.wait.acquire;" ::: "memory");',
    }
)
POSITIONS: Final = MappingProxyType(
    {
        "cube_position": "blockIdx.{}",
        "cube_count": "gridDim.{}",
        "unit_position": "threadIdx.{}",
        "lane_position": "lane_of_plane()",
        "plane_position": "plane_of_cube()",
    }
)


def _templates() -> dict[str, str]:
    made = {
        "abs float32": "fabsf({0})",
        "abs float64": "fabs({0})",
        "fma float32": "__fmaf_rn({0}, {1}, {2})",
        "fma float64": "__fma_rn({0}, {1}, {2})",
        "sqrt float32": "__fsqrt_rn({0})",
        "sqrt float64": "__dsqrt_rn({0})",
        "copysign float32": "copysignf({0}, {1})",
        "copysign float64": "copysign({0}, {1})",
        "mulhi int32": "__mulhi({0}, {1})",
        "mulhi uint32": "__umulhi({0}, {1})",
        "mulhi int64": "__mul64hi({0}, {1})",
        "mulhi uint64": "__umul64hi({0}, {1})",
    }
    for size, long in ((32, ""), (64, "ll")):
        for kind in ("int", "uint"):
            made[f"popcount {kind}{size}"] = f"({{T}})__popc{long}({{0}})"
            made[f"clz {kind}{size}"] = f"({{T}})__clz{long}({{0}})"
    for name in ("floor", "ceil", "trunc", "rint"):
        made[f"{name} float32"] = f"{name}f({{0}})"
        made[f"{name} float64"] = f"{name}({{0}})"
    return made


TEMPLATES: Final[Mapping[str, str]] = MappingProxyType(_templates())


def _assembly(name: str, result: str, parameters: str, code: str, to: str, of: str) -> str:
    inputs = ", ".join(f'"{of}"({p.split()[-1]})' for p in parameters.split(", "))
    return (
        f"static __device__ __forceinline__ {result} {name}({parameters}) {{\n  {result} y;\n"
        f'  asm("{code};" : "={to}"(y) : {inputs});\n  return y;\n}}'
    )


# Type names in instructions for types held as bits.
HALVES: Final = MappingProxyType({float16: "f16", bfloat16: "bf16"})


def rounded_pairs(dtype: DType, count: int, result: str, source: str) -> tuple[str, str]:
    """Return the name and text of a function that rounds a vector's lanes to halves."""
    name = f"{dtype.name}x{count}_of_float32"
    lines = "".join(
        f'  asm("cvt.rn.{HALVES[dtype]}x2.f32 %0, %1, %2;" : "=r"(w[{i}]) : '
        f'"f"(x.v[{2 * i + 1}]), "f"(x.v[{2 * i}]));\n'
        for i in range(count // 2)
    )
    return name, (
        f"static __device__ __forceinline__ {result} {name}({source} x) {{\n"
        f"  {result} y;\n  uint32 w[{count // 2}];\n{lines}"
        f"  memcpy(&y, w, sizeof y);\n  return y;\n}}"
    )


def widened_pairs(count: int, result: str, source: str) -> tuple[str, str]:
    """Return the name and text of a function that widens a vector of bfloat16 to float32."""
    name = f"float32x{count}_of_bfloat16"
    lines = "".join(
        f"  y.v[{2 * i}] = __uint_as_float(w[{i}] << 16);\n"
        f"  y.v[{2 * i + 1}] = __uint_as_float(w[{i}] & 0xffff0000u);\n"
        for i in range(count // 2)
    )
    return name, (
        f"static __device__ __forceinline__ {result} {name}({source} x) {{\n"
        f"  {result} y;\n  uint32 w[{count // 2}];\n  memcpy(w, &x, sizeof w);\n{lines}"
        f"  return y;\n}}"
    )


def _helpers() -> dict[str, tuple[str, str]]:
    pair, made = "float a, float b", {}
    for kind in ("min", "max"):
        # Negative zero is below positive zero; the result is NaN if an operand is (PTX 9.7.3).
        name = f"{kind}_float32"
        made[name] = _assembly(name, "float", pair, f"{kind}.NaN.f32 %0, %1, %2", "f", "f")
    wide, narrow = "float32_of_float16", "float16_of_float32"
    made[wide] = _assembly(wide, "float", "uint16 h", "cvt.f32.f16 %0, %1", "f", "h")
    made["of_float32_float16"] = _assembly(
        narrow, "uint16", "float x", "cvt.rn.f16.f32 %0, %1", "h", "f"
    )
    made["of_float32_bfloat16"] = _assembly(
        "bfloat16_of_float32", "uint16", "float x", "cvt.rn.bf16.f32 %0, %1", "h", "f"
    )
    return {key: (text.split("(")[0].split()[-1], text) for key, text in made.items()}


# Functions that replace C helpers, by the helper's name and its dtypes.
HELPERS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(_helpers())

PIECES: Final = MappingProxyType(
    {
        **VECTOR_PIECES,
        "prefetch(": f"template <class T> {INLINE} void prefetch(const T *p) {{\n"
        '  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));\n}\n',
        "lane_of_plane(": f"{INLINE} unsigned int lane_of_plane() {{\n  unsigned int y;\n"
        '  asm("mov.u32 %0, %%laneid;" : "=r"(y));\n  return y;\n}\n',
        "plane_of_cube(": f"{INLINE} unsigned int plane_of_cube() {{\n"
        "  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32;\n"
        "}\n",
    }
)
