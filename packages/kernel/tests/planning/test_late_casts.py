"""Are casts part of the launches that read them, with the same bits?"""

import numpy as np
import pytest

import calor
from calor.dtypes import bfloat16, float16, float32
from calor.ops.base import table
from calor.ops.composites import like, wide
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.library.reduce import RowFuser
from calor_kernel.planning import compiling
from calor_kernel.planning.late_casts import casts_behind
from calor_kernel.runtime.backend import KernelBackend


def _norm(x, w, b):
    made = table()["standardize"](wide(x), axes=(x.ndim - 1,), eps=1e-5)[0]
    return like(made * w.reshape(1, -1) + b, x)


def _biased(x, w, b):
    return calor.tanh(x.astype("float32") * w + b.reshape(1, 1, -1))


def _read_twice(x, w, b):
    y = x * 2
    return wide(y).sum(axis=0), wide(y).sum(axis=1) * 3, (wide(y) * w).astype(x.dtype)


def _given(x, w, b):
    """Casts that are results, or read in their own size, stay."""
    return w.astype("float32"), x + w.astype("float32").astype(x.dtype)


def _gathered(x, w, b):
    """Rows are half as long before they are converted."""
    rows = wide(x).reshape(-1, x.shape[-1])
    at = calor.astype(b[:3] > 0, calor.int64) * (rows.shape[0] - 1)
    return (calor.take(rows, at, axis=0) * 0.25 + calor.take(rows, at // 2, axis=0) * w) * 2


CASES = {
    "norm": _norm, "biased": _biased, "read twice": _read_twice, "given": _given,
    "gathered": _gathered,
}  # fmt: skip
MOST = {"norm": 1, "biased": 1, "read twice": 3, "given": 2, "gathered": 4}


def _run(graph, arrays):
    fusers = RowFuser(), ElementwiseFuser()
    backend = KernelBackend("lanes", lambda i: LanesDevice(MANY_UNITS), fusers=fusers)
    executable = backend.compile(0, graph)
    made = executable([backend.upload(0, np.ascontiguousarray(a)) for a in arrays])
    specs = graph.output_specs
    found = [np.array(backend.download(0, b, s)) for b, s in zip(made, specs, strict=True)]
    return found, executable


@pytest.mark.parametrize("dtype", [bfloat16, float16], ids=str)
@pytest.mark.parametrize("shape", [(3, 5, 8), (1, 1, 8)], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_casts_are_no_launches_of_their_own(case, shape, dtype, monkeypatch):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(dtype.numpy) for s in (shape, (8,), (8,))]
    with calor.device("numpy"):
        given = (calor.zeros(a.shape, dtype=dtype) for a in arrays)
        graph = calor.trace(CASES[case], *given)
    found, executable = _run(graph, arrays)
    assert len(executable.draft.tasks) <= MOST[case]
    monkeypatch.setattr(compiling, "casts_behind", lambda graph: graph)
    for a, b in zip(found, _run(graph, arrays)[0], strict=True):
        np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))


def test_a_graph_without_casts_is_returned_as_it_is():
    with calor.device("numpy"):
        graph = calor.trace(lambda x: calor.tanh(x) + 1, calor.zeros(3, dtype=float32))
    assert casts_behind(graph) is graph
