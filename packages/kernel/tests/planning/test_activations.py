"""Do gradients write activations again, with the same numbers, so that these need not wait?"""

import numpy as np
import pytest

import calor
from calor.dtypes import bfloat16, float32
from calor.ops.base import table
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.library.reduce import RowFuser
from calor_kernel.planning import activations as passes
from calor_kernel.planning.activations import rewriting_activations
from calor_kernel.runtime.backend import KernelBackend

CONV = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}


def _layers(activation, x, *weights):
    for w in weights:
        # The rows of images of tokens are one axis of a product.
        made = activation(x.reshape(-1, x.shape[-1]) @ w)
        x = x + (made @ w.T).reshape(x.shape)
    return x


def _images(activation, x, *weights):
    for w in weights:
        x = table()["conv"](activation(table()["conv"](x, w, **CONV)), w, **CONV)
    return x


ROWS, IMAGES = ((2, 3, 8), *[(8, 8)] * 4), ((2, 4, 6, 6), *[(4, 4, 3, 3)] * 4)
CASES = {
    "gelu": (lambda *g: _layers(calor.nn.functional.gelu, *g), ROWS),
    "silu": (lambda *g: _layers(calor.nn.functional.silu, *g), ROWS),
    "images": (lambda *g: _images(calor.nn.functional.gelu, *g), IMAGES),
}


def _graph(function, shapes, dtype):
    def loss(*given):
        return (function(*given) ** 2).sum()

    numbers = tuple(range(len(shapes)))
    with calor.device("numpy"):
        given = [calor.zeros(s, dtype=dtype) for s in shapes]
        return calor.trace(lambda *g: calor.grad(loss, argnums=numbers)(*g), *given)


def _run(graph, arrays):
    fusers = RowFuser(), ElementwiseFuser()
    backend = KernelBackend("lanes", lambda i: LanesDevice(MANY_UNITS), fusers=fusers)
    executable = backend.compile(0, graph)
    made = executable([backend.upload(0, np.ascontiguousarray(a)) for a in arrays])
    specs = graph.output_specs
    found = [np.array(backend.download(0, b, s)) for b, s in zip(made, specs, strict=True)]
    return found, executable


def _most(executable):
    """Return the most bytes that are in use at once."""
    return max(executable.recorder.lives({}).live(len(executable.draft.tasks)))


@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_the_numbers_are_the_same_and_less_waits(case, dtype, monkeypatch):
    # Small products of weights would wait for each other.
    monkeypatch.setenv("CALOR_BESIDE", "0")
    function, shapes = CASES[case]
    rng, graph = np.random.default_rng(0), _graph(function, shapes, dtype)
    arrays = [(rng.normal(size=s) / 2).astype(dtype.numpy) for s in shapes]
    assert rewriting_activations(graph) is graph
    plain, before = _run(graph, arrays)
    for name, value in (("_MUCH", 1), ("_SHARE", 1), ("_LATE", 2)):
        monkeypatch.setattr(passes, name, value)
    found, executable = _run(graph, arrays)
    for one, other in zip(found, plain, strict=True):
        np.testing.assert_array_equal(one, other)
    assert _most(executable) < _most(before)


def test_only_a_share_is_written_again_the_largest_first(monkeypatch):
    def uneven(x, w, v):
        x = x + calor.tanh(x @ v) @ v.T
        return x + calor.nn.functional.gelu(x @ w) @ w.T

    graph = _graph(uneven, ((4, 8), (8, 64), (8, 8)), float32)
    monkeypatch.setattr(passes, "_MUCH", 1)
    monkeypatch.setattr(passes, "_LATE", 0)
    assert rewriting_activations(graph) is graph
    monkeypatch.setattr(passes, "_SHARE", 8)
    made = rewriting_activations(graph)
    assert [n.op.name for n in made.nodes].count("gelu") == 2


@pytest.mark.parametrize("activation", [calor.relu, calor.exp], ids=["relu", "exp"])
def test_what_its_own_gradient_reads_stays(activation, monkeypatch):
    graph = _graph(lambda *g: _layers(activation, *g), ROWS, float32)
    for name, value in (("_MUCH", 1), ("_SHARE", 1), ("_LATE", 2)):
        monkeypatch.setattr(passes, name, value)
    assert rewriting_activations(graph) is graph
