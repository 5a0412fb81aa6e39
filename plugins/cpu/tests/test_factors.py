"""Factorizations on the cpu: by kernels, or by NumPy's LAPACK as stages of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import calor
from calor import linalg
from calor_kernel.planning import blas_threads, hosted

Array = np.ndarray[Any, Any]
# What kernels do of real matrices.
_KERNELS = {"cholesky", "inv", "det", "slogdet", "solve"}


@pytest.fixture(autouse=True)
def _on_cpu() -> Iterator[None]:
    with calor.device("cpu"):
        yield


@pytest.fixture
def factored(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the nodes that the host computes."""
    names: list[str] = []
    made = hosted.Factoring.__init__

    def noted(self: Any, node: Any, results: Any) -> None:
        names.append(node.op.name)
        made(self, node, results)

    monkeypatch.setattr(hosted.Factoring, "__init__", noted)
    return names


def _positive(*shape: int, dtype: str = "float32") -> Array:
    draws = np.random.default_rng(len(shape))
    x = draws.standard_normal(shape)
    if "complex" in dtype:
        x = x + 1j * draws.standard_normal(shape)
    x = x @ x.swapaxes(-1, -2).conj() / shape[-1] + np.eye(shape[-1])
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(5, 5), (40, 40), (3, 17, 17), (2, 2, 6, 6)])
def test_results_are_those_of_numpy(
    shape: tuple[int, ...], dtype: str, factored: list[str]
) -> None:
    x = _positive(*shape, dtype=dtype)
    given = calor.asarray(x)
    pairs: list[tuple[str, Callable[[Any], Any], Array]] = [
        ("cholesky", linalg.cholesky, np.linalg.cholesky(x)),
        ("inv", linalg.inv, np.linalg.inv(x)),
        ("eigh", lambda x: linalg.eigh(x)[0], np.linalg.eigh(x)[0]),
        ("det", linalg.det, np.linalg.det(x)),
        ("slogdet", lambda x: linalg.slogdet(x)[1], np.linalg.slogdet(x)[1]),
        ("svd", linalg.svdvals, np.linalg.svd(x, compute_uv=False)),
        ("qr", lambda x: linalg.qr(x)[1], np.linalg.qr(x)[1]),
        ("solve", lambda a: linalg.solve(a, a[..., :2]), np.linalg.solve(x, x[..., :2])),
    ]
    for name, function, wanted in pairs:
        factored.clear()
        got = calor.jit(lambda x, f=function: f(x * 1) * 2)(given).numpy()
        assert factored == ([] if name in _KERNELS and "complex" not in dtype else [name])
        assert got.dtype == wanted.dtype
        rtol, atol = (1e-3, 1e-5) if dtype in ("float32", "complex64") else (2e-4, 1e-13)
        np.testing.assert_allclose(got, 2 * wanted, rtol=rtol, atol=atol)


def test_a_matrix_without_a_result_gives_nan_and_leaves_the_others() -> None:
    x = _positive(3, 20, 20)
    x[1] *= -1
    singular = np.stack([x[0], np.zeros((20, 20), np.float32)])
    low = calor.jit(lambda x: linalg.cholesky(x) + 0)(calor.asarray(x)).numpy()
    inverse = calor.jit(lambda x: linalg.inv(x) + 0)(calor.asarray(singular)).numpy()
    assert np.isnan(low[1]).any()
    np.testing.assert_allclose(low[::2], np.linalg.cholesky(x[::2]), rtol=1e-4, atol=1e-5)
    assert not np.isfinite(inverse[1]).any()
    np.testing.assert_allclose(inverse[0], np.linalg.inv(x[0]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize(("n", "bad"), [(5, 0), (6, 3), (40, 39)])
def test_factors_up_to_the_first_bad_pivot(n: int, bad: int, dtype: str) -> None:
    good = _positive(2, n, n, dtype=dtype)
    x = good.copy()
    x[1, bad, bad] = -1
    low, info = linalg.cholesky_ex(calor.asarray(x))
    assert info.tolist() == [0, bad + 1]
    wanted = np.linalg.cholesky(good)
    np.testing.assert_allclose(low[0].numpy(), wanted[0], atol=1e-5)
    np.testing.assert_allclose(low[1, :bad, :bad].numpy(), wanted[1, :bad, :bad], atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [49, 96, 97, 150, 203])
def test_panels_of_large_matrices(n: int, dtype: str, factored: list[str]) -> None:
    x = np.random.default_rng(n).standard_normal((n, n)).astype(dtype)
    bound = 20 * n * np.finfo(x.dtype).eps
    positive = _positive(n, n, dtype=dtype)
    low = calor.jit(linalg.cholesky)(calor.asarray(positive)).numpy()
    assert np.abs(low - np.linalg.cholesky(positive)).max() <= bound
    assert not np.triu(low, 1).any()
    p, lower, upper = (t.numpy() for t in calor.jit(linalg.lu)(calor.asarray(x)))
    assert np.abs(p @ lower @ upper - x).max() <= bound
    assert np.abs(lower).max() <= 1
    for count in (1, 17, 70):
        b = x[:, :count] + 1
        solved = calor.jit(linalg.solve)(calor.asarray(positive), calor.asarray(b)).numpy()
        assert np.abs(positive @ solved - b).max() <= bound * np.abs(b).max()
    assert factored == []


def test_many_small_matrices_stay_on_the_device(factored: list[str]) -> None:
    x = _positive(500, 5, 5)
    got = calor.jit(linalg.cholesky)(calor.asarray(x)).numpy()
    assert factored == []
    np.testing.assert_allclose(got, np.linalg.cholesky(x), rtol=1e-3, atol=1e-4)


def test_steps_of_a_loop_factor(factored: list[str]) -> None:
    x = _positive(12, 12)

    def body(carry: Any, _: Any) -> Any:
        carry = linalg.inv(carry)
        return carry, calor.log(linalg.svdvals(carry)).sum()

    def run(x: Any) -> Any:
        return calor.scan(body, x, None, length=3)

    last, sizes = calor.jit(run)(calor.asarray(x))
    assert set(factored) == {"svd"}
    wanted = np.linalg.slogdet(x)[1]
    np.testing.assert_allclose(sizes.numpy(), [-wanted, wanted, -wanted], rtol=1e-3)
    np.testing.assert_allclose(last.numpy(), np.linalg.inv(x), rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize(("order", "own"), [(40, 1), (512, 3)])
def test_small_matrices_are_factorized_without_the_threads_of_openblas(
    order: int, own: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = blas_threads.threads()
    assert known is not None, "NumPy's wheels have OpenBLAS"
    before, seen = known.get(), []
    made = np.linalg.qr

    def noted(*given: Any, **more: Any) -> Any:
        seen.append(known.get())
        return made(*given, **more)

    monkeypatch.setattr(np.linalg, "qr", noted)
    known.set(3)
    try:
        x = calor.asarray(_positive(order, order))
        calor.jit(lambda x: linalg.qr(x)[1] * 2)(x).numpy()
        assert set(seen) == {own}
        assert known.get() == 3
    finally:
        known.set(before)


def test_threads_of_openblas_come_back_after_the_last_of_several_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers = [4]
    known = blas_threads.Threads(lambda: numbers[-1], numbers.append)
    monkeypatch.setattr(blas_threads, "threads", lambda: known)
    with blas_threads.one_thread():
        with pytest.raises(ValueError, match="no result"), blas_threads.one_thread():
            raise ValueError("no result")
        assert numbers == [4, 1]
    assert numbers == [4, 1, 4]


def test_gradients_factor(factored: list[str]) -> None:
    x = _positive(2, 10, 10, dtype="float64")
    gradient = calor.jit(calor.grad(lambda x: linalg.slogdet(x)[1].sum()))(calor.asarray(x))
    np.testing.assert_allclose(gradient.numpy(), np.linalg.inv(x).swapaxes(-1, -2), rtol=1e-9)
    assert not factored
    gradient = calor.jit(calor.grad(lambda x: linalg.svdvals(x).sum()))(calor.asarray(x))
    u, _, vh = np.linalg.svd(x)
    np.testing.assert_allclose(gradient.numpy(), u @ vh, rtol=1e-6, atol=1e-9)
    assert factored
