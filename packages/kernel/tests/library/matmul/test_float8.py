"""Are products of float8 what the reference says, of bytes where that is allowed and of halves?"""

import ml_dtypes
import numpy as np
import pytest

from calor.dtypes import as_dtype
from calor_cuda.kernels.matmul import ways as tma_ways
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.library.matmul import float8
from calor_kernel.runtime.backend import KernelBackend

from ..ops import run_op
from .test_units import ALONE

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
INFOS = {"one unit": ONE_UNIT, "many units": MANY_UNITS, "engine": ALONE}
# Shapes of a and b, batch pairs, and the orders in which they lie in memory.
SMALL = ((13, 40), (40, 17), ((), ()), (None, (1, 0)))
ROWS = [
    ((72, 48), (48, 104), ((), ()), (None, (1, 0))),
    ((72, 48), (48, 104), ((), ()), (None, None)),
    ((2, 72, 144), (2, 144, 64), ((0,), (0,)), (None, (0, 2, 1))),
]


@pytest.fixture(scope="module", params=INFOS)
def backend(request):
    return KernelBackend("lanes", lambda index: LanesDevice(INFOS[request.param]))


@pytest.fixture
def engine():
    """A device that has been asked nothing, since it remembers what it was told."""
    return KernelBackend("lanes", lambda index: LanesDevice(ALONE))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(tma_ways, "_BOXES", {(64, 64, 2, 2): 1.0})
    monkeypatch.setattr(tma_ways, "_WORTH", 1)


def check(backend, row, types, result, **more):
    a, b, batch, axes = row
    rng = np.random.default_rng(7)
    given = []
    for shape, dtype, order in zip((a, b), types, axes, strict=True):
        x = rng.normal(size=shape).astype(np.float32).astype(dtype)
        given.append(np.ascontiguousarray(x.transpose(np.argsort(order))) if order else x)
    contract = ((len(a) - 1,), (len(b) - 2,))
    attributes = {"contract": contract, "batch": batch, "dtype": as_dtype(result), **more}
    (found,), (wanted,) = run_op(backend, "dot_general", given, attributes, axes)
    assert found.dtype == wanted.dtype
    near = np.abs(found.astype(np.float64) - wanted.astype(np.float64)).max(initial=0)
    digits = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 8e-3, "float16": 1e-3}[result]
    assert near <= digits * np.abs(wanted.astype(np.float64)).max()


@pytest.mark.parametrize(
    ("types", "result"),
    [((E4M3, E5M2), "float32"), ((E5M2, E5M2), "bfloat16"), ((E4M3, E4M3), "float64")],
    ids=str,
)
def test_every_device_has_them(backend, types, result):
    check(backend, SMALL, types, result)


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize(
    ("types", "result"), [((E4M3, E4M3), "float32"), ((E5M2, E4M3), "bfloat16")], ids=str
)
@pytest.mark.parametrize("precision", ["highest", "high"])
def test_bytes_are_factors_where_fewer_bits_are_allowed(
    engine, monkeypatch, row, types, result, precision
):
    seen = []

    def lowered(*given, made=float8.lower_float8):
        works = made(*given)
        seen.extend(work.variant for work in works)
        return works

    monkeypatch.setattr(float8, "lower_float8", lowered)
    check(engine, row, types, result, precision=precision)
    of_bytes = [name for name in seen if not name.startswith(("float16", "bfloat16"))]
    assert bool(of_bytes) == (precision == "high")
    assert seen
