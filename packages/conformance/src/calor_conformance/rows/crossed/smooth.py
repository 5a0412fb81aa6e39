"""Drawn programs that have derivatives: their ops, and numbers for which differences are exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType, float64

from ..language import Array
from .programs import (
    Program,
    Rng,
    Step,
    Values,
    along,
    beside,
    binary,
    chosen,
    drawn,
    gathered,
    joined,
    last,
    moved,
    multiplied,
    padded,
    reduced,
)

Function = Callable[..., Any]
_MOST: Final = 2.0


def _curved(rng: Rng, values: Values, dtype: DType) -> Step:
    ways: tuple[tuple[Function, Function], ...] = (
        (calor.tanh, np.tanh), (lambda x: calor.exp(x * 0.3), lambda x: np.exp(x * 0.3)),
        (lambda x: calor.sqrt(x * x + 1), lambda x: np.sqrt(x * x + 1)),
        (calor.sin, np.sin), (calor.square, np.square),
        (lambda x: 1 / (x * x + 2), lambda x: 1 / (x * x + 2)),
        (lambda x: calor.log1p(x * x), lambda x: np.log1p(x * x)),
        (lambda x: calor.atan2(x, x * x + 1), lambda x: np.arctan2(x, x * x + 1)),
        (lambda x: (x * x + 1) ** 0.7, lambda x: (x * x + 1) ** 0.7),
    )  # fmt: skip
    ours, theirs = ways[int(rng.integers(len(ways)))]
    return ours, theirs, (last(rng, values),)


def _shares(rng: Rng, values: Values, dtype: DType) -> Step | None:
    """Shares, standardized rows, logarithms of sums: ops with sums of their own."""
    k = last(rng, values)
    if not values[k].ndim:
        return None
    axis = int(rng.integers(values[k].ndim))

    def exps(x: Array) -> Any:
        made = np.exp(x - x.max(axis, keepdims=True))
        return made / made.sum(axis, keepdims=True)

    def standard(x: Array) -> Any:
        return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + 1)

    ways: tuple[tuple[Function, Function], ...] = (
        (lambda x: calor.softmax(x, axis=axis), exps),
        (lambda x: calor.log_softmax(x, axis=axis) * 0.2, lambda x: np.log(exps(x)) * 0.2),
        (lambda x: (x - calor.mean(x, axis=axis, keepdims=True))
         / calor.sqrt(calor.var(x, axis=axis, keepdims=True) + 1), standard),
        (lambda x: calor.logsumexp(x, axis=axis, keepdims=True),
         lambda x: np.log(np.exp(x).sum(axis, keepdims=True))),
        (lambda x: calor.cumulative_prod(x * 0.1 + 1, axis=axis),
         lambda x: np.cumprod(x * 0.1 + 1, axis)),
    )  # fmt: skip
    ours, theirs = ways[int(rng.integers(len(ways)))]
    return ours, theirs, (k,)


def _scattered(rng: Rng, values: Values, dtype: DType) -> Step | None:
    """Sums at places along an axis, some of which come twice."""
    k = last(rng, values)
    shape = values[k].shape
    if not shape:
        return None
    axis = int(rng.integers(len(shape)))
    places = rng.integers(0, shape[axis], shape).astype(np.int64)

    def theirs(x: Array) -> Array:
        made = x.copy()
        at = list(np.indices(shape))
        at[axis] = places
        np.add.at(made, tuple(at), x * 0.5)
        return made

    return (
        lambda x: calor.scatter_along_axis(
            x, calor.asarray(places), x * 0.5, axis=axis, update="add"
        ),
        theirs,
        (k,),
    )


def _kept_out(rng: Rng, values: Values, dtype: DType) -> Step:
    """A product of which one factor is held constant where a number says so."""
    k = last(rng, values)
    return (
        lambda x, y: calor.where(x > 0.1, x * y, y),
        lambda x, y: np.where(x > 0.1, x * y, y),
        (k, beside(rng, values, k)),
    )


_SMOOTH: Final = (
    binary, binary, _curved, _curved, reduced, along, moved, moved, moved, joined, padded,
    multiplied, _shares, _shares, chosen, _kept_out, gathered, _scattered,
)  # fmt: skip


def _near(step: Step, made: Array) -> tuple[Step, Array]:
    """Return a step whose result is made small, by a power of two."""
    most = float(np.abs(made).max())
    if most <= _MOST:
        return step, made
    by = 2.0 ** -np.ceil(np.log2(most / _MOST))
    ours, theirs, read = step
    return (lambda *x: ours(*x) * by, lambda *x: theirs(*x) * by, read), made * by


def smooth(number: int, ops: int) -> tuple[Program, list[Array]]:
    """Return a program with derivatives, and operands at which it has them.

    Parameters
    ----------
    number : int
        Which of the programs of this length.
    ops : int
        The number of ops.

    Returns
    -------
    program : Program
        The program.
    operands : list of array
        Numbers in float64.
    """
    rng = np.random.default_rng([number, ops, 1])
    made = drawn(rng, float64, ops, _SMOOTH, _near)
    return made, [np.asarray(rng.uniform(-1, 1, a.shape)) for a in made.operands]
