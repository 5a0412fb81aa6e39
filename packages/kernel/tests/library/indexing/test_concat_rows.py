"""Are concatenations of rows of a few cache lines one launch, of parts with any strides?"""

from random import Random

import numpy as np
import pytest

import calor
from calor.dtypes import bfloat16, complex128, float32, int8
from calor_interpreter.device import MANY_UNITS, ONE_UNIT

from .test_embedding_bags import run

TYPES = [float32, bfloat16, int8]


def drawn(seed):
    """Return parts of arrays along an axis behind the first, and their arrays."""
    random, rng = Random(seed), np.random.default_rng(seed)
    dtype = random.choice(TYPES)
    lead = random.choice([(17,), (5, 7), (3, 2, 4)])
    inner = random.choice([(), (3,), (20,)])
    count = random.randrange(2, 5)
    arrays, moves = [], []
    for _ in range(count):
        length = random.choice([1, 2, 3, 5, 8, 21, 40])
        arrays.append((rng.standard_normal((*lead, length, *inner)) * 9).astype(dtype.numpy))
        moves.append(random.choice(["plain", "reversed", "second", "one"]))

    def function(*given):
        parts = []
        for x, move in zip(given, moves, strict=True):
            axis = len(lead)
            if move == "reversed":
                x = calor.flip(x, axis=axis)
            elif move == "second":
                x = x[(*(slice(None) for _ in lead), slice(None, None, 2))]
            elif move == "one":
                first = x[(*(slice(None) for _ in lead), slice(0, 1))]
                x = calor.broadcast_to(first, (*lead, 6, *inner))
            parts.append(x)
        return calor.concat(parts, axis=len(lead))

    return function, arrays


@pytest.mark.parametrize("seed", range(24))
def test_parts_are_written_row_by_row(seed):
    function, arrays = drawn(seed)
    (found,), (wanted,), labels = run(ONE_UNIT, function, arrays)
    assert labels == ["concat rows"]
    assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_borders_are_a_launch_for_each_axis(mode):
    x = np.arange(20 * 6 * 7, dtype=np.float32).reshape(20, 6, 7)
    pad = lambda x: calor.pad(x, [(0, 0), (2, 2), (3, 3)], mode=mode)  # noqa: E731
    (found,), (wanted,), labels = run(ONE_UNIT, pad, [x])
    assert labels == ["concat rows"] * 2
    np.testing.assert_array_equal(found, wanted)


def test_other_concatenations_have_a_launch_for_each_part():
    join = lambda a, b: calor.concat([a, b], axis=1)  # noqa: E731
    few = [np.ones((2, 5), np.float32)] * 2
    long = [np.ones((40, 1 << 12), np.float32)] * 2
    wide = [np.ones((40, 5), complex128.numpy)] * 2
    for arrays in (few, long, wide):
        (found,), (wanted,), labels = run(ONE_UNIT, join, arrays)
        assert "concat rows" not in labels
        np.testing.assert_array_equal(found, wanted)
    _, _, labels = run(MANY_UNITS, join, [np.ones((40, 5), np.float32)] * 2)
    assert "concat rows" not in labels
