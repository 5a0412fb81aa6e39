"""What units do together, on a device whose planes and cubes are one unit; dots and intrinsics."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from calor.dtypes import DType, bfloat16, bool_, float32, float64, int8, int16, int32, uint8
from calor.errors import CompileError
from calor_cpu import printer  # noqa: F401 - registers what prints operations
from calor_cpu.printer_values import PRINTS
from calor_cpu.target import Target
from calor_cpu.testing import run
from calor_cpu.toolchain import LlvmToolchain
from calor_interpreter.launch import run_on_lanes
from calor_kernel.ir.nodes import Block, Kernel, Memory, Operation, Parameter, Value
from calor_kernel.ir.ops import OPS
from calor_kernel.ir.types import Buffer, Type
from calor_kernel.language import cube_position, dot, kernel, plane_ballot, plane_scan
from calor_kernel.language.intrinsics import intrinsic

from .needs import TARGETS, feature, x86

# What a CPU has not: kernels that use these are for devices with cubes of many units.
ABSENT = {
    "await_launches",
    "copy_tensor",
    "load_matrix",
    "mbarrier_arrive",
    "mbarrier_expect",
    "mbarrier_init",
    "mbarrier_wait",
    "mma",
    "mma_async",
    "mma_result",
    "role",
    "store_tensor",
}


def test_every_operation_is_printed_or_said_to_be_absent() -> None:
    assert set(OPS) - set(PRINTS) <= ABSENT


@kernel
def scanned(x, y, z, *, kind):
    i = cube_position(0)
    y[2 * i] = plane_scan(kind, x[i])
    y[2 * i + 1] = plane_scan(kind, x[i], exclusive=True)
    z[i] = plane_ballot(x[i] == x[0]).to(int32)


SCANS = [
    pytest.param(kind, dtype, id=f"{kind}-{dtype}")
    for kind in ("add", "mul", "min", "max", "and", "or", "xor")
    for dtype in (int8, uint8, int32, float32)
    if dtype is not float32 or kind not in ("and", "or", "xor")
]


@pytest.mark.parametrize(("kind", "dtype"), SCANS)
def test_a_scan_of_one_unit_is_its_value_and_the_neutral_number(kind: str, dtype: DType) -> None:
    x = np.array([5, 7], dtype.numpy)
    built = scanned.build([Buffer(dtype), Buffer(dtype), Buffer(int32)], kind=kind)
    got, wanted = ([np.zeros(4, dtype.numpy), np.zeros(2, np.int32)] for _ in range(2))
    run(built, 2, [x, *got])
    run_on_lanes(built, (2, 1, 1), [x, *wanted])
    np.testing.assert_array_equal(got[0], wanted[0])
    assert got[1].tolist() == [1, 0]


@kernel
def dots(a, b, c, *, group, width):
    i = cube_position(0) * width
    c.store(
        i, dot(a.load(i * group, width * group), b.load(i * group, width * group), c.load(i, width))
    )


def _dotted(
    p: DType, q: DType, sums: DType, group: int, width: int, target: str | None
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    random = np.random.default_rng(7)
    count = width * group * 3
    if p.kind == "float":
        a, b = (random.standard_normal(count).astype(t.numpy) for t in (p, q))
        c = random.standard_normal(width * 3).astype(sums.numpy)
    else:
        a, b = (random.integers(*_limits(t), count, endpoint=True).astype(t.numpy) for t in (p, q))
        a[: width * group], b[: width * group] = _limits(p)[0], _limits(q)[1]
        c = random.integers(-1000, 1000, width * 3).astype(sums.numpy)
    built = dots.build([Buffer(p), Buffer(q), Buffer(sums)], group=group, width=width)
    got, wanted = c.copy(), c.copy()
    run(built, 3, [a, b, got], target=target)
    run_on_lanes(built, (3, 1, 1), [a, b, wanted])
    return got, wanted


def _limits(dtype: DType) -> tuple[int, int]:
    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width", [1, 4, 8, 16, 32, 48])
@pytest.mark.parametrize("pair", [(uint8, int8), (int8, uint8), (int8, int8), (uint8, uint8)])
def test_dots_of_bytes(pair: tuple[DType, DType], width: int, target: str) -> None:
    got, wanted = _dotted(*pair, int32, 4, width, target)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width", [1, 4, 16, 32])
def test_dots_of_bfloat16(width: int, target: str) -> None:
    got, wanted = _dotted(bfloat16, bfloat16, float32, 2, width, target)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("p", "sums", "group"), [(int16, int32, 2), (int8, int32, 2), (float32, float64, 2)]
)
def test_dots_that_no_instruction_does(p: DType, sums: DType, group: int) -> None:
    got, wanted = _dotted(p, p, sums, group, 8, None)
    np.testing.assert_allclose(got, wanted, rtol=1e-12)


INSTRUCTIONS = [
    pytest.param((uint8, int8, int32, 4), "vpdpbusd", id="bytes", marks=feature("avx512vnni")),
    pytest.param(
        (bfloat16, bfloat16, float32, 2), "vdpbf16ps", id="bfloat16", marks=feature("avx512bf16")
    ),
]


@pytest.mark.parametrize(("types", "name"), INSTRUCTIONS)
def test_dots_are_one_instruction_where_there_is_one(
    types: tuple[DType, DType, DType, int], name: str
) -> None:
    tools = LlvmToolchain()
    p, q, sums, group = types
    built = dots.build([Buffer(p), Buffer(q), Buffer(sums)], group=group, width=16)
    assert len(re.findall(rf"{name}\t.*zmm", tools.assembly(tools.source(built), "dots"))) == 1


def test_dots_of_processors_with_vnni_and_without_avx_512() -> None:
    flags = frozenset(("avx", "avx2", "fma", "f16c", "avxvnni"))
    tools = LlvmToolchain(
        Target("x86_64-unknown-linux-gnu", "alderlake", flags, features="+avxvnni", runs=False)
    )
    built = dots.build([Buffer(uint8), Buffer(int8), Buffer(int32)], group=4, width=16)
    assembly = tools.assembly(tools.source(built), "dots")
    assert len(re.findall(r"vpdpbusd\t.*ymm", assembly)) == 2
    assert "zmm" not in assembly


@x86
def test_dots_of_bytes_are_pairs_of_words_without_vnni() -> None:
    tools = LlvmToolchain("x86-64-v3")
    built = dots.build([Buffer(uint8), Buffer(int8), Buffer(int32)], group=4, width=8)
    assembly = tools.assembly(tools.source(built), "dots")
    assert assembly.count("vpmaddwd") == 2
    assert "vpmulld" not in assembly


@intrinsic(
    "float32x4, float32x4 -> float32x4",
    llvm="""
    declare <4 x float> @llvm.maxnum.v4f32(<4 x float>, <4 x float>)
    {result} = call <4 x float> @llvm.maxnum.v4f32(<4 x float> {0}, <4 x float> {1})
    """,
)
def larger_number(x, y):
    return np.fmax(x, y)


@intrinsic("float32 -> float32", c="f({0})")
def only_c(x):
    return x


@kernel
def inlined(x, y, *, function, width):
    a = x.load(0, width)
    y.store(0, function(a, y.load(0, width)) if width > 1 else function(a))


def test_an_intrinsic_is_its_text() -> None:
    x, y = np.array([1, np.nan, 3, 4], np.float32), np.array([2, 2, 2, 2], np.float32)
    run(inlined.build([Buffer(float32)] * 2, function=larger_number, width=4), 1, [x, y])
    assert y.tolist() == [2, 2, 3, 4]


def test_an_intrinsic_without_text_for_llvm_says_so() -> None:
    built = inlined.build([Buffer(float32)] * 2, function=only_c, width=1)
    with pytest.raises(CompileError, match=r"only_c has text for c, not for llvm"):
        LlvmToolchain().source(built)


def test_an_operation_that_a_cpu_has_not_names_its_line() -> None:
    x = Memory("x", "global", Type(float32))
    role = Operation("role", attributes={}, regions=(Block(),), position=("kernels.py", 12))
    kernel = Kernel("many", (Parameter("x", Buffer(float32), memory=x),), Block((), [role]))
    with pytest.raises(CompileError, match=r"kernels.py:12: kernel 'many', operation 'role'"):
        LlvmToolchain().source(kernel)


@kernel
def halves_computed(x):
    x[0] = x[0] + x[1]


def test_arithmetic_of_half_types_is_refused_with_advice() -> None:
    with pytest.raises(CompileError, match=r"test_units.py:\d+.*compute in float32"):
        LlvmToolchain().source(halves_computed.build([Buffer(bfloat16)]))


@pytest.mark.parametrize("mask", [None, True, False])
def test_asynchronous_copies_are_copies(mask: bool | None) -> None:
    x, y = (Memory(n, "global", Type(float32)) for n in "xy")
    here = Memory("here", "shared", Type(float32), 4)
    index, value, wanted = Value(Type(int32), known=0), Value(Type(float32, 4)), Value(Type(bool_))
    given = (index, index) if mask is None else (index, index, wanted)
    steps = [
        Operation("constant", (), (index,), {"value": 0}),
        Operation("constant", (), (wanted,), {"value": bool(mask)}),
        Operation("copy_async", given, (), {"source": x, "elements": 4}, memory=here),
        Operation("commit_async"),
        Operation("wait_async", attributes={"pending": 0}),
        Operation("load", (index,), (value,), memory=here),
        Operation("store", (index, value), (), memory=y),
    ]
    parameters = tuple(Parameter(m.name, Buffer(float32), memory=m) for m in (x, y))
    numbers, got = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    run(Kernel("later", parameters, Block((), steps), memories=(here,)), 1, [numbers, got])
    np.testing.assert_array_equal(got, np.zeros(4) if mask is False else numbers)
