"""Are hooks called in order, with what they get in PyTorch, and does what they return count?"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import calor
from calor import nn
from calor.errors import ArgumentError


class Scale(nn.Module):
    """y = factor · x."""

    def __init__(self) -> None:
        self.factor = nn.Parameter(calor.asarray([2.0]))

    def forward(self, x: Any, *, more: float = 0.0) -> Any:
        return x * self.factor + more


def double(module: Any, args: Any, output: Any) -> Any:
    return output * 2


def test_forward_hooks_see_and_change_arguments_and_output() -> None:
    layer, order = Scale(), []
    layer.register_forward_pre_hook(lambda module, args: order.append(len(args)))
    layer.register_forward_pre_hook(lambda module, args: args[0] + 1)
    layer.register_forward_pre_hook(
        lambda module, args, kwargs: (args, {"more": kwargs["more"] * 10}), with_kwargs=True
    )
    layer.register_forward_hook(double)
    layer.register_forward_hook(
        lambda module, args, kwargs, y: order.append(kwargs), with_kwargs=True
    )
    assert layer(calor.asarray([3.0]), more=0.5).tolist() == [26.0]
    assert order == [1, {"more": 5.0}]


def test_a_removed_hook_is_not_called() -> None:
    layer = nn.Identity()
    first, second = (layer.register_forward_hook(double) for _ in range(2))
    assert layer(calor.ones(1)).tolist() == [4.0]
    first.remove()
    first.remove()
    assert layer(calor.ones(1)).tolist() == [2.0]
    with layer.register_forward_hook(double):
        assert layer(calor.ones(1)).tolist() == [4.0]
    second.remove()
    assert layer(calor.ones(1)).tolist() == [1.0]


@pytest.mark.parametrize("jitted", [False, True])
def test_backward_hooks_see_and_change_gradients(jitted: bool) -> None:
    layer, seen = Scale(), []
    layer.register_full_backward_pre_hook(lambda module, out: (out[0] * 3,))
    layer.register_full_backward_hook(
        lambda module, into, out: seen.append((into[0].shape, out[0].shape))
    )
    layer.register_full_backward_hook(lambda module, into, out: (into[0] + 1,))
    gradient = calor.grad(lambda m, x: m(x).sum(), argnums=(0, 1))
    found = (calor.jit(gradient) if jitted else gradient)(layer, calor.asarray([1.0, 4.0]))
    np.testing.assert_array_equal(found[1].numpy(), [7.0, 7.0])
    np.testing.assert_array_equal(found[0].factor.numpy(), [15.0])
    assert seen == [((2,), (2,))]


def test_a_module_whose_input_wants_no_gradient_has_none_for_it() -> None:
    layer, seen = Scale(), []
    layer.register_full_backward_hook(
        lambda module, into, out: seen.append((into, out[0].tolist()))
    )
    layer(calor.ones(2)).sum().backward()
    assert seen == [((None,), [1.0, 1.0])]


def test_a_hook_makes_a_jitted_function_trace_again() -> None:
    layer, step = nn.Identity(), calor.jit(lambda module, x: module(x))
    x = calor.ones(1)
    assert step(layer, x).tolist() == [1.0]
    handle = layer.register_forward_hook(double)
    assert step(layer, x).tolist() == step(layer, x).tolist() == [2.0]
    handle.remove()
    assert step(layer, x).tolist() == [1.0]


def test_hooks_are_copied_and_no_part_of_the_state() -> None:
    layer = Scale()
    layer.register_forward_hook(double)
    assert list(layer.state_dict()) == ["factor"]
    for made in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert made(calor.ones(1)).tolist() == [4.0]


def test_wrong_hooks_are_refused() -> None:
    layer = nn.Identity()
    with pytest.raises(ArgumentError, match="must be a function"):
        layer.register_forward_hook(3)  # type: ignore[arg-type]
    layer.register_forward_pre_hook(lambda module, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(ArgumentError, match="return None or"):
        layer(calor.ones(1))
