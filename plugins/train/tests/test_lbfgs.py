"""L-BFGS: the steps of torch.optim.LBFGS, its state, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import ArgumentError, DTypeError
from calor_train import LBFGS
from calor_train.optimizers import line_search

START = (-1.2, 1.0, 0.5, 2.0)


def valley(x: Any) -> Any:
    """Rosenbrock's function."""
    return ((1 - x[:-1]) ** 2).sum() + (100 * (x[1:] - x[:-1] ** 2) ** 2).sum()


def made(options: dict[str, Any], jits: bool = False) -> tuple[Any, Any, Any]:
    p = calor.asarray(np.array(START), requires_grad=True)
    optimizer = LBFGS([p], **options)

    def value() -> Any:
        loss = valley(p)
        loss.backward()
        return loss

    call = calor.jit(value) if jits else value

    def closure() -> Any:
        optimizer.zero_grad()
        return call()

    return p, optimizer, closure


WOLFE: dict[str, Any] = {"line_search_fn": "strong_wolfe"}
# The losses before six calls, the point after them, and how often the loss was evaluated: of
# torch.optim.LBFGS.
RUNS = [
    (WOLFE | {"max_iter": 4},
     [355.7, 5.90601464338693, 4.241920951832789, 4.21131946236313, 4.09145330794442,
      3.8710140832240123],
     [-0.8867654637958567, 0.7898214241393432, 0.6237685087936655, 0.3857287731056547], 31),
    ({"lr": 1e-3, "max_iter": 5},
     [355.7, 267.45647126099277, 256.36253344528615, 243.73807897721528, 231.0097524657923,
      219.21195380670005],
     [-1.1623367657887458, 1.0151480946432847, 0.7384386495505036, 1.9020522214981284], 30),
    (WOLFE | {"history_size": 2, "max_iter": 6, "lr": 0.5},
     [355.7, 4.527917642706761, 4.267766655561244, 4.124440597074574, 3.862282748333586,
      3.73899393194495],
     [-0.8333348886801648, 0.7057050257718803, 0.5025840624275708, 0.25100353912387], 42),
    (WOLFE | {"max_eval": 3},
     [355.7, 10.35893292531513, 4.627058967695364, 4.242400402035139, 4.241587093285074,
      4.23193952112616],
     [-1.024277790164655, 1.0363252094749251, 1.0716845649162372, 1.1580683647274124], 19),
]  # fmt: skip


@pytest.mark.parametrize("jits", [False, True])
@pytest.mark.parametrize(("options", "losses", "point", "count"), RUNS, ids=str)
def test_steps_are_those_of_torch(
    options: dict[str, Any], losses: list[float], point: list[float], count: int, jits: bool
) -> None:
    p, optimizer, closure = made(options, jits)
    found = [optimizer.step(closure).item() for _ in losses]
    np.testing.assert_allclose(found, losses, rtol=1e-9)
    np.testing.assert_allclose(p.detach().numpy(), point, rtol=1e-9)
    assert optimizer.state_dict()["state"]["0"]["func_evals"] == count


def test_several_parameters_are_one_vector() -> None:
    """A scalar, a complex one, and one without a gradient."""
    a = calor.asarray(np.array(3.0 + 1j), requires_grad=True)
    b = calor.asarray(np.array([1.0 - 2j, 0.5j]), requires_grad=True)
    still = calor.ones((2, 2), dtype=calor.complex128, requires_grad=True)
    optimizer = LBFGS([a, b, still], line_search_fn="strong_wolfe", tolerance_change=1e-16)
    to = calor.asarray(np.array([1.0 + 1j, -2.0]))

    def closure() -> Any:
        optimizer.zero_grad()
        off = calor.abs(b - to)
        loss = (off**2 * calor.asarray(np.array([1.0, 5.0]))).sum() + calor.abs(a - 2j) ** 2
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(a.detach().numpy(), 2j, atol=1e-6)
    np.testing.assert_allclose(b.detach().numpy(), to.numpy(), atol=1e-6)
    assert still.detach().numpy().tolist() == [[1, 1], [1, 1]]


def test_half_types_are_computed_in_float32() -> None:
    p = calor.asarray([4.0, -3.0], dtype=calor.bfloat16, requires_grad=True)
    optimizer = LBFGS([p], line_search_fn="strong_wolfe", max_iter=5)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (p.astype(calor.float32) ** 2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert p.dtype is calor.bfloat16
    assert optimizer.history["d"].dtype is calor.float32
    assert abs(p.detach().astype(calor.float32).numpy()).max() < 1e-2


@pytest.mark.parametrize("options", [RUNS[0][0], RUNS[1][0], RUNS[2][0]], ids=str)
def test_a_stored_run_goes_on_with_the_same_bits(options: dict[str, Any], tmp_path: Any) -> None:
    p, optimizer, closure = made(options)
    for _ in range(2):
        optimizer.step(closure)
    halfway = p.detach().numpy()
    calor.save(optimizer.state_dict(), tmp_path / "state.calor")
    for _ in range(2):
        optimizer.step(closure)
    q, other, again = made(options)
    with calor.no_grad():
        q[...] = calor.asarray(halfway)
    other.load_state_dict(calor.load(tmp_path / "state.calor"))
    for _ in range(2):
        other.step(again)
    assert q.detach().numpy().tobytes() == p.detach().numpy().tobytes()
    assert other.history["func_evals"] == optimizer.history["func_evals"]


def test_a_state_of_another_optimizer_changes_nothing() -> None:
    _, optimizer, closure = made(WOLFE)
    optimizer.step(closure)
    short = LBFGS([calor.ones(2, dtype=calor.float64, requires_grad=True)])
    with pytest.raises(ArgumentError, match="vectors of other lengths than 2"):
        short.load_state_dict(optimizer.state_dict())
    saved = optimizer.state_dict()
    saved["state"]["0"]["exp_avg"] = 1
    with pytest.raises(ArgumentError, match=r"it holds \['exp_avg'\]"):
        short.load_state_dict(saved)
    assert short.history == {"func_evals": 0, "n_iter": 0}


def test_the_end_of_a_descent() -> None:
    """A call at the minimum evaluates once and moves nothing."""
    p, optimizer, closure = made(WOLFE)
    with calor.no_grad():
        p[...] = 1.0
    assert optimizer.step(closure).item() == 0.0
    assert p.tolist() == [1.0] * 4
    assert optimizer.history["func_evals"] == 1


def test_a_search_meets_both_conditions() -> None:
    """Of a loss whose first length is far too short, and of one whose first is far too long."""
    for first in (1e-3, 50.0):
        seen = []

        def at(x: float, seen: list[float] = seen) -> line_search.Point:
            seen.append(x)
            loss, slope = (x - 2) ** 4 + x, 4 * (x - 2) ** 3 + 1
            return line_search.Point(x, loss, calor.zeros(1), slope)

        start = at(0.0)
        found, count = line_search.search(at, start, first, 1e-9, 25)
        assert found.loss <= start.loss + 1e-4 * found.length * start.slope
        assert abs(found.slope) <= 0.9 * abs(start.slope)
        assert count == len(seen) - 1


def test_what_is_refused() -> None:
    p = calor.ones(2, requires_grad=True)
    optimizer = LBFGS([p])
    with pytest.raises(ArgumentError, match="step needs a closure"):
        optimizer.step()
    with pytest.raises(ArgumentError, match=r"call step\(closure\)"):
        optimizer.update([p], [p])
    with pytest.raises(ArgumentError, match="all parameters are one group"):
        LBFGS([{"params": [p]}, {"params": [calor.ones(1, requires_grad=True)]}])
    with pytest.raises(DTypeError, match="parameter '1' is float64 on .*, the first one float32"):
        LBFGS([p, calor.ones(2, dtype=calor.float64, requires_grad=True)])
    with pytest.raises(ArgumentError, match="history_size must be a whole number above 0"):
        LBFGS([p], history_size=0)
    with pytest.raises(ArgumentError, match='must be "strong_wolfe" or None, not'):
        LBFGS([p], line_search_fn="armijo")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="tolerance_grad must be at least 0"):
        LBFGS([p], tolerance_grad=-1.0)


def test_a_state_is_apart_from_the_history() -> None:
    _, optimizer, closure = made(WOLFE)
    optimizer.step(closure)
    with calor.no_grad():
        saved = optimizer.state_dict()["state"]["0"]
        want = optimizer.history["d"].numpy(), optimizer.history["old_stps"][0].numpy()
        for vector in (saved["d"], saved["old_stps"][0]):
            vector[...] = 7
    assert (optimizer.history["d"].numpy() == want[0]).all()
    assert (optimizer.history["old_stps"][0].numpy() == want[1]).all()
