"""Are factors and solutions those of LAPACK, and is nothing read that has no part in them?"""

from dataclasses import replace

import numpy as np
import pytest

import calor.linalg  # noqa: F401
from calor.dtypes import float32, float64
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.contract.work import Request, View
from calor_kernel.library.linalg import cholesky_launch
from calor_kernel.planning import compiling, flows
from calor_kernel.runtime.backend import KernelBackend

from ..ops import run_op

EPS = {"float32": 1.2e-7, "float64": 2.3e-16}


@pytest.fixture(autouse=True)
def not_on_host(monkeypatch):
    """Leave factorizations to kernels, though the host can read the memory of lanes."""
    for module in (compiling, flows):
        monkeypatch.setattr(module, "on_host", lambda *given: False)


def lanes(**changes):
    return KernelBackend("lanes", lambda index: LanesDevice(replace(MANY_UNITS, **changes)))


def one_unit(vector_bytes=32, registers=16):
    info = replace(ONE_UNIT, vector_bytes=vector_bytes, native={"vector_registers": registers})
    return KernelBackend("lanes", lambda index: LanesDevice(info))


@pytest.fixture(scope="module", params=["many units", "one unit"])
def backend(request):
    return lanes() if request.param == "many units" else one_unit()


@pytest.fixture(params=["many units", "one unit"])
def factoring(request):
    return lanes() if request.param == "many units" else one_unit(64, 32)


def random(*shape, dtype="float32"):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def definite(batch, n, dtype):
    x = random(batch, n, n, dtype=dtype)
    return (x @ x.mT / n + 0.5 * np.eye(n)).astype(dtype)


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize(("batch", "n"), [(3, 1), (2, 7), (2, 16), (1, 31), (2, 33), (1, 70)])
def test_cholesky(factoring, batch, n, dtype):
    x = definite(batch, n, dtype)
    # The upper triangle is not read.
    x = np.where(np.tri(n, dtype=bool), x, np.nan).astype(dtype)
    (found,), (wanted,) = run_op(factoring, "cholesky", [x], {})
    assert np.abs(found - wanted).max() <= 4 * n * EPS[dtype]
    assert not np.triu(found, 1).any()


def test_panels_of_cholesky_factors_on_units():
    x = definite(1, 101, "float32")
    (found,), (wanted,) = run_op(one_unit(64, 32), "cholesky", [x], {})
    assert np.abs(found - wanted).max() <= 4 * 101 * EPS["float32"]
    assert not np.triu(found, 1).any()


@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.parametrize(("batch", "n"), [(2, 33), (1, 101), (1, 128)])
def test_cholesky_by_groups_of_columns(monkeypatch, batch, n, copies):
    """An update subtracts what a group of columns does to all behind it, in the lower triangle."""
    monkeypatch.setattr(cholesky_launch, "_GROUP", 32)
    monkeypatch.setattr(cholesky_launch, "_WHOLE", 32)
    x = definite(batch, n, "float32")
    x = np.where(np.tri(n, dtype=bool), x, np.nan).astype("float32")
    features = MANY_UNITS.features - (frozenset() if copies else {"async_copy"})
    (found,), (wanted,) = run_op(lanes(features=features), "cholesky", [x], {})
    assert np.abs(found - wanted).max() <= 4 * n * EPS["float32"]
    assert not np.triu(found, 1).any()


@pytest.mark.parametrize(
    ("n", "dtype", "updates"), [(320, float32, 0), (321, float32, 2), (1000, float32, 7),
    (1000, float64, 0)], ids=str,
)  # fmt: skip
def test_large_matrices_have_an_update_for_each_group_but_the_last(n, dtype, updates):
    known = spec((n, n), dtype)
    request = Request("cholesky", {}, (View.dense(known),), (known,), MANY_UNITS)
    (work,) = cholesky_launch.lower_cholesky(request)
    labels = [launch.label for launch in work.launches]
    assert labels.count("cholesky panel") == -(-n // 32)
    assert labels.count("cholesky update") == updates


@pytest.mark.parametrize("place", [0, 5, 36])
@pytest.mark.parametrize("value", [-1.0, 0.0, np.nan])
def test_cholesky_of_no_definite_matrix_is_nan_from_its_first_bad_pivot_on(backend, place, value):
    x = np.stack([np.eye(40, dtype=np.float32)] * 2) * 4
    x[1, place, place] = value
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np.linalg, "cholesky", lambda x, upper: np.zeros_like(x))
        (found,), _ = run_op(backend, "cholesky", [x], {})
    assert (found[0] == 2 * np.eye(40)).all()
    pivots = np.diagonal(found[1])
    assert (pivots[:place] == 2).all()
    assert np.isnan(pivots[place])


@pytest.mark.parametrize("unit_diagonal", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize(("n", "count"), [(1, 1), (5, 3), (16, 9), (33, 1), (70, 11), (9, 50)])
def test_triangular_systems(backend, n, count, lower, transpose, unit_diagonal):
    a = random(2, n, n) / n + 2 * np.eye(n, dtype=np.float32)
    read = np.tri(n, k=-1 if unit_diagonal else 0, dtype=bool)
    a = np.where(read if lower else read.T, a, np.nan).astype(np.float32)
    options = {"lower": lower, "transpose": transpose, "unit_diagonal": unit_diagonal}
    (found,), (wanted,) = run_op(backend, "triangular_solve", [a, random(2, n, count)], options)
    assert np.abs(found - wanted).max() <= 8 * n * EPS["float32"] * np.abs(wanted).max()


@pytest.mark.parametrize("nbytes", [24 << 10, 16 << 10, 13 << 10])
def test_triangular_systems_have_as_many_columns_as_shared_memory_holds(nbytes):
    a = random(1, 200, 200, dtype="float64") / 200 + np.eye(200)
    options = {"lower": True, "transpose": False, "unit_diagonal": False}
    given = [a, random(1, 200, 8, dtype="float64")]
    (found,), (wanted,) = run_op(lanes(shared_bytes=nbytes), "triangular_solve", given, options)
    assert np.abs(found - wanted).max() <= 1e-12


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("m", "n"), [(1, 1), (5, 5), (9, 3), (3, 9), (40, 33), (70, 70), (70, 20), (20, 70), (101, 98)]
)
def test_lu(factoring, m, n, whole):
    x = random(2, m, n)
    if whole:
        # Equal candidates: the first in the order of earlier exchanges is the pivot.
        x = np.round(x)
    (found, rows), (_, order) = run_op(factoring, "lu", [x], {})
    k = min(m, n)
    low = np.tril(found, -1)[..., :k] + np.eye(m, k)
    product = low @ np.triu(found)[..., :k, :]
    permuted = np.take_along_axis(x, rows[..., None], axis=-2)
    assert np.abs(product - permuted).max() <= 8 * k * EPS["float32"] * np.abs(x).max()
    assert (rows == order).all()


def test_pivots_of_lu_that_are_zero_or_no_numbers(factoring):
    x = random(3, 60, 60)
    x[0, :, 50] = x[0, :, 49]
    x[1] = 0
    x[2, 7, 3] = np.nan
    (found, rows), _ = run_op(factoring, "lu", [x], {})
    low, up = np.tril(found[0], -1) + np.eye(60), np.triu(found[0])
    assert np.abs(low @ up - x[0][rows[0]]).max() <= 1e-4
    assert not found[1].any()
    assert (rows[1] == np.arange(60)).all()
    assert rows[2, 3] == 7
    assert np.isfinite(found[2, :3]).all()


@pytest.mark.parametrize("nbytes", [5 << 10, 8 << 10])
def test_panels_of_lu_are_as_wide_as_shared_memory_permits(nbytes):
    x = random(1, 90, 75)
    (found, rows), (wanted, order) = run_op(lanes(shared_bytes=nbytes), "lu", [x], {})
    assert np.abs(found - wanted).max() <= 1e-4
    assert (rows == order).all()


@pytest.mark.parametrize("nbytes", [4 << 10, 48 << 10])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 13, 34])
def test_eigh(n, nbytes):
    # Shared memory holds matrices, or it holds the rotations of a round alone.
    x = random(2, n, n)
    whole = np.tril(x) + np.tril(x, -1).mT
    x = np.where(np.tri(n, dtype=bool), x, np.nan).astype(np.float32)
    (values, vectors), (wanted, _) = run_op(lanes(shared_bytes=nbytes), "eigh", [x], {})
    bound = 16 * n * EPS["float32"]
    assert np.abs(values - wanted).max() <= bound * np.abs(wanted).max()
    assert np.abs(whole @ vectors - vectors * values[..., None, :]).max() <= bound * n
    assert np.abs(vectors.mT @ vectors - np.eye(n)).max() <= bound


def test_eigh_of_a_matrix_that_is_not_finite_is_nan():
    x = np.stack([np.eye(6, dtype=np.float32)] * 2)
    x[1, 3, 2] = np.nan
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np.linalg, "eigh", lambda x: (x[..., 0], x))
        (values, vectors), _ = run_op(lanes(), "eigh", [x], {})
    assert (values[0] == 1).all()
    assert (vectors[0] == np.eye(6)).all()
    assert np.isnan(values[1]).all()
    assert np.isnan(vectors[1]).all()


@pytest.mark.parametrize("nbytes", [5 << 10, 48 << 10])
@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 3), (9, 5), (5, 9), (40, 33), (70, 9)])
def test_qr(m, n, mode, nbytes):
    # Shared memory holds a matrix, or it holds the vector of a reflection alone.
    x = random(2, m, n)
    (q, r), (_, wanted) = run_op(lanes(shared_bytes=nbytes), "qr", [x], {"mode": mode})
    bound = 8 * m * EPS["float32"]
    assert np.abs(r - wanted).max() <= bound * np.abs(wanted).max()
    assert np.abs(q @ r - x).max() <= bound * np.abs(x).max()
    assert np.abs(q.mT @ q - np.eye(q.shape[-1])).max() <= bound


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_qr_of_large_and_small_columns_and_of_equal_ones(size):
    x = random(1, 12, 6)
    x[..., 1] *= np.float32(size)
    x[..., 2], x[..., 4] = x[..., 0], 0
    (q, r), _ = run_op(lanes(), "qr", [x], {"mode": "reduced"})
    sizes = np.maximum(np.abs(x).max(-2), 1e-30)
    assert (np.abs(q @ r - x).max(-2) <= 1e-6 * sizes).all()
    assert np.abs(q.mT @ q - np.eye(6)).max() <= 1e-6


@pytest.mark.parametrize("op", ["cholesky", "eigh", "lu", "qr", "triangular_solve"])
def test_some_cubes_of_one_unit_and_complex_numbers_are_left_to_the_decomposition(op):
    x = definite(1, 5, "float32")
    options = {}
    if op == "triangular_solve":
        options = {"lower": True, "transpose": False, "unit_diagonal": False}
    if op == "qr":
        options = {"mode": "reduced"}
    complex_number = "float32 and float64, not complex64"
    cases = [(b, x.astype(np.complex64), complex_number) for b in (lanes(), one_unit())]
    if op in ("eigh", "qr"):
        cases[1:] = [(one_unit(), x, "a cube has fewer than")]
    for backend, given, reason in cases:
        operands = [given] * (2 if op == "triangular_solve" else 1)
        with pytest.raises(AssertionError, match=reason):
            run_op(backend, op, operands, options)
