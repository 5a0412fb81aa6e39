"""Do products of few rows compute the norm before them, and only where it pays?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.dtypes import bfloat16, float16, float32
from calor_interpreter.device import MANY_UNITS
from calor_kernel.contract.work import Refusal, View
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.library.matmul import ProductFuser, row_prologue
from calor_kernel.library.reduce import RowFuser
from calor_kernel.planning.lowering import Lowerings
from calor_nn import functional

from .test_epilogues import graph_of, operands, run

INFO = replace(MANY_UNITS, planes=(32,), cores=132, features=MANY_UNITS.features | {"overlap"})
FUSERS = ProductFuser(), RowFuser(), ElementwiseFuser()
LABEL = "matmul prologue gemv"


def norm(x, g, b):
    return functional.layer_norm(x, x.shape[-1], g, b)


def block(x, g, b, w, c):
    """A step's norm and the product that reads it."""
    return calor.gelu(functional.linear(norm(x, g, b), w, c))


def root(x, g, b, w, c):
    return functional.rms_norm(x + b, x.shape[-1], g) @ w.T


def weights(x, g, b, w, c):
    """Softmax, with a product whose B is dense along its columns."""
    return calor.softmax(x * 2.0, axis=-1) @ w.reshape(x.shape[-1], -1) + x[:, :1]


def residual(x, g, b, w, c):
    """What the norm reads is added to the result, and is a result too."""
    y = x * g
    return norm(y, g, b) @ w[: x.shape[-1]].T + y, y


# Rows, terms, columns and the device's cores, of which many have parts of the K axis; and a dtype.
CASES = [
    *((1, 64, 300, 4, dtype) for dtype in (float32, bfloat16, float16)),
    (1, 768, 130, 32, bfloat16),
    (4, 96, 200, 4, bfloat16),
    (3, 301, 302, 8, float32),
    (2, 1000, 130, 132, float16),
    (1, 2048, 16, 132, float32),
    (2, 7, 1500, 4, float32),
]


def arrays_of(m, k, n, dtype):
    return operands([(m, k), (k,), (k,), (max(n, k), k), (max(n, k),)], dtype)


def exactly(function, arrays):
    with calor.device("numpy"):
        made = function(*(calor.asarray(a.astype(np.float64)) for a in arrays))
        return [y.numpy() for y in (made if isinstance(made, tuple) else (made,))]


@pytest.mark.parametrize("function", [block, root, weights, residual], ids=lambda f: f.__name__)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_one_launch_gives_what_several_give(case, function):
    *shape, cores, dtype = case
    arrays = arrays_of(*shape, dtype)
    graph = graph_of(function, dtype, [a.shape for a in arrays])
    info = replace(INFO, cores=cores)
    fused, launches = run(graph, arrays, info, FUSERS)
    assert sum(launch.label.startswith(LABEL) for launch in launches) == 1
    plain, more = run(graph, arrays, info, (RowFuser(),))
    assert len(more) > len(launches)
    wanted = exactly(function, arrays)
    for found, alone, right in zip(fused, plain, wanted, strict=True):
        most = np.abs(right).max() * {bfloat16: 2.0**-6, float16: 2.0**-9, float32: 1e-6}[dtype]
        assert np.abs(found.astype(np.float64) - alone).max() <= most
        assert np.abs(found.astype(np.float64) - right).max() <= most


def labels(function, shapes, info=INFO, dtype=bfloat16):
    graph = graph_of(function, dtype, shapes)
    launches = run(graph, operands(shapes, dtype), info, FUSERS)[1]
    return [launch.label for launch in launches]


SHAPES = [(1, 256), (256,), (256,), (300, 256), (300,)]
APART = {
    "two products read the norm": lambda x, g, b, w, c: (
        norm(x, g, b) @ w.T,
        norm(x, g, b) @ w[1:].T,
    ),
    "the norm is a result": lambda x, g, b, w, c: (norm(x, g, b) @ w.T, norm(x, g, b)),
    "the product reads it across rows": lambda x, g, b, w, c: (
        norm(x.reshape(2, 128), g[:128], b[:128]).T.reshape(1, 256) @ w.T
    ),
    "rows of another length": lambda x, g, b, w, c: (
        norm(x.reshape(2, 128), g[:128], b[:128]).reshape(1, 256) @ w.T
    ),
}


@pytest.mark.parametrize("name", APART)
def test_what_has_a_launch_of_its_own(name):
    assert not any(label.startswith(LABEL) for label in labels(APART[name], SHAPES))


@pytest.mark.parametrize(
    ("limit", "value"), [("_PLANES", 0), ("_ROOM", 256)], ids=["cubes", "shared memory"]
)
def test_limits(monkeypatch, limit, value):
    assert any(label.startswith(LABEL) for label in labels(block, SHAPES))
    monkeypatch.setattr(row_prologue, limit, value)
    assert not any(label.startswith(LABEL) for label in labels(block, SHAPES))


def test_views_that_do_not_suit_have_two_launches():
    """A lowering that gets other views than the fuser saw computes the rows first."""
    arrays = arrays_of(1, 256, 300, float32)
    graph = graph_of(block, float32, [a.shape for a in arrays])
    (group,) = ProductFuser().groups(graph, INFO)
    made = Lowerings(INFO)
    views = [View.dense(graph.specs[v]) for v in group.inputs]
    results = tuple(graph.specs[v] for v in group.outputs)
    (one,) = made.ask(group.op, group.attributes, tuple(views), results)
    few = Lowerings(replace(INFO, cores=0))
    (two,) = few.ask(group.op, group.attributes, tuple(views), results)
    assert not isinstance(one, Refusal)
    assert (len(one.launches), len(two.launches)) == (1, 2)
