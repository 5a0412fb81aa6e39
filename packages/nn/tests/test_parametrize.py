"""Do parametrized attributes read, train, save and copy as plain ones do?"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import calor
from calor import nn
from calor.errors import ArgumentError, AxisError, ShapeError
from calor.nn import parametrize


class Symmetric(nn.Module):
    """The symmetric matrix of an upper triangle."""

    def forward(self, x: Any) -> Any:
        return calor.triu(x) + calor.triu(x, k=1).T


class Halved(nn.Module):
    """Half of a tensor."""

    def forward(self, x: Any) -> Any:
        return x / 2

    def right_inverse(self, value: Any) -> Any:
        return value * 2


def test_an_attribute_is_computed_and_learns_by_its_original() -> None:
    layer = nn.Linear(3, 3)
    before = layer.weight.numpy()
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert isinstance(layer, nn.Linear)
    np.testing.assert_array_equal(layer.weight.numpy(), np.triu(before) + np.triu(before, 1).T)
    assert set(layer.state_dict()) == {"bias", "parametrizations.weight.original"}
    calor.sum(layer(calor.ones((1, 3)))).backward()
    original = dict(layer.named_parameters())["parametrizations.weight.original"]
    np.testing.assert_array_equal(original.grad.numpy(), np.triu(np.full((3, 3), 2.0)) - np.eye(3))
    parametrize.register_parametrization(layer, "weight", Halved())
    np.testing.assert_array_equal(
        layer.weight.numpy(), (np.triu(before) + np.triu(before, 1).T) / 2
    )


def test_assignment_goes_through_the_inverse() -> None:
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Halved())
    held = layer.parametrizations.weight.original
    layer.weight = calor.ones((2, 2))
    assert layer.parametrizations.weight.original is held
    assert held.tolist() == [[2.0, 2.0]] * 2
    assert layer.weight.tolist() == [[1.0, 1.0]] * 2


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm(dim: int | None) -> None:
    layer = nn.Linear(4, 3)
    before = layer.weight.numpy()
    parametrize.weight_norm(layer, dim=dim)
    np.testing.assert_allclose(layer.weight.numpy(), before, rtol=1e-6)
    length = layer.parametrizations.weight.original0
    axis = {0: 1, 1: 0, None: None}[dim]
    want = np.sqrt((before**2).sum(axis, keepdims=dim is not None))
    np.testing.assert_allclose(length.numpy(), want, rtol=1e-6)
    with calor.no_grad():
        length[...] = length * 2
    np.testing.assert_allclose(layer.weight.numpy(), 2 * before, rtol=1e-6)


def test_spectral_norm_divides_by_the_largest_singular_value() -> None:
    layer = nn.ConvTranspose2d(2, 5, 3)
    before = layer.weight.numpy()
    parametrize.spectral_norm(layer, n_power_iterations=50)
    want = np.linalg.svd(before.transpose(1, 0, 2, 3).reshape(5, -1))[1][0]
    np.testing.assert_allclose(layer.weight.numpy() * want, before, rtol=1e-4)
    state = {k: v.numpy() for k, v in layer.state_dict().items()}
    np.testing.assert_array_equal(layer.eval().weight.numpy(), layer.weight.numpy())
    assert all((state[k] == v.numpy()).all() for k, v in layer.state_dict().items())


def test_a_jitted_step_trains_through_both_norms() -> None:
    model = nn.Sequential(
        parametrize.spectral_norm(nn.Linear(3, 4)), parametrize.weight_norm(nn.Linear(4, 1))
    )

    @calor.jit
    def step(model: Any, x: Any) -> Any:
        loss = (model(x) ** 2).mean()
        loss.backward()
        with calor.no_grad():
            for p in model.parameters():
                p[...] = p - 0.1 * p.grad
                p.grad = None
        return loss.detach()

    vector = model[0].parametrizations.weight
    before = [v.numpy() for v in vector.buffers()]
    losses = [step(model, calor.ones((2, 3))).item() for _ in range(8)]
    assert losses[-1] < losses[0]
    assert step.trace_count == 1
    after = [v.numpy() for v in vector.buffers()]
    assert any((a != b).any() for a, b in zip(before, after, strict=True))


def test_parametrized_modules_are_copied_pickled_and_restored() -> None:
    layer = parametrize.weight_norm(nn.Linear(2, 3)).eval()
    x = calor.ones((1, 2))
    for made in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert type(made) is type(layer)
        np.testing.assert_array_equal(made(x).numpy(), layer(x).numpy())
        assert parametrize.is_parametrized(made)
        assert made.train().training
    value = layer.weight.numpy()
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    assert layer.weight.requires_grad
    np.testing.assert_array_equal(layer.weight.numpy(), value)
    halved = parametrize.register_parametrization(nn.Linear(2, 3), "weight", Halved())
    value = halved.weight.numpy()
    parametrize.remove_parametrizations(halved, "weight", leave_parametrized=False)
    np.testing.assert_array_equal(halved.weight.numpy(), 2 * value)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ArgumentError, match="has no tensor 'scale'"):
        parametrize.register_parametrization(nn.Linear(2, 3), "scale", Halved())
    with pytest.raises(ShapeError, match="keep the shape"):
        parametrize.register_parametrization(nn.Linear(2, 3), "weight", nn.Flatten(0))
    with pytest.raises(ArgumentError, match="not parametrized"):
        parametrize.remove_parametrizations(nn.Linear(2, 3), "weight")
    layer = parametrize.weight_norm(nn.Linear(2, 3))
    with pytest.raises(ArgumentError, match="several originals"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    with pytest.raises(ArgumentError, match="at least 1"):
        parametrize.spectral_norm(nn.Linear(2, 3), n_power_iterations=0)


def test_an_axis_that_is_not_there_is_refused() -> None:
    with pytest.raises(AxisError, match="weight_norm: axis 2 is out of range"):
        parametrize.weight_norm(nn.Linear(2, 3), dim=2)
    with pytest.raises(AxisError, match="Unflatten: axis 2 is out of range"):
        nn.Unflatten(2, (1, 3))(calor.ones((2, 3)))


def test_what_cannot_take_the_value_so_far_is_refused_and_changes_nothing() -> None:
    layer = nn.Linear(2, 2)
    nn.parametrize.register_parametrization(layer, "weight", nn.Tanh())
    before = layer.weight.tolist()
    with pytest.raises(ArgumentError, match="'weight' of several originals.*register it first"):
        nn.parametrize.weight_norm(layer)
    cut = type("Cut", (nn.Module,), {"forward": lambda self, w: w[:1]})()
    with pytest.raises(ShapeError, match=r"makes \(1, 2\) of \(2, 2\)"):
        nn.parametrize.register_parametrization(layer, "weight", cut)
    assert layer.weight.tolist() == before
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]


def test_frozen_parameters_stay_frozen_parameters() -> None:
    layer = nn.Linear(2, 3)
    layer.weight.requires_grad_(False)
    nn.parametrize.weight_norm(layer)
    frozen = {n: p.requires_grad for n, p in layer.named_parameters()}
    names = [f"parametrizations.weight.original{k}" for k in range(2)]
    assert frozen == {"bias": True, **dict.fromkeys(names, False)}
    assert not list(layer.buffers())
    layer.requires_grad_()
    assert all(p.requires_grad for p in layer.parameters())
    layer.requires_grad_(False)
    nn.parametrize.remove_parametrizations(layer, "weight")
    assert {n: p.requires_grad for n, p in layer.named_parameters()} == {
        "weight": False, "bias": False}  # fmt: skip
