"""The definitions that a device without factorizations runs, on matrices that are not easy."""

from typing import Any

import numpy as np
import pytest

from calor.dtypes import as_dtype
from calor.graph.decompose import decompose
from calor.graph.graph import Graph
from calor.graph.interpreter import interpret
from calor.ops.base import Op, find
from calor.recording.tracing import trace_function
from calor.specs import spec
from calor_linalg import solutions as solutions

DTYPES = ["float32", "float64", "complex64", "complex128"]
_RANDOM = np.random.default_rng(0)


def defined(row: Op, *arrays: Any, **attributes: Any) -> Graph:
    """Return the graph of a row's definition, in which no kept composite is left."""
    specs = tuple(spec(a.shape, as_dtype(a.dtype)) for a in arrays)
    return decompose(trace_function(lambda *t: row(*t, **attributes), specs, {}))


def run(name: str, *arrays: Any, **attributes: Any) -> Any:
    """Compute a row by its definition."""
    with np.errstate(all="ignore"):
        made = interpret(defined(find(name), *arrays, **attributes), arrays)
    return made if len(made) > 1 else made[0]


def adjoint(x: Any) -> Any:
    """Return the conjugate transpose."""
    return x.conj().swapaxes(-1, -2)


def orthonormal(x: Any) -> None:
    """Raise unless the columns are."""
    eps = np.finfo(x.dtype).eps
    inner = adjoint(x) @ x
    np.testing.assert_allclose(inner, np.broadcast_to(np.eye(x.shape[-1]), inner.shape),
                               rtol=0, atol=50 * eps)  # fmt: skip


_LOW = _RANDOM.standard_normal((8, 2)) @ _RANDOM.standard_normal((2, 6))
_HILBERT = 1 / (np.arange(8)[:, None] + np.arange(8) + 1.0)
MATRICES = {
    "random": _RANDOM.standard_normal((20, 20)),
    "odd": _RANDOM.standard_normal((5, 5)),
    "batch": _RANDOM.standard_normal((2, 3, 4, 4)),
    "zero": np.zeros((4, 4)),
    "ones": np.ones((5, 5)),
    "identity": np.eye(4),
    "repeated": np.kron(np.eye(3), np.ones((2, 2))),
    "ill-conditioned": _HILBERT,
    "huge": np.eye(4) * 1e200 + 1e199,
    "tiny": np.eye(4) * 1e-200 + 1e-201,
    "graded": np.diag([1e-300, 1.0, 1e-160]),
    "one": np.array([[-3.0]]),
}
NOT_SQUARE = {
    "low rank": _LOW,
    "wide": _RANDOM.standard_normal((3, 7)),
    "column": np.ones((4, 1)),
    "zero, tall": np.zeros((4, 2)),
}
# Large and small numbers are for types that have them.
CASES = [
    (name, dtype)
    for name in [*MATRICES, *NOT_SQUARE]
    for dtype in DTYPES
    if dtype.endswith(("64", "128")) or name not in ("huge", "tiny", "graded")
    if not (dtype == "complex64" and name in ("huge", "tiny", "graded"))
]


def matrix(name: str, dtype: str) -> Any:
    """Return the matrix; complex ones with phases that differ."""
    x = (MATRICES | NOT_SQUARE)[name]
    if "complex" in dtype and name not in ("identity", "repeated"):
        x = x * np.exp(1j * np.arange(x.shape[-1]))
    return x.astype(dtype)


@pytest.mark.parametrize(("name", "dtype"), CASES)
@pytest.mark.parametrize("full", [False, True])
def test_svd(name: str, dtype: str, full: bool) -> None:
    x = matrix(name, dtype)
    u, s, vh = run("svd", x, full_matrices=full)
    expected = np.linalg.svd(x, compute_uv=False)
    scale = max(float(expected.max(initial=0)), np.finfo(s.dtype).tiny)
    eps, k = np.finfo(dtype).eps, s.shape[-1]
    np.testing.assert_allclose(s / scale, expected / scale, rtol=0, atol=20 * eps)
    rebuilt = (u[..., :k] * (s / scale)[..., None, :]) @ vh[..., :k, :]
    np.testing.assert_allclose(rebuilt, x / scale, rtol=0, atol=40 * eps)
    orthonormal(u)
    orthonormal(adjoint(vh))
    assert (u.shape[-1], vh.shape[-2]) == (x.shape[-2:] if full else (k, k))


@pytest.mark.parametrize(("name", "dtype"), [c for c in CASES if c[0] in MATRICES])
def test_eigh(name: str, dtype: str) -> None:
    x = matrix(name, dtype)
    x = x / 2 + adjoint(x) / 2
    values, vectors = run("eigh", x)
    expected = np.linalg.eigvalsh(x)
    scale = max(float(np.abs(expected).max()), np.finfo(values.dtype).tiny)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(values / scale, expected / scale, rtol=0, atol=20 * eps)
    rebuilt = (vectors * (values / scale)[..., None, :]) @ adjoint(vectors)
    np.testing.assert_allclose(rebuilt, x / scale, rtol=0, atol=40 * eps)
    orthonormal(vectors)


def nearest(found: Any, expected: Any) -> float:
    """Return the largest distance of paired eigenvalues, each paired with the nearest left."""
    left, worst = list(expected), 0.0
    for value in found:
        distances = np.abs(np.array(left) - value)
        worst = max(worst, float(distances.min()))
        left.pop(int(distances.argmin()))
    return worst


DEFECTIVE = np.diag([1.0, 1.0, 2.0]) + np.eye(3, k=1)
GENERAL = {**MATRICES, "defective": DEFECTIVE, "cyclic": np.roll(np.eye(4), 1, 0)}


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("name", [n for n in GENERAL if n not in ("huge", "tiny", "graded")])
def test_eig(name: str, dtype: str) -> None:
    x = GENERAL[name].astype(dtype)
    values, vectors = run("eig", x)
    assert values.dtype == vectors.dtype == np.result_type(dtype, np.complex64)
    eps, scale = np.finfo(dtype).eps, max(float(np.linalg.norm(x, 2, (-2, -1)).max()), 1e-30)
    residual = x @ vectors - vectors * values[..., None, :]
    np.testing.assert_allclose(residual / scale, 0, atol=200 * eps)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=-2), 1, rtol=1e-5)
    if name not in ("defective", "ones", "repeated"):
        wide = GENERAL[name].reshape(-1, *x.shape[-2:]).astype(np.result_type(dtype, np.float64))
        pairs = zip(values.reshape(-1, x.shape[-1]), wide, strict=True)
        assert max(nearest(v, np.linalg.eigvals(a)) for v, a in pairs) < 200 * eps * scale


@pytest.mark.parametrize(("name", "dtype"), CASES)
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr(name: str, dtype: str, mode: str) -> None:
    x = matrix(name, dtype)
    q, r = run("qr", x, mode=mode)
    scale = max(float(np.abs(x).max()), np.finfo(r.dtype).tiny)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(q @ (r / scale), x / scale, rtol=0, atol=40 * eps)
    np.testing.assert_array_equal(r, np.triu(r))
    orthonormal(q)
    expected = np.linalg.qr(x, mode)
    assert [t.shape for t in (q, r)] == [t.shape for t in expected]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_lu_is_the_reference_s(name: str, dtype: str) -> None:
    x = matrix(name, dtype)
    packed, order = run("lu", x)
    reference = find("lu").reference
    assert reference is not None
    expected, expected_order = reference(x)
    scale = max(float(np.abs(x).max()), np.finfo(expected.dtype).tiny)
    eps = np.finfo(dtype).eps
    # Roundings may choose another of two equal pivots only where nothing is left.
    if name not in ("ones", "low rank", "repeated"):
        np.testing.assert_array_equal(order, expected_order)
    low, up = np.tril(packed, -1), np.triu(packed)
    k = min(x.shape[-2:])
    low = low[..., :k] + np.eye(*low.shape[-2:])[:, :k]
    rows = np.take_along_axis(x, order[..., None], -2)
    np.testing.assert_allclose(low @ (up[..., :k, :] / scale), rows / scale, rtol=0, atol=20 * eps)


def test_nothing_is_raised_for_data() -> None:
    with np.errstate(all="ignore"):
        bad = np.array([[1.0, 2.0], [np.nan, 1.0]])
        assert np.isnan(run("svd", bad, full_matrices=False)[1]).any()
        assert np.isnan(run("eigh", bad)[0]).any()
        assert np.isnan(run("eig", bad)[0]).any()
        assert np.isnan(run("cholesky", -np.eye(2))).any()
        assert not np.isfinite(run("inv", np.zeros((2, 2)))).any()
        assert run("det", np.zeros((2, 2))) == 0
        sign, size = run("slogdet", np.zeros((2, 2)))
        assert (sign, size) == (0, -np.inf)


@pytest.mark.parametrize("norm", [0.0, 1e-3, 1.0, 5.0, 6.0, 40.0])
def test_expm_at_any_size(norm: float) -> None:
    angle = np.array([[0.0, -norm], [norm, 0.0]])
    batch = np.stack([angle, angle / 7])
    made = run("expm", batch)
    for x, got in zip((norm, norm / 7), made, strict=True):
        expected = [[np.cos(x), -np.sin(x)], [np.sin(x), np.cos(x)]]
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-13)


FACTORS: list[tuple[str, dict[str, Any]]] = [
    ("cholesky", {}), ("lu", {}), ("qr", {"mode": "reduced"}), ("eigh", {}),
    ("eig", {}), ("svd", {"full_matrices": False}), ("inv", {}), ("det", {}), ("expm", {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "attributes"), FACTORS, ids=[n for n, _ in FACTORS])
def test_a_definition_does_not_grow_with_the_matrix(name: str, attributes: Any) -> None:
    small, large = (defined(find(name), np.eye(n), **attributes) for n in (8, 64))
    assert len(small.nodes) == len(large.nodes)


def test_every_kept_row_has_a_definition_and_a_gradient() -> None:
    names = "cholesky qr svd eig eigh lu triangular_solve solve inv det adjugate slogdet pinv expm"
    for name in names.split():
        row = find(name)
        assert row.decompose is not None, name
        assert row.vjp is not None, name
    assert find("solve") is solutions.solve
