"""Wrong operands are refused at the line that made them; matrices without a result at the look."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor as namespace
from calor.errors import ArgumentError, AxisError, DeviceError, DTypeError, ShapeError
from calor_linalg import definitions, rows

# Not checked for types: these arguments are wrong on purpose.
calor: Any = namespace
linalg: Any = namespace.linalg

M = calor.asarray([[1.0, 2.0], [3.0, 4.0]])
T = calor.ones((2, 3))
V = calor.asarray([1.0, 2.0, 3.0])
N = calor.asarray(1.0)
I = calor.asarray([[1, 2], [3, 4]])  # noqa: E741
H = M.astype("float16")
F8 = M.astype("float8_e5m2")

ERRORS = [
    (lambda: N @ M, ShapeError, r"matmul: shapes \(\) and \(2, 2\): a number .*x1 \* x2"),
    (lambda: calor.matmul(M, 2.0), ShapeError, "a number has no rows or columns"),
    (lambda: T @ T, ShapeError, r"\(2, 3\) and \(2, 3\) do not fit; .*3 columns .*2 rows"),
    (lambda: V @ M, ShapeError, "the first has 3 columns and the second 2 rows"),
    (lambda: calor.ones((2, 1, 1)) @ calor.ones((3, 1, 1)), ShapeError, "axis 0 .* size 2, .* 3"),
    (lambda: calor.ones((2, 1)) @ T, ShapeError, "1 columns and the second 2 rows"),
    (lambda: M @ F8, DTypeError, "matmul: float32 and float8_e5m2 have no common type"),
    (lambda: F8 @ F8, DTypeError, r"storage type .* x.astype\(calor.float32\)"),
    (lambda: calor.matmul([1], M), DTypeError, r"operand is a list|is \[1\]; pass"),
    (lambda: calor.matrix_transpose(V), ShapeError, "matrix_transpose: .* needs two axes"),
    (lambda: calor.tensordot(M, M, axes=3), ShapeError, "3 axes cannot be summed over"),
    (lambda: calor.tensordot(M, M, axes=((0, 0), (0, 1))), ShapeError, "each axis once"),
    (lambda: calor.tensordot(M, T, axes=((0,), (1,))), ShapeError, "have sizes 2 and 3"),
    (lambda: calor.tensordot(M, M, axes=((0,), (2,))), AxisError, "axis 2 is out of range"),
    (lambda: calor.tensordot(M, M, axes=(0, 1, 1)), ShapeError, "a number or a pair"),
    (lambda: calor.vecdot(V, M), ShapeError, "have 3 and 2 elements"),
    (lambda: calor.vecdot(V, T, axis=0), ShapeError, "vecdot: axis 0 does not fit"),
    (lambda: calor.vecdot(V, V, axis=-2), ShapeError, "vecdot: axis -2 does not fit"),
    (lambda: linalg.outer(V, M), ShapeError, "both operands have one axis"),
    (lambda: linalg.cross(V, M), ShapeError, "need size 3 along axis -1"),
    (lambda: linalg.cross(V, T, axis=0), ShapeError, "cross: axis 0 .* pass a negative axis"),
    (lambda: linalg.diagonal(V), ShapeError, "diagonal: x has shape .* at least two axes"),
    (lambda: linalg.diagonal(M, offset=0.5), TypeError, "whole number, not float"),
    (lambda: linalg.trace(V), ShapeError, "at least two axes"),
    (lambda: linalg.vector_norm(M, axis=2), AxisError, "vector_norm: axis 2"),
    (lambda: linalg.vector_norm(M, ord="fro"), ArgumentError, "ord is 'fro'; pass a real number"),
    (lambda: linalg.vector_norm(M[:0], ord=-calor.inf), ShapeError, "needs at least one element"),
    (lambda: linalg.matrix_norm(V), ShapeError, "matrix_norm: .* at least two axes"),
    (lambda: linalg.matrix_norm(M, ord=3), ArgumentError, "ord is 3; pass 'fro', 'nuc'"),
    (lambda: linalg.matrix_norm(M[:0], ord=-2), ShapeError, "at least one row and one column"),
    (lambda: linalg.matrix_norm(M[:0], ord=-calor.inf), ShapeError, "inf needs at least one row"),
    (lambda: linalg.matrix_norm(M[:, :0], ord=-1), ShapeError, "-1 needs at least one column"),
    (lambda: linalg.matrix_power(T, 2), ShapeError, "are not square"),
    (lambda: linalg.matrix_power(M, 0.5), TypeError, "whole number, not float"),
    (
        lambda: linalg.qr(M, mode="raw"),
        ArgumentError,
        "mode is 'raw'; pass 'reduced' or 'complete'",
    ),
    (lambda: linalg.solve(M, V), ShapeError, r"shape \(3,\) does not fit .*\(2, 2\)"),
    (lambda: linalg.solve(M, N), ShapeError, r"pass a vector \(2,\)"),
    (lambda: linalg.solve(T, V), ShapeError, "solve: .* are not square"),
    (lambda: linalg.solve(calor.ones((2, 2, 2)), calor.ones((3, 2, 1))), ShapeError, "broadcast"),
    (lambda: linalg.solve_triangular(T, V), ShapeError, "solve_triangular: .* square"),
    (lambda: linalg.lstsq(T, V), ShapeError, r"lstsq: x2 of shape \(3,\) does not fit"),
    (lambda: linalg.pinv(M, rtol=1j), DTypeError, "rtol is complex; pass a real tolerance"),
    (lambda: linalg.pinv(M, rtol=calor.asarray([1.0])), ShapeError, "does not broadcast"),
    (lambda: linalg.matrix_rank(V), ShapeError, "matrix_rank: .* at least two axes"),
]


@pytest.mark.parametrize(("call", "error", "match"), ERRORS, ids=[m for _, _, m in ERRORS])
def test_refused(call: Callable[[], Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()


SQUARE = ["cholesky", "eigh", "eigvalsh", "inv", "det", "slogdet", "expm"]
ANY_SHAPE = ["qr", "svd", "svdvals", "lu", "pinv", "matrix_rank"]


@pytest.mark.parametrize("name", [*SQUARE, *ANY_SHAPE])
@pytest.mark.parametrize("x", [I, H, F8, M > 0], ids=["int64", "float16", "float8", "bool"])
def test_dtypes_are_refused_with_advice(name: str, x: Any) -> None:
    with pytest.raises(DTypeError, match=r"computes in float32.*cast with x.astype\(calor.float32"):
        getattr(linalg, name)(x)


@pytest.mark.parametrize("name", SQUARE)
def test_square_matrices_are_needed(name: str) -> None:
    with pytest.raises(ShapeError, match=r"\(2, 3\) are not square; pass shape"):
        getattr(linalg, name)(T)
    with pytest.raises(ShapeError, match="at least two axes"):
        getattr(linalg, name)(V)


SINGULAR = calor.ones((2, 2))
NOT_A_NUMBER = calor.full((2, 2), calor.nan)
WITHOUT_RESULT = [
    (lambda: linalg.inv(SINGULAR), "inv: the matrix is singular; use calor.linalg.lstsq"),
    (lambda: linalg.inv(calor.zeros((3, 2, 2))), r"one of the matrices of shape \(3, 2, 2\)"),
    (lambda: linalg.solve(SINGULAR, M), "solve: the matrix is singular"),
    (lambda: linalg.matrix_power(SINGULAR, -1), "singular"),
    (lambda: linalg.svd(NOT_A_NUMBER).S, "svd: .* NaN or infinite elements"),
]


@pytest.mark.parametrize(("call", "match"), WITHOUT_RESULT, ids=[m for _, m in WITHOUT_RESULT])
def test_without_a_result(call: Callable[[], Any], match: str) -> None:
    made = call()
    with pytest.raises(linalg.LinAlgError, match=match) as caught:
        made.numpy()
    assert isinstance(caught.value, np.linalg.LinAlgError)
    assert isinstance(caught.value, DeviceError)
    assert caught.value.op is not None
    # The failed tensor stays failed; the device goes on.
    with pytest.raises(linalg.LinAlgError):
        made.numpy()
    assert (M + 1).tolist() == [[2.0, 3.0], [4.0, 5.0]]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("upper", [True, False])
def test_cholesky_raises_where_it_is_called(
    whole: bool, upper: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not whole:
        # As on a device that runs the definition, which gives NaN.
        monkeypatch.setattr(rows, "cholesky", definitions.cholesky)
    bad = calor.asarray([[[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]])
    with pytest.raises(np.linalg.LinAlgError, match="one of the matrices .* not positive"):
        linalg.cholesky(bad, upper=upper)
    low, info = linalg.cholesky_ex(bad, upper=upper)
    assert info.tolist() == [2, 0]
    assert low[1].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert linalg.cholesky(calor.zeros((2, 0, 0)), upper=upper).shape == (2, 0, 0)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(("n", "bad"), [(1, 0), (6, 0), (6, 3), (70, 41), (70, 69)])
def test_factors_up_to_the_first_bad_pivot(
    n: int, bad: int, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not whole:
        monkeypatch.setattr(rows, "cholesky_or_nan", definitions.cholesky)
    a = np.random.default_rng(n).standard_normal((n, n))
    good = a @ a.T + n * np.eye(n)
    spoilt = good.copy()
    spoilt[bad, bad] = -1.0
    stack = np.stack([spoilt, good])
    low, info = (t.numpy() for t in linalg.cholesky_ex(calor.asarray(stack)))
    assert info.tolist() == [bad + 1, 0]
    np.testing.assert_allclose(low[1], np.linalg.cholesky(good), rtol=1e-12)
    # The rows above the spoilt one do not see it.
    np.testing.assert_allclose(low[0, :bad, :bad], np.linalg.cholesky(good)[:bad, :bad])
    assert np.isfinite(low[0, :, :bad]).all()


def test_factors_without_an_error_take_no_loop() -> None:
    graph = calor.trace(linalg.cholesky_ex, calor.zeros((2, 70, 70)))
    names = {node.op.name for node in graph.nodes}
    assert "cholesky_or_nan" in names
    assert not names & {"scan", "while_loop"}


def test_gradients_without_an_error_are_those_of_cholesky() -> None:
    x = calor.asarray([[4.0, 1.0], [1.0, 3.0]])
    found = [
        calor.grad(lambda x, f=f: (f(x) * calor.asarray([[1.0, 0.0], [2.0, 3.0]])).sum())(x)
        for f in (linalg.cholesky, lambda x: linalg.cholesky_ex(x).L)
    ]
    assert found[0].tolist() == found[1].tolist()


def test_a_jitted_cholesky_raises_on_the_reference() -> None:
    with pytest.raises(linalg.LinAlgError, match="add a small number to its diagonal"):
        calor.jit(linalg.cholesky)(-M).numpy()


REFUSED = [
    (lambda: linalg.lstsq(M, V, rtol=0.1, rcond=0.1), ArgumentError, "pass one of them"),
    (lambda: linalg.lu_solve(linalg.lu_factor(T), V), ShapeError, "not square"),
    (lambda: linalg.lu_unpack((M, V)), DTypeError, "both results of calor.linalg.lu_factor"),
    (lambda: linalg.lu_unpack((M, calor.asarray([1]))), ShapeError, r"they have shape \(2,\)"),
    (lambda: linalg.ldl_factor(T), ShapeError, "not square"),
    (lambda: linalg.ldl_solve((M, V), V), DTypeError, "both results of calor.linalg.ldl_factor"),
    (lambda: linalg.ldl_solve((M, calor.asarray([1])), V), ShapeError, r"int64\[1\] do not fit"),
    (lambda: linalg.cholesky_solve(calor.ones(3), M), ShapeError, "they have 2 rows"),
    (lambda: linalg.householder_product(T, calor.ones(2)), ShapeError, "wider than tall"),
    (lambda: linalg.ormqr(M, calor.ones(3), M), ShapeError, "both results of calor.linalg.geqrf"),
    (lambda: linalg.ormqr(M, calor.ones(2), T.mT), ShapeError, "does not fit reflections"),
    (lambda: linalg.multi_dot([M]), ArgumentError, "pass two or more"),
    (lambda: linalg.multi_dot([M, T.mT]), ShapeError, "matrix 1 of shape"),
    (lambda: linalg.tensorinv(T, ind=3), ArgumentError, "from 1 to 2"),
    (lambda: linalg.tensorinv(T, ind=1), ShapeError, "not square"),
    (lambda: linalg.tensorsolve(T, V), ShapeError, "no square map"),
    (lambda: linalg.svd_lowrank(M, 3), ArgumentError, "from 0 to 2"),
    (lambda: linalg.norm(calor.ones((2, 2, 2)), 1), ArgumentError, "3 axes"),
]


@pytest.mark.parametrize(("call", "kind", "match"), REFUSED, ids=[m for *_, m in REFUSED])
def test_what_does_not_fit_is_refused(call: Callable[[], Any], kind: Any, match: str) -> None:
    with pytest.raises(kind, match=match):
        call()


def test_singular_matrices_with_a_result() -> None:
    assert linalg.det(SINGULAR).item() == 0
    sign, size = linalg.slogdet(SINGULAR)
    assert (sign.item(), size.item()) == (0.0, -np.inf)
    assert linalg.lu(SINGULAR).U.tolist() == [[1.0, 1.0], [0.0, 0.0]]
    np.testing.assert_allclose(linalg.pinv(SINGULAR).numpy(), np.full((2, 2), 0.25), rtol=1e-5)
