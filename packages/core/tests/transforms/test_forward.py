"""jvp: derivatives along tangents."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import GradientError, ShapeError


def tensor(*values: float) -> Any:
    return calor.asarray(values, dtype=calor.float64)


def test_value_and_derivative() -> None:
    y, dy = calor.jvp(lambda x: calor.sin(x) * x, (tensor(0.5),), (tensor(2.0),))
    assert y.item() == pytest.approx(math.sin(0.5) * 0.5)
    assert dy.item() == pytest.approx(2 * (math.cos(0.5) * 0.5 + math.sin(0.5)))
    assert not dy.requires_grad


def test_tangents_have_the_structure_of_primals() -> None:
    primal = {"a": tensor(1, 2), "b": (tensor(3),)}
    tangent = {"a": tensor(1, 0), "b": (tensor(10),)}
    y, dy = calor.jvp(lambda t: [t["a"] * t["b"][0], t["a"]], (primal,), (tangent,))
    assert [t.tolist() for t in y] == [[3.0, 6.0], [1.0, 2.0]]
    assert [t.tolist() for t in dy] == [[13.0, 20.0], [1.0, 0.0]]


def test_none_is_a_zero_tangent() -> None:
    _, dy = calor.jvp(lambda x, y: x * y, (tensor(2), tensor(5)), (None, tensor(1)))
    assert dy.tolist() == [2.0]


def test_constant_results_do_not_move() -> None:
    _, dy = calor.jvp(lambda x: (x * 0 + 1, tensor(7)), (tensor(2),), (tensor(1),))
    assert [t.tolist() for t in dy] == [[0.0], [0.0]]


def test_broadcasting_and_casts_carry_tangents() -> None:
    x = calor.asarray([[1.0], [2.0]], dtype=calor.float32)
    t = calor.asarray([[1.0], [10.0]], dtype=calor.float32)
    _, dy = calor.jvp(lambda a: (a * tensor(1, 2)).sum(axis=0), (x,), (t,))
    assert dy.dtype is calor.float64
    assert dy.tolist() == [11.0, 22.0]


def test_forward_over_reverse_is_a_hessian_product() -> None:
    def function(x: Any) -> Any:
        return (x**3).sum() + x[0] * x[1]

    x, v = tensor(1, 2), tensor(1, -1)
    _, product = calor.jvp(calor.grad(function), (x,), (v,))
    np.testing.assert_allclose(product.numpy(), [6 * 1 - 1, 1 - 12])


def test_reverse_over_forward_is_one_too() -> None:
    def along(x: Any) -> Any:
        return calor.jvp(lambda t: (t**3).sum(), (x,), (tensor(1, -1),))[1]

    np.testing.assert_allclose(calor.grad(along)(tensor(1, 2)).numpy(), [6.0, -12.0])


def test_forward_over_forward() -> None:
    def first(x: Any) -> Any:
        return calor.jvp(lambda t: t**3, (x,), (tensor(1),))[1]

    assert calor.jvp(first, (tensor(2),), (tensor(1),))[1].tolist() == [12.0]


def test_complex_tangents() -> None:
    z, t = (calor.asarray([v], dtype=calor.complex128) for v in (1 + 2j, 3 - 1j))
    _, dy = calor.jvp(lambda x: x * x, (z,), (t,))
    assert dy.tolist() == [2 * (1 + 2j) * (3 - 1j)]
    _, dy = calor.jvp(calor.abs, (z,), (t,))
    assert dy.item() == pytest.approx((1 * 3 - 2 * 1) / math.sqrt(5))


def test_tangents_must_fit() -> None:
    with pytest.raises(ShapeError, match="1 primals but 2 tangents"):
        calor.jvp(lambda x: x, (tensor(1),), (tensor(1), tensor(1)))
    with pytest.raises(ShapeError, match=r"shape \(2,\), the tensor \(1,\)"):
        calor.jvp(lambda x: x, (tensor(1),), (tensor(1, 2),))
    with pytest.raises(ShapeError, match="another structure"):
        calor.jvp(lambda x: x, (tensor(1),), ([tensor(1), tensor(1)],))


def test_custom_rules_have_no_forward_mode() -> None:
    square = calor.custom_vjp(lambda x: x * x)
    square.defvjp(lambda x: (x * x, x), lambda x, g: (g * 2 * x,))
    with pytest.raises(GradientError, match="only a reverse rule; give it a forward rule"):
        calor.jvp(square, (tensor(1),), (tensor(1),))


def test_a_jitted_loop_moves_forward_as_the_loop_does() -> None:
    def loop(x: Any) -> Any:
        return calor.while_loop(lambda c: calor.sum(c) < 9, lambda c: c * c + x, x)

    x, t = calor.asarray([1.0, 2.0]), calor.asarray([1.0, 0.5])
    want = calor.jvp(loop, (x,), (t,))[1].tolist()
    assert calor.jvp(calor.jit(loop), (x,), (t,))[1].tolist() == want
    assert calor.linearize(calor.jit(loop), x)[1](t).tolist() == want
    assert calor.jacfwd(calor.jit(loop))(x).shape == (2, 2)


_ROWS = np.array([0.0, 1.0, 2.0])


def _grown(x: Any) -> Any:
    return calor.while_loop(lambda c: c < 100, lambda c: c * c, x)


@pytest.mark.parametrize(
    "around",
    [
        lambda x: calor.cond(x > 1, lambda: _grown(x), lambda: x * 0),
        lambda x: calor.scan(lambda c, _: (_grown(c) / 10, c * c), x, length=3),
        lambda x: calor.scan(
            lambda c, r: ((c[0] + r, c[1] + 1), _grown(r + c[1])), (x, 0), x + _ROWS
        ),
        lambda x: calor.fori_loop(0, 3, lambda i, c: _grown(c + i) / 10, x),
        lambda x: calor.checkpoint(_grown)(x),
        lambda x: calor.cond(x < 1, lambda: x, lambda: calor.jit(calor.checkpoint(_grown))(x)),
    ],
    ids=["cond", "scan", "rows", "fori_loop", "checkpoint", "jit of checkpoint in cond"],
)
@pytest.mark.parametrize("jitted", [False, True])
def test_a_loop_without_gradient_moves_forward_inside(around: Any, jitted: bool) -> None:
    with calor.default_dtype("float64"):
        x, t, step = calor.asarray(2.1), calor.asarray(1.0), 1e-6

        def forward(x: Any) -> Any:
            return calor.tree.leaves(calor.jvp(around, (x,), (t,))[1])

        made = calor.jit(forward)(x) if jitted else forward(x)
        ends = (calor.tree.leaves(around(x + s)) for s in (step, -step))
        for got, high, low in zip(made, *ends, strict=True):
            if got.dtype.is_inexact:
                want = (high - low) / (2 * step)
                assert calor.allclose(got, want, rtol=1e-4, atol=1e-4)
        # And once more: the derivative of the derivative.
        again = calor.jvp(forward, (x,), (t,))[1]
        ends = (forward(x + s) for s in (step, -step))
        for got, high, low in zip(again, *ends, strict=True):
            if got.dtype.is_inexact:
                assert calor.allclose(got, (high - low) / (2 * step), rtol=1e-4, atol=1e-3)
