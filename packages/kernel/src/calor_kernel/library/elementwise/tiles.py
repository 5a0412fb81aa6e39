"""Operands that are dense along another axis than the results, such as transposes: tiles.

Requirements: every line of memory is read once and used whole. Cubes of one unit transpose squares
in registers, cubes of many units in shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from calor_kernel.language import (
    Number,
    barrier,
    cube_position,
    helper,
    kernel,
    loop_range,
    offset_of,
    private,
    shared,
    shuffle,
    unit_position,
    unravel,
)
from calor_kernel.library.elementwise.blueprint import Blueprint, write
from calor_kernel.library.elementwise.expression import Expression
from calor_kernel.library.elementwise.strided import layout, moved
from calor_kernel.library.elementwise.values import Value, load, store, stored

SIDE: Final = 32  # rows and columns of a tile of many units
_TALL: Final = 8  # units of their cube along its columns
CUBE: Final = (SIDE, _TALL, 1)


def turned(rows: Sequence[Number]) -> list[Number]:
    """Return the columns of a square of vectors: element k of row i becomes element i of column k.

    Blocks of half the size are swapped, from the largest to single elements.
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
    """Compute squares of the last axis and of ``axis``, along which ``across`` are dense.

    ``across``: the operands to transpose. For cubes of one unit. After the buffers come the number
    of bands and the bands of a cube, then sizes and strides; a band is ``width`` rows along the
    axis.
    """
    inputs, outputs = len(expression.operands), len(expression.results)
    sources, targets = arguments[:inputs], arguments[inputs : inputs + outputs]
    bands, turns, *numbers = arguments[inputs + outputs :]
    sizes, strides = layout(numbers, rank, inputs)
    width = plan.width
    length, height = sizes[-1].divisor, sizes[axis].divisor
    # The stride of the results along the axis.
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
                                moved(place, plan.steps[k], i, strides[k][-1]),
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
    """Return the start of the results of a position on the outer axes."""
    total: Any = 0
    places = dict(zip(outer, position, strict=True))
    for a in range(len(sizes)):
        total = total * sizes[a].divisor + places.get(a, 0)
    return total


@helper
def _turn(
    source: Any, tile: Any, place: Any, stride: Any, rows: Any, columns: Any, width: int
) -> None:
    """Read a square whose rows are columns of memory, and store it row by row."""
    if (rows >= width) & (columns >= width):
        taken = [source.load(place + c * stride, width) for c in range(width)]
        for r, values in enumerate(turned(taken)):
            tile.store(r * width, values)
    else:
        for r in loop_range(rows):
            for c in loop_range(columns):
                tile[r * width + c] = source[place + c * stride + r]


@kernel
def elementwise_shared_tiles(
    *arguments: Any,
    expression: Expression,
    plan: Blueprint,
    rank: int,
    axis: int,
    across: tuple[int, ...],
) -> None:
    """Compute the same by cubes of SIDE by 8 units, a tile each.

    After the buffers come the numbers of tiles along the last axis and along ``axis``, then sizes
    and strides.
    """
    inputs, outputs = len(expression.operands), len(expression.results)
    sources, targets = arguments[:inputs], arguments[inputs : inputs + outputs]
    wide, tall, *numbers = arguments[inputs + outputs :]
    sizes, strides = layout(numbers, rank, inputs)
    length, height = sizes[-1].divisor, sizes[axis].divisor
    pitch = length
    for size in sizes[axis + 1 : -1]:
        pitch = pitch * size.divisor
    outer = [a for a in range(rank - 1) if a != axis]
    number = cube_position()
    band = number // wide
    left = (number - band * wide) * SIDE
    above = band // tall
    top = (band - above * tall) * SIDE
    position = unravel(above, [sizes[a] for a in outer])
    starts = [
        offset_of(position, [s[a] for a in outer]) + top * s[axis] + left * s[-1] for s in strides
    ]
    base = _base(position, outer, sizes, axis) + top * pitch + left
    rows, columns = height - top, length - left
    x, y = unit_position(0), unit_position(1)
    # One more column, so that the units of a row have no bank conflicts.
    tiles = {k: shared(SIDE * (SIDE + 1), stored(expression.operands[k])) for k in across}
    for k in across:
        for part in range(SIDE // _TALL):
            column = y + part * _TALL
            if (x < rows) & (column < columns):
                tiles[k][column * (SIDE + 1) + x] = sources[k][
                    starts[k] + column * strides[k][-1] + x
                ]
    barrier()
    for part in range(SIDE // _TALL):
        row = y + part * _TALL
        if (row < rows) & (x < columns):
            values: list[Value] = []
            for k, dtype in enumerate(expression.operands):
                if k in across:
                    values.append(tiles[k][x * (SIDE + 1) + row])
                else:
                    place = starts[k] + row * strides[k][axis] + x * strides[k][-1]
                    values.append(load(sources[k], dtype, place, 1))
            made = expression.evaluate(values)
            for target, dtype, value in zip(targets, expression.outputs, made, strict=True):
                store(target, dtype, base + row * pitch + x, value)
