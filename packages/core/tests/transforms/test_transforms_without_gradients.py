"""Transforms where gradients are off around them: right numbers, and no history."""

from __future__ import annotations

from typing import Any

import pytest

import calor


def cube(x: Any) -> Any:
    return (x**3).sum()


def with_aux(x: Any) -> Any:
    return cube(x), {"double": x * 2, "same": x}


# What is asked, and the numbers of its results at 1 and 2.
ASKED: list[tuple[Any, list[Any]]] = [
    (lambda w: calor.grad(cube)(w), [[3.0, 12.0]]),
    (lambda w: calor.value_and_grad(cube)(w), [9.0, [3.0, 12.0]]),
    (lambda w: calor.grad(with_aux, has_aux=True)(w), [[3.0, 12.0], [2.0, 4.0], [1.0, 2.0]]),
    (lambda w: calor.grad(lambda x: calor.grad(cube)(x).sum())(w), [[6.0, 12.0]]),
    (lambda w: calor.vjp(lambda x: x * x, w)[0], [[1.0, 4.0]]),
    (lambda w: calor.vjp(lambda x: x * x, w)[1](w), [[2.0, 8.0]]),
    (lambda w: calor.vjp(lambda x: x, w)[0], [[1.0, 2.0]]),
    (lambda w: calor.jvp(calor.grad(cube), (w,), (w,)), [[3.0, 12.0], [6.0, 24.0]]),
    (lambda w: calor.jacrev(lambda x: x * x)(w), [[[2.0, 0.0], [0.0, 4.0]]]),
    (lambda w: calor.hessian(cube)(w), [[[6.0, 0.0], [0.0, 12.0]]]),
]


@pytest.mark.parametrize("number", range(len(ASKED)))
def test_results_have_no_history(number: int) -> None:
    ask, wanted = ASKED[number]
    w = calor.asarray([1.0, 2.0], requires_grad=True)
    with calor.no_grad():
        found = calor.tree.leaves(ask(w))
    assert [t.tolist() for t in found] == wanted
    assert not any(t.requires_grad for t in found)
    assert w.requires_grad
    # With gradients, the same depend on the leaf.
    assert any(t.requires_grad for t in calor.tree.leaves(ask(w)))


def test_a_pull_has_the_mode_of_its_own_call() -> None:
    w = calor.asarray([1.0, 2.0], requires_grad=True)
    value, pull = calor.vjp(lambda x: x * x, w)
    with calor.no_grad():
        assert not pull(w)[0].requires_grad
    assert value.requires_grad
    assert pull(w)[0].requires_grad


def test_gradients_that_are_off_inside_stay_off() -> None:
    w = calor.asarray([1.0, 2.0], requires_grad=True)

    def constant_slope(x: Any) -> Any:
        with calor.no_grad():
            slope = calor.grad(cube)(x)
        return (slope * x).sum()

    assert calor.grad(constant_slope)(w).tolist() == [3.0, 12.0]


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("name", ["grad", "value_and_grad", "aux", "vjp", "jacrev", "hessian"])
def test_a_jitted_transform_gives_no_records_where_gradients_are_off(
    name: str, required: bool
) -> None:
    def cubes(x: calor.Tensor) -> calor.Tensor:
        return (x**3).sum()

    transforms = {
        "grad": calor.grad(cubes),
        "value_and_grad": calor.value_and_grad(cubes),
        "aux": calor.value_and_grad(lambda x: (cubes(x), x * 2), has_aux=True),
        "vjp": lambda x: calor.vjp(cubes, x)[1](calor.ones(())),
        "jacrev": calor.jacrev(lambda x: x**3),
        "hessian": calor.hessian(cubes),
    }
    x = calor.asarray([1.0, 2.0])
    x.requires_grad = required
    with calor.no_grad():
        plain, jitted = transforms[name](x), calor.jit(transforms[name])(x)
    for a, b in zip(calor.tree.leaves(plain), calor.tree.leaves(jitted), strict=True):
        assert not a.requires_grad
        assert not b.requires_grad
        assert a.tolist() == b.tolist()
