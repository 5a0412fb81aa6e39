"""Do all layers take the precision of products that was set when they were called?"""

import numpy as np
import pytest

import calor
from calor import nn
from calor.nn import functional
from calor.transforms.evaluate import trace

PRODUCTS = ("dot_general", "conv", "conv_input_gradient", "conv_weight_gradient")


def ones(*shape, dtype="float32"):
    return calor.asarray(np.ones(shape, dtype))


def layer(module, *shapes):
    return lambda *given: module(*given), [ones(*shape) for shape in shapes]


ROWS = {
    "linear": (functional.linear, [ones(3, 4), ones(5, 4), ones(5)]),
    "linear of one row": (functional.linear, [ones(4), ones(5, 4)]),
    "bilinear": (functional.bilinear, [ones(2, 3), ones(2, 4), ones(5, 3, 4)]),
    "conv": (functional.conv2d, [ones(1, 2, 5, 5), ones(3, 2, 3, 3)]),
    "transposed conv": (functional.conv_transpose1d, [ones(1, 2, 5), ones(2, 3, 3)]),
    "LSTM": layer(nn.LSTM(3, 4), (2, 2, 3)),
    "GRU": layer(nn.GRU(3, 4), (2, 2, 3)),
    "einsum": (lambda a, b: calor.einsum("ij,kj->ik", a, b), [ones(3, 4), ones(5, 4)]),
}


def found(function, given):
    """Return the precisions of all products of a function's graph, those of its bodies too."""
    graphs, said = [trace(function, *given)], []
    while graphs:
        graph = graphs.pop()
        for node in graph.nodes:
            if node.op.name in PRODUCTS:
                said.append(node.attributes.get("precision", "highest"))
            graphs += [body for body in node.attributes.values() if hasattr(body, "nodes")]
    assert said
    return set(said)


@pytest.mark.parametrize("level", ["highest", "high"])
@pytest.mark.parametrize("name", ROWS)
def test_layers_and_their_gradients_are_told(name, level):
    function, given = ROWS[name]

    def called(*arguments):
        with calor.matmul_precision(level):
            made = function(*arguments)
        return (made[0] if isinstance(made, tuple) else made).sum()

    assert found(called, given) == {level}
    backward = calor.grad(called, argnums=tuple(range(len(given))))
    assert found(backward, given) == {level}


@pytest.mark.parametrize("name", ROWS)
def test_direct_sums_are_said_of_convolutions_alone(name):
    function, given = ROWS[name]

    def called(*arguments):
        with calor.matmul_precision("direct"):
            made = function(*arguments)
        return (made[0] if isinstance(made, tuple) else made).sum()

    expected = {"direct" if "conv" in name else "highest"}
    assert found(called, given) == expected
    assert found(calor.grad(called, argnums=tuple(range(len(given)))), given) == expected


def test_other_types_are_not_told():
    function, given = ROWS["linear"]
    with calor.matmul_precision("high"):
        assert found(function, [x.astype("float16") for x in given]) == {"highest"}


def test_means_are_no_products():
    graph = trace(lambda x: functional.adaptive_avg_pool1d(x, 3), ones(1, 1, 5))
    assert not {node.op.name for node in graph.nodes} & {*PRODUCTS}


@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 3, 2, 4, 5)], ids=str)
def test_positions_are_no_products_whose_precision_is_set(size):
    """A pixel's position in TF32 would be a hundredth of a pixel off."""

    def positions(theta):
        return functional.affine_grid(theta, size).sum()

    rank = len(size) - 2
    theta = ones(size[0], rank, rank + 1)
    for function in (positions, calor.grad(positions)):
        with calor.matmul_precision("high"):
            graph = trace(function, theta)
        assert not [node for node in graph.nodes if node.op.name in PRODUCTS], graph.text()
