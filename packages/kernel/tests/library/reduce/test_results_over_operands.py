"""Do results of long rows that are written over an operand have the same bits?"""

import numpy as np
import pytest

import calor
from calor.dtypes import bfloat16, float32
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.library.reduce import RowFuser, launches
from calor_kernel.runtime.backend import KernelBackend

SHAPES = [(5, 16, 1037), (3, 16, 2048), (70, 16, 33)]


def _probabilities(a, b, c):
    x = a @ b
    x = calor.exp(x - calor.max(x, axis=-1, keepdims=True))
    return (x / calor.sum(x, axis=-1, keepdims=True)) @ c


def _run(arrays):
    with calor.device("numpy"):
        graph = calor.trace(_probabilities, *map(calor.asarray, arrays))
    fusers = RowFuser(), ElementwiseFuser()
    backend = KernelBackend("lanes", lambda i: LanesDevice(MANY_UNITS), fusers=fusers)
    plan = backend.compile(0, graph)
    made = plan([backend.upload(0, array) for array in arrays])
    return np.array(backend.download(0, made[0], graph.output_specs[0])), plan


@pytest.mark.parametrize("held", [False, True], ids=["in memory", "in registers"])
@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_results_over_operands_have_the_same_bits(shape, dtype, held, monkeypatch):
    rng, (m, k, n) = np.random.default_rng(0), shape
    arrays = [rng.normal(size=s).astype(dtype.numpy) for s in ((m, k), (k, n), (n, 3))]
    if not held:
        monkeypatch.setattr(launches, "_LONGEST", 0)
    expected, apart = _run(arrays)
    monkeypatch.setattr(launches, "_CACHED", 1)
    found, plan = _run(arrays)
    np.testing.assert_array_equal(found, expected)
    (over,) = (
        w for t, w in zip(plan.draft.tasks, plan.works, strict=True) if t.op == "row_program"
    )
    assert over.in_place == ((0, 0),)
    assert not any(w.in_place for w in apart.works)
    (launch,) = over.launches
    assert dict(launch.build.keywords)["plan"].late is not held
    assert plan.base.recording.arena < apart.base.recording.arena
