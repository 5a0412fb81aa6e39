"""What the functions return: fields, shapes, dtypes, empty matrices, what of them is read."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor import linalg

DTYPES = ["float32", "float64", "complex64", "complex128"]


def noise(shape: tuple[int, ...], dtype: str = "float64", seed: int = 0) -> Any:
    """Return random numbers."""
    make = np.random.default_rng(seed)
    x = make.standard_normal(shape)
    return (x + 1j * make.standard_normal(shape) if "complex" in dtype else x).astype(dtype)


def hermitian(n: int, dtype: str) -> Any:
    """Return a positive definite matrix."""
    x = noise((n, n), dtype)
    return x @ x.conj().T + np.eye(n, dtype=dtype)


def close(got: Any, expected: Any) -> None:
    """Compare in the precision of the result, its dtype included."""
    got = np.asarray(got)
    assert got.dtype == np.asarray(expected).dtype
    eps = np.finfo(got.dtype).eps
    np.testing.assert_allclose(got, expected, rtol=500 * eps, atol=500 * eps)


TUPLES: list[tuple[Callable[[Any], Any], tuple[str, ...]]] = [
    (linalg.qr, ("Q", "R")),
    (linalg.svd, ("U", "S", "Vh")),
    (linalg.eigh, ("eigenvalues", "eigenvectors")),
    (linalg.slogdet, ("sign", "logabsdet")),
    (linalg.lu, ("P", "L", "U")),
    (
        lambda x: linalg.lstsq(x, x),
        ("solution", "residuals", "rank", "singular_values"),
    ),
]


@pytest.mark.parametrize(("function", "fields"), TUPLES, ids=[f[0] for _, f in TUPLES])
def test_fields(function: Callable[[Any], Any], fields: tuple[str, ...]) -> None:
    made = function(calor.eye(3))
    assert made._fields == fields
    assert all(isinstance(t, calor.Tensor) for t in made)
    # A pytree, so that jit can return it.
    jitted = calor.jit(function)(calor.eye(3))
    assert type(jitted) is type(made)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_factors_multiply_to_the_matrix(
    dtype: str, batch: tuple[int, ...], shape: tuple[int, int]
) -> None:
    array = noise((*batch, *shape), dtype)
    x = calor.asarray(array)
    m, n = shape
    k = min(shape)
    real = np.zeros(0, dtype).real.dtype.name
    for mode, width in (("reduced", k), ("complete", m)):
        q, r = linalg.qr(x, mode=mode)
        assert (q.shape, r.shape) == ((*batch, m, width), (*batch, width, n))
        close((q @ r).numpy(), array)
    for full, rows, columns in ((False, k, k), (True, m, n)):
        u, s, vh = linalg.svd(x, full_matrices=full)
        assert (u.shape, s.shape, vh.shape) == (
            (*batch, m, rows), (*batch, k), (*batch, columns, n)
        )  # fmt: skip
        assert s.dtype.name == real
        whole = calor.zeros((*batch, rows, columns), dtype=dtype)
        for i in range(k):
            whole[..., i, i] = s[..., i].astype(dtype)
        close((u @ whole @ vh).numpy(), array)
        close(linalg.svdvals(x).numpy(), s.numpy())
    p, low, up = linalg.lu(x)
    assert (p.shape, low.shape, up.shape) == ((*batch, m, m), (*batch, m, k), (*batch, k, n))
    assert {t.dtype.name for t in (p, low, up)} == {dtype}
    close((p @ low @ up).numpy(), array)


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_triangle_is_read(dtype: str) -> None:
    whole = hermitian(3, dtype)
    spoiled = whole + np.triu(np.full((3, 3), np.nan), 1).astype(dtype)
    low = linalg.cholesky(calor.asarray(spoiled))
    up = linalg.cholesky(calor.asarray(spoiled.T), upper=True)
    close(low.numpy(), np.linalg.cholesky(whole))
    close(up.numpy(), np.linalg.cholesky(whole.T).conj().T)
    values, vectors = linalg.eigh(calor.asarray(np.tril(whole)))
    close(values.numpy(), np.linalg.eigvalsh(whole))
    close((vectors * values.astype(dtype) @ vectors.mT.conj()).numpy(), whole)
    for options in ({"lower": True}, {"lower": False}, {"lower": True, "unit_diagonal": True}):
        triangle = np.tril(whole) if options["lower"] else np.triu(whole)
        outside = np.full((3, 3), np.nan).astype(dtype)
        other = np.triu(outside, 1) if options["lower"] else np.tril(outside, -1)
        if options.get("unit_diagonal"):
            np.fill_diagonal(triangle, 1)
            other = other + np.diag([np.nan] * 3).astype(dtype)
        x = calor.asarray(np.where(np.isnan(other), other, triangle))
        solved = linalg.solve_triangular(x, calor.asarray(noise((3, 2), dtype)), **options)
        close(triangle @ solved.numpy(), noise((3, 2), dtype))


EMPTY: list[tuple[Callable[[Any], Any], Any]] = [
    (linalg.cholesky, np.linalg.cholesky),
    (lambda x: linalg.cholesky(x, upper=True), np.linalg.cholesky),
    (linalg.inv, np.linalg.inv),
    (linalg.det, np.linalg.det),
    (linalg.slogdet, np.linalg.slogdet),
    (linalg.eigh, np.linalg.eigh),
    (linalg.eigvalsh, np.linalg.eigvalsh),
    (linalg.expm, lambda x: x),
    (linalg.pinv, np.linalg.pinv),
    (linalg.svd, np.linalg.svd),
    (linalg.svdvals, lambda x: np.linalg.svd(x, compute_uv=False)),
    (linalg.qr, np.linalg.qr),
    (lambda x: linalg.qr(x, mode="complete"), lambda x: np.linalg.qr(x, "complete")),
    (lambda x: linalg.lu(x)[1:], lambda x: (x, x)),
    (lambda x: linalg.matrix_rank(x), lambda x: np.zeros(x.shape[:-2], np.int64)),
    (lambda x: linalg.matrix_norm(x), lambda x: np.zeros(x.shape[:-2])),
    (lambda x: linalg.matrix_norm(x, ord="nuc"), lambda x: np.zeros(x.shape[:-2])),
    (lambda x: linalg.solve(x, x), lambda x: x),
    (lambda x: linalg.solve_triangular(x, x), lambda x: x),
    (lambda x: linalg.matrix_power(x, 2), lambda x: x),
    (linalg.trace, lambda x: np.trace(x, axis1=-2, axis2=-1)),
]


@pytest.mark.parametrize(("function", "oracle"), EMPTY, ids=range(len(EMPTY)))
@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
def test_empty(function: Callable[[Any], Any], oracle: Any, shape: tuple[int, ...]) -> None:
    expected = oracle(np.zeros(shape))
    expected = expected if isinstance(expected, tuple) else (expected,)
    made = calor.tree.leaves(function(calor.zeros(shape, dtype="float64")))
    for got, want in zip(made, expected, strict=True):
        np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize(
    ("shape", "order"),
    [((0, 3), 1), ((0, 3), -1), ((3, 0), np.inf), ((3, 0), -np.inf), ((2, 0, 3), 1)],
)
def test_norms_of_matrices_without_rows_or_columns(shape: tuple[int, ...], order: float) -> None:
    x = np.zeros(shape)
    got = linalg.matrix_norm(calor.asarray(x), ord=order)
    np.testing.assert_array_equal(got.numpy(), np.linalg.norm(x, order, axis=(-2, -1)))


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (2, 3, 0)])
def test_empty_and_not_square(shape: tuple[int, ...]) -> None:
    x = calor.zeros(shape, dtype="float64")
    for full in (False, True):
        u, s, vh = linalg.svd(x, full_matrices=full)
        expected = np.linalg.svd(np.zeros(shape), full_matrices=full)
        assert [t.numpy().tolist() for t in (u, s, vh)] == [t.tolist() for t in expected]
    assert linalg.pinv(x).shape == (*shape[:-2], shape[-1], shape[-2])
    assert linalg.matrix_rank(x).numpy().tolist() == np.zeros(shape[:-2]).tolist()


def test_solve_factorizes_a_shared_matrix_once() -> None:
    a, b = noise((3, 3)), noise((4, 2, 3, 5))
    graph = calor.trace(linalg.solve, calor.asarray(a), calor.asarray(b))
    row = next(node for node in graph.nodes if node.op.name == "solve")
    assert [graph.specs[i].shape for i in row.inputs] == [(3, 3), (3, 40)]
    close(linalg.solve(calor.asarray(a), calor.asarray(b)).numpy(), np.linalg.solve(a, b))


def test_mixed_dtypes_promote() -> None:
    a, b = calor.eye(2, dtype="float64"), calor.ones((2, 1), dtype="complex64")
    assert linalg.solve(a, b).dtype is calor.complex128
    assert linalg.lstsq(a, b).solution.dtype is calor.complex128
    assert linalg.cross(calor.ones(3, dtype="int8"), calor.ones(3)).dtype is calor.float32


@pytest.mark.parametrize(
    ("rtol", "rank"),
    [(None, 2), (1e-3, 2), (0.2, 1), (1, 0), (np.float64(0.2), 1), (np.asarray(0.2), 1)],
)
def test_tolerance(rtol: Any, rank: int) -> None:
    x = calor.asarray(np.diag([10.0, 1.0, 0.0]))
    assert linalg.matrix_rank(x, rtol=rtol).item() == rank
    expected = np.diag([0.1, 1.0, 0.0])
    expected[rank:] = 0
    close(linalg.pinv(x, rtol=rtol).numpy(), expected)


def test_a_tolerance_for_each_matrix() -> None:
    x = calor.asarray(np.stack([np.diag([10.0, 1.0])] * 3))
    rtol = calor.asarray([0.01, 0.5, 1.0])
    assert linalg.matrix_rank(x, rtol=rtol).tolist() == [2, 1, 0]
    kept = linalg.pinv(x, rtol=rtol).numpy()
    assert [np.count_nonzero(k) for k in kept] == [2, 1, 0]


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 3)])
@pytest.mark.parametrize("deficient", [False, True])
def test_lstsq_is_numpy_s(shape: tuple[int, int], deficient: bool) -> None:
    a, b = noise(shape), noise((shape[0], 2), seed=1)
    if deficient:
        a[:, -1] = a[:, 0]
    found = linalg.lstsq(calor.asarray(a), calor.asarray(b))
    solution, residuals, rank, values = np.linalg.lstsq(a, b)
    close(found.solution.numpy(), solution)
    assert found.rank.item() == rank
    close(found.singular_values.numpy(), values)
    if residuals.size:
        close(found.residuals.numpy(), residuals)


def test_norms_of_integers_and_half_types() -> None:
    assert linalg.vector_norm(calor.asarray([3, 4])).dtype is calor.float32
    assert linalg.matrix_norm(calor.asarray([[3, 4]])).item() == 5
    large = calor.asarray([300.0, 400.0], dtype="float16")
    assert linalg.vector_norm(large).item() == 500
    assert linalg.vector_norm(large).dtype is calor.float16
    assert linalg.trace(calor.asarray([[100, 0], [0, 100]], dtype="int8")).item() == 200
    assert linalg.trace(calor.eye(2), dtype="float64").dtype is calor.float64


def test_the_namespace_is_the_standard_s() -> None:
    names = """cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power
    matrix_rank matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot
    vector_norm"""
    assert set(names.split()) <= set(linalg.__all__)
    assert all(callable(getattr(linalg, n)) for n in linalg.__all__)
    for shared in ("matmul", "matrix_transpose", "tensordot", "vecdot"):
        assert getattr(linalg, shared) is getattr(calor, shared)
