"""LAMB, Adan and Adafactor beside their formulas, written in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor
from calor import train
from calor.errors import ArgumentError, DTypeError
from calor_train import LAMB, Adafactor, Adan

Array = np.ndarray[Any, Any]
STEPS = 6
SHAPES = [(), (5,), (3, 4), (2, 3, 4)]


def _gradients(shape: tuple[int, ...], complex_: bool = False) -> list[Array]:
    draws = np.random.default_rng(7)
    made = [draws.standard_normal((*shape, 1 + complex_)).astype(np.float32) for _ in range(STEPS)]
    return [np.asarray(g[..., 0] + 1j * g[..., 1] if complex_ else g[..., 0]) for g in made]


def _start(shape: tuple[int, ...]) -> Array:
    return np.asarray(np.random.default_rng(3).standard_normal(shape), np.float32)


def _step(optimizer: Any, g: Any) -> None:
    optimizer.param_groups[0].step([g])


def _trained(optimizer: Any, p: Any, gradients: list[Array], jits: bool) -> Array:
    call = calor.jit(_step) if jits else _step
    for g in gradients:
        call(optimizer, calor.asarray(g))
    made: Array = p.detach().numpy()
    return made


def _norm(x: Array) -> Any:
    return np.sqrt(np.sum(x * x))


@pytest.mark.parametrize("jits", [False, True])
@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.3}, {"maximize": True, "eps": 1e-2}])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_lamb(shape: tuple[int, ...], options: dict[str, Any], jits: bool) -> None:
    start = _start(shape)
    p = calor.asarray(start, requires_grad=True)
    lamb = LAMB([p], lr=0.1, betas=(0.8, 0.95), **options)
    wanted, m, v = start.astype(np.float64), 0.0, 0.0
    for t, given in enumerate(_gradients(shape), 1):
        g = -given.astype(np.float64) if options.get("maximize") else given.astype(np.float64)
        m, v = 0.8 * m + 0.2 * g, 0.95 * v + 0.05 * g * g
        u = m / (1 - 0.8**t) / (np.sqrt(v / (1 - 0.95**t)) + options.get("eps", 1e-6))
        u = u + options.get("weight_decay", 0.0) * wanted
        wanted = wanted - 0.1 * _norm(wanted) / _norm(u) * u
    made = _trained(lamb, p, _gradients(shape), jits)
    np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-5)


def test_lamb_moves_what_is_zero() -> None:
    p, still = calor.zeros(3, requires_grad=True), calor.zeros(2, requires_grad=True)
    lamb = LAMB([p, still], lr=0.5)
    lamb.update([p, still], [calor.asarray([1.0, -1.0, 0.0]), calor.zeros(2)])
    np.testing.assert_allclose(p.detach().numpy(), [-0.5, 0.5, 0.0], rtol=1e-5)
    assert still.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("jits", [False, True])
@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.3}, {"maximize": True, "eps": 1e-2}])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_adan(shape: tuple[int, ...], options: dict[str, Any], jits: bool) -> None:
    start, lr = _start(shape), 0.1
    p = calor.asarray(start, requires_grad=True)
    adan = Adan([p], lr=lr, betas=(0.9, 0.8, 0.95), **options)
    # The rates of the paper are 1 minus these.
    a, b, c = 0.1, 0.2, 0.05
    wanted, m, v, n = start.astype(np.float64), 0.0, 0.0, 0.0
    before = None
    for t, given in enumerate(_gradients(shape), 1):
        g = -given.astype(np.float64) if options.get("maximize") else given.astype(np.float64)
        d = 0.0 if before is None else g - before
        before = g
        m, v = (1 - a) * m + a * g, (1 - b) * v + b * d
        n = (1 - c) * n + c * (g + (1 - b) * d) ** 2
        step = m / (1 - (1 - a) ** t) + (1 - b) * v / (1 - (1 - b) ** t)
        size = lr / (np.sqrt(n / (1 - (1 - c) ** t)) + options.get("eps", 1e-8))
        wanted = (wanted - size * step) / (1 + lr * options.get("weight_decay", 0.0))
    made = _trained(adan, p, _gradients(shape), jits)
    np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [LAMB, Adan])
def test_complex_parameters_are_pairs(kind: Any) -> None:
    """Both parts have averages, and one length."""
    start = _start((3, 2))
    whole = calor.asarray(start[:, 0] + 1j * start[:, 1], requires_grad=True)
    pairs = calor.asarray(start, requires_grad=True)
    gradients = _gradients((3,), complex_=True)
    made = _trained(kind([whole], lr=0.1), whole, gradients, False)
    parts = [np.stack([g.real, g.imag], -1) for g in gradients]
    wanted = _trained(kind([pairs], lr=0.1), pairs, parts, False)
    np.testing.assert_allclose(np.stack([made.real, made.imag], -1), wanted, rtol=1e-5)


def _rms(x: Array) -> Any:
    return np.sqrt(np.mean(x * x))


@pytest.mark.parametrize("jits", [False, True])
@pytest.mark.parametrize(
    "options",
    [{}, {"lr": 0.9, "beta2_decay": -0.5}, {"weight_decay": 0.1, "d": 1.5, "maximize": True},
     {"eps": (0.5, 3.0), "lr": 0.2}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_adafactor(shape: tuple[int, ...], options: dict[str, Any], jits: bool) -> None:
    how = {"lr": 0.01, "beta2_decay": -0.8, "d": 1.0, "eps": (2.0**-23, 1e-3), "weight_decay": 0.0}
    how |= options
    (first, second), start = how["eps"], _start(shape)
    p = calor.asarray(start, requires_grad=True)
    adafactor = Adafactor([p], **options)
    wanted, rows, columns, v = start.astype(np.float64), 0.0, 0.0, 0.0
    for t, given in enumerate(_gradients(shape), 1):
        g = -given.astype(np.float64) if options.get("maximize") else given.astype(np.float64)
        share = t ** how["beta2_decay"]
        if g.ndim > 1:
            rows = rows + share * (np.mean(g * g, -1, keepdims=True) - rows)
            columns = columns + share * (np.mean(g * g, -2, keepdims=True) - columns)
            square = rows * columns / np.maximum(np.mean(rows, -2, keepdims=True), first)
        else:
            square = v = v + share * (g * g - v)
        u = g / np.sqrt(np.maximum(square, first**2))
        size = max(second, _rms(wanted)) * min(how["lr"], t**-0.5)
        wanted = wanted * (1 - how["lr"] * how["weight_decay"])
        wanted = wanted - size * u / max(1, _rms(u) / how["d"])
    made = _trained(adafactor, p, _gradients(shape), jits)
    np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-5)


def test_adafactor_keeps_a_row_and_a_column_of_a_matrix() -> None:
    matrix, vector = (calor.ones(s, requires_grad=True) for s in ((2, 3, 4), (5,)))
    state = Adafactor([matrix, vector]).state_dict()["state"]
    assert {k: v.shape for k, v in state["0"].items() if k != "step"} == {
        "row_var": (2, 3, 1),
        "col_var": (2, 1, 4),
    }
    assert {k: v.shape for k, v in state["1"].items() if k != "step"} == {"variance": (5,)}


@pytest.mark.parametrize("kind", [LAMB, Adan, Adafactor])
class TestEach:
    def test_another_rate_is_the_same_trace(self, kind: Any) -> None:
        p = calor.asarray(np.eye(3, dtype=np.float32), requires_grad=True)
        optimizer, step = kind([p], lr=0.01), calor.jit(_step)
        for rate in (0.1, 0.2, 0.3):
            optimizer.lr = rate
            step(optimizer, calor.ones((3, 3)))
        assert step.trace_count == 1

    def test_a_stored_run_goes_on_with_the_same_bits(self, kind: Any, tmp_path: Any) -> None:
        def made() -> tuple[list[Any], Any]:
            tensors = [calor.asarray(_start(s), requires_grad=True) for s in SHAPES]
            return tensors, kind([{"params": tensors[:2]}, {"params": tensors[2:], "lr": 0.2}])

        def steps(tensors: list[Any], optimizer: Any, some: slice) -> list[Any]:
            for place in range(STEPS)[some]:
                optimizer.update(tensors, [calor.asarray(_gradients(s)[place]) for s in SHAPES])
            return [t.detach().numpy() for t in tensors]

        tensors, optimizer = made()
        wanted = steps(tensors, optimizer, slice(None))
        tensors, optimizer = made()
        halfway = steps(tensors, optimizer, slice(3))
        calor.save(optimizer.state_dict(), tmp_path / "state.calor")
        tensors, other = made()
        with calor.no_grad():
            for t, value in zip(tensors, halfway, strict=True):
                t[...] = calor.asarray(value)
        other.load_state_dict(calor.load(tmp_path / "state.calor"))
        assert other.state_dict()["param_groups"] == optimizer.state_dict()["param_groups"]
        for found, value in zip(steps(tensors, other, slice(3, None)), wanted, strict=True):
            assert found.tobytes() == value.tobytes()

    def test_half_types_with_master_weights(self, kind: Any) -> None:
        start = _start((3, 4))
        narrow = calor.asarray(start, dtype=calor.bfloat16, requires_grad=True)
        wide = calor.asarray(narrow.detach().astype(calor.float32), requires_grad=True)
        one, other = kind([narrow], lr=0.01, master_weights=True), kind([wide], lr=0.01)
        for g in _gradients((3, 4)):
            given = calor.asarray(g).astype(calor.bfloat16)
            one.update([narrow], [given])
            other.update([wide], [given.astype(calor.float32)])
        made = one.state_dict()["state"]["0"]["master"].numpy()
        np.testing.assert_allclose(made, wide.detach().numpy(), rtol=1e-6)


def test_what_is_refused() -> None:
    phases = calor.ones((2, 2), dtype=calor.complex64, requires_grad=True)
    p = calor.ones(2, requires_grad=True)
    with pytest.raises(DTypeError, match="Adafactor: parameter '0' is complex64; only real ones"):
        Adafactor([phases])
    with pytest.raises(ArgumentError, match="beta2_decay must be a number of at most 0, not 0.5"):
        Adafactor([p], beta2_decay=0.5)
    with pytest.raises(ArgumentError, match="d must be at least 1, not 0.5"):
        Adafactor([p], d=0.5)
    with pytest.raises(ArgumentError, match="beta3 must be a number, at least 0 and below 1"):
        train.Adan([p], betas=(0.9, 0.9, 1.0))
