"""Are products right whose matrices are interleaved in memory, and are these copied apart?"""

import numpy as np
import pytest

from calor.dtypes import float32, float64
from calor_interpreter.device import ONE_UNIT

from .test_epilogues import graph_of, near, operands, run

MANY, FEW = 37, 6
# Axes of the left and the right operand in memory, where b are the matrices.
ORDERS = [("mkb", "bkn"), ("kmb", "bnk"), ("bmk", "knb"), ("bkm", "nkb"), ("kmb", "knb")]


def product(left, right):
    """Return the function that multiplies operands whose axes lie in these orders."""

    def function(x, w):
        a = x.transpose(*(left.index(axis) for axis in "bmk"))
        return a @ w.transpose(*(right.index(axis) for axis in "bkn"))

    return function


def found(left, right, sizes, dtype=float32):
    function = product(left, right)
    arrays = operands([[sizes[axis] for axis in order] for order in (left, right)], dtype)
    graph = graph_of(function, dtype, [a.shape for a in arrays])
    made, launches = run(graph, arrays, ONE_UNIT, ())
    near(made, function, arrays, dtype, "highest")
    return [one.label for one in launches]


@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize("sizes", [(27, 27, 16), (7, 12, 21), (1, 20, 9), (18, 1, 5)])
@pytest.mark.parametrize("count", [MANY, FEW])
def test_products(orders, sizes, count):
    found(*orders, {"b": count, **dict(zip("mkn", sizes, strict=True))})


def test_products_of_double():
    found("mkb", "knb", {"b": MANY, "m": 9, "k": 11, "n": 10}, float64)


def test_many_matrices_are_copied_apart():
    sizes = {"m": 27, "k": 27, "n": 16}
    for orders in ORDERS:
        labels = found(*orders, {"b": MANY, **sizes})
        across = sum(order[-1] == "b" for order in orders)
        assert sum(label.startswith("copy") for label in labels) == across
        assert not any(label.startswith("copy") for label in found(*orders, {"b": FEW, **sizes}))


def test_operands_beside_interleaved_ones_keep_their_numbers():
    """Matrices that are not finite stay alone."""
    function = product("mkb", "bkn")
    x, w = np.ones((3, 4, MANY), np.float32), np.ones((MANY, 4, 5), np.float32)
    x[:, :, 20], w[21] = np.nan, np.inf
    (made,), _ = run(graph_of(function, float32, [x.shape, w.shape]), [x, w], ONE_UNIT, ())
    assert np.isnan(made[20]).all()
    assert np.isinf(made[21]).all()
    assert (np.delete(made, [20, 21], axis=0) == 4).all()
