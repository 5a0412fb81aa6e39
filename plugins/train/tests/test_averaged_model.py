"""Means of weights: their formula, buffers, batch norms, and the schedule before them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import calor
from calor import nn
from calor.errors import ArgumentError
from calor_train import SGD, AnnealTo, AveragedModel, Scheduler, update_bn


def made(dtype: Any = calor.float32) -> Any:
    calor.random.seed(0)
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).to(dtype)


@pytest.mark.parametrize("buffers", [False, True])
@pytest.mark.parametrize("jitted", [False, True])
def test_a_mean_of_weights(jitted: bool, buffers: bool) -> None:
    model = made()
    mean, optimizer = AveragedModel(model, use_buffers=buffers), SGD(model, lr=0.5)

    def step(model: Any, optimizer: Any, mean: Any, x: Any) -> None:
        (model(x) ** 3).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        mean.update_parameters(model)

    call, seen = calor.jit(step) if jitted else step, []
    for turn in range(4):
        x = np.random.default_rng(turn).normal(size=(5, 2)).astype(np.float32)
        call(model, optimizer, mean, calor.asarray(x))
        seen.append({n: t.detach().numpy() for n, t in model.state_dict().items()})
    assert mean.n_averaged.item() == 4
    for name, held in mean.module.state_dict().items():
        values = np.array([s[name] for s in seen])
        averaged = buffers or "running" not in name
        want = values.mean(0) if averaged and "tracked" not in name else values[-1]
        np.testing.assert_allclose(held.detach().numpy(), want, rtol=2e-5, atol=1e-6)
    if jitted:
        assert call.trace_count == 1  # type: ignore[attr-defined]


def test_the_first_weights_are_the_mean_whatever_was_copied() -> None:
    model = made(calor.bfloat16)
    mean = AveragedModel(model)
    with calor.no_grad():
        model[0].weight[...] = 3.140625
        mean.module[0].weight[...] = float("nan")
    mean.update_parameters(model)
    assert mean.module[0].weight.dtype is calor.bfloat16
    assert set(mean.module[0].weight.detach().astype(calor.float32).numpy().ravel()) == {3.140625}


def test_a_mean_is_a_model_of_its_own() -> None:
    model = made()
    mean = AveragedModel(model)
    x = calor.ones((2, 2))
    assert mean.eval()(x).tolist() == model.eval()(x).tolist()
    with calor.no_grad():
        model[0].weight[...] = 7.0
    assert mean.module[0].weight.tolist() != model[0].weight.tolist()
    mean.update_parameters(model)
    again = AveragedModel(made())
    again.load_state_dict(mean.state_dict())
    assert again.n_averaged.item() == 1
    assert again.module[0].weight.tolist() == model[0].weight.tolist()
    with pytest.raises(ArgumentError, match="another model than was copied: .*weight"):
        mean.update_parameters(nn.Linear(2, 3))


def test_batch_norms_of_a_mean() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(0.5), nn.Linear(2, 1))
    model[1].eval()
    batches = [np.random.default_rng(n).normal(n, 2, (6, 2)).astype(np.float32) for n in range(3)]
    update_bn([(b, "label") for b in batches], model)
    norm = model[0]
    np.testing.assert_allclose(norm.running_mean.numpy(), np.mean([b.mean(0) for b in batches], 0),
                               rtol=1e-5)  # fmt: skip
    want = np.mean([b.var(0, ddof=1) for b in batches], 0)
    np.testing.assert_allclose(norm.running_var.numpy(), want, rtol=1e-5)
    assert norm.num_batches_tracked.item() == 3
    assert norm.momentum == 0.1
    assert [m.training for m in (model, model[0], model[1])] == [True, True, False]
    update_bn(iter(()), nn.Linear(2, 2))


def test_a_failed_pass_leaves_momenta_and_modes() -> None:
    norm = nn.BatchNorm1d(2, momentum=0.3).eval()
    with pytest.raises(Exception, match="2"):
        update_bn([calor.ones((4, 2)), calor.ones((4, 5))], norm)
    assert (norm.momentum, norm.training) == (0.3, False)


@pytest.mark.parametrize("curve", ["cos", "linear"])
def test_a_rate_that_anneals(curve: Any) -> None:
    groups = [{"params": [calor.ones(1, requires_grad=True)], "lr": lr} for lr in (0.8, 0.1)]
    optimizer = SGD(groups)
    scheduler = Scheduler(optimizer, lr=AnnealTo(0.05, 4, curve))
    for step in range(7):
        share = min(step / 4, 1.0)
        share = (1 - math.cos(math.pi * share)) / 2 if curve == "cos" else share
        for group, base in zip(optimizer.param_groups, (0.8, 0.1), strict=True):
            assert group.lr == pytest.approx(0.05 * share + base * (1 - share))
        scheduler.step()
    assert AnnealTo(0.3, 0).table(2) == [0.3, 0.3]
    with pytest.raises(ArgumentError, match="steps must be at least 0"):
        AnnealTo(0.1, -1)
    with pytest.raises(ArgumentError, match='curve must be "cos" or "linear"'):
        AnnealTo(0.1, 1, "square")  # type: ignore[arg-type]
