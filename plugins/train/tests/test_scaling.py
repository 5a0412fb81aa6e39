"""Does the scaler skip steps that overflow, adapt as in PyTorch, and work in a jitted step?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor
from calor import nn
from calor.errors import ArgumentError
from calor_train import SGD, AdamW, Checkpoint, GradScaler, Learner, clip_grad_norm_

X = np.random.default_rng(0).standard_normal((32, 4)).astype(np.float32)
BATCHES = [(X[i : i + 8], X[i : i + 8].sum(1, keepdims=True)) for i in range(0, 32, 8)]


def _step(model: Any, optimizer: Any, scaler: Any, x: Any) -> Any:
    with calor.autocast("float16"):
        loss = (model(x) ** 2).mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    clip_grad_norm_(optimizer.params, 1e6)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    return loss.detach()


@pytest.mark.parametrize("jitted", [False, True])
def test_overflowing_steps_change_nothing_and_the_scale_adapts(jitted: bool) -> None:
    step = calor.jit(_step) if jitted else _step
    model = nn.Linear(2, 1)
    optimizer = AdamW(model, 0.1)
    scaler = GradScaler(2.0**20, growth_interval=2)
    before = {k: v.numpy() for k, v in model.state_dict().items()}
    state = optimizer.state_dict()["state"]
    step(model, optimizer, scaler, calor.full((4, 2), 1e3))
    assert all((before[k] == v.numpy()).all() for k, v in model.state_dict().items())
    after = optimizer.state_dict()["state"]
    assert [one["step"] for one in after.values()] == [0, 0]
    for one, other in zip(state.values(), after.values(), strict=True):
        assert all(np.array_equal(one[k], other[k]) for k in one if k != "step")
    assert scaler.get_scale() == 2.0**19
    # Halved until the gradients fit, then doubled after every two finite steps.
    scales = []
    for _ in range(14):
        step(model, optimizer, scaler, calor.ones((4, 2)) * 0.01)
        scales.append(np.log2(scaler.get_scale()))
    assert set(np.abs(np.diff(scales))) <= {0.0, 1.0}
    assert optimizer.state_dict()["state"]["0"]["step"] > 5
    if jitted:
        assert step.trace_count == 1


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("calls", ["u0 u1 s0 s1", "u1 u0 s0 s1", "s0 s1", "s1 s0"])
def test_an_optimizer_that_overflows_holds_up_no_other(calls: str, jitted: bool) -> None:
    weights = [calor.asarray([1.0], requires_grad=True) for _ in range(2)]
    optimizers, scaler = [SGD([w], 1.0) for w in weights], GradScaler(2.0)

    def turn(optimizers: list[Any], scaler: Any) -> None:
        for call in calls.split():
            way = {"u": scaler.unscale_, "s": scaler.step}[call[0]]
            way(optimizers[int(call[1])])
        scaler.update()

    run = calor.jit(turn) if jitted else turn
    for bad, wants in ((0, [1.0, 0.0]), (1, [-3.0, 0.0]), (None, [-4.0, -1.0])):
        scale = scaler.get_scale()
        for k, w in enumerate(weights):
            w.grad = calor.asarray(
                [float("inf") if k == bad else scale * (4.0 if (k, bad) == (0, 1) else 1.0)]
            )
        run(optimizers, scaler)
        assert [w.item() for w in weights] == wants
    assert scaler.get_scale() == 0.5


def test_a_scaler_serves_many_optimizers_one_after_the_other() -> None:
    scaler = GradScaler(2.0)
    held = [SGD([calor.asarray([1.0], requires_grad=True)], 1.0) for _ in range(40)]
    for count in (0, 31):
        for optimizer in held[count : count + 31]:
            scaler.step(optimizer)
        scaler.update()
    for optimizer in held[:31]:
        scaler.step(optimizer)
    with pytest.raises(ArgumentError, match="serves 31 optimizers"):
        scaler.step(held[31])


def test_gradients_are_unscaled_once() -> None:
    model = nn.Linear(1, 1)
    optimizer, scaler = SGD(model, 1.0), GradScaler(8.0)
    scaler.scale(model(calor.ones((1, 1))).sum()).backward()
    scaler.unscale_(optimizer)
    assert model.weight.grad.tolist() == [[1.0]]
    with pytest.raises(ArgumentError, match="call update"):
        scaler.unscale_(optimizer)
    weight = model.weight.item()
    scaler.step(optimizer)
    assert model.weight.item() == weight - 1
    scaler.update(4.0)
    assert scaler.get_scale() == 4.0


def test_a_scaler_that_is_off_is_transparent() -> None:
    scaler = GradScaler(enabled=False)
    x = calor.ones(1)
    assert scaler.scale(x) is x
    assert (scaler.get_scale(), scaler.state_dict(), scaler.is_enabled()) == (1.0, {}, False)
    with pytest.raises(ArgumentError, match="above 1"):
        GradScaler(growth_factor=1.0)
    with pytest.raises(ArgumentError, match="not enabled"):
        GradScaler().load_state_dict({})


def test_the_state_is_restored() -> None:
    scaler = GradScaler(4.0, growth_interval=7)
    scaler.update()
    made = GradScaler()
    made.load_state_dict(scaler.state_dict())
    assert made.state_dict() == scaler.state_dict() == {
        "scale": 4.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 7,
        "_growth_tracker": 1,
    }  # fmt: skip


def _learner(precision: Any, **more: Any) -> Learner:
    calor.random.seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    loss = nn.functional.mse_loss
    return Learner(model, AdamW(model, 2e-2), loss, precision=precision, display="quiet", **more)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_learner_trains_in_each_precision(precision: str, accumulate: int) -> None:
    learner = _learner(precision, accumulate=accumulate, clip_norm=10.0)
    history = learner.fit(BATCHES, epochs=12)
    assert history[-1]["loss"] < history[0]["loss"] / 3
    assert {p.dtype.name for p in learner.model.parameters()} == {"float32"}
    low = "float32" if precision == "float32" else precision
    assert learner.predict(X).dtype.name == low


def test_a_learner_goes_on_where_its_own_checkpoint_is(tmp_path: Any) -> None:
    whole = _learner("float16").fit(BATCHES, epochs=4)
    for epochs in (2, 4):
        learner = _learner("float16", callbacks=[Checkpoint(tmp_path)])
        history = learner.fit(BATCHES, epochs=epochs, resume="auto")
        assert len(history) == epochs
    assert [row["loss"] for row in history] == [row["loss"] for row in whole]
    with pytest.raises(ArgumentError, match="pass one in callbacks"):
        _learner("float32").fit(BATCHES, epochs=1, resume="auto")
    with pytest.raises(ArgumentError, match="not 'half'"):
        _learner("half")


def test_a_learner_goes_on_after_an_error_within_a_step() -> None:
    model = nn.Linear(4, 1)
    optimizer = SGD(model, 0.01)
    learner = Learner(
        model, optimizer, nn.functional.mse_loss, precision="float16", jit=False, display="quiet"
    )

    def failing() -> None:
        raise KeyError("step")

    optimizer.step = failing  # type: ignore[method-assign]
    with pytest.raises(KeyError, match="step"):
        learner.fit(BATCHES, epochs=1)
    del optimizer.step
    assert len(learner.fit(BATCHES, epochs=2)) == 2
