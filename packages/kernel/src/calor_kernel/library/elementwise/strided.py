"""Operands of any strides: rows along the last axis, lanes of any axes, and tiles of two axes.

Requirements: sizes and strides are numbers of a launch; what lies one after another along the last
axis is read in vectors, whatever the other axes are; where the last axis is short, a vector goes
over several rows; where an operand lies along another axis, as a transposed one does, both axes
are taken in tiles, which are turned in registers, so that every line of memory is read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor_kernel.language import (
    FastDivmod,
    Number,
    constant,
    cube_position,
    cube_size,
    helper,
    kernel,
    loop_range,
    offset_of,
    private,
    select,
    shuffle,
    unit_position,
    unravel,
)
from calor_kernel.library.elementwise.blueprint import Blueprint, fixed, read, write
from calor_kernel.library.elementwise.expression import Expression
from calor_kernel.library.elementwise.values import Value, load, stored


def _layout(
    numbers: Sequence[Any], rank: int, inputs: int
) -> tuple[list[FastDivmod], list[Sequence[Any]]]:
    """Return the sizes of the axes and the strides of each operand from a launch's numbers."""
    sizes = list(FastDivmod.groups(numbers[: 3 * rank]))
    strides = numbers[3 * rank :]
    return sizes, [strides[rank * k : rank * (k + 1)] for k in range(inputs)]


def _moved(start: Any, step: int, i: Any, stride: Any) -> Any:
    return start + (i * stride if step < 0 else i)


@kernel
def elementwise_rows(*arguments: Any, expression: Expression, plan: Blueprint, rank: int) -> None:
    """Rows along the last axis, ``turns`` of them a cube; units share a row.

    After the buffers come the number of rows and ``turns``, the sizes of the axes, three numbers
    each, and the strides of each operand.
    """
    inputs, outputs = len(expression.operands), len(expression.results)
    sources, targets = arguments[:inputs], arguments[inputs : inputs + outputs]
    rows, turns, *numbers = arguments[inputs + outputs :]
    sizes, strides = _layout(numbers, rank, inputs)
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
                places = [_moved(starts[k], plan.steps[k], i, last[k]) for k in range(inputs)]
                rest = length - i
                if rest >= width:
                    values = read(expression, plan, sources, places, last, ahead)
                else:
                    values = read(expression, plan, sources, places, last, ahead, rest)
                made = expression.evaluate(values)
                if rest >= width:
                    write(expression, plan, targets, base + i, made)
                else:
                    write(expression, plan, targets, base + i, made, rest)
        else:
            whole = length // step * step
            for i in loop_range(unit_position() * width, whole, step):
                places = [_moved(starts[k], plan.steps[k], i, last[k]) for k in range(inputs)]
                values = read(expression, plan, sources, places, last, ahead)
                write(expression, plan, targets, base + i, expression.evaluate(values))
            for i in loop_range(whole + unit_position() * width, length, step):
                places = [_moved(starts[k], plan.steps[k], i, last[k]) for k in range(inputs)]
                rest = length - i
                values = read(expression, plan, sources, places, last, ahead, rest)
                write(expression, plan, targets, base + i, expression.evaluate(values), rest)


@kernel
def elementwise_lanes(*arguments: Any, expression: Expression, plan: Blueprint, rank: int) -> None:
    """Every lane finds its own place: for short rows, and for units that are lanes themselves.

    After the buffers come the number of values and how many a cube takes, then sizes and strides.
    Operands with steps of 1 are dense, and are read where the results are written.
    """
    inputs, outputs = len(expression.operands), len(expression.results)
    sources, targets = arguments[:inputs], arguments[inputs : inputs + outputs]
    count, chunk, *numbers = arguments[inputs + outputs :]
    sizes, strides = _layout(numbers, rank, inputs)
    width = plan.width
    first = cube_position() * chunk
    end = min(first + chunk, count)
    for i in loop_range(first + unit_position() * width, end, cube_size() * width):
        place = i + constant(tuple(range(width)), i.dtype) if width > 1 else i
        # Lanes beyond the end take the place of the last value.
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


def turned(rows: Sequence[Number]) -> list[Number]:
    """Return the columns of a square of vectors: element k of row i becomes element i of column k.

    Squares of half the size change places, from the largest to single elements.
    """
    now = list(rows)
    width = len(now)
    half = width // 2
    while half:
        lanes = [(i // half) % 2 for i in range(width)]
        low = [i if not odd else width + i - half for i, odd in enumerate(lanes)]
        high = [i + half if not odd else width + i for i, odd in enumerate(lanes)]
        for i in range(width):
            if (i // half) % 2 == 0:
                a, b = now[i], now[i + half]
                now[i], now[i + half] = shuffle(a, low, b), shuffle(a, high, b)
        half //= 2
    return now


@kernel
def elementwise_tiles(
    *arguments: Any,
    expression: Expression,
    plan: Blueprint,
    rank: int,
    axis: int,
    across: tuple[int, ...],
) -> None:
    """Squares of the last axis and of ``axis``, along which the operands ``across`` lie.

    For cubes of one unit. After the buffers come the number of bands and how many a cube takes,
    then sizes and strides; a band is ``width`` rows along the axis.
    """
    inputs, outputs = len(expression.operands), len(expression.results)
    sources, targets = arguments[:inputs], arguments[inputs : inputs + outputs]
    bands, turns, *numbers = arguments[inputs + outputs :]
    sizes, strides = _layout(numbers, rank, inputs)
    width = plan.width
    length, height = sizes[-1].divisor, sizes[axis].divisor
    # How far apart the results' rows along the axis are.
    pitch = length
    for size in sizes[axis + 1 : -1]:
        pitch = pitch * size.divisor
    outer = [a for a in range(rank - 1) if a != axis]
    tiles = {k: private(width * width, stored(expression.operands[k])) for k in across}
    first = cube_position() * turns
    for band in loop_range(first, min(first + turns, bands)):
        down = (height + width - 1) // width
        above = band // down
        top = (band - above * down) * width
        position = unravel(above, [sizes[a] for a in outer])
        starts = [offset_of(position, [s[a] for a in outer]) + top * s[axis] for s in strides]
        base = _base(position, outer, sizes, axis) + top * pitch
        rows = min(height - top, width)
        for i in loop_range(0, length, width):
            columns = min(length - i, width)
            for k in across:
                _turn(
                    sources[k],
                    tiles[k],
                    starts[k] + i * strides[k][-1],
                    strides[k][-1],
                    rows,
                    columns,
                    width,
                )
            for row in loop_range(rows):
                values: list[Value] = []
                for k, dtype in enumerate(expression.operands):
                    if k in across:
                        values.append(load(tiles[k], dtype, row * width, width, rest=columns))
                    else:
                        place = starts[k] + row * strides[k][axis]
                        values.append(
                            load(
                                sources[k],
                                dtype,
                                _moved(place, plan.steps[k], i, strides[k][-1]),
                                width,
                                step=strides[k][-1] if plan.steps[k] < 0 else plan.steps[k],
                                rest=columns,
                            )
                        )
                made = expression.evaluate(values)
                if columns >= width:
                    write(expression, plan, targets, base + row * pitch + i, made)
                else:
                    write(expression, plan, targets, base + row * pitch + i, made, columns)


def _base(position: Sequence[Any], outer: Sequence[int], sizes: Any, axis: int) -> Any:
    """Return where the results of a position on the outer axes begin."""
    total: Any = 0
    places = dict(zip(outer, position, strict=True))
    for a in range(len(sizes)):
        total = total * sizes[a].divisor + places.get(a, 0)
    return total


@helper
def _turn(
    source: Any, tile: Any, place: Any, stride: Any, rows: Any, columns: Any, width: int
) -> None:
    """Read a square whose rows are columns of memory, and put it down row by row."""
    if (rows >= width) & (columns >= width):
        taken = [source.load(place + c * stride, width) for c in range(width)]
        for r, values in enumerate(turned(taken)):
            tile.store(r * width, values)
    else:
        for r in loop_range(rows):
            for c in loop_range(columns):
                tile[r * width + c] = source[place + c * stride + r]
