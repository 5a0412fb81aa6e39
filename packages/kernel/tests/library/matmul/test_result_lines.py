"""Are results of few terms written along their rows, and are those of many terms as before?"""

from dataclasses import replace

import pytest

import calor
from calor.dtypes import float32, float64
from calor_interpreter.device import ONE_UNIT
from calor_kernel.library.matmul.blueprints import blocks_of, packed, packed_inside

from .test_block_prefetch import product
from .test_epilogues import graph_of, kernel_text, near, operands, run

# A second-level cache of half a MiB, and many registers.
CACHED = replace(ONE_UNIT, native={"vector_registers": 32}, caches=(1 << 15, 1 << 19), cores=2)


def blocks(m, k, n, info=CACHED):
    made = packed(product(m, k, n), info)
    return made.block_rows // made.rows, made.block_panels


def test_a_cube_has_lines_of_a_result_of_few_terms():
    """A few tiles of rows, and as many panels as half of the cache holds."""
    high, wide = blocks(600, 18, 4096)
    panel = packed(product(600, 18, 4096), CACHED).width * 18 * float32.itemsize
    assert high == 4
    assert wide * panel <= 1 << 18 < (wide + 1) * panel


def test_cores_share_a_result_of_few_rows():
    high, wide = blocks(20, 18, 8192)
    panels = -(-8192 // packed(product(20, 18, 8192), CACHED).width)
    assert high <= 4
    assert -(-panels // wide) >= 4 * CACHED.cores


@pytest.mark.parametrize(("m", "k", "n"), [(600, 129, 4096), (128, 64, 128), (64, 18, 64)])
def test_other_results_are_blocks(m, k, n):
    """Those of many terms, and small ones that a cache holds."""
    one = product(m, k, n)
    made = packed(one, CACHED)
    assert (made.block_rows, made.block_panels) == blocks_of(one, CACHED, made.rows, made.width)


def test_larger_results_of_some_terms_are_lines():
    assert blocks(600, 64, 4096)[0] == 4
    made = [packed(product(m, 18, 4096), CACHED).lines for m in (600, 1)]
    assert made == [True, False]


@pytest.mark.parametrize(("k", "times"), [(18, 2), (150, 1)])
def test_tiles_prefetch_the_lines_of_results_of_few_terms(k, times):
    """Beside the prefetches of sums of a pass before."""
    arrays = operands([(130, k), (k, 520)], float32)
    graph = graph_of(calor.matmul, float32, [a.shape for a in arrays])
    found, launches = run(graph, arrays, ONE_UNIT, ())
    build = launches[-1].build
    plan = dict(build.keywords)["plan"]
    assert plan.lines == (times == 2)
    assert kernel_text(build.kernel()).count("prefetch c ") == times * plan.rows * plan.vectors
    near(found, calor.matmul, arrays, float32, "highest")


def test_cubes_that_pack_b_have_blocks():
    """Each block of rows would pack B anew."""
    one = product(160, 18, 700, along=True)
    made = packed_inside(one, CACHED)
    assert made.block_rows == blocks_of(one, CACHED, made.rows, made.width)[0] > 4 * made.rows


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize(("m", "k", "n"), [(53, 1, 1301), (97, 18, 730), (5, 2, 70)])
def test_products_of_few_terms(m, k, n, dtype):
    arrays = operands([(m, k), (k, n)], dtype)
    graph = graph_of(calor.matmul, dtype, [a.shape for a in arrays])
    found, _ = run(graph, arrays, ONE_UNIT, ())
    near(found, calor.matmul, arrays, dtype, "highest")
