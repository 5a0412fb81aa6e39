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
@pytest.mark.parametrize("steps", [9, 200])
def test_tiles_share_all_lines(order, lines, length, tiles, steps):
    made = next_block(Block(2, 5, 100, 7), 11, 100, 8, tiles, steps, 4, order, 4)
    assert (made.at, made.step, made.length) == (11, 100, length)
    assert made.turn % 4 == 0
    # A turn prefetches 16 elements of a line.
    parts, turns = lines * -(-length // 16), -(-steps // made.turn)
    assert (made.before + turns) * tiles >= parts
    # Turns are as long as the lines allow: a longer one would leave some to ask for at a time.
    assert made.turn == 4 or made.before == 0
    assert (steps // (made.turn + 4)) * tiles < parts


@kl.kernel
def walk(b: kl.In, found: kl.Out, turns: kl.Size, step: kl.Size, length: kl.Size) -> None:
    """Write the parts that are prefetched turn by turn."""
    block = NextBlock(turns * 0 + 500, step, length, turns, turns)
    at, along = block.at, turns * 0
    for turn in kl.loop_range(turns):
        found[turn] = (at + along).to(found.dtype)
        at, along = block.step_on(b, at, along)


@pytest.mark.parametrize(("length", "parts"), [(16, 1), (48, 3), (50, 4)])
@pytest.mark.parametrize("turns", [1, 7, 12])
def test_turns_prefetch_line_after_line(turns, length, parts):
    bound = {"b": Bound(Input(0), float32), "found": Bound(Output(), int32)}
    given = {"turns": turns, "step": 100, "length": length}
    made = launch(walk, Grid.line(1), Effort("walk"), **bound, **given)
    _, run_launch = MACHINES["one-unit"]
    memory = np.zeros(2000, np.float32)
    (found,) = execute(Work((made,)), [memory], [spec((turns,), int32)], run_launch)
    lines = [100 * (5 + line) + 16 * part for line in range(turns) for part in range(parts)]
    assert found.tolist() == lines[:turns]


@pytest.mark.parametrize(
    ("rows", "side", "there"), [(60, 300, True), (20, 300, False), (700, 64, False)]
)
def test_only_cubes_that_pack_prefetch_b(rows, side, there):
    shapes = [(rows, side), (side, side)]
    graph = graph_of(lambda x, w: x @ w, float32, shapes)
    _, launches = run(graph, operands(shapes, float32), ONE_UNIT, ())
    assert ("prefetch b " in kernel_text(launches[-1].build.kernel())) is there


@pytest.mark.parametrize(("device", "there"), [(WIDE, True), (ONE_UNIT, False)])
def test_few_rows_ask_for_the_next_panel_of_a_matrix_as_it_lies(device, there):
    arrays = operands([(5, 300), (300, 700)], float32)
    graph = graph_of(calor.matmul, float32, [a.shape for a in arrays])
    found, launches = run(graph, arrays, device, ())
    (only,) = launches
    assert ("prefetch b " in kernel_text(only.build.kernel())) is there
    near(found, calor.matmul, arrays, float32, "highest")


@pytest.mark.parametrize("dtype", [float16, float32, float64])
# Rows of 1024 elements begin at one place of their pages, and are packed before the first tile.
@pytest.mark.parametrize("columns", [256, 259, 320, pytest.param(1024, marks=pytest.mark.slow)])
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
    # The rows of a B that is not packed have addresses, for which 16 registers are too few.
    assert [packed(one, ONE_UNIT).unroll for one in (some[0], low)] == [8, 1]
    assert packed(low, ONE_UNIT, keeps=True).unroll == 4


def test_sums_of_the_passes_before_are_prefetched():
    arrays = operands([(61, 1200), (1200, 160)], float32)
    graph = graph_of(calor.matmul, float32, [a.shape for a in arrays])
    found, launches = run(graph, arrays, ONE_UNIT, ())
    assert "prefetch c " in kernel_text(launches[-1].build.kernel())
    near(found, calor.matmul, arrays, float32, "highest")


@pytest.mark.parametrize("along", [False, True])
@pytest.mark.parametrize("k", [600, 768, 1024, 3072])
def test_a_cube_packs_several_panels_in_equal_passes(k, along):
    made = packed_inside(product(100, k, 5000, along), ONE_UNIT)
    assert made.block_panels >= 2
    assert made.block_panels * made.depth * made.width <= made.room
    passes = -(-k // made.depth)
    assert passes * made.depth - k < passes
