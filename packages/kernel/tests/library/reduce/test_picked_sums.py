"""Is what a sum picks of a row found a reading earlier, with the same bits?"""

import numpy as np
import pytest

import calor
from calor.dtypes import bfloat16, float32, float64
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.library.reduce import RowFuser, row_fuser
from calor_kernel.library.reduce.program import Schedule
from calor_kernel.runtime.backend import KernelBackend


def _positions(x, axis):
    """Return the positions along an axis, too many for a constant, and as x is laid out."""
    every = calor.ops.sources.iota(length=x.shape[axis], dtype=calor.int32)
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    return every, every.reshape(shape)


def loss(x, target, axis=1):
    """The loss of a class of each row."""
    every, along = _positions(x, axis)
    place = calor.equal(along, calor.expand_dims(calor.take(every, target, axis=0), axis))
    logs = calor.log_softmax(x.astype(float32) if x.dtype is bfloat16 else x, axis=axis)
    return -calor.sum(calor.where(place, logs, calor.zeros_like(logs)), axis=axis)


def doubled(x, target):
    """Positions of which rows have two of each."""
    every = calor.ops.sources.iota(length=x.shape[1] // 2, dtype=calor.int32)
    place = calor.equal(
        calor.concat([every, every]), calor.expand_dims(calor.take(every, target, axis=0), 1)
    )
    logs = calor.log_softmax(x, axis=1)
    return calor.sum(calor.where(place, logs, calor.zeros_like(logs)), axis=1)


def offset(x, target):
    """What is added at other places."""
    every, along = _positions(x, 1)
    place = calor.equal(along, calor.expand_dims(calor.take(every, target, axis=0), 1))
    logs = calor.log_softmax(x, axis=1)
    return calor.sum(calor.where(place, logs, calor.zeros_like(logs) + 1), axis=1)


def run(function, arrays, info, monkeypatch, apart=False):
    """Return a result and the readings of its longest program."""
    with calor.device("numpy"):
        graph = calor.trace(function, *map(calor.asarray, arrays))
    counts = []
    with monkeypatch.context() as patched:
        if apart:
            patched.setattr(row_fuser._Writer, "_picking", lambda *given: None)
        kept = row_fuser._with_kept

        def noted(program):
            counts.append(Schedule(program).count)
            return kept(program)

        patched.setattr(row_fuser, "_with_kept", noted)
        fusers = RowFuser(), ElementwiseFuser()
        backend = KernelBackend("lanes", lambda i: LanesDevice(info), fusers=fusers)
        made = backend.compile(0, graph)
        buffers = made([backend.upload(0, np.ascontiguousarray(a)) for a in arrays])
    found = backend.download(0, buffers[0], graph.output_specs[0])
    return np.array(found), max(counts)


def _logits(rows, classes, dtype):
    x = np.random.default_rng(classes).normal(size=(rows, classes)) * 9
    # Rows with infinities and NaN beside what is picked, and at it.
    x[1, 3], x[2, 5], x[3, 7] = np.inf, np.nan, -np.inf
    return x.astype(dtype.numpy)


TARGET = np.array([0, 5, 5, 7, 299], np.int64)


@pytest.mark.parametrize("info", [MANY_UNITS, ONE_UNIT], ids=["units", "one"])
@pytest.mark.parametrize("dtype", [float32, float64, bfloat16], ids=str)
def test_one_reading_less(dtype, info, monkeypatch):
    arrays = [_logits(5, 300, dtype), TARGET]
    found, count = run(loss, arrays, info, monkeypatch)
    apart, others = run(loss, arrays, info, monkeypatch, apart=True)
    assert found.tobytes() == apart.tobytes()
    assert (count, others) == (2, 3)
    assert np.isfinite(found[[0, 4]]).all()
    # The maximum of a row ignores NaN; the sum of its exponentials does not.
    assert not np.isfinite(found[1:4]).any()


@pytest.mark.parametrize("function", [doubled, offset])
def test_other_sums_stay(function, monkeypatch):
    arrays = [_logits(5, 300, float32), TARGET % 150]
    found, count = run(function, arrays, MANY_UNITS, monkeypatch)
    apart, _ = run(function, arrays, MANY_UNITS, monkeypatch, apart=True)
    assert found.tobytes() == apart.tobytes()
    assert count == 3
