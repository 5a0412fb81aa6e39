"""Kernels as WGSL: golden files, what depends on the adapter, and what is refused."""

import math
from pathlib import Path
from typing import Any

import pytest

from calor.dtypes import bfloat16, float16, float32, float64, int8, int32, int64, uint8, uint64
from calor.errors import CompileError
from calor_kernel.language import (
    Buffer,
    Scalar,
    absolute_position,
    barrier,
    cube_position,
    fence,
    fma,
    kernel,
    loop_range,
    modulo,
    plane_position,
    plane_reduce,
    plane_scan,
    plane_shuffle,
    select,
    shared,
    sqrt,
    unit_position,
)
from calor_kernel.library.math.base import exactly
from calor_wgpu.structs import struct_of
from calor_wgpu.wgsl import WGSL, print_wgsl
from golden import assert_golden
from text_cases import arithmetic, kept_cases

GOLDEN = Path(__file__).parent / "golden"
F = Buffer(float32)


@kept_cases(8)
def test_a_golden_file(case: Any) -> None:
    assert_golden(GOLDEN / f"{case.name}.wgsl", print_wgsl(case.kernel, WGSL()))


def unknown(bits: str) -> str:
    return f"bitcast<f32>({bits}u | u32(args.zero))"


REASSOCIATES = {"changes": "reassociates"}
HIDDEN = {"changes": "reassociates", "fused": False}
ADAPTERS = [
    (float32, {"fused": True}, "fma(x_, x_, x_)", lambda x: x * x + x),
    (float32, {"fused": False}, "x_ * x_ + x_", lambda x: x * x + x),
    (float32, REASSOCIATES, "fn_sub_float32(fn_sub_float32(x_, ", lambda x: x - 1.0 - 2.0),
    (float32, REASSOCIATES, f"fma(b, {unknown('0xbf800000')}, a)", lambda x: 1 - x),
    (float32, REASSOCIATES, f"fma(a, {unknown('0x3f800000')}, b)", lambda x: x + x),
    (float32, REASSOCIATES, f"fma(a, b, {unknown('0x80000000')})", lambda x: x * x),
    (float32, REASSOCIATES, unknown("0x0"), lambda x: x * 0.0),
    (float32, REASSOCIATES, unknown("0x7f800000"), lambda x: x - math.inf),
    (float32, REASSOCIATES, "bitcast<f32>(bitcast<u32>(a) ^ 2147483648u)", lambda x: -x),
    (float32, REASSOCIATES, "(~bitcast<u32>(a) & u32(args.zero))", lambda x: x / 3.0),
    (float64, REASSOCIATES, "(~bitcast<u64>(a) & u64(args.zero))", lambda x: x / 3.0),
    (float64, REASSOCIATES, "(0x8000000000000000lu | u64(args.zero))", lambda x: x * x),
    (
        float32,
        REASSOCIATES,
        "!(x_ == fn_exact_float32(x_))",
        lambda x: (x != x).to(float32),
    ),
    (
        float32,
        REASSOCIATES,
        "(x_ > fn_exact_float32(2.0f))",
        lambda x: select(x > 2.0, 2.0, x),
    ),
    (float32, HIDDEN, "fn_exact_float32(x_ - fn_exact_float32(1.0f))", lambda x: x - 1.0),
    (float32, HIDDEN, "bitcast<f32>(bitcast<u32>(x) | u32(args.zero))", lambda x: x + x),
    (int32, HIDDEN, "(x_) ^ 0x80000000u)", lambda x: x.to(int64).to(int32)),
    (int32, REASSOCIATES, "i64(x_)", lambda x: x.to(int64).to(int32)),
    (float32, REASSOCIATES, "= fma(x_, x_, x_);", lambda x: fma(x, x, x)),
    (float32, REASSOCIATES, "= fma(x_, x_, x_);", lambda x: x * x + x),
    (float32, REASSOCIATES, "fn_sub_float32(fma(x_, x_, x_), 1.0f)", lambda x: fma(x, x, x) - 1.0),
    (float32, {"changes": "contracts"}, "fma(x_, x_, x_)", lambda x: x * x + x),
    (float32, {"rounded": False}, "return f32(f64(a) / f64(b));", lambda x: x / (x + 1.0)),
    (
        float32,
        {"rounded": False},
        "return fma(fma(-b, better, a), inverse, better);",
        lambda x: x / (x + 1.0),
    ),
    (float32, {"rounded": False, "double": False}, "fma(-s, s, x)", lambda x: sqrt(x)),
    (float32, {"changes": "contracts"}, "= x_ * (x_ * x_);", exactly(lambda x: x * (x * x))),
    (
        float32,
        {"changes": "contracts"},
        "select(x_, fn_mul_float32(x_, x_), (x_ > 0.0f)) + 1.0f",
        exactly(lambda x: select(x > 0.0, x * x, x) + 1.0),
    ),
    (int32, {}, "return a - a / b * b;", lambda x: modulo(x, x + 1)),
    (float32, {}, "!(x_ == x_)", lambda x: (x != x).to(float32)),
    (float32, {}, "bitcast<f32>(0x7f800000u)", lambda x: x + float("inf")),
    (int32, {}, "(-2147483647i - 1i)", lambda x: x + (-(2**31))),
    (int8, {}, "extractBits(i32(t1 * t1), 0u, 8u)", lambda x: x * x),
    (float16, {}, "fn_float32_of_float16(", lambda x: x.to(float32)),
    (bfloat16, {}, "return bitcast<f32>(", lambda x: x.to(float32)),
    (int64, {"wide": True}, "array<i64>", lambda x: x + 1),
    (float64, {}, "x_ * 2.0lf", lambda x: x * 2.0),
]


@pytest.mark.parametrize(
    ("dtype", "has", "text", "function"), ADAPTERS, ids=[f"{d[2]}-{d[1]}" for d in ADAPTERS]
)
def test_an_adapter_gets_what_it_has(dtype: Any, has: Any, text: str, function: Any) -> None:
    result = float32 if dtype in (float16, bfloat16) else dtype
    built = arithmetic.build([Buffer(dtype), Buffer(result)], function=function)
    assert text in print_wgsl(built, WGSL(**has))


def test_indices_are_of_32_bits_where_there_are_no_others() -> None:
    @kernel
    def filled(x: Any, n: Any) -> None:
        i = cube_position()
        if i < n:
            x[i] = 1.0

    text = print_wgsl(filled.build([F, Scalar(int64, nonnegative=True)]), WGSL(wide=False))
    assert "a1: i32," in text
    assert "i64" not in text
    limited = arithmetic.build([F, F], function=lambda x: x.to(int64).to(float32))
    with pytest.raises(CompileError, match="64-bit integers on this adapter, such as 9223"):
        print_wgsl(limited, WGSL(wide=False))
    words = arithmetic.build([Buffer(uint64)] * 2, function=lambda x: x + 1)
    with pytest.raises(CompileError, match="no values of uint64"):
        print_wgsl(words, WGSL(wide=False, double=False))


def test_elements_that_share_words_are_set_bit_by_bit_unless_a_word_is_written_whole() -> None:
    bytes_ = Buffer(uint8, align=4)
    copied = arithmetic.build([bytes_, bytes_], function=lambda x: x)
    text = print_wgsl(copied, WGSL())
    assert "x: array<u32>;" in text
    assert "y: array<atomic<u32>>;" in text
    assert "atomicAnd(&y[t2], ~(255u << u32(t1)))" in text
    whole = arithmetic.build([bytes_, bytes_], function=lambda x: x, width=4)
    assert "y: array<u32>;" in print_wgsl(whole, WGSL())


def test_an_adapter_adds_floats_itself_where_nothing_else_is_done_to_them() -> None:
    @kernel
    def added(x: Any, *, kinds: Any) -> None:
        for kind in kinds:
            x.atomic(kind, 0, 1.0)

    sums, both = (added.build([F], kinds=kinds) for kinds in (("add",), ("add", "max")))
    assert "_ = atomicAdd(&x[x_offset], 1.0f);" in print_wgsl(sums, WGSL())
    assert "atomicCompareExchangeWeak" in print_wgsl(sums, WGSL(float_atomics=False))
    assert "atomicCompareExchangeWeak" in print_wgsl(both, WGSL())


def test_four_words_are_one_access_where_they_are_aligned() -> None:
    @kernel
    def moved(x: Any, y: Any, n: Any) -> None:
        y.store(n * 4, x.load(n * 4, 4))
        y[n] = x[n]

    size = Scalar(int64, nonnegative=True)
    for align in (16, 4):
        memory = Buffer(float32, align=align)
        text = print_wgsl(moved.build([memory, memory, size]), WGSL())
        assert ("x: array<vec4<f32>>;" in text) == (align == 16)
        assert ("x[(x_offset + t1) >> 2u][(x_offset + t1) & 3u]" in text) == (align == 16)


def test_data_of_a_step_are_loaded_ahead_of_the_arithmetic_of_the_step_before() -> None:
    @kernel
    def stepped(x: Any, y: Any) -> None:
        held, i = shared(64, float32), unit_position()
        ahead = x[i + 64]
        total = held[i]
        for _ in range(8):
            total = fma(total, total, 0.5)
        held[i] = ahead
        y[i] = total

    text = print_wgsl(stepped.build([F, F], cube=(64, 1, 1)), WGSL())
    assert 0 < text.index("= x[") < text.index("fma(") < text.index("\n  shared0[")


def test_loops_to_unroll_are_so_and_their_rounds_differ_by_a_number() -> None:
    @kernel
    def summed(x: Any, y: Any, n: Any) -> None:
        held = shared(64, float32, align=16)
        i = unit_position()
        held.store(i * 4, x.load(n * 4, 4))
        barrier()
        total = held.load(i * 4, 4)
        for p in loop_range(0, 3, unroll=3):
            total = total + held.load(i * 4 + p * 20, 4)
        y.store(n * 4, total)

    memory, size = Buffer(float32, align=16), Scalar(int32, nonnegative=True)
    built = summed.build([memory, memory, size], cube=(4, 1, 1))
    text = print_wgsl(built, WGSL())
    assert "for (" not in text
    for place in ("t2", "u32(unit_x + 5li)", "u32(unit_x + 10li)"):
        assert f" = shared0[{place}];" in text
    assert "x[(x_offset >> 2u) + t1]" in text
    assert "for (" in print_wgsl(built, WGSL(limited=True))


def test_buffers_without_stores_are_only_read() -> None:
    @kernel
    def moved(x: Any, y: Any, z: Any) -> None:
        z[0] = x[0] + y.atomic("add", 0, 1).to(float32)

    text = print_wgsl(moved.build([F, Buffer(int32), F]), WGSL())
    bound = [line.split("> ")[0] for line in text.splitlines() if "@binding" in line][1:]
    assert [one.partition("storage, ")[2] for one in bound] == ["read", "read_write", "read_write"]


def test_zeros_that_no_choice_meets_are_plain() -> None:
    @kernel
    def summed(x: Any, y: Any, n: Any) -> None:
        total = x.load(0, mask=n > 0)
        for i in range(n):
            total = total + x.load(i * 4, 4, mask=i > 2)[0]
        y[0] = select(n > 5, total, 0.0)

    size = Scalar(int64, nonnegative=True)
    wide = Buffer(float32, align=16)
    text = print_wgsl(summed.build([wide, F, size]), WGSL(changes="reassociates"))
    assert "f32()" in text
    assert "vec4<f32>()" in text
    assert "bitcast<f32>(0x0u | u32(args.zero))" in text.partition("y[")[2]


def test_indices_are_divided_in_32_bits() -> None:
    @kernel
    def moved(x: Any, y: Any, n: Any) -> None:
        i = absolute_position()
        y[i] = x[i // n]

    size = Scalar(int64, nonnegative=True)
    text = print_wgsl(moved.build([F, F, size], cube=(8, 1, 1)), WGSL())
    assert "return i64(u64(u32(a) / u32(b)))" in text
    assert "var<storage, read> x" in text


def test_arguments_lie_where_the_struct_has_them() -> None:
    @kernel
    def given(x: Any, a: Any, b: Any, c: Any) -> None:
        x[0] = c

    built = given.build([F, Scalar(int8), Scalar(int64), Scalar(float32)])
    fields = struct_of(built.parameters, WGSL().host)
    assert fields.names is not None
    assert fields.fields is not None
    places = [fields.fields[name][1] for name in fields.names]
    assert places == [0, 4, 8, 16, 20, 24, 28, 32]
    assert fields.itemsize == 48
    assert struct_of(built.parameters, WGSL(wide=False).host).itemsize == 32


@kernel
def planes(x: Any, y: Any) -> None:
    i = unit_position()
    total = plane_reduce("add", x[i])
    scanned = plane_scan("max", x[i], exclusive=True)
    y[i] = total + scanned + plane_shuffle(x[i], 1, "up") + plane_position().to(float32)


def test_planes_are_made_of_shuffles() -> None:
    built = planes.build([F, F], cube=(16, 2, 1), plane=16)
    text = print_wgsl(built, WGSL())
    assert "@workgroup_size(32)" in text
    assert "x = x + subgroupShuffleXor(x, 8u);" in text
    assert "subgroupBarrier();" not in text
    assert "subgroupBarrier();" in print_wgsl(built, WGSL(diverges=True))
    with pytest.raises(CompileError, match="no subgroups"):
        print_wgsl(built, WGSL(lanes=1))


def test_units_of_a_plane_meet_again_only_after_what_may_part_them() -> None:
    @kernel
    def crossed(x: Any, y: Any, *, parted: bool) -> None:
        i = unit_position()
        value = plane_shuffle(x[i], 1, "xor")
        if parted and value > 0.0:
            y[i] = value
        y[i] = plane_shuffle(value + 1.0, 2, "xor")

    for parted in (False, True):
        built = crossed.build([F, Buffer(float32)], cube=(8, 1, 1), plane=8, parted=parted)
        text = print_wgsl(built, WGSL(diverges=True))
        assert text.count("subgroupBarrier();") == 1 + parted
        assert text.count("subgroupShuffleXor(") == 2


def test_nan_becomes_zero_where_a_compiler_takes_it_that_there_is_none() -> None:
    built = arithmetic.build([F, Buffer(int32)], function=lambda x: x.to(int32))
    text = print_wgsl(built, WGSL(changes="reassociates"))
    assert "if (x >= fn_exact_float32(2.1474836e+09f)) { return 2147483647i; }" in text
    assert "x == fn_exact_float32(x));" in text
    assert "return select(0i, (-2147483647i - 1i), x == (x));" in print_wgsl(built, WGSL())


def test_a_barrier_is_of_global_memory_where_units_hand_it_over() -> None:
    @kernel
    def handed(x: Any, y: Any, *, over: bool) -> None:
        i = unit_position()
        held = shared(8, float32)
        held[i] = y[i]
        x[i] = held[i]
        barrier()
        y[i] = held[7 - i] + (x[7 - i] if over else 0.0)

    built = [
        handed.build([F, Buffer(float32)], cube=(8, 1, 1), over=over) for over in (True, False)
    ]
    assert "storageBarrier();" in print_wgsl(built[0], WGSL())
    assert "workgroupBarrier();" in print_wgsl(built[1], WGSL())


def test_what_is_only_read_is_said_to_be() -> None:
    @kernel
    def doubled(x: Any, y: Any) -> None:
        y[0] = x[0] * 2.0

    text = print_wgsl(doubled.build([Buffer(float32, writable=False), Buffer(float32)]), WGSL())
    assert "@binding(1) var<storage, read> x: array<f32>;" in text
    assert "@binding(2) var<storage, read_write> y: array<f32>;" in text


def test_loops_are_looked_at_where_a_driver_ends_them() -> None:
    @kernel
    def summed(x: Any, n: Any) -> None:
        total = x[0]
        for i in range(1, n):
            total = total + x[i]
        x[0] = total

    built = summed.build([Buffer(float32), Scalar(int64)])
    assert "trouble" not in print_wgsl(built, WGSL())
    text = print_wgsl(built, WGSL(limited=True))
    assert "@binding(2) var<storage, read_write> trouble: atomic<u32>;" in text
    assert text.count("atomicStore(&trouble, 1u);") == 1


def test_a_kernel_may_be_called_like_a_word_of_the_language() -> None:
    @kernel
    def loop(override: Any, f32: Any) -> None:
        override[0] = f32

    text = print_wgsl(loop.build([F, Scalar(float32)]), WGSL())
    assert "override_1: array<f32>;" in text


REFUSED: list[tuple[Any, dict[str, Any], Any, str]] = [
    (float16, {}, lambda x: x * x, "no arithmetic of float16"),
    (float64, {"double": False}, lambda x: x * x, "float64"),
]


@pytest.mark.parametrize(("dtype", "has", "function", "message"), REFUSED, ids=["half", "double"])
def test_what_an_adapter_lacks_is_refused(
    dtype: Any, has: Any, function: Any, message: str
) -> None:
    built = arithmetic.build([Buffer(dtype)] * 2, function=function)
    with pytest.raises(CompileError, match=message):
        print_wgsl(built, WGSL(**has))


def test_what_the_language_has_not_is_refused() -> None:
    @kernel
    def fenced(x: Any) -> None:
        x[0] = 1.0
        fence()

    @kernel
    def small(x: Any) -> None:
        x.atomic("add", 0, 1)

    @kernel
    def shares(x: Any, *, n: int) -> None:
        held = shared(n, int8)
        held[unit_position()] = x[unit_position()]

    with pytest.raises(CompileError, match="no fences"):
        print_wgsl(fenced.build([F]), WGSL())
    with pytest.raises(CompileError, match="no atomics of int8"):
        print_wgsl(small.build([Buffer(int8)]), WGSL())
    with pytest.raises(CompileError, match="20000 bytes of shared memory, above 16384"):
        print_wgsl(shares.build([Buffer(int8)], cube=(8, 1, 1), n=5000), WGSL())
    with pytest.raises(CompileError, match="kernels of 2 buffers, above 1"):
        print_wgsl(arithmetic.build([F, F], function=lambda x: x), WGSL(buffers=1))


def test_loads_begin_before_a_plane_meets() -> None:
    @kernel
    def scaled(x: Any, w: Any, y: Any) -> None:
        i = unit_position(0)
        weight = w[i]
        y[i] = plane_shuffle(x[i], 1, "xor") * weight

    built = scaled.build([F, F, F], cube=(32, 1, 1), plane=32)
    text = print_wgsl(built, WGSL(diverges=True))
    barrier = text.index("subgroupBarrier();")
    assert text.index("= w[") < barrier < text.index("subgroupShuffleXor(")
