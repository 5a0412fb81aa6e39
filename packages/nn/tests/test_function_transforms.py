"""vmap, Jacobians and Hessians of models: a multilayer perceptron, a convolutional one, attention.

What they give is compared with a loop, and with differences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor import nn
from calor.errors import TraceError

rng = np.random.default_rng(0)


def drawn(*shape: int) -> Any:
    return calor.asarray(rng.standard_normal(shape), dtype=calor.float64)


class Attention(nn.Module):
    """Attention of a few places to themselves, and the mean of what they found."""

    def __init__(self) -> None:
        self.inner = nn.MultiHeadAttention(4, 2, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.inner(x).mean(axis=1)


MODELS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "perceptron": (
        lambda: nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.LayerNorm(4), nn.Linear(4, 2)),
        (3,),
    ),
    "convolutional": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 2)
        ),
        (1, 6, 6),
    ),
    "attention": (Attention, (3, 4)),
}


def made(name: str) -> tuple[Any, Any]:
    """Return a model in float64 and three inputs."""
    build, shape = MODELS[name]
    model = build()
    model.to(calor.float64)
    return model, drawn(3, *shape)


def one(model: Any, x: Any) -> Any:
    return model(x[None])[0]


def loss(model: Any, x: Any) -> Any:
    return (one(model, x) ** 2).sum()


def close(got: Any, want: Any, atol: float = 1e-10) -> None:
    for a, b in zip(calor.tree.leaves(got), calor.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=atol)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_one_input_is_mapped(name: str) -> None:
    model, x = made(name)
    close(calor.vmap(one, in_axes=(None, 0))(model, x), model(x))


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_each_example(name: str) -> None:
    model, x = made(name)
    found = calor.vmap(calor.grad(loss), in_axes=(None, 0))(model, x)
    for i, row in enumerate(x):
        close([t[i] for t in calor.tree.leaves(found)], calor.grad(loss)(model, row))


@pytest.mark.parametrize("name", MODELS)
def test_several_models_at_once(name: str) -> None:
    models = [made(name)[0] for _ in range(2)]
    x = made(name)[1][0]
    stacked = calor.tree.map(lambda *tensors: calor.stack(tensors), *models)
    close(calor.vmap(one, in_axes=(0, None))(stacked, x), calor.stack([one(m, x) for m in models]))
    total = calor.grad(lambda s: calor.vmap(loss, in_axes=(0, None))(s, x).sum())(stacked)
    for i, m in enumerate(models):
        close([t[i] for t in calor.tree.leaves(total)], calor.grad(loss)(m, x))


@pytest.mark.parametrize("name", MODELS)
def test_jacobians_and_hessians(name: str) -> None:
    model, rows = made(name)
    x = rows[0]
    close(calor.jacrev(one, argnums=(0, 1))(model, x), calor.jacfwd(one, argnums=(0, 1))(model, x))
    second = calor.hessian(loss, argnums=1)(model, x)
    step = 1e-5 * drawn(*x.shape)
    gradient = calor.grad(loss, argnums=1)
    difference = (gradient(model, x + step) - gradient(model, x - step)) / 2
    close((second * step).sum(axis=tuple(range(x.ndim, 2 * x.ndim))), difference, atol=1e-9)


def test_second_derivatives_by_parameters_are_modules_of_modules() -> None:
    model = nn.Linear(3, 2)
    x = drawn(3).astype(calor.float32)

    def total(model: Any, x: Any) -> Any:
        return (calor.tanh(model(x)) ** 2).sum()

    found = calor.hessian(total)(model, x)
    assert found.weight.bias.shape == (2, 3, 2)
    close(found, calor.jacrev(calor.jacrev(total))(model, x), atol=1e-5)


def test_modes_that_look_at_the_batch_say_so() -> None:
    x = drawn(3, 4, 2).astype(calor.float32)
    norm = nn.BatchNorm1d(2)
    with pytest.raises(TraceError, match="differ along the mapped axis"):
        calor.vmap(norm)(x)
    norm.eval()
    close(calor.vmap(norm)(x), calor.stack([norm(row) for row in x]), atol=1e-6)
    dropout = nn.Dropout(0.5)
    with pytest.raises(TraceError, match="randomness='different'"):
        calor.vmap(dropout)(x)
    masks = calor.vmap(dropout, randomness="different")(calor.ones((2, 50)))
    assert masks[0].tolist() != masks[1].tolist()
