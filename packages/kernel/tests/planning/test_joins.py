"""Are joins of reshaped values those of the values themselves, without copies before them?"""

import numpy as np
import pytest

import calor
from calor.dtypes import bfloat16, float32
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.planning.joins import joining
from calor_kernel.runtime.backend import KernelBackend

HEADS = (2, 3, 5, 4)


def _merged(x):
    """Return values by heads (N, H, T, D) as lines (N, T, H·D)."""
    n, heads, length, width = x.shape
    return x.swapaxes(1, 2).reshape(n, length, heads * width)


def _packed(q, k, v):
    return calor.concat([_merged(x) for x in (q, k, v)], axis=-1)


def _rows(q, k, v):
    """Merged along the first axes, and joined there."""
    return calor.concat([x.swapaxes(0, 1).reshape(-1, *x.shape[2:]) for x in (q, k, v)], axis=0)


CASES = {
    "heads": (_packed, [HEADS] * 3),
    "fewer keys": (_packed, [HEADS, (2, 1, 5, 4), (2, 1, 5, 4)]),
    "one head": (_packed, [(2, 1, 5, 4)] * 3),
    "rows": (_rows, [HEADS] * 3),
}


def _run(function, shapes, dtype, info):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype(dtype.numpy) for shape in shapes]
    with calor.device("numpy"):
        tensors = [calor.asarray(a) for a in arrays]
        graph = calor.trace(function, *tensors)
        expected = function(*tensors).numpy()
    backend = KernelBackend("lanes", lambda i: LanesDevice(info))
    plan = backend.compile(0, graph)
    (made,) = plan([backend.upload(0, np.ascontiguousarray(a)) for a in arrays])
    return np.array(backend.download(0, made, graph.output_specs[0])), expected, plan


@pytest.mark.parametrize("info", [MANY_UNITS, ONE_UNIT], ids=["many units", "one unit"])
@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_nothing_is_copied_before_a_join(case, dtype, info):
    found, expected, plan = _run(*CASES[case], dtype, info)
    np.testing.assert_array_equal(found, expected)
    assert [task.op for task in plan.draft.tasks if task.op == "concat"] == ["concat"]
    # The join reads the values; its reshaped result is the graph's, which is dense.
    assert [task.op for task in plan.draft.tasks].count("copy") <= 1


def _twice(q, k, v):
    lines = _merged(q)
    return calor.concat([lines, _merged(k)], axis=-1), lines


def _other_widths(q, k, v):
    return calor.concat([_merged(q), _merged(k[..., :2])], axis=-1)


def _other_axis(q, k, v):
    return calor.concat([_merged(q), _merged(k)], axis=0)


def _views(q, k, v):
    return calor.concat([x.reshape(2, 15, 4) for x in (q, k, v)], axis=1)


@pytest.mark.parametrize("function", [_twice, _other_widths, _other_axis, _views])
def test_other_joins_are_left(function):
    with calor.device("numpy"):
        graph = calor.trace(function, *(calor.zeros(HEADS) for _ in range(3)))
    assert joining(graph) is graph
