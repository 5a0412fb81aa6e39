"""Are weight gradients right that are one product, summed over the pixels of all images?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor import dtypes
from calor.backends.device import device_of
from calor.dtypes import float32
from calor.ops.base import table
from calor_cuda.kernels.conv import (
    pointwise_weight_gemm,
    weight_gradient_gemm,
    weight_gradient_tma_launch,
)
from calor_cuda.kernels.conv.weight_gradient_tma import WeightPlan, pitch_of
from calor_cuda.kernels.matmul import summed_parts_launch
from calor_interpreter.device import LanesDevice
from calor_kernel.contract.work import row_major
from calor_kernel.library.conv.lowering import lower_conv_weight_gradient
from calor_kernel.library.conv.problem import Convolution, for_weight
from calor_kernel.library.gemm.generic import GenericPlan
from calor_kernel.planning import scratch_rooms
from calor_kernel.runtime.backend import KernelBackend

from .test_conv import DIGITS, NONE, check
from .test_implicit_gemm_mma import H200, ONE, PADDED, planned, request_of, square

# Windows with padding, strides, gaps, of one axis; of one tap, whose images do not lie in whole
# accesses and which see a part of them; of places that fill no access, and one part of them each.
ROWS = [
    ((3, 24, 7, 6), (72, 24, 3, 3), ONE, PADDED, ONE, 1),
    ((2, 16, 9, 11), (64, 16, 3, 2), (2, 3), ((0, 1), (2, 0)), (2, 1), 1),
    ((2, 24, 15), (64, 24, 4), (2,), ((1, 2),), (1,), 1),
    ((3, 64, 7, 7), (80, 64, 1, 1), ONE, (NONE, NONE), ONE, 1),
    ((2, 72, 9, 9), (64, 72, 1, 1), (2, 2), (NONE, NONE), ONE, 1),
    ((5, 16, 16, 17), (64, 16, 2, 2), ONE, ((-1, 1), (1, 0)), ONE, 1),
]


def asked(row, dtype, info, candidates=False):
    request = request_of("conv_weight_gradient", row, getattr(dtypes, dtype), info, candidates)
    return replace(request, attributes={**request.attributes, "precision": "high"})


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("waits", [True, False])
def test_products_of_places(row, dtype, waits, monkeypatch):
    """Cubes that may wait for others add the parts, and another launch adds them otherwise."""
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    monkeypatch.setattr(weight_gradient_gemm, "_MANY", 1)
    for module in (weight_gradient_gemm, summed_parts_launch):
        monkeypatch.setattr(module, "STEPS", 1)
    features = H200.features if waits else H200.features - {"forward_progress"}
    info = replace(H200, cores=8, features=features)
    (work,) = lower_conv_weight_gradient(asked(row, dtype, info))
    assert work.variant.startswith("product of places")
    made = [launch.build.function.name for launch in work.launches]
    many = not work.variant.endswith(" in 1")
    alone = work.variant.endswith(", one launch")
    # The operands of windows of one tap are copied alike, so each launch may join others.
    copies = ["unfold"] * (1 if any(n > 1 for n in row[1][2:]) else 2)
    assert made == [*copies, "matmul_tma"] + ["add_transposed"] * (many and not alone)
    assert many or row is not ROWS[-1]
    assert alone == (many and waits)
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, "conv_weight_gradient", row, dtype, precision="high")


def channels_last(view):
    """Return a view of the same shape whose channels are dense."""
    shape, order = view.shape, (0, *range(2, len(view.shape)), 1)
    steps = dict(zip(order, row_major([shape[axis] for axis in order]), strict=True))
    return replace(view, strides=tuple(steps[axis] for axis in range(len(shape))))


@pytest.mark.parametrize("row", [*ROWS, ((3, 64, 7, 7), (81, 64, 1, 1), *ROWS[3][2:])], ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_dense_channels_are_turned(row, dtype, monkeypatch):
    """Lines of dense channels, of any number of them, become lines of pixels by tiles."""
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    monkeypatch.setattr(weight_gradient_gemm, "_MANY", 1)
    for module in (weight_gradient_gemm, summed_parts_launch):
        monkeypatch.setattr(module, "STEPS", 1)
    info = replace(H200, cores=8)
    request = asked(row, dtype, info)
    request = replace(request, inputs=tuple(map(channels_last, request.inputs)))
    (work,) = lower_conv_weight_gradient(request)
    made = [launch.build.function.name for launch in work.launches]
    assert made[:2] == ["unfold_turned"] * 2
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, "conv_weight_gradient", row, dtype, reordered=True, precision="high")


# Windows that see a part of the images.
CHUNKED = [
    (((3, 16, 16, 17), *ROWS[5][1:]), "bfloat16", True),
    (((5, 16, 16, 17), *ROWS[5][1:]), "float32", False),
]


@pytest.mark.parametrize(("row", "dtype", "waits"), CHUNKED, ids=str)
def test_chunks_of_images_where_copies_make_the_peak(row, dtype, waits, monkeypatch):
    """Copies of some images are in memory at a time, and the sums of all chunks are added."""
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    monkeypatch.setattr(weight_gradient_gemm, "_MANY", 1)
    for module in (weight_gradient_gemm, summed_parts_launch):
        monkeypatch.setattr(module, "STEPS", 1)
    # A plan of nothing else saves any share of its memory.
    monkeypatch.setattr(scratch_rooms, "_SHARE", 1 << 30)
    monkeypatch.setattr(weight_gradient_gemm, "_GAIN", 1 << 30)
    features = H200.features if waits else H200.features - {"forward_progress"}
    info = replace(H200, cores=8, features=features)
    request = asked(row, dtype, info)
    (whole,), (work,) = (lower_conv_weight_gradient(replace(request, room=n)) for n in (None, 1))
    made = [launch.build.function.name for launch in work.launches]
    assert made.count("matmul_tma") > 1 == made.count("add_transposed")
    assert sum(work.scratch) < sum(whole.scratch)
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    found = []
    plan = scratch_rooms._Search.shrink
    monkeypatch.setattr(
        scratch_rooms._Search, "shrink", lambda *given: found.append(plan(*given)) or found[-1]
    )
    check(backend, "conv_weight_gradient", row, dtype, precision="high")
    assert any(found)


# Images, places and cores; parts of a tile, more than are read at once and than units that wait.
PARTED = [
    (3, (20, 20), 24, 20),
    pytest.param(6, (36, 39), 132, 132, marks=pytest.mark.slow),
    (2, (8, 12), 8, 3),
]


@pytest.mark.parametrize(("images", "places", "cores", "parts"), PARTED, ids=str)
def test_parts_from_image_to_image(images, places, cores, parts, monkeypatch):
    """The last cubes add any number of parts, which begin and end within images."""
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    monkeypatch.setattr(summed_parts_launch, "STEPS", 1)

    def fixed(product, plan, info):
        found = summed_parts_launch.summed(product, plan, parts, info)
        return found if (plan.rows, plan.columns) == (64, 64) else None

    monkeypatch.setattr(pointwise_weight_gemm, "best_parts", fixed)
    info = replace(H200, cores=cores)
    row = ((images, 64, *places), (64, 64, 1, 1), ONE, (NONE, NONE), ONE, 1)
    work, *_ = lower_conv_weight_gradient(asked(row, "float32", info))
    assert [one.label for one in work.launches] == [f"matmul boxes 64x64 tf32 in parts of {parts}"]
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, "conv_weight_gradient", row, "float32", precision="high")


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize(("dtype", "filters"), [("bfloat16", 4), ("float32", 3), ("float16", 9)])
def test_few_filters_read_images_once(dtype, filters, waits, monkeypatch):
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    monkeypatch.setattr(summed_parts_launch, "STEPS", 1)
    monkeypatch.setattr(pointwise_weight_gemm, "_BYTES", 0)
    features = H200.features if waits else H200.features - {"forward_progress"}
    info = replace(H200, cores=8, features=features)
    row = ((3, 68, 8, 12), (filters, 68, 1, 1), ONE, (NONE, NONE), ONE, 1)
    work, *_ = lower_conv_weight_gradient(asked(row, dtype, info))
    assert work.variant.startswith("product, boxes 64x")
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, "conv_weight_gradient", row, dtype, precision="high")


@pytest.mark.parametrize(("images", "product"), [(1, False), (16, True)])
def test_small_images_of_few_filters_are_blocks_of_pixels(images, product):
    info = replace(H200, cores=132, max_units=1024)
    row = square(images, 64, 56, 8, 1, 1)
    work, *_ = lower_conv_weight_gradient(asked(row, "bfloat16", info))
    assert work.variant.startswith("product, boxes") == product


def test_a_launch_finds_its_flags_as_the_one_before_did(monkeypatch):
    """One list runs again and again, with two such launches on the same flags, to the same bits."""
    monkeypatch.setattr(summed_parts_launch, "STEPS", 1)
    backend = KernelBackend("lanes", lambda index: LanesDevice(replace(H200, cores=8)))
    rng = np.random.default_rng(3)
    shapes = (2, 64, 8, 12), (2, 72, 8, 12)
    said = {"stride": ONE, "padding": (NONE, NONE), "dilation": ONE, "groups": 1}
    said |= {"precision": "high"}
    gradient = table()["conv_weight_gradient"]

    def both(x, g):
        one = gradient(x, g, weight_shape=(72, 64, 1, 1), **said)
        return one, gradient(x + 1.0, g, weight_shape=(72, 64, 1, 1), **said)

    with calor.device(device_of(backend, 0)):
        x, g = (calor.asarray(rng.standard_normal(s).astype(np.float32)) for s in shapes)
        made = calor.jit(both)
        found = [[one.numpy().tobytes() for one in made(x, g)] for _ in range(3)]
    assert found[0] == found[1] == found[2]
    assert found[0][0] != found[0][1]


# Gradients of the weights of a ResNet-50: images, channels, places, filters, taps and strides.
FIRST = {
    (32, 512, 7, 512, 3, 1): "product of places, boxes 192x128 in 1",
    (32, 512, 14, 512, 3, 2): "product of places, boxes 192x128 in 1",
    (32, 256, 14, 256, 3, 1): "product of places, boxes 128x256 in 7, one launch",
    (32, 1024, 14, 2048, 1, 2): "product of places, boxes 128x128 in 1",
    (32, 1024, 14, 256, 1, 1): "product, boxes 128x128 in one launch",
    (32, 128, 28, 128, 3, 1): "lines, 64x64 of 3x3 taps by 3 in 32",
    (32, 64, 56, 64, 3, 1): "lines, 64x64 of 3x3 taps by 3 in 128",
    (32, 128, 56, 128, 3, 2): "fragments 128x128x32 by 128",
    (1, 512, 7, 512, 3, 1): "fragments 128x128x32 by 128",
}


@pytest.mark.parametrize("sizes", FIRST, ids=str)
def test_first_choices_of_many_cores(sizes):
    info = replace(H200, cores=132, max_units=1024)
    (work,) = lower_conv_weight_gradient(asked(square(*sizes), "float32", info))
    assert work.variant == FIRST[sizes]
    works = lower_conv_weight_gradient(asked(square(*sizes), "float32", info, candidates=True))
    variants = [work.variant for work in works]
    assert variants[0] == FIRST[sizes]
    assert len(set(variants)) == len(variants)
    # What copies more is timed beside the others.
    assert any(variant.startswith("product of places") for variant in variants)
    for build, plan in (one for work in works for one in planned(work)):
        assert build.kernel(info.features).shared_bytes <= info.shared_bytes
        assert isinstance(plan, GenericPlan) or plan.dtype is float32


@pytest.mark.parametrize(
    ("sizes", "copied"),
    [((64, 512, 16, 256, 3, 1), True), ((32, 128, 28, 128, 3, 1), False)],
    ids=str,
)
def test_many_rows_of_half_types_pay_copies_beyond_the_cache(sizes, copied):
    info = replace(H200, cores=132, max_units=1024)
    work, *_ = lower_conv_weight_gradient(asked(square(*sizes), "bfloat16", info))
    assert work.variant.startswith("product of places") == copied


# Rows of whole and of cut lines; more channels than a tile has, padding on one side, a stride down
# and gaps, two taps and seven of a row, one row of pixels and one axis, one tap of a part; rows of
# taps of which the first and last see none of the images.
LINES = [
    ((2, 64, 5, 28), (72, 64, 3, 3), ONE, PADDED, ONE, 1),
    ((1, 68, 6, 32), (64, 68, 3, 2), (2, 1), ((0, 1), (1, 0)), (2, 1), 1),
    ((2, 64, 1, 60), (136, 64, 1, 5), ONE, (NONE, (3, 1)), (1, 2), 1),
    ((1, 100, 2, 28), (100, 100, 2, 7), ONE, ((1, 0), (3, 3)), ONE, 1),
    ((3, 72, 28), (64, 72, 3), (1,), ((1, 1),), (1,), 1),
    ((2, 64, 4, 64), (64, 64, 1, 1), ONE, ((-1, 0), (-4, 0)), ONE, 1),
    ((2, 64, 1, 32), (64, 64, 5, 3), ONE, ((2, 2), (1, 1)), (1, 1), 1),
]


# Eight cores, with cubes of four warp groups.
EIGHT = replace(H200, cores=8, max_units=1024, max_cube=(1024, 1024, 64))


def check_lines(row, monkeypatch):
    """Run a gradient from the images as they are, of which nothing is copied."""
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    monkeypatch.setattr(weight_gradient_gemm, "_MANY", 1 << 30)
    (work,) = lower_conv_weight_gradient(asked(row, "float32", EIGHT))
    assert work.variant.startswith("lines, ")
    made = [launch.build.function.name for launch in work.launches]
    backend = KernelBackend("lanes", lambda index: LanesDevice(EIGHT))
    check(backend, "conv_weight_gradient", row, "float32", precision="high")
    return work.variant, made


@pytest.mark.parametrize("row", LINES, ids=str)
def test_lines_of_pixels(row, monkeypatch):
    variant, made = check_lines(row, monkeypatch)
    one = variant.endswith(" in 1") and row[1][2:] == (1, 1)
    assert made == ["conv_weight_tma"] + ["add_transposed"] * (not one)


# Channels and taps of warp groups, rows of taps, output channels: tiles beyond all of them.
GROUPED = [(1, 3, 1, 3, 40), (2, 1, 2, 2, 64), (1, 2, 2, 1, 72), (3, 1, 4, 1, 32), (1, 1, 1, 2, 8)]


@pytest.mark.parametrize("shape", GROUPED, ids=str)
@pytest.mark.parametrize("row", [LINES[0], LINES[3]], ids=str)
def test_lines_of_any_plan(shape, row, monkeypatch):
    blocks, beside, own, downs, outputs = shape
    pitch = pitch_of(32 + beside * own - 1 + 3)
    window = row[1]
    whole = window[0] % outputs == window[2] % downs == 0
    made = WeightPlan(float32, blocks, beside, own, downs, 1, outputs, pitch, 1, 1, whole)
    rows = row[0][2] + downs - 1
    (plan,) = weight_gradient_tma_launch._filled(made, rows, EIGHT)
    monkeypatch.setattr(weight_gradient_tma_launch, "_shapes", lambda *_: [plan])
    check_lines(row, monkeypatch)


@pytest.mark.parametrize("pixels", range(1, 100))
def test_fragments_read_every_bank_once(pixels):
    """Eight rows of four adjacent pixels are in all 32 banks, at any shift."""
    pitch = pitch_of(pixels)
    assert pitch >= pixels
    assert pitch % 4 == 0
    banks = {(row * pitch + pixel) % 32 for row in range(8) for pixel in range(4)}
    assert len(banks) == 32


# A window whose taps across are too far apart, one that sees no row of the images, and rows that do
# not begin at whole accesses.
REFUSED = {
    "too long": ((2, 64, 4, 112), (64, 64, 3, 3), ONE, ((1, 1), (42, 42)), (1, 42), 1),
    "multiples of 16 bytes": ((2, 64, 4, 30), (64, 64, 3, 3), ONE, PADDED, ONE, 1),
    "leave much of lines": ((2, 64, 4, 36), (64, 64, 3, 3), ONE, PADDED, ONE, 1),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_lines_are_refused(reason):
    request = asked(REFUSED[reason], "float32", EIGHT)
    problem = for_weight(request)
    one = Convolution(problem, problem, EIGHT, rounded=True)
    assert reason in weight_gradient_tma_launch.weight_tma_refusal(one, request)


# Groups of whole tiles and of a part of one, strides, one axis, windows of one tap.
GROUPS = [
    ((3, 16, 7, 6), (128, 8, 3, 3), ONE, PADDED, ONE, 2),
    ((2, 24, 9, 11), (216, 8, 3, 3), (2, 1), ((0, 1), (2, 0)), (2, 1), 3),
    ((2, 48, 15), (144, 24, 4), (2,), ((1, 2),), (1,), 2),
    ((3, 128, 5, 7), (160, 64, 1, 1), ONE, (NONE, NONE), ONE, 2),
]


@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize("row", GROUPS, ids=str)
def test_products_of_groups_are_one_launch(row, chunks, monkeypatch):
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    monkeypatch.setattr(weight_gradient_gemm, "_MANY", 1)
    monkeypatch.setattr(weight_gradient_gemm, "STEPS", 1)
    info = replace(H200, cores=12)
    request = asked(row, "float32", info)
    if chunks > 1:
        monkeypatch.setattr(
            weight_gradient_gemm, "_some", lambda p, n, made=weight_gradient_gemm._some: made(p, 2)
        )
    (work,) = lower_conv_weight_gradient(request)
    assert work.way.name == "weight products of groups"
    made = [launch.build.function.name for launch in work.launches]
    assert made.count("matmul_tma") == min(chunks, row[0][0])
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, "conv_weight_gradient", row, "float32", precision="high")


@pytest.mark.parametrize(("dtype", "cores"), [("float32", 1), ("bfloat16", 12)])
def test_groups_that_fill_the_device_have_other_ways(dtype, cores):
    (work,) = lower_conv_weight_gradient(asked(GROUPS[0], dtype, replace(H200, cores=cores)))
    assert work.way.name != "weight products of groups"
