"""Are the products of a scan's gradient that need no step outside of it, and right?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor

STEPS, ROWS, WIDTH = 5, 2, 4


def numbers(*shape: int, seed: int = 0) -> Any:
    return calor.asarray(np.random.default_rng(seed).standard_normal(shape) * 0.3)


def plain(h: Any, x: Any, w: Any, b: Any) -> Any:
    return calor.tanh(calor.matmul(h, w) + x + b)


def turned(h: Any, x: Any, w: Any, b: Any) -> Any:
    return calor.tanh(calor.matmul(h, w.mT) + x + b)


def of_rows(h: Any, x: Any, w: Any, b: Any) -> Any:
    return calor.tanh(calor.matmul(x, w) + calor.matmul(h, w) + b)


def twice(h: Any, x: Any, w: Any, b: Any) -> Any:
    return calor.tanh(calor.matmul(calor.matmul(h, w) + b, w) * x)


def weights_left(h: Any, x: Any, w: Any, b: Any) -> Any:
    return calor.tanh(calor.matmul(w, h.mT).mT + x + b)


def read_twice(h: Any, x: Any, w: Any, b: Any) -> Any:
    made = calor.matmul(h, w)
    return calor.tanh(made + x) * made + b


def linear(h: Any, x: Any, w: Any, b: Any) -> Any:
    return calor.matmul(h, w) + x + b


def after_product(h: Any, x: Any, w: Any, b: Any) -> Any:
    return calor.matmul(calor.sigmoid(calor.matmul(h, w)) * h, w) + x


def gated(h: Any, x: Any, w: Any, b: Any) -> Any:
    made = calor.matmul(h, w) + x
    return calor.tanh(made) * calor.sigmoid(b - made)


def folded(h: Any, x: Any, w: Any, b: Any) -> Any:
    made = calor.sin(calor.matmul(h, w) + b)
    return made.reshape((h.shape[0], -1, WIDTH)).sum(axis=1) + x


def both_held(h: Any, x: Any, w: Any, b: Any) -> Any:
    return h * 0.5 + x + calor.matmul(b[None], calor.matmul(w, w))


def loss(body: Callable[..., Any], reverse: bool) -> Callable[..., Any]:
    def run(start: Any, xs: Any, w: Any, b: Any) -> Any:
        last, rows = calor.scan(
            lambda h, x: ((made := body(h, x, w, b)), made * made), start, xs, reverse=reverse
        )
        return (last**3).sum() + rows[1:].sum()

    return run


def unrolled(body: Callable[..., Any], reverse: bool) -> Callable[..., Any]:
    def run(start: Any, xs: Any, w: Any, b: Any) -> Any:
        h, rows = start, {}
        for i in reversed(range(STEPS)) if reverse else range(STEPS):
            h = body(h, xs[i], w, b)
            rows[i] = h * h
        return (h**3).sum() + sum(rows[i].sum() for i in range(1, STEPS))

    return run


def arguments() -> tuple[Any, ...]:
    xs = numbers(STEPS, ROWS, WIDTH, seed=1)
    return numbers(ROWS, WIDTH), xs, numbers(WIDTH, WIDTH, seed=2), numbers(WIDTH, seed=3)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "body",
    [
        *(plain, turned, of_rows, twice, weights_left, both_held, read_twice),
        *(linear, after_product, gated),
    ],
)
def test_gradients_are_those_of_the_steps_one_by_one(body: Any, reverse: bool) -> None:
    given = arguments()
    places = (0, 1, 2, 3)
    found = calor.jit(calor.grad(loss(body, reverse), argnums=places))(*given)
    wanted = calor.grad(unrolled(body, reverse), argnums=places)(*given)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)


def test_gradients_of_gradients() -> None:
    def norm(form: Any) -> Any:
        gradient = calor.grad(form(plain, False), argnums=(2, 3))

        def run(*given: Any) -> Any:
            return sum((g * g).sum() for g in gradient(*given))

        return calor.grad(run, argnums=(0, 1, 2, 3))

    for one, other in zip(norm(loss)(*arguments()), norm(unrolled)(*arguments()), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)


def test_results_of_one_node_are_stacks_and_sums() -> None:
    """A branch has the gradients of a row and of a value that stays, one op's results."""
    rows, w = calor.asarray(np.array([[1.0, 2], [-4, -3], [1, 1], [2, 0.5]])), numbers(2)

    def step(c: Any, x: Any, w: Any) -> tuple[Any, Any]:
        return calor.sin(x) * w + c, x * 2 * w

    def scanned(w: Any, xs: Any) -> Any:
        def turn(c: Any, x: Any) -> tuple[Any, Any]:
            c = calor.cond(c.sum() > 0, lambda: step(c, x, w)[0], lambda: step(c, x, w)[1])
            return c, c * c

        last, squares = calor.scan(turn, w, xs)
        return last.sum() + squares.sum()

    def one_by_one(w: Any, xs: Any) -> Any:
        c, total = w, 0
        for i in range(xs.shape[0]):
            c = calor.where(c.sum() > 0, *step(c, xs[i], w))
            total = total + (c * c).sum()
        return c.sum() + total

    def twice(function: Any) -> Any:
        gradient = calor.grad(function, argnums=(0, 1))
        return calor.grad(lambda *g: sum((one * one).sum() for one in gradient(*g)), (0, 1))

    for form in (lambda function: calor.grad(function, argnums=(0, 1)), twice):
        found, wanted = form(scanned)(w, rows), form(one_by_one)(w, rows)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)


def counts(body: Any, rows: int, wide: int = WIDTH) -> tuple[Counter[str], Counter[str]]:
    """Return how often ops are in the gradient outside of its scans, and in the backward one."""
    start, xs = numbers(rows, WIDTH), numbers(STEPS, rows, WIDTH)
    w, b = numbers(WIDTH, wide), numbers(wide)
    function = calor.grad(loss(body, False), argnums=(0, 1, 2, 3))
    graph = calor.trace(function, start, xs, w, b)
    outside = Counter(node.op.name for node in graph.nodes)
    *_, back = (node for node in graph.nodes if node.op.name == "scan")
    inside = Counter(node.op.name for node in back.attributes["body"].nodes)
    return outside, inside


@pytest.mark.parametrize(
    ("body", "rows", "outside", "inside"),
    [
        # The gradients of the weights, and of the state: the step's product is stacked.
        pytest.param(plain, ROWS, 1, 1, id="plain"),
        pytest.param(turned, ROWS, 1, 1, id="turned"),
        pytest.param(gated, ROWS, 1, 1, id="read by two"),
        pytest.param(linear, ROWS, 1, 1, id="read by none"),
        pytest.param(plain, 2 * WIDTH, 1, 1, id="many rows"),
        # The gradient of the weights is a sum of two products.
        pytest.param(after_product, ROWS, 0, 4, id="after a product"),
        # Products of what stays are computed before the steps, and so are their gradients.
        pytest.param(both_held, ROWS, 6, 0, id="both held"),
    ],
)
def test_where_products_are(body: Any, rows: int, outside: int, inside: int) -> None:
    assert tuple(n["dot_general"] for n in counts(body, rows)) == (outside, inside)


@pytest.mark.parametrize(
    ("rows", "outside", "inside"),
    [
        # The product of the step again, and the gradient of the weights.
        pytest.param(ROWS, 2, 1, id="few rows"),
        # Stacks of more elements than the weights would be larger than what they save.
        pytest.param(2 * WIDTH, 0, 3, id="many rows"),
    ],
)
def test_where_products_that_are_not_stacked_are(rows: int, outside: int, inside: int) -> None:
    found = counts(folded, rows, 3 * WIDTH)
    assert tuple(n["dot_general"] for n in found) == (outside, inside)


@pytest.mark.parametrize(
    ("body", "rows", "wide", "adds", "spreads"),
    [
        # Gradients are added in each step, and a bias with the product or before the first one.
        pytest.param(plain, ROWS, WIDTH, 2, 0, id="stacked"),
        pytest.param(folded, ROWS, 3 * WIDTH, 3, 1, id="before the steps"),
        pytest.param(folded, 2 * WIDTH, 3 * WIDTH, 6, 2, id="a product in each step"),
        pytest.param(read_twice, ROWS, WIDTH, 5, 1, id="a product that is read in each step"),
    ],
)
def test_where_a_bias_is_added(body: Any, rows: int, wide: int, adds: int, spreads: int) -> None:
    _, inside = counts(body, rows, wide)
    assert (inside["add"], inside["expand"]) == (adds, spreads)


def test_results_without_gradient_have_no_stacks() -> None:
    start, xs, w, b = arguments()

    def last(w: Any) -> Any:
        return calor.scan(lambda h, x: (plain(h, x, w, b), h * 2), start, xs)[0].sum()

    graph = calor.trace(calor.grad(last), w)
    *_, back = (node for node in graph.nodes if node.op.name == "scan")
    stacks = [graph.specs[i] for i in back.inputs if graph.specs[i].ndim == 3]
    assert len(stacks) == 1  # The products with what is added to them.


def stacks(body: Any, wide: int = WIDTH) -> list[tuple[int, ...]]:
    """Return the shapes of the rows that a scan stacks for its gradient beside its carries."""
    start, xs = numbers(ROWS, WIDTH), numbers(STEPS, ROWS, WIDTH)
    w, b = numbers(WIDTH, wide), numbers(wide)

    def run(w: Any, b: Any) -> Any:
        return calor.scan(lambda h, x: (made := body(h, x, w, b), made), start, xs)[1].sum()

    graph = calor.trace(calor.grad(run, argnums=(0, 1)), w, b)
    scan = next(node for node in graph.nodes if node.op.name == "scan")
    body_of = scan.attributes["body"]
    return [body_of.specs[v].shape for v in body_of.outputs[2:]]


@pytest.mark.parametrize(
    ("body", "wide", "wanted"),
    [
        # A result that the body stacks anyway is what the gradient of tanh reads.
        pytest.param(plain, WIDTH, [], id="stacked"),
        pytest.param(linear, WIDTH, [], id="not read"),
        pytest.param(gated, WIDTH, [(ROWS, WIDTH)], id="read"),
        pytest.param(after_product, WIDTH, [(ROWS, WIDTH)], id="inner"),
        pytest.param(folded, 2 * WIDTH, [(ROWS, 2 * WIDTH)], id="as large as carry and row"),
        pytest.param(folded, 3 * WIDTH, [], id="larger than carry and row"),
    ],
)
def test_what_is_stacked(body: Any, wide: int, wanted: Any) -> None:
    assert stacks(body, wide) == wanted
