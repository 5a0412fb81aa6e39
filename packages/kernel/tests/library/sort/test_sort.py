"""Are elements in the reference's order, and equal ones in their own?"""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.library.sort import lowering, radix_launch
from calor_kernel.runtime.backend import KernelBackend

from ..ops import run_op

TYPES = [
    np.float32,
    np.float64,
    np.float16,
    ml_dtypes.bfloat16,
    np.int8,
    np.int16,
    np.int64,
    np.uint8,
    np.uint32,
    np.uint64,
    np.bool_,
    np.complex64,
    np.complex128,
]


@pytest.fixture(scope="module", params=["one unit", "many units"])
def backend(request):
    info = {"one unit": ONE_UNIT, "many units": MANY_UNITS}[request.param]
    return KernelBackend("lanes", lambda index: LanesDevice(info))


def elements(shape, dtype, seed=0):
    """Return numbers with many equal ones, and with all special ones where there are any."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        x = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
        return np.where(rng.random(shape) < 0.5, rng.integers(0, 9, shape), x).astype(dtype)
    special = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.0, -1.0])
    if dtype.kind == "c":
        parts = [elements(shape, f"f{dtype.itemsize // 2}", s) for s in (seed + 1, seed + 2)]
        return _joined(*parts, dtype)
    x = (rng.standard_normal(shape) * 10.0 ** rng.integers(-8, 5, shape)).astype(dtype)
    return np.where(rng.random(shape) < 0.4, rng.choice(special, shape).astype(dtype), x)


def _joined(real, imaginary, dtype):
    made = np.empty(real.shape, dtype)
    made.real, made.imag = real, imaginary
    return made


def check(backend, x, axis, descending):
    attributes = {"axis": axis, "descending": descending}
    found, wanted = run_op(backend, "sort", [x], attributes)
    np.testing.assert_array_equal(found[1], wanted[1])
    assert found[1].dtype == np.int64
    assert found[0].dtype == x.dtype
    taken = np.take_along_axis(x, wanted[1], axis)
    assert found[0].tobytes() == np.ascontiguousarray(taken).tobytes()


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_types(backend, monkeypatch, dtype, descending):
    x = elements((2, 37, 3), dtype)
    check(backend, x, 1, descending)
    monkeypatch.setattr(lowering, "_SHORT", 8)
    monkeypatch.setattr(lowering, "_BLOCK", 16)
    check(backend, x, 1, descending)
    check(backend, np.ascontiguousarray(x[:, :, 0]), 1, descending)
    check(backend, x, 0, descending)


@pytest.mark.parametrize("n", [1, 16, 191, 193, 3000])
def test_lengths(backend, n):
    check(backend, elements((n,), np.int16), 0, False)
    check(backend, elements((n,), np.float32), 0, True)


def test_nothing(backend):
    check(backend, np.zeros((3, 0), np.float32), 1, False)
    check(backend, np.zeros((0, 3), np.float32), 1, True)


WAYS = {
    "looking back": MANY_UNITS,
    "planes of 64": replace(MANY_UNITS, planes=(64,)),
    "in parts": replace(MANY_UNITS, features=MANY_UNITS.features - {"forward_progress"}),
    "without planes": replace(
        MANY_UNITS, features=MANY_UNITS.features - {"planes", "forward_progress"}, planes=(1,)
    ),
}


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("info", WAYS.values(), ids=WAYS)
def test_rows_of_many_tiles(monkeypatch, info, descending):
    monkeypatch.setattr(radix_launch, "_ITEMS", 2)
    monkeypatch.setattr(radix_launch, "_UNITS", 64)
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    for dtype in (np.float32, np.int16, np.bool_, np.uint8, ml_dtypes.bfloat16):
        check(backend, elements((2, 401), dtype), 1, descending)
    check(backend, elements((1, 600), np.float64), 1, descending)
    check(backend, elements((300, 3), np.int32), 0, descending)


@pytest.mark.parametrize("n", [33, 64, 65, 500, 1024, 1500])
def test_rows_of_a_cube(n):
    backend = KernelBackend("lanes", lambda index: LanesDevice(MANY_UNITS))
    check(backend, elements((3, n), np.float32), 1, False)
    check(backend, np.zeros((2, n), np.int8), 1, True)
