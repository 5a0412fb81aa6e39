"""cond, while_loop, fori_loop and scan: values, captures, nesting, gradients and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import ArgumentError, DTypeError, GradientError, ShapeError, TraceError

from .objects import Linear


def tensor(*values: float) -> Any:
    return calor.asarray(values, dtype=calor.float64)


def scalar(value: float) -> Any:
    return calor.asarray(value, dtype=calor.float64)


def both(function: Any, *arguments: Any) -> Any:
    """Return the result, which is the same inside jit and outside."""
    plain, jitted = function(*arguments), calor.jit(function)(*arguments)
    for a, b in zip(calor.tree.leaves(plain), calor.tree.leaves(jitted), strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()
    return plain


class TestCond:
    def test_it_takes_one_branch(self) -> None:
        def absolute(x: Any) -> Any:
            return calor.cond(x > 0, lambda v: v, lambda v: -v, x)

        assert both(absolute, scalar(-2)).item() == 2.0
        assert both(absolute, scalar(3)).item() == 3.0
        jitted = calor.jit(absolute)
        assert [jitted(scalar(v)).item() for v in (-1, 5, -7)] == [1.0, 5.0, 7.0]
        assert jitted.trace_count == 1

    def test_python_predicates_choose_at_once(self) -> None:
        assert calor.cond(True, lambda: 1, lambda: 1 / 0) == 1

    def test_numbers_are_predicates(self) -> None:
        assert calor.cond(calor.asarray(3), lambda: tensor(1), lambda: tensor(2)).item() == 1.0

    def test_only_one_branch_runs(self) -> None:
        # The other would not end.
        endless = lambda v: calor.while_loop(lambda c: c > 0, lambda c: c + 1, v)  # noqa: E731
        assert (
            both(lambda x: calor.cond(x > 5, endless, lambda v: v * 2, x), scalar(3)).item() == 6.0
        )

    def test_captures_and_pytrees(self) -> None:
        w, b = tensor(2), tensor(10)

        def f(p: Any, x: Any) -> Any:
            return calor.cond(
                p,
                lambda t: {"y": t["x"] * w, "z": w},
                lambda t: {"y": t["x"] + b, "z": b},
                {"x": x},
            )

        assert both(f, calor.asarray(True), tensor(3))["y"].tolist() == [6.0]
        made = both(f, calor.asarray(False), tensor(3))
        assert (made["y"].tolist(), made["z"].tolist()) == ([13.0], [10.0])

    def test_gradients_reach_operands_and_captures(self) -> None:
        w: Any = calor.asarray(2.0, dtype=calor.float64, requires_grad=True)

        def f(x: Any) -> Any:
            return calor.cond(x > 0, lambda v: v * v * w, lambda v: v + w * 0, x)

        for value, dx, dw in [(3.0, 12.0, 9.0), (-3.0, 1.0, 0.0)]:
            w.grad = None
            x: Any = calor.asarray(value, dtype=calor.float64, requires_grad=True)
            f(x).backward()
            assert (x.grad.item(), w.grad.item()) == (dx, dw)
        second = calor.grad(calor.grad(f))
        assert (second(scalar(3)).item(), second(scalar(-3)).item()) == (4.0, 0.0)
        assert calor.jit(second)(scalar(3)).item() == 4.0

    def test_forward_mode(self) -> None:
        f = lambda x: calor.cond(x > 0, lambda v: v**3, lambda v: -v, x)  # noqa: E731
        assert calor.jvp(f, (scalar(2),), (scalar(1),))[1].item() == 12.0
        assert calor.jvp(f, (scalar(-2),), (scalar(1),))[1].item() == -1.0

    def test_branches_must_agree(self) -> None:
        p, x = calor.asarray(True), tensor(1)
        with pytest.raises(ShapeError, match=r"branches return .*same shapes and dtypes"):
            calor.cond(p, lambda v: v, lambda v: v.sum(), x)
        with pytest.raises(ShapeError, match="structure"):
            calor.cond(p, lambda v: (v, v), lambda v: [v, v], x)
        with pytest.raises(DTypeError, match="predicate must be a 0-d bool"):
            calor.cond(calor.asarray([True, False]), lambda v: v, lambda v: v, x)

    def test_a_look_inside_is_explained(self) -> None:
        with pytest.raises(TraceError, match="cond's first branch is being traced"):
            calor.cond(calor.asarray(True), lambda v: v if v > 0 else -v, lambda v: v, scalar(1))


class TestWhileLoop:
    def test_it_repeats(self) -> None:
        def collatz(n: Any) -> Any:
            def step(state: Any) -> Any:
                value, steps = state
                value = calor.where(value % 2 == 0, value // 2, 3 * value + 1)
                return value, steps + 1

            return calor.while_loop(lambda s: s[0] != 1, step, (n, calor.asarray(0)))[1]

        assert both(collatz, calor.asarray(27)).item() == 111
        assert both(collatz, calor.asarray(1)).item() == 0

    def test_captures_of_condition_and_body(self) -> None:
        limit, factor = scalar(100), scalar(3)

        def f(x: Any) -> Any:
            return calor.while_loop(lambda c: c < limit, lambda c: c * factor, x)

        assert both(f, scalar(1)).item() == 243.0
        limit -= 95
        assert f(scalar(1)).item() == 9.0

    def test_carries_may_be_numbers(self) -> None:
        assert (
            calor.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, 1.0))[1].item()
            == 8.0
        )

    def test_forward_mode_of_value_and_capture(self) -> None:
        def power(x: Any, w: Any) -> Any:
            return calor.while_loop(
                lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * w), (calor.asarray(0), x)
            )[1]

        y, dy = calor.jvp(power, (scalar(2), scalar(5)), (scalar(1), scalar(0)))
        assert (y.item(), dy.item()) == (250.0, 125.0)
        _, dy = calor.jvp(power, (scalar(2), scalar(5)), (None, scalar(1)))
        assert dy.item() == 2 * 3 * 25
        inside = calor.jit(lambda x, w, t: calor.jvp(power, (x, w), (t, None))[1])
        assert inside(scalar(2), scalar(5), scalar(1)).item() == 125.0

    def test_there_is_no_reverse_mode(self) -> None:
        f = lambda x: calor.while_loop(lambda c: c < 10, lambda c: c * 2, x)  # noqa: E731
        with pytest.raises(GradientError, match=r"use calor.scan or calor.fori_loop.*calor.jvp"):
            calor.grad(f)(1.0)
        with pytest.raises(GradientError, match="while_loop"):
            calor.grad(calor.jit(f))(1.0)

    def test_the_carry_keeps_its_form(self) -> None:
        with pytest.raises(ShapeError, match="shapes and dtypes must stay the same"):
            calor.while_loop(lambda c: c.sum() < 3, lambda c: c.sum(), tensor(1, 2))
        with pytest.raises(ShapeError, match="structure"):
            calor.while_loop(lambda c: c[0] < 3, lambda c: c[0], (tensor(1),))
        with pytest.raises(DTypeError, match="condition must return a 0-d bool"):
            calor.while_loop(lambda c: c, lambda c: c, tensor(1))


class TestForiLoop:
    def test_python_bounds(self) -> None:
        f = lambda x: calor.fori_loop(2, 5, lambda i, c: c + i * x, x)  # noqa: E731
        assert both(f, calor.asarray(10)).item() == 10 + 90

    def test_bounds_that_are_tensors(self) -> None:
        f = lambda n, x: calor.fori_loop(0, n, lambda i, c: c * 2, x)  # noqa: E731
        assert both(f, calor.asarray(5), scalar(1)).item() == 32.0

    def test_no_steps(self) -> None:
        x = tensor(3)
        assert calor.fori_loop(5, 5, lambda i, c: c * 2, x).tolist() == [3.0]
        assert calor.fori_loop(5, 0, lambda i, c: c * 2, x).tolist() == [3.0]

    def test_gradients_of_any_order(self) -> None:
        f: Any = lambda x: calor.fori_loop(0, 3, lambda i, c: c * x, x)  # noqa: E731
        want = [16.0, 32.0, 48.0, 48.0, 24.0]
        for value in want:
            assert f(scalar(2)).item() == pytest.approx(value)
            assert calor.jit(f)(scalar(2)).item() == pytest.approx(value)
            f = calor.grad(f)


class TestScan:
    def test_recurrence(self) -> None:
        xs = tensor(1, 2, 3, 4)
        f = lambda c, v: calor.scan(lambda a, x: (a + x, a * x), c, v)  # noqa: E731
        last, outputs = both(f, scalar(0), xs)
        assert last.item() == 10.0
        assert outputs.tolist() == [0.0, 2.0, 9.0, 24.0]
        last, outputs = calor.scan(lambda a, x: (a + x, a), scalar(0), xs, reverse=True)
        assert outputs.tolist() == [9.0, 7.0, 4.0, 0.0]

    def test_pytrees_and_lengths(self) -> None:
        carry = {"a": scalar(1), "n": calor.asarray(0)}
        last, made = both(
            lambda c: calor.scan(
                lambda s, _: ({"a": s["a"] * 2, "n": s["n"] + 1}, (s["a"], None)), c, length=3
            ),
            carry,
        )
        assert (last["a"].item(), last["n"].item()) == (8.0, 3)
        assert made[0].tolist() == [1.0, 2.0, 4.0]
        assert made[1] is None

    def test_no_steps(self) -> None:
        last, made = calor.scan(
            lambda c, x: (c + x, c * 2), scalar(5), calor.zeros(0, dtype=calor.float64)
        )
        assert last.item() == 5.0
        assert made.shape == (0,)

    def test_gradients_for_carry_rows_and_captures(self) -> None:
        w: Any = calor.asarray(3.0, dtype=calor.float64, requires_grad=True)
        c: Any = calor.asarray(2.0, dtype=calor.float64, requires_grad=True)
        xs: Any = calor.asarray([1.0, 4.0], dtype=calor.float64, requires_grad=True)
        last, made = calor.scan(lambda a, x: (a * w + x, a * x), c, xs)
        (last + made.sum()).backward()
        # last = (c w + x0) w + x1; made = c x0, (c w + x0) x1.
        assert c.grad.item() == 9 + 1 + 3 * 4
        assert w.grad.item() == 2 * 2 * 3 + 1 + 2 * 4
        assert xs.grad.tolist() == [3 + 2 + 4, 1 + 7]

    def test_gradients_of_any_order(self) -> None:
        def f(x: Any) -> Any:
            return calor.scan(lambda c, _: (c * x, None), x, length=3)[0]

        for value in [16.0, 32.0, 48.0, 48.0]:
            assert f(scalar(2)).item() == pytest.approx(value)
            f = calor.grad(f)
        powers = lambda x: calor.scan(lambda c, _: (c * x, c), x, length=3)[1].sum()  # noqa: E731
        _, moved = calor.jvp(powers, (scalar(2),), (scalar(1),))
        assert moved.item() == pytest.approx(1 + 4 + 12)

    def test_only_some_outputs_are_used(self) -> None:
        f = lambda x: calor.scan(lambda c, v: (c * v, v * v), x[0], x)[1].sum()  # noqa: E731
        assert calor.grad(f)(tensor(1, 2, 3)).tolist() == [2.0, 4.0, 6.0]

    def test_integer_carries_and_rows(self) -> None:
        def f(x: Any) -> Any:
            return calor.scan(
                lambda c, i: ((c[0] + x[i], c[1] + 1), i), (scalar(0), calor.asarray(0)),
                calor.asarray([2, 0, 2]),
            )[0][0]  # fmt: skip

        assert calor.grad(f)(tensor(1, 2, 3)).tolist() == [1.0, 0.0, 2.0]

    def test_it_must_be_a_pair_of_one_form(self) -> None:
        xs = tensor(1, 2)
        with pytest.raises(TraceError, match=r"must return a pair \(carry, output\)"):
            calor.scan(lambda c, x: c, scalar(0), xs)
        with pytest.raises(ShapeError, match="carry"):
            calor.scan(lambda c, x: ((c, c), x), scalar(0), xs)
        with pytest.raises(ShapeError, match="must stay the same"):
            calor.scan(lambda c, x: (c + xs, x), scalar(0), xs)
        with pytest.raises(ArgumentError, match="share the size of their first axis"):
            calor.scan(lambda c, x: (c, x), scalar(0), (tensor(1), tensor(1, 2)))
        with pytest.raises(ArgumentError, match="give length="):
            calor.scan(lambda c, x: (c, x), scalar(0))


class TestNesting:
    def test_loops_in_loops_in_branches(self) -> None:
        w = scalar(2)

        def f(p: Any, x: Any) -> Any:
            def inner(c: Any) -> Any:
                return calor.fori_loop(0, 2, lambda i, v: v * w + x, c)

            def outer(c: Any) -> Any:
                return calor.scan(lambda a, _: (inner(a), a), c, length=2)[0]

            return calor.cond(p, outer, lambda c: c * w, x)

        yes, no = calor.asarray(True), calor.asarray(False)
        assert both(f, yes, scalar(1)).item() == 16 + 15
        assert both(f, no, scalar(5)).item() == 10.0
        assert calor.grad(f, argnums=1)(yes, scalar(1)).item() == 31.0
        assert calor.jit(calor.grad(f, argnums=1))(no, scalar(1)).item() == 2.0

    def test_cond_in_scan_has_gradients(self) -> None:
        def f(x: Any) -> Any:
            def step(c: Any, v: Any) -> Any:
                return calor.cond(v > 0, lambda a: a * v, lambda a: a + v, c), c

            return calor.scan(step, scalar(1), x)[0]

        gradient = calor.grad(f)(tensor(2, -1, 3))
        # ((1 · x0) + x1) · x2
        assert gradient.tolist() == [3.0, 3.0, 1.0]
        second = calor.grad(lambda x: calor.grad(f)(x)[0])(tensor(2, -1, 3))
        assert second.tolist() == [0.0, 0.0, 1.0]

    def test_while_in_while(self) -> None:
        def f(n: Any) -> Any:
            def outer(s: Any) -> Any:
                i, total = s
                count = calor.while_loop(lambda c: c < i, lambda c: c + 1, calor.asarray(0))
                return i + 1, total + count

            return calor.while_loop(
                lambda s: s[0] < n, outer, (calor.asarray(0), calor.asarray(0))
            )[1]

        assert both(f, calor.asarray(5)).item() == 10

    def test_objects_are_captured(self) -> None:
        layer = Linear([[0.5]], [1.0])
        calls = layer.calls
        layer.calls = calor.asarray(0)
        x = calor.asarray([[2.0]], dtype=calor.float64)

        def f(m: Linear, v: Any) -> Any:
            return calor.fori_loop(0, 2, lambda i, c: c @ m.w + m.b, v).sum()

        gradient = calor.grad(f)(layer, x)
        # (2 w + b) w + b at w = 0.5, b = 1: by w 2 · 2 w + b = 3, by b w + 1 = 1.5.
        assert gradient.w.tolist() == [[3.0]]
        assert gradient.b.tolist() == [1.5]
        assert calls.item() == 0

    def test_objects_are_changed(self) -> None:
        layer = Linear([[0.5]], [1.0])
        x = calor.asarray([[2.0]], dtype=calor.float64)
        assert calor.fori_loop(0, 2, lambda i, c: layer(c), x).item() == 2.0
        assert layer.calls.item() == 2


FORMS = [
    lambda f, x: f(x),
    lambda f, x: calor.jit(f)(x),
    lambda f, x: calor.cond(calor.asarray(True), f, f, x),
    lambda f, x: calor.fori_loop(0, 1, lambda i, c: f(c), x),
    lambda f, x: calor.scan(lambda c, _: (c, f(c)), x, length=1)[1][0],
    lambda f, x: calor.jit(lambda v: calor.cond(v[0] > 0, f, f, v))(x),
    lambda f, x: calor.checkpoint(f)(x),
    lambda f, x: calor.checkpoint(calor.jit(f))(x),
    lambda f, x: calor.jit(calor.checkpoint(f))(x),
]
NAMES = ["plain", "jit", "cond", "fori", "scan", "jit-cond", "remat", "remat-jit", "jit-remat"]


class TestRules:
    """What stops or replaces a gradient does so inside bodies and jitted functions too."""

    @pytest.mark.parametrize("form", FORMS, ids=NAMES)
    def test_stop_gradient(self, form: Any) -> None:
        f = lambda x: x * calor.stop_gradient(x * x)  # noqa: E731
        gradient = calor.grad(lambda x: form(f, x).sum())
        assert gradient(tensor(2, 3)).tolist() == [4.0, 9.0]
        assert calor.jit(gradient)(tensor(2, 3)).tolist() == [4.0, 9.0]

    @pytest.mark.parametrize("form", FORMS, ids=NAMES)
    def test_no_grad(self, form: Any) -> None:
        def f(x: Any) -> Any:
            with calor.no_grad():
                factor = x * x
            return x * factor

        gradient = calor.grad(lambda x: form(f, x).sum())
        assert gradient(tensor(2, 3)).tolist() == [4.0, 9.0]
        assert calor.jit(gradient)(tensor(2, 3)).tolist() == [4.0, 9.0]

    @pytest.mark.parametrize("form", FORMS, ids=NAMES)
    def test_custom_gradients(self, form: Any) -> None:
        w = tensor(10)
        custom = calor.custom_vjp(lambda x: x * x * w)
        custom.defvjp(lambda x: (x * x * w, x), lambda x, g: (g * x * 100,))
        gradient = calor.grad(lambda x: form(custom, x).sum())
        assert gradient(tensor(2)).tolist() == [200.0]
        assert calor.jit(gradient)(tensor(2)).tolist() == [200.0]
        assert form(custom, tensor(2)).tolist() == [40.0]

    @pytest.mark.parametrize("form", FORMS, ids=NAMES)
    def test_custom_gradients_twice(self, form: Any) -> None:
        custom = calor.custom_vjp(lambda x: x * x)
        custom.defvjp(lambda x: (x * x, x), lambda x, g: (g * x * x,))
        second = calor.grad(calor.grad(lambda x: form(custom, x).sum().sum()))
        x = tensor(3)
        # The rule says x², whose derivative is 2 x.
        got = calor.grad(lambda v: calor.grad(lambda u: form(custom, u).sum())(v).sum())(x)
        assert got.tolist() == [6.0]
        assert callable(second)


def test_long_scans_keep_memory_in_bounds(in_use: Any) -> None:
    x = calor.ones(100, dtype=calor.float64)
    start = in_use()
    made = calor.scan(lambda c, _: (c * 1.0, None), x, length=500)[0]
    calor.eval(made)
    assert in_use() - start <= 800 + 64
    np.testing.assert_array_equal(made.numpy(), np.ones(100))


def test_bounds_of_counted_loops_are_whole_numbers() -> None:
    def total(lower: Any, upper: Any) -> Any:
        return calor.fori_loop(lower, upper, lambda i, c: c + i, calor.asarray(0))

    assert total(np.int32(1), calor.asarray(4, dtype="int32")).item() == 6
    for bound in (3.0, None, "3", np.float32(3)):
        with pytest.raises(DTypeError, match=r"the upper bound .* bounds are whole numbers: int"):
            total(0, bound)
    for tensor in (calor.asarray(3.0), calor.asarray([3]), calor.asarray(True)):
        with pytest.raises(DTypeError, match="the lower bound is .* convert it first"):
            total(tensor, 5)
        with pytest.raises(DTypeError, match="the lower bound is"):
            calor.jit(lambda t: total(t, 5))(tensor)
