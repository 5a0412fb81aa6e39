"""The kernels of elementwise expressions.

Requirements: one body serves cubes of one unit with wide vectors and cubes of many units; operands
and results that lie one after another are read and written a vector at a time, of which several
are on the way together; the rest at the end is masked, so that the expression is compiled once more
at most; everything else is rows along the last axis, whose places are found once a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calor_kernel.language import (
    Number,
    cube_position,
    cube_size,
    kernel,
    loop_range,
    offset_of,
    unit_position,
    unravel,
)
from calor_kernel.library.elementwise.expression import Expression
from calor_kernel.library.elementwise.values import Value, load, store


@dataclass(frozen=True, slots=True)
class Blueprint:
    """How an expression is run.

    ``steps``: per operand 1 where its values lie one after another along the last axis, 0 where
    they are one value there, −1 where a launch says how far apart they are. ``align``: per operand,
    and then of the results, the bytes by which the address of its beginning divides. ``width``:
    lanes of a vector, which may be some vectors of the device. ``shared_body``: whether the rest at
    the end takes the way of the others, so that a long expression is compiled once.
    ``nontemporal``: whether results go past the caches.
    """

    steps: tuple[int, ...]
    align: tuple[int, ...]
    width: int
    shared_body: bool = False
    nontemporal: bool = False


def _read(
    expression: Expression,
    plan: Blueprint,
    sources: Sequence[Any],
    places: Sequence[Any],
    strides: Sequence[Any],
    fixed: Sequence[Value | None],
    rest: Any = None,
    *,
    dense: bool = False,
) -> list[Value]:
    made = []
    for k, dtype in enumerate(expression.operands):
        known = fixed[k]
        if known is not None:
            made.append(known)
            continue
        step = plan.steps[k]
        made.append(
            load(
                sources[k],
                dtype,
                places[k],
                plan.width,
                step=strides[k] if step < 0 else step,
                rest=rest,
                align=plan.align[k] if dense else 0,
            )
        )
    return made


def _write(
    expression: Expression,
    plan: Blueprint,
    targets: Sequence[Any],
    place: Any,
    values: Sequence[Value],
    rest: Any = None,
    *,
    dense: bool = False,
) -> None:
    for target, dtype, value in zip(targets, expression.outputs, values, strict=True):
        store(
            target,
            dtype,
            place,
            value,
            rest=rest,
            align=plan.align[-1] if dense else 0,
            nontemporal=plan.nontemporal and rest is None,
        )


def _fixed(
    expression: Expression, plan: Blueprint, sources: Sequence[Any], places: Sequence[Any]
) -> list[Value | None]:
    """Return the operands that are one value along the last axis, read ahead."""
    return [
        load(sources[k], dtype, places[k], plan.width, step=0) if plan.steps[k] == 0 else None
        for k, dtype in enumerate(expression.operands)
    ]


@kernel
def elementwise_flat(*arguments: Any, expression: Expression, plan: Blueprint) -> None:
    """Operands that lie one after another, or are one value; a cube takes ``chunk`` elements."""
    count, chunk = arguments[-2:]
    inputs = len(expression.operands)
    sources, targets = arguments[:inputs], arguments[inputs:-2]
    nowhere = [0] * inputs
    fixed = _fixed(expression, plan, sources, nowhere)
    width = plan.width
    begin = cube_position() * chunk
    end = min(begin + chunk, count)
    step = cube_size() * width
    first = begin + unit_position() * width
    if plan.shared_body:
        for i in loop_range(first, end, step):
            places = [i] * inputs
            rest = end - i
            if rest >= width:
                values = _read(expression, plan, sources, places, nowhere, fixed, dense=True)
            else:
                values = _read(expression, plan, sources, places, nowhere, fixed, rest)
            made = expression.evaluate(values)
            if rest >= width:
                _write(expression, plan, targets, i, made, dense=True)
            else:
                _write(expression, plan, targets, i, made, rest)
    else:
        whole = (end - begin) // step * step
        for i in loop_range(first, begin + whole, step):
            places = [i] * inputs
            values = _read(expression, plan, sources, places, nowhere, fixed, dense=True)
            _write(expression, plan, targets, i, expression.evaluate(values), dense=True)
        for i in loop_range(first + whole, end, step):
            rest = end - i
            places = [i] * inputs
            values = _read(expression, plan, sources, places, nowhere, fixed, rest)
            _write(expression, plan, targets, i, expression.evaluate(values), rest)


@kernel
def elementwise_rows(*arguments: Any, expression: Expression, plan: Blueprint, rank: int) -> None:
    """Any views: rows along the last axis, ``turns`` of them a cube; units share a row.

    After the buffers come the number of rows and ``turns``, the sizes of the axes, and the strides
    of each operand.
    """
    inputs, outputs = len(expression.operands), len(expression.results)
    sources, targets = arguments[:inputs], arguments[inputs : inputs + outputs]
    rows, turns, *numbers = arguments[inputs + outputs :]
    sizes = numbers[:rank]
    strides = [numbers[rank * (k + 1) : rank * (k + 2)] for k in range(inputs)]
    last = [s[-1] for s in strides]
    length = sizes[-1]
    width = plan.width
    step = cube_size() * width
    first = cube_position() * turns
    for row in loop_range(first, min(first + turns, rows)):
        position = unravel(row, sizes[:-1])
        starts = [offset_of(position, s[:-1]) for s in strides]
        fixed = _fixed(expression, plan, sources, starts)
        base = row * length
        whole = length // step * step
        for i in loop_range(unit_position() * width, whole, step):
            places = [_moved(starts[k], plan.steps[k], i, last[k]) for k in range(inputs)]
            values = _read(expression, plan, sources, places, last, fixed)
            _write(expression, plan, targets, base + i, expression.evaluate(values))
        for i in loop_range(whole + unit_position() * width, length, step):
            rest = length - i
            places = [_moved(starts[k], plan.steps[k], i, last[k]) for k in range(inputs)]
            values = _read(expression, plan, sources, places, last, fixed, rest)
            _write(expression, plan, targets, base + i, expression.evaluate(values), rest)


def _moved(start: Any, step: int, i: Number, stride: Any) -> Any:
    return start + (i * stride if step < 0 else i)
