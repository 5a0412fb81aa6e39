"""Is the block of B that a cube packs next prefetched, whole and no more, by its tiles?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.dtypes import float16, float32, float64, int32
from calor.specs import spec
from calor_interpreter.device import ONE_UNIT
from calor_kernel import language as kl
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Input, Output, Work
from calor_kernel.library.matmul.block_prefetch import NextBlock, next_block
from calor_kernel.library.matmul.blueprints import packed, packed_inside
from calor_kernel.library.matmul.packing import Block
from calor_kernel.library.matmul.problem import Operand, Product

from ..elementwise.running import MACHINES, execute
from .test_epilogues import graph_of, kernel_text, near, operands, run

WIDE = replace(ONE_UNIT, native={"vector_registers": 32})


def product(m, k, n, along=False):
    b = Operand((0, 0), k, 1, 0, float32) if along else Operand((0, 0), 1, n, 0, float32)
    return Product((1, 1), m, n, k, Operand((0, 0), k, 1, 0, float32), b, float32)


@pytest.mark.parametrize(("order", "lines", "length"), [("columns", 7, 24), ("depth", 24, 7)])
@pytest.mark.parametrize("tiles", [1, 4, 40])
def test_tiles_share_all_lines(order, lines, length, tiles):
    made = next_block(Block(2, 5, 100, 7), 11, 100, 8, tiles, 9, order, 4)
    assert (made.at, made.step, made.lines, made.length) == (11, 100, lines, length)
    assert made.share * tiles >= lines > (made.share - 1) * tiles
    # A turn prefetches 16 elements of a line.
    assert made.later * -(-length // 16) <= 9 < (made.later + 1) * -(-length // 16)


@kl.kernel
def walk(
    b: kl.In, found: kl.Out, turns: kl.Size, step: kl.Size, length: kl.Size, share: kl.Size
) -> None:
    """Write the parts that a tile prefetches while it computes, and where a burst of them ends."""
    block = NextBlock(turns * 0, step, share * 3, length, share, turns // ((length + 15) // 16))
    at, along = block.prefetch(b, turns * 0 + 1), turns * 0
    for turn in kl.loop_range(turns):
        found[turn] = (at + along).to(found.dtype)
        at, along = block.step_on(b, at, along)


@pytest.mark.parametrize(("length", "parts"), [(16, 1), (48, 3), (50, 4)])
@pytest.mark.parametrize("turns", [1, 7, 12])
def test_a_tile_prefetches_its_share_in_turns(turns, length, parts):
    bound = {"b": Bound(Input(0), float32), "found": Bound(Output(), int32)}
    given = {"turns": turns, "step": 100, "length": length, "share": 5}
    made = launch(walk, Grid.line(1), Effort("walk"), **bound, **given)
    _, run_launch = MACHINES["one-unit"]
    memory = np.zeros(2000, np.float32)
    (found,) = execute(Work((made,)), [memory], [spec((turns,), int32)], run_launch)
    lines = [100 * (5 + line) + 16 * part for line in range(turns) for part in range(parts)]
    assert found.tolist() == lines[:turns]


@pytest.mark.parametrize(
    ("rows", "side", "there"), [(60, 300, True), (20, 300, False), (700, 64, False)]
)
def test_only_cubes_that_pack_prefetch(rows, side, there):
    shapes = [(rows, side), (side, side)]
    graph = graph_of(lambda x, w: x @ w, float32, shapes)
    _, launches = run(graph, operands(shapes, float32), ONE_UNIT, ())
    assert ("prefetch" in kernel_text(launches[-1].build.kernel())) is there


@pytest.mark.parametrize(("device", "there"), [(WIDE, True), (ONE_UNIT, False)])
def test_few_rows_ask_for_the_next_panel_of_a_matrix_as_it_lies(device, there):
    arrays = operands([(5, 300), (300, 700)], float32)
    graph = graph_of(calor.matmul, float32, [a.shape for a in arrays])
    found, launches = run(graph, arrays, device, ())
    (only,) = launches
    assert ("prefetch" in kernel_text(only.build.kernel())) is there
    near(found, calor.matmul, arrays, float32, "highest")


@pytest.mark.parametrize("dtype", [float16, float32, float64])
@pytest.mark.parametrize("columns", [256, 259])
def test_first_tiles_pack_whole_panels(columns, dtype):
    def function(x, w):
        return calor.matmul(x, w)

    arrays = operands([(61, 301), (301, columns)], dtype)
    graph = graph_of(function, dtype, [a.shape for a in arrays])
    found, launches = run(graph, arrays, ONE_UNIT, ())
    # Packing B is no launch of its own; A of a half type is converted by one.
    assert len(launches) == 1 + (dtype is float16)
    near(found, function, arrays, dtype, "highest")


def test_passes_are_long_for_narrow_packed_panels_and_short_in_place():
    tall, low = product(700, 4096, 700), product(5, 4096, 700)
    assert packed(tall, ONE_UNIT).depth == 1024 > packed(tall, WIDE).depth
    assert packed(low, ONE_UNIT).depth == 32
    assert packed(low, ONE_UNIT, keeps=True).depth == 1024
    # A large B is read along few of its rows, a small one down a panel.
    many, few = product(5, 4096, 1 << 16), product(5, 256, 1000)
    wide, narrow = packed(many, WIDE), packed(many, ONE_UNIT)
    for streamed in (wide, narrow):
        assert (streamed.depth, streamed.block_panels * streamed.width) == (32, 4096)
    assert (packed(few, WIDE).depth, packed(few, WIDE, keeps=True).depth) == (256, 256)
    # Short turns for weights that stay, and where a turn has a line of the next block to ask for.
    some = product(700, 700, 700), product(100, 700, 700)
    assert [packed(one, WIDE).unroll for one in some] == [8, 8]
    assert [packed(one, WIDE, keeps=True).unroll for one in some] == [4, 4]
    assert packed_inside(some[1], WIDE).unroll == 4


@pytest.mark.parametrize("along", [False, True])
@pytest.mark.parametrize("k", [600, 768, 1024, 3072])
def test_a_cube_packs_several_panels_in_equal_passes(k, along):
    made = packed_inside(product(100, k, 5000, along), ONE_UNIT)
    assert made.block_panels >= 2
    assert made.block_panels * made.depth * made.width <= made.room
    passes = -(-k // made.depth)
    assert passes * made.depth - k < passes
