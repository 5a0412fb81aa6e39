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
from typing import Final, NamedTuple

from calor.dtypes import DType, float32, int32, int64
from calor.specs import Spec
from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds, greatest, is_size, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.movement import coalesced
from calor_kernel.contract.ways import Way, ranked, serves
from calor_kernel.contract.work import Candidates, Input, Output, Request, View, Work, row_major
from calor_kernel.library.elementwise.operations import Expression
from calor_kernel.library.elementwise.row_spans import (
    RowSpans,
    elementwise_spans,
    layout_of,
)
from calor_kernel.library.elementwise.row_vectors import ShortRows, elementwise_short
from calor_kernel.library.elementwise.strided import (
    Blueprint,
    elementwise_flat,
    elementwise_lanes,
    elementwise_rows,
    elementwise_runs,
    elementwise_vectors,
)
from calor_kernel.library.elementwise.tiles import (
    Tiling,
    elementwise_shared_tiles,
    elementwise_tiles,
)
from calor_kernel.library.elementwise.values import HALVES, parts, stored
from calor_kernel.library.transposition import SharedTile, is_small, masks, shortest, side_of

# Bytes that a cube of one unit reads and writes: some microseconds of work.
_CHUNK: Final = 1 << 16
# Instructions of an expression that is cheap beside its loads, and of one that compiles slowly.
_LIGHT: Final = 8
_LONG: Final = 200
_LONG_ROW: Final = 16  # values along the last axis for which it is worth a loop of its own
_APART: Final = 4  # values along the last axis up to which single values are read
_UNROLLED: Final = 250  # instructions of short rows that are written out
_UNITS: Final = 256  # in a cube
_TURNS: Final = 4  # of a unit at most
_CUBES: Final = 2  # of a core, from which units take several turns
_ACCESS: Final = 16  # bytes that a unit reads or writes at once
_NARROWEST: Final = 8  # values along both axes from which tiles of many units pay
_PARTS: Final = "results are parts of larger ones"
_APART_RESULTS: Final = "elements of a result are not adjacent"


class Target(NamedTuple):
    """Where a result is written: the number of an output, and the first element there.

    ``join``: the number of its strides, if it is a part of the output; −1 if it is dense.
    """

    output: int
    offset: int = 0
    join: int = -1


@dataclass(frozen=True, slots=True)
class Problem:
    """An expression with its operands on common axes, merged as far as possible.

    ``joins``: strides of outputs of which some results are parts. ``targets``: where each result is
    written; empty if each is an output.
    """

    expression: Expression
    views: tuple[View, ...]
    outputs: tuple[Spec, ...]
    info: DeviceInfo
    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    joins: tuple[tuple[int, ...], ...] = ()
    targets: tuple[Target, ...] = ()

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
    def is_flat(self) -> bool:
        """Whether operands are dense, or single values."""
        dense = all(s == (1,) for s in self.joins)
        return dense and len(self.sizes) == 1 and all(s[0] in (0, 1) for s in self.strides)

    @property
    def in_rows(self) -> bool:
        """Whether results are adjacent along the last axis, as parts of one element are not."""
        return all(s[-1] == 1 for s in self.joins)

    @property
    def value_bytes(self) -> int:
        """The bytes read and written for one value of the results."""
        dtypes = (*(v.dtype for v in self.views), *(s.dtype for s in self.outputs))
        return sum(int(t.itemsize) for t in dtypes)

    @property
    def width(self) -> int:
        """The lanes of a vector of the widest type of the expression.

        Units of large cubes are lanes themselves, and each has a single access of memory at a time.
        """
        # Values that only move are not converted.
        computes, dtypes = bool(self.expression.steps), self.expression.dtypes
        narrow = [computes and (t in HALVES or t.kind == "storage") for t in dtypes]
        pairs = zip(dtypes, narrow, strict=True)
        widest = max(int((float32 if less else stored(t)).itemsize) for t, less in pairs)
        size = self.info.vector_bytes if not self.many else min(self.info.vector_bytes, _ACCESS)
        return max(size // widest, 1)

    @property
    def vectors(self) -> int:
        """The vectors of the device that a unit computes together.

        They hide the latency of instructions. That helps even functions of 80 instructions, whose
        values exceed the registers, since their instructions form one dependent chain.
        """
        several = 2 if self.expression.weight >= _LONG else 4
        return max(several // max(parts(t) for t in self.expression.dtypes), 1)

    def is_even(self, width: int) -> bool:
        """Return whether the values are whole vectors at every size that the plan is for."""
        rest = self.count % width
        return not is_size(rest) and rest == 0

    @property
    def past_caches(self) -> bool:
        """Whether the operands and results exceed the last-level cache."""
        cached = self.info.native.get("shared_cache", 0)
        return bool(cached) and not self.many and exceeds(self.count * self.value_bytes, cached)

    @property
    def whole(self) -> int:
        """The alignment of the starts of all results in bytes."""
        found = int(self.info.align)
        for target, spec in zip(self.targets, self.outputs, strict=False):
            while target.offset * spec.dtype.itemsize % found:
                found //= 2
        return found

    def chunk(self, step: int) -> int:
        """Return the values of a cube, a multiple of the values of a step."""
        if self.many:
            return step * turns(self.count, step, self.info, _TURNS)
        return max(_CHUNK // (self.value_bytes * step), 1) * step

    def blueprint(self, width: int) -> Blueprint:
        """Return the build-time parameters of a kernel."""
        steps = tuple(s[-1] if s[-1] in (0, 1) else -1 for s in self.strides)
        # Only whole vectors and single elements are distinguished, so that kernels stay few.
        whole = self.info.align
        sizes = [int(v.dtype.itemsize) for v in self.views]
        align = [
            whole if v.offset * n % whole == 0 else n
            for v, n in zip(self.views, sizes, strict=True)
        ]
        shared = self.expression.weight > _LIGHT
        joined = () if self.is_flat else tuple(t.join for t in self.targets)
        given = self.expression, steps, (*align, self.whole), width
        return Blueprint(*given, shared_body=shared, joined=joined)

    def launch(
        self, kernel: kl.KernelFunction, kind: str, grid: Grid, **given: object
    ) -> list[Work]:
        """Return the work of one launch."""
        cubes = (greatest(grid.cubes[0], 1), 1, 1)
        effort = Effort(kind, self.count * self.expression.weight, self.count * self.value_bytes)
        sources = [
            Bound(Input(k, v.offset * parts(v.dtype)), stored(v.dtype))
            for k, v in enumerate(self.views)
        ]
        places = self.targets or [Target(k) for k in range(len(self.outputs))]
        targets = [
            Bound(Output(t.output, t.offset * parts(s.dtype)), stored(s.dtype))
            for t, s in zip(places, self.outputs, strict=True)
        ]
        grid = replace(grid, cubes=cubes)
        return [Work((launch(kernel, grid, effort, sources=sources, targets=targets, **given),))]


def problem_of(
    expression: Expression,
    views: Sequence[View],
    outputs: Sequence[Spec],
    info: DeviceInfo,
    joins: Sequence[tuple[int, ...]] = (),
    targets: Sequence[Target] = (),
) -> Problem:
    """Return the problem of an expression on views of one shape."""
    shape, count = outputs[0].shape, len(views)
    dense = row_major(shape)
    sizes, strides = coalesced(shape, *(v.strides for v in views), *joins, dense)
    if not sizes:
        sizes, strides = (1,), (*((0,),) * count, *((1,),) * len(joins))
    form = sizes, strides[:count], strides[count : count + len(joins)]
    return Problem(expression, tuple(views), tuple(outputs), info, *form, tuple(targets))


def lower_expression(
    expression: Expression, views: Sequence[View], outputs: Sequence[Spec], info: DeviceInfo
) -> Candidates:
    """Return the launches of an expression on views of one shape; results are dense."""
    problem = problem_of(expression, views, outputs, info)
    found = lower_problem(problem)
    if problem.many and problem.count == 1:
        # All units read the single value, and one of them writes.
        return found
    in_place = tuple(
        (k, n)
        for k, v in enumerate(views)
        for n, s in enumerate(outputs)
        if v.dtype.itemsize == s.dtype.itemsize
    )
    return Candidates.of((replace(work, in_place=in_place) for work in found), found.dropped)


def turns(count: int, step: int, info: DeviceInfo, most: int) -> int:
    """Return the turns of a unit, up to some; ``step``: the values of a cube in one.

    Few values are one turn of many cubes, since a unit waits for memory in each turn.
    """
    return least(greatest(count // (step * _CUBES * info.cores), 1), most)


def lower_problem(problem: Problem) -> Candidates:
    """Return the launches of a problem, without what they may do in place."""
    request = Request("elementwise", {}, problem.views, problem.outputs, problem.info)
    return ranked(_WAYS, problem, request)


def _flat_refusal(p: Problem, request: Request) -> str | None:
    return None if not p.count or p.is_flat else "operands are not dense"


def _flat(p: Problem, request: Request) -> list[Work]:
    count = p.count
    if not count:
        p = replace(p, sizes=(1,), strides=((0,),) * len(p.views))
    width = p.width if p.many else p.width * p.vectors
    chunk = p.chunk(p.units * width)
    # Cubes of many units have whole vectors alone where the values are some.
    by = replace(p.blueprint(width), nontemporal=p.past_caches, even=p.many and p.is_even(width))
    grid = Grid.line(-(-count // chunk), p.units, index=_index(p) if p.many else int64)
    return p.launch(elementwise_flat, "elementwise.flat", grid, count=count, chunk=chunk, by=by)


def _tiling(p: Problem) -> Tiling | None:
    """Return an axis that is dense in operands strided along the last axis, and these operands.

    None if there is none, or if tiles do not pay.
    """
    for strides, view in zip(p.strides, p.views, strict=True):
        if strides[-1] in (0, 1) or view.dtype.is_complex or 1 not in strides[:-1]:
            continue
        axis = strides.index(1)
        across = tuple(
            k
            for k, (s, v) in enumerate(zip(p.strides, p.views, strict=True))
            if s[axis] == 1 and s[-1] not in (0, 1) and not v.dtype.is_complex
        )
        smallest = min(int(p.views[k].dtype.itemsize) for k in across)
        fewest = _NARROWEST if p.many else shortest(p.info, smallest)
        if min(p.sizes[-1], p.sizes[axis]) >= fewest:
            return Tiling(axis, across, not p.many and masks(p.info, smallest))
    return None


def _tiles_refusal(p: Problem, request: Request) -> str | None:
    if p.joins:
        return _PARTS
    tiling = _tiling(p)
    if tiling is None:
        return "no operand is dense along another axis than the results"
    if not p.many:
        return None
    if tiling.axis == len(p.sizes) - 2 and all(
        is_small(p.sizes[-1], p.strides[k][-1], p.views[k].dtype.itemsize, p.info)
        for k in tiling.across
    ):
        return "planes are small, so that units read across them"
    tile = SharedTile.of(p.sizes[tiling.axis], p.sizes[-1])
    shared = sum(p.info.shared_room(tile.size, p.views[k].dtype.itemsize) for k in tiling.across)
    if shared <= p.info.shared_bytes and p.info.has("barrier"):
        return None
    return "the device has no cubes with enough shared memory"


def _tiles(p: Problem, request: Request) -> list[Work]:
    tiling = _tiling(p)
    assert tiling is not None
    length, height = p.sizes[-1], p.sizes[tiling.axis]
    given: dict[str, object] = {"sizes": p.sizes, "strides": p.strides, "tiling": tiling}
    if p.many:
        tile = SharedTile.of(height, length)
        units = tile.units(p.info)
        wide, tall = -(-length // tile.columns), -(-height // tile.rows)
        cubes = p.count // (length * height) * wide * tall
        run = tile.run(length, min(int(s.dtype.itemsize) for s in p.outputs), units)
        by = p.blueprint(run if p.whole % _ACCESS == 0 else 1)
        given |= {"wide": wide, "tall": tall, "by": by, "tile": tile, "units": units}
        grid = Grid.line(cubes, units, index=_index(p))
        return p.launch(elementwise_shared_tiles, "elementwise.tiles", grid, **given)
    width = side_of(height, length, p.width)
    bands = -(-p.count // (length * height)) * -(-height // width)
    turns = greatest(_CHUNK // (p.value_bytes * length * width), 1)
    given |= {"bands": bands, "turns": turns, "by": p.blueprint(width)}
    return p.launch(elementwise_tiles, "elementwise.tiles", Grid.line(-(-bands // turns)), **given)


def _long_refusal(p: Problem) -> str | None:
    """Return why short rows cannot be written out."""
    if len(p.sizes) != 2:
        return "short rows are on several axes"
    if p.sizes[-1] * p.expression.weight > _UNROLLED:
        return "rows are too long to be written out"
    return None


def _short_refusal(p: Problem, request: Request) -> str | None:
    if p.joins:
        return _PARTS
    if p.many:
        return "units of large cubes are lanes"
    if p.sizes[-1] >= _LONG_ROW:
        return "rows are long"
    long = _long_refusal(p)
    if long is None and "apart" in _layouts(p) and p.sizes[-1] > _APART:
        return "single values would be read"
    return long


def _short(p: Problem, request: Request) -> list[Work]:
    rows, length = p.sizes
    width = p.width
    turns = greatest(_CHUNK // (p.value_bytes * length * width), 1) * width
    return p.launch(
        elementwise_short,
        "elementwise.short",
        Grid.line(-(-rows // turns)),
        rows=rows,
        turns=turns,
        strides=p.strides,
        by=p.blueprint(width),
        form=ShortRows(length, _layouts(p)),
    )


def _layouts(p: Problem) -> tuple[str, ...]:
    """Return the layouts of short rows in memory."""
    return tuple(_layout(a, b, p.sizes[-1]) for a, b in p.strides)


def _layout(down: int, along: int, length: int) -> str:
    if along == 1 and down == length:
        return "dense"
    return "row" if down == 0 else "column" if along == 0 else "apart"


def _rows_refusal(p: Problem, request: Request) -> str | None:
    if p.many:
        return "units of large cubes are lanes"
    if not p.in_rows:
        return _APART_RESULTS
    return _long_refusal(p) if p.sizes[-1] < _LONG_ROW else None


def _rows(p: Problem, request: Request) -> list[Work]:
    width = p.width
    if all(s[-1] in (0, 1) for s in p.strides):
        width *= p.vectors
    while width >= 2 * p.sizes[-1]:
        width //= 2
    rows = prod(p.sizes[:-1])
    turns = greatest(_CHUNK // (p.value_bytes * p.sizes[-1]), 1)
    lengths = (p.sizes[-1], *(n for s in p.joins for n in s[:-1]))
    # A remainder that is open may be any.
    rests = [n * s.dtype.itemsize % p.info.align for n in lengths for s in p.outputs]
    even = not any(is_size(rest) or rest for rest in rests)
    return p.launch(
        elementwise_rows,
        "elementwise.rows",
        Grid.line(-(-rows // turns)),
        rows=rows,
        turns=turns,
        sizes=p.sizes,
        strides=p.strides,
        joins=p.joins,
        by=replace(p.blueprint(width), even=even, nontemporal=even and p.past_caches),
    )


def _runs_refusal(p: Problem, request: Request) -> str | None:
    if p.many:
        return "units of large cubes are lanes"
    if p.joins:
        return _PARTS
    if len(p.sizes) < 2 or not 2 <= p.sizes[-1] < _LONG_ROW:
        return "rows are long, or single values"
    if p.expression.weight >= _LONG:
        return "the expression compiles slowly"
    if any(s[-1] not in (0, 1) for s in p.strides):
        return "an operand is strided along the last axis"
    return None


def _runs(p: Problem, request: Request) -> list[Work]:
    width = p.width
    while width > p.sizes[-1]:
        width //= 2
    if 2 * width < p.sizes[-1]:
        return []
    rows = prod(p.sizes[:-1])
    turns = greatest(_CHUNK // (p.value_bytes * p.sizes[-1]), 1)
    return p.launch(
        elementwise_runs,
        "elementwise.runs",
        Grid.line(-(-rows // turns)),
        rows=rows,
        turns=turns,
        sizes=p.sizes,
        strides=p.strides,
        by=p.blueprint(width),
    )


def _spans_refusal(p: Problem, request: Request) -> str | None:
    if p.many:
        return "units of large cubes are lanes"
    if p.joins:
        return _PARTS
    if len(p.sizes) < 3 or not 2 <= p.sizes[-1] < _LONG_ROW:
        return "rows are long, single values, or on one axis"
    if p.expression.weight >= _LONG:
        return "the expression compiles slowly"
    if 2 * p.sizes[-1] > p.width or p.width % p.sizes[-1]:
        return "vectors are no whole rows"
    if p.sizes[-2] * p.sizes[-1] < p.width:
        return "the rows of the axis before fill no vector"
    return None


def _spans(p: Problem, request: Request) -> list[Work]:
    length = p.sizes[-1]
    rows, inner = prod(p.sizes[:-2]), p.sizes[-2] * length
    turns = greatest(_CHUNK // (p.value_bytes * inner), 1)
    return p.launch(
        elementwise_spans,
        "elementwise.spans",
        Grid.line(-(-rows // turns), index=_index(p)),
        rows=rows,
        turns=turns,
        sizes=p.sizes,
        strides=p.strides,
        by=p.blueprint(p.width),
        form=RowSpans(length, tuple(layout_of(s[-2], s[-1], length) for s in p.strides)),
    )


def _index(p: Problem) -> DType:
    """Return the type of positions of values."""
    # The largest distance of a view's elements from its first one.
    ends = [
        (sum(abs(s) * (n - 1) for n, s in zip(v.shape, v.strides, strict=True)) + 1)
        * parts(v.dtype)
        for v in p.views
    ]
    for target, spec in zip(p.targets, p.outputs, strict=False):
        if target.join >= 0:
            last = zip(p.sizes, p.joins[target.join], strict=True)
            ends.append((target.offset + sum(s * (n - 1) for n, s in last) + 1) * parts(spec.dtype))
    dtype = kl.index_dtype(*ends, p.count)
    return dtype if dtype in p.info.dtypes else int32


def _vectors_refusal(p: Problem, request: Request) -> str | None:
    width = p.width
    if not p.many or width == 1:
        return "units of the cube are no lanes, or have one value at a time"
    if p.sizes[-1] % width:
        return "the last axis is no whole vectors"
    if not p.in_rows:
        return _APART_RESULTS
    for strides, view in zip(p.strides, p.views, strict=True):
        if strides[-1] not in (0, 1):
            return "an operand is strided along the last axis"
        if strides[-1] and any(n % width for n in (view.offset, *strides[:-1])):
            return "vectors of an operand are not aligned"
    if any(n % width for s in p.joins for n in s[:-1]) or any(t.offset % width for t in p.targets):
        return "vectors of a result are not aligned"
    return None


def _vectors(p: Problem, request: Request) -> list[Work]:
    width = p.width
    chunk = p.chunk(p.units * width)
    by, whole = p.blueprint(width), p.info.align
    align = tuple(min(whole, width * int(v.dtype.itemsize)) for v in p.views)
    return p.launch(
        elementwise_vectors,
        "elementwise.vectors",
        Grid.line(-(-p.count // chunk), p.units, index=_index(p)),
        count=p.count,
        chunk=chunk,
        sizes=p.sizes,
        strides=p.strides,
        joins=p.joins,
        by=replace(by, align=(*align, whole)),
    )


def _lanes(p: Problem, request: Request) -> list[Work]:
    width = 1 if p.many else p.width
    chunk = p.chunk(p.units * width)
    dense = row_major(p.sizes)
    steps = tuple(1 if s == dense else -1 for s in p.strides)
    return p.launch(
        elementwise_lanes,
        "elementwise.lanes",
        Grid.line(-(-p.count // chunk), p.units, index=_index(p)),
        count=p.count,
        chunk=chunk,
        sizes=p.sizes,
        strides=p.strides,
        joins=p.joins,
        by=replace(p.blueprint(width), steps=steps),
    )


# The first way that does not refuse is the only candidate.
_WAYS: Final[tuple[Way[Problem], ...]] = (
    Way("elementwise.flat", _flat_refusal, _flat, spare=True),
    Way("elementwise.tiles", _tiles_refusal, _tiles, spare=True),
    Way("elementwise.short", _short_refusal, _short, spare=True),
    Way("elementwise.rows", _rows_refusal, _rows, spare=True),
    Way("elementwise.spans", _spans_refusal, _spans, spare=True),
    Way("elementwise.runs", _runs_refusal, _runs, spare=True),
    Way("elementwise.vectors", _vectors_refusal, _vectors, spare=True),
    Way("elementwise.lanes", serves, _lanes, spare=True),
)
