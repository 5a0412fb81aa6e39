"""Two members that are one processor: what several devices do, run for real where there is one."""

from typing import Any

import numpy as np
import pytest

import calor
from calor.distributed import all_reduce, average_gradients, group
from calor.transforms.state import Stateful


def weights() -> list[Any]:
    draw = np.random.default_rng(1)
    shapes = ((6, 16), (16,), (16, 3))
    return [calor.asarray(draw.normal(size=s).astype(np.float32)).requires_grad_() for s in shapes]


@calor.jit
def step(ws: Any, velocity: Any, x: Any, y: Any) -> Any:
    """Descend by gradients of the whole batch, with momentum."""
    a, b, c = ws
    loss = calor.mean((calor.tanh(x @ a + b) @ c - y) ** 2)
    loss.backward()
    average_gradients(ws)
    with calor.no_grad():
        for w, v in zip(ws, velocity, strict=True):
            v *= 0.9
            v += w.grad
            w -= 0.05 * v
            w.grad = None
    return all_reduce(loss, "mean")


def test_a_step_on_two_members_is_the_step_on_the_whole_batch() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 6)).astype(np.float32)
    y = rng.normal(size=(32, 3)).astype(np.float32)
    both = group("cpu", "cpu")
    with calor.device("cpu"):
        one = weights()
        rest = [calor.zeros(w.shape) for w in one]
        parts = calor.asarray(x), calor.asarray(y)
        alone = [step(one, rest, *parts).item() for _ in range(5)]
    with both:
        two = weights()
        rest = [calor.zeros(w.shape) for w in two]
    halves = both.scatter(x), both.scatter(y)
    together = [step(two, rest, *halves).item() for _ in range(5)]
    assert alone[-1] < alone[0]
    assert together == pytest.approx(alone, rel=1e-5)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-4, atol=1e-6)


class Total(Stateful):
    """State of a program: a tensor."""

    def __init__(self) -> None:
        self.sum = calor.zeros(4)


def test_state_stays_where_it_is_and_bound_calls_go_on() -> None:
    both = group("cpu", "cpu")
    with both:
        total = Total()

    @calor.jit
    def add(total: Total, x: Any) -> Any:
        total.sum += all_reduce(x)
        return calor.sum(total.sum)

    x = both.scatter(np.ones(8, np.float32))
    bound = add.bind(total)
    assert [bound(x).item() for _ in range(4)] == [8.0, 16.0, 24.0, 32.0]
    held = total.sum._value.buffer
    assert bound(x).item() == 40.0
    assert total.sum._value.buffer is held
