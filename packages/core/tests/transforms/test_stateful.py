"""Gradients for the tensors of objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import calor
from calor.transforms.state import Stateful

from .objects import Linear, Pair, parameter


def test_gradients_have_the_structure_of_the_object() -> None:
    layer = Linear([[1.0], [2.0]], [0.0])
    x = calor.asarray([[3.0, 4.0]], dtype=calor.float64)
    gradient: Any
    value, gradient = calor.value_and_grad(lambda m: m(x).sum())(layer)
    assert value.item() == 11.0
    assert type(gradient) is Linear
    assert gradient.w.tolist() == [[3.0], [4.0]]
    assert gradient.b.tolist() == [1.0]
    assert gradient.calls is None
    assert gradient.name == "linear"


def test_the_object_itself_is_given_so_its_state_changes() -> None:
    layer = Linear([[1.0], [2.0]], [0.0])
    x = calor.asarray([[3.0, 4.0]], dtype=calor.float64)
    w = layer.w
    calor.grad(lambda m: m(x).sum())(layer)
    assert layer.calls.item() == 1
    assert layer.w is w
    assert layer.w.requires_grad
    assert layer.w.grad is None
    layer(x).sum().backward()
    assert layer.w.grad.tolist() == [[3.0], [4.0]]


def test_frozen_tensors_have_no_gradient() -> None:
    layer = Linear([[1.0], [2.0]], [0.0])
    layer.w.requires_grad = False
    gradient: Any = calor.grad(lambda m: m(calor.ones((1, 2), dtype=calor.float64)).sum())(layer)
    assert gradient.w is None
    assert gradient.b.tolist() == [1.0]


def test_tied_weights_have_the_whole_gradient_in_both_places() -> None:
    model = Pair(tied=True)
    x = calor.asarray([[1.0, 1.0]], dtype=calor.float64)
    gradient = calor.grad(lambda m: m(x).sum())(model)
    first, second = gradient.layers[0].w, gradient.layers[1].w
    np.testing.assert_array_equal(first.numpy(), second.numpy())
    model(x).sum().backward()
    np.testing.assert_allclose(model.layers[0].w.grad.numpy(), first.numpy())


def test_objects_inside_containers() -> None:
    layers = {"a": Linear([[2.0]], [0.0]), "b": [parameter(3.0)]}
    x = calor.asarray([[5.0]], dtype=calor.float64)
    gradient = calor.grad(lambda t: (t["a"](x) * t["b"][0]).sum())(layers)
    assert gradient["a"].w.tolist() == [[15.0]]
    assert gradient["b"][0].tolist() == [10.0]


def test_second_order_through_an_object() -> None:
    layer = Linear([[2.0]], [1.0])
    x = calor.asarray([[3.0]], dtype=calor.float64)

    def penalty(m: Linear) -> object:
        inner = calor.grad(lambda t: (m(t) ** 2).sum())(x)
        return (inner**2).sum()

    # d/dx (w x + b)² = 2 w (w x + b) = 28; its square by w: 2 · 28 · (4 w x + 2 b) = 56 · 26.
    gradient = calor.grad(penalty)(layer)
    np.testing.assert_allclose(gradient.w.numpy(), [[56.0 * 26.0]])
    np.testing.assert_allclose(gradient.b.numpy(), [56.0 * 4.0])


def test_the_second_function_may_reuse_the_same_object() -> None:
    layer = Linear([[2.0]], [0.0])
    x = calor.asarray([[3.0]], dtype=calor.float64)
    for _ in range(3):
        assert calor.grad(lambda m: m(x).sum())(layer).w.tolist() == [[3.0]]
    assert layer.calls.item() == 3


@dataclass(frozen=True)
class Setting:
    """A setting of any kind."""

    value: Any


class Scaled(Stateful):
    """A tensor and a setting."""

    def __init__(self, value: Any) -> None:
        self.w: Any = calor.asarray([1.0])
        self.setting = Setting(value)

    def __call__(self, x: Any) -> Any:
        value = self.setting.value
        number = float(np.sum(value)) if type(value) is not bool else 5.0
        return x * self.w * number if np.signbit(number) == 0 else x - self.w


@pytest.mark.parametrize(
    "values",
    [(np.arange(3), np.arange(3) + 1, np.arange(3)), (0.0, -0.0, 0.0), (1, True, 1), (2.0, 3.0)],
    ids=["arrays", "zeros", "truths", "numbers"],
)
def test_a_dataclass_among_the_settings_is_compared_by_its_fields(values: Any) -> None:
    model, x = Scaled(values[0]), calor.asarray([2.0])
    jitted = calor.jit(lambda m, t: m(t))
    for value in values:
        model.setting = Setting(value)
        assert jitted(model, x).tolist() == model(x).tolist()
    assert jitted.trace_count == len(values[:2])
