"""Gradients where a formula has a 0 in a denominator, and through the engine's transforms."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor import linalg

POINTS: list[tuple[str, Callable[[Any], Any], Any, Any]] = [
    ("det of a singular matrix", linalg.det, [[1.0, 2.0], [2.0, 4.0]], [[4.0, -2.0], [-2.0, 1.0]]),
    ("det of zeros", linalg.det, np.zeros((2, 2)), np.zeros((2, 2))),
    ("det of rank n - 2", linalg.det, np.diag([1.0, 0.0, 0.0]), np.zeros((3, 3))),
    (
        "repeated eigenvalues",
        lambda x: (linalg.eigh(x)[0] ** 2).sum(),
        np.eye(3) * 2,
        np.eye(3) * 4,
    ),
    (
        "repeated singular values",
        lambda x: (linalg.svdvals(x) ** 2).sum(),
        np.eye(3),
        np.eye(3) * 2,
    ),
    ("singular values of 0", lambda x: (linalg.svdvals(x) ** 2).sum(), np.zeros((2, 3)), 0.0),
    ("Frobenius norm of zeros", linalg.matrix_norm, np.zeros((2, 2)), 0.0),
    ("norm of zeros", linalg.vector_norm, np.zeros(3), 0.0),
    ("third norm with a 0", lambda x: linalg.vector_norm(x, ord=3), [0.0, 2.0], [0.0, 1.0]),
    ("third norm of zeros", lambda x: linalg.vector_norm(x, ord=3), np.zeros(2), 0.0),
    ("pinv at low rank", lambda x: linalg.pinv(x).sum(), np.diag([2.0, 0.0]), None),
    ("cholesky is symmetric", lambda x: linalg.cholesky(x)[1, 0], np.eye(2), [[0, 0.5], [0.5, 0]]),
]


@pytest.mark.parametrize(
    ("function", "at", "expected"), [p[1:] for p in POINTS], ids=[p[0] for p in POINTS]
)
def test_at_a_point(function: Callable[[Any], Any], at: Any, expected: Any) -> None:
    found = calor.grad(function)(calor.asarray(np.asarray(at))).numpy()
    assert np.isfinite(found).all()
    if expected is not None:
        np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), atol=1e-12)


def rebuilt(x: Any) -> Any:
    """Return the matrix again, from its eigenvectors."""
    found = linalg.eigh(x)
    return (found.eigenvectors * found.eigenvalues) @ found.eigenvectors.mT


def polar(x: Any) -> Any:
    """Return the orthogonal factor of the matrix."""
    u, _, vh = linalg.svd(x)
    return u @ vh


@pytest.mark.parametrize("function", [rebuilt, polar])
def test_vectors_of_equal_values_have_no_gradient(function: Callable[[Any], Any]) -> None:
    """It is not a finite number that is wrong; apart, the values have one."""
    weights = calor.asarray(np.arange(9.0).reshape(3, 3))

    def weighted(x: Any) -> Any:
        return (function(x) * weights).sum()

    together = calor.grad(weighted)(calor.eye(3, dtype="float64")).numpy()
    assert not np.isfinite(together).all()
    apart = calor.grad(weighted)(calor.asarray(np.diag([1.0, 2.0, 4.0]))).numpy()
    assert np.isfinite(apart).all()


def test_second_derivative_of_values_that_coincide_is_not_wrong() -> None:
    def slope(x: Any) -> Any:
        return (calor.grad(lambda x: (linalg.eigvalsh(x) ** 3).sum())(x) ** 2).sum()

    apart = calor.grad(slope)(calor.asarray(np.diag([1.0, 2.0]))).numpy()
    # The gradient is 3x², the sum of its squares 9 tr x⁴, and that has the gradient 36x³.
    np.testing.assert_allclose(apart, np.diag([36.0, 288.0]), rtol=1e-12, atol=1e-12)
    together = calor.grad(slope)(calor.eye(2, dtype="float64")).numpy()
    assert not np.isfinite(together).all()


def test_second_derivative_of_det_at_the_identity() -> None:
    """det(I + tE) of a diagonal E has the mixed derivatives of a product."""

    def along(x: Any) -> Any:
        return calor.grad(linalg.det)(x)[0, 0]

    found = calor.grad(along)(calor.eye(3, dtype="float64")).numpy()
    np.testing.assert_allclose(found, np.diag([0.0, 1.0, 1.0]), atol=1e-12)


def test_third_order() -> None:
    """d³/dt³ 1/t by way of inv."""
    function = lambda t: linalg.inv(calor.reshape(t, (1, 1)))[0, 0]  # noqa: E731
    for _ in range(3):
        function = calor.grad(function)
    assert function(calor.asarray(2.0, dtype="float64")).item() == pytest.approx(-6 / 16)


FUNCTIONS: list[tuple[str, Callable[[Any], Any]]] = [
    ("solve", lambda x: linalg.solve(x, x[0])),
    ("cholesky", lambda x: linalg.cholesky(x @ x.mT)),
    ("eigvalsh", linalg.eigvalsh),
    ("svdvals", linalg.svdvals),
    ("qr", lambda x: linalg.qr(x).R),
    ("det", linalg.det),
    ("slogdet", lambda x: linalg.slogdet(x).logabsdet),
    ("pinv", linalg.pinv),
    ("expm", linalg.expm),
    ("lu", lambda x: linalg.lu(x).U),
    ("einsum", lambda x: calor.einsum("ij,jk,kl->il", x, x, x)),
]
X = np.array([[2.0, 0.5, 0.1], [0.3, 3.0, 0.2], [0.4, 0.6, 5.0]])


@pytest.mark.parametrize(("name", "function"), FUNCTIONS, ids=[n for n, _ in FUNCTIONS])
def test_under_jit_and_backward(name: str, function: Callable[[Any], Any]) -> None:
    x = calor.asarray(X)
    expected = calor.grad(lambda x: function(x).sum())(x).numpy()
    jitted = calor.jit(calor.grad(lambda x: function(x).sum()))
    np.testing.assert_allclose(jitted(x).numpy(), expected, rtol=1e-12, atol=1e-12)
    leaf = calor.asarray(X, requires_grad=True)
    made = function(leaf).sum()
    # A look between forward and backward changes nothing.
    made.item()
    made.backward()
    assert leaf.grad is not None
    np.testing.assert_allclose(leaf.grad.numpy(), expected, rtol=1e-12, atol=1e-12)


def test_inside_a_loop() -> None:
    """A factorization in a loop's body is one node of the body's graph."""

    def body(_: Any, x: Any) -> Any:
        return linalg.solve(x + calor.eye(3, dtype="float64"), x)

    x = calor.asarray(X)
    expected = X
    for _ in range(4):
        expected = np.linalg.solve(expected + np.eye(3), expected)
    np.testing.assert_allclose(calor.fori_loop(0, 4, body, x).numpy(), expected, rtol=1e-12)
    looped = calor.grad(lambda x: calor.fori_loop(0, 2, body, x).sum())(x)
    unrolled = calor.grad(lambda x: body(1, body(0, x)).sum())(x)
    np.testing.assert_allclose(looped.numpy(), unrolled.numpy(), rtol=1e-12)
