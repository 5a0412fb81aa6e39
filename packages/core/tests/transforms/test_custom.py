"""Gradients that users write, and gradients that compute again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import ArgumentError, DTypeError, GradientError, ShapeError

from .objects import Linear


def tensor(*values: float) -> Any:
    return calor.asarray(values, dtype=calor.float64)


def leaf(*values: float) -> Any:
    return calor.asarray(values, dtype=calor.float64, requires_grad=True)


def _clip_gradient() -> Any:
    @calor.custom_vjp
    def clipped(x: Any) -> Any:
        return x * 10

    clipped.defvjp(lambda x: (x * 10, None), lambda _, g: (calor.clip(g * 10, -1, 1),))
    return clipped


class TestCustomVjp:
    def test_its_rule_is_used(self) -> None:
        function = _clip_gradient()
        assert function(tensor(2)).tolist() == [20.0]
        assert calor.grad(lambda x: function(x).sum())(tensor(2, 3)).tolist() == [1.0, 1.0]
        x = leaf(2)
        function(x).sum().backward()
        assert x.grad.tolist() == [1.0]

    def test_residuals_reach_the_rule(self) -> None:
        square = calor.custom_vjp(lambda x, y: x * y)
        square.defvjp(lambda x, y: (x * y, (x, y)), lambda r, g: (g * r[1], g * r[0]))
        gx, gy = calor.grad(lambda x, y: square(x, y).sum(), argnums=(0, 1))(tensor(2), tensor(3))
        assert (gx.item(), gy.item()) == (3.0, 2.0)

    def test_the_rule_can_be_differentiated(self) -> None:
        cube = calor.custom_vjp(lambda x: x**3)
        cube.defvjp(lambda x: (x**3, x), lambda x, g: (g * 3 * x**2,))
        assert calor.grad(calor.grad(lambda x: cube(x).sum()))(
            calor.asarray(2.0, dtype=calor.float64)
        ).item() == pytest.approx(12.0)

    def test_pytrees_in_and_out(self) -> None:
        both = calor.custom_vjp(lambda t: {"sum": t["a"] + t["b"], "name": t["a"] * 2})
        both.defvjp(
            lambda t: ({"sum": t["a"] + t["b"], "name": t["a"] * 2}, None),
            lambda _, g: ({"a": g["sum"] + g["name"], "b": g["sum"] * 100},),
        )
        gradient = calor.grad(lambda t: both(t)["sum"].sum())({"a": tensor(1), "b": tensor(2)})
        assert gradient["a"].tolist() == [1.0]
        assert gradient["b"].tolist() == [100.0]

    def test_none_is_a_zero_gradient(self) -> None:
        first = calor.custom_vjp(lambda x, y: x + y)
        first.defvjp(lambda x, y: (x + y, None), lambda _, g: (g, None))
        gx, gy = calor.grad(lambda x, y: first(x, y).sum(), argnums=(0, 1))(tensor(1), tensor(2))
        assert (gx.item(), gy.item()) == (1.0, 0.0)

    def test_under_jit(self) -> None:
        function = _clip_gradient()
        gradient = calor.jit(calor.grad(lambda x: function(x).sum()))
        assert gradient(tensor(2, 3)).tolist() == [1.0, 1.0]

    def test_residuals_that_are_written_to_later(self) -> None:
        own, x = calor.custom_vjp(lambda x: x * 10), leaf(3)
        own.defvjp(lambda x: (x * 10, x), lambda x, g: (x * g,))
        made = own(x).sum()
        with calor.no_grad():
            x *= 5
        made.backward()
        assert x.grad.tolist() == [3.0]

    def test_the_forward_function_may_call_the_function(self) -> None:
        own = calor.custom_vjp(lambda x: x * 10)
        own.defvjp(lambda x: (own(x), x), lambda x, g: (x * g,))
        total = calor.grad(lambda x: own(own(x)).sum())
        for call in (total, calor.jit(total)):
            assert call(tensor(2)).item() == 40.0
        assert calor.vmap(calor.grad(own))(tensor(2, 3)).tolist() == [2.0, 3.0]

    @pytest.mark.parametrize("kind", ["vjp", "jvp"])
    def test_what_the_rule_reads_moves_in_a_hessian(self, kind: str) -> None:
        # A slope of x³, from which the second derivative 3 x² follows; x² is a residual.
        def rule(primals: Any, tangents: Any) -> Any:
            return function(primals[0]), primals[0] ** 3 * tangents[0]

        if kind == "vjp":
            own = function = calor.custom_vjp(lambda x: x * 10)
            own.defvjp(lambda x: (x * 10, (x, x * x)), lambda kept, g: (kept[0] * kept[1] * g,))
            own.defjvp(rule)
        else:
            function = calor.custom_jvp(lambda x: x * 10)
            function.defjvp(rule)
        second = calor.hessian(lambda x: function(x).sum())
        mapped = calor.hessian(lambda x: calor.vmap(function)(x).sum())
        for call in (second, calor.jit(second), mapped, calor.jit(mapped)):
            assert call(tensor(1, 2)).tolist() == [[3.0, 0.0], [0.0, 12.0]]

    def test_without_a_rule_it_says_how_to_give_one(self) -> None:
        @calor.custom_vjp
        def nothing(x: Any) -> Any:
            return x

        with pytest.raises(GradientError, match=r"nothing.defvjp\(forward, backward\)"):
            nothing(tensor(1))

    def test_the_rule_must_return_one_gradient_per_argument(self) -> None:
        wrong = calor.custom_vjp(lambda x, y: x + y)
        wrong.defvjp(lambda x, y: (x + y, None), lambda _, g: (g,))
        with pytest.raises(ArgumentError, match="returned 1 gradients for 2 arguments"):
            calor.grad(lambda x: wrong(x, x).sum())(tensor(1))

    def test_no_gradient_is_recorded_where_none_is_wanted(self) -> None:
        function = _clip_gradient()
        with calor.no_grad():
            assert not function(leaf(1)).requires_grad
        assert not function(tensor(1)).requires_grad


def _layers(x: Any) -> Any:
    for _ in range(6):
        x = calor.sin(x) * calor.exp(x * 0.1)
    return x


class TestCheckpoint:
    def test_values_and_gradients_are_the_same(self) -> None:
        x = tensor(0.1, 0.5, -2.0)
        plain = calor.value_and_grad(lambda t: _layers(t).sum())(x)
        again = calor.value_and_grad(lambda t: calor.checkpoint(_layers)(t).sum())(x)
        assert plain[0].item() == again[0].item()
        np.testing.assert_array_equal(plain[1].numpy(), again[1].numpy())

    def test_residuals_are_not_kept(self, in_use: Callable[[], int]) -> None:
        size = 10_000
        x = calor.ones((size,), requires_grad=True)
        calor.eval(x)
        start = in_use()
        plain = _layers(x).sum()
        calor.eval(plain)
        kept = in_use() - start
        del plain
        assert in_use() == start
        less = calor.checkpoint(_layers)(x).sum()
        calor.eval(less)
        assert kept >= 6 * 4 * size
        assert in_use() - start <= 2 * 4 * size
        less.backward()
        assert x.grad is not None

    def test_parts_keep_their_inputs_alone(self, in_use: Callable[[], int]) -> None:
        size = 10_000
        x = calor.ones((size,), requires_grad=True)
        calor.eval(x)
        start = in_use()
        y = x
        for _ in range(3):
            y = calor.checkpoint(_layers)(y)
        loss = y.sum()
        calor.eval(loss)
        del y
        assert in_use() - start <= 3 * 4 * size + 64

    def test_the_peak_is_lower_under_jit(self, device: Any) -> None:
        def peak(function: Any) -> int:
            compiled = calor.jit(calor.grad(lambda t: function(t).sum()))
            compiled(calor.ones((1000,)))
            plans = [p for p in device.plans.values() if hasattr(p, "required_bytes")]
            return int(plans[-1].required_bytes)

        def deep(x: Any) -> Any:
            for _ in range(4):
                x = _layers(x)
            return x

        def deep_parts(x: Any) -> Any:
            for _ in range(4):
                x = calor.checkpoint(_layers)(x)
            return x

        assert peak(deep_parts) < 0.6 * peak(deep)

    def test_random_numbers_are_the_same_again(self) -> None:
        def noisy(x: Any) -> Any:
            return x * calor.random.normal(x.shape, dtype=calor.float64)

        calor.random.seed(5)
        value, gradient = calor.value_and_grad(lambda x: calor.checkpoint(noisy)(x).sum())(
            tensor(1, 1, 1)
        )
        assert gradient.numpy().sum() == pytest.approx(value.item())
        after = calor.random.normal((2,)).tolist()
        calor.random.seed(5)
        calor.random.normal((3,), dtype=calor.float64)
        assert calor.random.normal((2,)).tolist() == after

    def test_captured_tensors_and_objects_have_gradients(self) -> None:
        layer, w = Linear([[2.0]], [0.0]), leaf(3)
        x = calor.asarray([[5.0]], dtype=calor.float64)
        calor.checkpoint(lambda t: layer(t) * w)(x).sum().backward()
        assert layer.w.grad.tolist() == [[15.0]]
        assert w.grad.tolist() == [10.0]

    def test_higher_orders(self) -> None:
        function = calor.checkpoint(lambda x: x**3)
        second = calor.grad(calor.grad(lambda x: function(x).sum()))
        assert second(calor.asarray(2.0, dtype=calor.float64)).item() == pytest.approx(12.0)

    @pytest.mark.parametrize("inner", ["grad", "jvp", "vmap"])
    def test_transforms_inside_when_the_gradient_is_asked_for_later(self, inner: str) -> None:
        forms: dict[str, Any] = {
            "grad": lambda t: calor.grad(lambda u: (u * u * t).sum())(t),
            "jvp": lambda t: calor.jvp(lambda u: u * t, (t,), (t,))[1] * 2,
            "vmap": lambda t: calor.vmap(lambda u: u * t[0])(t) * 2,
        }
        again = calor.checkpoint(forms[inner])
        for x in (tensor(3), leaf(3)):
            pull = calor.vjp(again, x)[1]
            assert pull(tensor(1))[0].tolist() == [12.0]
            push = calor.linearize(again, x)[1]
            assert push(tensor(1)).tolist() == [12.0]

    def test_nested(self) -> None:
        inner = calor.checkpoint(calor.sin)
        outer = calor.checkpoint(lambda x: inner(x) * x)
        x = tensor(0.5)
        got = calor.grad(lambda t: outer(t).sum())(x)
        np.testing.assert_allclose(got.numpy(), np.sin(0.5) + 0.5 * np.cos(0.5))

    def test_arguments_changed_in_place_afterwards(self) -> None:
        x = leaf(2)
        y = x * 1
        z = calor.checkpoint(lambda t: t * t)(y)
        y += 100
        z.sum().backward()
        assert x.grad.tolist() == [4.0]

    def test_keyword_arguments_and_pytrees(self) -> None:
        function = calor.checkpoint(lambda t, *, scale: {"y": t["x"] * t["x"] * scale})
        got = calor.grad(lambda x: function({"x": x}, scale=3.0)["y"].sum())(tensor(2))
        assert got.tolist() == [12.0]

    def test_without_gradients_it_is_the_function(self) -> None:
        with calor.no_grad():
            y = calor.checkpoint(lambda x: x * 2)(leaf(1))
        assert y.tolist() == [2.0]
        assert not y.requires_grad

    def test_integer_outputs_pass_through(self) -> None:
        y, i = calor.checkpoint(lambda x: (x * x, calor.argmax(x)))(leaf(1, 3))
        assert i.item() == 1
        y.sum().backward()


def _doubled(forward: Any, backward: Any) -> Any:
    @calor.custom_vjp
    def doubled(x: Any) -> Any:
        return x * 2

    doubled.defvjp(forward, backward)
    return doubled


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(
    ("forward", "backward", "error", "said"),
    [
        (
            lambda x: (x * 2, None),
            lambda _, g: (calor.ones(1, dtype=calor.float64),),
            ShapeError,
            r"doubled returned a gradient of shape \(1,\) for a tensor of shape \(3,\)",
        ),
        (
            lambda x: (x * 2, None),
            lambda _, g: (calor.ones(3),),
            DTypeError,
            r"a gradient in float32 for a tensor in float64; convert it: g.astype\(calor.float64\)",
        ),
        (lambda x: (x * 2, None), lambda _, g: (1.0,), ArgumentError, "a float as a gradient"),
        (lambda x: (x * 2, None), lambda _, g: (g, g), ArgumentError, "2 gradients for 1 arg"),
        (
            lambda x: (x * 2, None),
            lambda _, g: ([g, g],),
            ArgumentError,
            r"list\(\*, \*\) for argument 0 of \*",
        ),
        (lambda x: x * 2, lambda _, g: (g,), ArgumentError, "doubled returned Tensor; return a"),
        (lambda x: (x, x, x), lambda _, g: (g,), ArgumentError, "returned 3 parts; return a pair"),
    ],
)
def test_a_wrong_rule_is_told(
    forward: Any, backward: Any, error: type[Exception], said: str, traced: bool
) -> None:
    doubled = _doubled(forward, backward)

    def derive(x: Any) -> Any:
        return calor.grad(lambda x: doubled(x).sum())(x)

    with pytest.raises(error, match=said):
        (calor.jit(derive) if traced else derive)(tensor(1, 2, 3))


def test_a_gradient_for_integers_is_left_out() -> None:
    @calor.custom_vjp
    def taken(x: Any, places: Any) -> Any:
        return x[places]

    taken.defvjp(
        lambda x, places: (x[places], (x, places)),
        lambda kept, g: (calor.zeros_like(kept[0]) + g.sum(), kept[1]),
    )
    x = leaf(1, 2)
    taken(x, calor.asarray([1])).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 1.0]
