"""Are values of norms computed again by their gradients the same, and no longer stored?"""

import numpy as np
import pytest

import calor
from calor import nn
from calor.dtypes import bfloat16, float32
from calor.ops.base import table
from calor.ops.composites import like, wide
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.library.reduce import RowFuser
from calor_kernel.planning import compiling, norm_shapes
from calor_kernel.planning import recomputing as passes
from calor_kernel.planning.recomputing import recomputing
from calor_kernel.runtime.backend import KernelBackend

CONV = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}


def _norm(x, w, b, axes):
    """A norm as the layers record it: half types are rounded once."""
    made = table()["standardize"](wide(x), axes=axes, eps=1e-5)[0]
    shape = (1, -1, 1, 1) if axes[0] == 0 else (-1,)
    return like(made * w.reshape(shape) + b.reshape(shape), x)


def _gradients(function):
    def run(*given):
        return calor.grad(lambda *g: (function(*g) ** 2).sum(), argnums=(0, 1, 2))(*given)

    return run


def _images(activation, x, k, w, b):
    made = table()["conv"](activation(_norm(x, w, b, (0, 2, 3))), k, **CONV)
    return table()["conv"](made, k, **CONV)


def _added(x, k, w, b):
    """A norm whose result is added to what does not depend on it, and then masked."""
    side = table()["conv"](x, k, **CONV)
    made = calor.relu(_norm(side, w, b, (0, 2, 3)) + _norm(x, b, w, (0, 2, 3)))
    return table()["conv"](made, k, **CONV)


def _groups(x, k, w, b):
    """A norm of groups of channels, whose scale and shift have another shape than its rows."""
    made = table()["standardize"](x.reshape(2, 2, -1), axes=(2,), eps=1e-5)[0].reshape(x.shape)
    return table()["conv"](calor.relu(made * w.reshape(-1, 1, 1) + b.reshape(-1, 1, 1)), k, **CONV)


def _lines(x, k, w, b):
    """A norm along the last axis, before a product."""
    return calor.tanh(_norm(x, w, b, (3,)) @ k)


IMAGES, LINES = ((2, 4, 6, 6), (4, 4, 3, 3), (4,), (4,)), ((2, 3, 5, 8), (8, 8), (8,), (8,))
# The function, its operands, and how many stored values of the size of x it saves at least.
CASES = {
    "relu": (lambda *g: _images(calor.relu, *g), IMAGES, 2),
    "silu": (lambda *g: _images(lambda x: x * calor.sigmoid(x), *g), IMAGES, 2),
    "added": (_added, IMAGES, 2),
    "lines": (_lines, LINES, 1),
}


def _graph(case, dtype):
    function, shapes, _ = CASES[case]
    with calor.device("numpy"):
        return calor.trace(_gradients(function), *(calor.zeros(s, dtype=dtype) for s in shapes))


def _run(graph, arrays):
    fusers = RowFuser(), ElementwiseFuser()
    backend = KernelBackend("lanes", lambda i: LanesDevice(MANY_UNITS), fusers=fusers)
    executable = backend.compile(0, graph)
    made = executable([backend.upload(0, np.ascontiguousarray(a)) for a in arrays])
    specs = graph.output_specs
    found = [np.array(backend.download(0, b, s)) for b, s in zip(made, specs, strict=True)]
    return found, executable


def _stored(executable, size):
    """Return the number of results of row programs with so many elements."""
    tasks = executable.draft.tasks
    return sum(s.size == size for t in tasks if t.op == "row_program" for s in t.results)


@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_the_numbers_are_the_same_and_fewer_are_stored(case, dtype, monkeypatch):
    _, shapes, saved = CASES[case]
    graph, rng = _graph(case, dtype), np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype(dtype.numpy) for shape in shapes]
    found, executable = _run(graph, arrays)
    monkeypatch.setattr(compiling, "recomputing", lambda graph: graph)
    plain, before = _run(graph, arrays)
    near = {"float32": 2e-6, "bfloat16": 2e-2}[dtype.name]
    for a, b in zip(found, plain, strict=True):
        a, b = a.astype(np.float64), b.astype(np.float64)
        np.testing.assert_allclose(a, b, rtol=near, atol=near * abs(b).max())
    made = recomputing(graph)
    read = {v for node in made.nodes for v in node.inputs} | set(made.outputs)
    assert all(read.intersection(node.outputs) for node in made.nodes)
    size = int(np.prod(shapes[0]))
    assert _stored(before, size) - _stored(executable, size) >= saved


def _waited(executable, size):
    """Return over how many tasks values of so many bytes wait in memory, one by one."""
    spans = executable.recorder.lives({}).spans.items()
    return sum(last - first for piece, (first, last) in spans if piece.nbytes == size)


def _layers(x, k, w, b):
    """Norms before products, with a sum beside them, as in a transformer."""
    axes = (x.ndim - 1,)
    for _ in range(3):
        x = x + calor.tanh(_norm(x, w, b, axes) @ k) @ k
    return x


def _blocks(activation, x, k, w, b):
    """Norms and activations between convolutions."""
    for _ in range(4):
        x = table()["conv"](activation(_norm(x, w, b, (0, 2, 3))), k, **CONV)
    return x


PRODUCTS = {
    "layers": (_layers, LINES),
    "relu": (lambda *g: _blocks(calor.relu, *g), IMAGES),
    "silu": (lambda *g: _blocks(lambda x: x * calor.sigmoid(x), *g), IMAGES),
}


@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
@pytest.mark.parametrize("case", PRODUCTS)
def test_products_read_what_gradients_of_norms_write(case, dtype, monkeypatch):
    function, shapes = PRODUCTS[case]
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype(dtype.numpy) for shape in shapes]
    with calor.device("numpy"):
        graph = calor.trace(_gradients(function), *(calor.zeros(s, dtype=dtype) for s in shapes))
    plain, before = _run(graph, arrays)
    monkeypatch.setattr(passes, "_MUCH", 1)
    monkeypatch.setattr(passes, "_LATE", 4)
    found, executable = _run(graph, arrays)
    for one, other in zip(found, plain, strict=True):
        np.testing.assert_array_equal(one, other)
    # No launch is added, and no result of a norm waits for the product of its gradient.
    assert len(executable.draft.tasks) == len(before.draft.tasks)
    assert _waited(executable, arrays[0].nbytes) < _waited(before, arrays[0].nbytes)


def test_what_is_wanted_or_read_at_once_is_stored():
    shapes = IMAGES

    def wanted(x, k, w, b):
        made = table()["standardize"](x, axes=(0, 2, 3), eps=1e-5)[0]
        return made, (table()["conv"](made, k, **CONV) * made).sum()

    with calor.device("numpy"):
        graph = calor.trace(wanted, *map(calor.zeros, shapes))
        assert recomputing(graph) is graph
        graph = calor.trace(lambda *g: _images(calor.relu, *g), *map(calor.zeros, shapes))
        assert recomputing(graph) is graph
        graph = calor.trace(_gradients(_groups), *map(calor.zeros, shapes))
        assert recomputing(graph) is graph


def _normed(groups, x, w, b):
    """A standardization of groups of channels, with a scale and a shift of each channel."""
    shape = (x.shape[0], groups, x.shape[1] // groups, -1)
    made = table()["standardize"](wide(x.reshape(shape)), axes=(2, 3), eps=1e-5)[0]
    made = made.reshape(x.shape) * wide(w.reshape(-1, 1, 1)) + wide(b.reshape(-1, 1, 1))
    return like(made, x)


def _grouped(groups, activation, x, k, w, b):
    """Norms of groups of channels with scales and shifts, between convolutions."""
    for _ in range(2):
        x = table()["conv"](activation(_normed(groups, x, w, b)), k, **CONV)
    return x


GROUPS = {
    "groups": (lambda *g: _grouped(2, nn.functional.silu, *g), IMAGES),
    "channels": (lambda *g: _grouped(4, nn.functional.relu, *g), IMAGES),
    "one": (lambda *g: _grouped(1, calor.tanh, *g), IMAGES),
}


@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
@pytest.mark.parametrize("case", GROUPS)
def test_what_follows_norms_of_groups_is_computed_again_in_their_shape(case, dtype, monkeypatch):
    function, shapes = GROUPS[case]
    monkeypatch.setattr(norm_shapes, "is_size", lambda n: False)
    with calor.device("numpy"):
        graph = calor.trace(_gradients(function), *(calor.zeros(s, dtype=dtype) for s in shapes))
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype(dtype.numpy) for shape in shapes]
    found, executable = _run(graph, arrays)
    monkeypatch.setattr(norm_shapes, "is_size", lambda n: True)
    plain, before = _run(graph, arrays)
    near = {"float32": 2e-6, "bfloat16": 2e-2}[dtype.name]
    for a, b in zip(found, plain, strict=True):
        a, b = a.astype(np.float64), b.astype(np.float64)
        np.testing.assert_allclose(a, b, rtol=near, atol=near * abs(b).max())
    live = [max(e.recorder.lives({}).live(len(e.draft.tasks))) for e in (executable, before)]
    assert live[0] < live[1]


def test_shapes_stay_where_operands_are_no_views_or_sums_are_of_parts():
    def mixed(x, y):
        made = table()["standardize"](x.reshape(2, 2, -1), axes=(2,), eps=1e-5)[0].reshape(x.shape)
        # Turned, y has no strides in the norm's shape; a sum along rows is of parts of an axis.
        return made * y.mT, calor.sum(made, axis=2), calor.sum(made, axis=(2, 3)), made + 1.0

    with calor.device("numpy"):
        graph = calor.trace(mixed, calor.zeros((2, 4, 6, 6)), calor.zeros((2, 4, 6, 6)))
        found = norm_shapes.in_norm_shapes(graph)
    assert found.output_specs == graph.output_specs
    shapes = {(n.op.name, len(found.specs[n.inputs[0]].shape)) for n in found.nodes if n.inputs}
    assert {("mul", 4), ("sum", 4), ("add", 3)} <= shapes
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(2, 4, 6, 6)).astype(np.float32) for _ in range(2)]
    with calor.device("numpy"):
        expected = [x.numpy() for x in mixed(*map(calor.asarray, arrays))]
    for one, other in zip(_run(graph, arrays)[0], expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
