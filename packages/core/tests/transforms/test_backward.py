"""Interactive gradients: ``backward()``, ``.grad``, and what a graph keeps alive."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import DTypeError, GradientError, ShapeError


def leaf(*values: float) -> Any:
    return calor.asarray(values, dtype=calor.float64, requires_grad=True)


def test_backward_fills_grad() -> None:
    x, y = leaf(1, 2), leaf(3, 4)
    (x * y + x).sum().backward()
    assert x.grad.tolist() == [4.0, 5.0]
    assert y.grad.tolist() == [1.0, 2.0]
    assert not x.grad.requires_grad


def test_gradients_add_up_until_cleared() -> None:
    x = leaf(1, 2)
    (x * x).sum().backward()
    (x * x).sum().backward()
    assert x.grad.tolist() == [4.0, 8.0]
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_look_between_forward_and_backward_changes_nothing(capsys: Any) -> None:
    x = leaf(0.5, 2, -3)
    hidden = calor.relu(x * 2)
    loss = (hidden * hidden).sum()
    print(loss)
    assert "37" in capsys.readouterr().out or loss.item() == 17.0
    assert hidden.numpy()[1] == 4.0
    loss.backward()
    assert x.grad.tolist() == [4.0, 16.0, 0.0]


def test_relu_like_functions_at_other_numbers_than_one() -> None:
    """A gradient that mixes up its operand with its output is right at |x| = 1 alone."""
    x = leaf(-2.5, 0.25, 3)
    calor.relu(x).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 1.0]
    x.grad = None
    calor.maximum(x, 0).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 1.0]
    x.grad = None
    calor.abs(x).sum().backward()
    assert x.grad.tolist() == [-1.0, 1.0, 1.0]
    x.grad = None
    calor.leaky_relu(x, 0.125).sum().backward()
    assert x.grad.tolist() == [0.125, 1.0, 1.0]


def test_a_shared_graph_is_walked_again() -> None:
    a = leaf(2)
    s = a * a
    first, second = s.sum(), s.sum()
    first.backward()
    second.backward()
    assert a.grad.tolist() == [8.0]
    s.sum().backward()
    assert a.grad.tolist() == [12.0]


def test_the_same_output_twice() -> None:
    a = leaf(2)
    loss = (a * a).sum()
    loss.backward()
    assert loss.item() == 4.0
    loss.backward()
    assert a.grad.tolist() == [8.0]


def test_a_value_used_many_times_gathers_all_parts() -> None:
    x = leaf(3)
    y = x
    for _ in range(10):
        y = y + y
    y.sum().backward()
    assert x.grad.tolist() == [1024.0]


def test_a_long_chain_needs_no_recursion() -> None:
    x = leaf(1)
    y = x
    for _ in range(5000):
        y = y * 1.0
    y.sum().backward()
    assert x.grad.tolist() == [1.0]


def test_vectors_need_a_gradient_to_start_from() -> None:
    x = leaf(1, 2)
    with pytest.raises(GradientError, match=r"shape \(2,\) needs a gradient.*x.sum\(\)"):
        (x * x).backward()
    (x * x).backward(calor.asarray([1.0, 10.0], dtype=calor.float64))
    assert x.grad.tolist() == [2.0, 40.0]
    with pytest.raises(ShapeError, match=r"the gradient has shape \(3,\), the tensor \(2,\)"):
        (x * x).backward(calor.ones(3, dtype=calor.float64))
    with pytest.raises(DTypeError, match="float32.*float64.*cast"):
        (x * x).backward(calor.ones(2, dtype=calor.float32))


def test_tensors_without_history_say_so() -> None:
    with pytest.raises(GradientError, match="depends on no tensor that requires gradients"):
        calor.ones(1).sum().backward()
    with pytest.raises(GradientError, match="requires_grad"):
        leaf(1).detach().sum().backward()


def test_create_graph_gives_gradients_that_can_be_differentiated() -> None:
    x = leaf(2)
    (x**3).sum().backward(create_graph=True)
    first = x.grad
    assert first.tolist() == [12.0]
    x.grad = None
    first.sum().backward()
    assert x.grad.tolist() == [12.0]


def test_requires_grad_is_about_leaves() -> None:
    x: Any = calor.ones(2)
    assert not x.requires_grad
    assert x.requires_grad_() is x
    assert x.requires_grad
    x.requires_grad = False
    assert not x.requires_grad
    y = leaf(1) * 2
    assert y.requires_grad_() is y
    with pytest.raises(GradientError, match=r"x.detach\(\)"):
        y.requires_grad = False
    with pytest.raises(DTypeError, match="floating or complex dtype, not int64"):
        calor.asarray([1]).requires_grad_()


def test_grad_must_fit() -> None:
    x = leaf(1, 2)
    with pytest.raises(ShapeError, match=r"shape \(3,\) does not fit \(2,\)"):
        x.grad = calor.ones(3)


def test_no_grad_and_enable_grad_nest() -> None:
    x = leaf(1)
    with calor.no_grad():
        assert not (x * 2).requires_grad
        with calor.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad


def test_no_grad_ends_after_an_error() -> None:
    x = leaf(1)
    with pytest.raises(ZeroDivisionError), calor.no_grad():
        1 / 0
    assert (x * 2).requires_grad


def test_one_context_object_can_be_entered_twice() -> None:
    context = calor.no_grad()
    with context, context:
        assert not (leaf(1) * 2).requires_grad
    assert (leaf(1) * 2).requires_grad


class TestInPlace:
    """In-place changes are new values of a handle."""

    def test_a_leaf_refuses(self) -> None:
        x = leaf(1, 2)
        with pytest.raises(GradientError, match="in-place change of a leaf.*no_grad"):
            x += 1
        with pytest.raises(GradientError, match="in-place change of a leaf"):
            x[0] = 5.0
        assert x.tolist() == [1.0, 2.0]

    def test_a_leaf_may_be_changed_under_no_grad(self) -> None:
        x = leaf(1, 2)
        with calor.no_grad():
            x -= 0.5
        assert x.tolist() == [0.5, 1.5]
        assert x.requires_grad
        (x * x).sum().backward()
        assert x.grad.tolist() == [1.0, 3.0]

    def test_history_before_a_change_keeps_its_numbers(self) -> None:
        x = leaf(2)
        y = (x * x).sum()
        with calor.no_grad():
            x += 100
        y.backward()
        assert x.grad.tolist() == [4.0]

    def test_intermediates_follow_their_change(self) -> None:
        x = leaf(3)
        y = x * 1
        square = y * y
        y += 4
        (y * y + square).sum().backward()
        assert x.grad.tolist() == [2 * 7 + 2 * 3]

    def test_written_elements_cut_the_old_and_carry_the_new(self) -> None:
        x, v = leaf(1, 2, 3), leaf(10)
        y = x * 2
        y[1] = v[0] * 3
        (y * y).sum().backward()
        assert x.grad.tolist() == [8.0, 0.0, 24.0]
        assert v.grad.tolist() == [2 * 30 * 3]

    def test_a_plain_tensor_takes_history_from_what_is_written(self) -> None:
        v = leaf(2)
        y = calor.zeros(3, dtype=calor.float64)
        y[0] = v[0] * 5
        y += v
        y.sum().backward()
        assert v.grad.tolist() == [8.0]


class TestLiveness:
    """A graph keeps what its gradients read, and only as long as somebody holds it."""

    def test_residuals_go_with_the_last_handle(self, in_use: Callable[[], int]) -> None:
        x = calor.ones((1000,), requires_grad=True)
        calor.eval(x)
        start = in_use()
        y = calor.exp(x)
        z = calor.sin(y)
        loss = z.sum()
        calor.eval(loss)
        del y, z
        held = in_use() - start
        # exp keeps its output, which is also what sin keeps.
        assert 4000 <= held <= 2 * 4000
        del loss
        assert in_use() == start

    def test_history_without_gradients_is_not_kept(self, in_use: Callable[[], int]) -> None:
        x = calor.ones((1000,))
        calor.eval(x)
        start = in_use()
        y = calor.exp(x)
        loss = calor.sin(y).sum()
        calor.eval(loss)
        del y
        assert in_use() - start <= 64

    def test_sums_keep_nothing(self, in_use: Callable[[], int]) -> None:
        x = calor.ones((1000,), requires_grad=True)
        calor.eval(x)
        start = in_use()
        loss = (x + x).sum()
        calor.eval(loss)
        assert in_use() - start <= 64

    def test_the_forward_pass_runs_once(self, device: Any) -> None:
        x = calor.ones((1237,), requires_grad=True)
        known = set(device.plans)
        loss = calor.exp(x).sum()
        loss.item()
        assert _exponentials(device, known) == 1
        loss.backward()
        calor.eval(x.grad)
        assert _exponentials(device, known) == 1

    def test_a_graph_is_retained_for_as_long_as_its_output(self) -> None:
        x = leaf(2)
        y = x * x
        z = (y * y).sum()
        z.backward()
        z.backward()
        assert x.grad.tolist() == [64.0]
        y.sum().backward()
        assert x.grad.tolist() == [68.0]

    def test_a_dead_leaf_takes_no_gradient(self) -> None:
        x, y = leaf(2), leaf(3)
        z = (x * y).sum()
        del x
        z.backward()
        assert y.grad.tolist() == [2.0]


def _exponentials(device: Any, known: Set[Any]) -> int:
    """Count the exponentials in plans made since: a full table forgets old ones."""
    made = [plan for key, plan in device.plans.items() if key not in known]
    graphs = [getattr(plan, "graph", None) for plan in made]
    return sum(node.op.name == "exp" for g in graphs if g is not None for node in g.nodes)


def test_gradients_flow_to_another_device_and_back() -> None:
    x = leaf(1, 2)
    (x.to("numpy") * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    assert x.grad.device is x.device


@pytest.mark.parametrize(
    ("function", "slopes"),
    [
        (lambda x, i, v: calor.scatter_along_axis(x, i, v).sum(), [0.0, 1.0, 1.0]),
        (lambda x, i, v: calor.cumulative_max(v, axis=0).sum(), [1.0, 1.0, 1.0]),
        (lambda x, i, v: calor.cumulative_min(v, axis=0).sum(), [3.0, 0.0, 0.0]),
    ],
)
def test_gradients_stay_on_the_device_of_their_tensors(function: Any, slopes: list[float]) -> None:
    # The current device is another one where there is one.
    x, i, v = (calor.asarray(a, device="numpy") for a in ([0.0] * 4, [1, 1, 3], [5.0, 6.0, 7.0]))
    found = calor.grad(lambda v: function(x, i, v))(v)
    assert found.tolist() == slopes
    assert found.device is x.device


def test_a_training_loop_by_hand_learns() -> None:
    rng = np.random.default_rng(0)
    data = rng.normal(size=(64, 3))
    target = calor.asarray(data @ np.array([1.0, -2.0, 0.5]))
    inputs = calor.asarray(data)
    w: Any = calor.zeros(3, dtype=calor.float64, requires_grad=True)
    for _ in range(200):
        loss = ((inputs @ w - target) ** 2).mean()
        loss.backward()
        with calor.no_grad():
            w -= 0.1 * w.grad
        w.grad = None
    np.testing.assert_allclose(w.numpy(), [1.0, -2.0, 0.5], atol=1e-6)


@pytest.mark.parametrize("write", ["y[...] = x", "y[:] = x", "y[0:2] = x"])
def test_a_tensor_to_which_a_leaf_was_written_is_no_leaf(write: str) -> None:
    x, y = leaf(1, 2), calor.zeros(2, dtype=calor.float64)
    exec(write, {"x": x, "y": y})
    y += 1
    (y * 3).sum().backward()
    assert y.tolist() == [2.0, 3.0]
    assert x.grad.tolist() == [3.0, 3.0]
    with pytest.raises(GradientError, match=r"x\.detach\(\)"):
        y.requires_grad_(False)
    with calor.no_grad():
        exec(write, {"x": x, "y": y})
    assert not (y * 1).requires_grad
