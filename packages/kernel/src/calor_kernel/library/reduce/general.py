"""Reductions of any view, result by result: the general bodies.

Requirements: any kind, type, rank and strides, on every device. The terms of a result are taken in
index order, so that the result is the same everywhere. On a CPU a unit computes a vector of results
and gathers their terms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calor.dtypes import DType, int64
from calor_kernel.language import (
    absolute_position,
    cast,
    constant,
    helper,
    kernel,
    offset_of,
    select,
    splat,
    unravel,
)
from calor_kernel.library.elementwise.conversions import converted
from calor_kernel.library.elementwise.values import Complex, Value, load, store
from calor_kernel.library.reduce.reduction_ops import PLACES, beats, joined, start, working

Step = Callable[[Any, Any, Any], Any]


@kernel
def reduce_general(
    x: Any,
    out: Any,
    count: Any,
    *numbers: Any,
    kind: str,
    source: DType,
    result: DType,
    kept: int,
    reduced: int,
    width: int,
) -> None:
    """Compute ``width`` results a unit, of ``count``.

    ``numbers``: sizes and strides of the kept axes, then of the reduced axes.
    """
    sizes, strides = numbers[:kept], numbers[kept : 2 * kept]
    lengths, steps = numbers[2 * kept : 2 * kept + reduced], numbers[2 * kept + reduced :]
    first = absolute_position() * width
    if first < count:
        index = first + constant(tuple(range(width)), first.dtype) if width > 1 else first
        # Indices beyond the end are clamped to the last one.
        index = select(index < count, index, count - 1) if width > 1 else index
        base = offset_of(unravel(index, sizes), strides)
        wide = working(kind, source, result)

        def read(at: Any) -> Value:
            return converted(element(x, source, at), source, wide)

        zero = constant(0, first.dtype)
        if kind in PLACES:
            begin: Any = (read(base), splat(zero, width))

            def take(state: Any, at: Any, number: Any) -> Any:
                best, place = state
                value = read(at)
                better = beats(kind, value, best)
                return select(better, value, best), select(better, number, place)

            _, total = fold_all(begin, take, lengths, steps, base, zero)
            total = cast(total, int64)
        else:
            begin = start(kind, wide, width)

            def join(state: Any, at: Any, number: Any) -> Any:
                return joined(kind, state, read(at))

            total = converted(fold_all(begin, join, lengths, steps, base, zero), wide, result)
        store(out, result, first, total, rest=count - first if width > 1 else None)


def element(x: Any, dtype: DType, at: Any) -> Value:
    """Return the value at a position, or at each of a vector of positions."""
    if dtype.is_complex:
        return Complex(x.load(at * 2), x.load(at * 2 + 1))
    if at.width == 1:
        return load(x, dtype, at, 1)
    loaded: Value = x.load(at)
    return loaded


@helper
def fold_all(
    state: Any, step: Step, sizes: Sequence[Any], strides: Sequence[Any], at: Any, number: Any
) -> Any:
    """Return the state after a step for each position along the axes, the last one fastest."""
    if not sizes:
        return step(state, at, number)
    for i in range(sizes[0]):
        state = fold_all(
            state, step, sizes[1:], strides[1:], at + i * strides[0], number * sizes[0] + i
        )
    return state
