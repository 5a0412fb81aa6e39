"""Are reductions of axes between others two launches where the last of them is short, and right?"""

import ml_dtypes
import numpy as np
import pytest

from calor.dtypes import as_dtype
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.library.reduce import lowering
from calor_kernel.runtime.backend import KernelBackend

from ..ops import run_op
from .test_sums_of_terms import way_of

ROWS = [((3, 5, 2), (0, 2)), ((2, 3, 4, 5, 2), (2, 4)), ((3, 2, 4, 2, 1, 3), (1, 3, 4, 5))]


@pytest.mark.parametrize(("shape", "axes"), ROWS)
@pytest.mark.parametrize("op", ["sum", "max", "min"])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, ml_dtypes.bfloat16])
def test_numbers(monkeypatch, shape, axes, op, dtype):
    monkeypatch.setattr(lowering, "_MANY", 1)
    kind = as_dtype(np.dtype(dtype))
    assert way_of(shape, axes, kind, info=ONE_UNIT, op=op) == "interleaved"
    backend = KernelBackend("lanes", lambda index: LanesDevice(ONE_UNIT))
    x = (np.random.default_rng(0).standard_normal(shape) * 9).astype(dtype)
    more = {"dtype": kind} if op == "sum" else {}
    (found,), (wanted,) = run_op(backend, op, [x], {"axes": axes, **more})
    assert found.dtype == wanted.dtype
    near = 0 if op != "sum" or kind.kind == "int" else 4e-7 if kind.itemsize == 4 else 8e-3
    wide = [a.astype(np.float64) for a in (found, wanted)]
    np.testing.assert_allclose(*wide, near, near * 20)


def test_others_are_one_launch():
    kind, large = as_dtype(np.float32), (40, 64, 2, 64, 2)
    assert way_of(large, (2, 4), kind, info=ONE_UNIT) == "interleaved"
    assert way_of(large, (4,), kind, info=ONE_UNIT) == "row program"
    assert way_of(large, (2,), kind, info=ONE_UNIT) == "row program"
    assert way_of((40, 64, 2, 8, 16), (2, 4), kind, info=ONE_UNIT) == "row program"
    assert way_of((2, 6, 2, 4, 2), (2, 4), kind, info=ONE_UNIT) == "row program"
    assert way_of(large, (2, 4), kind, info=ONE_UNIT, op="prod") == "row program"
    assert way_of(large, (2, 4), kind, info=MANY_UNITS) == "terms"
