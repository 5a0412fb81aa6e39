"""jit: gradients inside, through and of jitted functions, and training steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor

from .objects import Linear, Momentum, Pair, parameter


def tensor(*values: float) -> Any:
    return calor.asarray(values, dtype=calor.float64)


def leaf(*values: float) -> Any:
    return calor.asarray(values, dtype=calor.float64, requires_grad=True)


def test_gradients_inside_jit() -> None:
    f = calor.jit(calor.value_and_grad(lambda x: (x**3).sum()))
    for x in (tensor(1, 2), tensor(3, 4)):
        value, gradient = f(x)
        np.testing.assert_allclose(value.numpy(), (x.numpy() ** 3).sum())
        np.testing.assert_allclose(gradient.numpy(), 3 * x.numpy() ** 2)
    assert f.trace_count == 1


def test_gradients_of_jit() -> None:
    f = calor.jit(lambda x: (x**3).sum())
    assert calor.grad(f)(tensor(1, 2)).tolist() == [3.0, 12.0]
    assert calor.grad(f)(tensor(3, 4)).tolist() == [27.0, 48.0]
    assert f.trace_count == 1


def test_second_order_in_every_nesting() -> None:
    def cube(x: Any) -> Any:
        return (x**3).sum()

    x = calor.asarray(2.0, dtype=calor.float64)
    jit, grad = calor.jit, calor.grad
    for second in (
        grad(grad(jit(cube))),
        grad(jit(grad(cube))),
        jit(grad(grad(cube))),
        grad(jit(grad(jit(cube)))),
        jit(grad(jit(grad(jit(cube))))),
    ):
        assert second(x).item() == pytest.approx(12.0)
    third = grad(grad(grad(jit(cube))))
    assert third(x).item() == pytest.approx(6.0)


def test_backward_through_a_jitted_function() -> None:
    w = leaf(2, 3)
    f = calor.jit(lambda x: x * w * w)
    x = leaf(1, 10)
    y = f(x)
    assert y.requires_grad
    y.sum().backward()
    assert w.grad.tolist() == [4.0, 60.0]
    assert x.grad.tolist() == [4.0, 9.0]
    f(x).sum().backward()
    assert w.grad.tolist() == [8.0, 120.0]
    assert f.trace_count == 1


def test_backward_after_the_inputs_changed() -> None:
    w = leaf(2)
    f = calor.jit(lambda x: x * w * w)
    y = f(tensor(5))
    with calor.no_grad():
        w += 100
    y.sum().backward()
    assert w.grad.tolist() == [20.0]


def test_backward_twice_through_one_call() -> None:
    x = leaf(2)
    y = calor.jit(lambda t: t * t)(x)
    y.sum().backward()
    y.sum().backward()
    assert x.grad.tolist() == [8.0]


def test_some_of_several_outputs() -> None:
    x = leaf(2)
    a, (b, n) = calor.jit(lambda t: (t * t, (t * 10, calor.argmax(t))))(x)
    assert not n.requires_grad
    b.sum().backward()
    assert x.grad.tolist() == [10.0]
    (a + b).sum().backward()
    assert x.grad.tolist() == [24.0]


def test_create_graph_through_jit() -> None:
    x = leaf(2)
    calor.jit(lambda t: t**3)(x).sum().backward(create_graph=True)
    gradient = x.grad
    x.grad = None
    gradient.sum().backward()
    assert x.grad.tolist() == [12.0]


def test_jvp_of_and_inside_jit() -> None:
    f = calor.jit(lambda x: x**3)
    inside = calor.jit(lambda x, t: calor.jvp(lambda v: v**3, (x,), (t,))[1])
    assert inside(tensor(2), tensor(1)).tolist() == [12.0]
    y, dy = calor.jvp(f, (tensor(2),), (tensor(1),))
    assert (y.tolist(), dy.tolist()) == ([8.0], [12.0])


def test_stop_gradient_inside_jit() -> None:
    f = calor.jit(lambda x: (x * calor.stop_gradient(x)).sum())
    assert calor.grad(f)(tensor(3)).tolist() == [3.0]
    assert calor.jit(calor.grad(f))(tensor(3)).tolist() == [3.0]


def test_a_training_step_is_the_same_with_and_without_jit() -> None:
    rng = np.random.default_rng(0)
    x, target = (calor.asarray(rng.normal(size=(8, 2))) for _ in range(2))

    def train(compiled: bool) -> tuple[list[float], Pair]:
        model = Pair()
        optimizer = Momentum([t for layer in model.layers for t in (layer.w, layer.b)], rate=0.01)

        def step(m: Pair, o: Momentum, inputs: Any, wanted: Any) -> Any:
            loss = ((m(inputs) - wanted) ** 2).mean()
            loss.backward()
            o.step()
            return loss

        run: Any = calor.jit(step) if compiled else step
        losses = [run(model, optimizer, x, target).item() for _ in range(20)]
        if compiled:
            assert run.trace_count == 1
        return losses, model

    plain, first = train(False)
    jitted, second = train(True)
    assert plain == jitted
    assert plain[-1] < 0.5 * plain[0]
    for a, b in zip(first.layers, second.layers, strict=True):
        assert a.w.tolist() == b.w.tolist()
        assert a.calls.item() == b.calls.item() == 20
        assert b.w.grad is None


def test_value_and_grad_of_a_module_in_a_step() -> None:
    model = Linear([[1.0], [1.0]], [0.0])
    x, target = tensor(1, 2), tensor(7)

    @calor.jit
    def step(m: Linear) -> Any:
        value, g = calor.value_and_grad(lambda m: ((m(x) - target) ** 2).sum())(m)
        with calor.no_grad():
            m.w -= 0.05 * g.w
            m.b -= 0.05 * g.b
        return value

    losses = [step(model).item() for _ in range(30)]
    assert losses[-1] < 1e-3 < losses[0]
    assert step.trace_count == 1
    assert model.w.requires_grad


def test_grads_that_stay_are_accumulated() -> None:
    p = parameter(1.0)

    @calor.jit
    def accumulate(x: Any) -> None:
        (p * x).sum().backward()

    for n in range(1, 4):
        accumulate(tensor(2))
        assert p.grad.tolist() == [2.0 * n]
    # Without a gradient, and with one to add to.
    assert accumulate.trace_count == 2
    p.grad = None
    accumulate(tensor(5))
    assert p.grad.tolist() == [5.0]
    assert accumulate.trace_count == 2


def test_a_gradient_kept_outside_is_not_overwritten() -> None:
    p = parameter(1.0)

    @calor.jit
    def accumulate(x: Any) -> None:
        (p * x).sum().backward()

    accumulate(tensor(2))
    kept = p.grad.detach()
    accumulate(tensor(2))
    accumulate(tensor(2))
    assert kept.tolist() == [2.0]
    assert p.grad.tolist() == [6.0]


def test_clearing_gradients_inside() -> None:
    p = parameter(1.0)

    @calor.jit
    def step(x: Any) -> Any:
        p.grad = None
        (p * x).sum().backward()
        return p.grad * 2

    assert [step(tensor(v)).item() for v in (2, 3)] == [4.0, 6.0]
    assert p.grad.tolist() == [3.0]
    assert [step(tensor(v)).item() for v in (4, 5)] == [8.0, 10.0]
    assert p.grad.tolist() == [5.0]


def test_checkpoint_inside_and_around_jit() -> None:
    def function(x: Any) -> Any:
        return calor.sin(x) * x

    x = tensor(0.5)
    want = calor.grad(lambda t: function(t).sum())(x).item()
    inside = calor.jit(calor.grad(lambda t: calor.checkpoint(function)(t).sum()))
    around = calor.grad(lambda t: calor.checkpoint(calor.jit(function))(t).sum())
    assert inside(x).item() == pytest.approx(want)
    assert around(x).item() == pytest.approx(want)


def test_a_step_adds_to_the_gradients_that_others_left() -> None:
    def total(x: Any) -> Any:
        return (x * layer.w).sum()

    def add(x: Any) -> Any:
        total(x).backward()

    def step(x: Any) -> Any:
        total(x).backward()
        made = layer.w.grad * 1
        layer.w.grad = None
        return made

    def look(x: Any) -> Any:
        return x if layer.w.grad is None else layer.w.grad

    layer = Linear([[1.0]], [0.0])
    x = calor.asarray([[3.0]], dtype=calor.float64)
    add, step, look = calor.jit(add), calor.jit(step), calor.jit(look)
    for count in (1, 2, 1, 3):
        layer.w.grad = None
        assert look(x).item() == 3.0
        for n in range(1, count):
            add(x)
            assert look(x).item() == 3.0 * n
        assert step(x).item() == 3.0 * count
        assert layer.w.grad is None
    assert (add.trace_count, step.trace_count, look.trace_count) == (2, 2, 2)
