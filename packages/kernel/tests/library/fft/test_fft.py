"""Are Fourier transforms what the reference says, for lengths of every kind?"""

import numpy as np
import pytest

from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.library.fft import lowering, modes_fuser
from calor_kernel.runtime.backend import KernelBackend

from ..ops import run_op

# Short ones, a prime, products of odd factors, one for a convolution, one in two steps.
LENGTHS = [1, 2, 13, 16, 30, 34, 256]
# shapes and axes: few elements inside of the axis, many, none.
SHAPES = [
    ((18, 6), (1,)),
    ((4, 3), (0, 1)),
    ((2, 12, 17), (1,)),
    ((2, 17, 3), (1,)),
    ((2, 3, 4), (2, 0)),
    ((0, 3), (1,)),
]
EPS = {"c64": 1.2e-7, "c128": 2.3e-16}


@pytest.fixture(scope="module", params=["one unit", "many units"])
def backend(request):
    info = {"one unit": ONE_UNIT, "many units": MANY_UNITS}[request.param]
    return KernelBackend("lanes", lambda index: LanesDevice(info))


def expected(x, shape, axes, kind):
    if kind == "forward":
        return np.fft.fftn(x, axes=axes)
    if kind == "inverse":
        return np.fft.ifftn(x, axes=axes, norm="forward")
    if kind == "r2c":
        return np.fft.rfftn(x, axes=axes)
    return np.fft.irfftn(x, [shape[a] for a in axes], axes, norm="forward")


def check(backend, shape, axes, kind, precision):
    rng = np.random.default_rng(5)
    real, whole = {"c64": ("f4", "c8"), "c128": ("f8", "c16")}[precision]
    length = shape[axes[-1]]
    given = list(shape)
    if kind == "c2r":
        given[axes[-1]] = length // 2 + 1
    if kind == "r2c":
        x = rng.standard_normal(given).astype(real)
    else:
        x = (rng.standard_normal(given) + 1j * rng.standard_normal(given)).astype(whole)
    attributes = {"kind": kind, "axes": axes, "length": length}
    (found,), _ = run_op(backend, "fft", [x], attributes)
    wide = x.astype(np.float64 if kind == "r2c" else np.complex128)
    wanted = expected(wide, shape, axes, kind)
    assert found.shape == wanted.shape
    if wanted.size:
        error = np.sqrt((np.abs(found - wanted) ** 2).mean() / (np.abs(wanted) ** 2).mean())
        count = np.prod([shape[a] for a in axes])
        assert error <= EPS[precision] * max(2, np.log2(count))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("kind", ["forward", "inverse", "r2c", "c2r"])
def test_lengths(backend, length, kind):
    check(backend, (2, length), (1,), kind, "c64")


@pytest.mark.parametrize("info", [ONE_UNIT, MANY_UNITS], ids=["one unit", "many units"])
@pytest.mark.parametrize("shape", [(2, 34, 1), (2, 17, 3)], ids=str)
@pytest.mark.parametrize("kind", ["forward", "inverse", "r2c", "c2r"])
def test_large_primes_are_convolutions_where_no_product_is_sooner(monkeypatch, info, shape, kind):
    monkeypatch.setattr(modes_fuser, "_pays", lambda *given: False)
    alone = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(alone, shape, (1,), kind, "c64")


@pytest.mark.parametrize(("shape", "axes"), SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["forward", "inverse", "r2c", "c2r"])
def test_shapes(backend, shape, axes, kind):
    check(backend, shape, axes, kind, "c64")


@pytest.mark.parametrize(
    ("shape", "axes"), [((300, 12), (1,)), ((3, 40, 21), (1,)), ((2, 96), (1,))], ids=str
)
@pytest.mark.parametrize("kind", ["forward", "c2r"])
def test_steps_exchange_in_shared_memory(monkeypatch, shape, axes, kind):
    found = []
    made = lowering.transform_by_lines
    monkeypatch.setattr(
        lowering, "transform_by_lines", lambda *given: found.append(made(*given)) or found[-1]
    )
    check(KernelBackend("lanes", lambda index: LanesDevice(MANY_UNITS)), shape, axes, kind, "c64")
    assert found
    assert all(found)


@pytest.mark.parametrize("length", [60, 97])
@pytest.mark.parametrize("kind", ["forward", "r2c", "c2r"])
def test_double(backend, length, kind):
    check(backend, (3, length), (1,), kind, "c128")
