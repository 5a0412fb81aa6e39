"""Averages of weights: their formula, buffers, jit, the swap for evaluation, and their state."""

import numpy as np
import pytest

import calor
from calor import nn
from calor.errors import ArgumentError, ShapeError
from calor_train import SGD, ExponentialMovingAverage


def made(dtype=calor.float32):
    calor.random.seed(0)
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).to(dtype)


def train(jitted, steps=4):
    model = made()
    optimizer, average = SGD(model, lr=0.5), ExponentialMovingAverage(model, 0.75)
    wanted = [p.numpy().astype(np.float64) for p in model.parameters()]

    def step(model, optimizer, average, x):
        (model(x) ** 3).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        average.update()

    call = calor.jit(step) if jitted else step
    for turn in range(steps):
        x = np.random.default_rng(turn).normal(size=(5, 2))
        call(model, optimizer, average, calor.asarray(x, dtype=calor.float32))
        wanted = [
            0.75 * a + 0.25 * p.numpy() for a, p in zip(wanted, model.parameters(), strict=True)
        ]
    if jitted:
        assert call.trace_count == 1
    return model, average, wanted


@pytest.mark.parametrize("jitted", [False, True])
def test_averages_follow_the_formula_and_are_swapped_in(jitted):
    model, average, wanted = train(jitted)
    own = [p.numpy() for p in model.parameters()]
    with average.swapped():
        for p, want in zip(model.parameters(), wanted, strict=True):
            np.testing.assert_allclose(p.numpy(), want, rtol=1e-5, atol=1e-6)
            assert p.requires_grad
    for p, value in zip(model.parameters(), own, strict=True):
        np.testing.assert_array_equal(p.numpy(), value)
    saved = average.state_dict()
    for name, buffer in model.named_buffers():
        np.testing.assert_array_equal(saved[name].numpy(), buffer.numpy())


def test_a_state_dict_is_a_copy_and_is_restored():
    _, average, wanted = train(False)
    saved = average.state_dict()
    average.update()
    again = ExponentialMovingAverage(made())
    again.load_state_dict(saved)
    for held, want in zip(again.averages, wanted, strict=False):
        np.testing.assert_allclose(held.numpy(), want, rtol=1e-5, atol=1e-6)
    with pytest.raises(ArgumentError, match="of another model: 0.bias, 0.weight"):
        again.load_state_dict({k: v for k, v in saved.items() if not k.startswith("0.")})
    with pytest.raises(ShapeError, match=r"0.weight has shape \(3,\), expected \(3, 2\)"):
        again.load_state_dict(saved | {"0.weight": saved["0.bias"]})


def test_averages_of_halves_are_float32():
    model = made(calor.bfloat16)
    average = ExponentialMovingAverage(model, 0.999)
    assert average.averages[0].dtype is calor.float32
    with average.swapped():
        assert next(model.parameters()).dtype is calor.bfloat16


def interrupted(average):
    with average.swapped():
        raise KeyboardInterrupt


def test_the_weights_return_after_an_error():
    model, average, _ = train(False)
    own = [p.numpy() for p in model.parameters()]
    with pytest.raises(KeyboardInterrupt):
        interrupted(average)
    for p, value in zip(model.parameters(), own, strict=True):
        np.testing.assert_array_equal(p.numpy(), value)


def test_a_decay_of_one_is_refused():
    with pytest.raises(ArgumentError, match="decay must be at least 0 and below 1, not 1.0"):
        ExponentialMovingAverage(made(), 1.0)
