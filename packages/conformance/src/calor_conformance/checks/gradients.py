"""Gradients: compared with float64 differences and the reference, in second order and forward mode.

Without float64 on the device, the row runs in its widest dtype, and its gradient is compared with
that of the same numbers on the reference in float64, which the reference's checks compare with
differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import calor
from calor.dtypes import DType, complex64, float16, float32, float64

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
from .base import Array, Check, Place, packed
from .rows import row_check, shared

# Accepted difference of gradients, relative to the largest of each array.
BOUNDS = {"float64": 2e-6, "complex128": 2e-6, "float32": 1e-4, "complex64": 1e-4, "float16": 5e-2}
CONTRACT = (
    "the gradient of {op} is made of ops of the table, so one of them (graph below) gives another "
    "number than its definition in {dtype}; a gradient op that the device lacks is declared not_yet"
)
# Number of elements of each operand compared one by one; all are compared along a direction.
ELEMENTS = 6


def gradients(cases: Sequence[Case]) -> Iterator[Check]:
    """Yield checks of first derivatives by reverse mode."""
    for c, dtype in differentiable([*cases, *_cubes(cases)]):
        if c.op == "while_loop":
            continue
        yield _check("gradient", c, dtype, _pulled, _against_differences)
        for narrow in _narrow(c, dtype):
            yield _check("gradient", c, narrow, _pulled, _against_wide(dtype))


def _cubes(cases: Sequence[Case]) -> Iterator[Case]:
    """Yield the first row of each elementwise op of several operands with three axes."""
    seen: set[str] = set()
    for c in cases:
        if c.elementwise and len(c.inputs) > 1 and c.op not in seen and float64 in c.dtypes:
            seen.add(c.op)
            name = f"{c.name}-cube".lstrip("-")
            yield replace(c.resized((2, 3, 2)), name=name, dtypes=(float64,))


def second_order(cases: Sequence[Case]) -> Iterator[Check]:
    """Yield checks of the gradient of the gradient along three directions."""
    for c, dtype in differentiable(cases):
        if c.op != "while_loop" and c.label not in FIRST_ORDER_ONLY:
            yield _check("second-order", c, dtype, _pulled_twice, _second_order)


def forward_mode(cases: Sequence[Case]) -> Iterator[Check]:
    """Yield checks of derivatives along a tangent, against differences and reverse mode."""
    for c, dtype in differentiable(cases):
        yield _check("forward-mode", c, dtype, _moved, _forward_mode)


Record = Callable[[Problem, Place], Sequence[Any]]
Judge = Callable[[Problem, Sequence[Array]], None]


def _check(kind: str, c: Case, dtype: DType, record: Record, judge: Judge) -> Check:
    # What is recorded and not judged yet, by the seed.
    held: dict[int, Problem] = {}

    def recorded(place: Place) -> Sequence[Any]:
        problem = held[place.seed] = Problem(c, dtype, seed=place.seed)
        return record(problem, place)

    def judged(place: Place, got: Sequence[Array]) -> None:
        judge(held.pop(place.seed), got)

    def explain(place: Place) -> str:
        with calor.device(place.device):
            problem = Problem(c, dtype)
            operands = put([*problem.primals, *problem.cotangents])
            return calor.trace(problem.pulled, *operands).text()

    run, steps = packed(recorded, judged)
    body = (run, shared(c, steps))
    return row_check(kind, c, dtype, "training", body, contract=CONTRACT, explain=explain)


def _narrow(c: Case, dtype: DType) -> list[DType]:
    """Return the narrower dtypes in which a row is differentiated besides float64."""
    kinds = (complex64,) if dtype.is_complex else (float32, float16)
    return [t for t in kinds if t in c.dtypes]


def _pulled(problem: Problem, place: Place) -> Sequence[Any]:
    if place.interactive:
        return problem.gradients()
    return list(place.call(problem.pulled, *put([*problem.primals, *problem.cotangents])))


def _against_differences(problem: Problem, got: Sequence[Array]) -> None:
    """Compare some elements one by one, and all elements along a direction."""
    reference, bound = problem.reference, BOUNDS[problem.dtype.name]
    primals, cotangents = problem.primals, problem.cotangents
    # Many calls with other numbers, of which each would be recorded anew.
    function = calor.jit(reference.run)
    want = by_differences(function, primals, cotangents, got, ELEMENTS, problem.seed)
    close(got, want, problem.case.label, bound)
    slope = inner(cotangents, along(function, primals, problem.tangents))
    _near(inner(got, problem.tangents), slope, got, bound)


def _against_wide(wide: DType) -> Judge:
    def judge(problem: Problem, got: Sequence[Array]) -> None:
        widened = problem.widened(wide)
        with calor.device("numpy"):
            want = [t.numpy() for t in widened.gradients(problem.cotangents)]
        rounded = [a.astype(w.dtype) for a, w in zip(got, want, strict=True)]
        assert [a.dtype for a in got] == [p.dtype for p in problem.primals], "dtypes of gradients"
        close(rounded, want, problem.case.label, BOUNDS[problem.dtype.name])

    return judge


def _pulled_twice(problem: Problem, place: Place) -> Sequence[Any]:
    arrays = [*problem.primals, *problem.cotangents]

    def twice(*tensors: Any) -> list[Any]:
        _, pull = calor.vjp(lambda *x: problem.pulled(*x), *tensors[: len(arrays)])
        return list(pull(list(tensors[len(arrays) :])))

    return list(place.call(twice, *put([*arrays, *problem.tangents])))


def _second_order(problem: Problem, got: Sequence[Array]) -> None:
    pulled, arrays = calor.jit(problem.reference.pulled), [*problem.primals, *problem.cotangents]
    for seed in range(3):
        directions = alike(arrays, seed)
        slope = inner(problem.tangents, along(pulled, arrays, directions))
        _near(inner(got, directions), slope, got, BOUNDS[problem.dtype.name])


def _moved(problem: Problem, place: Place) -> Sequence[Any]:
    """Return the derivatives along the tangent, then the gradients, which while loops lack."""
    count = len(problem.primals)

    def forward(*tensors: Any) -> list[Any]:
        _, moved = calor.jvp(lambda *x: problem.run(*x), tensors[:count], tensors[count:])
        return list(moved)

    made = list(place.call(forward, *put([*problem.primals, *problem.tangents])))
    return made if problem.case.op == "while_loop" else [*made, *_pulled(problem, place)]


def _forward_mode(problem: Problem, got: Sequence[Array]) -> None:
    moved = got[: len(problem.cotangents)]
    pulled = got[len(problem.cotangents) :]
    want = along(problem.reference.run, problem.primals, problem.tangents)
    close(moved, want, problem.case.label, BOUNDS[problem.dtype.name])
    if pulled:
        one, other = inner(problem.cotangents, moved), inner(pulled, problem.tangents)
        assert abs(one - other) <= 1e-12 * max(1.0, abs(one)), (
            f"forward mode gives {one!r} along the cotangent, reverse mode {other!r}"
        )


def _near(got: float, want: float, gradients: Sequence[Any], bound: float) -> None:
    scale = 1.0 + sum(float(np.sum(np.abs(a))) for a in gradients)
    assert abs(got - want) <= bound * scale, (
        f"along a direction the derivative is {got!r}, differences give {want!r}"
    )
