"""Operands of any strides: rows along the last axis, or a position for each lane.

Requirements: sizes and strides are arguments of a launch. Operands that are dense along the last
axis are read in vectors, whatever the other axes are. If the last axis is short, a vector spans
several rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor_kernel.language import (
    FastDivmod,
    constant,
    cube_position,
    cube_size,
    kernel,
    loop_range,
    offset_of,
    select,
    unit_position,
    unravel,
)
from calor_kernel.library.elementwise.blueprint import Blueprint, fixed, read, write
from calor_kernel.library.elementwise.expression import Expression
from calor_kernel.library.elementwise.values import load


def layout(
    numbers: Sequence[Any], rank: int, inputs: int
) -> tuple[list[FastDivmod], list[Sequence[Any]]]:
    """Return the sizes of the axes and the strides of each operand from a launch's numbers."""
    sizes = list(FastDivmod.groups(numbers[: 3 * rank]))
    strides = numbers[3 * rank :]
    return sizes, [strides[rank * k : rank * (k + 1)] for k in range(inputs)]


def moved(start: Any, step: int, i: Any, stride: Any) -> Any:
    """Return the position of value i along the last axis, for a blueprint's step."""
    if step == 0:
        return start
    return start + (i * stride if step < 0 else i)


@kernel
def elementwise_rows(*arguments: Any, expression: Expression, plan: Blueprint, rank: int) -> None:
    """Compute rows along the last axis, ``turns`` of them a cube; units share a row.

    After the buffers come the number of rows and ``turns``, the sizes of the axes, three numbers
    each, and the strides of each operand.
    """
    inputs, outputs = len(expression.operands), len(expression.results)
    sources, targets = arguments[:inputs], arguments[inputs : inputs + outputs]
    rows, turns, *numbers = arguments[inputs + outputs :]
    sizes, strides = layout(numbers, rank, inputs)
    last = [s[-1] for s in strides]
    length = sizes[-1].divisor
    width = plan.width
    step = cube_size() * width
    first = cube_position() * turns
    for row in loop_range(first, min(first + turns, rows)):
        position = unravel(row, sizes[:-1])
        starts = [offset_of(position, s[:-1]) for s in strides]
        ahead = fixed(expression, plan, sources, starts)
        base = row * length
        if plan.shared_body:
            for i in loop_range(unit_position() * width, length, step):
                places = [moved(starts[k], plan.steps[k], i, last[k]) for k in range(inputs)]
                rest = length - i
                if rest >= width:
                    values = read(expression, plan, sources, places, last, ahead)
                else:
                    values = read(expression, plan, sources, places, last, ahead, rest)
                made = expression.evaluate(values)
                if rest >= width:
                    write(expression, plan, targets, base + i, made, dense=plan.even)
                else:
                    write(expression, plan, targets, base + i, made, rest)
        else:
            whole = length // step * step
            for i in loop_range(unit_position() * width, whole, step):
                places = [moved(starts[k], plan.steps[k], i, last[k]) for k in range(inputs)]
                values = read(expression, plan, sources, places, last, ahead)
                made = expression.evaluate(values)
                write(expression, plan, targets, base + i, made, dense=plan.even)
            for i in loop_range(whole + unit_position() * width, length, step):
                places = [moved(starts[k], plan.steps[k], i, last[k]) for k in range(inputs)]
                rest = length - i
                values = read(expression, plan, sources, places, last, ahead, rest)
                write(expression, plan, targets, base + i, expression.evaluate(values), rest)


@kernel
def elementwise_lanes(*arguments: Any, expression: Expression, plan: Blueprint, rank: int) -> None:
    """Compute a position for each lane: for short rows, and for units that are lanes.

    After the buffers come the number of values and the values of a cube, then sizes and strides.
    Operands with steps of 1 are dense, and are read at the positions of the results.
    """
    inputs, outputs = len(expression.operands), len(expression.results)
    sources, targets = arguments[:inputs], arguments[inputs : inputs + outputs]
    count, chunk, *numbers = arguments[inputs + outputs :]
    sizes, strides = layout(numbers, rank, inputs)
    width = plan.width
    first = cube_position() * chunk
    end = min(first + chunk, count)
    for i in loop_range(first + unit_position() * width, end, cube_size() * width):
        place = i + constant(tuple(range(width)), i.dtype) if width > 1 else i
        # Lanes beyond the end repeat the last value.
        place = select(place < count, place, count - 1)
        position = unravel(place, sizes)
        values = []
        for k, dtype in enumerate(expression.operands):
            if plan.steps[k] == 1:
                values.append(load(sources[k], dtype, i, width, rest=end - i))
            else:
                at = offset_of(position, strides[k])
                values.append(load(sources[k], dtype, at, width))
        made = expression.evaluate(values)
        write(expression, plan, targets, i, made, end - i)
