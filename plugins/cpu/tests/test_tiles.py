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
def of_parts(a, b, c, steps, apart):
    kl.tile_product(c, a, 64, b, 64, steps, parts=(apart, 4096))


def test_six_products_of_parts_share_their_loads():
    size = Scalar(int32, nonnegative=True)
    signature = (Buffer(bfloat16), Buffer(bfloat16), Buffer(float32, writable=True), size, size)
    toolchain = LlvmToolchain(SAPPHIRE_RAPIDS)
    text = toolchain.assembly(toolchain.source(of_parts.build(signature)), "parts")
    assert text.count("\ttdpbf16ps") == 6 * 4
    # Two of each operand, then those of one alone four times, then both.
    assert text.count("\ttileloadd") == 4 + 4 * 2 + 4


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


# Channels, filters, size, window, stride, padding, dilation, groups: several passes and a part of
# one, blocks of rows that end early, panels of several images, rows of pixels of every kind.
PARTED = {
    "one tap": ((3, 70, 13, 13), 130, 1, 1, 0, 1, 1),
    "padded": ((1, 33, 17, 18), 65, 3, 1, 1, 1, 1),
    "strided": ((2, 24, 31, 29), 128, 3, 2, 1, 1, 1),
    "apart": ((2, 16, 41, 40), 130, 3, 3, 2, 2, 1),
    "grouped": ((2, 64, 20, 20), 140, 3, 1, 1, 1, 2),
}


def convolved(x, w, stride, padding, dilation, groups):
    """The results by the launches of this processor, their label and those of float64."""
    import calor
    from calor import nn

    def call(x, w):
        return nn.functional.conv2d(
            x, w, stride=stride, padding=padding, dilation=dilation, groups=groups
        )

    with calor.device("cpu"):
        found = calor.jit(call)(calor.asarray(x), calor.asarray(w)).numpy()
    with calor.device("numpy"):
        told = call(calor.asarray(x.astype(np.float64)), calor.asarray(w.astype(np.float64)))
        return found, told.numpy()


def drawn(case, seed=5):
    (batch, channels, *size), filters, window, *rest = PARTED[case]
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((batch, channels, *size)).astype(np.float32)
    shape = (filters, channels // rest[-1], window, window)
    return x, rng.standard_normal(shape).astype(np.float32), rest


def labels(case, op="conv", **attributes):
    """The labels of the first choice of a convolution of float32 on a processor with tiles."""
    load_families()
    (batch, channels, *size), filters, window, stride, padding, dilation, groups = PARTED[case]
    reach = dilation * (window - 1) + 1
    made = [(n + 2 * padding - reach) // stride + 1 for n in size]
    x, w, y = (batch, channels, *size), (filters, channels // groups, window, window), (
        batch, filters, *made
    )  # fmt: skip
    given = {
        "stride": (stride,) * 2, "padding": ((padding,) * 2,) * 2, "dilation": (dilation,) * 2,
        "groups": groups, **attributes,
    }  # fmt: skip
    shapes, result = ((x, w), y) if op == "conv" else ((y, w), x)
    if op != "conv":
        given["input_shape"] = x
    info = describe(replace(SAPPHIRE_RAPIDS, flags=FLAGS | {"avx512f", "avx512bw", "avx512vl"}))
    views = tuple(View.dense(spec(s, float32)) for s in shapes)
    request = Request(op, given, views, (spec(result, float32),), info)
    return [one.label for one in LOWERINGS[op](request)[0].launches]


@pytest.mark.parametrize("case", PARTED)
def test_float32_is_convolved_in_parts(case):
    assert any("in parts" in label for label in labels(case))
    assert not any("in parts" in label for label in labels(case, precision="direct"))


@feature("amx-bf16")
@pytest.mark.parametrize("case", PARTED)
def test_parts_have_the_digits_of_float32(case):
    import calor

    x, w, rest = drawn(case)
    found, told = convolved(x, w, *rest)
    with calor.matmul_precision("direct"):
        summed, _ = convolved(x, w, *rest)
    assert not (found == summed).all()
    errors = [np.sqrt(np.mean((one - told) ** 2)) for one in (found, summed)]
    assert errors[0] < 1.2 * errors[1]


@feature("amx-bf16")
@pytest.mark.parametrize("case", PARTED)
def test_whole_numbers_are_exact(case):
    x, w, rest = drawn(case)
    found, told = convolved(np.rint(300 * x), np.rint(5 * w), *rest)
    assert (found == told).all()


@feature("amx-bf16")
@pytest.mark.parametrize("case", PARTED)
@pytest.mark.parametrize("kind", ["infinite", "small", "large", "mixed", "weights"])
def test_numbers_without_parts_are_multiplied_in_float32(case, kind):
    x, w, rest = drawn(case)
    if kind == "infinite":
        x[0, 1, 2, 3], x[-1, -1, -1, -1] = np.inf, np.nan
    elif kind == "mixed":
        x[..., ::2] *= np.float32(1e-25)
    elif kind == "weights":
        w[5] *= np.float32(1e-30)
        w[-1] = -np.inf
    else:
        x *= np.float32(1e-36 if kind == "small" else 1e34)
    with np.errstate(invalid="ignore"):
        found, told = convolved(x, w, *rest)
    for test in (np.isnan, np.isposinf, np.isneginf):
        assert (test(found) == test(told)).all()
    # Each window's result is as exact as its own products allow.
    size = np.abs(np.where(np.isfinite(x), x, 0)).max()
    sizes = np.abs(np.where(np.isfinite(w), w, 0)).reshape(len(w), -1).max(1)[:, None, None]
    finite = np.isfinite(told)
    apart = np.abs(np.where(finite, found - np.where(finite, told, 0), 0))
    assert (apart <= 2**-22 * w[0].size * size * sizes).all()


@feature("amx-bf16")
def test_strided_gradients_are_computed_in_parts():
    """The phases of a stride of three have four taps of windows of two by two, one and none."""
    import calor
    from calor import nn

    rng = np.random.default_rng(7)
    x = rng.standard_normal((2, 64, 50, 53)).astype(np.float32)
    w = rng.standard_normal((80, 64, 2, 2)).astype(np.float32)

    def gradient(device, dtype):
        with calor.device(device):
            a, b = (calor.asarray(v.astype(dtype)) for v in (x, w))
            call = calor.jit(lambda a: nn.functional.conv2d(a, b, stride=3, padding=1))
            y, pull = calor.vjp(call, a)
            g = np.random.default_rng(8).standard_normal(y.shape).astype(dtype)
            return pull(calor.asarray(g))[0].numpy()

    assert np.abs(gradient("cpu", np.float32) - gradient("numpy", np.float64)).max() < 1e-4
