"""Gradient clipping beside NumPy."""

import math

import numpy as np
import pytest

import calor
from calor.errors import ArgumentError
from calor_train import (
    clip_by_global_norm,
    clip_by_value,
    clip_grad_norm_,
    clip_grad_value_,
    global_norm,
)

GRADS = {"a": np.array([[3.0, -1.0], [0.5, 2.0]]), "b": [np.array(-4.0), np.array([0.0])]}
FLAT = np.array([3.0, -1.0, 0.5, 2.0, -4.0, 0.0])


def tensors(dtype=calor.float32):
    return calor.tree.map(lambda x: calor.asarray(x, dtype=dtype), GRADS)


def graded(dtype=calor.float32):
    params = []
    for g in calor.tree.leaves(tensors(dtype)):
        params.append(calor.zeros(g.shape, dtype=dtype, requires_grad=True))
        params[-1].grad = g
    return [*params, calor.zeros(3, requires_grad=True)]


NORMS = [(2.0, np.linalg.norm(FLAT)), (1.0, 10.5), (3.0, np.linalg.norm(FLAT, 3)), (math.inf, 4.0)]


@pytest.mark.parametrize(("kind", "expected"), NORMS)
def test_global_norm(kind, expected):
    assert global_norm(tensors(), kind).item() == pytest.approx(expected, rel=1e-6)


def test_global_norm_of_halves_does_not_overflow():
    grads = [calor.full((4,), 1e4, dtype=calor.float16)]
    norm = global_norm(grads)
    assert norm.dtype is calor.float32
    assert norm.item() == pytest.approx(2e4, rel=1e-3)


def test_norm_of_complex_gradients():
    assert global_norm([calor.asarray([3 + 4j])]).item() == pytest.approx(5.0)


@pytest.mark.parametrize("limit", [1.0, 100.0], ids=["clipped", "untouched"])
@pytest.mark.parametrize(("kind", "norm"), NORMS)
def test_clip_by_norm(kind, norm, limit):
    expected = FLAT * min(limit / (norm + 1e-6), 1.0)
    clipped, before = clip_by_global_norm(tensors(), limit, kind)
    params = graded()
    assert clip_grad_norm_(params, limit, kind).item() == before.item() == pytest.approx(norm)
    for found in (calor.tree.leaves(clipped), [p.grad for p in params[:-1]]):
        flat = np.concatenate([x.numpy().ravel() for x in found])
        np.testing.assert_allclose(flat, expected, rtol=1e-5)
    assert params[-1].grad is None


@pytest.mark.parametrize("limit", [1.5, 0.0])
def test_clip_by_value(limit):
    expected = np.clip(FLAT, -limit, limit)
    clipped = clip_by_value(tensors(), limit)
    params = graded()
    clip_grad_value_(params, limit)
    for found in (calor.tree.leaves(clipped), [p.grad for p in params[:-1]]):
        np.testing.assert_array_equal(np.concatenate([x.numpy().ravel() for x in found]), expected)


def test_half_gradients_keep_their_dtype():
    params = graded(calor.float16)
    clip_grad_norm_(params, 1.0)
    clip_grad_value_(params, 0.5)
    assert {p.grad.dtype for p in params[:-1]} == {calor.float16}


def test_clipping_inside_jit():
    @calor.jit
    def clip(grads, limit):
        return clip_by_global_norm(grads, limit)

    for limit in (1.0, 2.0):
        clipped, _ = clip(tensors(), limit)
        assert global_norm(clipped).item() == pytest.approx(limit, rel=1e-5)
    assert clip.trace_count == 1


ERRORS = [
    (lambda: clip_grad_norm_([calor.zeros(2, requires_grad=True)], 1.0), "call backward"),
    (lambda: clip_by_global_norm(tensors(), -1.0), "max_norm must be at least 0"),
    (lambda: clip_by_value(tensors(), math.nan), "the limit must be at least 0"),
    (lambda: clip_grad_value_(graded(), -1.0), "clip_value must be at least 0"),
    (lambda: global_norm(tensors(), 0.0), "norm_type must be above 0"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=[m for _, m in ERRORS])
def test_errors_say_what_to_do(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()


@pytest.mark.parametrize("order", [0.5, 1.0, 2.0, math.inf])
def test_gradients_without_elements_have_norm_zero(order: float) -> None:
    grads = [calor.zeros((0,)), calor.zeros((3, 0))]
    clipped, norm = clip_by_global_norm(grads, 1.0, order)
    assert norm.item() == 0
    assert [g.shape for g in clipped] == [(0,), (3, 0)]
