"""Are Fourier transforms what the reference says, for lengths of every kind?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
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


INFOS = {"one unit": ONE_UNIT, "many units": MANY_UNITS}


@pytest.fixture(scope="module", params=INFOS)
def backend(request):
    return KernelBackend("lanes", lambda index: LanesDevice(INFOS[request.param]))


@pytest.fixture(params=INFOS)
def without_products(request, monkeypatch):
    """Return a backend that knows no plan with a product, and makes none."""
    monkeypatch.setattr(modes_fuser, "_pays", lambda *given: False)
    return KernelBackend("lanes", lambda index: LanesDevice(INFOS[request.param]))


@pytest.fixture(params=INFOS)
def with_products(request, monkeypatch):
    """Return a backend that makes a product of each transform along one axis."""
    monkeypatch.setattr(modes_fuser, "_pays", lambda *given: True)
    return KernelBackend("lanes", lambda index: LanesDevice(INFOS[request.param]))


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


@pytest.mark.parametrize("shape", [(2, 34, 1), (2, 17, 3)], ids=str)
@pytest.mark.parametrize("kind", ["forward", "inverse", "r2c", "c2r"])
def test_large_primes_are_convolutions_where_no_product_is_sooner(without_products, shape, kind):
    check(without_products, shape, (1,), kind, "c64")


@pytest.mark.parametrize("shape", [(3, 1), (3, 2), (3, 40), (2, 1, 5), (2, 40, 5)], ids=str)
@pytest.mark.parametrize("kind", ["forward", "inverse", "r2c", "c2r"])
def test_products_in_place_of_transforms(with_products, shape, kind):
    check(with_products, shape, (1,), kind, "c64")


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


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((3, 512), (1,)), ((2, 480), (1,)), ((2, 384, 5), (1,)), ((1, 525), (1,))],
    ids=str,
)
@pytest.mark.parametrize("kind", ["forward", "inverse", "r2c", "c2r"])
def test_lines_beyond_shared_memory_are_two_launches(monkeypatch, shape, axes, kind):
    # Cubes hold four lines of 24 elements, and no line of 384.
    info = replace(MANY_UNITS, shared_bytes=4 * 4 * 4 * 33, core_shared_bytes=8 * 4 * 4 * 33)
    found = []
    made = lowering.transform_by_parts
    monkeypatch.setattr(
        lowering, "transform_by_parts", lambda *given: found.append(made(*given)) or found[-1]
    )
    check(KernelBackend("lanes", lambda index: LanesDevice(info)), shape, axes, kind, "c64")
    assert found
    assert all(found)


@pytest.mark.parametrize("length", [60, 97])
@pytest.mark.parametrize("kind", ["forward", "r2c", "c2r"])
def test_double(backend, length, kind):
    check(backend, (3, length), (1,), kind, "c128")


@pytest.mark.parametrize(
    ("shape", "axis"), [((18, 16), 1), ((18, 15), 1), ((2, 12, 19), 1), ((30, 9, 2), 1)], ids=str
)
@pytest.mark.parametrize("kind", ["r2c", "c2r"])
def test_transforms_of_a_batch_do_not_see_each_other(without_products, shape, axis, kind):
    rng = np.random.default_rng(6)
    given = [n // 2 + 1 if kind == "c2r" and a == axis else n for a, n in enumerate(shape)]
    x = rng.standard_normal(given) + (1j * rng.standard_normal(given) if kind == "c2r" else 0)
    # Lines of all sizes beside each other, one of them without a number.
    lines = [1 if a == axis else n for a, n in enumerate(shape)]
    x = (x * 10.0 ** rng.integers(-9, 10, lines)).astype("c8" if kind == "c2r" else "f4")
    broken = tuple(n - 1 for n in shape[:axis]), tuple(0 for _ in shape[axis + 1 :])
    x[(*broken[0], 1, *broken[1])] = np.nan
    attributes = {"kind": kind, "axes": (axis,), "length": shape[axis]}
    (found,), _ = run_op(without_products, "fft", [x], attributes)
    wide = x.astype(np.complex128 if kind == "c2r" else np.float64)
    wanted = expected(wide, shape, (axis,), kind)
    lost = np.zeros(found.shape, bool)
    lost[(*broken[0], slice(None), *broken[1])] = True
    assert np.isnan(found[lost]).any()
    found, wanted = (np.where(lost, 0, a) for a in (found, wanted))
    error = np.abs(found - wanted).max(axis) / np.maximum(np.abs(wanted).max(axis), 1e-30)
    assert error.max() <= 6 * EPS["c64"]


LONE = pytest.mark.parametrize(
    "shape",
    [(2, 1), (2, 2), (2, 16), (2, 15), (17, 16), (2, 1, 3), (2, 2, 3), (2, 8, 3), (2, 9, 3)],
    ids=str,
)


@LONE
def test_bins_that_are_their_own_mirror_image_have_no_imaginary_part(without_products, shape):
    check_lone_bins(without_products, shape)


@LONE
def test_products_read_no_imaginary_part_of_such_bins(with_products, shape):
    check_lone_bins(with_products, shape)


def check_lone_bins(backend, shape):
    rng = np.random.default_rng(7)
    given = (shape[0], shape[1] // 2 + 1, *shape[2:])
    x = (rng.standard_normal(given) + 1j * rng.standard_normal(given)).astype("c8")
    attributes = {"kind": "c2r", "axes": (1,), "length": shape[1]}
    lone = [0, shape[1] // 2] if shape[1] % 2 == 0 else [0]
    x.imag[:, lone] = 0.0
    (wanted,), _ = run_op(backend, "fft", [x], attributes)
    for value in (1e30, np.nan, np.inf):
        x.imag[:, lone] = value
        (found,), _ = run_op(backend, "fft", [x], attributes)
        np.testing.assert_array_equal(found, wanted)


FORWARD = pytest.mark.parametrize(
    "shape",
    [
        (2, 1),
        (2, 2),
        (2, 7),
        (2, 16),
        (19, 30),
        (2, 34),
        (2, 512),
        (2, 1, 3),
        (2, 9, 3),
        (2, 8, 17),
    ],
    ids=str,
)


@FORWARD
def test_such_bins_of_what_is_not_finite_are_real(without_products, shape):
    check_real_bins(without_products, shape)


@FORWARD
def test_products_make_such_bins_real(with_products, shape):
    check_real_bins(with_products, shape)


def check_real_bins(backend, shape):
    rng = np.random.default_rng(9)
    wide = rng.standard_normal(shape).astype("f4")
    places = [(0, 0), (1, shape[1] - 1), (1, shape[1] // 2)]
    lone = [0, shape[1] // 2] if shape[1] % 2 == 0 else [0]
    for value in (np.nan, np.inf, -np.inf):
        x = wide.copy()
        for row, element in places:
            x[row, element] = value
        (found,), _ = run_op(backend, "fft", [x], {"kind": "r2c", "axes": (1,), "length": shape[1]})
        assert (found.imag[:, lone] == 0).all()
        assert not np.isfinite(found.real[:, lone]).all()


@pytest.mark.parametrize("inner", [(), (3,)], ids=str)
@pytest.mark.parametrize(("low", "count"), [(0, 1), (0, 3), (2, 3), (6, 3)])
@pytest.mark.parametrize("length", [15, 16])
def test_few_modes_of_what_is_not_finite(with_products, inner, low, count, length):
    """Bins that a slice takes are known by their place in the transform."""
    x = np.random.default_rng(10).standard_normal((2, length, *inner)).astype("f4")
    x[0, 1] = np.nan
    bins = range(length // 2 + 1)[low : low + count]

    def run(x):
        return calor.fft.rfft(x, axis=1)[:, low : low + count] * 0.5

    with calor.device("numpy"):
        graph = calor.trace(run, calor.asarray(x))
    executable = with_products.compile(0, graph)
    assert modes_fuser.MODES in [task.op for task in executable.draft.tasks]
    (made,) = executable([with_products.upload(0, x)])
    found = with_products.download(0, made, graph.output_specs[0])
    wanted = np.fft.rfft(x, axis=1)[:, low : low + count] * 0.5
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-5, atol=1e-6)
    lone = [i for i, k in enumerate(bins) if k == 0 or 2 * k == length]
    assert (found.imag[:, lone] == 0).all()
    assert np.isnan(found.real[0]).all()


@pytest.mark.parametrize("inner", [(), (3,)], ids=str)
@pytest.mark.parametrize(("low", "count"), [(0, 1), (0, 3), (2, 3), (6, 3)])
@pytest.mark.parametrize("length", [15, 16])
def test_few_modes_read_no_imaginary_part_of_such_bins(with_products, inner, low, count, length):
    """Bins that padding puts in place are known by their place in the transform."""
    bins = length // 2 + 1
    count = min(count, bins - low)
    rng = np.random.default_rng(8)
    x = rng.standard_normal((2, count, *inner)) + 1j * rng.standard_normal((2, count, *inner))
    place = range(low, low + count)
    x.imag[:, [i for i, k in enumerate(place) if k == 0 or 2 * k == length]] = np.nan
    x = x.astype("c8")
    around = [(0, 0), (low, bins - low - count), *[(0, 0)] * len(inner)]

    def run(x):
        return calor.fft.irfft(calor.pad(x, around), n=length, axis=1)

    with calor.device("numpy"):
        graph = calor.trace(run, calor.asarray(x))
    executable = with_products.compile(0, graph)
    assert modes_fuser.MODES in [task.op for task in executable.draft.tasks]
    (made,) = executable([with_products.upload(0, x)])
    found = with_products.download(0, made, graph.output_specs[0])
    wanted = np.fft.irfft(np.pad(x, around), length, axis=1)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
