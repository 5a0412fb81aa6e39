"""Is what is known before the steps of a scan computed once, and right?"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor

STEPS, ROWS, WIDTH = 4, 2, 3


def numbers(*shape: int, seed: int = 0) -> Any:
    return calor.asarray(np.random.default_rng(seed).standard_normal(shape) * 0.3)


def of_rows(h: Any, x: Any, w: Any, v: Any, b: Any) -> Any:
    return calor.tanh(x @ w.mT + b[0] + h @ v)


def converted(h: Any, x: Any, w: Any, v: Any, b: Any) -> Any:
    half = w.astype("float32").astype("float64")
    return calor.tanh(x @ half + h @ (v * 2.0))


def of_narrow_rows(h: Any, x: Any, w: Any, v: Any, b: Any) -> Any:
    narrow = x.astype("float32") @ w.astype("float32")
    return calor.tanh(narrow.astype("float64") + h @ v + x)


def peepholes(h: Any, x: Any, w: Any, v: Any, b: Any) -> Any:
    return calor.sigmoid(h @ v + b[1] * h) * x + b[2]


def in_a_context(h: Any, x: Any, w: Any, v: Any, b: Any) -> Any:
    return calor.tanh(h @ v + x + w[:ROWS])


def of_what_stays(h: Any, x: Any, w: Any, v: Any, b: Any) -> Any:
    return h * (w @ v)[:2] + calor.sum(b * b) + x


def in_a_branch(h: Any, x: Any, w: Any, v: Any, b: Any) -> Any:
    return calor.cond(calor.sum(b) > 0, lambda h: h @ (w @ v), lambda h: h - x @ w, h)


def without_carry(h: Any, x: Any, w: Any, v: Any, b: Any) -> Any:
    return calor.tanh(x @ w) @ v


# The cell; the products of its steps; the captures and rows that they read.
CELLS = [
    (of_rows, 1, 1, 1),
    (converted, 1, 1, 1),
    (of_narrow_rows, 1, 1, 2),
    (peepholes, 1, 3, 1),
    (in_a_context, 1, 2, 1),
    (of_what_stays, 0, 2, 1),
    (in_a_branch, 0, 3, 1),
    (without_carry, 1, 1, 1),
]


def layer(cell: Callable[..., Any], reverse: bool) -> Callable[..., Any]:
    def run(h: Any, xs: Any, *held: Any) -> Any:
        def body(h: Any, x: Any) -> Any:
            made = cell(h, x, *held)
            return made, made * 2.0

        return calor.scan(body, h, xs, reverse=reverse)

    return run


def unrolled(cell: Callable[..., Any], reverse: bool) -> Callable[..., Any]:
    def run(h: Any, xs: Any, *held: Any) -> Any:
        made: list[Any] = [None] * xs.shape[0]
        order = range(xs.shape[0])
        for i in reversed(order) if reverse else order:
            h = cell(h, xs[i], *held)
            made[i] = h * 2.0
        return h, calor.stack(made)

    return run


def arguments() -> tuple[Any, ...]:
    xs, b = numbers(STEPS, ROWS, WIDTH, seed=1), numbers(3, WIDTH, seed=4)
    return numbers(ROWS, WIDTH), xs, *(numbers(WIDTH, WIDTH, seed=s) for s in (2, 3)), b


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("cell", [cell for cell, *_ in CELLS])
def test_numbers_and_gradients_are_those_of_the_steps(cell: Any, reverse: bool) -> None:
    def loss(form: Any) -> Callable[..., Any]:
        return lambda *given: sum((t**2).sum() for t in form(cell, reverse)(*given))

    given, places = arguments(), (0, 1, 2, 3, 4)
    found = calor.jit(calor.value_and_grad(loss(layer), argnums=places))(*given)
    wanted = calor.value_and_grad(loss(unrolled), argnums=places)(*given)
    for one, other in zip(calor.tree.leaves(found), calor.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("cell", "products", "captures", "rows"), CELLS)
def test_steps_do_not_compute_what_is_known(
    cell: Any, products: int, captures: int, rows: int
) -> None:
    graph = calor.trace(layer(cell, False), *arguments())
    (node,) = (node for node in graph.nodes if node.op.name == "scan")
    body = node.attributes["body"]
    assert sum(one.op.name == "dot_general" for one in body.nodes) == products
    assert node.attributes["captures"] == captures
    assert len(body.inputs) - captures - 1 == rows


def test_large_products_stay_in_the_steps() -> None:
    def body(h: Any, x: Any) -> Any:
        return h, (x @ words).max(axis=-1)

    for wide, inside in ((2 * WIDTH, 0), (100 * WIDTH, 1)):
        words = numbers(WIDTH, wide)
        xs = numbers(STEPS, ROWS, WIDTH)
        graph = calor.trace(lambda xs: calor.scan(body, calor.zeros(()), xs)[1], xs)
        (node,) = (node for node in graph.nodes if node.op.name == "scan")
        made = [one.op.name for one in node.attributes["body"].nodes]
        assert made.count("dot_general") == inside


def test_scans_without_steps() -> None:
    h, xs, *held = arguments()
    last, made = layer(of_rows, False)(h, xs[:0], *held)
    np.testing.assert_array_equal(last.numpy(), h.numpy())
    assert made.shape == (0, ROWS, WIDTH)


def test_numbers_are_drawn_in_each_step() -> None:
    generator = calor.random.Generator(1)
    w = numbers(WIDTH, WIDTH)

    def body(h: Any, x: Any) -> Any:
        made = x @ w + generator.normal((ROWS, WIDTH))
        return h, made

    _, made = calor.scan(body, numbers(1), calor.zeros((STEPS, ROWS, WIDTH), dtype="float64"))
    assert len({row.tobytes() for row in made.numpy()}) == STEPS
