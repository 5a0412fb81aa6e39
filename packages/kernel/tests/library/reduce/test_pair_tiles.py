"""Do units with tiles of pairs compute what single rows do, with edges, batches and any strides?"""

import numpy as np
import pytest

import calor
from calor.graph.interpreter import interpret
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.library.reduce import RowFuser, pair_tiles_launch
from calor_kernel.runtime.backend import KernelBackend


def euclid(x, y, *more):
    return calor.sqrt(calor.sum((x[..., :, None, :] - y[..., None, :, :]) ** 2, axis=-1))


def turned(x, y, *more):
    a, b = x.mT[..., :, None, :], y[..., None, :, :]
    return calor.max(calor.abs(a - b), axis=-1)


def scaled(x, y, rows, pairs, *more):
    a, b = x[..., :, None, :], y[..., None, :, :]
    each = calor.exp(-((a - b) ** 2) * rows[:, None, None])
    return calor.sum(each, axis=-1) * pairs, calor.min(each, axis=-1) + rows[:, None]


def products(x, y, *more):
    return calor.sum(x[..., :, None, :] * calor.exp(y[..., None, :, :]), axis=-1, dtype="float64")


CASES = {
    "euclid": (euclid, [(37, 8), (70, 8)], "float32"),
    "euclid of batches": (euclid, [(2, 33, 16), (2, 65, 16)], "float32"),
    "one set for all batches": (euclid, [(3, 34, 4), (19, 4)], "float64"),
    "odd rows": (euclid, [(40, 3), (50, 3)], "float32"),
    "some blocks and a part": (euclid, [(40, 52), (68, 52)], "float32"),
    "uneven blocks": (euclid, [(35, 37), (41, 37)], "float32"),
    "whole vectors": (euclid, [(64, 32), (128, 32)], "float64"),
    "half type": (euclid, [(40, 16), (24, 16)], "float16"),
    "columns": (turned, [(5, 33), (66, 5)], "float32"),
    "values of rows and pairs": (scaled, [(33, 8), (70, 8), (33,), (33, 70)], "float32"),
    "wider sums": (products, [(20, 12), (30, 12)], "float32"),
}


@pytest.fixture
def few(monkeypatch):
    """Few pairs have tiles too."""
    monkeypatch.setattr(pair_tiles_launch, "_FEW", 0)


@pytest.mark.parametrize("large", [False, True], ids=["small tiles", "large tiles"])
@pytest.mark.parametrize("name", CASES)
def test_pairs_have_the_numbers_of_single_rows(name, large, few, monkeypatch):
    if large:
        monkeypatch.setattr(pair_tiles_launch, "_MANY", 0)
    function, shapes, dtype = CASES[name]
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    with calor.device("numpy"):
        graph = calor.trace(function, *(calor.zeros(s, dtype=dtype) for s in shapes))
    fusers = RowFuser(), ElementwiseFuser()
    backend = KernelBackend("lanes", lambda i: LanesDevice(MANY_UNITS), fusers=fusers)
    executable = backend.compile(0, graph)
    made = executable([backend.upload(0, a) for a in arrays])
    wanted = interpret(graph, [a.astype("float64") for a in arrays])
    near = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-12}[dtype]
    for buffer, spec, b in zip(made, graph.output_specs, wanted, strict=True):
        a = np.array(backend.download(0, buffer, spec)).astype("float64")
        np.testing.assert_allclose(a, b, rtol=near, atol=near)
    names = {
        launch.build.function.__name__
        for task in executable.draft.tasks
        for work in task.works
        for launch in work.launches
    }
    assert "reduce_pairs" in names
