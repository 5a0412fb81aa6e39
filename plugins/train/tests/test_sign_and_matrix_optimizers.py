"""Lion and Muon beside their formulas, written in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor_train import Lion, Muon

Array = np.ndarray[Any, Any]
STEPS = 6


def _gradients(shape: tuple[int, ...]) -> list[Array]:
    draws = np.random.default_rng(7)
    return [draws.standard_normal(shape).astype(np.float32) for _ in range(STEPS)]


def _step(optimizer: Any, g: Any) -> None:
    optimizer.param_groups[0].step([g])


def _trained(optimizer: Any, p: Any, jits: bool) -> Array:
    call = calor.jit(_step) if jits else _step
    for g in _gradients(p.shape):
        call(optimizer, calor.asarray(g))
    made: Array = p.detach().numpy()
    return made


@pytest.mark.parametrize("jits", [False, True])
@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_lion(decay: float, maximize: bool, jits: bool) -> None:
    start = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
    p = calor.asarray(start, requires_grad=True)
    lion = Lion([p], lr=0.1, betas=(0.8, 0.95), weight_decay=decay, maximize=maximize)
    wanted, mean = start.astype(np.float64), np.zeros((3, 4))
    for g in _gradients((3, 4)):
        g = -g if maximize else g
        step = np.sign(0.8 * mean + 0.2 * g) + decay * wanted
        mean = 0.95 * mean + 0.05 * g
        wanted = wanted - 0.1 * step
    np.testing.assert_allclose(_trained(lion, p, jits), wanted, rtol=1e-5, atol=1e-5)


def _orthogonal(x: Array, steps: int) -> Array:
    x = x / max(float(np.sqrt((x * x).sum())), 1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
    return x


@pytest.mark.parametrize("jits", [False, True])
@pytest.mark.parametrize(
    "options",
    [{}, {"nesterov": False, "momentum": 0.7}, {"adjust_lr_fn": "match_rms_adamw", "ns_steps": 3}],
)
@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (6, 6)])
def test_muon(shape: tuple[int, int], options: dict[str, Any], jits: bool) -> None:
    how = {"momentum": 0.95, "nesterov": True, "adjust_lr_fn": "original", "ns_steps": 5} | options
    start = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    p = calor.asarray(start, requires_grad=True)
    muon = Muon([p], lr=0.02, weight_decay=0.2, **options)
    rows, columns = shape
    ratio = math.sqrt(max(1.0, rows / columns))
    if how["adjust_lr_fn"] == "match_rms_adamw":
        ratio = 0.2 * math.sqrt(max(shape))
    wanted, mean = start.astype(np.float64), np.zeros(shape)
    for g in _gradients(shape):
        mean = how["momentum"] * mean + (1 - how["momentum"]) * g
        moved = g + how["momentum"] * (mean - g) if how["nesterov"] else mean
        step = _orthogonal(moved.T if rows > columns else moved, how["ns_steps"])
        step = step.T if rows > columns else step
        wanted = wanted - 0.02 * (ratio * step + 0.2 * wanted)
    # The iteration is in bfloat16, which has eight bits.
    np.testing.assert_allclose(_trained(muon, p, jits), wanted, atol=0.02 * ratio * STEPS * 0.04)


def test_another_rate_is_the_same_trace() -> None:
    p = calor.asarray(np.eye(3, dtype=np.float32), requires_grad=True)
    for optimizer in (Lion([p], lr=0.01), Muon([p], lr=0.02)):
        step = calor.jit(_step)
        for rate in (0.1, 0.2, 0.3):
            optimizer.lr = rate
            step(optimizer, calor.ones((3, 3)))
        assert step.trace_count == 1


def test_states_are_restored() -> None:
    for kind in (Lion, Muon):
        p = calor.asarray(np.eye(3, dtype=np.float32), requires_grad=True)
        one, other = kind([p], lr=0.1), kind([p], lr=0.5)
        one.update([p], [calor.ones((3, 3))])
        other.load_state_dict(one.state_dict())
        found, wanted = other.state_dict(), one.state_dict()
        assert found["param_groups"] == wanted["param_groups"]
        for slot, value in wanted["state"]["0"].items():
            assert found["state"]["0"][slot].tolist() == value.tolist()


def test_muon_refuses_what_is_no_real_matrix() -> None:
    vector, matrix = (calor.ones(s, requires_grad=True) for s in ((3,), (2, 2)))
    phases = calor.ones((2, 2), dtype=calor.complex64, requires_grad=True)
    with pytest.raises(ShapeError, match=r"'0' has shape \(3,\) and is no matrix; give .* AdamW"):
        Muon([vector])
    with pytest.raises(DTypeError, match="'0' is complex64; only real ones"):
        Muon([phases])
    with pytest.raises(ArgumentError, match="ns_steps is 1 to 99"):
        Muon([matrix], ns_steps=0)
    with pytest.raises(ArgumentError, match='adjust_lr_fn must be "original", "match_rms'):
        Muon([matrix], adjust_lr_fn="none")  # type: ignore[arg-type]
