"""Vector operations on arrays of shape (lanes, width), with one row if the value is uniform.

Requirements: a function per operation, made once from its attributes and types. Inputs are not
modified, so results may be views.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calor_interpreter.arithmetic import COMBINE
from calor_interpreter.casts import bitcaster, caster
from calor_kernel.ir.nodes import Operation

Array = np.ndarray[Any, Any]


def halves(kind: str, rows: Array) -> Array:
    """Return rows reduced along the last axis: the lower half with the upper, until one is left.

    With an odd number of lanes, the middle one waits for the next round.
    """
    combine = COMBINE[kind]
    while (width := rows.shape[-1]) > 1:
        low, high = (width + 1) // 2, width // 2
        made = combine(rows[..., :high], rows[..., low:])
        rows = made if low == high else np.concatenate([made, rows[..., high:low]], axis=-1)
    return rows[..., 0]


def _splat(operation: Operation) -> Callable[..., Array]:
    width = operation.result.type.width
    # Copies of so few elements are made faster than views of strides 0.
    return lambda x: x[:, None].repeat(width, 1)


def _extract(operation: Operation) -> Callable[..., Array]:
    lane = operation.attributes["lane"]
    return lambda x: x[:, lane]


def _insert(operation: Operation) -> Callable[..., Array]:
    lane = operation.attributes["lane"]

    def function(x: Array, value: Array) -> Array:
        made = x.repeat(len(value), 0) if len(x) < len(value) else x.copy()
        made[:, lane] = value
        return made

    return function


def _shuffle(operation: Operation) -> Callable[..., Array]:
    lanes: Sequence[int] = operation.attributes["lanes"]
    width = operation.operands[0].type.width
    chosen, one = np.array(lanes), len(lanes) == 1
    if width == 1:

        def function(a: Array, b: Array) -> Array:
            made = _columns(a, b)
            return made[:, lanes[0]] if one else made[:, chosen]
    elif max(lanes) < width:

        def function(a: Array, b: Array) -> Array:
            return a[:, lanes[0]] if one else a[:, chosen]
    else:

        def function(a: Array, b: Array) -> Array:
            both = np.empty((max(len(a), len(b)), 2 * width), a.dtype)
            both[:, :width], both[:, width:] = a, b
            return both[:, lanes[0]] if one else both[:, chosen]

    return function


def _pack(operation: Operation) -> Callable[..., Array]:
    if operation.result.type.width == 1:
        return lambda x: x
    return _columns


def _columns(*values: Array) -> Array:
    """Return values as the columns of vectors; a uniform one is repeated."""
    made = np.empty((max(map(len, values)), len(values)), values[0].dtype)
    for i, value in enumerate(values):
        made[:, i] = value
    return made


def _vreduce(operation: Operation) -> Callable[..., Array]:
    kind = operation.attributes["kind"]
    return lambda x: halves(kind, x)


def _dot(operation: Operation) -> Callable[..., Array]:
    lanes, width = operation.result.type.width, operation.operands[0].type.width
    host, group = operation.result.type.dtype.numpy, width // lanes

    def function(a: Array, b: Array, c: Array) -> Array:
        x = a.astype(host).reshape(len(a), lanes, group)
        y = b.astype(host).reshape(len(b), lanes, group)
        total = c if lanes > 1 else c[:, None]
        for i in range(group):
            total = total + x[:, :, i] * y[:, :, i]
        return total if lanes > 1 else total[:, 0]

    return function


def _select(operation: Operation) -> Callable[..., Array]:
    def function(condition: Array, a: Array, b: Array) -> Array:
        return np.where(condition, a, b)

    return function


def _cast(operation: Operation) -> Callable[..., Array]:
    return caster(operation.operands[0].type.dtype, operation.result.type.dtype)


def _bitcast(operation: Operation) -> Callable[..., Array]:
    source, target = operation.operands[0].type, operation.result.type
    return bitcaster(source.dtype, target.dtype, source.width, target.width)


VECTORS: dict[str, Callable[[Operation], Callable[..., Array]]] = {
    "splat": _splat,
    "extract": _extract,
    "insert": _insert,
    "shuffle": _shuffle,
    "pack": _pack,
    "vreduce": _vreduce,
    "dot": _dot,
    "select": _select,
    "cast": _cast,
    "bitcast": _bitcast,
}
