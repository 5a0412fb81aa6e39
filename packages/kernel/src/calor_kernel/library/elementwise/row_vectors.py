"""Rows shorter than a vector: vectors over several rows, with lanes known at build time.

Requirements: a bias of three channels, or a scale of each of many short rows, costs as much as
dense operands. An operand with one row, or one value a row, is not read twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor_kernel.language import (
    Number,
    cube_position,
    helper,
    kernel,
    loop_range,
    pack,
    shuffle,
)
from calor_kernel.library.elementwise.blueprint import Blueprint, write
from calor_kernel.library.elementwise.expression import Expression
from calor_kernel.library.elementwise.values import Complex, Value, load


@kernel
def elementwise_short(
    *arguments: Any,
    expression: Expression,
    plan: Blueprint,
    length: int,
    lies: tuple[str, ...],
) -> None:
    """Compute rows of ``length`` values, as many at a time as lanes; a cube takes ``turns``.

    After the buffers come the number of rows, ``turns``, and each operand's two strides. ``lies``:
    for each operand "dense", "row" for one row, "column" for one value a row, or "apart".
    """
    inputs, outputs = len(expression.operands), len(expression.results)
    sources, targets = arguments[:inputs], arguments[inputs : inputs + outputs]
    rows, turns, *strides = arguments[inputs + outputs :]
    width = plan.width
    pattern = [
        _repeated(sources[k], dtype, strides[2 * k + 1], length) if lies[k] == "row" else None
        for k, dtype in enumerate(expression.operands)
    ]
    begin = cube_position() * turns
    end = min(begin + turns, rows)
    whole = begin + (end - begin) // width * width
    for row in loop_range(begin, whole, width):
        held = _held(expression, lies, sources, strides, row, None, width)
        for j in range(length):
            values = _values(
                expression, lies, sources, strides, pattern, held, row, None, j, length, width
            )
            made = expression.evaluate(values)
            write(expression, plan, targets, row * length + j * width, made)
    for row in loop_range(whole, end, width):
        last = end - row
        held = _held(expression, lies, sources, strides, row, last, width)
        for j in range(length):
            rest = last * length - j * width
            if rest > 0:
                values = _values(
                    expression, lies, sources, strides, pattern, held, row, last, j, length, width
                )
                made = expression.evaluate(values)
                write(expression, plan, targets, row * length + j * width, made, rest)


def _repeated(source: Any, dtype: Any, stride: Any, length: int) -> list[Value]:
    """Return the values of a row."""
    return [load(source, dtype, i * stride, 1) for i in range(length)]


def _held(
    expression: Expression,
    lies: Sequence[str],
    sources: Sequence[Any],
    strides: Sequence[Any],
    row: Any,
    last: Any,
    width: int,
) -> list[Value | None]:
    """Return the values of ``width`` rows, for operands with one value a row."""
    return [
        load(sources[k], dtype, row * strides[2 * k], width, step=strides[2 * k], rest=last)
        if lies[k] == "column"
        else None
        for k, dtype in enumerate(expression.operands)
    ]


@helper
def _values(
    expression: Expression,
    lies: Sequence[str],
    sources: Sequence[Any],
    strides: Sequence[Any],
    pattern: Sequence[Any],
    held: Sequence[Any],
    row: Any,
    last: Any,
    part: int,
    length: int,
    width: int,
) -> list[Value]:
    """Return the operands' values of the vector ``part`` of ``width`` rows."""
    made: list[Value] = []
    places = [divmod(part * width + lane, length) for lane in range(width)]
    for k, dtype in enumerate(expression.operands):
        if lies[k] == "dense":
            rest = None if last is None else last * length - part * width
            made.append(load(sources[k], dtype, row * length + part * width, width, rest=rest))
        elif lies[k] == "row":
            made.append(_packed([pattern[k][column] for _, column in places]))
        elif lies[k] == "column":
            made.append(_chosen(held[k], [down for down, _ in places]))
        else:
            ends = [down if last is None else min(down, last - 1) for down, _ in places]
            made.append(
                _packed(
                    [
                        load(
                            sources[k],
                            dtype,
                            (row + down) * strides[2 * k] + column * strides[2 * k + 1],
                            1,
                        )
                        for down, (_, column) in zip(ends, places, strict=True)
                    ]
                )
            )
    return made


def _packed(values: Sequence[Value]) -> Value:
    if isinstance(values[0], Complex):
        return Complex(pack([v.real for v in values]), pack([v.imag for v in values]))  # type: ignore[union-attr]
    return pack(values)


def _chosen(value: Value, order: Sequence[int]) -> Value:
    if isinstance(value, Complex):
        return Complex(shuffle(value.real, order), shuffle(value.imag, order))
    assert isinstance(value, Number)
    return shuffle(value, order)
