"""grad, value_and_grad and vjp: values, structure, orders and errors."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import calor
from calor.errors import ArgumentError, GradientError, ShapeError


def tensor(*values: float) -> Any:
    return calor.asarray(values, dtype=calor.float64)


class Point(NamedTuple):
    x: Any
    y: Any


DERIVATIVES = [
    (lambda x: x**3, 2.0, [8.0, 12.0, 12.0, 6.0]),
    (lambda x: calor.sin(x), 0.5, [math.sin(0.5), math.cos(0.5), -math.sin(0.5), -math.cos(0.5)]),
    (lambda x: calor.exp(2 * x), 0.0, [1.0, 2.0, 4.0, 8.0]),
    (lambda x: x * calor.log(x), 2.0, [2 * math.log(2), math.log(2) + 1, 0.5, -0.25]),
    (lambda x: 1 / x, 2.0, [0.5, -0.25, 0.25, -0.375]),
    (lambda x: calor.tanh(x) * x, 0.0, [0.0, 0.0, 2.0, 0.0]),
    (lambda x: calor.where(x > 1, x * x, x), 3.0, [9.0, 6.0, 2.0, 0.0]),
    (lambda x: x**2 * calor.abs(x), -2.0, [8.0, -12.0, 12.0, -6.0]),
]


@pytest.mark.parametrize(("function", "at", "expected"), DERIVATIVES)
def test_derivatives_of_any_order(function: Any, at: float, expected: list[float]) -> None:
    derivative = function
    for want in expected:
        assert derivative(calor.asarray(at, dtype=calor.float64)).item() == pytest.approx(want)
        derivative = calor.grad(derivative)


def test_value_and_grad_gives_both() -> None:
    value, gradient = calor.value_and_grad(lambda x: (x * x).sum())(tensor(1, 2))
    assert value.item() == 5.0
    assert gradient.tolist() == [2.0, 4.0]
    assert not value.requires_grad
    assert not gradient.requires_grad


def test_python_numbers_are_arguments() -> None:
    assert calor.grad(lambda x: x * x)(3.0).item() == 6.0
    assert calor.grad(lambda x, y: x * y, argnums=1)(3.0, 5.0).item() == 3.0


def test_argnums_may_be_several_and_negative() -> None:
    gradient = calor.grad(lambda x, y, z: (x * y * z).sum(), argnums=(0, -1))
    first, last = gradient(tensor(1, 2), tensor(3, 4), tensor(5, 6))
    assert first.tolist() == [15.0, 24.0]
    assert last.tolist() == [3.0, 8.0]


def test_has_aux_returns_what_the_function_found() -> None:
    def function(x: Any) -> Any:
        y = x * x
        return y.sum(), {"squares": y, "name": "aux"}

    (value, aux), gradient = calor.value_and_grad(function, has_aux=True)(tensor(1, 2))
    assert (value.item(), aux["squares"].tolist(), aux["name"]) == (5.0, [1.0, 4.0], "aux")
    assert not aux["squares"].requires_grad
    assert gradient.tolist() == [2.0, 4.0]
    gradient, aux = calor.grad(function, has_aux=True)(tensor(1, 2))
    assert gradient.tolist() == [2.0, 4.0]
    assert aux["squares"].tolist() == [1.0, 4.0]


def test_pytrees_have_gradients_of_their_structure() -> None:
    tree = {"a": [tensor(1, 2), (tensor(3), None)], "b": Point(tensor(4), calor.asarray([1, 2]))}

    def function(t: Any) -> Any:
        (a, (c, _)), b = t["a"], t["b"]
        return (a * a).sum() + (c * b.x).sum() + b.y.sum()

    gradient = calor.grad(function)(tree)
    assert gradient["a"][0].tolist() == [2.0, 4.0]
    assert gradient["a"][1][0].tolist() == [4.0]
    assert gradient["a"][1][1] is None
    assert gradient["b"].x.tolist() == [3.0]
    assert gradient["b"].y is None


def test_unused_arguments_have_zero_gradients() -> None:
    gradient = calor.grad(lambda x, y: x.sum(), argnums=(0, 1))(tensor(1, 2), tensor(1, 2, 3))
    assert gradient[1].tolist() == [0.0, 0.0, 0.0]
    assert calor.grad(lambda x: tensor(1).sum())(tensor(1, 2)).tolist() == [0.0, 0.0]


def test_one_tensor_given_twice_is_two_arguments() -> None:
    x = tensor(2)
    first, second = calor.grad(lambda a, b: (a * a * b).sum(), argnums=(0, 1))(x, x)
    assert (first.item(), second.item()) == (8.0, 4.0)


def test_captured_tensors_are_constants() -> None:
    w = calor.asarray([2.0], requires_grad=True)
    gradient = calor.grad(lambda x: (x * w).sum())(calor.asarray([3.0]))
    assert gradient.tolist() == [2.0]
    assert w.grad is None


def test_broadcasting_and_promotion_are_undone() -> None:
    x = calor.asarray([[1.0], [2.0]], dtype=calor.float32)
    y = calor.asarray([1.0, 2.0, 3.0], dtype=calor.float64)
    gx, gy = calor.grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(x, y)
    assert (gx.dtype, gy.dtype) == (calor.float32, calor.float64)
    assert gx.tolist() == [[6.0], [6.0]]
    assert gy.tolist() == [3.0, 3.0, 3.0]


def test_where_with_broadcasting() -> None:
    c = calor.asarray([[True], [False]])
    x, y = tensor(1, 2, 3), calor.asarray(5.0, dtype=calor.float64)
    gx, gy = calor.grad(lambda a, b: (calor.where(c, a, b) ** 2).sum(), argnums=(0, 1))(x, y)
    assert gx.tolist() == [2.0, 4.0, 6.0]
    assert gy.item() == 30.0


def test_complex_gradients_follow_the_conjugate_convention() -> None:
    z: Any = calor.asarray([1 + 2j, -3j], dtype=calor.complex128)
    gradient = calor.grad(lambda t: calor.sum(calor.real(t * calor.conj(t))))(z)
    assert gradient.tolist() == [2 + 4j, -6j]
    stepped = z - 0.1 * gradient
    assert (abs(stepped.numpy()) < abs(z.numpy())).all()


def test_parts_of_real_and_complex_tensors_meet() -> None:
    x = tensor(1, 2)
    gradient = calor.grad(lambda t: calor.sum(calor.abs(t * (1 + 2j)) ** 2))(x)
    assert gradient.dtype is calor.float64
    np.testing.assert_allclose(gradient.numpy(), [10.0, 20.0])


def test_integer_outputs_and_inputs_carry_no_gradient() -> None:
    gradient = calor.grad(lambda x: (x * calor.astype(calor.argmax(x), x.dtype)).sum())(
        tensor(1, 5)
    )
    assert gradient.tolist() == [1.0, 1.0]
    assert calor.grad(lambda x, i: x[i].sum())(tensor(1, 2), calor.asarray([1, 1])).tolist() == [
        0,
        2,
    ]


def test_vjp_takes_any_cotangent() -> None:
    value, pull = calor.vjp(lambda x: {"y": x * x, "z": x.sum()}, tensor(1, 2))
    assert value["y"].tolist() == [1.0, 4.0]
    got = pull({"y": tensor(1, 10), "z": calor.asarray(100.0, dtype=calor.float64)})
    assert got[0].tolist() == [102.0, 140.0]
    again = pull({"y": tensor(0, 1), "z": calor.asarray(0.0, dtype=calor.float64)})
    assert again[0].tolist() == [0.0, 4.0]


def test_vjp_cotangents_must_fit() -> None:
    _, pull = calor.vjp(lambda x: x * x, tensor(1, 2))
    with pytest.raises(ShapeError, match=r"gradient has shape \(3,\)"):
        pull(tensor(1, 2, 3))
    with pytest.raises(TypeError, match="float32.*float64.*cast"):
        pull(calor.asarray([1.0, 2.0], dtype=calor.float32))
    with pytest.raises(ShapeError, match="structure"):
        pull([tensor(1, 2), tensor(1, 2)])


def test_stop_gradient_cuts() -> None:
    assert calor.grad(lambda x: x * calor.stop_gradient(x))(3.0).item() == 3.0
    tree = calor.grad(lambda x: calor.stop_gradient({"a": x * x})["a"] + x)(3.0)
    assert tree.item() == 1.0
    second = calor.grad(calor.grad(lambda x: x * x * calor.stop_gradient(x)))(3.0)
    assert second.item() == 6.0


def test_detach_cuts_too() -> None:
    assert calor.grad(lambda x: x * x.detach())(3.0).item() == 3.0


def test_hessian_by_nesting() -> None:
    def function(x: Any) -> Any:
        return x[0] ** 2 * x[1] + calor.sin(x[1])

    x = tensor(2, 3)
    rows = [calor.grad(lambda t, i=i: calor.grad(function)(t)[i])(x).tolist() for i in range(2)]
    np.testing.assert_allclose(rows, [[6.0, 4.0], [4.0, -math.sin(3)]])


def test_inner_gradients_see_outer_variables() -> None:
    def outer(x: Any) -> Any:
        return calor.grad(lambda y: (x * y * y).sum())(x) * x

    # d/dx of (2 x x) x = 2 x³ is 6 x².
    assert calor.grad(outer)(2.0).item() == pytest.approx(24.0)


def test_gradients_inside_a_gradient_do_not_confuse_variables() -> None:
    # Perturbation confusion: d/dx [x · d/dy (x + y)] is 1.
    def inner(x: Any) -> Any:
        return x * calor.grad(lambda y: x + y)(1.0)

    assert calor.grad(inner)(2.0).item() == 1.0


def test_grad_inside_no_grad_still_works() -> None:
    with calor.no_grad():
        assert calor.grad(lambda x: x * x)(3.0).item() == 6.0


def test_no_grad_inside_a_function_makes_constants() -> None:
    def function(x: Any) -> Any:
        with calor.no_grad():
            factor = x * 2
        return factor * x

    assert calor.grad(function)(3.0).item() == 6.0


def test_the_function_keeps_its_name() -> None:
    def named(x: Any) -> Any:
        """Words."""
        return x

    assert calor.grad(named).__name__ == "named"
    assert calor.value_and_grad(named).__doc__ == "Words."


@pytest.mark.parametrize(
    ("function", "arguments", "error", "match"),
    [
        (lambda x: x * x, (calor.e,), None, ""),
        (lambda x: [1.0], (1.0,), GradientError, "returned list, a gradient needs a scalar"),
        (lambda x: x * calor.ones(3), (1.0,), GradientError, r"float32\[3\].*reduce it"),
        (lambda x: calor.argmax(x), ([1.0],), GradientError, "scalar|argument"),
        (lambda x: x * (1 + 1j), (1.0,), GradientError, "complex64.*real floating scalar"),
    ],
)
def test_what_has_no_gradient_says_so(
    function: Any, arguments: Any, error: Any, match: str
) -> None:
    given = [calor.asarray(a) if isinstance(a, list) else a for a in arguments]
    if error is None:
        calor.grad(function)(*given)
        return
    with pytest.raises(error, match=match):
        calor.grad(function)(*given)


def test_argnums_must_exist() -> None:
    with pytest.raises(ArgumentError, match="argnums 2 names argument 2, the call has 1"):
        calor.grad(lambda x: x, argnums=2)(1.0)


def test_ops_without_a_gradient_name_their_reason() -> None:
    def function(x: Any) -> Any:
        return calor.while_loop(lambda c: c.sum() < 10, lambda c: c * 2, x).sum()

    with pytest.raises(GradientError, match="number of steps is known only at run time"):
        calor.grad(function)(tensor(1, 2))


def test_nextafter_stops_gradients_with_a_reason() -> None:
    with pytest.raises(GradientError, match="nextafter.*representable numbers"):
        calor.grad(lambda x: calor.nextafter(x, x + 1).sum())(tensor(1, 2))
