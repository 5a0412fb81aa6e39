"""Kernels as text of Metal's language: golden files, and what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calor.dtypes import bfloat16, bool_, float16, float32, float64, int32, int64, uint32
from calor.errors import CompileError
from calor_kernel.language import (
    Buffer,
    absolute_position,
    fence,
    floor,
    fma,
    fragment,
    kernel,
    mma,
    plane_ballot,
    plane_reduce,
    plane_scan,
    plane_shuffle,
    unit_position,
)
from calor_kernel.language.matrices import SHAPES
from calor_kernel.printers import print_kernel
from calor_metal.dialect import Metal
from golden import assert_golden
from text_cases import arithmetic, kept_cases

GOLDEN = Path(__file__).parent / "golden"
F = Buffer(float32)


@kept_cases(64)
def test_a_golden_file(case: Any) -> None:
    assert_golden(GOLDEN / f"{case.name}.metal", print_kernel(case.kernel, Metal()))


TEXTS = [
    (float32, 1, "fma(x_, x_, x_)", lambda x: x * x + x),
    (float16, 1, "fma(x_, x_, (half)1.0f)", lambda x: x * x + 1.0),
    (bfloat16, 1, "(bfloat)0.5f", lambda x: x * 0.5),
    (bfloat16, 1, "(bfloat)floor((float)x[0])", lambda x: floor(x)),
    (int32, 2, "float2((float)t1.x, (float)t1.y)", lambda x: x.to(float32)),
    (float32, 4, "float4(*(device const packed_float4 *)(x + 0))", lambda x: x),
    (bool_, 4, "bool4(uchar4(*(device const packed_uchar4 *)(x + 0)))", lambda x: x),
]


@pytest.mark.parametrize(("dtype", "width", "text", "function"), TEXTS, ids=[t[2] for t in TEXTS])
def test_an_operation(dtype: Any, width: int, text: str, function: Any) -> None:
    result = float32 if "float2(" in text else dtype
    read = Buffer(dtype, writable=False)
    built = arithmetic.build([read, Buffer(result)], function=function, width=width)
    assert text in print_kernel(built, Metal())


@kernel
def planes(x: Any, y: Any, z: Any) -> None:
    i = unit_position()
    total = plane_reduce("add", x[i])
    scanned = plane_scan("max", x[i], exclusive=True)
    y[i] = total + scanned + plane_shuffle(x[i], 1, "up")
    z[i] = plane_reduce("min", z[i]) + plane_ballot(x[i] > 0.0).to(uint32)


def test_planes_are_simdgroups() -> None:
    text = print_kernel(planes.build([F, F, Buffer(uint32)], cube=(64, 1, 1), plane=32), Metal())
    assert "uint lane [[thread_index_in_simdgroup]]" in text
    assert "x = x + simd_shuffle_xor(x, 8);" in text
    assert "plane_exclusive_scan_max_float32(" in text
    assert "simd_min(" in text
    assert "(simd_vote::vote_t)simd_ballot(" in text
    with pytest.raises(CompileError, match="no planes of 16"):
        print_kernel(planes.build([F, F, Buffer(uint32)], cube=(32, 1, 1), plane=16), Metal())


def test_a_fence_is_one_of_both_memories() -> None:
    @kernel
    def fenced(x: Any) -> None:
        x[0] = 1.0
        fence()
        x.store(1, 2.0, order="release")
        x[2] = x.load(1, order="acquire")

    text = print_kernel(fenced.build([F]), Metal())
    both = "mem_flags::mem_device | mem_flags::mem_threadgroup"
    assert (
        text.count(f"atomic_thread_fence({both}, memory_order_seq_cst, thread_scope_device);") == 3
    )
    assert "*(device volatile float *)&x[1] = 2.0f;" in text


def test_products_of_fragments_are_those_of_simdgroup_matrices() -> None:
    @kernel
    def product(a: Any, b: Any, c: Any, *, shape: Any) -> None:
        total = fragment(shape, "c")
        left = fragment(shape, "a").load(a, (8, 1))
        right = fragment(shape, "b").load(b, (8, 1))
        mma(left, right, total)
        total.store(c, (8, 1))

    def text(name: str) -> str:
        shape = SHAPES[name]
        half = Buffer(shape.a_dtype)
        options: Any = {"cube": (32, 1, 1), "plane": 32, "features": frozenset({"matrix"})}
        return print_kernel(product.build([half, half, F], shape=shape, **options), Metal())

    assert "A.thread_elements()[1] = (float)a.y;" in text("simdgroup_8x8x8_float16")
    assert "simdgroup_multiply_accumulate(D, A, B, C);" in text("simdgroup_8x8x8_float32")
    with pytest.raises(CompileError, match="no matrix instruction mma_16x8x16_float16"):
        text("mma_16x8x16_float16")


def test_what_metal_lacks_is_refused() -> None:
    doubles = arithmetic.build([Buffer(float64)] * 2, function=lambda x: x * x)
    with pytest.raises(CompileError, match="no arithmetic of float64"):
        print_kernel(doubles, Metal())
    fused = arithmetic.build([Buffer(bfloat16)] * 2, function=lambda x: fma(x, x, x))
    with pytest.raises(CompileError, match="no fused multiply-add of bfloat16"):
        print_kernel(fused, Metal())

    @kernel
    def counted(x: Any) -> None:
        x.atomic("add", 0, 1)

    with pytest.raises(CompileError, match="no atomics on int64 in global memory"):
        print_kernel(counted.build([Buffer(int64)]), Metal())
    text = print_kernel(counted.build([Buffer(uint32)]), Metal())
    assert (
        "atomic_fetch_add_explicit((device atomic_uint *)&x[0], (uint)1u, memory_order_relaxed)"
        in text
    )

    many = arithmetic.build([F, F], function=lambda x: x)
    apart = (replace(p, name=f"{p.name}{i}") for i in range(257) for p in many.parameters)
    long = replace(many, parameters=tuple(apart))
    with pytest.raises(CompileError, match="no kernels of 514 arguments"):
        print_kernel(long, Metal())

    @kernel
    def told(x: Any) -> None:
        print(x[absolute_position()])

    with pytest.raises(CompileError, match="Metal has no prints"):
        print_kernel(told.build([F], features=frozenset(("debug",))), Metal())
