"""Are products of broadcast operands computed once, with the bits of those that are not?"""

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.dtypes import bfloat16, complex64, float32, int32
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.library.matmul import lowering
from calor_kernel.runtime.backend import KernelBackend

INFOS = {"one unit": ONE_UNIT, "many units": MANY_UNITS}


def row(x):
    return calor.broadcast_to(x[:1], x.shape)


def number(x):
    return calor.broadcast_to(x[:1, :1], x.shape)


def column(x):
    return calor.broadcast_to(x[:, :1], x.shape)


# What is multiplied, and whether its result repeats.
ROWS = {
    "rows": (lambda x, y: row(x) @ y, True),
    "columns": (lambda x, y: x @ column(y), True),
    "both": (lambda x, y: number(x) @ number(y), True),
    "the summed axis": (lambda x, y: column(x) @ y, False),
    "transposed": (lambda x, y: number(y).T @ x.T, True),
    "products": (
        lambda x, y: calor.broadcast_to(x, (3, *x.shape)) @ calor.broadcast_to(y, (3, *y.shape)),
        True,
    ),
}


@pytest.fixture(params=INFOS)
def backend(request):
    return KernelBackend("lanes", lambda index: LanesDevice(INFOS[request.param]))


@pytest.fixture
def once(monkeypatch):
    found = []

    def made(*given, made=lowering.ranked_once):
        found.append(made(*given))
        return found[-1]

    monkeypatch.setattr(lowering, "ranked_once", made)
    return found


@pytest.mark.parametrize("dtype", [float32, bfloat16, int32, complex64], ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_broadcast_operands(backend, once, name, dtype):
    function, repeats = ROWS[name]
    rng = np.random.default_rng(3)
    x, y = (np.round(8 * rng.standard_normal(s)) for s in ((21, 34), (34, 27)))
    with calor.device(device_of(backend, 0)):
        a, b = (calor.asarray(v.astype(np.float32)).astype(dtype) for v in (x, y))
        found = calor.jit(function)(a, b)
        assert found.dtype is dtype
        found = found.astype(complex64 if dtype is complex64 else float32).numpy()
    with calor.device("numpy"):
        wanted = function(calor.asarray(x), calor.asarray(y)).numpy()
    digits = 2e-2 if dtype is bfloat16 else 1e-5
    assert np.abs(found - wanted).max() <= digits * np.abs(wanted).max()
    # Complex products become real ones of other axes first.
    assert bool(once) is repeats or dtype is complex64


def test_the_gradient_of_a_sum(backend, once):
    x, y = np.ones((9, 12), np.float32), np.arange(60, dtype=np.float32).reshape(12, 5)
    with calor.device(device_of(backend, 0)):
        gradient = calor.grad(lambda a, b: (a @ b).sum(), argnums=(0, 1))
        of_x, of_y = (g.numpy() for g in gradient(calor.asarray(x), calor.asarray(y)))
    np.testing.assert_array_equal(of_x, np.broadcast_to(y.sum(1), x.shape))
    np.testing.assert_array_equal(of_y, np.full(y.shape, 9))
    assert len(once) == 2
