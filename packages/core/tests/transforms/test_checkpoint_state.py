"""checkpoint around functions that change state: it changes once, and the gradient is the same."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor.transforms.state import Stateful

from .objects import Linear, parameter


class Block(Stateful):
    """Dropout, a weight, a norm by running statistics that move first, and a count."""

    def __init__(self) -> None:
        self.w: Any = calor.asarray(np.eye(3) * 2, requires_grad=True)
        self.mean: Any = calor.zeros(3, dtype=calor.float64)
        self.count: Any = calor.asarray(0)
        self.last: Any = calor.zeros(3, dtype=calor.float64)

    def __call__(self, x: Any) -> Any:
        x = calor.where(calor.random.uniform(x.shape) < 0.6, x, 0.0) @ self.w
        with calor.no_grad():
            self.mean *= 0.5
            self.mean += 0.5 * x.detach().mean(axis=0)
            self.count += 1
        self.last[...] = x[0].detach()
        return calor.tanh(x - self.mean) * self.count.astype(calor.float64)

    def state(self) -> list[Any]:
        drawn = calor.random.default_generator.state[1]
        return [t.tolist() for t in (self.mean, self.count, self.last, drawn)]


def data() -> Any:
    return calor.asarray(np.random.default_rng(0).normal(size=(5, 3)))


def twice(call: Any) -> tuple[list[Any], list[Any]]:
    """Return gradients and the state after two forward and backward passes."""
    calor.random.seed(1)
    block, found = Block(), []
    step = call(block)
    for _ in range(2):
        found.append(step(block, data()).tolist())
    return found, block.state()


def plain(block: Block) -> Any:
    return calor.grad(lambda b, x: (b(b(x)) ** 2).sum(), argnums=1)


def remembered(block: Block) -> Any:
    f = calor.checkpoint(block.__call__)
    return calor.grad(lambda b, x: (f(f(x)) ** 2).sum(), argnums=1)


def around_both(block: Block) -> Any:
    f = calor.checkpoint(lambda x: block(block(x)))
    return calor.grad(lambda b, x: (f(x) ** 2).sum(), argnums=1)


def nested(block: Block) -> Any:
    f = calor.checkpoint(block.__call__)
    g = calor.checkpoint(lambda x: f(f(x)))
    return calor.grad(lambda b, x: (g(x) ** 2).sum(), argnums=1)


def compiled(block: Block) -> Any:
    return calor.jit(remembered(block))


def around_jit(block: Block) -> Any:
    f = calor.checkpoint(calor.jit(block.__call__))
    return calor.grad(lambda b, x: (f(f(x)) ** 2).sum(), argnums=1)


def around_scan(block: Block) -> Any:
    def f(x: Any) -> Any:
        return calor.scan(lambda c, _: (block(c), None), x, length=2)[0]

    call = calor.checkpoint(f)
    return calor.grad(lambda b, x: (call(x) ** 2).sum(), argnums=1)


def in_scan(block: Block) -> Any:
    call = calor.checkpoint(block.__call__)

    def f(x: Any) -> Any:
        return calor.scan(lambda c, _: (call(c), None), x, length=2)[0]

    return calor.grad(lambda b, x: (f(x) ** 2).sum(), argnums=1)


def by_backward(block: Block) -> Any:
    f = calor.checkpoint(block.__call__)

    def step(b: Block, x: Any) -> Any:
        x.requires_grad = True
        loss = (f(f(x)) ** 2).sum()
        calor.random.uniform((2,))
        calor.random.default_generator.set_state(
            (calor.random.default_generator.state[0], loss_state(loss))
        )
        loss.backward()
        return x.grad

    def loss_state(loss: Any) -> Any:
        loss.item()
        state = calor.random.default_generator.state[1]
        change = np.array([0, 1, 0, 0], np.uint32)
        return state - calor.asarray(change, device=state.device)

    return step


FORMS = [remembered, around_both, nested, compiled, around_jit, around_scan, in_scan, by_backward]


@pytest.mark.parametrize("form", FORMS)
def test_state_changes_once_and_numbers_are_drawn_again(form: Any) -> None:
    wanted, state = twice(plain)
    gradients, after = twice(form)
    assert after == state
    assert after[1] == 4
    np.testing.assert_allclose(gradients, wanted, rtol=1e-12, atol=1e-12)


def test_assigned_attributes_are_assigned_once() -> None:
    class Counter(Stateful):
        def __init__(self) -> None:
            self.n = calor.asarray(1.0)

        def __call__(self, x: Any) -> Any:
            self.n = self.n * 2
            return x * x * self.n

    for wrap in (lambda f: f, calor.jit):
        counter = Counter()
        call = calor.checkpoint(wrap(counter.__call__))
        found = [calor.grad(lambda x, f=call: f(f(x)))(2.0).item() for _ in range(2)]
        # d/dx of b (a x²)² is 4 a² b x³, with a, b = 2, 4 and then 8, 16.
        assert found == [4 * 4 * 4 * 8.0, 4 * 64 * 16 * 8.0]
        assert counter.n.item() == 16.0


def test_a_seed_between_the_two_runs() -> None:
    made = []
    for wrap in (lambda f: f, calor.checkpoint):
        calor.random.seed(1)
        x = parameter(1, 2, 3, 4, 5, 6)
        y = wrap(lambda x: x * calor.random.uniform((6,), dtype=x.dtype))(x).sum()
        calor.random.seed(2)
        y.backward()
        made.append((x.grad.tolist(), calor.random.uniform((2,)).tolist()))
    assert made[0] == made[1]


def test_a_generator_of_ones_own() -> None:
    made = []
    for wrap in (lambda f: f, calor.checkpoint):
        g = calor.random.Generator(3)
        f = wrap(lambda x, g=g: x * g.uniform((4,)) * g.uniform((4,)))
        found = [calor.grad(lambda x, f=f: f(x).sum())(calor.ones(4)).tolist() for _ in range(2)]
        made.append((found, g.state[1].tolist()))
    assert made[0] == made[1]
    assert made[0][1] == [0, 4, 0, 0]


def test_seeding_reaches_a_compiled_recomputation() -> None:
    f = calor.checkpoint(lambda x: x * calor.random.uniform((4,)))
    gradient = calor.jit(calor.grad(lambda x: f(x).sum()))
    for number in (1, 2):
        calor.random.seed(number)
        wanted = calor.random.uniform((4,)).tolist()
        calor.random.seed(number)
        assert gradient(calor.ones(4)).tolist() == wanted


@pytest.mark.parametrize("wrap", [lambda f: f, calor.jit])
def test_a_captured_tensor_as_argument_is_read_at_each_call(wrap: Any) -> None:
    w = calor.asarray([2.0])
    f = calor.checkpoint(lambda x: x * x * x)
    gradient = wrap(lambda: calor.grad(lambda w: f(w).sum())(w))
    assert gradient().tolist() == [12.0]
    w += 1.0
    assert gradient().tolist() == [27.0]


def test_a_parameter_updated_before_the_gradient_is_taken() -> None:
    w, x = parameter(3.0), parameter(2.0)
    y = calor.checkpoint(lambda x: x * x * w * w)(x).sum()
    with calor.no_grad():
        w += 100.0
    y.backward()
    assert (x.grad.item(), w.grad.item()) == (2 * 2 * 9.0, 4 * 2 * 3.0)
    assert w.item() == 103.0


def test_a_gradient_of_an_object_that_is_taken_later() -> None:
    layer, x = Linear([[2.0]], [1.0]), calor.ones((1, 1), dtype=calor.float64)
    f = calor.checkpoint(layer.__call__)
    _, pull = calor.vjp(lambda layer, x: (f(x) ** 2).sum(), layer, x)
    found: Any = pull(calor.asarray(1.0, dtype=calor.float64))[0]
    assert (found.w.item(), found.b.item(), layer.calls.item()) == (6.0, 6.0, 1)


def test_a_gradient_may_be_taken_several_times() -> None:
    layer, x = Linear([[2.0]], [1.0]), parameter(3.0)
    f = calor.checkpoint(lambda x: layer(calor.reshape(x, (1, 1))) ** 2)
    y = f(x).sum()
    for _ in range(3):
        y.backward()
    assert layer.calls.item() == 1
    assert x.grad.item() == 3 * 2 * 7.0 * 2.0
    second = calor.grad(calor.grad(lambda x: f(x).sum()))
    assert second(calor.asarray(3.0, dtype=calor.float64)).item() == 8.0
    assert layer.calls.item() == 2


def test_attributes_keep_their_order_and_new_ones() -> None:
    class Lazy(Stateful):
        def __init__(self) -> None:
            self.w = parameter(2.0)

        def __call__(self, x: Any) -> Any:
            if not hasattr(self, "seen"):
                self.seen = calor.asarray(0)
                self.size = x.shape
            self.seen += 1
            return x * self.w

    lazy = Lazy()
    x = parameter(3.0)
    calor.checkpoint(lazy.__call__)(x).sum().backward()
    assert (x.grad.item(), lazy.w.grad.item(), lazy.seen.item()) == (2.0, 3.0, 1)
    assert list(vars(lazy)) == ["w", "seen", "size"]


def test_an_error_in_the_second_run_leaves_state_alone() -> None:
    layer, runs = Linear([[2.0]], [1.0]), []

    def f(x: Any) -> Any:
        runs.append(1)
        made = layer(x)
        return made / 0 if len(runs) > 1 and 1 / 0 else made

    y = calor.checkpoint(f)(parameter(3.0).reshape((1, 1)) * 1.0).sum()
    with pytest.raises(ZeroDivisionError):
        y.backward()
    assert layer.calls.item() == 1
    y = calor.checkpoint(layer.__call__)(calor.ones((1, 1), dtype=calor.float64)).sum()
    assert layer.calls.item() == 2


def test_a_gradient_taken_inside_jit_of_what_was_computed_outside() -> None:
    layer, x = Linear([[2.0]], [1.0]), parameter(3.0)
    y = calor.checkpoint(lambda x: layer(calor.reshape(x, (1, 1))))(x).sum()
    layer.calls += 10

    @calor.jit
    def pull() -> Any:
        y.backward()
        return layer.calls * 1

    assert pull().item() == 11
    assert x.grad.item() == 2.0
    assert layer.calls.item() == 11


def test_what_the_function_made_dies_with_the_first_run(in_use: Callable[[], int]) -> None:
    def f(x: Any) -> Any:
        for _ in range(8):
            x = calor.sin(x)
            x *= 1.5
            x += 0.25
        return x

    x = calor.ones((1000,), requires_grad=True)
    calor.eval(x)
    start = in_use()
    y = calor.checkpoint(f)(x)
    calor.eval(y)
    assert in_use() - start <= 4000 + 64
    y.sum().backward()
    wanted = calor.grad(lambda x: f(x).sum())(calor.ones((1000,)))
    np.testing.assert_array_equal(x.grad.numpy(), wanted.numpy())


class Scaled(Stateful):
    """A tensor that learns nothing, and a setting."""

    def __init__(self) -> None:
        self.fixed: Any = calor.asarray(np.full(3, 2.0))
        self.scale = 3.0

    def __call__(self, x: Any) -> Any:
        return x * x * self.fixed * self.scale


def written(model: Scaled) -> None:
    model.fixed[...] = 7.0


def added(model: Scaled) -> None:
    model.fixed += 1


def stepped(model: Scaled) -> None:
    def step(given: Scaled) -> None:
        given.fixed *= 2

    calor.jit(step)(model)


def assigned(model: Scaled) -> None:
    model.fixed = calor.zeros(3, dtype=calor.float64)


def rescaled(model: Scaled) -> None:
    model.scale = 100.0


@pytest.mark.parametrize("change", [written, added, stepped, assigned, rescaled])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("passes", [1, 2])
def test_what_changes_after_the_forward_pass_changes_no_gradient(
    change: Callable[[Scaled], None], depth: int, passes: int
) -> None:
    model = Scaled()
    run: Callable[[Any], Any] = model.__call__
    for _ in range(depth):
        run = calor.checkpoint(run)
    x = calor.asarray(np.arange(3.0), requires_grad=True)
    losses = [calor.sum(run(x)) for _ in range(passes)]
    change(model)
    left = model.fixed.tolist(), model.scale
    for loss in losses:
        loss.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [12.0 * k * passes for k in range(3)]
    assert (model.fixed.tolist(), model.scale) == left


def test_a_state_that_is_written_after_the_backward_pass_is_not_held() -> None:
    x = calor.asarray(np.arange(3.0), requires_grad=True)
    loss = calor.sum(calor.checkpoint(lambda t: t * t)(x))
    loss.backward()
    moment = calor.asarray(np.zeros(3))
    before = weakref.ref(moment._value)
    moment[...] = calor.asarray(np.ones(3))
    assert before() is None
    assert loss.item() == 5.0


def test_arguments_beside_the_function_are_explained() -> None:
    x = calor.ones(2)
    for options in ({}, {"use_reentrant": False}):
        with pytest.raises(TypeError, match=r"a function: calor.checkpoint\(function\)\(x\)"):
            calor.checkpoint(calor.sin, x, **options)
    with pytest.raises(TypeError, match="'use_reentrant'; leave it out"):
        calor.checkpoint(calor.sin, use_reentrant=False)
