"""The lowering of elementwise expressions: from views to launches.

Requirements: axes that lie one after another in all operands are one axis, so that most problems
are flat; a kernel is built for an expression and for how the last axis lies, and sizes and strides
are numbers of a launch; chunks of work are large enough that handing them out costs nothing, and
many enough that all cores work to the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Any, Final

from calor.dtypes import DType, float32, int64
from calor.specs import Spec
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.elementwise.expression import Expression
from calor_kernel.library.elementwise.kernels import (
    Blueprint,
    elementwise_flat,
    elementwise_rows,
)
from calor_kernel.library.elementwise.values import HALVES, parts, stored
from calor_kernel.library.work import Build, Input, Launch, Output, View, Work, row_major
from calor_kernel.runtime.device import DeviceInfo

_SIZE: Final = Scalar(int64, nonnegative=True)
_STRIDE: Final = Scalar(int64)
# Bytes that a cube of one unit reads and writes: some microseconds of work.
_CHUNK: Final = 1 << 16


# Instructions of an expression that is cheap beside its loads, and of one that fills the registers.
_LIGHT: Final = 8
_HEAVY: Final = 60


def coalesce(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Return the shape and each view's strides with axes merged that are one for all of them.

    >>> coalesce((2, 3, 4), [(12, 4, 1), (0, 0, 1)])
    ((6, 4), [(4, 1), (0, 1)])
    """
    sizes: list[int] = []
    merged: list[list[int]] = []
    for axis, n in enumerate(shape):
        if n == 1:
            continue
        now = [s[axis] for s in strides]
        if merged and all(a == b * n for a, b in zip(merged[-1], now, strict=True)):
            sizes[-1] *= n
            merged[-1] = now
        else:
            sizes.append(n)
            merged.append(now)
    if not sizes:
        sizes, merged = [1], [[0] * len(strides)]
    return tuple(sizes), [tuple(m[k] for m in merged) for k in range(len(strides))]


def lower_expression(
    expression: Expression, views: Sequence[View], outputs: Sequence[Spec], info: DeviceInfo
) -> list[Work]:
    """Return the launches of an expression on views of one shape; results are dense."""
    shape = outputs[0].shape
    dense = row_major(shape)
    sizes, strides = coalesce(shape, [*(v.strides for v in views), dense])
    strides = strides[:-1]
    many = info.max_units > 1
    width = _width(expression, info)
    steps = tuple(s[-1] if s[-1] in (0, 1) else -1 for s in strides)
    flat = len(sizes) == 1 and -1 not in steps
    weight = expression.weight
    if not many:
        # Several vectors on the way together hide what an instruction waits for; long expressions
        # have parts that do not wait for each other, and need the registers.
        several = 2 if weight >= _HEAVY else 4
        width *= max(several // max(parts(t) for t in expression.dtypes), 1)
    align = (*(_alignment(v, info) for v in views), info.align)
    plan = Blueprint(steps, align, width, shared_body=weight > _LIGHT)
    units = min(info.max_units, 256)
    buffers = tuple(Buffer(stored(v.dtype), writable=False) for v in views)
    targets = tuple(Buffer(stored(s.dtype)) for s in outputs)
    arguments: tuple[Any, ...] = (
        *(Input(k, v.offset * parts(v.dtype)) for k, v in enumerate(views)),
        *(Output(k) for k in range(len(outputs))),
    )
    keywords: tuple[tuple[str, Any], ...] = (("expression", expression), ("plan", plan))
    count = prod(sizes)
    size = sum(v.dtype.itemsize for v in views) + sum(s.dtype.itemsize for s in outputs)
    if flat:
        chunk = _chunk(units * width, size, many)
        build = Build(elementwise_flat, (*buffers, *targets, _SIZE, _SIZE), keywords, (units, 1, 1))
        cubes = -(-count // chunk)
        arguments = (*arguments, count, chunk)
    else:
        rank = len(sizes)
        rows = prod(sizes[:-1])
        turns = max(_CHUNK // (size * sizes[-1]), 1) if not many else 1
        numbers = (_SIZE,) * (2 + rank) + (_STRIDE,) * (rank * len(views))
        build = Build(
            elementwise_rows,
            (*buffers, *targets, *numbers),
            (*keywords, ("rank", rank)),
            (units, 1, 1),
        )
        cubes = -(-rows // turns)
        arguments = (*arguments, rows, turns, *sizes, *(n for s in strides for n in s))
    label = f"elementwise.{'flat' if flat else 'rows'}"
    launch = Launch(
        build,
        (max(cubes, 1), 1, 1),
        arguments,
        flops=count * len(expression.steps),
        nbytes=count * size,
        label=label,
    )
    in_place = tuple(
        (k, n)
        for k, v in enumerate(views)
        for n, s in enumerate(outputs)
        if v.dtype.itemsize == s.dtype.itemsize
    )
    return [Work((launch,), in_place=in_place)]


def _width(expression: Expression, info: DeviceInfo) -> int:
    """Return the lanes that fill a vector of the widest type of the expression."""
    widest: int = max(_computed(t, expression).itemsize for t in expression.dtypes)
    return max(info.vector_bytes // widest, 1)


def _computed(dtype: DType, expression: Expression) -> DType:
    """Return the type in which numbers of a dtype are computed; what only moves is not."""
    narrow = dtype in HALVES or dtype.kind == "storage"
    return float32 if narrow and expression.steps else stored(dtype)


def _alignment(view: View, info: DeviceInfo) -> int:
    """Return the bytes by which the address of a view's first element divides."""
    return gcd(view.offset * view.dtype.itemsize, info.align)


def _chunk(step: int, size: int, many: bool) -> int:
    """Return the elements of a cube, a multiple of the elements of a step."""
    if many:
        return step * 4
    return max(_CHUNK // (size * step), 1) * step
