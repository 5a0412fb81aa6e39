"""Does each reduction compute values of few numbers itself, with the same numbers?"""

from random import Random

import numpy as np
import pytest

import calor
from calor.graph.interpreter import interpret
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.library.reduce import RowFuser, spread_rows
from calor_kernel.planning import spread_values
from calor_kernel.planning.spread_values import spreading
from calor_kernel.runtime.backend import KernelBackend

TERMS = {
    "squares": lambda a, b: (a - b) ** 2,
    "sizes": lambda a, b: abs(a - b),
    "products": lambda a, b: a * calor.exp(b),
}
FOLDS = [calor.sum, calor.max, calor.mean]


def _pairs(seed):
    """Reductions along drawn axes of a value of all pairs, some of them of its gradient."""
    random = Random(seed)
    m, n, k = (random.choice([1, 3, 5, 9]) for _ in range(3))
    term = random.choice(list(TERMS.values()))
    turned = random.random() < 0.5

    def run(x, y, w):
        a, b = x[:, None, :], y[None, :, :]
        if turned:
            a, b = x[:, :, None], y.mT[None, :, :]
        each = term(a, b)
        along = 1 if turned else 2
        total = calor.sum(each, axis=along)
        spread = calor.expand_dims(w * total, axis=along)
        made = [total]
        for _ in range(random.randrange(1, 4)):
            value = each if random.random() < 0.5 else spread * each
            made.append(random.choice(FOLDS)(value, axis=random.randrange(3)))
        return made + [each] * (random.random() < 0.2)

    shapes = [(m, k), (n, k), (m, n)]
    with calor.device("numpy"):
        return calor.trace(run, *(calor.zeros(s, dtype="float64") for s in shapes)), shapes


@pytest.fixture
def always(monkeypatch):
    """Small values are computed again too, and few reads are many."""
    monkeypatch.setattr(spread_values, "_FEW", 0)
    monkeypatch.setattr(spread_rows, "_WORTH", 0)
    monkeypatch.setattr(spread_rows, "_AGAIN", 2)


def _arrays(shapes):
    rng = np.random.default_rng(1)
    return [rng.standard_normal(shape) for shape in shapes]


@pytest.mark.parametrize("seed", range(40))
def test_drawn_reductions_have_the_same_numbers(seed, always):
    graph, shapes = _pairs(seed)
    made = spreading(graph)
    arrays = _arrays(shapes)
    for a, b in zip(interpret(made, arrays), interpret(graph, arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("device", [ONE_UNIT, MANY_UNITS], ids=["one unit", "many units"])
@pytest.mark.parametrize("seed", range(4))
def test_launches_have_the_same_numbers(device, seed, always):
    graph, shapes = _pairs(seed)
    fusers = RowFuser(), ElementwiseFuser()
    backend = KernelBackend("lanes", lambda i: LanesDevice(device), fusers=fusers)
    arrays = _arrays(shapes)
    made = backend.compile(0, graph)([backend.upload(0, a) for a in arrays])
    wanted = interpret(graph, arrays)
    for buffer, spec, b in zip(made, graph.output_specs, wanted, strict=True):
        a = np.array(backend.download(0, buffer, spec))
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_the_gradient_of_distances_stores_no_difference(always):
    def gradients(x, y, g):
        total = calor.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=2)
        return total, *calor.vjp(
            lambda x, y: calor.sqrt(calor.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=2)), x, y
        )[1](g)

    shapes = [(12, 4), (10, 4), (12, 10)]
    with calor.device("numpy"):
        graph = calor.trace(gradients, *map(calor.zeros, shapes))
    fusers = RowFuser(), ElementwiseFuser()
    backend = KernelBackend("lanes", lambda i: LanesDevice(MANY_UNITS), fusers=fusers)
    tasks = backend.compile(0, graph).draft.tasks
    assert all(result.size < 12 * 10 * 4 for task in tasks for result in task.results)


def test_what_is_not_spread_is_shared(always):
    with calor.device("numpy"):
        x = calor.zeros((8, 9))
        graph = calor.trace(lambda x: [(x * x).sum(axis=0), (x * x).sum(axis=1)], x)
        assert spreading(graph) is graph
