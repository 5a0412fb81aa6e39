"""Are depthwise convolutions and their gradients right, block by block, at the edges of images?"""

import random
from dataclasses import replace

import pytest

from calor import dtypes
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.contract.work import View
from calor_kernel.library.conv import direct_blocks_launch, planar_images
from calor_kernel.runtime.backend import KernelBackend

from .test_conv import NONE, OPS, check
from .test_implicit_gemm_mma import LOWERINGS, request_of

ONE = (1, 1)
# Cubes of too few units for staged tiles.
BLOCKS = replace(MANY_UNITS, max_units=128)
# shapes of x and w, stride, padding, dilation, groups.
ROWS = [
    ((2, 5, 11, 37), (10, 1, 3, 3), ONE, (ONE, ONE), ONE, 5),
    ((1, 3, 9, 9), (3, 1, 5, 5), (2, 2), ((2, 2), (2, 2)), ONE, 3),
    ((2, 4, 7, 7), (4, 1, 7, 7), ONE, ((3, 3), (3, 3)), ONE, 4),
    ((1, 2, 17, 8), (2, 1, 3, 3), (3, 2), ((1, 0), (0, 2)), (2, 1), 2),
    ((3, 2, 1, 1), (6, 1, 3, 3), ONE, (ONE, ONE), ONE, 2),
    ((2, 3, 41), (3, 1, 31), (1,), ((15, 15),), (1,), 3),
    ((1, 3, 60), (3, 1, 4), (3,), ((1, 1),), (2,), 3),
    ((1, 2, 6, 6), (2, 1, 2, 3), (2, 1), ((-1, 2), (1, -2)), (1, 2), 2),
    ((1, 2, 4, 4), (4, 1, 1, 1), (2, 2), (NONE, NONE), ONE, 2),
    ((2, 6, 9, 5), (9, 2, 3, 3), (2, 1), (ONE, ONE), ONE, 3),
    ((1, 4, 3, 5, 6), (6, 2, 3, 3, 3), (1, 2, 1), (ONE,) * 3, (2, 1, 1), 2),
    ((2, 2, 5, 4, 3), (2, 1, 3, 2, 2), (2, 2, 2), ((1, 0), ONE, NONE), (1,) * 3, 2),
]
# One group: few filters, and the gradient of few channels.
ALONE = [
    ("conv", ((2, 5, 9, 9), (3, 5, 3, 3), ONE, (ONE, ONE), ONE, 1)),
    ("conv_weight_gradient", ((2, 5, 9, 9), (3, 5, 3, 3), (2, 2), (ONE, ONE), ONE, 1)),
    ("conv_input_gradient", ((1, 3, 21, 20), (6, 3, 7, 7), (2, 2), ((3, 3), (3, 3)), ONE, 1)),
    ("conv", ((1, 3, 5, 6, 7), (4, 3, 3, 3, 3), (1,) * 3, (ONE,) * 3, (1,) * 3, 1)),
    (
        "conv_weight_gradient",
        ((1, 3, 4, 6, 7), (4, 3, 3, 3, 2), (2, 1, 1), (ONE,) * 3, (1,) * 3, 1),
    ),
    ("conv_input_gradient", ((1, 1, 50), (4, 1, 10), (5,), ((0, 0),), (1,), 1)),
    ("conv_input_gradient", ((1, 4, 9, 6, 7), (5, 4, 3, 3, 3), (2, 2, 2), (ONE,) * 3, (1,) * 3, 1)),
]
# Windows that do not overlap, as patches.
PATCHES = [
    ("conv", ((2, 3, 12, 8), (10, 3, 4, 4), (4, 4), (NONE, NONE), ONE, 1)),
    ("conv", ((1, 2, 15), (5, 2, 5), (5,), (NONE,), (1,), 1)),
    ("conv_input_gradient", ((2, 3, 12, 8), (10, 3, 4, 4), (4, 4), (NONE, NONE), ONE, 1)),
    (
        "conv_input_gradient",
        ((1, 2, 4, 6, 6), (5, 2, 2, 3, 2), (2, 3, 2), (NONE,) * 3, (1,) * 3, 1),
    ),
    # Images that are no whole number of windows, windows apart from each other, and padding.
    ("conv", ((2, 3, 14, 11), (10, 3, 4, 4), (4, 4), (NONE, NONE), ONE, 1)),
    ("conv", ((1, 2, 17), (5, 2, 4), (5,), (NONE,), (1,), 1)),
    ("conv_input_gradient", ((2, 3, 14, 11), (10, 3, 4, 4), (4, 4), (NONE, NONE), ONE, 1)),
    ("conv_input_gradient", ((2, 3, 12, 8), (10, 3, 3, 2), (4, 3), (NONE, (1, 0)), ONE, 1)),
    ("conv_input_gradient", ((1, 17, 13), (6, 17, 4), (6,), ((2, 3),), (1,), 1)),
    # Groups, and windows that overlap.
    ("conv_input_gradient", ((2, 6, 13, 11), (4, 3, 5, 5), (5, 5), (NONE, ONE), ONE, 2)),
    ("conv_input_gradient", ((1, 17, 11, 17), (6, 17, 4, 5), (2, 3), (ONE, (2, 2)), ONE, 1)),
    (
        "conv_input_gradient",
        ((1, 12, 9, 6, 7), (5, 12, 3, 3, 3), (2, 2, 2), (ONE,) * 3, (1,) * 3, 1),
    ),
]
# Many pixels of few channels: sums in parts.
PARTED = ((8, 2, 40, 33), (4, 1, 3, 3), ONE, (ONE, ONE), ONE, 2)


def drawn(seed):
    """Return a depthwise convolution of random sizes."""
    rng = random.Random(seed)
    axes, groups = rng.choice((1, 2, 2)), rng.randint(2, 5)
    taps = [rng.choice((1, 2, 3, 4, 5, 7)) for _ in range(axes)]
    stride, dilation = (tuple(rng.choice((1, 1, 2, 3)) for _ in range(axes)) for _ in "ab")
    padding = tuple((rng.randint(0, k), rng.randint(0, k)) for k in taps)
    reach = [d * (k - 1) + 1 for k, d in zip(taps, dilation, strict=True)]
    size = [
        max(rng.randint(1, 19), r - low - high)
        for r, (low, high) in zip(reach, padding, strict=True)
    ]
    x = (rng.randint(1, 3), groups, *size)
    return x, (groups * rng.choice((1, 1, 2)), 1, *taps), stride, padding, dilation, groups


@pytest.fixture(scope="module")
def backend():
    return KernelBackend("lanes", lambda index: LanesDevice(BLOCKS))


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_shapes(backend, op, row):
    work, *_ = LOWERINGS[op](request_of(op, row, dtypes.float32, BLOCKS))
    assert work.way.name == "direct blocks"
    check(backend, op, row, "float32")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("way", "op", "row"),
    [("direct blocks", *one) for one in ALONE] + [("patches", *one) for one in PATCHES],
    ids=str,
)
def test_one_group(backend, way, op, row, dtype):
    work, *_ = LOWERINGS[op](request_of(op, row, getattr(dtypes, dtype), BLOCKS))
    assert work.way.name == way
    check(backend, op, row, dtype)
    check(backend, op, row, dtype, reordered=True)


# Gradients of windows that overlap, of enough channels for a product.
FOLDED = [
    ((3, 5, 8, 7), (6, 5, 4, 4), (2, 2), (ONE, ONE), ONE, 1),
    ((2, 3, 21), (7, 3, 4), (2,), (ONE,), (1,), 1),
    ((2, 10, 6, 9), (5, 10, 3, 5), (1, 2), (ONE, (2, 1)), ONE, 1),
    # Windows whose pixels no other window sees.
    ((3, 20, 4, 4), (6, 20, 4, 4), ONE, (NONE, NONE), ONE, 1),
]


@pytest.mark.parametrize("columns", [1, 256])
@pytest.mark.parametrize("row", FOLDED, ids=str)
def test_images_of_few_windows_are_columns_of_one_product(row, columns, monkeypatch):
    module = "calor_kernel.library.conv.disjoint_windows"
    monkeypatch.setattr(f"{module}._DEPTH", 1)
    for name in ("disjoint_windows", "folded_products"):
        monkeypatch.setattr(f"calor_kernel.library.conv.{name}.COLUMNS", columns)
    monkeypatch.setattr(f"{module}._SEEN", 1)
    op, info = "conv_input_gradient", replace(BLOCKS, features=BLOCKS.features | {"matrix"})
    work, *_ = LOWERINGS[op](request_of(op, row, dtypes.bfloat16, info))
    assert work.way.name == "patches"
    check(KernelBackend("lanes", lambda index: LanesDevice(info)), op, row, "bfloat16")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize(
    "row", [row for op, row in PATCHES if op == "conv_input_gradient"], ids=str
)
def test_patches_by_cubes_of_one_unit(row, dtype):
    op, (_, w, stride, *_) = "conv_input_gradient", row
    work, *_ = LOWERINGS[op](request_of(op, row, getattr(dtypes, dtype), ONE_UNIT))
    overlap = any(k > s for k, s in zip(w[2:], stride, strict=True))
    assert (work.way.name == "patches") == (not overlap)
    check(KernelBackend("lanes", lambda index: LanesDevice(ONE_UNIT)), op, row, dtype)


# Windows that overlap along one or two axes, of few pixels for each channel.
OVERLAPPING = [
    ((2, 5, 9, 8), (33, 5, 3, 3), (2, 2), ((1, 1), (1, 0)), ONE, 1),
    ((1, 6, 31), (9, 6, 6), (4,), ((1, 1),), (1,), 1),
    ((1, 4, 12, 7), (24, 4, 2, 5), (2, 3), ((0, 0), (2, 2)), ONE, 1),
]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("row", OVERLAPPING, ids=str)
def test_few_overlapping_windows_are_folded_by_cubes_of_one_unit(row, dtype):
    """Weights of each phase would be reordered; those that are kept are reordered once."""
    op, info = "conv_input_gradient", replace(ONE_UNIT, features=frozenset())
    request = request_of(op, row, getattr(dtypes, dtype), info)
    (first, *_), (kept, *_) = (
        LOWERINGS[op](one) for one in (request, replace(request, kept=frozenset((1,))))
    )
    assert first.way.name == "patches"
    assert kept.way.name != "patches"
    check(KernelBackend("lanes", lambda index: LanesDevice(info)), op, row, dtype)


# Few groups of many channels.
GROUPS = [
    ((3, 48, 9, 7), (32, 24, 3, 3), (2, 1), (ONE, ONE), ONE, 2),
    ((1, 51, 40), (54, 17, 9), (1,), ((4, 4),), (1,), 3),
]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("row", GROUPS, ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_few_groups_of_many_channels(backend, op, row, dtype, monkeypatch):
    few = dict.fromkeys((True, False), 1000)
    monkeypatch.setattr("calor_kernel.library.conv.each_group._FLOPS", few)
    monkeypatch.setattr("calor_kernel.library.conv.joined_groups._CHANNELS", 99)
    work, *_ = LOWERINGS[op](request_of(op, row, getattr(dtypes, dtype), BLOCKS))
    assert work.way.name == "each group"
    # Full float32 of as many channels as tiles of one group have.
    exact, *_ = LOWERINGS[op](request_of(op, row, dtypes.float32, BLOCKS))
    assert exact.way.name != "each group"
    check(backend, op, row, dtype)
    check(backend, op, row, dtype, reordered=True)


# Groups of several channels, in images whose pixels lie apart.
APART = ((2, 10, 9, 7), (15, 2, 3, 3), (2, 1), (ONE, ONE), ONE, 5)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_images_with_channels_last_are_copied_for_groups(backend, op, dtype, monkeypatch):
    """Neighbouring pixels of a copy are adjacent; few, or pixels near each other, stay."""
    request = request_of(op, APART, getattr(dtypes, dtype), BLOCKS)
    last = tuple(with_channels_last(view) for view in request.inputs)
    for least, step, copied in ((1, 8, True), (1, 32, False), (1 << 20, 8, False)):
        monkeypatch.setattr(planar_images, "_ELEMENTS", least)
        monkeypatch.setattr(planar_images, "_APART", step)
        work, *_ = LOWERINGS[op](replace(request, inputs=last))
        assert (work.way.name == "planar images") == copied
        plain, *_ = LOWERINGS[op](request)
        assert plain.way.name != "planar images"
    monkeypatch.setattr(planar_images, "_ELEMENTS", 1)
    check(backend, op, APART, dtype, reordered=True)


def with_channels_last(view):
    _, channels, high, wide = view.shape
    strides = (channels * high * wide, 1, wide * channels, channels)
    return View(view.shape, strides, view.dtype)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("seed", range(12))
def test_random_shapes(backend, op, seed):
    check(backend, op, drawn(seed), "float32")


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32"])
def test_types(backend, op, dtype):
    check(backend, op, ROWS[1], dtype)
    check(backend, op, ROWS[0], dtype, reordered=True)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_parts_of_a_weight_gradient_are_added(dtype):
    op, info = "conv_weight_gradient", replace(MANY_UNITS, cores=2)
    request = request_of(op, PARTED, getattr(dtypes, dtype), info)
    labels = [launch.label for launch in LOWERINGS[op](request)[0].launches]
    assert labels == ["conv blocks weights 8x1", "conv parts"]
    check(KernelBackend("lanes", lambda index: LanesDevice(info)), op, PARTED, dtype)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(("images", "block"), [(1, "3x1"), (64, "8x1")])
def test_blocks_grow_with_the_work(op, images, block):
    """Many outputs are in blocks of rows; few are in small ones, so that all units have work."""
    row = ((images, 96, 56, 56), (96, 1, 3, 3), ONE, (ONE, ONE), ONE, 96)
    request = request_of(op, row, dtypes.float32, replace(BLOCKS, cores=132))
    (work,) = LOWERINGS[op](request)
    assert work.launches[0].label.endswith(block)


# Channels of a unit, the op, and shapes: groups of several outputs, with strides, alone.
SEVERAL = [
    (4, "conv", ((2, 8, 11, 9), (8, 4, 3, 3), ONE, (ONE, ONE), ONE, 2)),
    (4, "conv_input_gradient", ((2, 8, 11, 9), (6, 4, 3, 3), ONE, (ONE, ONE), ONE, 2)),
    (3, "conv", ((1, 6, 9, 10), (6, 3, 3, 3), (2, 1), (ONE, (2, 0)), (1, 2), 2)),
    (4, "conv", ((1, 6, 40), (8, 3, 5), (1,), ((2, 2),), (1,), 2)),
    (2, "conv_input_gradient", ((1, 4, 8, 9), (4, 2, 3, 3), (2, 2), (ONE, ONE), ONE, 2)),
    (1, "conv", ((1, 10, 9, 9), (10, 5, 3, 3), ONE, (ONE, ONE), ONE, 2)),
    (1, "conv", ((1, 4, 9, 9), (4, 2, 5, 5), ONE, (ONE, ONE), ONE, 2)),
    (3, "conv", ((2, 5, 9, 9), (3, 5, 3, 3), ONE, (ONE, ONE), ONE, 1)),
]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("beside", "op", "row"), SEVERAL, ids=str)
def test_channels_of_a_group_share_what_a_unit_reads(backend, beside, op, row, dtype, monkeypatch):
    monkeypatch.setattr(direct_blocks_launch, "_BUSY", 1)
    (work, *_) = LOWERINGS[op](request_of(op, row, getattr(dtypes, dtype), BLOCKS))
    said = dict(work.launches[0].build.keywords)
    assert (work.way.name, said["beside"]) == ("direct blocks", beside)
    check(backend, op, row, dtype)


def test_blocks_have_one_channel_where_units_would_be_idle():
    row = SEVERAL[0][2]
    for images, beside in ((2, 1), (512, 4)):
        many = (images, *row[0][1:]), *row[1:]
        (work, *_) = LOWERINGS["conv"](request_of("conv", many, dtypes.float32, BLOCKS))
        assert dict(work.launches[0].build.keywords)["beside"] == beside
