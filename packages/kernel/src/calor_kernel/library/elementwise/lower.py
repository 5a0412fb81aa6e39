"""The lowering of elementwise expressions: from views to launches.

Requirements: axes that are adjacent in all operands are merged, so that most problems are flat. A
kernel is built for an expression and for the layout of the last axis; sizes and strides are
arguments of a launch. Chunks of work are large enough that scheduling costs nothing, and small
enough that all cores work to the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

from calor.dtypes import DType, float32, int32, int64
from calor.specs import Spec
from calor_kernel.contract.choices import greatest
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Build, Input, Launch, Output, View, Work, row_major
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import FastDivmod, index_dtype
from calor_kernel.library.elementwise.blueprint import Blueprint
from calor_kernel.library.elementwise.expression import Expression
from calor_kernel.library.elementwise.flat import elementwise_flat
from calor_kernel.library.elementwise.row_vectors import elementwise_short
from calor_kernel.library.elementwise.strided import (
    elementwise_lanes,
    elementwise_rows,
)
from calor_kernel.library.elementwise.tiles import (
    CUBE,
    SIDE,
    elementwise_shared_tiles,
    elementwise_tiles,
)
from calor_kernel.library.elementwise.values import HALVES, parts, stored

_SIZE: Final = Scalar(int64, nonnegative=True)
# Bytes that a cube of one unit reads and writes: some microseconds of work.
_CHUNK: Final = 1 << 16
# Instructions of an expression that is cheap beside its loads, and of one that compiles slowly.
_LIGHT: Final = 8
_LONG: Final = 200
_LONG_ROW: Final = 16  # values along the last axis for which it is worth a loop of its own
_APART: Final = 4  # values along the last axis up to which single values are read
_UNROLLED: Final = 250  # instructions of short rows that are written out
_TILE: Final = 16  # lanes and rows of a tile at most
_UNITS: Final = 256  # in a cube
_ACCESS: Final = 16  # bytes that a unit reads or writes at once


@dataclass(frozen=True, slots=True)
class _Problem:
    """An expression with its operands on common axes, merged as far as possible."""

    expression: Expression
    views: tuple[View, ...]
    outputs: tuple[Spec, ...]
    info: DeviceInfo
    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def many(self) -> bool:
        """Whether cubes have many units."""
        return self.info.max_units > 1

    @property
    def units(self) -> int:
        """The units of a cube."""
        return min(self.info.max_units, _UNITS)

    @property
    def count(self) -> int:
        """The number of values of a result."""
        return prod(self.sizes)

    @property
    def value_bytes(self) -> int:
        """The bytes read and written for one value of the results."""
        dtypes = (*(v.dtype for v in self.views), *(s.dtype for s in self.outputs))
        return sum(int(t.itemsize) for t in dtypes)


def coalesce(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Return the shape and each view's strides with axes merged if all views allow it.

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
    problem = _Problem(expression, tuple(views), tuple(outputs), info, sizes, tuple(strides[:-1]))
    launch = _launch(problem)
    if problem.many and problem.count == 1:
        # All units read the single value, and one of them writes.
        return [Work((launch,))]
    in_place = tuple(
        (k, n)
        for k, v in enumerate(views)
        for n, s in enumerate(outputs)
        if v.dtype.itemsize == s.dtype.itemsize
    )
    return [Work((launch,), in_place=in_place)]


def _launch(p: _Problem) -> Launch:
    if not p.count:
        return _flat(replace(p, sizes=(1,), strides=((0,),) * len(p.views)), 0)
    if len(p.sizes) == 1 and all(s[0] in (0, 1) for s in p.strides):
        return _flat(p, p.count)
    tiled = _tiled_axis(p)
    if tiled is not None:
        return _shared_tiles(p, *tiled) if p.many else _tiles(p, *tiled)
    if p.many:
        return _lanes(p, 1)
    if p.sizes[-1] < _LONG_ROW:
        short = _short(p)
        return short if short is not None else _lanes(p, _width(p.expression, p.info))
    return _rows(p)


def _made(p: _Problem, kind: str, build: Build, cubes: int, numbers: Sequence[int]) -> Launch:
    arguments: tuple[Any, ...] = (
        *(Input(k, v.offset * parts(v.dtype)) for k, v in enumerate(p.views)),
        *(Output(k) for k in range(len(p.outputs))),
        *numbers,
    )
    return Launch(
        build,
        (greatest(cubes, 1), 1, 1),
        arguments,
        flops=p.count * p.expression.weight,
        nbytes=p.count * p.value_bytes,
        label=f"elementwise.{kind}",
    )


def _buffers(p: _Problem) -> tuple[Buffer, ...]:
    sources = tuple(Buffer(stored(v.dtype), writable=False) for v in p.views)
    return (*sources, *(Buffer(stored(s.dtype)) for s in p.outputs))


def _blueprint(p: _Problem, width: int) -> Blueprint:
    steps = tuple(s[-1] if s[-1] in (0, 1) else -1 for s in p.strides)
    align = (*(_alignment(v, p.info) for v in p.views), p.info.align)
    return Blueprint(steps, align, width, shared_body=p.expression.weight > _LIGHT)


def _flat(p: _Problem, count: int) -> Launch:
    width = _width(p.expression, p.info)
    if not p.many:
        width *= _vectors(p.expression)
    plan = replace(_blueprint(p, width), nontemporal=_past_caches(p))
    chunk = _chunk(p, p.units * width)
    keywords = (("expression", p.expression), ("plan", plan))
    build = Build(elementwise_flat, (*_buffers(p), _SIZE, _SIZE), keywords, (p.units, 1, 1))
    return _made(p, "flat", build, -(-count // chunk), (count, chunk))


def _past_caches(p: _Problem) -> bool:
    """Return whether the operands and results exceed the last-level cache."""
    cached = p.info.native.get("shared_cache", 0)
    return bool(cached) and not p.many and p.count * p.value_bytes > cached


def _vectors(expression: Expression) -> int:
    """Return how many vectors of the device a unit computes together.

    They hide the latency of instructions. That helps even functions of 80 instructions, whose
    values exceed the registers, since their instructions form one dependent chain.
    """
    several = 2 if expression.weight >= _LONG else 4
    return max(several // max(parts(t) for t in expression.dtypes), 1)


def _layout(p: _Problem, dtype: DType) -> tuple[tuple[Scalar, ...], tuple[int, ...]]:
    """Return the parameters of sizes and strides, and their numbers."""
    rank = len(p.sizes)
    declared = FastDivmod.declared(dtype) * rank + (Scalar(dtype),) * (rank * len(p.views))
    sizes = [n for size in p.sizes for n in FastDivmod.arguments(size, dtype)]
    return declared, (*sizes, *(n for s in p.strides for n in s))


def _rows(p: _Problem) -> Launch:
    width = _width(p.expression, p.info)
    if all(s[-1] in (0, 1) for s in p.strides):
        width *= _vectors(p.expression)
    while width >= 2 * p.sizes[-1]:
        width //= 2
    declared, numbers = _layout(p, int64)
    rows = prod(p.sizes[:-1])
    turns = greatest(_CHUNK // (p.value_bytes * p.sizes[-1]), 1)
    even = all(p.sizes[-1] * s.dtype.itemsize % p.info.align == 0 for s in p.outputs)
    plan = replace(_blueprint(p, width), even=even, nontemporal=even and _past_caches(p))
    keywords = (("expression", p.expression), ("plan", plan), ("rank", len(p.sizes)))
    build = Build(elementwise_rows, (*_buffers(p), _SIZE, _SIZE, *declared), keywords)
    return _made(p, "rows", build, -(-rows // turns), (rows, turns, *numbers))


def _short(p: _Problem) -> Launch | None:
    """Return the launch for short rows, None if its unrolled code would be too long."""
    if len(p.sizes) != 2 or p.sizes[-1] * p.expression.weight > _UNROLLED:
        return None
    rows, length = p.sizes
    width = _width(p.expression, p.info)
    lies = tuple(_lie(a, b, length) for a, b in p.strides)
    if length > _APART and "apart" in lies:
        return _rows(p)
    turns = greatest(_CHUNK // (p.value_bytes * length * width), 1) * width
    keywords = (
        ("expression", p.expression),
        ("plan", _blueprint(p, width)),
        ("length", length),
        ("lies", lies),
    )
    declared = (_SIZE, _SIZE, *(Scalar(int64),) * (2 * len(p.views)))
    build = Build(elementwise_short, (*_buffers(p), *declared), keywords)
    numbers = (rows, turns, *(n for s in p.strides for n in s))
    return _made(p, "short", build, -(-rows // turns), numbers)


def _lie(down: int, along: int, length: int) -> str:
    """Return the layout of short rows in memory."""
    if along == 1 and down == length:
        return "dense"
    return "row" if down == 0 else "column" if along == 0 else "apart"


def _lanes(p: _Problem, width: int) -> Launch:
    dtype = index_dtype(*(_reach(v) for v in p.views), p.count)
    if dtype not in p.info.dtypes:
        dtype = int32
    declared, numbers = _layout(p, dtype)
    chunk = _chunk(p, p.units * width)
    dense = row_major(p.sizes)
    steps = tuple(1 if s == dense else -1 for s in p.strides)
    plan = replace(_blueprint(p, width), steps=steps)
    keywords = (("expression", p.expression), ("plan", plan), ("rank", len(p.sizes)))
    size = Scalar(dtype, nonnegative=True)
    build = Build(
        elementwise_lanes,
        (*_buffers(p), size, size, *declared),
        keywords,
        (p.units, 1, 1),
        index=dtype,
    )
    return _made(p, "lanes", build, -(-p.count // chunk), (p.count, chunk, *numbers))


def _reach(view: View) -> int:
    """Return the largest distance of a view's elements from its first one, in elements."""
    steps = (abs(s) * (n - 1) for n, s in zip(view.shape, view.strides, strict=True))
    return (sum(steps) + 1) * parts(view.dtype)


def _tiled_axis(p: _Problem) -> tuple[int, tuple[int, ...]] | None:
    """Return an axis that is dense in operands strided along the last axis, and these operands.

    None if there is none, or if tiles do not pay.
    """
    if p.sizes[-1] < _TILE // 2:
        return None
    for strides, view in zip(p.strides, p.views, strict=True):
        if strides[-1] in (0, 1) or view.dtype.is_complex or 1 not in strides[:-1]:
            continue
        axis = strides.index(1)
        if p.sizes[axis] < _TILE // 2:
            continue
        across = tuple(
            k
            for k, (s, v) in enumerate(zip(p.strides, p.views, strict=True))
            if s[axis] == 1 and s[-1] not in (0, 1) and not v.dtype.is_complex
        )
        return axis, across
    return None


def _tiles(p: _Problem, axis: int, across: tuple[int, ...]) -> Launch:
    width = min(_width(p.expression, p.info), _TILE)
    declared, numbers = _layout(p, int64)
    bands = -(-p.count // (p.sizes[-1] * p.sizes[axis])) * -(-p.sizes[axis] // width)
    turns = greatest(_CHUNK // (p.value_bytes * p.sizes[-1] * width), 1)
    plan = _blueprint(p, width)
    keywords = (
        ("expression", p.expression),
        ("plan", plan),
        ("rank", len(p.sizes)),
        ("axis", axis),
        ("across", across),
    )
    build = Build(elementwise_tiles, (*_buffers(p), _SIZE, _SIZE, *declared), keywords)
    return _made(p, "tiles", build, -(-bands // turns), (bands, turns, *numbers))


def _width(expression: Expression, info: DeviceInfo) -> int:
    """Return the lanes of a vector of the widest type of the expression.

    Units of large cubes are lanes themselves, and each has a single access of memory at a time.
    """
    widest: int = max(_computed(t, expression).itemsize for t in expression.dtypes)
    size = info.vector_bytes if info.max_units == 1 else min(info.vector_bytes, _ACCESS)
    return max(size // widest, 1)


def _computed(dtype: DType, expression: Expression) -> DType:
    """Return the dtype in which a dtype is computed; values that only move are not converted."""
    narrow = dtype in HALVES or dtype.kind == "storage"
    return float32 if narrow and expression.steps else stored(dtype)


def _alignment(view: View, info: DeviceInfo) -> int:
    """Return the alignment of a view's first element in bytes, as far as it helps.

    Only whole vectors and single elements are distinguished, so that kernels stay few.
    """
    element: int = view.dtype.itemsize
    return info.align if view.offset * element % info.align == 0 else element


def _shared_tiles(p: _Problem, axis: int, across: tuple[int, ...]) -> Launch:
    shared = SIDE * (SIDE + 1) * sum(p.views[k].dtype.itemsize for k in across)
    fits = all(a <= b for a, b in zip(CUBE, p.info.max_cube, strict=True))
    if not fits or shared > p.info.shared_bytes or not p.info.has("barrier"):
        return _lanes(p, 1)
    declared, numbers = _layout(p, int64)
    wide, tall = -(-p.sizes[-1] // SIDE), -(-p.sizes[axis] // SIDE)
    tiles = p.count // (p.sizes[-1] * p.sizes[axis]) * wide * tall
    keywords = (
        ("expression", p.expression),
        ("plan", _blueprint(p, 1)),
        ("rank", len(p.sizes)),
        ("axis", axis),
        ("across", across),
    )
    build = Build(elementwise_shared_tiles, (*_buffers(p), _SIZE, _SIZE, *declared), keywords, CUBE)
    return _made(p, "tiles", build, tiles, (wide, tall, *numbers))


def _chunk(p: _Problem, step: int) -> int:
    """Return the values of a cube, a multiple of the values of a step."""
    if p.many:
        return step * 4
    return max(_CHUNK // (p.value_bytes * step), 1) * step
