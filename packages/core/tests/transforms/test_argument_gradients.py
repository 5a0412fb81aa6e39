"""backward() inside jit, for tensors that are arguments: as outside jit."""

from __future__ import annotations

from typing import Any

import pytest

import calor
from calor.errors import GradientError, TraceError
from calor.transforms.state import Stateful

from .objects import Linear, parameter


def both(make: Any, function: Any, calls: int = 2) -> list[list[Any]]:
    """Return what calls leave in ``.grad`` of the tensors that ``make`` gives, jitted or not."""
    outcomes = []
    for call in (function, calor.jit(function)):
        tensors = make()
        results = [call(*tensors) for _ in range(calls)]
        grads = [None if t.grad is None else t.grad.tolist() for t in tensors]
        values = [None if r is None else r.tolist() for r in results]
        outcomes.append([values, grads, [t.tolist() for t in tensors]])
    assert outcomes[0] == outcomes[1]
    return outcomes[1]


def test_gradients_of_arguments_add_up() -> None:
    def f(x: Any, y: Any) -> Any:
        loss = (x * x * y).sum()
        loss.backward()
        return loss

    outcome = both(lambda: (parameter(1, 2), parameter(3, 4)), f, calls=3)
    assert outcome[1] == [[18.0, 48.0], [3.0, 12.0]]
    outcome = both(lambda: (parameter(1, 2), calor.asarray([3.0, 4.0], dtype=calor.float64)), f)
    assert outcome[1] == [[12.0, 32.0], None]


def test_a_step_that_updates_its_argument() -> None:
    def step(w: Any, x: Any) -> Any:
        loss = ((w * x - 3.0) ** 2).sum()
        loss.backward()
        with calor.no_grad():
            w -= 0.1 * w.grad
        w.grad = None
        return loss

    x = calor.asarray([1.0, 2.0], dtype=calor.float64)
    outcome = both(lambda: (parameter(0, 0), x), step, calls=5)
    assert outcome[0][0] == 18.0
    assert outcome[0][4] < 2.0
    assert outcome[1] == [None, None]


def test_a_gradient_from_before_is_seen_inside() -> None:
    def f(x: Any) -> Any:
        (x * x).sum().backward()
        return x.grad * 2

    outcome = both(lambda: (parameter(3),), f, calls=3)
    assert outcome[0] == [[12.0], [24.0], [36.0]]

    def scaled(x: Any) -> Any:
        return x * 1.0 if x.grad is None else x * x.grad

    jitted = calor.jit(scaled)
    x = parameter(3)
    assert jitted(x).tolist() == [3.0]
    x.grad = calor.asarray([5.0], dtype=calor.float64)
    assert jitted(x).tolist() == [15.0]
    assert jitted.trace_count == 2


def test_gradients_are_cleared_inside() -> None:
    def clear(x: Any) -> None:
        x.grad = None

    x = parameter(1)
    x.grad = calor.ones(1, dtype=calor.float64)
    calor.jit(clear)(x)
    assert x.grad is None


def test_a_computed_argument_passes_its_gradient_on() -> None:
    def f(w: Any, jitted: bool) -> Any:
        inner = lambda x, y: ((x * y).sum().backward(), x.grad)[1]  # noqa: E731
        call = calor.jit(inner) if jitted else inner
        hidden = w * 3
        assert call(hidden, w) is None
        assert hidden.grad is None
        return w.grad

    for jitted in (False, True):
        w = parameter(2, 5)
        # d(3 w · w) = 6 w
        assert f(w, jitted).tolist() == [12.0, 30.0]
        w.requires_grad = False


def test_arguments_captures_and_modules_together() -> None:
    layer, w = Linear([[2.0]], [0.5]), parameter(3)

    def f(m: Linear, parts: dict[str, Any]) -> Any:
        loss = (m(parts["x"]) * w * parts["y"]).sum()
        loss.backward()
        return loss

    x = calor.asarray([[5.0]], dtype=calor.float64, requires_grad=True)
    parts = {"x": x, "y": parameter(7)}
    calor.jit(f)(layer, parts)
    assert x.grad.tolist() == [[2.0 * 3 * 7]]
    assert parts["y"].grad.tolist() == [10.5 * 3]
    assert w.grad.tolist() == [10.5 * 7]
    assert layer.w.grad.tolist() == [[5.0 * 3 * 7]]


def test_which_arguments_take_gradients_is_structure_only_where_it_matters() -> None:
    plain = calor.jit(lambda x: x * 2)
    plain(parameter(1))
    plain(calor.zeros(1, dtype=calor.float64))
    assert plain.trace_count == 1

    w = parameter(2)

    @calor.jit
    def f(x: Any) -> None:
        (x * w).sum().backward()

    x, y = parameter(1), parameter(1).detach()
    f(y)
    f(x)
    assert (x.grad.tolist(), y.grad) == ([2.0], None)
    assert "which tensor arguments take gradients changed" in f.explain()
    w.grad = None
    f(y)
    assert w.grad.tolist() == [1.0]
    asks = calor.jit(lambda x: x * 2 if x.requires_grad else x)
    assert (asks(x).tolist(), asks(y).tolist()) == ([2.0], [1.0])


def test_a_tensor_given_twice() -> None:
    f = calor.jit(lambda x, y: (x * x * y).sum().backward())
    x = parameter(3)
    f(x, x)
    f(x, x)
    assert x.grad.tolist() == [54.0]


def test_a_tensor_that_is_also_captured() -> None:
    x = parameter(3)
    f = calor.jit(lambda y: (x * y).sum().backward())
    f(x)
    assert x.grad.tolist() == [6.0]
    f(parameter(1))
    assert x.grad.tolist() == [7.0]


def test_code_that_catches_everything_is_traced_again_too() -> None:
    tries = []

    def f(x: Any) -> None:
        try:
            (x * x).sum().backward()
        except BaseException:
            tries.append(1)

    x = parameter(3)
    calor.jit(f)(x)
    assert x.grad.tolist() == [6.0]
    assert tries == [1]


def test_objects_are_as_they_were_when_a_trace_begins_again() -> None:
    class Counter(Stateful):
        def __init__(self) -> None:
            self.n = calor.asarray(0)

    counter, x = Counter(), parameter(3)

    @calor.jit
    def f(x: Any) -> Any:
        counter.n = counter.n + 1
        (x * x).sum().backward()
        return counter.n * 1

    assert [f(x).item(), f(x).item()] == [1, 2]
    assert x.grad.tolist() == [12.0]


def test_where_nothing_requires_gradients_it_says_so() -> None:
    f = calor.jit(lambda x: (x * x).sum().backward())
    with pytest.raises(GradientError, match="depends on no tensor that requires gradients"):
        f(calor.ones(2))
    x = parameter(1)
    with calor.no_grad(), pytest.raises(GradientError, match="depends on no tensor"):
        f(x)
    f(x)
    assert x.grad.tolist() == [2.0]


def test_in_a_body_of_control_flow_it_is_refused() -> None:
    x = parameter(1)

    def f(x: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            with calor.enable_grad():
                (x * c).sum().backward()
            return c

        return calor.fori_loop(0, 2, step, calor.ones(1, dtype=calor.float64))

    with pytest.raises(TraceError, match=r"\.grad of a tensor from outside.*value_and_grad"):
        calor.jit(f)(x)


def test_an_attribute_given_a_tensor_from_outside_follows_it() -> None:
    class Holder(Stateful):
        def __init__(self) -> None:
            self.held = calor.zeros(1)

    holder, source = Holder(), calor.ones(1)

    @calor.jit
    def take() -> None:
        holder.held = source

    take()
    source.__iadd__(1)
    take()
    assert holder.held.tolist() == [2.0]


def test_the_graph_of_a_function_with_backward() -> None:
    graph = calor.trace(lambda x: (x * x).sum().backward(), parameter(3))
    assert [s.shape for s in graph.output_specs] == [(1,)]
