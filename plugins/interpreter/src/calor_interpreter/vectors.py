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
    return lambda x: np.broadcast_to(x[:, None], (len(x), width))


def _extract(operation: Operation) -> Callable[..., Array]:
    lane = operation.attributes["lane"]
    return lambda x: x[:, lane]


def _insert(operation: Operation) -> Callable[..., Array]:
    lane = operation.attributes["lane"]

    def function(x: Array, value: Array) -> Array:
        made = np.array(np.broadcast_to(x, (max(len(x), len(value)), x.shape[1])))
        made[:, lane] = value
        return made

    return function


def _shuffle(operation: Operation) -> Callable[..., Array]:
    lanes: Sequence[int] = operation.attributes["lanes"]
    width = operation.operands[0].type.width
    chosen, one = np.array(lanes), len(lanes) == 1
    if width == 1:

        def function(a: Array, b: Array) -> Array:
            made = np.stack(np.broadcast_arrays(a, b), axis=1)[:, chosen]
            return made[:, 0] if one else made
    elif max(lanes) < width:

        def function(a: Array, b: Array) -> Array:
            return a[:, lanes[0]] if one else a[:, chosen]
    else:

        def function(a: Array, b: Array) -> Array:
            count = max(len(a), len(b))
            both = [np.broadcast_to(x, (count, width)) for x in (a, b)]
            made = np.concatenate(both, axis=1)[:, chosen]
            return made[:, 0] if one else made

    return function


def _pack(operation: Operation) -> Callable[..., Array]:
    if operation.result.type.width == 1:
        return lambda x: x
    return lambda *values: np.stack(np.broadcast_arrays(*values), axis=1)


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
