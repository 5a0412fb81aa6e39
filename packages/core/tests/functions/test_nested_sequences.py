"""Nested sequences of numbers, arrays and tensors as `calor.asarray` takes them."""

import numpy as np
import pytest

import calor
from calor.errors import DTypeError, ShapeError

INEXACT = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")


@pytest.mark.parametrize("dtype", [*INEXACT, "int8", "uint32", "bool"])
@pytest.mark.parametrize("default", ["float32", "float64"])
def test_the_dtype_of_tensors_in_a_list_is_kept(dtype, default):
    x = calor.ones(2, dtype=dtype)
    with calor.default_dtype(default):
        assert calor.asarray([x, x]).dtype.name == dtype
        assert calor.asarray(((x[0], x[1]), [x[1], x[1]])).dtype.name == dtype
        assert calor.asarray([x.numpy(), x]).dtype.name == dtype


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex128"])
def test_the_dtype_of_arrays_in_a_list_is_kept(dtype):
    a = np.ones(2, dtype)
    assert calor.asarray([a, a]).dtype.name == dtype
    assert calor.asarray([a, [0.5, 1]]).dtype.name == dtype


def test_several_dtypes_have_the_dtype_of_an_operation():
    half, whole = calor.ones((), dtype="float16"), calor.ones((), dtype="int32")
    assert calor.asarray([half, whole]).dtype is calor.float16
    assert calor.asarray([whole, 0.5]).dtype is calor.float32
    assert calor.asarray([half, 1j]).dtype is calor.complex64
    assert calor.asarray([half, np.float64(0.5)]).dtype is calor.float16
    assert calor.asarray([np.float64(0.5), 1]).dtype is calor.float32


def test_gradients_flow_to_the_tensors_of_a_list():
    x = calor.asarray([1.0, 2.0])

    def loss(x):
        return calor.sum(calor.asarray([[x[0] * x[1], 3.0], [x[1], x[0]]]) * 2)

    for f in (loss, calor.jit(loss)):
        assert calor.grad(f)(x).tolist() == [6.0, 4.0]
    w = calor.asarray([3.0], requires_grad=True)
    calor.asarray([w, w * w]).sum().backward()
    assert w.grad.tolist() == [7.0]


def test_a_list_of_traced_tensors_is_a_tensor():
    made = calor.jit(lambda x, s: calor.asarray([x[0], 2 * x[1], s]))
    assert made(calor.asarray([1, 2]), 0.5).tolist() == [1.0, 4.0, 0.5]
    made = calor.vmap(lambda x: calor.asarray([x[1], x[0]]))
    assert made(calor.asarray([[1, 2], [3, 4]])).tolist() == [[2, 1], [4, 3]]


def test_a_list_with_something_else_or_of_several_shapes_is_refused_in_a_trace():
    with pytest.raises(DTypeError, match="something else than numbers"):
        calor.jit(lambda x: calor.asarray([x, None]))(calor.ones(2))
    with pytest.raises(ShapeError, match=r"differ in shape, \(2,\) and \(3,\)"):
        calor.jit(lambda x: calor.asarray([x[:2], x]))(calor.ones(3))
    with pytest.raises(DTypeError, match="or give asarray a dtype"):
        calor.asarray([calor.ones(1, dtype="uint64"), calor.ones(1, dtype="int64")])


def test_a_leaf_of_a_list_is_apart_from_its_tensors():
    w = calor.asarray([3.0], requires_grad=True)
    leaf = calor.asarray([w, w], requires_grad=True)
    leaf.sum().backward()
    assert w.grad is None
    assert leaf.grad.shape == (2, 1)
