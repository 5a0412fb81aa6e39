"""Targets, the text of a kernel, what compiling refuses, and the code that comes out."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from calor.dtypes import float32, int64
from calor.errors import CompileError, DeviceError
from calor_cpu.loader import LoadedImage
from calor_cpu.target import VARIABLE, Target, native, target_of
from calor_cpu.toolchain import LlvmToolchain
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import cube_position, fma, kernel, registers, splat

from .needs import feature, x86
from .operations import COMPUTED, ROWS, build

GOLDEN = Path(__file__).parent / "golden"
NEON = "aarch64-unknown-linux-gnu:generic"
READ = Buffer(float32, writable=False, align=64)
N = Scalar(int64, nonnegative=True)


@kernel
def scale(x, y, n, *, factor, vector=4):
    i = cube_position(0) * vector
    if i < n:
        y.store(i, x.load(i, vector) * factor)


@kernel
def tile(a, b, c, n, depth, *, rows, cols):
    """Multiply panels a [m / rows][depth][rows] and b [n / cols][depth][cols]."""
    i, j = cube_position(0), cube_position(1)
    sums = registers((rows,), float32, cols)
    left, right = a.at(i * depth * rows), b.at(j * depth * cols)
    for p in range(depth):
        row = right.load(p * cols, cols, align=64)
        for r in range(rows):
            sums[r] = fma(splat(left[p * rows + r], cols), row, sums[r])
    for r in range(rows):
        c.store((i * rows + r) * n + j * cols, sums[r])


def scaled(factor: float = 2.0):
    return scale.build([Buffer(float32, writable=False), Buffer(float32), N], factor=factor)


def test_the_text_of_a_kernel() -> None:
    text = LlvmToolchain("x86_64-unknown-linux-gnu:x86-64-v3").source(scaled())
    golden = GOLDEN / "scale.ll"
    assert text == golden.read_text(), f"the text changed; write it to {golden} if it is right"


def test_the_same_kernel_gives_the_same_text_and_image() -> None:
    tools = LlvmToolchain()
    texts = {tools.source(scaled()) for _ in range(3)}
    assert len(texts) == 1
    images = {tools.compile(text, "scale") for text in texts for _ in range(2)}
    assert len(images) == 1
    assert tools.source(scaled(3.0)) not in texts


def test_a_toolchain_goes_to_other_processes() -> None:
    tools = LlvmToolchain()
    again = pickle.loads(pickle.dumps(tools))
    assert again.target == tools.target
    source = tools.source(scaled())
    assert again.compile(source, "scale") == tools.compile(source, "scale")


def test_the_target_names_everything_that_an_image_depends_on() -> None:
    name = LlvmToolchain().target
    assert re.match(r"llvm-\d+\.\d+\.\d+\S+ \S+ \S+", name)
    if native().is_x86:
        assert LlvmToolchain("x86-64-v3").target != name


def test_the_environment_names_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, NEON)
    assert target_of().triple == "aarch64-unknown-linux-gnu"
    assert not target_of().runs
    assert target_of("native") is native()


def test_unknown_targets_are_refused() -> None:
    with pytest.raises(DeviceError, match=r"'pentium' is not a target; write native, x86-64"):
        target_of("pentium")


@x86
@pytest.mark.parametrize(
    ("name", "nbytes", "half"),
    [("x86-64", 16, False), ("x86-64-v2", 16, False), ("x86-64-v3", 32, True)],
)
def test_levels_of_x86(name: str, nbytes: int, half: bool) -> None:
    target = target_of(name)
    assert (target.vector_bytes, target.converts_half, target.has_fma) == (nbytes, half, half)


@pytest.mark.parametrize("group", ROWS)
@pytest.mark.parametrize("dtype", [t for t in COMPUTED if t.kind != "bool"], ids=str)
def test_every_operation_compiles_for_neon(dtype, group: str) -> None:
    tools = LlvmToolchain(NEON)
    built, _ = build(group, dtype, 4)
    image = tools.compile(tools.source(built), "every")
    assert image[:4] == b"\x7fELF"
    assert image[18:20] == b"\xb7\x00"  # EM_AARCH64


def test_neon_has_fused_multiply_add_on_vectors() -> None:
    tools = LlvmToolchain(NEON)
    built = tile.build([READ, READ, Buffer(float32), N, N], rows=4, cols=8)
    assert tools.assembly(tools.source(built), "tile").count("fmla") == 8


def test_a_text_that_llvm_refuses_is_shown() -> None:
    with pytest.raises(CompileError, match=r"(?s)LLVM refuses kernel 'wrong': .*nonsense"):
        LlvmToolchain().compile("nonsense", "wrong")


def test_a_target_that_llvm_has_not_is_named() -> None:
    with pytest.raises(CompileError, match=r"has no code generator for teapot-unknown-none"):
        LlvmToolchain(Target("teapot-unknown-none", "generic", runs=False)).compile("", "none")


def test_an_image_of_something_else_does_not_load() -> None:
    with pytest.raises(DeviceError, match=r"kernel 'scale' does not load"):
        LoadedImage(b"not an object file", "scale")


@feature("avx512vl")
@pytest.mark.parametrize(("rows", "cols", "registers_"), [(6, 64, 24), (14, 32, 28)])
def test_tiles_of_a_matrix_product_stay_in_registers(rows: int, cols: int, registers_: int) -> None:
    tools = LlvmToolchain()
    built = tile.build([READ, READ, Buffer(float32), N, N], rows=rows, cols=cols)
    assembly = tools.assembly(tools.source(built), "tile")
    assert len(re.findall(r"vfmadd231ps\t.*%zmm", assembly)) == registers_
    assert not re.findall(r"zmm\d+, .*\(%rsp\)|\(%rsp\), %zmm", assembly)


@x86
def test_vectors_are_split_where_registers_are_narrow() -> None:
    built = tile.build([READ, READ, Buffer(float32), N, N], rows=2, cols=32)
    for name, wanted in (("x86-64-v3", "ymm"), ("x86-64", "xmm")):
        tools = LlvmToolchain(name)
        assembly = tools.assembly(tools.source(built), "tile")
        assert wanted in assembly
        assert "zmm" not in assembly


def test_a_tile_of_a_matrix_product() -> None:
    from calor_cpu.testing import run

    random = np.random.default_rng(1)
    m, n, k, rows, cols = 12, 128, 20, 6, 64
    a, b = random.standard_normal((m, k)), random.standard_normal((k, n))
    storage = np.zeros(k * n + 16, np.float32)
    start = -storage.ctypes.data % 64 // 4
    right = storage[start : start + k * n]
    right[:] = b.reshape(k, n // cols, cols).transpose(1, 0, 2).reshape(-1)
    left = a.reshape(m // rows, rows, k).transpose(0, 2, 1).astype(np.float32).copy()
    c = np.zeros((m, n), np.float32)
    built = tile.build([READ, READ, Buffer(float32), N, N], rows=rows, cols=cols)
    run(built, (m // rows, n // cols), [left, right, c, n, k])
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
