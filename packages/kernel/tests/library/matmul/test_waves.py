"""Is the first choice what was fastest on an H200, or nearly, at every size that was timed?"""

from dataclasses import replace

import pytest

from calor.dtypes import bfloat16, float32
from calor.sizes import Trace
from calor_cuda.kernels.matmul import ways as tma_ways
from calor_cuda.kernels.matmul.tile_times import first_plan
from calor_kernel.library.gemm.mma import MmaPlan
from calor_kernel.library.matmul.gpu_ways import _FRAGMENTS
from calor_kernel.library.matmul.predicated_simt import simt_parts, simt_plan
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.matmul.ranking import by_turns, first_tile

from .test_units import INFO, NORMAL, SEVERAL, offered

H200 = replace(SEVERAL, cores=132, max_units=1024, max_cube=(1024, 1024, 64))


def first(m, k, n, dtype, info=H200, along=(True, False), wanted=False, **said):
    """Return the labels of the first choice, for an x and a y that lie along the summed axis."""
    a = Operand((0, 0), k, 1, 0, dtype) if along[0] else Operand((0, 0), 1, m, 0, dtype)
    b = Operand((0, 0), k, 1, 0, dtype) if along[1] else Operand((0, 0), 1, n, 0, dtype)
    product = Product((1, 1), m, n, k, a, b, dtype, **said)
    work = offered(product, info, wanted)[0]
    return ", ".join(launch.label.removeprefix("matmul ") for launch in work.launches)


@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize(
    ("sizes", "label"),
    [
        ((8192, 8192, 8192), "boxes 128x256"),
        ((4096, 4096, 4096), "boxes 128x256"),
        ((3072, 3072, 3072), "boxes 192x128"),
        ((1024, 4096, 4096), "boxes 128x256"),
        ((1536, 1536, 1536), "boxes 192x128"),
        # Within 2 % of 128 by 256.
        ((2048, 768, 3072), "boxes 192x128"),
        # On an H100; tiles of 64 by 192 are nearly as many as the cores.
        ((2048, 768, 768), "boxes 64x192 ping-pong"),
        ((2048, 3072, 768), "boxes 64x192 ping-pong"),
        # One wave, whose tiles are as many as the cores.
        ((2048, 768, 2304), "boxes 192x192"),
        ((1024, 1024, 1024), "boxes 64x128"),
        ((256, 4096, 4096), "boxes 64x128"),
        ((512, 8192, 2048), "boxes 64x128"),
        ((128, 768, 3072), "boxes 64x64"),
        ((256, 768, 768), "boxes 64x64"),
        ((128, 1024, 4096), "boxes 64x64"),
        ((4096, 512, 64), "boxes 64x64"),
        # In parts, in one launch.
        ((64, 4096, 4096), "boxes 64x128 in shares of 128"),
        ((128, 4096, 4096), "boxes 64x128 in shares of 128"),
        ((4096, 4096, 128), "boxes 64x128 in shares of 128"),
        ((512, 3072, 768), "boxes 64x128 in shares of 96"),
        ((64, 16384, 4096), "boxes 64x128 in shares of 128"),
        ((256, 16384, 4096), "boxes 128x256 in parts of 4"),
        # Lines of no whole accesses: small tiles of few terms, without another launch.
        ((500, 500, 500), "predicated 32x32"),
        ((250, 250, 250), "predicated 32x32"),
        ((1000, 1000, 1000), "boxes 64x128"),
        # Of which who ends a tile would read the sums of seven others.
        ((64, 16384, 1024), "predicated 64x64, sums of 16"),
    ],
    ids=str,
)
def test_halves(sizes, label, wanted):
    assert first(*sizes, bfloat16, wanted=wanted) == label


@pytest.mark.parametrize(
    ("sizes", "weight", "chosen"),
    [
        # Epilogues of one warp group wait for their own results, so ping-pong does not hide all.
        ((2048, 768, 3072), 22, (192, 128, False)),
        ((8192, 768, 3072), 22, (128, 256, False)),
        ((8192, 768, 3072), 26, (128, 256, False)),
        ((256, 768, 3072), 22, (64, 128, False)),
        ((2048, 768, 2304), 1, (192, 192, False)),
    ],
    ids=str,
)
def test_epilogues_count(sizes, weight, chosen):
    """Of products with a bias and GELU, as timed on an H100, and of those with none."""
    m, k, n = sizes
    product = Product((1, 1), m, n, k, NORMAL, NORMAL, bfloat16)
    rates = {tma_ways._boxes(product, made): rate for made, rate in tma_ways._BOXES.items()}
    plan = first_plan(rates, product, weight, H200)
    assert (plan.rows, plan.columns, plan.pingpong) == chosen


@pytest.mark.parametrize(
    ("sizes", "label"),
    [
        ((8192, 8192, 8192), "patches 256x128"),
        ((4096, 4096, 4096), "patches 256x128"),
        ((2048, 2048, 2048), "patches 256x128"),
        ((1024, 1024, 1024), "patches 64x128"),
        ((512, 512, 512), "predicated patches 64x64, sums of 4"),
        ((768, 3072, 3072), "patches 64x64"),
    ],
    ids=str,
)
def test_float32(sizes, label):
    assert first(*sizes, float32) == label
    # With both along the summed axis, too.
    assert first(*sizes, float32, along=(True, True)) == label


@pytest.mark.parametrize(
    ("sizes", "batches", "tile"),
    [
        # As timed on an H200: a tile for each core, and no parts.
        ((333, 333, 128), 12, (32, 128)),
        ((128, 333, 333), 12, (128, 32)),
        ((333, 128, 333), 12, (32, 128)),
        # Cubes that begin and end while others multiply.
        ((257, 32, 257), 12, (32, 32)),
        ((2049, 1027, 2049), 1, (64, 64)),
        # Few tiles of a long axis are in parts.
        ((257, 4099, 259), 1, (64, 128)),
    ],
    ids=str,
)
def test_float32_tiles_of_any_sizes_end_together(sizes, batches, tile):
    m, k, n = sizes
    product = Product((1, batches), m, n, k, NORMAL, NORMAL, float32)
    plan = simt_plan(product, H200)
    assert (plan.rows, plan.columns) == tile
    parts = simt_parts(product, plan, H200)
    assert (parts > 1) == (k == 4099)


# Vulkan's driver of an H200 has no asynchronous copies, and 48 KiB of shared memory.
LOADED = replace(
    H200, features=H200.features - {"async_copy"}, shared_bytes=48 << 10, core_shared_bytes=0
)


@pytest.mark.parametrize(
    ("sizes", "tile", "parts"),
    [
        # 58 µs with the sums, where 64 rows and three parts took 81.
        ((394, 1024, 1203), (32, 128), 2),
        # 76.7 µs, where 128 columns took 95.5.
        ((1000, 1000, 1001), (64, 64), 1),
        # Cores of several large tiles: 169 µs.
        ((100, 576, 30522), (64, 128), 1),
    ],
    ids=str,
)
def test_float32_tiles_that_units_load_end_together(sizes, tile, parts):
    m, k, n = sizes
    product = Product((1, 1), m, n, k, NORMAL, NORMAL, float32)
    plan = simt_plan(product, LOADED)
    assert (plan.rows, plan.columns) == tile
    assert simt_parts(product, plan, LOADED) == parts


@pytest.mark.parametrize(
    ("sizes", "tile"),
    [((100, 100, 64), (64, 64)), ((100, 64, 100), (128, 128)), ((512, 512, 512), (128, 256))],
    ids=str,
)
def test_tiles_of_many_small_products_are_not_mostly_empty(sizes, tile):
    m, k, n = sizes
    product = Product((1, 1024), m, n, k, NORMAL, NORMAL, bfloat16)
    rates = {MmaPlan(bfloat16, *made, *product.along): r for made, r in _FRAGMENTS.items()}
    plan = by_turns(rates, product, H200)
    assert (plan.rows, plan.columns) == tile


@pytest.mark.parametrize(
    ("sizes", "label"),
    [
        ((2, 640, 151936), "gemv 2 rows"),
        ((3, 640, 151936), "skinny 16x24"),
        ((4, 768, 3072), "gemv 4 rows"),
        ((40, 1024, 4096), "skinny 48x16"),
        ((48, 4096, 12288), "boxes 64x128"),
        ((40, 4096, 7168), "boxes 64x128 in shares of 112"),
        ((16, 4096, 14336), "skinny 16x32"),
    ],
    ids=str,
)
def test_few_rows_of_a_matrix_that_no_cache_holds(sizes, label):
    assert first(*sizes, bfloat16, along=(True, True)) == label


def test_float32_where_planes_are_narrow_or_nothing_is_copied_ahead():
    narrow = replace(H200, planes=(16,))
    assert first(4096, 4096, 4096, float32, narrow) == "patches 128x128"
    waiting = replace(INFO, cores=132, features=INFO.features - {"async_copy"})
    assert first(4096, 4096, 4096, float32, waiting) == "patches 64x128"
    # Where a compiler keeps few sums, as NVIDIA's of OpenCL.
    few = replace(waiting, accumulators=64)
    assert first(4096, 4096, 4096, float32, few) == "patches 128x128"
    # Two cubes of a core, of which one waits for its loads.
    assert first(1024, 1024, 1024, float32, few) == "patches 64x64"
    assert first(1024, 1024, 1024, float32, waiting) == "patches 64x64"
    assert first(512, 512, 512, float32, waiting) == "predicated patches 64x64, sums of 4"
    # Sums of few terms have more units, which hide the time of loads.
    assert first(8192, 132, 512, float32, waiting) == "patches 64x128"
    assert first(8192, 128, 512, float32, waiting) == "patches 64x64"
    assert first(8192, 128, 512, float32, few) == "patches 128x128"


@pytest.mark.parametrize(
    ("rows", "along", "label"),
    [
        (64, True, "boxes 64x128 tf32 in shares of 128"),
        (64, False, "boxes 64x64 tf32 in shares of 128"),
        (128, True, "boxes 128x128 tf32 in parts of 4"),
        (128, False, "boxes 128x128 tf32 in parts of 4"),
    ],
)
def test_few_tiles_of_tf32(rows, along, label):
    """Of the transposes where the right operand lies along its columns."""
    assert first(rows, 4096, 4096, float32, along=(True, along), tf32=True) == label


def test_sizes_that_are_not_known_keep_to_a_tile_that_is_nearly_as_good():
    tiles, habits = ((128, 128, 1.0, 0.0), (64, 64, 0.8, 0.0)), {}
    found = []
    for rows in (1024, 1152, 128):
        (m,) = Trace([rows], habits).symbols
        found.append(int(first_tile(tiles, m, 1024, 512, 1, 64)))
    assert [first_tile(tiles, rows, 1024, 512, 1, 64) for rows in (1024, 1152, 128)] == [0, 1, 1]
    assert found == [0, 0, 1]


def test_sizes_that_are_not_known_are_in_parts_by_two_launches():
    """What a cube has a share of would be another share for each size."""
    (m,) = Trace([128], {}).symbols
    assert first(m, 4096, 4096, bfloat16) == "boxes 64x128, parts 2"
    assert first(m, 768, 768, bfloat16) == "boxes 64x64"
