"""Factors in LAPACK's forms and their systems, norms, products of several matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import calor
from calor import linalg

DTYPES = ["float32", "complex128"]
SHAPES = [(4, 4), (2, 3, 3), (2, 5, 3), (3, 5), (1, 1), (0, 0), (2, 0, 3)]


def drawn(shape: tuple[int, ...], dtype: str) -> Any:
    random = np.random.default_rng(sum(shape) + len(shape))
    x = random.standard_normal(shape)
    if "complex" in dtype:
        x = x + 1j * random.standard_normal(shape)
    return x.astype(dtype)


def adjoint(x: Any) -> Any:
    return x.conj().swapaxes(-1, -2)


def same(found: Any, expected: Any, factor: float = 200) -> None:
    got = found.numpy()
    expected = np.asarray(expected)
    assert got.shape == expected.shape
    eps = np.finfo(got.dtype).eps
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(got / scale, expected / scale, rtol=0, atol=factor * eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_lu_factors_are_lapack_s(shape: tuple[int, ...], dtype: str) -> None:
    x = drawn(shape, dtype)
    factors = linalg.lu_factor(calor.asarray(x))
    p, low, up = (t.numpy() for t in linalg.lu_unpack(factors))
    same(calor.asarray(p @ low @ up), x)
    if dtype == "float32" and len(shape) == 2 and x.size:
        packed, pivots = scipy.linalg.lu_factor(x)
        same(factors.LU, packed)
        assert factors.pivots.tolist() == pivots.tolist()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoined", [True, False])
def test_lu_solve_on_each_side(dtype: str, left: bool, adjoined: bool) -> None:
    x, b = drawn((2, 3, 3), dtype), drawn((2, 3, 2), dtype)
    turned = adjoint(x) if adjoined else x
    wanted = np.linalg.solve(turned, b) if left else b.swapaxes(-1, -2) @ np.linalg.inv(turned)
    right = b if left else np.ascontiguousarray(b.swapaxes(-1, -2))
    factors = linalg.lu_factor(calor.asarray(x))
    same(linalg.lu_solve(factors, calor.asarray(right), left=left, adjoint=adjoined), wanted, 4000)


def test_lu_solve_has_the_gradient_of_solve() -> None:
    x, b = (calor.asarray(drawn(s, "float64")) for s in ((3, 3), (3,)))
    found = calor.grad(lambda t: (linalg.lu_solve(linalg.lu_factor(t), b) ** 2).sum())(x)
    same(found, calor.grad(lambda t: (linalg.solve(t, b) ** 2).sum())(x), 5000)


def unpacked(packed: Any, pivots: Any, hermitian: bool) -> Any:
    """Return the matrix of LAPACK's factors L D Lᵀ, block by block, the last one first."""
    n = len(pivots)
    turn = adjoint if hermitian else lambda x: x.swapaxes(-1, -2)
    blocks, k = [], 0
    while k < n:
        blocks.append((k, 1 if pivots[k] > 0 else 2))
        k += blocks[-1][1]
    made = np.zeros((n, n), packed.dtype)
    for k, size in reversed(blocks):
        step, block = np.eye(n, dtype=packed.dtype), np.tril(packed[k : k + size, k : k + size])
        step[k + size :, k : k + size] = packed[k + size :, k : k + size]
        made[k : k + size, k : k + size] = block + turn(np.tril(block, -1))
        made = step @ made @ turn(step)
        order = np.arange(n)
        last, other = k + size - 1, abs(pivots[k + size - 1]) - 1
        order[[last, other]] = order[[other, last]]
        made = made[order][:, order]
    return made


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("hermitian", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (2, 4, 4), (3, 7, 7), (0, 0), (2, 0, 0)])
def test_ldl_factors_of_indefinite_matrices(shape: Any, hermitian: bool, dtype: str) -> None:
    half, b = drawn(shape, dtype), drawn((*shape[:-1], 2), dtype)
    x = half + (adjoint(half) if hermitian else half.swapaxes(-1, -2))
    if len(shape) > 2:
        # Zeros on the diagonal want blocks of two rows; large numbers there do not.
        x[0] *= 1 - np.eye(shape[-1])
        x[1] += 10 * np.eye(shape[-1])
    # What is above the diagonal is not read.
    factors = linalg.ldl_factor(calor.asarray(np.tril(x)), hermitian=hermitian)
    count = max(1, int(np.prod(shape[:-2])))
    packed, pivots = (t.numpy().reshape(count, *t.shape[x.ndim - 2 :]) for t in factors)
    if x.size and len(shape) > 2:
        assert (pivots[0] < 0).any()
        assert (pivots[1] > 0).all()
    for one, exchanges, wanted in zip(packed, pivots, x.reshape(count, *shape[-2:]), strict=True):
        same(calor.asarray(unpacked(one, exchanges, hermitian)), wanted)
    found = linalg.ldl_solve(factors, calor.asarray(b), hermitian=hermitian)
    same(found, np.linalg.solve(x, b), 20_000)


def test_ldl_solve_has_the_gradient_of_solve() -> None:
    x, b = (calor.asarray(drawn(s, "float64")) for s in ((4, 4), (4,)))

    def loss(t: Any) -> Any:
        return (linalg.ldl_solve(linalg.ldl_factor(t + t.mT), b) ** 2).sum()

    found = calor.grad(loss)(x)
    same(found, calor.grad(lambda t: (linalg.solve(t + t.mT, b) ** 2).sum())(x), 20_000)


@pytest.mark.parametrize("order", [1, 2, calor.inf])
def test_the_norms_of_empty_matrices_are_0(order: Any) -> None:
    for shape in ((2, 0, 3), (3, 0), (0, 0)):
        found = linalg.matrix_norm(calor.ones(shape), ord=order)
        assert found.shape == shape[:-2]
        assert not found.numpy().any()
    assert linalg.vector_norm(calor.ones((2, 0)), axis=1, ord=calor.inf).tolist() == [0, 0]


def test_an_absolute_tolerance_of_ranks() -> None:
    x = calor.asarray([[[3.0, 0.0], [0.0, 0.5]], [[3.0, 0.0], [0.0, 1.5]]])
    assert linalg.matrix_rank(x, atol=1.0).tolist() == [1, 2]
    assert linalg.matrix_rank(x, atol=1.0, rtol=0.75).tolist() == [1, 1]
    assert linalg.matrix_rank(x, atol=calor.asarray([0.1, 2.0])).tolist() == [2, 1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [True, False])
def test_cholesky_factors_solve_and_invert(dtype: str, upper: bool) -> None:
    x, b = drawn((2, 3, 3), dtype), drawn((3,), dtype)
    a = x @ adjoint(x) + np.eye(3, dtype=dtype)
    factor = linalg.cholesky(calor.asarray(a), upper=upper)
    same(linalg.cholesky_ex(calor.asarray(a), upper=upper).L, factor.numpy())
    inverse = np.linalg.inv(a)
    same(linalg.cholesky_inverse(factor, upper=upper), inverse, 2000)
    same(linalg.cholesky_solve(calor.asarray(b), factor, upper=upper), inverse @ b, 4000)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_reflections_are_lapack_s(shape: tuple[int, ...], dtype: str) -> None:
    x = drawn(shape, dtype)
    packed, tau = linalg.geqrf(calor.asarray(x))
    m, n = shape[-2:]
    assert tau.shape == (*shape[:-2], min(m, n))
    if len(shape) == 2 and x.size:
        expected = scipy.linalg.qr(x, mode="raw")[0]
        same(packed, expected[0])
        same(tau, expected[1])
    if m >= n:
        q = np.linalg.qr(x)[0] if x.size else x
        same(linalg.householder_product(packed, tau), q)
    for left in (True, False):
        other = drawn((*shape[:-2], *((m, 2) if left else (2, m))), dtype)
        made = linalg.ormqr(packed, tau, calor.asarray(other), left=left)
        back = linalg.ormqr(packed, tau, made, left=left, transpose=True)
        same(back, other)
        if not left or not x.size:
            continue
        # Qᴴ x is R.
        triangle = linalg.ormqr(packed, tau, calor.asarray(x), transpose=True)
        same(triangle, np.triu(packed.numpy()))


@pytest.mark.parametrize("order", [None, 2, -2, "fro", "nuc", 1, -1, np.inf, -np.inf])
def test_condition_numbers(order: Any) -> None:
    x = drawn((2, 3, 3), "complex128")
    same(linalg.cond(calor.asarray(x), ord=order), np.linalg.cond(x, order), 2000)


@pytest.mark.parametrize(
    ("axis", "order"), [(1, 3), ((0, 2), "nuc"), ((2, 0), 1), ((-1, 1), "fro"), (None, None)]
)
@pytest.mark.parametrize("kept", [True, False])
def test_norms_by_their_axes(axis: Any, order: Any, kept: bool) -> None:
    x = drawn((3, 4, 2), "complex128")
    wanted = np.linalg.norm(x, order, axis, kept)
    same(linalg.norm(calor.asarray(x), order, axis, kept), wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_logarithms_of_determinants(dtype: str) -> None:
    x = drawn((3, 3), dtype)
    x[0] *= np.sign(np.linalg.det(x)) if dtype == "float32" else 1
    same(linalg.logdet(calor.asarray(x)), np.log(np.linalg.det(x)))
    assert np.isnan(linalg.logdet(calor.asarray([[-1.0]])).item())


def test_products_of_several() -> None:
    a, b, c, v = (drawn(s, "float64") for s in ((4, 7), (7, 2), (2, 6), (6,)))
    for parts in ([a, b], [a, b, c], [a, b, c, v], [a[0], b, c, v]):
        same(linalg.multi_dot([calor.asarray(p) for p in parts]), np.linalg.multi_dot(parts))


def test_systems_of_tensors() -> None:
    x, b = drawn((2, 3, 6), "float64"), drawn((2, 3), "float64")
    same(linalg.tensorinv(calor.asarray(x)), np.linalg.tensorinv(x), 4000)
    same(linalg.tensorsolve(calor.asarray(x), calor.asarray(b)), np.linalg.tensorsolve(x, b), 4000)
    moved = np.moveaxis(x, 2, 0)
    found = linalg.tensorsolve(calor.asarray(moved.copy()), calor.asarray(b), axes=[0])
    same(found, np.linalg.tensorsolve(x, b), 4000)


def test_factors_of_low_rank() -> None:
    x = drawn((2, 20, 3), "float64") @ drawn((2, 3, 9), "float64")
    u, s, vh = (t.numpy() for t in linalg.svd_lowrank(calor.asarray(x), 4))
    same(calor.asarray((u * s[..., None, :]) @ vh), x, 1e4)
    _, s, _ = linalg.pca_lowrank(calor.asarray(x), 3)
    centred = x - x.mean(-2, keepdims=True)
    same(s, np.linalg.svd(centred, compute_uv=False)[..., :3], 1e4)


def test_least_squares_by_numpy_s_rcond() -> None:
    x, b = np.diag([1.0, 1e-3]), np.array([1.0, 1.0])
    for rcond in (1e-2, -1, None):
        wanted = np.linalg.lstsq(x, b, rcond=rcond)
        found = linalg.lstsq(calor.asarray(x), calor.asarray(b), rcond=rcond)
        same(found.solution, wanted[0], 1e4)
        assert found.rank.item() == wanted[2]
