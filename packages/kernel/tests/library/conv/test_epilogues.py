"""Does a convolution with what follows it give the bits of its ops one by one, by every way?"""

from dataclasses import replace

import pytest

import calor
from calor.dtypes import bfloat16, float32
from calor_interpreter.device import MANY_UNITS, ONE_UNIT
from calor_kernel.library.conv import lowering
from calor_kernel.library.conv.direct_channel_vectors import _lines_ahead
from calor_kernel.library.matmul import ProductFuser
from calor_nn import functional

from ..matmul.test_epilogues import graph_of, kernel_text, near, operands, run, same_bits
from ..matmul.test_units import INFO, SEVERAL

conv = functional.conv2d
ENGINE = replace(SEVERAL, cores=3)
# A function with the shapes of its operands: images, filters, vectors of channels, and a residual.
CHAINS = {
    "bias, few channels": (
        lambda x, w, b: calor.relu(conv(x, w, padding=1) + b),
        [(2, 8, 7, 9), (10, 8, 3, 3), (10, 1, 1)],
    ),
    "scale, shift, residual": (
        lambda x, w, a, b, r: calor.relu(conv(x, w, padding=1) * a + b + r),
        [(2, 8, 8, 8), (40, 8, 3, 3), (40, 1, 1), (40, 1, 1), (2, 40, 8, 8)],
    ),
    "stride, two results": (
        lambda x, w, a: (
            conv(x, w, stride=2, padding=1) * a,
            functional.silu(conv(x, w, stride=2, padding=1) * a),
        ),
        [(2, 8, 8, 8), (40, 8, 3, 3), (40, 1, 1)],
    ),
    "pointwise": (
        lambda x, w, a, r: calor.relu(conv(x, w) * a + r),
        [(2, 64, 8, 8), (64, 64, 1, 1), (64, 1, 1), (2, 64, 8, 8)],
    ),
    "groups": (
        lambda x, w, b: calor.relu(conv(x, w, padding=1, groups=2) + b),
        [(2, 8, 7, 9), (80, 4, 3, 3), (80, 1, 1)],
    ),
    "deep, odd": (
        lambda x, w, a, r: calor.gelu(conv(x, w, padding=1) * a) + r,
        [(2, 64, 7, 9), (72, 64, 3, 3), (72, 1, 1), (2, 72, 7, 9)],
    ),
    "deep": (
        lambda x, w, a, r: calor.relu(conv(x, w, padding=1) * a + r),
        [(2, 64, 8, 8), (72, 64, 3, 3), (72, 1, 1), (2, 72, 8, 8)],
    ),
    "depthwise, two results": (
        lambda x, w, a, r: (
            conv(x, w, padding=1, groups=6) * a,
            functional.silu(conv(x, w, padding=1, groups=6) * a) + r,
        ),
        [(3, 6, 9, 7), (12, 1, 3, 3), (12, 1, 1), (3, 12, 9, 7)],
    ),
    "few filters": (
        lambda x, w, b: calor.relu(conv(x, w, padding=1) + b),
        [(2, 4, 17, 9), (3, 4, 3, 3), (3, 1, 1)],
    ),
    "one pixel": (
        lambda x, w, a, r: functional.silu(conv(x, w) * a + r),
        [(5, 24, 1, 1), (18, 24, 1, 1), (18, 1, 1), (5, 18, 1, 1)],
    ),
    "few pixels, deep": (
        lambda x, w, a, r: calor.relu(conv(x, w, padding=1) * a + r),
        [(2, 256, 3, 3), (72, 256, 3, 3), (72, 1, 1), (2, 72, 3, 3)],
    ),
    "one axis": (
        lambda x, w, b: calor.relu(functional.conv1d(x, w, padding=2) + b),
        [(2, 8, 33), (72, 8, 5), (72, 1)],
    ),
    "long, one axis": (
        lambda x, w, b, r: calor.gelu(functional.conv1d(x, w, padding=1) + b) * r,
        [(3, 8, 11), (17, 8, 3), (17, 1), (3, 17, 11)],
    ),
}
# One unit takes a second for a thousand vectors: the long epilogue of few odd channels.
FEW = {
    **CHAINS,
    "few, odd": (
        CHAINS["deep, odd"][0],
        [(1, 12, 5, 7), (44, 12, 3, 3), (44, 1, 1), (1, 44, 5, 7)],
    ),
}
DOTS = replace(
    ONE_UNIT, dtypes=MANY_UNITS.dtypes, features=ONE_UNIT.features | {"dot_bfloat16"},
    vector_bytes=32,
)  # fmt: skip
PACKED = replace(
    ONE_UNIT, features=ONE_UNIT.features - {"masked_access"}, vector_bytes=32,
    native={"vector_registers": 16},
)  # fmt: skip
TILES = replace(DOTS, features=DOTS.features | {"tile_bfloat16"}, vector_bytes=64)
ROWS = {
    "one unit": (ONE_UNIT, float32, "highest"),
    "many units": (MANY_UNITS, float32, "highest"),
    "fragments": (INFO, bfloat16, "highest"),
    "TMA": (ENGINE, bfloat16, "highest"),
    "TMA, TF32": (ENGINE, float32, "high"),
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("row", ROWS)
def test_same_bits(row, chain):
    info, dtype, precision = ROWS[row]
    function, shapes = CHAINS[chain]
    graph, arrays = graph_of(function, dtype, shapes, precision), operands(shapes, dtype)
    found = same_bits(graph, arrays, info, "")
    near(found, function, arrays, dtype, precision)


@pytest.mark.parametrize("row", [row for row in ROWS if row != "one unit"])
def test_images_of_one_pixel_are_rows_of_a_product(row):
    info, dtype, precision = ROWS[row]
    function, shapes = CHAINS["one pixel"]
    graph = graph_of(function, dtype, shapes, precision)
    _, (launch,) = run(graph, operands(shapes, dtype), info, (ProductFuser(),))
    assert launch.label.startswith("matmul ")
    assert launch.label.endswith("with epilogue")


@pytest.mark.parametrize("shape", [(6, 2, 9, 8), (6, 2, 1, 70), (4, 1, 9, 9)], ids=str)
def test_large_windows_of_groups(shape):
    filters, channels, *window = shape
    groups = 4 // channels

    def function(x, w, b, r):
        padding = tuple(k // 2 for k in window)
        return calor.relu(conv(x, w, padding=padding, groups=groups) + b) * r

    shapes = [(2, 4, 8, 9), shape, (filters, 1, 1)]
    high, wide = (n + k // 2 * 2 - k + 1 for n, k in zip((8, 9), window, strict=True))
    shapes.append((2, filters, high, wide))
    graph, arrays = graph_of(function, float32, shapes), operands(shapes, float32)
    near(same_bits(graph, arrays, MANY_UNITS, ""), function, arrays, float32, "highest")
    _, (launch,) = run(graph, arrays, MANY_UNITS, (ProductFuser(),))
    assert launch.label.startswith("depthwise windows")


@pytest.mark.parametrize(("info", "label"), [(DOTS, "windows"), (TILES, "window tiles")])
@pytest.mark.parametrize("chain", ["scale, shift, residual", "groups", "long, one axis"])
def test_windows(info, label, chain):
    """Results of several images in a vector; chains that are and are not written out."""
    function, shapes = CHAINS[chain]
    graph, arrays = graph_of(function, bfloat16, shapes), operands(shapes, bfloat16)
    near(same_bits(graph, arrays, info, ""), function, arrays, bfloat16, "highest")
    _, launches = run(graph, arrays, info, (ProductFuser(),))
    assert launches[-1].label.startswith(f"conv {label}")


@pytest.mark.parametrize("way", ["WINDOWS", "_COLUMNS"])
@pytest.mark.parametrize("chain", ["scale, shift, residual", "groups", "few, odd"])
def test_windows_of_float32(way, chain, monkeypatch):
    """Panels of pixels, and squares of channels that are transposed; short and long epilogues."""
    for table in ("_FORWARD", "_FORWARD_FEW"):
        monkeypatch.setattr(lowering, table, (getattr(lowering, way), lowering.DIRECT))
    function, shapes = FEW[chain]
    graph, arrays = graph_of(function, float32, shapes), operands(shapes, float32)
    near(same_bits(graph, arrays, PACKED, ""), function, arrays, float32, "highest")
    _, launches = run(graph, arrays, PACKED, (ProductFuser(),))
    assert launches[-1].label.startswith("conv window")


def test_channel_vectors(monkeypatch):
    """Squares of pixels by channels, the last of which is of few channels."""
    monkeypatch.setattr(lowering, "_FORWARD", (lowering._CHANNEL_VECTORS, lowering.DIRECT))
    for chain in ("scale, shift, residual", "stride, two results", "groups", "few, odd"):
        function, shapes = FEW[chain]
        graph, arrays = graph_of(function, float32, shapes), operands(shapes, float32)
        near(same_bits(graph, arrays, ONE_UNIT, ""), function, arrays, float32, "highest")


@pytest.mark.parametrize("window", [1, 3])
def test_tiles_of_one_tap_ask_for_the_weights_of_the_next_panel(window, monkeypatch):
    for table in ("_FORWARD", "_FORWARD_FEW"):
        monkeypatch.setattr(lowering, table, (lowering._CHANNEL_VECTORS, lowering.DIRECT))
    shapes = [(2, 8, 8, 8), (80, 8, window, window)]
    _, launches = run(graph_of(conv, float32, shapes), operands(shapes, float32), ONE_UNIT, ())
    assert launches[-1].label.startswith("conv channel vectors")
    assert ("prefetch" in kernel_text(launches[-1].build.kernel())) is (window == 1)


@pytest.mark.parametrize("lines", [1, 3, 4, 5])
@pytest.mark.parametrize("tiles", [1, 2, 3, 7])
def test_tiles_ask_for_a_whole_panel_with_as_few_lines_as_do(tiles, lines):
    ahead = _lines_ahead(tiles, lines)
    assert tiles * ahead >= lines
    assert ahead == 1 or tiles * (ahead - 1) < lines


SINGLE = {
    "bias": (lambda x, w, b: calor.sigmoid(conv(x, w) + b), (40, 1, 1)),
    "images": (lambda x, w, b: conv(x, w) * b, (3, 40, 1, 1)),
    "two results": (lambda x, w, b: (conv(x, w), functional.silu(conv(x, w) + b)), (40, 1, 1)),
}


@pytest.mark.parametrize("size", [(1, 1), (3, 2)])
@pytest.mark.parametrize("name", SINGLE)
def test_single_pixels(name, size, monkeypatch):
    """One pixel of each image is a row of a tile; a stride leaves one of several."""
    monkeypatch.setattr(lowering, "_FORWARD_FEW", lowering._FORWARD_SINGLE)
    chain, further = SINGLE[name]
    shapes = [(3, 70, *size), (40, 70, 1, 1), further]

    def function(x, w, b):
        return chain(x[:, :, ::3, ::2], w, b)

    graph, arrays = graph_of(function, float32, shapes), operands(shapes, float32)
    found, launches = run(graph, arrays, ONE_UNIT, (ProductFuser(),))
    assert launches[-1].label.startswith("conv channel vectors 3x")
    near(found, function, arrays, float32, "highest")


NARROW = {
    "few images": [(1, 5, 3, 3), (40, 5, 3, 3), (40, 1, 1), (1, 40, 3, 3)],
    "several images": [(5, 5, 4, 2), (24, 5, 3, 3), (24, 1, 1), (5, 24, 4, 2)],
    "groups": [(2, 10, 3, 5), (48, 5, 3, 3), (48, 1, 1), (2, 48, 3, 5)],
}


@pytest.mark.parametrize("name", NARROW)
def test_small_width(name, monkeypatch):
    monkeypatch.setattr(lowering, "_FORWARD_FEW", (lowering.SMALL_WIDTH, lowering.DIRECT))
    shapes = NARROW[name]
    groups = shapes[0][1] // shapes[1][1]

    def function(x, w, a, r):
        return functional.silu(conv(x, w, padding=1, groups=groups) * a + r)

    graph, arrays = graph_of(function, float32, shapes), operands(shapes, float32)
    found, launches = run(graph, arrays, ONE_UNIT, (ProductFuser(),))
    assert launches[-1].label.startswith("conv small width")
    near(found, function, arrays, float32, "highest")


# The last launch computes the convolution and what follows it.
LABELS = {
    ("one unit", "bias, few channels"): "conv rows",
    ("one unit", "scale, shift, residual"): "conv small width",
    ("many units", "bias, few channels"): "conv simt",
    ("many units", "scale, shift, residual"): "conv simt",
    ("many units", "pointwise"): "matmul patches",
    ("many units", "depthwise, two results"): "conv blocks",
    ("many units", "few filters"): "conv blocks",
    ("fragments", "few pixels, deep"): "conv parts",
    ("TMA", "few pixels, deep"): "conv parts",
    ("fragments", "scale, shift, residual"): "conv mma",
    ("TMA", "pointwise"): "matmul boxes",
    ("TMA", "deep"): "conv tma",
}


@pytest.mark.parametrize(("row", "chain"), LABELS)
def test_one_launch(row, chain):
    info, dtype, precision = ROWS[row]
    function, shapes = CHAINS[chain]
    graph, arrays = graph_of(function, dtype, shapes, precision), operands(shapes, dtype)
    _, launches = run(graph, arrays, info, (ProductFuser(),))
    assert launches[-1].label.startswith(LABELS[row, chain])


@pytest.mark.parametrize("row", ["fragments", "TMA, TF32"])
@pytest.mark.parametrize("cores", [200, 4])
def test_groups_of_one_launch(row, cores, monkeypatch):
    """A channel of what follows is that of its group, in tiles and in parts of sums."""
    monkeypatch.setattr("calor_kernel.library.conv.group_tiles._FLOPS", 0)
    monkeypatch.setattr("calor_kernel.library.conv.joined_groups._CHANNELS", 99)
    monkeypatch.setattr("calor_kernel.library.conv.implicit_gemm_mma_launch._SHARE", 96)
    info, dtype, precision = ROWS[row]
    info = replace(info, cores=cores)

    def function(x, w, a, r):
        return calor.relu(conv(x, w, padding=1, groups=3) * a + r)

    shapes = [(2, 96, 6, 8), (72, 32, 3, 3), (72, 1, 1), (2, 72, 6, 8)]
    graph, arrays = graph_of(function, dtype, shapes, precision), operands(shapes, dtype)
    found, launches = run(graph, arrays, info, (ProductFuser(),))
    assert [launch.label.startswith("conv mma") for launch in launches].count(True) == 1
    assert launches[-1].label.startswith(("conv mma", "conv parts"))
    near(found, function, arrays, dtype, precision)


def test_a_way_without_epilogues_is_followed_by_the_chain():
    """A way that does not take the epilogue loses nothing."""

    def function(x, w, b):
        return calor.relu(conv(x, w, padding=1, groups=8) + b)

    shapes = [(2, 8, 7, 9), (8, 1, 3, 3), (8, 1, 1)]
    graph, arrays = graph_of(function, float32, shapes), operands(shapes, float32)
    found, launches = run(graph, arrays, ONE_UNIT, (ProductFuser(),))
    assert [la.label for la in launches] == ["conv depthwise", "elementwise.rows"]
    near(found, function, arrays, float32, "highest")


def test_a_chain_after_it_has_a_result_of_another_shape():
    """The axes of the chain's result are not those of the convolution's."""

    def function(x, w, b):
        made = conv(x, w, stride=2, padding=1, dilation=(2, 3), groups=2)
        return calor.reshape(made, (2, 1, 1, 3, 1)) + b

    shapes = [(1, 8, 5, 5), (2, 4, 2, 3), (2, 1, 1, 1, 1)]
    graph, arrays = graph_of(function, float32, shapes), operands(shapes, float32)
    found, launches = run(graph, arrays, ONE_UNIT, (ProductFuser(),))
    assert len(launches) == 2
    near(found, function, arrays, float32, "highest")
