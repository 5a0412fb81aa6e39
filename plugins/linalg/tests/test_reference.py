"""Linear algebra: each factor's own defining equations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calor_linalg import reference as linalg

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
BATCHES: list[tuple[int, ...]] = [(), (3,), (2, 2), (0,)]


def noise(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    """Return random numbers."""
    random = np.random.default_rng(seed)
    x = random.standard_normal(shape)
    return (x + 1j * random.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(
        dtype
    )


def adjoint(x: Any) -> Any:
    """Return the conjugate transpose."""
    return x.conj().swapaxes(-1, -2)


def close(got: Any, expected: Any, dtype: Any, scale: float = 1.0) -> None:
    """Compare in the precision of a dtype."""
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(got, expected, rtol=0, atol=200 * eps * scale)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("n", [0, 1, 4])
def test_cholesky(dtype: Any, batch: tuple[int, ...], n: int) -> None:
    a = noise((*batch, n, n), dtype)
    x = a @ adjoint(a) + n * np.eye(n, dtype=dtype)
    low = linalg.cholesky(np.tril(x), upper=False)
    high = linalg.cholesky(np.triu(x), upper=True)
    assert low.dtype == high.dtype == dtype
    close(low @ adjoint(low), x, dtype, 10)
    close(adjoint(high) @ high, x, dtype, 10)
    np.testing.assert_array_equal(low, np.tril(low))
    np.testing.assert_array_equal(high, np.triu(high))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (3, 3), (0, 3), (3, 0)])
def test_qr_and_svd(dtype: Any, batch: tuple[int, ...], shape: tuple[int, int]) -> None:
    x, (m, n) = noise((*batch, *shape), dtype), shape
    modes: list[tuple[Any, int]] = [("reduced", min(m, n)), ("complete", m)]
    for mode, k in modes:
        q, r = linalg.qr(x, mode=mode)
        assert (q.shape, r.shape) == ((*batch, m, k), (*batch, k, n))
        assert q.dtype == r.dtype == dtype
        close(q @ r, x, dtype)
        close(adjoint(q) @ q, np.broadcast_to(np.eye(k), (*batch, k, k)), dtype)
        np.testing.assert_array_equal(r, np.triu(r))
    for full in (False, True):
        u, s, vh = linalg.svd(x, full_matrices=full)
        k = min(m, n)
        assert u.dtype == vh.dtype == dtype
        assert s.dtype == x.real.dtype
        assert u.shape == (*batch, m, m if full else k)
        assert vh.shape == (*batch, n if full else k, n)
        close(u[..., :k] * s[..., None, :] @ vh[..., :k, :], x, dtype)
        assert (np.diff(s) <= 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
def test_eigh(dtype: Any, batch: tuple[int, ...]) -> None:
    a = noise((*batch, 4, 4), dtype)
    x = a + adjoint(a)
    values, vectors = linalg.eigh(np.tril(x))
    assert values.dtype == x.real.dtype
    assert vectors.dtype == dtype
    close(x @ vectors, vectors * values[..., None, :], dtype, 4)
    assert (np.diff(values) >= 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (5, 3), (3, 5), (0, 2), (20, 20)])
def test_lu(dtype: Any, batch: tuple[int, ...], shape: tuple[int, int]) -> None:
    x, (m, n) = noise((*batch, *shape), dtype), shape
    before = x.copy()
    packed, order = linalg.lu(x)
    assert packed.dtype == dtype
    assert order.dtype == np.int64
    assert (packed.shape, order.shape) == (x.shape, (*batch, m))
    k = min(m, n)
    low = np.tril(packed[..., :k], -1) + np.eye(m, k, dtype=dtype)
    high = np.triu(packed[..., :k, :])
    close(low @ high, np.take_along_axis(x, order[..., None], -2), dtype, 4)
    assert (np.abs(low) <= 1 + 1e-6).all()
    np.testing.assert_array_equal(x, before)


def test_lu_of_singular_matrices() -> None:
    packed, order = linalg.lu(np.array([[0.0, 1.0], [0.0, 2.0]]))
    assert np.isfinite(packed).all()
    assert sorted(order.tolist()) == [0, 1]
    packed, order = linalg.lu(np.array([[1.0, 5.0], [-2.0, 0.0], [2.0, 1.0]]))
    assert order.tolist()[0] == 1  # the first of the two largest


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("unit_diagonal", [False, True])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 3), (40, 2), (0, 2), (3, 0)])
def test_triangular_solve(
    dtype: Any,
    batch: tuple[int, ...],
    lower: bool,
    transpose: bool,
    unit_diagonal: bool,
    n: int,
    k: int,
) -> None:
    a = noise((*batch, n, n), dtype) / max(n, 1) + 2 * np.eye(n, dtype=dtype)
    b = noise((*batch, n, k), dtype, 1)
    before = b.copy()
    got = linalg.triangular_solve(
        a, b, lower=lower, transpose=transpose, unit_diagonal=unit_diagonal
    )
    assert got.dtype == dtype
    t = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        t = t * (1 - np.eye(n, dtype=dtype)) + np.eye(n, dtype=dtype)
    close((t.swapaxes(-1, -2) if transpose else t) @ got, b, dtype, 4)
    np.testing.assert_array_equal(b, before)


def test_triangular_solve_reads_its_triangle_only() -> None:
    a = np.array([[2.0, np.nan], [1.0, 4.0]])
    b = np.array([[2.0], [9.0]])
    options = {"lower": True, "transpose": False}
    assert linalg.triangular_solve(a, b, **options, unit_diagonal=False).tolist() == [[1.0], [2.0]]
    a[[0, 1], [0, 1]] = np.nan
    assert linalg.triangular_solve(a, b, **options, unit_diagonal=True).tolist() == [[2.0], [7.0]]
    zero = linalg.triangular_solve(
        np.zeros((1, 1)), np.ones((1, 1)), **options, unit_diagonal=False
    )
    assert zero.tolist() == [[np.inf]]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("n", [0, 1, 4])
def test_solve_inverse_and_determinant(dtype: Any, batch: tuple[int, ...], n: int) -> None:
    a = noise((*batch, n, n), dtype) + 3 * np.eye(n, dtype=dtype)
    b = noise((*batch, n, 2), dtype, 1)
    solution, inverse = linalg.solve(a, b), linalg.inv(a)
    assert solution.dtype == inverse.dtype == dtype
    close(a @ solution, b, dtype, 10)
    close(a @ inverse, np.broadcast_to(np.eye(n), a.shape), dtype, 10)
    determinant, (sign, size) = linalg.det(a), linalg.slogdet(a)
    assert determinant.dtype == sign.dtype == dtype
    assert size.dtype == a.real.dtype
    assert determinant.shape == sign.shape == size.shape == batch
    close(sign * np.exp(size), determinant, dtype, 200)
    products = np.prod(np.diagonal(linalg.lu(a)[0], axis1=-2, axis2=-1), axis=-1)
    close(np.abs(products), np.abs(determinant), dtype, 200)


def test_singular_matrices() -> None:
    zero = np.zeros((2, 2))
    calls: list[Callable[[], Any]] = [
        lambda: linalg.inv(zero),
        lambda: linalg.solve(zero, np.ones((2, 1))),
        lambda: linalg.cholesky(-np.eye(2), upper=False),
        lambda: linalg.cholesky(np.array([[1.0, 2.0], [2.0, 1.0]]), upper=True),
    ]
    for call in calls:
        with pytest.raises(np.linalg.LinAlgError):
            call()
    assert linalg.det(zero) == 0
    sign, size = linalg.slogdet(zero)
    assert sign == 0
    assert size == -np.inf
