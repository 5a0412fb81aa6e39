"""After an interrupted flush a look computes what it needs, and nothing is lost."""

from __future__ import annotations

import gc
import inspect
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import Device
from calor.backends.numpy_backend import NumpyBackend
from calor.config import config
from calor.errors import ElementIndexError
from calor.local import local


class Press:
    """Counts the calls of a device's functions, and is Ctrl-C at one of them."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.at = -1

    def __call__(self, name: str) -> None:
        self.at -= 1
        if self.at == 0:
            raise KeyboardInterrupt
        self.calls.append(name)

    def taken(self) -> list[str]:
        """Return the names of the calls since the last time."""
        calls, self.calls = self.calls, []
        return calls


PRESS = Press()


class Interrupted(NumpyBackend):
    """The reference, which says what it calls and can be interrupted there."""

    constants = frozenset()

    def table(self, index: int) -> Any:
        def counted(name: str, function: Any) -> Any:
            def call(*operands: Any, **attributes: Any) -> Any:
                PRESS(name)
                return function(*operands, **attributes)

            return call

        return {name: counted(name, f) for name, f in super().table(index).items()}


@pytest.fixture(autouse=True)
def device() -> Iterator[Device]:
    made = Device(Interrupted(), 0)
    PRESS.__init__()  # type: ignore[misc]
    with calor.device(made):
        yield made
    PRESS.at = -1


def vector() -> Any:
    return calor.asarray([1.0, 2.0, 3.0])


def interrupt(tensor: Any, at: int = 1) -> None:
    PRESS.at = at
    with pytest.raises(KeyboardInterrupt):
        tensor.numpy()
    PRESS.at = -1
    PRESS.taken()


def test_a_look_at_something_small_does_not_compute_the_rest() -> None:
    x = vector()
    small = x + 1
    large = calor.exp(calor.tanh(x))
    total = calor.sum(large)
    interrupt(total, 3)
    assert small.tolist() == [2.0, 3.0, 4.0]
    assert "exp" not in PRESS.calls
    assert "tanh" not in PRESS.taken()
    np.testing.assert_allclose(total.item(), np.exp(np.tanh([1.0, 2.0, 3.0])).sum(), rtol=1e-6)
    assert PRESS.taken() == ["tanh", "exp", "sum"]
    # It was held, so it was kept on the way.
    assert large.numpy() is not None
    assert PRESS.taken() == []


def test_what_is_recorded_later_is_not_computed_at_once() -> None:
    x = vector()
    large = calor.exp(x)
    small = -x
    interrupt(large)
    later = calor.sqrt(large)
    assert PRESS.taken() == []
    assert small.tolist() == [-1.0, -2.0, -3.0]
    assert PRESS.taken() == ["neg"]
    np.testing.assert_allclose(later.numpy(), np.exp([0.5, 1.0, 1.5]), rtol=1e-6)
    assert PRESS.taken() == ["exp", "sqrt"]
    np.testing.assert_allclose(large.numpy(), np.exp([1.0, 2.0, 3.0]), rtol=1e-6)
    assert PRESS.taken() == []


def test_it_may_be_interrupted_again_and_again() -> None:
    x = vector()
    a = calor.exp(x)
    b = calor.tanh(a)
    other = calor.sin(x)
    interrupt(b)
    interrupt(b, 2)
    c = a * b
    interrupt(c, 2)
    d = c + other
    interrupt(d, 3)
    assert other.shape == (3,)
    np.testing.assert_allclose(other.numpy(), np.sin([1.0, 2.0, 3.0]), rtol=1e-6)
    assert PRESS.taken() == ["sin"]
    e = np.exp([1.0, 2.0, 3.0])
    np.testing.assert_allclose(d.numpy(), e * np.tanh(e) + np.sin([1, 2, 3]), rtol=1e-6)
    assert sorted(PRESS.taken()) == ["add", "exp", "mul", "tanh"]


def test_several_results_of_one_op_stay_together() -> None:
    x = calor.asarray([[3.0, 1.0], [1.0, 2.0]])
    values, vectors = calor.linalg.eigh(x)
    interrupt(values)
    shifted = vectors + 1
    np.testing.assert_allclose(values.numpy(), np.linalg.eigvalsh([[3, 1], [1, 2]]), rtol=1e-5)
    assert PRESS.taken().count("eigh") == 1
    np.testing.assert_allclose(shifted.numpy(), vectors.numpy() + 1)
    assert "eigh" not in PRESS.taken()


def test_assignments_and_gradients_survive() -> None:
    x = calor.asarray([1.0, 2.0], requires_grad=True)
    state = calor.zeros(2)
    state += x.detach()
    state[0] = 5.0
    loss = (calor.exp(x) * state).sum()
    interrupt(loss)
    state += 1
    loss.backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), np.exp([1.0, 2.0]) * [5.0, 2.0], rtol=1e-6)
    assert state.tolist() == [6.0, 3.0]


def test_failures_are_bound_to_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "debug", True)
    calor.synchronize()
    x = vector()
    frame = inspect.currentframe()
    assert frame is not None
    picked, line = calor.take(x, calor.asarray([7])), frame.f_lineno
    after = picked * 2
    fine = x + 1
    interrupt(after)
    assert fine.tolist() == [2.0, 3.0, 4.0]
    for tensor in (after, picked):
        with pytest.raises(ElementIndexError, match=rf"recorded at .*test_aside\.py:{line}$"):
            tensor.numpy()


def test_synchronize_computes_what_was_set_aside() -> None:
    x = vector()
    kept, bad = calor.exp(x), calor.take(x, calor.asarray([7]))
    interrupt(kept)
    with pytest.raises(ElementIndexError):
        calor.synchronize()
    assert "exp" in PRESS.taken()
    kept.numpy()
    assert PRESS.taken() == []
    with pytest.raises(ElementIndexError):
        bad.numpy()


def test_what_depends_on_a_failure_fails_alone() -> None:
    x = vector()
    bad = calor.take(x, calor.asarray([7]))
    after, fine = bad * 2, calor.exp(x)
    interrupt(fine)
    with pytest.raises(ElementIndexError):
        bad.numpy()
    with pytest.raises(ElementIndexError):
        calor.synchronize()
    assert "exp" in PRESS.taken()
    with pytest.raises(ElementIndexError):
        after.numpy()
    np.testing.assert_allclose(fine.numpy(), np.exp([1.0, 2.0, 3.0]), rtol=1e-6)


def test_another_thread_looks_and_uses() -> None:
    x = vector()
    large, small = calor.exp(x), x + 1
    interrupt(large)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(small.tolist).result(60) == [2.0, 3.0, 4.0]
        assert "exp" not in PRESS.calls
        doubled = pool.submit(lambda: (large * 2).numpy()).result(60)
    np.testing.assert_allclose(doubled, 2 * np.exp([1.0, 2.0, 3.0]), rtol=1e-6)
    np.testing.assert_allclose(large.numpy(), np.exp([1.0, 2.0, 3.0]), rtol=1e-6)


def test_memory_goes_with_the_last_handle(device: Device) -> None:
    x = calor.ones(1000)
    calor.eval(x)
    gc.collect()
    before = device.memory.in_use
    held = calor.exp(x)
    unheld = calor.asarray(np.ones(500, np.float32)) + 1
    interrupt(unheld)
    del unheld
    assert device.memory.in_use == before + 2000
    del held
    assert device.memory.in_use == before
    assert not local.asides


@pytest.mark.parametrize("seed", range(20))
def test_results_are_those_of_an_undisturbed_run(seed: int) -> None:
    choose = random.Random(seed)
    array = np.random.default_rng(seed).normal(size=(2, 3))
    unary = (calor.tanh, calor.sin, calor.cos, lambda t: t * 0.5, lambda t: t.T.T)
    binary = (calor.add, calor.multiply, calor.maximum, lambda a, b: calor.stack([a, b])[0] - b)
    tensors: list[Any] = [calor.asarray(array)]
    with calor.device("numpy"):
        plain: list[Any] = [calor.asarray(array)]
    for _ in range(60):
        f, count = choose.choice([*[(f, 1) for f in unary], *[(f, 2) for f in binary]])
        picked = [choose.randrange(len(tensors)) for _ in range(count)]
        tensors.append(f(*[tensors[i] for i in picked]))
        with calor.device("numpy"):
            plain.append(f(*[plain[i] for i in picked]))
        if choose.random() < 0.2:
            PRESS.at = choose.randrange(1, 10)
            with suppress(KeyboardInterrupt):
                tensors[choose.randrange(len(tensors))].numpy()
            PRESS.at = -1
        if choose.random() < 0.1:
            # Some are dropped, their descendants are not.
            at = choose.randrange(len(tensors))
            del tensors[at], plain[at]
    for ours, theirs in zip(tensors, plain, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
