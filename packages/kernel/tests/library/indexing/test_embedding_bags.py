"""Are sums of gathered rows what the ops one by one make, without the rows in memory?"""

from random import Random

import numpy as np
import pytest

import calor
from calor.dtypes import bfloat16, float16, float32, float64
from calor.errors import ElementIndexError
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.runtime.backend import KernelBackend

TYPES = {t.name: t for t in (bfloat16, float16, float32, float64)}
TOLERANCE = {2: 2e-2, 4: 1e-5, 8: 1e-12}


def run(info, function, arrays):
    backend = KernelBackend("lanes", lambda _: LanesDevice(info), fusers=())
    with calor.device("numpy"):
        graph = calor.trace(function, *map(calor.asarray, arrays))
        wanted = function(*map(calor.asarray, arrays))
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        wanted = [x.numpy() for x in wanted]
    executable = backend.compile(0, graph)
    made = executable([backend.upload(0, np.ascontiguousarray(a)) for a in arrays])
    labels = [one.launch.label for few in executable.base.recording.launches for one in few]
    pairs = zip(made, graph.output_specs, strict=True)
    return [np.array(backend.download(0, b, s)) for b, s in pairs], wanted, labels


def drawn(seed):
    """Return a table, indices, factors, and what sums of rows are made of."""
    random, rng = Random(seed), np.random.default_rng(seed)
    dtype = TYPES[random.choice(list(TYPES))]
    length = random.choice([(2,), (3,), (8,), (10,), (37,), (150,), (2, 5)])
    shape = random.choice([(4,), (5, 3), (2, 3, 2), (1, 9)])
    table = rng.standard_normal((11, *length)).astype(dtype.numpy)
    indices = rng.integers(-11, 11, shape, np.int64 if random.random() < 0.5 else np.int32)
    factors = rng.standard_normal(shape).astype(dtype.numpy)
    wide = random.random() < 0.5 and dtype.itemsize == 2
    fold = random.choice(["sum", "max"])
    weighted = random.random() < 0.5

    def function(table, indices, factors):
        rows = calor.take(table, indices, axis=0)
        if wide:
            rows, factors = rows.astype(float32), factors.astype(float32)
        if weighted:
            rows = rows * factors.reshape(*shape, *(1 for _ in length))
        return getattr(calor, fold)(rows, axis=len(shape) - 1)

    return function, [table, indices, factors], dtype


@pytest.mark.parametrize("seed", range(24))
def test_rows_are_combined_as_they_are_read(seed):
    function, arrays, dtype = drawn(seed)
    (found,), (wanted,), labels = run(ONE_UNIT, function, arrays)
    assert labels == ["embedding bags"]
    assert found.dtype == wanted.dtype
    wide = wanted.astype(np.float64)
    scale = max(1.0, np.abs(wide).max())
    assert np.abs(found.astype(np.float64) - wide).max() <= TOLERANCE[dtype.itemsize] * scale


def summed(table, indices, factors):
    return calor.sum(calor.take(table, indices, axis=0), axis=1)


def also_read(table, indices, factors):
    rows = calor.take(table, indices, axis=0)
    return calor.sum(rows, axis=1), rows * 2


def of_columns(table, indices, factors):
    return calor.sum(calor.take(table, indices, axis=0), axis=2)


def of_varying(table, indices, factors):
    rows = calor.take(table, indices, axis=0)
    return calor.sum(rows * rows, axis=1)


def rounded(table, indices, factors):
    rows = calor.take(table, indices, axis=0).astype(float16)
    return calor.sum(rows.astype(float32), axis=1)


@pytest.mark.parametrize("function", [also_read, of_columns, of_varying, rounded])
def test_other_readers_have_the_rows(function):
    rng = np.random.default_rng(0)
    table, indices = rng.standard_normal((7, 6)).astype(np.float32), rng.integers(0, 7, (4, 3))
    found, wanted, labels = run(ONE_UNIT, function, [table, indices, indices * 1.0])
    assert "embedding bags" not in labels
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_cubes_of_many_units_gather_rows_first():
    table, indices = np.ones((7, 6), np.float32), np.zeros((4, 3), np.int64)
    _, _, labels = run(MANY_UNITS, summed, [table, indices, indices * 1.0])
    assert "embedding bags" not in labels


def test_not_a_number_is_the_greatest():
    table = np.float32([[np.nan, 1], [-np.inf, -np.inf]])
    function = lambda t, i, f: calor.max(calor.take(t, i, axis=0), axis=1)  # noqa: E731
    indices = np.int64([[0, 1], [1, 1]])
    (found,), _, labels = run(ONE_UNIT, function, [table, indices, indices * 1.0])
    assert labels == ["embedding bags"]
    np.testing.assert_array_equal(found, np.float32([[np.nan, 1], [-np.inf, -np.inf]]))


@pytest.mark.parametrize("wrong", [7, -8])
def test_indices_out_of_range_are_errors(wrong):
    table, indices = np.ones((7, 6), np.float32), np.zeros((4, 3), np.int64)
    indices[2, 1] = wrong
    with calor.device("cpu"):
        given = [calor.asarray(a) for a in (table, indices, indices * 1.0)]
        with pytest.raises(ElementIndexError, match=f"index {wrong} is out of range"):
            calor.jit(summed)(*given).numpy()
