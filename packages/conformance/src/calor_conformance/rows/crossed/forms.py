"""Drawn programs in each form that calls them: mapped, in loops, in branches, computed again.

A transform has a rule for each op, and a planner a way to run each loop; which ops a program has is
drawn, so each rule meets the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType, float32, int32

from ..language import Array
from .language import Problem, Subject
from .pairwise import Scenario
from .programs import Program, program

Rng = np.random.Generator
_COPIES, _STEPS = 3, 4
# Whole numbers up to this are exact in every dtype of the programs.
_EXACT: Final = 1 << 24
# A carry is brought back to numbers as small as the operands are.
_WRAP, _LOW = 19, 9
# What runs with tensors, and what it means with arrays; None if a number grows too large.
Form = tuple[list[Array], Callable[..., list[Any]], list[Array] | None]


def _mapped(made: Program, rng: Rng, reverse: bool) -> Form:
    """Of several operands, each along an axis of its own or none."""
    axes: list[int | None] = []
    arrays: list[Array] = []
    for a in made.operands:
        axis = int(rng.integers(-a.ndim - 1, a.ndim + 1)) if a.ndim else 0
        if axes and rng.random() < 0.25:
            axes.append(None)
            arrays.append(a)
            continue
        others = rng.integers(-9, 10, (_COPIES - 1, *a.shape))
        axes.append(axis)
        arrays.append(np.stack([a, *others], axis))

    def run(*tensors: Any) -> list[Any]:
        return list(calor.vmap(made.run, in_axes=tuple(axes))(*tensors))

    given = [
        [a if axis is None else np.take(a, k, axis) for a, axis in zip(arrays, axes, strict=True)]
        for k in range(_COPIES)
    ]
    if max(made.largest(*one) for one in given) >= _EXACT:
        return arrays, run, None
    each = [made.meaning(*one) for one in given]
    return arrays, run, [np.stack(column) for column in zip(*each, strict=True)]


def _next(made: Program, results: Sequence[Any], carry: Any, lib: Any) -> Any:
    """Return the next carry: the last result of its shape, made small, or the carry and one."""
    fit = [r for r in results if r.shape == carry.shape]
    return lib.remainder(fit[-1] if fit else carry + 1, _WRAP) - _LOW


def _scanned(made: Program, rng: Rng, reverse: bool) -> Form:
    first, second, third = made.operands
    rows = rng.integers(-9, 10, (_STEPS, *second.shape))

    def body(carry: Any, row: Any, last: Any, lib: Any, of: Callable[..., list[Any]]) -> Any:
        results = of(carry, row, last)
        return _next(made, results, carry, lib), results

    def run(init: Any, rows: Any, last: Any) -> list[Any]:
        step = partial(body, last=last, lib=calor, of=made.run)
        end, every = calor.scan(step, init, rows, reverse=reverse)
        return [end, *every]

    carry, every = first, []
    for row in rows[::-1] if reverse else rows:
        if made.largest(carry, row, third) >= _EXACT:
            return [first, rows, third], run, None
        carry, results = body(carry, row, third, np, made.meaning)
        every.append(results)
    columns = zip(*(every[::-1] if reverse else every), strict=True)
    return [first, rows, third], run, [carry, *map(np.stack, columns)]


def _counted(made: Program, rng: Rng, reverse: bool) -> Form:
    first, second, third = made.operands

    def run(init: Any, second: Any, third: Any) -> list[Any]:
        def body(_: Any, carry: Any) -> Any:
            return _next(made, made.run(carry, second, third), carry, calor)

        return [calor.fori_loop(0, _STEPS, body, init)]

    carry = first
    for _ in range(_STEPS):
        if made.largest(carry, second, third) >= _EXACT:
            return [first, second, third], run, None
        carry = _next(made, made.meaning(carry, second, third), carry, np)
    return [first, second, third], run, [carry]


def _chosen(made: Program, rng: Rng, reverse: bool) -> Form:
    first, second, third = made.operands
    least = int(first.sum()) + (1 if reverse else 0)

    def run(*tensors: Any) -> list[Any]:
        def other(a: Any, b: Any, c: Any) -> list[Any]:
            return [r * 2 - 1 for r in made.run(b, a, c)]

        chosen = calor.sum(tensors[0]) >= least
        return list(calor.cond(chosen, lambda *x: list(made.run(*x)), other, *tensors))

    arrays = [first, second, third]
    if max(made.largest(*arrays), 3 * made.largest(second, first, third)) >= _EXACT:
        return arrays, run, None
    taken, other = made.meaning(*arrays), made.meaning(second, first, third)
    return arrays, run, [r * 2 - 1 for r in other] if reverse else taken


def _again(made: Program, rng: Rng, reverse: bool) -> Form:
    """Computed again for a gradient, beside the same once more."""
    kept = calor.checkpoint(lambda *x: list(made.run(*x)))

    def run(*tensors: Any) -> list[Any]:
        both = (made.run, kept) if reverse else (kept, made.run)
        return [a + b for a, b in zip(*(call(*tensors) for call in both), strict=True)]

    want = [a * 2 for a in made.meaning(*made.operands)]
    large = 2 * made.largest(*made.operands) >= _EXACT
    return list(made.operands), run, None if large else want


_FORMS: Final[dict[str, Callable[[Program, Rng, bool], Form]]] = {
    "mapped": _mapped, "scanned": _scanned, "counted": _counted, "branched": _chosen,
    "computed-again": _again,
}  # fmt: skip


def _crossed(form: str, scenario: Scenario, rng: Rng, dtype: DType) -> Problem | None:
    made = program(scenario["program"], scenario["ops"], dtype, "closed")
    arrays, run, want = _FORMS[form](made, rng, scenario["reverse"])
    if want is None:
        return None
    wants = [np.asarray(a).astype(dtype.numpy) for a in want]
    operands = [a.astype(dtype.numpy) for a in arrays]
    return Problem(operands, run, lambda: wants, [dtype] * len(wants), zeros=False, slope=False)


SUBJECTS: list[Subject] = [
    Subject("", partial(_crossed, form), (float32, int32),
            {"program": tuple(range(6)), "ops": (3, 8), "reverse": (False, True),
             "mode": ("jit", "eager")},
            {"program": tuple(range(6, 500)), "ops": (20,)}, name=f"chain-of-drawn-{form}")
    for form in _FORMS
]  # fmt: skip
