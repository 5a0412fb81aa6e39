"""What is joined to a product, what is not, and what is chosen beside other fusers?"""

import pytest

import calor
from calor.dtypes import complex64, float32
from calor_interpreter.device import ONE_UNIT
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.library.matmul import ProductFuser
from calor_kernel.library.reduce import RowFuser
from calor_kernel.planning.planner import cover
from calor_nn import functional

SOURCES = ("full", "constant", "expand", "permute", "reshape", "slice")


def graph_of(function, *shapes, dtype=float32):
    with calor.device("numpy"):
        return calor.trace(function, *(calor.zeros(shape, dtype=dtype) for shape in shapes))


def joined(graph):
    """Return for each group the names of its ops, the inputs and the results."""
    groups = ProductFuser().groups(graph, ONE_UNIT)
    return [
        ([graph.nodes[n].op.name for n in g.nodes], len(g.inputs), len(g.outputs)) for g in groups
    ]


# A function with the shapes of its arguments, and what is joined.
ROWS = {
    "bias and activation": (
        lambda x, w, b: calor.gelu(functional.linear(x, w, b)),
        [(2, 5, 8), (16, 8), (16,)],
        [(["dot_general", "add", "gelu"], 3, 1)],
    ),
    "reshaped between": (
        lambda x, w, b, r: (x.reshape(10, 8) @ w + b).reshape(2, 5, 16) * r,
        [(2, 5, 8), (8, 16), (16,), (2, 5, 16)],
        [(["dot_general", "add", "reshape", "mul"], 4, 1)],
    ),
    "what is read twice is written": (
        lambda x, w: (x @ w, calor.exp(x @ w)),
        [(4, 8), (8, 6)],
        [(["dot_general", "exp"], 2, 2)],
    ),
    "two products, one sum": (
        lambda x, w, y, v: x @ w + y @ v,
        [(4, 8), (8, 6), (4, 7), (7, 6)],
        [(["dot_general", "add"], 3, 1)],
    ),
    "what the last op needs is computed too": (
        lambda x, w, r: (x @ w) * (calor.tanh(r) * 2.0),
        [(4, 8), (8, 6), (4, 6)],
        [(["dot_general", "tanh", "mul", "mul"], 4, 1)],
    ),
    "not what the product reads too": (
        lambda x, w: calor.relu(x) * (calor.relu(x) @ w),
        [(6, 6), (6, 6)],
        [(["dot_general", "mul"], 2, 1)],
    ),
    "not what is in another order": (
        lambda x, w, r: (x @ w).T + r,
        [(4, 8), (8, 6), (6, 4)],
        [],
    ),
    "not what is of another size": (
        lambda x, w: calor.exp((x @ w)[:2]),
        [(4, 8), (8, 6)],
        [],
    ),
    "up to what is": (
        lambda x, w, b: calor.exp((x @ w + b)[:2]),
        [(4, 8), (8, 6), (6,)],
        [(["dot_general", "add"], 3, 1)],
    ),
    "not both orders": (
        lambda x, w: (x @ w) + (x @ w).T,
        [(4, 8), (8, 4)],
        [],
    ),
    "not what depends on the result by another way": (
        lambda x, w: (x @ w) / calor.sum(x @ w, axis=1, keepdims=True),
        [(4, 8), (8, 6)],
        [],
    ),
    "not what strides do not express": (
        lambda x, w, r: (x @ w).reshape(2, 2, 6) + r,
        [(4, 8), (8, 6), (1, 2, 6)],
        [],
    ),
    "not a heavy value of few elements": (
        lambda x, w, b: x @ w + calor.tanh(b),
        [(4, 8), (8, 6), (6,)],
        [(["dot_general", "add"], 3, 1)],
    ),
    "nothing alone": (lambda x, w: x @ w, [(4, 8), (8, 6)], []),
}


@pytest.mark.parametrize("row", ROWS)
def test_what_is_joined(row):
    function, shapes, wanted = ROWS[row]
    assert joined(graph_of(function, *shapes)) == wanted


def test_no_complex_numbers():
    graph = graph_of(lambda x, w, b: x @ w + b, (4, 8), (8, 6), (6,), dtype=complex64)
    assert joined(graph) == []


def test_a_backward_pass():
    """The gradient of an activation is an epilogue of the product that gives its cotangent."""

    def loss(x, w, b, v, u):
        hidden = calor.gelu(functional.linear(x, w, b))
        return calor.tanh(calor.gelu(hidden @ v) @ u).sum()

    shapes = [(10, 8), (16, 8), (16,), (16, 8), (8, 4)]
    graph = graph_of(calor.grad(loss, argnums=(0, 1, 2, 3, 4)), *shapes)
    fusers = (ElementwiseFuser(), ProductFuser(), RowFuser())
    units = cover(graph, fusers, ONE_UNIT)
    alone = [graph.nodes[u].op.name for u in units if isinstance(u, int)]
    # No elementwise op is a launch of its own.
    assert set(alone) <= {*SOURCES, "dot_general", "sum"}
    assert sum(not isinstance(u, int) and u.op == "product_chain" for u in units) >= 4


def test_what_a_better_group_leaves_is_covered():
    """A chain that loses a node to a product is found anew without it."""

    def function(x, w, y, r):
        left = x @ w + r
        return calor.exp(left), calor.tanh(calor.sin(y) * y + calor.cos(y) * y)[:4] * left[:, :3]

    graph = graph_of(function, (4, 8), (8, 6), (5, 3), (4, 6))
    units = cover(graph, (ElementwiseFuser(), ProductFuser()), ONE_UNIT)
    alone = [graph.nodes[u].op.name for u in units if isinstance(u, int)]
    assert set(alone) <= set(SOURCES)
