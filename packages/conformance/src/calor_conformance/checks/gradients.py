"""Gradients: against differences in float64 and the reference, twice, forward against reverse.

Where the device has no float64, the row is met in its widest type and compared with the gradient of
the same numbers on the reference in float64, which the reference's own checks hold against
differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import calor
from calor.dtypes import DType, complex64, float16, float32

from ..rows.differences import (
    Problem,
    alike,
    along,
    by_differences,
    close,
    differentiable,
    inner,
)
from ..rows.exemptions import FIRST_ORDER_ONLY
from ..rows.judging import put
from ..rows.language import Case
from .base import Check, Place
from .rows import row_check

# How far a gradient may be from the definition's, relative to the largest of each array.
BOUNDS = {"float64": 2e-6, "complex128": 2e-6, "float32": 1e-4, "complex64": 1e-4, "float16": 3e-2}
CONTRACT = (
    "the gradient of {op} is made of ops of the table, so one of them (graph below) gives another "
    "number than its definition in {dtype}; a gradient op that the device lacks is declared not_yet"
)
# Elements of each operand that are moved one by one; the rest is judged along a direction.
ELEMENTS = 12


def gradients(cases: Sequence[Case]) -> Iterator[Check]:
    """The first derivatives of every row that has them, by reverse mode."""
    for c, dtype in differentiable(cases):
        if c.op == "while_loop":
            continue
        yield _check("gradient", c, dtype, _gradient)
        for narrow in _narrow(c, dtype):
            yield _check("gradient", c, narrow, _narrow_gradient(dtype))


def second_order(cases: Sequence[Case]) -> Iterator[Check]:
    """The gradient of the gradient, for operands and cotangent, along three directions."""
    for c, dtype in differentiable(cases):
        if c.op != "while_loop" and c.label not in FIRST_ORDER_ONLY:
            yield _check("second-order", c, dtype, _second_order)


def forward_mode(cases: Sequence[Case]) -> Iterator[Check]:
    """The derivative along a tangent, against differences and against reverse mode."""
    for c, dtype in differentiable(cases):
        yield _check("forward-mode", c, dtype, _forward_mode)


Body = Callable[[Case, DType, Place], None]


def _check(kind: str, c: Case, dtype: DType, body: Body) -> Check:
    def run(place: Place) -> None:
        body(c, dtype, place)

    def explain(place: Place) -> str:
        with calor.device(place.device):
            problem = Problem(c, dtype)
            operands = put([*problem.primals, *problem.cotangents])
            return calor.trace(problem.pulled, *operands).text()

    return row_check(kind, c, dtype, "training", (run, None), contract=CONTRACT, explain=explain)


def _narrow(c: Case, dtype: DType) -> list[DType]:
    """Return the narrower dtypes in which a row is differentiated beside float64."""
    kinds = (complex64,) if dtype.is_complex else (float32, float16)
    return [t for t in kinds if t in c.dtypes]


def _bound(dtype: DType) -> float:
    return BOUNDS[dtype.name]


def _gradient(c: Case, dtype: DType, place: Place) -> None:
    """Element by element for some elements, and all at once in a direction."""
    problem = Problem(c, dtype, seed=place.seed)
    reference = problem.reference
    primals, cotangents = problem.primals, problem.cotangents
    got = [t.numpy() for t in place.call(problem.pulled, *put([*primals, *cotangents]))]
    want = by_differences(reference.run, primals, cotangents, got, ELEMENTS)
    close(got, want, c.label, _bound(dtype))
    slope = inner(cotangents, along(reference.run, primals, problem.tangents))
    _near(inner(got, problem.tangents), slope, got, _bound(dtype))


def _narrow_gradient(wide: DType) -> Body:
    def body(c: Case, dtype: DType, place: Place) -> None:
        problem = Problem(c, dtype, seed=place.seed)
        operands = [*problem.primals, *problem.cotangents]
        got = [t.numpy() for t in place.call(problem.pulled, *put(operands))]
        widened = problem.widened(wide)
        with calor.device("numpy"):
            exact = widened.pulled(*put([*widened.primals, *widened.cotangents]))
            want = [t.numpy() for t in exact]
        rounded = [a.astype(w.dtype) for a, w in zip(got, want, strict=True)]
        assert [a.dtype for a in got] == [p.dtype for p in problem.primals], "dtypes of gradients"
        close(rounded, want, c.label, _bound(dtype))

    return body


def _second_order(c: Case, dtype: DType, place: Place) -> None:
    problem = Problem(c, dtype, seed=place.seed)
    reference = problem.reference
    arrays = [*problem.primals, *problem.cotangents]

    def twice(*tensors: Any) -> list[Any]:
        _, pull = calor.vjp(lambda *x: problem.pulled(*x), *tensors[: len(arrays)])
        return list(pull(list(tensors[len(arrays) :])))

    got = [t.numpy() for t in place.call(twice, *put([*arrays, *problem.tangents]))]
    for seed in range(3):
        directions = alike(arrays, seed)
        slope = inner(problem.tangents, along(reference.pulled, arrays, directions))
        _near(inner(got, directions), slope, got, _bound(dtype))


def _forward_mode(c: Case, dtype: DType, place: Place) -> None:
    problem = Problem(c, dtype, seed=place.seed)
    reference = problem.reference
    primals, tangents = put(problem.primals), put(problem.tangents)
    count = len(primals)

    def forward(*tensors: Any) -> list[Any]:
        _, moved = calor.jvp(lambda *x: problem.run(*x), tensors[:count], tensors[count:])
        return list(moved)

    got = [t.numpy() for t in place.call(forward, *primals, *tangents)]
    close(got, along(reference.run, problem.primals, problem.tangents), c.label, _bound(dtype))
    if c.op != "while_loop":
        cotangents = put(problem.cotangents)
        pulled = [t.numpy() for t in place.call(problem.pulled, *primals, *cotangents)]
        one, other = inner(problem.cotangents, got), inner(pulled, problem.tangents)
        assert abs(one - other) <= 1e-12 * max(1.0, abs(one)), (
            f"forward mode gives {one!r} along the cotangent, reverse mode {other!r}"
        )


def _near(got: float, want: float, gradients: Sequence[Any], bound: float) -> None:
    scale = 1.0 + sum(float(np.sum(np.abs(a))) for a in gradients)
    assert abs(got - want) <= bound * scale, (
        f"along a direction the derivative is {got!r}, differences give {want!r}"
    )
