"""The kernel for dense operands and single values: most elementwise work.

Requirements: one body serves cubes of one unit with wide vectors and cubes of many units. The end
is masked. So an expression is compiled at most twice, and once if it is long.
"""

from __future__ import annotations

from typing import Any

from calor_kernel.language import cube_position, cube_size, kernel, loop_range, unit_position
from calor_kernel.library.elementwise.blueprint import Blueprint, fixed, read, write
from calor_kernel.library.elementwise.expression import Expression


@kernel
def elementwise_flat(*arguments: Any, expression: Expression, plan: Blueprint) -> None:
    """Compute ``count`` values, the last argument but one; a cube takes ``chunk`` of them."""
    count, chunk = arguments[-2:]
    inputs = len(expression.operands)
    sources, targets = arguments[:inputs], arguments[inputs:-2]
    nowhere = [0] * inputs
    ahead = fixed(expression, plan, sources, nowhere)
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
                values = read(expression, plan, sources, places, nowhere, ahead, dense=True)
            else:
                values = read(expression, plan, sources, places, nowhere, ahead, rest)
            made = expression.evaluate(values)
            if rest >= width:
                write(expression, plan, targets, i, made, dense=True)
            else:
                write(expression, plan, targets, i, made, rest)
    else:
        whole = (end - begin) // step * step
        for i in loop_range(first, begin + whole, step):
            places = [i] * inputs
            values = read(expression, plan, sources, places, nowhere, ahead, dense=True)
            write(expression, plan, targets, i, expression.evaluate(values), dense=True)
        for i in loop_range(first + whole, end, step):
            rest = end - i
            places = [i] * inputs
            values = read(expression, plan, sources, places, nowhere, ahead, rest)
            write(expression, plan, targets, i, expression.evaluate(values), rest)
