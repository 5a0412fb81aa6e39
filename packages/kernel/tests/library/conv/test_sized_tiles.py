"""Tiles of a processor for numbers of images that are symbols."""

import pytest

from calor.sizes import Trace
from calor_interpreter.device import ONE_UNIT
from calor_kernel.library.conv.blueprints import across_tile, narrow_tile


@pytest.mark.parametrize("images", [13, 24, 100])
def test_a_tile_holds_for_other_numbers_of_images(images):
    """A cost in fractions would hold for one number of images alone."""
    trace = Trace([images])
    (many,) = trace.symbols
    assert narrow_tile(2, 32, 9, many, 16, ONE_UNIT) == narrow_tile(2, 32, 9, images, 16, ONE_UNIT)
    assert not [condition for condition in trace.guards if "==" in condition]


def test_a_tile_holds_for_other_widths():
    trace = Trace([37])
    (wide,) = trace.symbols
    given = (64, 9, 8, 1, 16, ONE_UNIT, True)
    assert across_tile(wide, *given).rows == across_tile(37, *given).rows
    assert not [condition for condition in trace.guards if "==" in condition]
