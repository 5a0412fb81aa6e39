"""Ctrl-C during a computation loses nothing: what was pending stays pending."""

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import calor
from calor.ops import rules
from calor.ops.base import TABLE, Op, op


class Interrupt:
    """Counts down to the call at which the user presses Ctrl-C."""

    def __init__(self) -> None:
        self.calls_left = 0

    def __call__(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        self.calls_left -= 1
        if self.calls_left == 0:
            raise KeyboardInterrupt
        return x + 1


PRESS = Interrupt()


@pytest.fixture(scope="module")
def slow() -> Iterator[Op]:
    """An op that adds 1, and is interrupted when PRESS says so."""
    yield op(
        "tests.interrupted",
        rules.numbers,
        PRESS,
        lambda g, y, x: [g],
        decompose=lambda x: x + 1,
    )
    del TABLE["tests.interrupted"]


@pytest.fixture(autouse=True)
def nothing_pressed() -> Iterator[None]:
    yield
    PRESS.calls_left = 0


def test_pending_values_are_computed_at_the_next_look(slow: Op) -> None:
    x = calor.asarray([1.0, 2.0])
    y = slow(x * 2)
    z = y * 10
    PRESS.calls_left = 1
    with pytest.raises(KeyboardInterrupt):
        z.numpy()
    assert z.tolist() == [30.0, 50.0]
    assert y.tolist() == [3.0, 5.0]


def test_assignments_happen_once(slow: Op) -> None:
    x = calor.asarray([1.0, 2.0])
    x += 1
    x[0] = slow(x)[1]
    PRESS.calls_left = 1
    with pytest.raises(KeyboardInterrupt):
        x.numpy()
    assert x.tolist() == [4.0, 3.0]


def test_gradients_survive(slow: Op) -> None:
    x = calor.asarray([1.0, 2.0], requires_grad=True)
    loss = (slow(x) * x).sum()
    PRESS.calls_left = 1
    with pytest.raises(KeyboardInterrupt):
        loss.item()
    loss.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 5.0]


def test_memory_is_given_back(slow: Op) -> None:
    x = calor.ones(1000)
    calor.eval(x)
    y = slow(x)
    gc.collect()
    before = x.device.memory.in_use
    PRESS.calls_left = 1
    with pytest.raises(KeyboardInterrupt):
        y.numpy()
    gc.collect()
    assert x.device.memory.in_use == before
    assert float(y.sum()) == 2000.0


def test_jitted_state_is_as_before_or_after(slow: Op) -> None:
    weight = calor.asarray([1.0, 2.0])

    @calor.jit
    def step() -> calor.Tensor:
        nonlocal weight
        weight += slow(weight)
        return weight.sum()

    step()
    expected = weight.numpy(copy=True)
    PRESS.calls_left = 1
    with pytest.raises(KeyboardInterrupt):
        step()
    np.testing.assert_array_equal(weight.numpy(), expected)
    step()
    np.testing.assert_array_equal(weight.numpy(), 2 * expected + 1)
