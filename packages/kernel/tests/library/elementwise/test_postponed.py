"""Which nodes of a backward pass wait with their operand, and are computed where they are read."""

import numpy as np
import pytest

import calor
from calor import nn
from calor_kernel.library.elementwise.postponed import postponed

DEEP = 10


def relu(x, w):
    return calor.relu(x @ w)


def norm(x, w):
    return nn.functional.layer_norm(x @ w, 128, w[0], w[1])


def gelu(x, w):
    return nn.functional.gelu(x @ w)


def smooth(x, w):
    """A function whose derivative is one of a value that nothing else needs."""
    y = x @ w
    return calor.exp(-y * y)


def names(layer, rows, depth=DEEP, dtype="float32"):
    """Return the ops that are postponed in the gradient of a deep network."""
    x = calor.asarray(np.ones((rows, 128), np.float32)).astype(dtype)
    w = calor.asarray(np.ones((128, 128), np.float32)).astype(dtype)

    def loss(w, x):
        for _ in range(depth):
            x = layer(x, w)
        return calor.sum(x)

    graph = calor.trace(calor.grad(loss), w, x)
    return [graph.nodes[n].op.name for n in postponed(graph).every]


@pytest.mark.parametrize(
    ("layer", "dtype", "expected"),
    [
        (relu, "float32", {"greater"}),  # A product reads the activation, too.
        (norm, "bfloat16", {"cast"}),  # The gradient of the weight reads the rows as they are.
        (norm, "float32", set()),
        (gelu, "float32", set()),
        (smooth, "float32", set()),
    ],
)
def test_what_is_read_from_a_value_that_waits_anyway(layer, dtype, expected):
    found = names(layer, 512, dtype=dtype)
    assert set(found) == expected
    assert len(found) >= (DEEP // 2 if expected else 0)


def test_small_values_and_near_readers_join_as_before():
    assert names(relu, 8) == []
    assert names(relu, 512, depth=1) == []
