"""Gradients of loops inside branches and loops: first and second, jitted, against differences."""

import numpy as np
import pytest

import calor


def _loop(carry, w):
    return calor.fori_loop(0, 3, lambda i, c: c * w[0] * 0.3, carry)


def _in_loop(w):
    def step(i, c):
        return c * 0.5 + calor.scan(lambda d, _: (d * w[0] * 0.1, None), c, length=2)[0]

    return calor.fori_loop(0, 3, step, w[1]).sum()


def _in_branch(w):
    return calor.cond(w.sum() > 0, lambda: _loop(w[1], w), lambda: w[1]).sum()


def _in_branch_in_scan(w):
    def step(c, x):
        c = calor.cond(c.sum() > 0, lambda: _loop(c + x, w), lambda: c - w[0])
        return c, c.sum()

    carry, rows = calor.scan(step, w[1], calor.ones((3, 2), dtype=calor.float64) * 0.1)
    return rows.sum() + carry.sum()


def _differences(function, w, step=1e-6):
    found = np.zeros(w.shape)
    for place in np.ndindex(*w.shape):
        up, down = w.numpy().copy(), w.numpy().copy()
        up[place] += step
        down[place] -= step
        change = function(calor.asarray(up)).item() - function(calor.asarray(down)).item()
        found[place] = change / (2 * step)
    return found


@pytest.mark.parametrize("function", [_in_loop, _in_branch, _in_branch_in_scan])
def test_gradients_reach_through_nested_loops(function):
    w = calor.asarray([[1.0, 2.0], [3.0, 4.0]], dtype=calor.float64)
    wanted = _differences(function, w)
    for gradient in (calor.grad(function), calor.jit(calor.grad(function))):
        np.testing.assert_allclose(gradient(w).numpy(), wanted, rtol=1e-6, atol=1e-8)

    def squared(w):
        return (calor.grad(function)(w) ** 2).sum()

    np.testing.assert_allclose(
        calor.grad(squared)(w).numpy(), _differences(squared, w), rtol=1e-5, atol=1e-7
    )
    w.requires_grad = True
    calor.jit(function)(w).backward()
    np.testing.assert_allclose(w.grad.numpy(), wanted, rtol=1e-6, atol=1e-8)
