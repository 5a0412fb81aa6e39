"""Bodies of control flow that change state from outside: as the same steps in Python would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import calor
from calor.config import config
from calor.errors import GradientError, TraceError
from calor.graph.verify import verify
from calor.local import local
from calor.transforms.flows import flows
from calor.transforms.state import Stateful

from .objects import parameter


class Layer(Stateful):
    """Dropout, a norm by the batch with running statistics, and a weight."""

    def __init__(self) -> None:
        self.w: Any = calor.asarray(np.eye(3) + 0.1, requires_grad=True)
        self.mean: Any = calor.zeros(3, dtype=calor.float64)
        self.count: Any = calor.asarray(0)

    def __call__(self, x: Any) -> Any:
        kept = calor.random.uniform(x.shape) < 0.7
        x = calor.where(kept, x, 0.0) @ self.w
        mean = x.mean(axis=0)
        with calor.no_grad():
            self.mean *= 0.9
            self.mean += 0.1 * mean.detach()
            self.count += 1
        return x - mean


def counter() -> list[int]:
    return list(calor.random.default_generator.state[1].tolist())


def data(*shape: int) -> Any:
    return calor.asarray(np.random.default_rng(0).normal(size=shape))


def in_python(layer: Layer, x: Any) -> tuple[Any, Any]:
    carry, rows = calor.zeros(x.shape[1:], dtype=calor.float64), []
    for i in range(x.shape[0]):
        carry = layer(x[i]) + carry * 0.5
        rows.append(carry.sum())
    return carry, calor.stack(rows)


def in_scan(layer: Layer, x: Any) -> tuple[Any, Any]:
    def step(carry: Any, row: Any) -> tuple[Any, Any]:
        carry = layer(row) + carry * 0.5
        return carry, carry.sum()

    made: tuple[Any, Any] = calor.scan(step, calor.zeros(x.shape[1:], dtype=calor.float64), x)
    return made


def in_fori(layer: Layer, x: Any) -> tuple[Any, Any]:
    def step(i: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        carry = layer(x[i]) + state[0] * 0.5
        rows = state[1].copy()
        rows[i] = carry.sum()
        return carry, rows

    start = calor.zeros(x.shape[1:], dtype=calor.float64)
    made: tuple[Any, Any] = calor.fori_loop(
        0, x.shape[0], step, (start, calor.zeros(x.shape[0], dtype=calor.float64))
    )
    return made


@pytest.fixture(params=["lazy", "eager"])
def mode(request: Any) -> Iterator[None]:
    config.eager = request.param == "eager"
    for trace in local.traces.values():
        trace.reset()
    yield
    config.eager = False
    for trace in local.traces.values():
        trace.reset()


def outcome(function: Any, compiled: bool) -> tuple[list[bytes], list[Any], list[Any]]:
    """Return what two calls give, the gradient, and the state that they leave."""
    calor.random.seed(3)
    layer, x = Layer(), data(4, 5, 3)
    x.requires_grad = True

    def loss(layer: Layer, x: Any) -> Any:
        carry, rows = function(layer, x)
        return (carry * carry).sum() + (rows * carry.sum()).sum()

    call = calor.jit(loss) if compiled else loss
    made = []
    for _ in range(2):
        value = call(layer, x)
        value.backward()
        made.append(value.numpy().tobytes())
    assert not layer.mean.requires_grad
    state = [layer.mean.tolist(), layer.count.item(), counter()]
    return made, [layer.w.grad.numpy(), x.grad.numpy()], state


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "jit"])
@pytest.mark.parametrize("loop", [in_scan, in_fori])
def test_a_loop_does_what_its_steps_do_in_python(loop: Any, compiled: bool) -> None:
    values, gradients, state = outcome(in_python, False)
    again = outcome(loop, compiled)
    assert again[0] == values
    assert again[2] == state
    assert state[1:] == [8, [0, 8, 0, 0]]
    for got, wanted in zip(again[1], gradients, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


def test_a_compiled_step_of_forward_backward_and_update() -> None:
    def train(layer: Layer, x: Any) -> Any:
        carry, rows = in_scan(layer, x)
        loss = (carry * carry).sum() + rows.sum()
        loss.backward()
        with calor.no_grad():
            layer.w -= 0.01 * layer.w.grad
        layer.w.grad = None
        return loss

    made = []
    for step in (train, calor.jit(train)):
        calor.random.seed(1)
        layer = Layer()
        losses = [step(layer, data(4, 5, 3)).item() for _ in range(3)]
        made.append([losses, layer.w.tolist(), layer.mean.tolist(), counter()])
    assert made[0] == made[1]


def test_each_step_draws_other_numbers_the_same_as_in_python() -> None:
    def draw(reverse: bool) -> Any:
        return calor.scan(
            lambda c, _: (c, calor.random.normal((2,))), calor.zeros(()), length=5, reverse=reverse
        )[1]

    for reverse in (False, True):
        calor.random.seed(11)
        wanted = [calor.random.normal((2,)).tolist() for _ in range(6)]
        assert len({tuple(w) for w in wanted}) == 6
        order = slice(None, None, -1) if reverse else slice(None)
        for call in (draw, calor.jit(draw)):
            calor.random.seed(11)
            assert call(reverse).tolist() == wanted[:5][order]
            assert calor.random.normal((2,)).tolist() == wanted[5]


def test_a_generator_of_ones_own_and_a_new_seed_each_call() -> None:
    generator = calor.random.Generator(5)
    f = calor.jit(
        lambda g: calor.fori_loop(0, 3, lambda i, c: c + g.uniform(()), calor.asarray(0.0))
    )
    other = calor.random.Generator(5)
    for _ in range(2):
        assert f(generator).item() == pytest.approx(sum(other.uniform(()).item() for _ in range(3)))
    assert generator.state[1].tolist() == [0, 6, 0, 0]
    assert f.trace_count == 1


def test_no_steps_change_nothing() -> None:
    layer = Layer()
    calor.random.seed(0)
    in_scan(layer, data(0, 5, 3))
    assert (layer.count.item(), counter()) == (0, [0, 0, 0, 0])
    calor.while_loop(lambda c: c < 0, lambda c: c + layer.count.__iadd__(1), calor.asarray(0))
    assert layer.count.item() == 0


class TestCond:
    @pytest.mark.parametrize("wrap", [lambda f: f, calor.jit])
    def test_only_the_branch_that_runs_changes_state(self, wrap: Any) -> None:
        layer, x = Layer(), data(5, 3)
        f = wrap(lambda p, v: calor.cond(p, layer, lambda v: v, v))
        calor.random.seed(2)
        made = [f(calor.asarray(p), x) for p in (True, False, True)]
        again = Layer()
        calor.random.seed(2)
        wanted = [again(x), x, again(x)]
        assert [m.tolist() for m in made] == [w.tolist() for w in wanted]
        assert layer.mean.tolist() == again.mean.tolist()
        assert (layer.count.item(), counter()) == (2, [0, 2, 0, 0])

    @pytest.mark.parametrize("chosen", [True, False])
    def test_branches_may_change_different_tensors(self, chosen: bool) -> None:
        a, b = calor.asarray(1), calor.asarray(10)

        def first(x: Any) -> Any:
            a.__iadd__(x)
            return a + b

        def second(x: Any) -> Any:
            b.__imul__(x)
            return a + b

        made = calor.cond(calor.asarray(chosen), first, second, calor.asarray(3))
        assert (made.item(), a.item(), b.item()) == ((14, 4, 10) if chosen else (31, 1, 30))

    def test_gradients(self) -> None:
        def f(layer: Layer, x: Any) -> Any:
            return (calor.cond(x.sum() > -100, layer, lambda v: v * 2, x) ** 2).sum()

        def g(layer: Layer, x: Any) -> Any:
            return (layer(x) ** 2).sum()

        found = []
        for function in (f, g):
            calor.random.seed(4)
            found.append(calor.grad(function)(Layer(), data(5, 3)).w.tolist())
        assert found[0] == found[1]


class TestWhileLoop:
    @pytest.mark.parametrize("wrap", [lambda f: f, calor.jit])
    def test_the_body_changes_what_the_condition_reads(self, wrap: Any) -> None:
        left = calor.asarray(4)

        def body(c: Any) -> Any:
            left.__isub__(1)
            return c + calor.random.uniform(())

        f = wrap(lambda c: calor.while_loop(lambda _: left > 0, body, c))
        calor.random.seed(6)
        made = f(calor.asarray(0.0)).item()
        assert left.item() == 0
        calor.random.seed(6)
        total = calor.asarray(0.0)
        for _ in range(4):
            total = total + calor.random.uniform(())
        assert made == total.item()
        assert f(calor.asarray(1.0)).item() == 1.0

    def test_the_condition_may_not_change_state(self) -> None:
        t = calor.asarray(0)
        calor.random.seed(0)
        with pytest.raises(
            TraceError, match=r"condition changes.*test_state_in_bodies.py:\d+.*the loop's body"
        ):
            calor.while_loop(
                lambda c: calor.random.uniform(()) < 0.5, lambda c: t.__iadd__(1), calor.asarray(0)
            )
        assert (t.item(), counter()) == (0, [0, 0, 0, 0])

    def test_bounds_that_are_tensors(self) -> None:
        calor.random.seed(8)
        made = calor.fori_loop(
            0, calor.asarray(3), lambda i, c: c + calor.random.normal(()), calor.asarray(0.0)
        )
        assert counter() == [0, 3, 0, 0]
        calor.random.seed(8)
        draws = [calor.random.normal(()) for _ in range(3)]
        assert made.item() == (calor.asarray(0.0) + draws[0] + draws[1] + draws[2]).item()


class TestNesting:
    def nested(self, layer: Layer, x: Any) -> Any:
        """Two steps of three, in which every second draws."""

        def inner(c: Any, i: Any) -> Any:
            made = calor.cond(i % 2 == 0, layer, lambda v: v * 0.5, c)
            return made, calor.random.uniform(())

        def outer(i: Any, c: Any) -> Any:
            c, drawn = calor.scan(inner, c, calor.arange(3))
            return c + drawn.sum()

        return calor.fori_loop(0, 2, outer, x)

    def unrolled(self, layer: Layer, x: Any) -> Any:
        for _ in range(2):
            drawn = []
            for i in range(3):
                x = layer(x) if i % 2 == 0 else x * 0.5
                drawn.append(calor.random.uniform(()))
            x = x + calor.stack(drawn).sum()
        return x

    def test_loops_in_loops_hand_state_outwards(self) -> None:
        made = []
        for f in (self.unrolled, self.nested, calor.jit(self.nested)):
            calor.random.seed(9)
            layer, x = Layer(), data(5, 3)
            loss = (f(layer, x) ** 2).sum()
            loss.backward()
            assert not layer.mean.requires_grad
            made.append([loss.item(), layer.mean.tolist(), layer.count.item(), counter()])
            made[-1].append(np.round(layer.w.grad.numpy(), 10).tolist())
        assert made[0] == made[1] == made[2]
        assert made[0][2:4] == [4, [0, 10, 0, 0]]

    def test_the_graph_obeys_the_grammar(self) -> None:
        layer = Layer()
        f = calor.jit(lambda x: self.nested(layer, x))
        f(data(5, 3))
        verify(f.programs[0].graph)

    def test_custom_gradients_that_draw(self) -> None:
        def drop(x: Any) -> Any:
            return calor.where(calor.random.uniform(x.shape) < 0.5, x, 0.0)

        dropped = calor.custom_vjp(drop)
        dropped.defvjp(lambda x: (drop(x), x), lambda x, g: (g * x,))
        f = lambda x: calor.fori_loop(0, 2, lambda i, c: dropped(c), x).sum()  # noqa: E731
        g = lambda x: dropped(dropped(x)).sum()  # noqa: E731
        made = []
        for function in (g, f, calor.jit(f), calor.jit(g)):
            calor.random.seed(1)
            value, gradient = calor.value_and_grad(function)(calor.arange(8.0))
            made.append((value.item(), gradient.tolist(), counter()))
        assert made == [made[0]] * 4


class TestGradients:
    def test_state_that_is_differentiable_is_a_carry(self) -> None:
        def f(x: Any, loop: bool) -> Any:
            total = x * 2
            if loop:
                calor.scan(lambda c, v: (c, total.__imul__(v)), calor.asarray(0.0), x)
            else:
                for i in range(3):
                    total *= x[i]
            return total.sum()

        x = calor.asarray([1.0, 2.0, 3.0], dtype=calor.float64)
        wanted = calor.grad(lambda x: f(x, False))(x).tolist()
        assert calor.grad(lambda x: f(x, True))(x).tolist() == wanted
        assert calor.jit(calor.grad(lambda x: f(x, True)))(x).tolist() == wanted
        _, moved = calor.jvp(
            lambda x: f(x, True), (x,), (calor.asarray([1.0, 0, 0], dtype=x.dtype),)
        )
        assert moved.item() == pytest.approx(wanted[0])

    def test_second_derivatives_through_drawn_numbers(self) -> None:
        def f(x: Any) -> Any:
            return calor.scan(lambda c, _: (c * x * calor.random.uniform(()), None), x, length=2)[0]

        def at(function: Any) -> float:
            calor.random.seed(0)
            return float(function(calor.asarray(3.0, dtype=calor.float64)).item())

        cubed = at(f)
        assert at(calor.grad(f)) == pytest.approx(cubed)
        assert at(calor.grad(calor.grad(f))) == pytest.approx(2 * cubed / 3)

    def test_a_parameter_may_be_trained_inside(self) -> None:
        def loss(w: Any) -> Any:
            return ((w * calor.asarray([1.0, 2.0]) - 3.0) ** 2).sum()

        def step(w: Any) -> Any:
            value, gradient = calor.value_and_grad(loss)(w)
            with calor.no_grad():
                w -= 0.05 * gradient
            return value

        w, plain = parameter(0.0, 0.0), parameter(0.0, 0.0)
        losses = calor.scan(lambda c, _: (c, step(w)), calor.asarray(0), length=4)[1]
        assert losses.tolist() == [step(plain).item() for _ in range(4)]
        assert w.tolist() == plain.tolist()
        assert w.requires_grad
        with pytest.raises(GradientError, match="changes a tensor that requires gradients in pla"):
            losses.sum().backward()

    @pytest.mark.parametrize("wrap", [lambda f: f, calor.jit])
    def test_a_leaf_is_changed_under_no_grad_only(self, wrap: Any) -> None:
        w, x = parameter(1.0), calor.ones(1, dtype=calor.float64)

        def once(c: Any) -> Any:
            return calor.fori_loop(0, 2, lambda i, c: w.__iadd__(1.0) + c, c)

        def nested(c: Any) -> Any:
            return calor.scan(lambda c, _: (once(c), None), c, length=1)[0]

        for f in (once, nested):
            with pytest.raises(GradientError, match="in-place change of a leaf"):
                wrap(f)(x)
        assert w.tolist() == [1.0]
        with calor.no_grad():
            wrap(nested)(x)
        assert w.tolist() == [3.0]

    def test_gradients_from_outside_are_not_added_to_inside(self) -> None:
        w = parameter(1.0)

        def step(c: Any, _: Any) -> Any:
            with calor.enable_grad():
                (w * c).sum().backward()
            return c, None

        with pytest.raises(TraceError, match=r"\.grad of a tensor from outside.*value_and_grad"):
            calor.scan(step, calor.ones(1, dtype=w.dtype), length=2)
        assert w.grad is None

    def test_statistics_keep_no_step_alive(self, in_use: Callable[[], int]) -> None:
        layer = Layer()

        def forward(x: Any) -> Any:
            carry, _ = in_scan(layer, x)
            return carry.sum().item()

        forward(data(4, 5, 3))
        start = in_use()
        for _ in range(5):
            forward(data(4, 5, 3))
        assert in_use() - start <= 64


def test_a_failed_body_leaves_state_alone() -> None:
    layer = Layer()
    calor.random.seed(0)
    with pytest.raises(ZeroDivisionError):
        calor.scan(lambda c, v: (layer(v), 1 / 0), data(5, 3), data(2, 5, 3))
    with pytest.raises(calor.errors.ShapeError):
        calor.cond(calor.asarray(True), layer, lambda v: (v, v), data(5, 3))
    assert (layer.count.item(), counter()) == (0, [0, 0, 0, 0])


def test_a_python_number_from_outside_is_no_state() -> None:
    def f(n: Any) -> Any:
        return calor.fori_loop(0, 2, lambda i, c: c + n.__iadd__(1), calor.asarray(0))

    with pytest.raises(TraceError, match="changes a Python number of the function around it"):
        calor.jit(f)(3)


def test_what_a_body_makes_it_may_change() -> None:
    def step(i: Any, c: Any) -> Any:
        c += 1.0
        table = calor.asarray(np.ones(1))
        table += c
        double = c * 2
        double += table
        return double

    start = calor.zeros(1, dtype=calor.float64)
    f = lambda c: calor.fori_loop(0, 2, step, c)  # noqa: E731
    jitted = calor.jit(f)
    assert f(start).tolist() == jitted(start).tolist() == jitted(start).tolist() == [16.0]
    assert start.tolist() == [0.0]


def test_a_tensor_from_outside_that_is_written_is_read_at_each_call() -> None:
    t, u = calor.zeros(2), calor.ones(2)

    def f() -> None:
        t[...] = u

    jitted = calor.jit(f)
    jitted()
    u.__iadd__(1)
    jitted()
    assert t.tolist() == [2.0, 2.0]


def test_flows_stop_where_gradients_do() -> None:
    def f(a: Any, b: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            with calor.no_grad():
                quiet = c[1] + a
            return (c[0] * a, quiet), c[0]

        (x, y), rows = calor.scan(step, (b, b), length=2)
        z = calor.cond(a > 0, lambda: calor.stop_gradient(a), lambda: b)
        return x, y, rows, z, b > 0, calor.while_loop(lambda c: c < 1, lambda c: c + a, b)

    graph = calor.trace(f, calor.asarray(1.0), calor.asarray(2.0))
    assert flows(graph, [True, False]) == [True, False, True, False, False, True]
    # The carry that is not changed by b keeps what it came with in no step.
    assert flows(graph, [False, True]) == [True, False, True, True, False, True]
    assert not any(flows(graph, [False, False]))
