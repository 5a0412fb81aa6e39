"""Which results of jitted, mapped and checkpointed functions require gradients: as without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import calor
from calor import tree

Function = Callable[[Any, Any], Any]


def within_no_grad(x: Any, w: Any) -> Any:
    with calor.no_grad():
        y = x * w
    return y, x * w, y * w, x * y


def nested_modes(x: Any, w: Any) -> Any:
    with calor.no_grad():
        off = w * 2
        with calor.enable_grad():
            on = w * 2
            mixed = off * x
        late = on * 2
    return off, on, mixed, late, {"after": on * x}


def of_one_operand(x: Any, w: Any) -> Any:
    return x * 2, w * 2, calor.argmax(w), calor.floor(w), calor.zeros_like(w)


def stopped(x: Any, w: Any) -> Any:
    return w.detach() * 2, calor.stop_gradient(w), w.detach() * w, x.detach()


def scanned(x: Any, w: Any) -> Any:
    return calor.scan(lambda c, t: (c + t.detach(), (c * 1, t * 1)), x.sum(), w)


def branched(x: Any, w: Any) -> Any:
    def first(a: Any, b: Any) -> Any:
        return a.detach(), b * 2, a * b

    return calor.cond(x.sum() > 0, first, lambda a, b: (a.detach() * 3, b * 2, b * 1), w, x)


def looped(x: Any, w: Any) -> Any:
    return calor.while_loop(lambda c: c[1].sum() < 9, lambda c: (c[0] * 1, c[1] + 1), (w, x))


def checkpointed(x: Any, w: Any) -> Any:
    return calor.checkpoint(within_no_grad)(x, w)


def mapped(x: Any, w: Any) -> Any:
    return calor.vmap(within_no_grad)(x, w)


FUNCTIONS = [
    within_no_grad, nested_modes, of_one_operand, stopped, scanned, branched, looped, checkpointed,
    mapped,
]  # fmt: skip


def flags(made: Any) -> list[bool]:
    return [t.requires_grad for t in tree.flatten(made)[0]]


def leaf(requires_grad: bool) -> Any:
    return calor.asarray([1.0, 2.0, 3.0], requires_grad=requires_grad)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("x_takes", [False, True])
@pytest.mark.parametrize("w_takes", [False, True])
@pytest.mark.parametrize("captured", [False, True])
def test_results_require_gradients_as_without_jit(
    function: Function, x_takes: bool, w_takes: bool, captured: bool
) -> None:
    x, w = leaf(x_takes), leaf(w_takes)
    jitted: Any = calor.jit((lambda: function(x, w)) if captured else function)
    given = () if captured else (x, w)
    want = flags(function(x, w))
    assert flags(jitted(*given)) == want
    assert flags(jitted(*given)) == want
    with calor.no_grad():
        assert flags(jitted(*given)) == flags(function(x, w))
    assert flags(jitted(*given)) == want
    if not (x_takes or w_takes):
        assert not any(want)


@pytest.mark.parametrize("transform", [calor.vmap, calor.checkpoint, calor.jit])
def test_what_is_made_in_no_grad_stays_so_under(transform: Any) -> None:
    x, w = leaf(False), leaf(True)
    assert flags(transform(within_no_grad)(x, w)) == [False, True, True, False]


@pytest.mark.parametrize(
    "function", [scanned, branched, looped], ids=lambda function: function.__name__
)
def test_results_of_control_flow_without_gradients_have_no_record(function: Function) -> None:
    want = {
        scanned: [False, False, True],
        branched: [False, False, True],
        looped: [True, False],
    }[function]
    assert flags(function(leaf(False), leaf(True))) == want


@pytest.mark.parametrize("run", [lambda f: f, calor.jit], ids=["plain", "jit"])
def test_gradients_inside_no_grad_around_a_call(run: Any) -> None:
    w = leaf(True)

    @run
    def loss(x: Any) -> Any:
        with calor.enable_grad():
            kept = x * w
        return (kept * w).sum(), kept.sum()

    for _ in range(2):
        w.grad = None
        with calor.no_grad():
            outside, inside = loss(leaf(False))
        assert (outside.requires_grad, inside.requires_grad) == (False, False)
        with calor.no_grad(), calor.enable_grad():
            outside, inside = loss(leaf(False))
        assert outside.requires_grad
        outside.backward()
        assert w.grad.tolist() == [2.0, 8.0, 18.0]
