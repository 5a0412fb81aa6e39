"""Tiles of a processor for numbers of images and widths that are symbols."""

from dataclasses import replace

import pytest

from calor.dtypes import float32
from calor.sizes import Trace, function_of
from calor_interpreter.device import ONE_UNIT
from calor_kernel.library.conv.blueprints import (
    across_tile,
    fma_tile,
    narrow_tile,
    pair_tile,
    shift,
)


@pytest.mark.parametrize("images", [13, 24, 100])
def test_a_tile_holds_for_other_numbers_of_images(images):
    """A cost in fractions would hold for one number of images alone."""
    trace = Trace([images])
    (many,) = trace.symbols
    assert narrow_tile(2, 32, 9, many, 16, ONE_UNIT) == narrow_tile(2, 32, 9, images, 16, ONE_UNIT)
    assert not [condition for condition in trace.guards if "==" in condition]


@pytest.mark.parametrize("registers", [16, 32])
def test_numbers_of_images_share_tiles_that_fit_them(registers):
    info = replace(ONE_UNIT, native={"vector_registers": registers})
    for hint in (2, 3, 7, 22, 40, 80):
        trace = Trace([hint], {})
        (many,) = trace.symbols
        tile = narrow_tile(2, 128, 3, many, 16, info)
        shift(64, many, 9, 1, float32, info)
        holds = function_of(trace, [], ())
        served = [n for n in range(2, 400) if holds(n) is not None]
        # A tile reads as many images as it has rows.
        assert served[0] >= tile.rows
        assert {hint, hint + hint // 2, 2 * hint, 3 * hint} <= {*served}


def test_a_tile_holds_for_other_widths():
    trace = Trace([37])
    (wide,) = trace.symbols
    given = (64, 9, 8, 1, 16, ONE_UNIT, True)
    assert across_tile(wide, *given).rows == across_tile(37, *given).rows
    assert not [condition for condition in trace.guards if "==" in condition]


@pytest.mark.parametrize("choose", [fma_tile, pair_tile])
@pytest.mark.parametrize("registers", [16, 32])
@pytest.mark.parametrize("rows", [2, 6, 24])
def test_a_tile_of_packed_columns_holds_for_other_widths(choose, registers, rows):
    info = replace(ONE_UNIT, native={"vector_registers": registers})
    trace = Trace([91 * 20])
    (columns,) = trace.symbols
    assert choose(rows, columns, 8, info) == choose(rows, 91 * 20, 8, info)
    assert not trace.guards


@pytest.mark.parametrize("registers", [16, 32])
@pytest.mark.parametrize("width", [12, 20])
def test_a_tile_that_takes_most_of_a_row_serves_narrower_rows(width, registers):
    info = replace(ONE_UNIT, native={"vector_registers": registers})
    trace = Trace([width])
    (wide,) = trace.symbols
    across_tile(wide, 64, 9, 8, 1, 16, info)
    assert function_of(trace, [], ())(11) is not None


@pytest.mark.parametrize("rows", [1, 3, 8, 24, 64])
def test_panels_cover_lines_of_every_width(rows):
    """One choice of tiles serves all widths; their panels cover each line and begin within it."""
    info = replace(ONE_UNIT, vector_bytes=64, native={"vector_registers": 32})
    trace = Trace([160])
    (wide,) = trace.symbols
    made = shift(rows, wide, 27, 1, float32, info)
    texts = [n if isinstance(n, int) else n.text for n in (made.whole, made.panels)]
    numbers = function_of(trace, [str(text) for text in texts], range(len(trace.atoms)))
    for width in range(2, 16 * 40, 7):
        vectors = -(-width // made.lanes)
        whole, panels = numbers(width)
        tile, rest = made.tile[1], made.rest[1]
        assert 0 <= whole <= panels
        assert whole * tile + (panels - whole) * rest >= vectors
        last = tile if whole == panels else rest
        begin = whole * tile + (panels - whole) * rest - last
        assert begin < vectors
