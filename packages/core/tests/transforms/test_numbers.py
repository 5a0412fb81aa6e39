"""Python numbers that a trace holds become tensors where and as plain ones do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import GradientError

Function = Callable[[Any], Any]


def cube(x: Any) -> Any:
    return x * x * x


TRANSFORMS: dict[str, Callable[[Function], Function]] = {
    "grad": calor.grad,
    "value_and_grad": calor.value_and_grad,
    "hessian": calor.hessian,
    "jacrev": calor.jacrev,
    "jacfwd": calor.jacfwd,
    "jvp": lambda f: lambda x: calor.jvp(f, (x,), (x,)),
    "vjp": lambda f: lambda x: calor.vjp(f, x)[1](2.0),
    "vmap": lambda f: calor.vmap(f, in_axes=None, axis_size=2),
    "checkpoint": calor.checkpoint,
    "scan": lambda f: lambda x: calor.scan(lambda c, _: (c, f(c)), x, length=2),
    "fori_loop": lambda f: lambda x: calor.fori_loop(0, 2, lambda i, c: f(c), x),
    "while_loop": lambda f: lambda x: calor.while_loop(lambda c: c < 9, f, x),
    "cond": lambda f: lambda x: calor.cond(calor.asarray(False), f, f, x),
    "asarray": lambda f: lambda x: calor.asarray(f(x)),
    "exp": lambda f: lambda x: calor.exp(f(x)),
    "add": lambda f: lambda x: calor.add(f(x), x),
    "where": lambda f: lambda x: calor.where(calor.asarray([True]), x, f(x)),
    "stack": lambda f: lambda x: calor.stack([calor.asarray(x), calor.asarray(f(x))]),
    "zeros_like": lambda f: lambda x: calor.zeros_like(f(x)),
}


def told(made: Any) -> list[Any]:
    leaves = [calor.asarray(leaf) for leaf in calor.tree.leaves(made)]
    return [(t.dtype.name, t.shape, t.tolist()) for t in leaves]


@pytest.mark.parametrize("number", [1.5, np.float32(1.5), np.float64(1.5)], ids=repr)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_jitted_transform_gives_the_dtype_of_the_plain_one(name: str, number: Any) -> None:
    plain = TRANSFORMS[name](cube)
    assert told(calor.jit(plain)(number)) == told(plain(number))


@pytest.mark.parametrize("name", TRANSFORMS)
def test_the_default_dtype_decides_in_a_trace_too(name: str) -> None:
    plain = TRANSFORMS[name](cube)
    with calor.default_dtype("float64"):
        assert told(calor.jit(plain)(1.5)) == told(plain(1.5))


def test_what_is_computed_of_numbers_stays_a_number_beside_tensors() -> None:
    half = calor.ones(2, dtype=calor.float16)
    for scaled in (
        lambda x, n: x * (n * 2), lambda x, n: x * abs(n), lambda x, n: x * (n > 1),
        lambda x, n: calor.where(x > 0, n, x), lambda x, n: calor.maximum(n * 2, x),
    ):  # fmt: skip
        for number in (2.0, 2):
            assert calor.jit(scaled)(half, number).dtype is scaled(half, number).dtype
    size = calor.jit(lambda x, n: x * abs(n))(calor.ones(2), 3 + 4j)
    assert size.dtype is calor.float32


def test_an_integer_has_no_gradient_in_a_trace_either() -> None:
    for transform in (calor.grad, calor.jacrev):
        for call in (transform(cube), calor.jit(transform(cube))):
            with pytest.raises(GradientError, match="int"):
                call(3)


def test_gradients_of_a_users_rule_for_numbers_are_left_out() -> None:
    @calor.custom_vjp
    def scaled(x: Any, factor: Any) -> Any:
        return x * factor

    scaled.defvjp(lambda x, factor: (x * factor, factor), lambda factor, g: (g * factor, 7.0))
    plain = calor.grad(lambda x, factor: calor.sum(scaled(x, factor)))
    x = calor.ones(2)
    assert calor.jit(plain)(x, 3.0).tolist() == plain(x, 3.0).tolist() == [3.0, 3.0]


def test_a_forward_rule_is_told_that_numbers_do_not_move() -> None:
    seen = []

    @calor.custom_jvp
    def scaled(x: Any, factor: Any) -> Any:
        return x * factor

    @scaled.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        seen.append(tangents[1])
        return primals[0] * primals[1], tangents[0] * primals[1]

    def along(x: Any, factor: Any) -> Any:
        return calor.jvp(lambda y: scaled(y, factor), (x,), (x,))[1]

    x = calor.ones(2)
    assert calor.jit(along)(x, 3.0).tolist() == along(x, 3.0).tolist() == [3.0, 3.0]
    assert seen == [None, None]


def test_second_derivatives_of_a_users_gradient_need_no_forward_rule_when_jitted() -> None:
    @calor.custom_vjp
    def square(x: Any) -> Any:
        return x * x

    square.defvjp(lambda x: (x * x, x), lambda x, g: (g * 2 * x,))
    x = calor.asarray(3.0)
    assert calor.hessian(square)(x).item() == calor.jit(calor.hessian(square))(x).item() == 2.0
    for forward in (calor.jacfwd(square), calor.jit(calor.jacfwd(square))):
        with pytest.raises(GradientError, match=r"square\.defjvp"):
            forward(x)


def test_control_flow_may_return_nothing() -> None:
    for call in (lambda f: f, calor.jit):
        assert call(lambda x: calor.cond(x > 0, lambda: None, lambda: None))(1.0) is None
        assert call(lambda x: calor.scan(lambda c, _: (c, None), (), length=3))(1.0) == ((), None)


def test_likes_of_numbers() -> None:
    assert calor.zeros_like(3.0).dtype is calor.float32
    assert calor.full_like(np.float64(2), 1).dtype is calor.float64
    with pytest.raises(calor.errors.DTypeError, match=r"_like: x is \[1\.0\]; pass Tensor"):
        calor.ones_like([1.0])
    with pytest.raises(calor.errors.ExchangeError, match="from_dlpack: x is"):
        calor.from_dlpack(3.0)
