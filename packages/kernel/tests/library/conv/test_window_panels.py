"""Are convolutions by products of packed windows what the reference says?"""

from dataclasses import replace

import numpy as np
import pytest

from calor.dtypes import bfloat16, float32
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.contract.work import LOWERINGS, Request, View
from calor_kernel.library.conv import (
    lowering,
    weight_gradient_launch,
    window_columns_launch,
    window_panels_launch,
)
from calor_kernel.planning.lowering import load_families
from calor_kernel.runtime.backend import KernelBackend

from ..ops import run_op
from .test_conv import NAMES, NONE, check, output_shape

INFO = replace(
    ONE_UNIT, dtypes=MANY_UNITS.dtypes, features=ONE_UNIT.features | {"dot_bfloat16"},
    vector_bytes=32, cores=1,
)  # fmt: skip
# Without fast masks, float32 is packed too.
FLOATS = replace(
    ONE_UNIT, features=ONE_UNIT.features - {"masked_access"}, vector_bytes=32, cores=1,
    native={"vector_registers": 16},
)  # fmt: skip
INFOS = {"bfloat16": INFO, "float32": FLOATS}
TILES = replace(INFO, features=INFO.features | {"tile_bfloat16"}, vector_bytes=64)
# Padding, odd windows, windows of several images in a vector, groups, strides, dilation, lines,
# volumes, one tap, cropping.
ROWS = [
    ((2, 3, 5, 7), (11, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((3, 2, 3, 3), (8, 2, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((2, 8, 6, 5), (32, 4, 2, 3), (2, 1), ((1, 0), (0, 2)), (1, 2), 2),
    ((1, 3, 12, 12), (9, 3, 7, 7), (2, 2), ((3, 3), (3, 3)), (1, 1), 1),
    ((2, 6, 19), (10, 6, 3), (1,), ((2, 0),), (1,), 1),
    ((1, 2, 3, 4, 5), (8, 2, 2, 2, 2), (1, 1, 1), ((0, 1),) * 3, (1, 1, 1), 1),
    ((2, 17, 4, 4), (25, 17, 1, 1), (1, 1), (NONE, NONE), (1, 1), 1),
    ((1, 16, 9, 9), (24, 16, 1, 1), (2, 2), (NONE, NONE), (1, 1), 1),
    ((1, 4, 8, 8), (8, 4, 2, 3), (1, 1), ((-1, 2), (1, -2)), (1, 1), 1),
]


@pytest.fixture(scope="module")
def backends():
    return {name: backend_of(info) for name, info in INFOS.items()}


def backend_of(info):
    return KernelBackend("lanes", lambda index: LanesDevice(info))


def works(op, row, info=INFO, dtype=bfloat16, kept=frozenset()):
    """The choices of a problem, the likeliest first."""
    load_families()
    x, w, stride, padding, dilation, groups = row
    given = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    shapes = [x, w, output_shape(x, w, stride, padding, dilation)]
    if op == "conv_input_gradient":
        shapes = [shapes[2], w, x]
        given["input_shape"] = x
    if op == "conv_weight_gradient":
        shapes = [x, shapes[2], w]
        given["weight_shape"] = w
    views = tuple(View.dense(spec(s, dtype)) for s in shapes[:2])
    request = Request(op, given, views, (spec(shapes[2], dtype),), info, kept=kept)
    return LOWERINGS[op](request)


def first(op, row, info=INFO, dtype=bfloat16, kept=frozenset(), number=0):
    """The variant and the labels of the first choice, or of another one."""
    work = works(op, row, info, dtype, kept)[number]
    return work.variant, [launch.label for launch in work.launches]


@pytest.mark.parametrize("name", INFOS)
@pytest.mark.parametrize("reordered", [False, True])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_convolutions(backends, row, reordered, name):
    assert first("conv", row, INFOS[name], NAMES[name])[0] == "windows"
    check(backends[name], "conv", row, name, reordered)


MASKED = replace(
    FLOATS, features=ONE_UNIT.features, vector_bytes=64, caches=(32 << 10, 64 << 10),
    native={"vector_registers": 32},
)  # fmt: skip
# Convolutions where selected lanes are as fast as all: many rows of one tap, of few terms, of few
# windows, few rows of several taps, many whose weights do and do not stay near, narrow images.
IN_PLACE = [
    ((2, 192, 11, 12), (26, 192, 1, 1), "windows"),
    ((2, 184, 11, 12), (26, 184, 1, 1), "rows"),
    ((1, 192, 11, 12), (26, 192, 1, 1), "rows"),
    ((2, 4, 9, 19), (63, 4, 3, 3), "rows"),
    ((2, 4, 9, 19), (65, 4, 3, 3), "windows"),
    ((2, 4, 9, 19), (64, 4, 3, 3), "channel vectors"),
    ((2, 20, 9, 19), (64, 20, 3, 3), "windows"),
    ((9, 8, 5, 7), (64, 8, 3, 3), "small width"),
]


@pytest.mark.parametrize(("x", "w", "way"), IN_PLACE)
def test_float32_is_packed_where_reading_in_place_is_slower(x, w, way):
    pad = (w[-1] // 2,) * 2
    row = (x, w, (1, 1), (pad, pad), (1, 1), 1)
    assert first("conv", row, MASKED, float32)[0] == way
    if way == "windows":
        check(backend_of(MASKED), "conv", row, "float32")


@pytest.mark.parametrize(("side", "way"), [(16, "channel vectors"), (17, "windows")])
def test_unchanged_weights_meet_small_images_in_place(side, way):
    """Both are offered beside each other, so that a plan chooses again."""
    row = ((2, 192, side, side), (32, 192, 1, 1), (1, 1), (NONE, NONE), (1, 1), 1)
    assert first("conv", row, MASKED, float32)[0] == "windows"
    assert first("conv", row, MASKED, float32, frozenset((1,)))[0] == way
    assert first("conv", row, MASKED, float32, number=2)[0] == "channel vectors"


# Rows of pixels that are shorter than a vector and longer than a panel, several images, groups,
# strides of two and three, more channels than a panel, one tap, volumes.
COLUMNS = [
    ((1, 3, 7, 7), (35, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((2, 6, 5, 9), (80, 3, 3, 3), (2, 2), ((1, 1), (1, 0)), (1, 1), 2),
    ((1, 16, 3, 50), (70, 16, 1, 1), (1, 1), (NONE, NONE), (1, 1), 1),
    ((3, 17, 9, 9), (33, 17, 1, 1), (2, 2), (NONE, NONE), (1, 1), 1),
    ((3, 4, 2, 3), (32, 4, 2, 2), (1, 1), ((1, 0), (0, 1)), (1, 1), 1),
    ((1, 5, 40), (34, 5, 5), (3,), ((2, 3),), (2,), 1),
    ((1, 4, 3, 4, 5), (32, 4, 2, 2, 2), (1, 1, 1), ((0, 1),) * 3, (1, 1, 1), 1),
]


@pytest.mark.parametrize("row", COLUMNS, ids=str)
def test_few_windows_with_kept_weights(monkeypatch, row):
    """Vectors run along channels; terms are those of several passes."""
    kept = frozenset((1,))
    assert first("conv", row, FLOATS, float32)[0] == "windows"
    variant, labels = first("conv", row, FLOATS, float32, kept)
    assert variant == "window columns"
    assert labels[-2:] == ["conv pack", labels[-1]]
    monkeypatch.setattr(window_columns_launch, "near_floats", lambda info: 256)
    for table in ("_FORWARD", "_FORWARD_FEW"):
        monkeypatch.setattr(lowering, table, (lowering._COLUMNS,))
    check(backend_of(FLOATS), "conv", row, "float32")


def test_panels_share_weights_that_do_not_fit_a_cache(monkeypatch):
    info = replace(FLOATS, caches=(4 << 10, 8 << 10))
    monkeypatch.setattr(window_panels_launch, "_TALL", 12)
    row = ((2, 12, 6, 11), (50, 12, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
    check(backend_of(info), "conv", row, "float32")


@pytest.mark.parametrize("registers", [16, 32])
@pytest.mark.parametrize("side", [7, 28])
def test_turns_have_several_terms(registers, side):
    """Also where the product would read its operand in place, by terms with addresses."""
    info = replace(FLOATS, native={"vector_registers": registers})
    row = ((1, 64, side, side), (128, 64, 1, 1), (1, 1), (NONE, NONE), (1, 1), 1)
    (made,) = [one for one in works("conv", row, info, float32) if one.variant == "windows"]
    builds = [one.build for one in made.launches if one.label.startswith("conv windows")]
    assert [dict(one.keywords)["plan"].unroll for one in builds] == [8]


# Where there is one tap, more windows than are products of the windows of all images.
GRADIENTS = [
    ((2, 9, 5, 7), (4, 9, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((1, 16, 6, 6), (6, 8, 2, 3), (1, 1), ((1, 0), (0, 2)), (1, 2), 2),
    ((2, 24, 9, 8), (17, 24, 1, 1), (1, 1), (NONE, NONE), (1, 1), 1),
    ((1, 8, 19), (5, 8, 5), (1,), ((2, 3),), (1,), 1),
    # Strided, of more windows than are folded: phases of unequal sizes, without taps, dilated, of
    # lines and volumes.
    ((4, 9, 7, 9), (16, 9, 3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 1),
    ((3, 48, 14, 13), (40, 24, 1, 1), (2, 2), (NONE, NONE), (1, 1), 2),
    ((1, 8, 31), (12, 8, 5), (3,), ((2, 3),), (2,), 1),
    ((2, 8, 5, 6, 7), (16, 8, 2, 3, 2), (2, 1, 2), ((0, 1),) * 3, (1, 1, 1), 1),
]


@pytest.mark.parametrize("name", INFOS)
@pytest.mark.parametrize("row", GRADIENTS, ids=str)
def test_input_gradients(backends, row, name):
    assert first("conv_input_gradient", row, INFOS[name], NAMES[name])[0] == "windows"
    check(backends[name], "conv_input_gradient", row, name)


# Of the two dimensions of weights one or the other is odd; rows of a half, one and several tiles.
TILED = [
    ((2, 3, 5, 7), (17, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((1, 32, 6, 9), (32, 32, 1, 1), (1, 1), (NONE, NONE), (1, 1), 1),
    ((3, 8, 4, 5), (100, 4, 2, 3), (2, 1), ((1, 0), (0, 2)), (1, 2), 2),
    ((1, 7, 40), (39, 7, 5), (1,), ((2, 0),), (1,), 1),
]


@pytest.mark.parametrize("op", ["conv", "conv_input_gradient"])
@pytest.mark.parametrize("row", TILED, ids=str)
def test_tile_registers(op, row):
    if op == "conv_input_gradient":
        (n, _, *sizes), (o, _, *taps), *rest, groups = row
        row = ((n, o, *sizes), (64, o // groups, *taps), *rest, groups)
    assert first(op, row, TILES)[1][-1].startswith(("conv window tiles", "conv phases"))
    check(KernelBackend("lanes", lambda index: LanesDevice(TILES)), op, row, "bfloat16")


@pytest.mark.parametrize("name", INFOS)
def test_sums_of_many_terms_are_kept_between_their_parts(name, monkeypatch):
    monkeypatch.setattr(window_panels_launch, "_DEPTH", 5)
    monkeypatch.setattr(window_panels_launch, "near_floats", lambda info: 100)
    check(backend_of(INFOS[name]), "conv", ROWS[0], name)
    check(backend_of(INFOS[name]), "conv", ROWS[6], name)


# Odd and even rows of pixels, strides, dilation, groups, lines, volumes, few weights and channels.
# Where there is one tap, more windows than are products of the windows of all images.
WEIGHTS = [
    ((2, 3, 5, 7), (11, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((3, 2, 4, 6), (8, 2, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((2, 16, 6, 5), (64, 8, 2, 3), (2, 1), ((1, 0), (0, 2)), (1, 2), 2),
    ((1, 3, 12, 13), (9, 3, 7, 7), (2, 2), ((3, 3), (3, 3)), (1, 1), 1),
    ((2, 6, 19), (10, 6, 3), (1,), ((2, 0),), (1,), 1),
    ((1, 2, 3, 4, 5), (8, 2, 2, 2, 2), (1, 1, 1), ((0, 1),) * 3, (1, 1, 1), 1),
    ((2, 17, 4, 4), (9, 17, 1, 1), (1, 1), (NONE, NONE), (1, 1), 1),
    ((3, 40, 13, 7), (33, 40, 1, 1), (1, 1), (NONE, NONE), (1, 1), 1),
    ((1, 16, 9, 9), (8, 16, 1, 1), (2, 3), (NONE, NONE), (1, 1), 1),
    ((1, 4, 8, 8), (8, 4, 2, 3), (1, 1), ((-1, 2), (1, -2)), (1, 1), 1),
    ((2, 9, 7, 1), (8, 9, 3, 1), (1, 1), ((1, 1), NONE), (1, 1), 1),
]

# Rows of more pixels than a pass, rows that fill passes up, and several panels.
LONG = [
    ((1, 8, 1100), (33, 8, 3), (1,), ((1, 1),), (1,), 1),
    ((2, 8, 3, 113), (17, 8, 1, 3), (1, 1), (NONE, (1, 1)), (1, 1), 1),
    ((1, 6, 4, 5), (300, 6, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
]


@pytest.mark.parametrize("name", INFOS)
@pytest.mark.parametrize("row", WEIGHTS, ids=str)
def test_weight_gradients(backends, row, name):
    found = first("conv_weight_gradient", row, INFOS[name], NAMES[name])
    assert found[0] == "weight panels"
    check(backends[name], "conv_weight_gradient", row, name)


@pytest.mark.parametrize("name", INFOS)
@pytest.mark.parametrize("row", [WEIGHTS[0], WEIGHTS[3], WEIGHTS[7]], ids=str)
def test_weight_gradients_with_channels_last(backends, row, name):
    check(backends[name], "conv_weight_gradient", row, name, True)


@pytest.mark.parametrize("row", [*WEIGHTS, *LONG], ids=str)
def test_weight_gradients_by_tile_registers(row):
    assert first("conv_weight_gradient", row, TILES)[1][-1] == "conv weight tiles"
    backend = KernelBackend("lanes", lambda index: LanesDevice(TILES))
    check(backend, "conv_weight_gradient", row, "bfloat16")


@pytest.mark.parametrize("name", INFOS)
def test_weight_gradients_of_many_pixels_are_sums_of_passes(name, monkeypatch):
    monkeypatch.setattr(weight_gradient_launch, "_PAIRS", 5)
    monkeypatch.setattr(weight_gradient_launch, "near_floats", lambda info: 100)
    monkeypatch.setattr(weight_gradient_launch, "ROOM", 16)
    check(backend_of(INFOS[name]), "conv_weight_gradient", WEIGHTS[0], name)
    check(backend_of(INFOS[name]), "conv_weight_gradient", WEIGHTS[2], name)


def test_what_needs_no_copy_has_none():
    offsets, windows = first("conv", ROWS[7])[1]
    assert offsets == "conv offsets"
    assert windows.startswith("conv windows")
    assert "conv planes" in first("conv", ROWS[0])[1]


@pytest.mark.parametrize(
    ("op", "row", "info", "dtype"),
    [
        ("conv", ROWS[0], ONE_UNIT, float32),
        ("conv", ROWS[0], INFO, float32),
        ("conv", ((2, 17, 4, 4), (9, 17, 1, 1), (1, 1), (NONE, NONE), (1, 1), 1), FLOATS, float32),
        (
            "conv",
            ((16, 17, 1, 1), (40, 17, 1, 1), (1, 1), (NONE, NONE), (1, 1), 1),
            FLOATS,
            float32,
        ),
        ("conv", ((2, 8, 6, 6), (8, 1, 3, 3), (1, 1), (NONE, NONE), (1, 1), 8), INFO, bfloat16),
    ],
    ids=["no dot products", "float32", "few rows", "single pixels", "depthwise"],
)
def test_other_problems_have_other_ways(op, row, info, dtype):
    assert first(op, row, info, dtype)[0] != "windows"


# Odd numbers of windows, of rows of weights and of terms; groups; a gradient in phases.
IN_PARTS = [
    ("conv", ((1, 9, 12, 13), (67, 9, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1)),
    ("conv", ((2, 70, 6, 21), (130, 35, 1, 2), (1, 1), (NONE, NONE), (1, 1), 2)),
    ("conv_input_gradient", ((2, 128, 13, 40), (16, 128, 4, 4), (2, 2), (NONE, NONE), (1, 1), 1)),
]


@pytest.mark.parametrize(("op", "row"), IN_PARTS, ids=str)
def test_float32_is_multiplied_in_parts(op, row):
    variant, labels = first(op, row, TILES, float32)
    assert variant == "windows in parts"
    assert any("in parts" in label for label in labels), labels
    check(backend_of(TILES), op, row, "float32")


@pytest.mark.parametrize("kind", ["infinite", "small", "weights"])
def test_numbers_without_parts_are_multiplied_in_float32(kind):
    (batch, channels, *size), weights, *rest = IN_PARTS[0][1]
    rng = np.random.default_rng(7)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((batch, channels, *size), weights))
    if kind == "infinite":
        x[0, 1, 2, 3], x[-1, -1, -1, -1] = np.inf, np.nan
    elif kind == "small":
        x[..., ::2] *= np.float32(1e-25)
    else:
        w[5] *= np.float32(1e-30)
    names = ("stride", "padding", "dilation", "groups")
    given = dict(zip(names, rest, strict=True))
    with np.errstate(invalid="ignore"):
        (found,), (wanted,) = run_op(backend_of(TILES), "conv", [x, w], given)
    # Each filter's results are as exact as its own products allow.
    sizes = np.abs(w).reshape(len(w), -1).sum(1)[:, None, None]
    assert (np.isnan(found) == np.isnan(wanted)).all()
    finite = np.isfinite(wanted)
    apart = np.abs(np.where(finite, found, 0) - np.where(finite, wanted, 0))
    assert (apart <= 2e-6 * sizes).all()
