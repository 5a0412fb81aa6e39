"""Kernels as OpenCL C: golden files, what depends on the device, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from calor.dtypes import (
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint32,
    uint64,
)
from calor.errors import CompileError
from calor_kernel.language import (
    Buffer,
    Layout,
    Pipeline,
    Scalar,
    Tile,
    barrier,
    fence,
    fma,
    helper,
    kernel,
    lane_position,
    plane_ballot,
    plane_position,
    plane_reduce,
    plane_scan,
    plane_shuffle,
    sqrt,
    unit_position,
)
from calor_kernel.printers import print_kernel
from calor_opencl.opencl_c import OpenCLC
from golden import assert_golden
from kernel_cases import sheet_case
from text_cases import arithmetic, kept_cases

GOLDEN = Path(__file__).parent / "golden"
F = Buffer(float32)


@kept_cases(8)
def test_a_golden_file(case: Any) -> None:
    assert_golden(GOLDEN / f"{case.name}.cl", print_kernel(case.kernel, OpenCLC()))


@helper
def lower(x: Any) -> Any:
    return min(x, x + 1.0)


DEVICES = [
    (float32, 1, {"fast_fma": True}, "fma(x_, x_, x_)", lambda x: x * x + x),
    (float32, 4, {"fast_fma": True}, "fma(x_, x_, x_)", lambda x: x * x + x),
    (float32, 1, {"fast_fma": False}, "x_ * x_ + x_", lambda x: x * x + x),
    (float32, 1, {"exact_sqrt": True}, "y[0] = sqrt(x[0])", lambda x: sqrt(x)),
    (float32, 4, {"exact_sqrt": False}, "convert_float4(sqrt(convert_double4(", lambda x: sqrt(x)),
    (float16, 1, {"half": True}, "x_ * x_ + (half)1.0f", lambda x: x * x + 1.0),
    (float16, 1, {"half": True}, "half min_float16(half a, half b) {", lower),
    (float16, 1, {"half": False}, "vload_half(0, (const half *)&h)", lambda x: x.to(float32)),
    (float32, 4, {}, "vload4(0, x + 0)", lambda x: x + x),
    (int32, 2, {}, "as_int2(as_uint2(x_) * as_uint2(x_) + as_uint2(x_))", lambda x: x * x + x),
    (float64, 2, {}, "convert_float2(", lambda x: x.to(float32)),
]


@pytest.mark.parametrize(
    ("dtype", "width", "has", "text", "function"), DEVICES, ids=[f"{d[3]}-{d[2]}" for d in DEVICES]
)
def test_a_device_gets_what_it_has(
    dtype: Any, width: int, has: Any, text: str, function: Any
) -> None:
    result = float32 if ".to" in text or "load_half(" in text or "convert_float2" in text else dtype
    built = arithmetic.build([Buffer(dtype), Buffer(result)], function=function, width=width)
    assert text in print_kernel(built, OpenCLC(**has))


@kernel
def planes(x: Any, y: Any) -> None:
    i = unit_position()
    total = plane_reduce("add", x[i])
    scanned = plane_scan("max", x[i], exclusive=True)
    y[i] = total + scanned + plane_shuffle(x[i], 1, "up")


def test_planes_are_made_of_shuffles() -> None:
    built = planes.build([F, F], cube=(32, 1, 1), plane=16)
    text = print_kernel(built, OpenCLC(subgroups="khr"))
    assert "__attribute__((intel_reqd_sub_group_size(16)))" in text
    assert "x = x + sub_group_shuffle_xor(x, (uint)8);" in text
    assert "intel_sub_group_shuffle_xor" in print_kernel(built, OpenCLC(subgroups="intel"))
    with pytest.raises(CompileError, match="no planes of 16|no subgroups that shuffle"):
        print_kernel(built, OpenCLC())


# What the lane of another unit's value is read by, of each dtype.
WARPS = [
    (bool_, {}, "warp_idx((uint)(x[unit_x] != 0), "),
    (int8, {}, "(char)warp_idx((uint)x[unit_x], "),
    (float16, {}, "(ushort)warp_idx((uint)x[unit_x], "),
    (float16, {"half": True}, "as_half((ushort)warp_idx((uint)as_ushort(x[unit_x]), "),
    (float32, {}, "as_float(warp_idx(as_uint(x[unit_x]), "),
    (float64, {}, "as_double(warp_idx_64(as_ulong(x[unit_x]), "),
    (int64, {}, "as_long(warp_idx_64(as_ulong(x[unit_x]), "),
]


@pytest.mark.parametrize(
    ("dtype", "has", "text"), WARPS, ids=[f"{d.name}{'-half' * len(h)}" for d, h, _ in WARPS]
)
def test_warps_shuffle_by_assembly(dtype: Any, has: Any, text: str) -> None:
    @kernel
    def moved(x: Any, y: Any) -> None:
        i = unit_position()
        y[i] = plane_shuffle(x[i], lane_position() + plane_position())

    built = moved.build([Buffer(dtype)] * 2, cube=(64, 1, 1), plane=32)
    made = print_kernel(built, OpenCLC(subgroups="ptx", **has))
    assert text in made
    assert "reqd_sub_group_size" not in made
    # What it uses stands before it, and what that uses, and no more.
    assert made.count("static inline") == 3 + (dtype.itemsize == 8)
    assert made.index("uint warp_idx(uint x") < made.index(text)
    with pytest.raises(CompileError, match="no planes of 16"):
        print_kernel(
            moved.build([Buffer(dtype)] * 2, cube=(64, 1, 1), plane=16),
            OpenCLC(subgroups="ptx", **has),
        )


def test_warps_vote_and_meet_by_assembly() -> None:
    @kernel
    def voted(x: Any, y: Any) -> None:
        i = unit_position()
        y[i] = plane_ballot(x[i] > 0.0)
        barrier("plane")
        y[i] = y[i] + plane_shuffle(y[i], 1, "up") + plane_shuffle(y[i], 2, "down")
        y[i] = y[i] + plane_shuffle(y[i], 4, "xor")

    built = voted.build([F, Buffer(uint64)], cube=(32, 1, 1), plane=32)
    assert_golden(GOLDEN / "warps.cl", print_kernel(built, OpenCLC(subgroups="ptx")))


@pytest.mark.parametrize(("subgroups", "first"), [("ptx", 2), ("", 0)])
def test_loads_are_ahead_of_stores_where_a_compiler_leaves_them(subgroups: str, first: int) -> None:
    """NVIDIA's compiler does not move a load in front of a store to another buffer."""

    @kernel
    def doubled(x: Any, y: Any) -> None:
        for part in range(3):
            y[part] = x[part] * 2

    text = print_kernel(doubled.build([F, F]), OpenCLC(subgroups=subgroups))
    assert text[: text.index("y[0] =")].count("= x[") == first


def test_a_fence_is_one_of_both_memories() -> None:
    @kernel
    def fenced(x: Any) -> None:
        x[0] = 1.0
        fence()
        x.store(1, 2.0, order="release")
        x[2] = x.load(1, order="acquire")

    text = print_kernel(fenced.build([F]), OpenCLC())
    assert text.count("mem_fence(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);") == 3
    text = print_kernel(fenced.build([F]), OpenCLC(subgroups="ptx", fences=True))
    assert text.count('asm volatile("fence.acq_rel.gpu;" ::: "memory");') == 3
    assert "*(__global volatile float *)&x[1] = 2.0f;" in text


def test_copies_to_local_memory_are_asynchronous_by_assembly() -> None:
    @kernel
    def copied(x: Any, y: Any, n: Any) -> None:
        i = unit_position()
        pipe = Pipeline(2, Tile(float32, Layout((128,), (1,))), how="async")
        pipe.acquire()
        pipe.copy(0, i * 2, x, i * 2, 2, mask=i < n)
        pipe.commit()
        pipe.wait(0)
        y[i] = pipe.stage(0)[i + 1]

    given = [F, F, Scalar(int64)]
    built = copied.build(given, cube=(64, 1, 1), features=frozenset({"async_copy", "barrier"}))
    text = print_kernel(built, OpenCLC(subgroups="ptx", copies=True))
    function = "static inline void copy_async_8(__local void *to, __global const void *of, uint"
    assert text.count(function) == 1
    assert '"cp.async.ca.shared.global [%0], [%1], 8, %2;" : : "r"((uint)(size_t)to)' in text
    assert "unit_x < n ? 8 : 0);" in text
    order = [text.index(word) for word in ("? 8 : 0", "commit_group;", "wait_group 0;", "barrier(")]
    assert order == sorted(order)
    # Without assembly the copy is done when it is asked for.
    plain = print_kernel(built, OpenCLC())
    assert "cp.async" not in plain
    assert "? x[" in plain


@pytest.mark.parametrize("width", [1, 2, 4])
def test_extremes_and_roundings_are_instructions_by_assembly(width: int) -> None:
    @kernel
    def made(x: Any, y: Any, z: Any) -> None:
        given = x.load(0, width)
        y.store(0, max(given, y.load(0, width)))
        z.store(0, min(given, 0.0).to(bfloat16))

    built = made.build([F, F, Buffer(bfloat16)])
    text = print_kernel(built, OpenCLC(subgroups="ptx", extremes=True))
    for name in ("max", "min"):
        assert text.count(f'asm("{name}.NaN.f32 %0, %1, %2;" : "=f"(y)') == 1
    pairs, single = text.count("cvt.rn.bf16x2.f32"), text.count("cvt.rn.bf16.f32")
    assert (pairs, single) == (width // 2, width % 2)
    # The upper half of a pair is its first operand.
    assert (': "f"(x.s1), "f"(x.s0));' in text) == (width > 1)
    assert "asm" not in print_kernel(built, OpenCLC(subgroups="ptx"))


def test_halves_compute_where_the_device_does() -> None:
    case = sheet_case(int8)
    assert "cl_khr_fp16" not in print_kernel(case.kernel, OpenCLC(half=False))
    assert "cl_khr_fp16 : enable" in print_kernel(case.kernel, OpenCLC(half=True))


REFUSED = [
    (float16, {}, lambda x: x * x, "no arithmetic of float16"),
    (float64, {"double": False}, lambda x: fma(x, x, x), "float64"),
]


@pytest.mark.parametrize(
    ("dtype", "has", "function", "message"), REFUSED, ids=["float16", "float64"]
)
def test_what_a_device_lacks_is_refused(dtype: Any, has: Any, function: Any, message: str) -> None:
    built = arithmetic.build([Buffer(dtype)] * 2, function=function)
    with pytest.raises(CompileError, match=message):
        print_kernel(built, OpenCLC(**has))


def test_small_integers_have_no_atomics() -> None:
    @kernel
    def small(x: Any) -> None:
        x.atomic("add", 0, 1)

    with pytest.raises(CompileError, match="no atomics on int8 in global memory"):
        print_kernel(small.build([Buffer(int8)]), OpenCLC())
    assert "atomic_add(&x[0], (uint)1u)" in print_kernel(small.build([Buffer(uint32)]), OpenCLC())


def test_prints_and_assertions_are_of_debug_builds() -> None:
    @kernel
    def told(x: Any) -> None:
        v = x.load(0, 2)
        print("100%", v, "and", x[2])
        assert x[2] > 0.0, "no {positive} number"

    assert "printf" not in print_kernel(told.build([F]), OpenCLC())
    text = print_kernel(told.build([F], features=frozenset(("debug",))), OpenCLC())
    form = '"100%% [%.9g %.9g] and %.9g\\n"'
    assert f"printf({form}, (double)x_.s0, (double)x_.s1, (double)x_1);" in text
    assert "no {positive} number" in text
