"""Kernels as CUDA C++: golden files, what stands for the language's operations, what is refused."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from calor.dtypes import bfloat16, bool_, float16, float32, float64, int8, int32, int64, uint32
from calor.errors import CompileError
from calor_cuda.cuda_cpp import CudaCpp
from calor_cuda.cuda_cpp.warpgroups import Placed, placed_of
from calor_kernel.language import (
    Buffer,
    Layout,
    Scalar,
    Swizzle,
    Swizzled,
    arrive,
    barrier,
    fence,
    fma,
    kernel,
    plane_ballot,
    plane_reduce,
    plane_shuffle,
    selected,
    shared,
    sqrt,
    unit_position,
)
from calor_kernel.language.tensor_maps import Mbarriers
from calor_kernel.library.gemm.mma import MmaPlan
from calor_kernel.library.matmul.staged_mma import matmul_mma
from calor_kernel.printers import print_kernel
from golden import assert_golden
from text_cases import arithmetic, kept_cases

GOLDEN = Path(__file__).parent / "golden"
F = Buffer(float32)


@kept_cases(8)
def test_a_golden_file(case: Any) -> None:
    assert_golden(GOLDEN / f"{case.name}.cu", print_kernel(case.kernel, CudaCpp()))


TEXTS = [
    (float32, float32, 1, "y[0] = __fmaf_rn(x_, x_, x_);", lambda x: x * x + x),
    (float32, float32, 4, "*(float32x4 *)(y + 0) = ", lambda x: x + x),
    (float32, float32, 1, "y[0] = __fsqrt_rn(x[0]);", lambda x: sqrt(x)),
    (float32, float32, 1, "-__int_as_float(0x7f800000)", lambda x: x + float("-inf")),
    (float64, float64, 2, "__fma_rn(", lambda x: fma(x, x, x)),
    (float16, float32, 1, 'asm("cvt.f32.f16 %0, %1;"', lambda x: x.to(float32)),
    (float32, bfloat16, 1, 'asm("cvt.rn.bf16.f32 %0, %1;"', lambda x: x.to(bfloat16)),
    (float32, float32, 1, "min.NaN.f32", lambda x: x.builder.binary("min", x, 1.0)),
    (int32, int32, 2, "struct __align__(8) int32x2 { int32 v[2]; };", lambda x: x * x),
    (bool_, bool_, 4, "lanes<boolx4>(*(const uint8x4 *)(x + 0))", lambda x: ~x),
]


@pytest.mark.parametrize(
    ("dtype", "result", "width", "text", "function"), TEXTS, ids=[t[3][:24] for t in TEXTS]
)
def test_what_stands_for_an_operation(
    dtype: Any, result: Any, width: int, text: str, function: Any
) -> None:
    signature = [Buffer(dtype, align=16), Buffer(result, align=16)]
    built = arithmetic.build(signature, function=function, width=width)
    assert text in print_kernel(built, CudaCpp())


def test_unaligned_vectors_are_read_lane_by_lane() -> None:
    built = arithmetic.build([F, F], function=lambda x: x + x, width=4)
    text = print_kernel(built, CudaCpp())
    assert "gather<float32x4>(x + 0)" in text
    assert "scatter(y + 0, " in text


@kernel
def turns(x: Any, n: Any) -> None:
    full = Mbarriers(2, 1)
    for i in range(n):
        full.wait(0, i & 1)
        x[i] = 1.0
    for i in range(n):
        x[i] = x[i] * 2.0


def test_loops_that_wait_for_copies_are_not_unrolled() -> None:
    features = frozenset({"barrier", "mbarrier"})
    built = turns.build([F, Scalar(int64)], cube=(32, 1, 1), features=features)
    waiting, other = print_kernel(built, CudaCpp()).split("for (")[:2]
    assert waiting.endswith("#pragma unroll 1\n  ")
    assert "barrier_wait" in other
    assert "unroll" not in other


@kernel
def together(x: Any, y: Any) -> None:
    i = unit_position()
    total = plane_reduce("add", x[i]) + plane_shuffle(x[i], 1, "up")
    arrive(1, 64)
    barrier(name=1, count=64)
    barrier("plane")
    fence("cube")
    fence()
    y[i] = total.to(int64) + plane_ballot(x[i] > 1).to(int64)


def test_units_together() -> None:
    built = together.build([Buffer(int32), Buffer(int64)], cube=(32, 1, 1), plane=32)
    text = print_kernel(built, CudaCpp())
    for part in (
        "__reduce_add_sync(0xffffffffu, ",
        "__shfl_up_sync(0xffffffffu, ",
        "__ballot_sync(0xffffffffu, ",
        '"bar.arrive 1, 64;"',
        '"bar.sync 1, 64;"',
        "__syncwarp();",
        '__threadfence_block();\n  asm volatile("fence.acq_rel.gpu;" ::: "memory");',
        "__launch_bounds__(32)",
    ):
        assert part in text
    floats = together.build([F, Buffer(int64)], cube=(32, 1, 1), plane=32)
    assert "x = x + __shfl_xor_sync(0xffffffffu, x, 16);" in print_kernel(floats, CudaCpp())


@kernel
def chosen(x: Any, y: Any, n: Any) -> None:
    one = selected([x, y], n)
    y[0] = one[0]


def test_a_pointer_to_written_memory_takes_memory_that_is_only_read() -> None:
    built = chosen.build([Buffer(float32, writable=False), F, Scalar(int32)])
    text = print_kernel(built, CudaCpp())
    assert "case 0: x_selected = (float *)x; break;" in text
    assert "default: x_selected = y;" in text


def product(function: Any, plan: Any, features: str) -> str:
    size = Scalar(int64, divisible=8, nonnegative=True)
    read = Buffer(plan.dtype, writable=False, align=16)
    built = function.build(
        [read, read, Buffer(float32, align=16), *[size] * 12],
        cube=(plan.units, 1, 1),
        plane=32,
        features=frozenset(f"barrier planes async_copy fma {features}".split()),
        counts=(0,),
        plan=plan,
    )
    return print_kernel(built, CudaCpp())


def test_matrix_instructions() -> None:
    text = product(
        matmul_mma, MmaPlan(float16, 64, 64, 32, 2, 1, 3, True, False), "matrix load_matrix"
    )
    for part in (
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
        "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16",
        "cp.async.cg.shared.global [%0], [%1], 16, %2;",
        "cp.async.wait_group 1;",
    ):
        assert part in text
    assert "fence.proxy" not in text
    groups = MmaPlan(bfloat16, 128, 64, 64, 8, 1, 3, True, False, True)
    text = product(matmul_mma, groups, "async_matrix")
    for part in (
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16",
        "wgmma.wait_group.sync.aligned 0;",
        "fence.proxy.async.shared::cta;",
    ):
        assert part in text
    assert text.count('"wgmma.fence.sync.aligned;"') == 1


SWIZZLE = Swizzle(3, 3, 3)
PARTED = Layout(((64, 2), 16), ((1, 4096), 64))
LIES = [
    (Swizzled(SWIZZLE, Layout((64, 16), (64, 1))), (64, 16), Placed(16, 1024, False)),
    (
        Swizzled(SWIZZLE, Layout(((64, 2), 16), ((1, 4096), 64))),
        (128, 16),
        Placed(8192, 1024, True),
    ),
    (Swizzled(SWIZZLE, Layout((64, 16), (32, 1))), (64, 16), None),
    (Swizzled(Swizzle(2, 3, 3), Layout((64, 16), (64, 1))), (64, 16), None),
    (Layout((64, 16), (64, 1)), (64, 16), None),
]


@pytest.mark.parametrize(("at", "extent", "wanted"), LIES, ids=[str(lie[0]) for lie in LIES])
def test_how_a_factor_lies(at: Any, extent: tuple[int, int], wanted: Any) -> None:
    assert placed_of(at, extent, 1, bfloat16) == wanted


@pytest.mark.parametrize("seed", range(8))
def test_every_element_of_a_factor_lies_where_its_descriptor_says(seed: int) -> None:
    drawn = Random(seed)
    lines, dense = 8 * drawn.randint(1, 8), 64 * drawn.randint(1, 4)
    block, chunk = 64 * 8 * drawn.randint(1, 3), 64 * lines * drawn.randint(1, 3)
    shape = ((64, dense // 64), (8, lines // 8))
    layout = Layout(shape, ((1, chunk), (64, block)))
    turned = Layout(shape[::-1], layout.stride[::-1])
    for at, extent, axis in ((layout, (dense, lines), 0), (turned, (lines, dense), 1)):
        found = placed_of(Swizzled(SWIZZLE, at), extent, axis, bfloat16)
        along = 2 * chunk if dense > 64 else 16
        across = 2 * block if lines > 8 else 2 * 8 * 64
        assert found == Placed(along, across, False)
        assert placed_of(Swizzled(SWIZZLE, at), extent, 1 - axis, bfloat16) == replace(
            found, transposed=True
        )
    # One mode that lies elsewhere is found, on either axis.
    for place, stride in ((0, 2), (1, 65)):
        strides = [[1, chunk], [64, block]]
        strides[place][0] = stride
        other = Layout(shape, tuple(map(tuple, strides)))
        assert placed_of(Swizzled(SWIZZLE, other), (dense, lines), 0, bfloat16) is None


@kernel
def small(x: Any) -> None:
    x.atomic("add", 0, 1)


def test_what_there_is_not_is_refused() -> None:
    halves = arithmetic.build([Buffer(float16)] * 2, function=lambda x: x * x)
    with pytest.raises(CompileError, match="no arithmetic of float16"):
        print_kernel(halves, CudaCpp())
    with pytest.raises(CompileError, match="no atomics on int8 in global memory"):
        print_kernel(small.build([Buffer(int8)]), CudaCpp())
    assert "atomicAdd(&x[0], (uint32)1u)" in print_kernel(small.build([Buffer(uint32)]), CudaCpp())

    @kernel
    def narrow(x: Any) -> None:
        x[0] = plane_reduce("add", x[unit_position()])

    with pytest.raises(CompileError, match="no planes of 16"):
        print_kernel(narrow.build([F], cube=(16, 1, 1), plane=16), CudaCpp())


@kernel
def told(x: Any) -> None:
    aside = shared(4, float32)
    aside[0] = x[2]
    print("100%", x.load(0, 2), "and", aside[0])
    assert x[2] > 0.0, "no {positive} number"


def test_prints_and_assertions_are_of_debug_builds() -> None:
    assert "printf" not in print_kernel(told.build([F]), CudaCpp())
    text = print_kernel(told.build([F], features=frozenset(("debug",))), CudaCpp())
    assert 'printf("100%% [%.9g %.9g] and %.9g\\n", (double)x_.v[0]' in text
    assert "no {positive} number" in text
