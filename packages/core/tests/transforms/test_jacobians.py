"""jacfwd, jacrev, hessian and linearize, beside differences and beside each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import ArgumentError, GradientError, ShapeError

rng = np.random.default_rng(0)


def drawn(*shape: int) -> Any:
    return calor.asarray(rng.standard_normal(shape))


def network(p: Any, x: Any) -> Any:
    return calor.tanh(x @ p["w"] + p["b"][0])


def recurrent(p: Any, x: Any) -> Any:
    return calor.scan(lambda c, t: (calor.sin(c @ p["w"][:, :3] + t), c.sum()), x[0], x)


def branched(p: Any, x: Any) -> Any:
    return calor.cond(x.sum() > 0, lambda: (x @ p["w"]) ** 2, lambda: x @ p["w"])


PARAMETERS: dict[str, Any] = {"w": rng.standard_normal((3, 4)), "b": [rng.standard_normal(4)]}
ROWS = rng.standard_normal((2, 3))


def given() -> Any:
    parameters = {"w": calor.asarray(PARAMETERS["w"]), "b": [calor.asarray(PARAMETERS["b"][0])]}
    return parameters, calor.asarray(ROWS)


def differences(function: Any, flat: list[Any], place: int) -> list[Any]:
    """Return the Jacobians of all outputs by one leaf, by central differences."""
    x = flat[place].numpy()
    columns = []
    for i in range(x.size):
        step = np.zeros(x.size)
        step[i] = 1e-6
        moved = [
            function(
                [*flat[:place], calor.asarray(x + s * step.reshape(x.shape)), *flat[place + 1 :]]
            )
            for s in (1, -1)
        ]
        columns.append([(a.numpy() - b.numpy()) / 2e-6 for a, b in zip(*moved, strict=True)])
    return [np.stack(c, axis=-1).reshape(*c[0].shape, *x.shape) for c in zip(*columns, strict=True)]


@pytest.mark.parametrize("function", [network, recurrent, branched])
@pytest.mark.parametrize("jacobian", [calor.jacfwd, calor.jacrev])
def test_jacobians_are_those_by_differences(function: Any, jacobian: Any) -> None:
    arguments = given()
    flat, structure = calor.tree.flatten(arguments)
    made = jacobian(function, argnums=(0, 1))(*arguments)
    jitted = calor.jit(jacobian(function, argnums=(0, 1)))(*arguments)
    found, outer = calor.tree.flatten(made)
    assert calor.tree.flatten(jitted)[1] == outer

    def run(leaves: list[Any]) -> list[Any]:
        return calor.tree.leaves(function(*calor.tree.unflatten(structure, leaves)))

    by_leaf = [differences(run, flat, i) for i in range(len(flat))]
    wanted = [by_leaf[i][k] for k in range(len(run(flat))) for i in range(len(flat))]
    for a, b, c in zip(found, calor.tree.leaves(jitted), wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), c, atol=1e-7)
        np.testing.assert_allclose(b.numpy(), c, atol=1e-7)


def test_hessians_are_jacobians_of_gradients() -> None:
    def loss(p: Any, x: Any) -> Any:
        return (network(p, x) ** 2).mean()

    parameters, x = given()
    made = calor.hessian(loss)(parameters, x)
    wanted = calor.jacrev(calor.grad(loss))(parameters, x)
    other = calor.jacfwd(calor.jacfwd(loss))(parameters, x)
    flat, structure = calor.tree.flatten(made)
    assert calor.tree.flatten(wanted)[1] == structure
    for a, b, c in zip(flat, calor.tree.leaves(wanted), calor.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-10)
        np.testing.assert_allclose(c.numpy(), b.numpy(), atol=1e-10)
    assert made["w"]["b"][0].shape == (3, 4, 4)
    both = calor.hessian(loss, argnums=(0, 1))(parameters, x)
    assert both[1][0]["w"].shape == (2, 3, 3, 4)


def test_auxiliary_results_come_second() -> None:
    def function(x: Any) -> Any:
        return (x**3).sum(), {"twice": x * 2, "name": "text"}

    x = drawn(2)
    for transform in (calor.jacfwd, calor.jacrev, calor.hessian):
        made, aux = transform(function, has_aux=True)(x)
        assert made.shape == ((2, 2) if transform is calor.hessian else (2,))
        assert aux["name"] == "text"
        assert aux["twice"].tolist() == (x * 2).tolist()
        assert not aux["twice"].requires_grad
    value, pull, aux = calor.vjp(function, x, has_aux=True)
    assert pull(calor.ones_like(value))[0].tolist() == (3 * x**2).tolist()
    assert aux["name"] == "text"
    assert calor.jvp(function, (x,), (x,), has_aux=True)[2]["name"] == "text"


def test_parts_without_derivative_are_none() -> None:
    def function(p: Any) -> Any:
        return p["x"] * p["n"]

    p = {"x": drawn(2), "n": calor.asarray([2, 3])}
    for jacobian in (calor.jacfwd, calor.jacrev):
        made = jacobian(function)(p)
        assert made["n"] is None
        assert made["x"].tolist() == [[2.0, 0.0], [0.0, 3.0]]


def test_numbers_scalars_and_empty_shapes() -> None:
    assert calor.jacfwd(lambda x: x**2)(3.0).item() == 6.0
    assert calor.jacrev(lambda x: x**2)(3.0).item() == 6.0
    for jacobian in (calor.jacfwd, calor.jacrev):
        assert jacobian(lambda x: x * 2)(drawn(0)).shape == (0, 0)
        assert jacobian(lambda x: (x * 2)[:0])(drawn(3)).shape == (0, 3)


def test_complex_numbers_are_told_apart() -> None:
    z = calor.asarray([1 + 2j])
    assert calor.jacrev(lambda z: calor.abs(z) ** 2)(z).tolist() == [[2 + 4j]]
    with pytest.raises(GradientError, match=r"jacrev needs real floating outputs.*jacfwd"):
        calor.jacrev(lambda z: z * z)(z)
    with pytest.raises(GradientError, match=r"jacfwd needs real floating arguments.*jacrev"):
        calor.jacfwd(lambda z: z * z)(z)
    with pytest.raises(ArgumentError, match="argnums"):
        calor.jacfwd(lambda x: x, argnums=1)(z)


def test_jacobians_may_be_mapped_and_differentiated() -> None:
    x = drawn(3, 2)
    mapped = calor.vmap(calor.jacfwd(lambda x: x * x.sum()))(x)
    wanted = [calor.jacrev(lambda x: x * x.sum())(row) for row in x]
    np.testing.assert_allclose(mapped.numpy(), np.stack([t.numpy() for t in wanted]))
    third = calor.jacrev(calor.hessian(lambda x: (x**3).sum()))(x[0])
    assert third[1, 1, 1].item() == pytest.approx(6)


def test_results_depend_on_no_finished_transform() -> None:
    def function(x: Any) -> Any:
        return calor.sin(x) * x.sum()

    x = drawn(3)
    _, push = calor.linearize(function, x)
    _, pull = calor.vjp(function, x)
    transforms = calor.jacfwd(function), calor.jacrev(function), calor.hessian(function)
    made = [t(x) for t in transforms]
    made += [calor.vmap(push)(calor.eye(3, dtype=x.dtype)), calor.vmap(pull)(drawn(2, 3))[0]]
    assert not any(t.requires_grad for t in made)
    leaf: Any = calor.asarray(x, requires_grad=True)
    assert calor.jacfwd(function)(leaf).requires_grad
    calor.jacfwd(function)(leaf).sum().backward()
    wanted = calor.grad(lambda x: calor.jacrev(function)(x).sum())(x)
    np.testing.assert_allclose(leaf.grad.numpy(), wanted.numpy())


def test_linearize_runs_the_function_once() -> None:
    runs = []

    def function(x: Any, y: Any) -> Any:
        runs.append(1)
        return {"product": calor.sin(x) * y, "same": y}

    x, y = drawn(2), drawn(2)
    value, push = calor.linearize(function, x, y)
    np.testing.assert_allclose(value["product"].numpy(), (calor.sin(x) * y).numpy())
    for tangents in ((drawn(2), drawn(2)), (drawn(2), None)):
        found = push(*tangents)
        assert runs == [1]
        wanted = calor.jvp(function, (x, y), tangents)[1]
        runs.pop()
        for name, t in wanted.items():
            np.testing.assert_allclose(found[name].numpy(), t.numpy())
            assert not found[name].requires_grad
    with pytest.raises(ShapeError, match="2 primals but 1 tangents"):
        push(x)


def test_parts_of_cotangents_and_tangents_may_be_none() -> None:
    x, y = drawn(2), drawn(2)
    _, pull = calor.vjp(lambda x: {"a": x * 2, "b": [x * 3, x]}, x)
    assert pull({"a": None, "b": [y, None]})[0].tolist() == (y * 3).tolist()
    assert pull(None)[0].tolist() == [0.0, 0.0]
    _, t = calor.jvp(lambda p: p["x"] * p["y"], ({"x": x, "y": y},), ({"x": None, "y": y},))
    assert t.tolist() == (x * y).tolist()


def test_forward_rules_must_fit() -> None:
    function = calor.custom_jvp(lambda x: (x * 2, 3))
    x = drawn(2)
    with pytest.raises(GradientError, match=r"call <lambda>\.defjvp"):
        function(x)
    for derivative, match in (
        ((x[:1], None), r"shape \(1,\)"),
        ((x.astype(calor.float32), None), "convert it"),
        ((1.0, None), "a float as a derivative"),
        ([x, x, x], "one structure"),
    ):
        function.defjvp(lambda p, t, d=derivative: (None, d))
        with pytest.raises((ArgumentError, ShapeError, TypeError), match=match):
            calor.jvp(function, (x,), (x,))
    function.defjvp(lambda p, t: t[0])
    with pytest.raises(ArgumentError, match="return a pair"):
        calor.jvp(function, (x,), (x,))
