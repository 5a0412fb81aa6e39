"""Products by tile registers: their instructions, and results where the processor has them."""

from dataclasses import replace

import numpy as np
import pytest

from calor.dtypes import bfloat16, float32, int8, int32
from calor.specs import spec
from calor_cpu.host import describe
from calor_cpu.target import Target
from calor_cpu.toolchain import LlvmToolchain
from calor_kernel import language as kl
from calor_kernel.contract.work import LOWERINGS, Request, View
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.planning.lowering import load_families

from .needs import feature

FLAGS = frozenset({"amx-tile", "amx-bf16", "amx-int8"})
SAPPHIRE_RAPIDS = Target(
    "x86_64-unknown-linux-gnu", "sapphirerapids", FLAGS, features="+amx-tile,+amx-bf16,+amx-int8"
)

VECTORS = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma")
WIDE = replace(
    SAPPHIRE_RAPIDS,
    flags=frozenset(VECTORS),
    features=",".join(f"+{name}" for name in VECTORS),
)


@kl.kernel
def block(a, b, c, a_stride, b_stride, steps, *, rows, columns):
    kl.tile_product(c, a, a_stride, b, b_stride, steps, rows=rows, columns=columns)


def built(dtype, sums, rows=2, columns=2):
    size = Scalar(int32, nonnegative=True)
    signature = (Buffer(dtype), Buffer(dtype), Buffer(sums, writable=True), size, size, size)
    return block.build(signature, rows=rows, columns=columns)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 2), (1, 2), (3, 1)])
@pytest.mark.parametrize(
    ("dtype", "sums", "name"), [(bfloat16, float32, "tdpbf16ps"), (int8, int32, "tdpbssd")]
)
def test_a_block_has_its_loads_and_products(dtype, sums, name, rows, columns):
    toolchain = LlvmToolchain(SAPPHIRE_RAPIDS)
    text = toolchain.assembly(toolchain.source(built(dtype, sums, rows, columns)), "block")
    counts = {word: text.count(f"\t{word}") for word in (name, "tileloadd", "tilestored")}
    assert counts == {
        name: rows * columns, "tileloadd": rows + columns, "tilestored": rows * columns
    }  # fmt: skip
    assert text.count("\tldtilecfg") == text.count("\ttilerelease") == 1


@kl.kernel
def adding(a, b, c, steps):
    kl.tile_product(c, a, 64, b, 64, steps, add=True)


def test_a_block_that_adds_loads_its_sums():
    size = Scalar(int32, nonnegative=True)
    signature = (Buffer(int8), Buffer(int8), Buffer(int32, writable=True), size)
    toolchain = LlvmToolchain(SAPPHIRE_RAPIDS)
    text = toolchain.assembly(toolchain.source(adding.build(signature)), "adding")
    assert text.count("\ttileloadd") == 4 + 4
    assert text.count("\ttilezero") == 0


@kl.kernel
def asking(a, b, c, steps, *, lines):
    kl.tile_product(c, a, 64, b, 64, steps, ahead=b.at(4096), lines=lines)


@pytest.mark.parametrize("lines", [0, 1, 3])
def test_each_step_prefetches_lines_of_b(lines):
    size = Scalar(int32, nonnegative=True)
    signature = (Buffer(int8), Buffer(int8), Buffer(int32, writable=True), size)
    toolchain = LlvmToolchain(SAPPHIRE_RAPIDS)
    text = toolchain.assembly(toolchain.source(asking.build(signature, lines=lines)), "asking")
    assert text.count("\tprefetcht1") == lines


@kl.kernel
def asking_of_a(a, b, c, steps):
    kl.tile_product(c, a, 64, b, 64, steps, ahead=a, lines=1)


def test_lines_of_b_alone_are_prefetched():
    size = Scalar(int32, nonnegative=True)
    signature = (Buffer(int8), Buffer(int8), Buffer(int32, writable=True), size)
    with pytest.raises(KernelTypeError, match="prefetches lines of b alone"):
        asking_of_a.build(signature)


@kl.kernel
def two_blocks(a, b, c, steps):
    for begin in kl.loop_range(0, steps):
        kl.tile_product(c, a, 64, b, 64, begin)
        kl.tile_product(c, b, 64, a, 64, begin)
    assert steps > 0, "no steps"


def test_a_call_configures_the_registers_once():
    size = Scalar(int32, nonnegative=True)
    signature = (Buffer(int8), Buffer(int8), Buffer(int32, writable=True), size)
    toolchain = LlvmToolchain(SAPPHIRE_RAPIDS)
    text = toolchain.source(two_blocks.build(signature, features=frozenset({"debug"})))
    counts = [
        text.count(f"call void @llvm.x86.{n}") for n in ("tdpbssd", "ldtilecfg", "tilerelease")
    ]
    # A check that fails leaves by the same end.
    assert (counts, text.count("ret void")) == ([8, 1, 1], 1)


IMAGE, FILTERS, RESULT = (2, 32, 9, 9), (48, 32, 3, 3), (2, 48, 9, 9)
CONVOLUTIONS = {
    "conv": (IMAGE, FILTERS, RESULT, {}),
    "conv_input_gradient": (RESULT, FILTERS, IMAGE, {"input_shape": IMAGE}),
    "conv_weight_gradient": (IMAGE, RESULT, FILTERS, {"weight_shape": FILTERS}),
}


@pytest.mark.parametrize("op", CONVOLUTIONS)
def test_convolutions_are_products_of_tiles(op):
    load_families()
    *shapes, result, more = CONVOLUTIONS[op]
    given = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
    views = tuple(View.dense(spec(s, bfloat16)) for s in shapes)
    info = describe(replace(SAPPHIRE_RAPIDS, flags=FLAGS | {"avx512bf16"}))
    request = Request(op, {**given, **more}, views, (spec(result, bfloat16),), info)
    kernel = LOWERINGS[op](request)[0].launches[-1].build.kernel()
    toolchain = LlvmToolchain(SAPPHIRE_RAPIDS)
    assert toolchain.assembly(toolchain.source(kernel), kernel.name).count("\ttdpbf16ps") == 4


def test_a_processor_without_tile_registers_refuses():
    plain = replace(SAPPHIRE_RAPIDS, flags=frozenset(), features="")
    with pytest.raises(Exception, match=r"no tile registers \(AMX\)"):
        LlvmToolchain(plain).source(built(int8, int32))


def test_eight_registers_are_the_most():
    with pytest.raises(KernelTypeError, match="3x2 tiles and their operands exceed 8 registers"):
        built(int8, int32, 3, 2)


def test_the_dtypes_of_a_product():
    with pytest.raises(KernelTypeError, match="two of bfloat16 with float32, or two of int8"):
        built(float32, float32)


@feature("amx-int8")
@pytest.mark.parametrize("terms", [256, 1300])
@pytest.mark.parametrize("dtype", ["int8", "bfloat16"])
def test_products_on_this_processor(dtype, terms):
    import calor

    rng = np.random.default_rng(3)
    x, y = (rng.integers(-9, 9, s).astype(np.float32) for s in ((170, terms), (terms, 130)))
    result = "int32" if dtype == "int8" else "float32"
    with calor.device("cpu"):
        a, b = (calor.asarray(v).astype(dtype) for v in (x, y))
        found = calor.matmul(a, b, dtype=getattr(calor, result)).numpy()
    assert (found == x @ y).all()
