"""Wrong arguments are refused at the line that made them, with what to do instead."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor as namespace
from calor.errors import ArgumentError, AxisError, DTypeError, ShapeError, TraceError

# Not checked for types: these arguments are wrong on purpose.
calor: Any = namespace

M = calor.asarray([[1.0, 2.0], [3.0, 4.0]])
V = calor.asarray([1, 2, 3])
C = calor.asarray([1j])

ERRORS = [
    (lambda: calor.add(V, [1, 2, 3]), DTypeError, r"operand is a list.*calor.asarray"),
    (lambda: calor.sin("1"), DTypeError, "operand is a str"),
    (lambda: calor.add(V, calor.asarray([1, 2])), ShapeError, "cannot be broadcast"),
    (lambda: calor.add(calor.asarray([1], dtype="int8"), 300), OverflowError, "does not fit int8"),
    (lambda: calor.less(C, C), DTypeError, "needs real operands"),
    (lambda: calor.full(2, 300, dtype="int8"), OverflowError, "does not fit int8"),
    (lambda: calor.full((2, -1), 3), ShapeError, "negative size"),
    (lambda: calor.full(2, 1j, dtype="float32"), DTypeError, r"1j does not fit float32"),
    (lambda: calor.zeros(2.5), TypeError, "whole number, not float"),
    (lambda: calor.arange(1, 5, 0), ArgumentError, "step is 0"),
    (lambda: calor.arange(calor.inf), ArgumentError, "not a finite range"),
    (lambda: calor.arange(1j), DTypeError, "not a real number"),
    (lambda: calor.linspace(0, 1, -1), ArgumentError, "num is -1"),
    (lambda: calor.eye(-1), ShapeError, "negative size"),
    (lambda: calor.tril(V), ShapeError, "needs two axes"),
    (lambda: calor.meshgrid(V, indexing="yx"), ArgumentError, "neither 'xy' nor 'ij'"),
    (lambda: calor.meshgrid(M), ShapeError, "each tensor has one"),
    (lambda: calor.reshape(V, (2, -1)), ShapeError, "do not fill"),
    (lambda: calor.reshape(V, (-1, -1)), ShapeError, "one size may be -1"),
    (lambda: calor.reshape(V, (4,)), ShapeError, "3 elements"),
    (lambda: calor.broadcast_to(V, (2,)), ShapeError, "does not broadcast"),
    (lambda: calor.flatten(M, start_axis=1, end_axis=0), ShapeError, "is after end_axis"),
    (lambda: calor.expand_dims(V, 3), AxisError, "axis 3 is out of range"),
    (lambda: calor.squeeze(M, 0), ShapeError, "has size 2, not 1"),
    (lambda: calor.permute_dims(M, (0, 0)), ShapeError, "each of the 2 axes"),
    (lambda: calor.moveaxis(M, (0, 1), 0), ShapeError, "2 source axes and 1"),
    (lambda: calor.moveaxis(M, (0, 0), (0, 1)), ShapeError, "names an axis .* twice"),
    (lambda: calor.roll(M, (1, 2, 3), axis=(0, 1)), ArgumentError, "3 shifts for 2 axes"),
    (lambda: calor.repeat(V, -1), ArgumentError, "is negative"),
    (lambda: calor.repeat(V, calor.asarray([1, -1, 1])), ArgumentError, "negative number"),
    (lambda: calor.repeat(V, calor.asarray([1, 1])), ShapeError, "one for each of the 3"),
    (lambda: calor.repeat(V, calor.asarray([1.0])), ArgumentError, "must be integers"),
    (lambda: calor.dynamic_slice(M, [0], [1, 1]), ShapeError, "one number for each of the 2 axes"),
    (lambda: calor.dynamic_slice(M, [0, 0], [1, 3]), ShapeError, "do not fit"),
    (lambda: calor.dynamic_slice(V, calor.asarray([0.5]), [1]), DTypeError, "must be integers"),
    (lambda: calor.dynamic_update_slice(M, V, [0, 0]), ShapeError, "dynamic_"),
    (lambda: calor.tile(V, (-1,)), ArgumentError, "negative number"),
    (lambda: calor.concat([]), ArgumentError, "at least one"),
    (lambda: calor.concat([V, M]), ShapeError, "differ on another axis"),
    (lambda: calor.concat([V, calor.zeros(2, dtype="uint64")]), DTypeError, "no common type"),
    (lambda: calor.stack([V, M]), ShapeError, "must be equal"),
    (lambda: calor.split(V, 2), ArgumentError, r"calor.chunk\(x, n\)"),
    (lambda: calor.split(V, (1, 1)), ShapeError, "do not add up to 3"),
    (lambda: calor.split(V, (5, -1)), ShapeError, "do not add up to 3"),
    (lambda: calor.chunk(V, 0), ArgumentError, "at least 1"),
    (lambda: calor.pad(V, -1), ArgumentError, "slice to make a tensor smaller"),
    (lambda: calor.pad(V, 1, mode="mirror"), ArgumentError, "none of constant, edge"),
    (lambda: calor.pad(M, [(1, 1)] * 3), ShapeError, "does not fit 2 axes"),
    (lambda: calor.pad(V, 3, mode="reflect"), ShapeError, "at most 2 elements"),
    (lambda: calor.pad(calor.zeros(0), 1, mode="edge"), ShapeError, "has no edge"),
    (lambda: calor.unfold(V, axis=0, size=4), ShapeError, "do not fit axis 0"),
    (lambda: calor.sum(M, axis=2), AxisError, "axis 2 is out of range for shape"),
    (lambda: calor.sum(M, axis=(0, -2)), ShapeError, "twice"),
    (lambda: calor.sum(M, axis=1.0), TypeError, "whole number, not float"),
    (lambda: calor.max(calor.zeros((2, 0))), ShapeError, "nothing to choose"),
    (lambda: calor.argmax(calor.zeros((2, 0)), axis=1), ShapeError, "nothing to find"),
    (lambda: calor.cumulative_sum(M), ShapeError, "name one with axis="),
    (lambda: calor.quantile(M, 1.5), ArgumentError, "between 0 and 1"),
    (lambda: calor.quantile(C, 0.5), DTypeError, "have no order"),
    (lambda: calor.median(calor.zeros(0)), ShapeError, "empty"),
    (lambda: calor.nonzero(calor.asarray(1)), ShapeError, "reshape it"),
    (lambda: calor.searchsorted(V, V, side="both"), ArgumentError, "neither 'left' nor"),
    (lambda: calor.searchsorted(M, V), ShapeError, "must have one axis"),
    (lambda: calor.searchsorted(C, C), DTypeError, "have no order"),
    (lambda: calor.bincount(M, length=3), DTypeError, "counts integers"),
    (lambda: calor.bincount(calor.asarray([-1])), ArgumentError, "holds -1; it counts integers"),
    (lambda: calor.bincount(calor.asarray([1]), None, -1), ArgumentError, "minlength is -1"),
    (
        lambda: calor.jit(calor.bincount)(calor.asarray([1])),
        TraceError,
        r"say it, calor\.bincount\(x, length=n\)",
    ),
    (lambda: calor.topk(V, 4), ArgumentError, "has 3"),
    (lambda: calor.take(M, V), ShapeError, "name one with axis="),
    (lambda: calor.take(V, calor.asarray([0.0])), DTypeError, "must be integers"),
    (lambda: calor.take_along_axis(M, V, axis=0), ShapeError, "must have the 2 axes"),
    (lambda: calor.scatter_along_axis(V, V, 1, update="plus"), ArgumentError, "none of assign"),
    (
        lambda: calor.scatter_nd(V, calor.zeros((1, 2), dtype="int64"), 1),
        ShapeError,
        "at most the 1",
    ),
    (lambda: calor.isdtype(calor.int8, "integer"), ArgumentError, "none of bool, signed integer"),
    (lambda: calor.result_type(), DTypeError, "at least one tensor, dtype or number"),
    (lambda: calor.finfo(calor.int8), DTypeError, "calor.iinfo"),
    (lambda: calor.iinfo(calor.float32), DTypeError, "calor.finfo"),
    (lambda: calor.diff(calor.asarray(1)), ShapeError, "no neighbours"),
    (lambda: calor.diff(V, n=-1), ArgumentError, "n is -1; give at least 0"),
    (lambda: calor.asarray([[1], [2, 3]]), ValueError, "inhomogeneous"),
    (lambda: calor.asarray(["a"]), DTypeError, "does not hold numbers"),
    (lambda: calor.asarray(np.zeros(2, "i4"), dtype="i8", copy=False), ValueError, "copy=None"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_refused(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


KNOWN_ONLY: list[Callable[[Any], Any]] = [
    lambda n: calor.arange(n),
    lambda n: calor.arange(0, n),
    lambda n: calor.arange(0, 6, n),
    lambda n: calor.linspace(0, n, 3),
    lambda n: calor.linspace(0, 1, n),
    lambda n: calor.eye(n),
    lambda n: calor.eye(3, k=n),
    lambda n: calor.zeros(n),
    lambda n: calor.full((2, n), 1.0),
    lambda n: calor.reshape(calor.ones(6), (n, 2)),
    lambda n: calor.broadcast_to(calor.ones(3), (2, n)),
    lambda n: calor.tile(calor.ones(3), (n,)),
    lambda n: calor.sum(calor.ones((2, 2, 2, 2)), axis=n),
    lambda n: calor.chunk(calor.ones(6), n),
    lambda n: calor.ones(6)[:n],
    lambda n: calor.random.normal((n,)),
    lambda n: list(range(n)),
]


@pytest.mark.parametrize("call", KNOWN_ONLY)
def test_numbers_that_must_be_known(call: Any) -> None:
    """A tensor is read where a Python number is needed; a traced one says what to declare."""

    def traced(n: Any) -> Any:
        return call(n)

    for n in (3, calor.asarray(3)):
        call(n)
        with pytest.raises(TraceError, match=r"such as a size or an axis, static: .*static_argn"):
            calor.jit(traced)(n)
    calor.jit(traced, static_argnames=("n",))(3)


def test_ramps_of_tensors_are_those_of_numbers() -> None:
    one, seven, half = (calor.asarray(v) for v in (1, 7, 0.5))
    assert calor.arange(seven).tolist() == list(range(7))
    assert calor.arange(one, seven, one + 1).tolist() == [1, 3, 5]
    assert calor.arange(one, seven).dtype is calor.int64
    assert calor.arange(half, seven).dtype is calor.float32
    assert calor.linspace(one, seven, 3).tolist() == [1.0, 4.0, 7.0]
    with pytest.raises(ShapeError, match=r"shape \(3,\)"):
        calor.arange(V)
