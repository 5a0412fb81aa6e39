"""Are rows taken whole where their elements share an index?"""

import numpy as np
import pytest

import calor
from calor.errors import ElementIndexError
from calor_interpreter.device import MANY_UNITS, ONE_UNIT

from .test_embedding_bags import run

# The shapes of the operand and of the indices, and the axis.
SHAPES = [
    ((7, 5), (4, 1), 0),
    ((2, 7, 33), (2, 4, 1), 1),
    ((2, 7, 3, 4), (1, 4, 1, 1), 1),
    ((2, 3, 7, 8), (2, 3, 4, 1), 2),
    ((3, 7, 1), (3, 4, 1), 1),
    ((3, 7), (1, 4), 1),
]


@pytest.mark.parametrize("info", [ONE_UNIT, MANY_UNITS], ids=["one unit", "many units"])
@pytest.mark.parametrize(("shape", "picks", "axis"), SHAPES)
def test_rows_of_one_index(info, shape, picks, axis):
    rng = np.random.default_rng(3)
    x, index = rng.standard_normal(shape).astype(np.float32), rng.integers(-7, 7, picks)
    take = lambda x, i: calor.take_along_axis(x, i, axis=axis)  # noqa: E731
    (found,), (wanted,), labels = run(info, take, [x, index])
    assert found.tobytes() == wanted.tobytes()
    rows = np.prod(shape[axis + 1 :]) > 1
    assert ("gather" in labels) == rows


def test_a_wrong_index_of_a_row_is_an_error():
    take = lambda x, i: calor.take_along_axis(x, i, axis=0)  # noqa: E731
    with calor.device("cpu"):
        x, index = calor.ones((7, 5)), calor.asarray([[1], [7]])
        with pytest.raises(ElementIndexError, match="index 7 is out of range for axis 0 of size 7"):
            calor.jit(take)(x, index).numpy()
