"""NumPy's functions on tensors: calor's of that meaning, or a refusal; nothing goes to the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor.methods import numpy_functions

N = np.array([[0.5, 0.25, 0.75], [0.125, 0.5, 0.0625]], np.float32)
S = np.array([[2.0, 0.5], [0.5, 1.0]], np.float32)
WHOLE = np.array([[1, 2], [3, 0]])

# Calls whose arguments are more than one array, by NumPy's function.
CALLS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: np.sum(x, 0, keepdims=True),
    "mean": lambda x: np.mean(x, axis=1),
    "std": lambda x: np.std(x, ddof=1),
    "var": lambda x: np.var(x, 0),
    "clip": lambda x: np.clip(x, a_min=0.2, a_max=0.5),
    "where": lambda x: np.where(x > 0.3, x, 0),
    "concatenate": lambda x: np.concatenate([x, x], 1),
    "concat": lambda x: np.concat([x, x], axis=1),
    "stack": lambda x: np.stack([x, x], axis=1),
    "vstack": lambda x: np.vstack([x, x[0]]),
    "hstack": lambda x: np.hstack([x, x]),
    "reshape": lambda x: np.reshape(x, (3, 2)),
    "transpose": lambda x: np.transpose(x, (1, 0)),
    "permute_dims": lambda x: np.permute_dims(x, (1, 0)),
    "moveaxis": lambda x: np.moveaxis(x, 0, 1),
    "swapaxes": lambda x: np.swapaxes(x, 0, 1),
    "expand_dims": lambda x: np.expand_dims(x, (0, 1)),
    "broadcast_to": lambda x: np.broadcast_to(x, (4, 2, 3)),
    "broadcast_arrays": lambda x: np.broadcast_arrays(x, x[0]),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x),
    "tensordot": lambda x: np.tensordot(x, x, 2),
    "take": lambda x: np.take(x, np.array([0, 1]), 1),
    "take_along_axis": lambda x: np.take_along_axis(x, np.array([[0], [1]]), 1),
    "repeat": lambda x: np.repeat(x, 2, 0),
    "tile": lambda x: np.tile(x, (2, 1)),
    "roll": lambda x: np.roll(x, 1, 0),
    "quantile": lambda x: np.quantile(x, 0.5, axis=1),
    "searchsorted": lambda x: np.searchsorted(x[0][::2], x[1]),
    "full_like": lambda x: np.full_like(x, 2.0),
    "isin": lambda x: np.isin(x, x[0]),
    "isclose": lambda x: np.isclose(x, x[0]),
    "allclose": lambda x: np.allclose(x, x),
    "array_equal": lambda x: np.array_equal(x, x[0]),
    "meshgrid": lambda x: np.meshgrid(x[0], x[1]),
    "dot": lambda x: np.dot(x, x.T),
    "astype": lambda x: np.astype(x, "float64"),
    "bincount": lambda x: np.bincount((x * 8).astype("int64").reshape(-1), minlength=9),
    "cumulative_sum": lambda x: np.cumulative_sum(x, axis=1),
    "cumulative_prod": lambda x: np.cumulative_prod(x, axis=1),
    "cumsum": lambda x: np.cumsum(x, 1),
    "cumprod": lambda x: np.cumprod(x, 1),
    "outer": lambda x: np.outer(x[0], x[1]),
    "linalg.outer": lambda x: np.linalg.outer(x[0], x[1]),
    "linalg.solve": lambda x: np.linalg.solve(S @ S, x),
    "linalg.matrix_power": lambda x: np.linalg.matrix_power(x @ x.T, 3),
    "fft.irfft": lambda x: np.fft.irfft(np.fft.rfft(x)),
    "fft.irfftn": lambda x: np.fft.irfftn(np.fft.rfftn(x)),
}
SQUARE = ("cholesky", "det", "eigh", "eigvalsh", "inv", "matrix_rank", "slogdet", "svdvals")
# They write to a file or an array.
ELSEWHERE = ("save", "savez", "savez_compressed", "savetxt", "copyto", "empty_like")
NAMES = sorted(n.removeprefix("numpy.") for n in numpy_functions.FUNCTIONS)


def same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, tuple | list):
        assert len(ours) == len(theirs)
        for mine, its in zip(ours, theirs, strict=True):
            same(mine, its)
        return
    if isinstance(theirs, np.ndarray):
        assert isinstance(ours, calor.Tensor)
        assert ours.shape == theirs.shape
    got = ours.numpy() if isinstance(ours, calor.Tensor) else ours
    np.testing.assert_allclose(np.abs(got), np.abs(theirs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ELSEWHERE])
def test_functions_are_calors_of_that_meaning(name: str) -> None:
    module, _, short = name.rpartition(".")
    function = getattr(getattr(np, module) if module else np, short)
    call = CALLS.get(name, function)
    array = (S if module == "linalg" and short in SQUARE else N).copy()
    same(call(calor.asarray(array)), call(array))


@pytest.mark.parametrize("name", sorted(numpy_functions.UFUNCS))
def test_ufuncs_are_calors_of_that_meaning(name: str) -> None:
    ufunc = getattr(np, name)
    arrays = [WHOLE, WHOLE + 1] if numpy_functions.UFUNCS[name].startswith("bit") else [S, S + 1]
    if name in ("arcsin", "arccos", "arctanh"):
        arrays = [S / 4]
    if name == "arccosh":
        arrays = [S + 1]
    arrays = arrays[: ufunc.nin]
    same(ufunc(*map(calor.asarray, arrays)), ufunc(*arrays))
    if ufunc.nin == 2:
        same(ufunc(arrays[0], calor.asarray(arrays[1])), ufunc(*arrays))


@pytest.mark.parametrize(("name", "method"), sorted(numpy_functions.METHODS))
def test_methods_of_ufuncs(name: str, method: str) -> None:
    call = getattr(getattr(np, name), method)
    array = N > 0.3 if name.startswith("logical") else N
    same(call(calor.asarray(array)), call(array))
    same(call(calor.asarray(array), axis=1), call(array, axis=1))


def test_results_go_to_a_tensor() -> None:
    x, out = calor.asarray(N), calor.zeros(N.shape)
    assert np.add(x, N, out=out) is out
    assert out.tolist() == (N + N).tolist()
    with pytest.raises(TypeError, match=r"does not take the result of np\.exp with a tensor"):
        np.exp(x, out=np.zeros(N.shape))


def test_elements_are_written_out_where_that_is_said(tmp_path: Any) -> None:
    x = calor.asarray(N)
    np.savez(tmp_path / "x.npz", x=x)
    assert np.load(tmp_path / "x.npz")["x"].tolist() == N.tolist()
    array = np.zeros_like(N)
    np.copyto(array, x)
    assert array.tolist() == N.tolist()


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (np.spacing, r"np\.spacing does not take a tensor: give it x\.numpy\(\)"),
    (lambda x: np.percentile(x, 5), r"np\.percentile does not take a tensor"),
    (lambda x: np.unwrap(x), r"np\.unwrap does not take a tensor"),
    (lambda x: np.sum(x, where=x > 0), r"np\.sum of a tensor has no argument where="),
    (lambda x: np.copy(x, order="F"), r"np\.copy of a tensor: .* give it x\.numpy\(\)"),
    (lambda x: np.add(x, 1, dtype="float64"), r"np\.add of a tensor has no argument dtype="),
    (lambda x: np.hypot.reduce(x), r"np\.hypot\.reduce does not take a tensor"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_others_are_refused(call: Callable[[Any], Any], message: str) -> None:
    for function in (call, calor.jit(call)):
        with pytest.raises(TypeError, match=message):
            function(calor.asarray(N))


def test_gradients_and_traces_pass_through() -> None:
    x = calor.asarray(N, requires_grad=True)
    np.sum(np.exp(x)).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp(N), rtol=1e-6)
    made = calor.jit(lambda t: np.concatenate([np.log1p(t), t]))(calor.asarray(N))
    np.testing.assert_allclose(made.numpy(), np.concatenate([np.log1p(N), N]), rtol=1e-6)


def test_programs_that_share_get_numpys_own_where_nothing_moves() -> None:
    x, leaf = calor.asarray(N), calor.asarray(N, requires_grad=True)
    with calor.shared_views():
        found = np.convolve(x[0], [1.0, 2.0])
        np.testing.assert_array_equal(found, np.convolve(N[0], [1.0, 2.0]))
        with pytest.raises(TypeError, match=r"records no gradients; give it x\.detach\(\)"):
            np.convolve(leaf[0], [1.0])
        with pytest.raises(TypeError, match=r"np\.convolve does not take a tensor"):
            calor.jit(lambda t: np.convolve(t[0], [1.0]))(x)
