"""Are sums of few adjacent terms added elementwise, and right?"""

from dataclasses import replace

import numpy as np
import pytest

from calor.dtypes import as_dtype, bfloat16
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.contract.work import Request, View
from calor_kernel.library.reduce import lowering
from calor_kernel.runtime.backend import KernelBackend

from ..ops import run_op

ROWS = [((3, 5, 2), (2,)), ((2, 3, 4, 2, 5, 2), (3, 5)), ((7, 4), (1,)), ((2, 5, 1, 2, 1), (3, 4))]


def way_of(shape, axes, dtype, view=None, info=MANY_UNITS, op="sum"):
    kept = tuple(n for a, n in enumerate(shape) if a not in axes)
    given = View.dense(spec(shape, dtype)) if view is None else view
    request = Request(op, {"axes": axes}, (given,), (spec(kept, dtype),), info)
    return lowering.lower_reduction(request)[0].way.name


@pytest.mark.parametrize(("shape", "axes"), ROWS)
@pytest.mark.parametrize("dtype", [np.float32, np.int8, bfloat16.numpy])
def test_sums(monkeypatch, shape, axes, dtype):
    monkeypatch.setattr(lowering, "_MANY", 1)
    kind = as_dtype(np.dtype(dtype))
    assert way_of(shape, axes, kind) == "terms"
    backend = KernelBackend("lanes", lambda index: LanesDevice(MANY_UNITS))
    x = (np.random.default_rng(0).standard_normal(shape) * 9).astype(dtype)
    (found,), (wanted,) = run_op(backend, "sum", [x], {"axes": axes, "dtype": kind})
    near = 0 if kind.kind == "int" else 4e-7 if kind.itemsize == 4 else 8e-3
    wide = [a.astype(np.float64) for a in (found, wanted)]
    np.testing.assert_allclose(*wide, near, near * 20)


def test_other_sums_are_row_programs():
    kind = as_dtype(np.float32)
    large, axes = (300, 128, 2), (2,)
    assert way_of(large, axes, kind) == "terms"
    assert way_of((30, 128, 2), axes, kind) == "row program"
    assert way_of((300, 128, 5), axes, kind) == "row program"
    assert way_of((2, 300, 128), (0,), kind) == "row program"
    assert way_of(large, axes, kind, op="max") == "row program"
    assert way_of(large, axes, kind, info=ONE_UNIT) == "row program"
    apart = replace(View.dense(spec(large, kind)), strides=(256, 1, 128))
    assert way_of(large, axes, kind, apart) == "row program"
