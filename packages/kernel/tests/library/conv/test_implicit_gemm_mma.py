"""Are convolutions by matrix instructions right at the edges of tiles, images and channels?"""

from dataclasses import replace

import pytest

from calor import dtypes
from calor.dtypes import bfloat16, float16, float32
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.contract.work import Request, View
from calor_kernel.library.conv import disjoint_windows
from calor_kernel.library.conv.implicit_gemm_mma import units_of_pixel
from calor_kernel.library.conv.implicit_gemm_mma_launch import MORE, TILES, fits
from calor_kernel.library.conv.lowering import (
    lower_conv,
    lower_conv_input_gradient,
    lower_conv_weight_gradient,
)
from calor_kernel.library.conv.problem import forward
from calor_kernel.library.gemm.mma import MmaPlan
from calor_kernel.planning.recording import fitted
from calor_kernel.runtime.backend import KernelBackend

from ..named import named_info
from .test_conv import DIGITS, NONE, OPS, check, output_shape

INFO = replace(
    MANY_UNITS, features=MANY_UNITS.features | {"load_matrix"}, planes=(32,), shared_bytes=227 << 10
)
BESIDE = {"async_matrix", "async_copy", "tensor_copy", "mbarrier", "clusters"}
H200 = replace(INFO, features=INFO.features | BESIDE)
LOWERINGS = {
    "conv": lower_conv,
    "conv_input_gradient": lower_conv_input_gradient,
    "conv_weight_gradient": lower_conv_weight_gradient,
}
ONE = (1, 1)
PADDED = ((1, 1), (1, 1))
# shapes of x and w, stride, padding, dilation, groups.
ROWS = [
    ((2, 16, 6, 7), (16, 16, 3, 3), ONE, PADDED, ONE, 1),
    ((1, 3, 21, 20), (16, 3, 7, 7), (2, 2), ((3, 3), (3, 3)), ONE, 1),
    ((2, 20, 9, 8), (24, 20, 3, 3), (2, 2), PADDED, ONE, 1),
    ((3, 17, 7, 7), (19, 17, 1, 1), (2, 2), (NONE, NONE), ONE, 1),
    ((1, 40, 10, 10), (70, 40, 3, 2), (1, 2), ((2, 1), (0, 1)), (2, 1), 1),
    ((1, 24, 40), (16, 24, 3), (2,), ((1, 1),), (1,), 1),
    ((1, 64, 5, 5), (130, 64, 3, 3), ONE, PADDED, ONE, 1),
    ((2, 64, 8, 8), (64, 64, 1, 1), ONE, (NONE, NONE), ONE, 1),
    ((1, 124, 4, 5), (20, 124, 3, 3), ONE, PADDED, ONE, 1),
    ((2, 24, 7, 14), (24, 24, 3, 3), (2, 2), PADDED, ONE, 1),
    ((2, 20, 8, 10), (40, 20, 3, 3), (3, 3), PADDED, ONE, 1),
    ((1, 16, 9, 16), (32, 16, 1, 1), (2, 2), (NONE, NONE), ONE, 1),
    ((2, 32, 6, 9), (16, 32, 2, 1), (1, 3), (NONE, (-1, 1)), ONE, 1),
]


def request_of(op, row, dtype, info=INFO, candidates=False):
    x, w, stride, padding, dilation, groups = row
    out = output_shape(x, w, stride, padding, dilation)
    shapes = {"conv": (x, w, out), "conv_input_gradient": (out, w, x)}
    a, b, c = shapes.get(op, (x, out, w))
    said = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    views = tuple(View.dense(spec(s, dtype)) for s in (a, b))
    return Request(op, said, views, (spec(c, dtype),), info, candidates=candidates)


def square(images, channels, places, filters, taps, stride):
    """A convolution of ResNet-50's form: square images and windows, padded to keep their size."""
    x, w, side = (images, channels, places, places), (filters, channels, taps, taps), taps // 2
    return x, w, (stride,) * 2, ((side, side),) * 2, ONE, 1


def names(works):
    return {launch.build.function.name for work in works for launch in work.launches}


def planned(work):
    builds = [(launch.build, dict(launch.build.keywords)) for launch in work.launches]
    return [(build, said["plan"]) for build, said in builds if "plan" in said]


@pytest.fixture(scope="module")
def backend():
    return KernelBackend("lanes", lambda index: LanesDevice(INFO))


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_shapes(backend, op, row, monkeypatch):
    # Many stride phases would be folded.
    monkeypatch.setattr(disjoint_windows, "_WINDOWS", 0)
    found = names(LOWERINGS[op](request_of(op, row, bfloat16)))
    few = op == "conv_input_gradient" and row[0][1] < 16
    wanted = {"conv_mma", "conv_weight_mma", "matmul_mma"}
    assert found & ({"tiled_correlation", "fold_windows"} if few else wanted)
    check(backend, op, row, "bfloat16")


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("row", [ROWS[4]], ids=str)
def test_groups_of_planes(op, row):
    info = replace(INFO, features=INFO.features | {"async_matrix"})
    assert "groups" in LOWERINGS[op](request_of(op, row, bfloat16, info))[0].variant
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, op, row, "bfloat16")


# Instructions that devices have by name, and operands for them.
NAMED = {
    "mfma_32x32x8_bfloat16": "bfloat16",
    "mfma_32x32x2_float32": "float16",
    "wmma_16x16x16_float16": "float16",
    "simdgroup_8x8x8_float32": "bfloat16",
}


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("row", [ROWS[4]], ids=str)
@pytest.mark.parametrize("name", NAMED)
def test_instructions_by_name(op, row, name):
    info, dtype = named_info(name), NAMED[name]
    found = names(LOWERINGS[op](request_of(op, row, getattr(dtypes, dtype), info)))
    assert found & {"conv_mma", "conv_weight_mma", "matmul_warp_mma"}
    check(KernelBackend("lanes", lambda index: LanesDevice(info)), op, row, dtype)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", NAMED)
def test_tiles_of_instructions_by_name_fit(op, name):
    info, dtype = named_info(name), getattr(dtypes, NAMED[name])
    works = LOWERINGS[op](request_of(op, ROWS[0], dtype, info, True))
    made = [pair for work in works for pair in planned(work) if isinstance(pair[1], MmaPlan)]
    assert made
    for build, plan in made:
        assert build.kernel(info.features).shared_bytes <= plan.shared_bytes
        assert plan.shape.name == name
        # A unit copies whole accesses of a step, as often as any other.
        weights = op == "conv_weight_gradient"
        lines, parts = plan.depth // plan.access, (plan.rows, plan.columns)
        if weights:
            lines, parts = units_of_pixel(plan), (plan.depth,)
            assert plan.rows % (lines * plan.access) == plan.columns % (lines * plan.access) == 0
        assert all(part % (plan.units // lines) == 0 for part in parts)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_long_sums_of_few_filters_are_added_in_parts(dtype):
    row = ((1, 64, 6, 7), (3, 64, 3, 3), ONE, PADDED, ONE, 1)
    of = request_of("conv", row, getattr(dtypes, dtype), MANY_UNITS)
    assert "add_each_part" in names(lower_conv(of))
    check(KernelBackend("lanes", lambda index: LanesDevice(MANY_UNITS)), "conv", row, dtype)


@pytest.mark.parametrize("op", OPS)
def test_float16_and_channels_that_lie_dense(backend, op):
    check(backend, op, ROWS[0], "float16")
    check(backend, op, ROWS[0], "float16", reordered=True)


def test_operands_whose_channels_lie_dense_are_not_copied():
    request = request_of("conv", ROWS[0], bfloat16)
    x, w = request.inputs
    _, c, h, v = x.shape
    laid = View(x.shape, (h * v * c, 1, v * c, c), x.dtype)
    (work,) = LOWERINGS["conv"](replace(request, inputs=(laid, w)))
    assert [launch.prepares for launch in work.launches] == [True, False]


def test_weights_of_one_tap_that_lie_as_they_are_read_are_not_copied():
    row = ((2, 64, 7, 7), (72, 64, 1, 1), ONE, (NONE, NONE), ONE, 1)
    (work,) = LOWERINGS["conv"](request_of("conv", row, bfloat16))
    assert [launch.label for launch in work.launches][:1] == ["conv channels last"]
    assert not any(launch.prepares for launch in work.launches)


def test_phases_of_a_stride_are_one_launch_that_share_their_copies():
    (work,) = LOWERINGS["conv_input_gradient"](request_of("conv_input_gradient", ROWS[9], bfloat16))
    assert [launch.build.function.name for launch in work.launches] == [
        "channels_last",
        "channels_last",
        "conv_mma",
    ]


@pytest.mark.parametrize("row", [ROWS[2], ROWS[9]], ids=str)
def test_phases_that_take_turns_may_be_computed_together(row, monkeypatch):
    op, info = "conv_input_gradient", replace(H200, max_units=256, max_cube=(256, 1, 1))
    names = [work.variant for work in LOWERINGS[op](request_of(op, row, bfloat16, info, True))]
    assert any(name.endswith(", joined") for name in names)
    assert "joined" not in names[0]
    monkeypatch.setattr(
        "calor_kernel.library.conv.implicit_gemm_mma_launch.joins", lambda problem: True
    )
    check(KernelBackend("lanes", lambda index: LanesDevice(info)), op, row, "bfloat16")


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("places", [(16, 32), (8, 10), (6, 6)], ids=str)
def test_gradients_of_weights_of_one_tap_are_products_of_images(dtype, places, monkeypatch):
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    info = replace(H200, cores=8)
    row = ((1 if places == (16, 32) else 3, 64, *places), (72, 64, 1, 1), ONE, (NONE, NONE), ONE, 1)
    request = request_of("conv_weight_gradient", row, getattr(dtypes, dtype), info)
    said = {**request.attributes, "precision": "high"}
    work, *_ = LOWERINGS["conv_weight_gradient"](replace(request, attributes=said))
    # The copy engine wants lines that begin at multiples of 16 bytes.
    assert work.variant.startswith("product") == (places != (6, 6) or dtype == "float32")
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, "conv_weight_gradient", row, dtype, precision="high")


@pytest.mark.parametrize("op", LOWERINGS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("filters", [16, 52, 56])
def test_few_filters_of_one_tap_are_products_in_place(op, dtype, filters, monkeypatch):
    """Memory decides how long they take, so tiles may be half empty."""
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    info = replace(H200, cores=8)
    given = {"conv_input_gradient": (filters, 56)}.get(op, (56, filters))
    row = ((2, given[0], 8, 8), (given[1], given[0], 1, 1), ONE, (NONE, NONE), ONE, 1)
    request = request_of(op, row, getattr(dtypes, dtype), info)
    said = {**request.attributes, "precision": "high"}
    work, *_ = LOWERINGS[op](replace(request, attributes=said))
    # Lines of the weights that lie along the K axis are whole accesses, others of 52 are not.
    odd = op == "conv_input_gradient" and dtype == "bfloat16" and filters % 8 != 0
    assert work.variant.startswith("product") != odd
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, op, row, dtype, precision="high")


# Images of which many share what is turned, few places of all of them, and one image.
TURNED = {
    ((3, 68, 12, 16), (72, 68, 1, 1)): ["matmul boxes 64x64 tf32"],
    ((2, 72, 16, 16), (64, 72, 1, 1)): ["matmul boxes 64x64 tf32"],
    ((1, 64, 24, 24), (64, 64, 1, 1)): ["matmul boxes 64x64 tf32"],
}


@pytest.mark.parametrize("shapes", TURNED, ids=str)
def test_weights_are_turned_where_many_places_share_them(shapes, monkeypatch):
    """Of TF32 the gradient of images takes weights along their other axis than they lie."""
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    info, row = replace(H200, cores=64), (*shapes, ONE, (NONE, NONE), ONE, 1)
    request = request_of("conv_input_gradient", row, float32, info)
    said = {**request.attributes, "precision": "high"}
    work, *_ = lower_conv_input_gradient(replace(request, attributes=said))
    assert [launch.label for launch in work.launches] == TURNED[shapes]
    # A copy of weights is kept while they stay.
    assert [launch.prepares for launch in work.launches[:-1]] == [True] * (len(work.launches) - 1)
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, "conv_input_gradient", row, "float32", precision="high")


def test_parts_of_a_long_sum_of_one_image_are_added():
    """Of few tiles and many channels the product is in parts, which other cubes add."""
    info = replace(H200, cores=8)
    row = ((1, 1024, 8, 16), (64, 1024, 1, 1), ONE, (NONE, NONE), ONE, 1)
    work, *_ = lower_conv(request_of("conv", row, bfloat16, info))
    assert [launch.label for launch in work.launches] == ["matmul boxes 64x64 in shares of 4"]
    check(KernelBackend("lanes", lambda index: LanesDevice(info)), "conv", row, "bfloat16")


# Rows of images and parts of them, several images, strides of one tap, and parts of sums; of two
# across, phases that see taps of the same columns, and of others.
BOXED = [
    ((2, 64, 6, 8), (72, 64, 3, 3), ONE, PADDED, ONE, 1),
    ((3, 64, 7, 7), (64, 64, 1, 1), ONE, (NONE, NONE), ONE, 1),
    ((1, 128, 5, 9), (72, 128, 3, 3), ONE, PADDED, (2, 1), 1),
    ((2, 64, 9, 9), (64, 64, 1, 1), (2, 2), (NONE, NONE), ONE, 1),
    ((1, 64, 30), (64, 64, 3), (1,), ((0, 2),), (1,), 1),
    ((2, 64, 6, 12), (64, 64, 3, 3), (2, 2), PADDED, ONE, 1),
    ((1, 64, 6, 9), (64, 64, 2, 3), (1, 3), ((1, 0), (2, 2)), ONE, 1),
    ((1, 64, 6, 8), (64, 64, 2, 3), (1, 2), ((1, 0), (3, 3)), (1, 3), 1),
]
# Windows smaller than the stride: of whole cells and of cut ones, beyond the padding, of several
# taps, in parts, of one axis.
SPARSE = [
    ((2, 64, 8, 12), (64, 64, 1, 1), (2, 2), (NONE, NONE), ONE, 1),
    ((2, 72, 9, 13), (64, 72, 1, 1), (2, 2), ((1, 1), (0, 1)), ONE, 1),
    ((1, 64, 7, 8), (64, 64, 1, 1), (3, 4), ((0, 1), (2, 0)), ONE, 1),
    ((1, 64, 12, 9), (64, 64, 3, 2), (2, 2), PADDED, (2, 2), 1),
    ((1, 64, 10, 6), (2048, 64, 1, 1), (2, 1), (NONE, NONE), ONE, 1),
    ((2, 64, 21), (64, 64, 1), (2,), ((0, 0),), (1,), 1),
]


@pytest.mark.parametrize("op", OPS[:2])
@pytest.mark.parametrize("row", BOXED, ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_boxes_of_places(op, row, dtype, monkeypatch):
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    info = replace(H200, cores=2, max_units=384, max_cube=(384, 1, 1))
    request = request_of(op, row, getattr(dtypes, dtype), info)
    said = {**request.attributes, "precision": "high"}
    work, *_ = LOWERINGS[op](replace(request, attributes=said))
    channels, strided = row[1][0 if op == "conv_input_gradient" else 1], max(row[2]) > 1
    several = strided and op == "conv_input_gradient" and row[1][2:] != ONE
    # Channels fill most of their lines of 128 bytes; zeros fill the rest of the last line.
    line = 128 // getattr(dtypes, dtype).itemsize
    filled = 10 * channels >= 7 * (-(-channels // line) * line)
    assert work.variant.startswith("boxes") == (filled and not several)
    if filled and several:
        assert work.variant.startswith("phases" if row[2] == (2, 2) else "groups")
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, op, row, dtype, precision="high")


@pytest.mark.parametrize("row", SPARSE, ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_gradients_of_windows_smaller_than_the_stride_are_one_product(row, dtype, monkeypatch):
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    deep = row[1][0] > 72
    info = replace(H200, cores=8 if deep else 2, max_units=384, max_cube=(384, 1, 1))
    op = "conv_input_gradient"
    request = request_of(op, row, getattr(dtypes, dtype), info)
    said = {**request.attributes, "precision": "high"}
    work, *_ = LOWERINGS[op](replace(request, attributes=said))
    assert work.variant.startswith("boxes")
    assert (" in " in work.variant) == deep
    assert names([work]) <= {"channels_last", "conv_tma", "add_transposed"}
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, op, row, dtype, precision="high")


@pytest.mark.parametrize("op", OPS[:2])
@pytest.mark.parametrize("taps", [1, 3])
def test_few_tiles_are_timed_smaller_and_in_more_parts(op, taps):
    p = taps // 2
    row = ((1, 256, 14, 14), (256, 256, taps, taps), ONE, ((p, p), (p, p)), ONE, 1)
    info = replace(H200, cores=132, max_units=1024)
    works = LOWERINGS[op](request_of(op, row, bfloat16, info, candidates=True))
    boxes = [work for work in works if work.variant.startswith("boxes")]
    assert len({work.variant for work in boxes}) == len(boxes)
    assert boxes[0].variant.startswith("boxes 128x")
    assert any("boxes 64x" in work.variant for work in boxes)
    for build, plan in (one for work in boxes for one in planned(work)):
        assert build.kernel(info.features).shared_bytes <= plan.shared_bytes <= info.shared_bytes


MANY = [
    ((70_000, 16, 3, 3), (16, 16, 3, 3), ONE, PADDED, ONE, 1),
    ((70_000, 64, 4, 4), (64, 64, 1, 1), ONE, (NONE, NONE), ONE, 1),
    ((1, 4096, 6, 6), (4096, 4096, 3, 3), ONE, PADDED, ONE, 1),
]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("row", MANY, ids=str)
@pytest.mark.parametrize("dtype", [bfloat16, float32], ids=str)
def test_launches_have_no_more_cubes_than_a_device_takes(op, row, dtype):
    works = LOWERINGS[op](request_of(op, row, dtype))
    for launch in (fitted(launch, INFO, op) for launch in works[0].launches):
        assert all(n <= most for n, most in zip(launch.cubes, INFO.max_cubes, strict=True))


REFUSED = {
    "type": (ROWS[0], float32, INFO),
    "groups": (((1, 32, 6, 6), (32, 16, 3, 3), ONE, PADDED, ONE, 2), bfloat16, INFO),
    "few channels": (((1, 2, 9, 9), (16, 2, 3, 3), ONE, PADDED, ONE, 1), bfloat16, INFO),
    "few rows": (((1, 16, 9, 9), (8, 16, 3, 3), ONE, PADDED, ONE, 1), float16, INFO),
    "planes": (ROWS[0], bfloat16, MANY_UNITS),
}


@pytest.mark.parametrize("why", REFUSED)
def test_others_go_another_way(why):
    row, dtype, info = REFUSED[why]
    others = {"tiled_correlation", "add_parts", "direct_blocks", "conv_simt", "channels_last"}
    assert names(LOWERINGS["conv"](request_of("conv", row, dtype, info))) <= others


@pytest.mark.parametrize("op", OPS)
def test_candidates_have_names_of_their_own_and_fit(op):
    works = LOWERINGS[op](request_of(op, ROWS[0], bfloat16, candidates=True))
    variants = [work.variant for work in works]
    assert len(set(variants)) == len(variants) > 4
    assert variants[-1] == "tiles"
    for work in works[:-1]:
        for build, plan in planned(work):
            assert build.kernel(INFO.features).shared_bytes <= plan.shared_bytes


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("row", [ROWS[2], ROWS[7]], ids=str)
@pytest.mark.parametrize("more", [set(), {"async_matrix"}], ids=["planes", "groups"])
def test_float32_where_it_may_be_rounded(op, row, more, monkeypatch):
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    info = replace(INFO, features=INFO.features | more)
    request = request_of(op, row, float32, info)
    said = {**request.attributes, "precision": "high"}
    works = LOWERINGS[op](replace(request, attributes=said))
    assert not names(works) & {"tiled_correlation", "matmul_simt"}
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, op, row, "float32", precision="high")


@pytest.mark.parametrize("dtype", [bfloat16, float32], ids=str)
@pytest.mark.parametrize("made", [*TILES, *MORE], ids=str)
def test_gradients_of_weights_by_any_tile(dtype, made, monkeypatch):
    """Those that are only timed too, with several tiles that edges cut, and parts of the sums."""
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    op, info = "conv_weight_gradient", replace(INFO, cores=16)
    row = ((3, 68, 14, 15), (72, 68, 2, 2), ONE, (NONE, NONE), ONE, 1)
    tiles = [(False, (made,), ())]
    monkeypatch.setattr(
        "calor_kernel.library.conv.implicit_gemm_mma_launch.tiles_of", lambda *_: tiles
    )
    request = request_of(op, row, dtype, info)
    said = {**request.attributes, "precision": "high"}
    work, *_ = LOWERINGS[op](replace(request, attributes=said))
    depth = made[2] * 2 // dtype.itemsize
    assert work.variant == f"fragments {made[0]}x{made[1]}x{depth} by {32 * made[3] * made[4]}"
    assert "add_transposed" in names([work])
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, op, row, dtype.name, precision="high")


# Lines longer than the tile has rows, and pixels that units do not copy in equal numbers.
UNEVEN = [(32, 64, 16, 2, 4, 3, False), (64, 64, 24, 2, 2, 3, False), (32, 64, 16, 2, 4, 3, True)]


@pytest.mark.parametrize("made", UNEVEN, ids=str)
def test_tiles_that_units_would_not_copy_whole_do_not_fit(made):
    *sizes, along = made
    assert not fits(MmaPlan(float32, *sizes, along, along), INFO)


def test_the_traffic_of_a_launch_is_known():
    """Profiles compare a launch with what it has to move: of images what windows meet."""
    row = ((2, 32, 16, 16), (64, 32, 3, 3), ONE, (NONE, NONE), ONE, 1)
    request = request_of("conv", row, float32, H200)
    said = {**request.attributes, "precision": "high"}
    works = lower_conv(replace(request, attributes=said, candidates=True))
    main = [
        launch
        for work in works
        for launch in work.launches
        if launch.label.startswith(("conv mma", "conv tma", "conv simt"))
    ]
    assert main
    nbytes = 4 * (2 * 32 * 256 + 64 * 32 * 9 + 2 * 64 * 14 * 14)
    assert {launch.nbytes for launch in main} == {nbytes}
    row = ((2, 32, 16, 16), (64, 32, 1, 1), (2, 2), (NONE, NONE), ONE, 1)
    problem = forward(request_of("conv", row, float32))
    assert problem.nbytes == 4 * (2 * 32 * 64 + 64 * 32 + 2 * 64 * 64)


def test_products_with_zeros_are_no_work():
    """A window of two phases has taps that one of them has not."""
    row = ((64, 256, 8, 8), (512, 256, 4, 4), (2, 2), PADDED, ONE, 1)
    request = request_of("conv_input_gradient", row, bfloat16, replace(H200, max_units=1024))
    works = lower_conv_input_gradient(replace(request, candidates=True))
    found = [work for work in works if "phases" in work.variant]
    assert found, [work.variant for work in works]
    for work in found:
        flops = sum(launch.flops for launch in work.launches)
        assert flops == 2 * 64 * 256 * 512 * (8 * 8) * 4


def test_few_filters_of_long_sums_take_tiles_with_empty_rows():
    row = ((2, 32, 6, 7), (3, 32, 3, 3), ONE, PADDED, ONE, 1)
    work, *_ = lower_conv(request_of("conv", row, bfloat16, H200))
    assert work.launches[-1].label.startswith("conv mma")
    check(KernelBackend("lanes", lambda index: LanesDevice(H200)), "conv", row, "bfloat16")


# Groups of whole accesses: rows beyond a group's last channel, strides, one tap, several phases.
SEVERAL = [
    ((2, 48, 6, 7), (80, 24, 3, 3), ONE, PADDED, ONE, 2),
    ((1, 64, 9, 8), (96, 16, 3, 3), (2, 2), PADDED, ONE, 4),
    ((3, 96, 5, 6), (96, 32, 1, 1), ONE, (NONE, NONE), ONE, 3),
    ((2, 48, 8, 6), (48, 16, 2, 3), (2, 1), ((1, 0), (0, 1)), (1, 2), 3),
    ((2, 64, 30), (64, 32, 5), (1,), ((2, 2),), (1,), 2),
]


@pytest.mark.parametrize("op", OPS[:2])
@pytest.mark.parametrize("row", SEVERAL, ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("info", [INFO, H200], ids=["planes", "warp groups"])
def test_small_groups_are_tiles_of_one_launch(op, row, dtype, info, monkeypatch):
    """One after another they would leave cores idle."""
    for name, value in (("_FLOPS", 0), ("_CHANNELS", 16)):
        monkeypatch.setattr(f"calor_kernel.library.conv.group_tiles.{name}", value)
    monkeypatch.setattr("calor_kernel.library.conv.joined_groups._CHANNELS", 99)
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    given = replace(info, cores=200)
    request = request_of(op, row, getattr(dtypes, dtype), given)
    request = replace(request, attributes={**request.attributes, "precision": "high"})
    work, *_ = LOWERINGS[op](request)
    assert work.way.name == "tiles of groups"
    assert sum(one.build.function.name == "conv_mma" for one in work.launches) == 1
    check(
        KernelBackend("lanes", lambda index: LanesDevice(given)), op, row, dtype, precision="high"
    )


def test_groups_for_all_cores_have_other_ways(monkeypatch):
    monkeypatch.setattr("calor_kernel.library.conv.group_tiles._FLOPS", 0)
    for cores, way in ((2, True), (1, False)):
        request = request_of("conv", SEVERAL[0], bfloat16, replace(INFO, cores=cores))
        work, *_ = lower_conv(request)
        assert (work.way.name == "tiles of groups") == way


def test_large_tiles_in_parts_come_before_small_ones():
    """Tiles of long sums fill a device in parts; short sums are of smaller tiles."""
    info = replace(H200, cores=132, max_units=1024, features=H200.features - {"tensor_copy"})
    for row, name in (
        (((8, 72, 32, 32), (72, 72, 7, 7), ONE, ((3, 3), (3, 3)), ONE, 1), "groups 128x128x"),
        (((8, 144, 16, 16), (144, 144, 7, 7), ONE, ((3, 3), (3, 3)), ONE, 1), "groups 128x128x"),
        (((8, 72, 32, 32), (72, 72, 3, 3), ONE, PADDED, ONE, 1), "groups 64x64x"),
    ):
        request = request_of("conv", row, dtypes.float32, info)
        said = {**request.attributes, "precision": "high"}
        work, *_ = lower_conv(replace(request, attributes=said))
        assert work.variant.startswith(name)
