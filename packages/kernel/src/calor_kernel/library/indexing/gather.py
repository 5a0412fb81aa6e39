"""Reads at computed indices: gather, gather_nd and take_along.

Requirements: elements are bits; rows are copied as vectors, single elements are gathered as vectors
of indices; negative indices count from the end, and one out of range is an error that names its
axis, not a wrong number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Generic, TypeVar

from calor.dtypes import int32
from calor.errors import ElementIndexError
from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds
from calor_kernel.contract.failures import LAST_FAILURE, Failure
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import (
    Input,
    Launch,
    Output,
    Request,
    Status,
    View,
    Work,
)
from calor_kernel.library.copying import as_bits
from calor_kernel.library.indexing.checked_index import (
    Failures,
    IndexedAxes,
    checked,
    quick_unravel,
)
from calor_kernel.library.indexing.cooperative import gather_at_once, is_small, row_grid
from calor_kernel.library.indexing.gather_columns import columns_launch
from calor_kernel.library.indexing.regions import share
from calor_kernel.library.steps import Steps

N = TypeVar("N")
# Failures are numbered in one int32.
STATUS = Bound(Status(), int32)
# Bytes that a cube of one unit reads.
_GRAIN = 1 << 15
# Units of a large cube, and elements of each that are on their way at the same time.
_UNITS, _TOGETHER = 256, 4
# Row lengths, in vectors, with specialised kernels.
_ROWS = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclass(frozen=True, slots=True)
class GatheredRows(Generic[N]):
    """Rows of ``length`` elements over (outer, picks), ``turns`` of them a unit.

    ``outer_step`` and ``step``: strides of the source; ``pick_step`` and ``part_step``: of indices.
    """

    rows: kl.SizeOf[N]
    turns: kl.SizeOf[N]
    length: kl.SizeOf[N]
    picks: kl.SizeOf[N]
    outer_step: kl.SizeOf[N]
    step: kl.SizeOf[N]
    pick_step: kl.SizeOf[N]
    part_step: kl.SizeOf[N]


@dataclass(frozen=True, slots=True)
class GatheredElements(Generic[N]):
    """Elements (outer, pick, inner) along an axis of ``size``, ``turns`` of them a unit."""

    count: kl.SizeOf[N]
    turns: kl.SizeOf[N]
    picks: kl.SizeOf[N]
    inner: kl.SizeOf[N]
    size: kl.SizeOf[N]
    outer_step: kl.SizeOf[N]
    step: kl.SizeOf[N]
    inner_step: kl.SizeOf[N]


@kl.kernel
def gather_rows(
    source: kl.In,
    indices: kl.In,
    target: kl.Out,
    status: Failures,
    over: GatheredRows[kl.Number],
    axes: IndexedAxes[kl.Number],
    *,
    width: int,
    vectors: int,
    flat: bool,
    own: bool,
) -> None:
    """Write each row of the target: elements of the source at the row's index.

    ``flat``: there is one outer row. ``own``: each has indices of its own. ``vectors``: the vectors
    of ``width`` elements of a row, or 0 if the build does not know.
    """
    length = over.length
    begin = kl.absolute_position() * over.turns
    for row in kl.loop_range(begin, kl.min(begin + over.turns, over.rows)):
        outer, pick = (0, row) if flat else kl.unravel(row, (1, over.picks))
        at = 0 * row if flat else outer * over.outer_step
        first = (row if own else pick) * over.pick_step
        for part, size in enumerate(axes.sizes):
            index = checked(indices[first + part * over.part_step], size, status, part + 1)
            at = at + index * axes.strides[part]
        if vectors > 0:
            loaded = [source.load(at + i * width, width) for i in range(vectors)]
            for i in range(vectors):
                target.store(row * (vectors * width) + i * width, loaded[i])
        elif width > 1:
            whole = length // width * width
            for i in kl.loop_range(0, whole, width):
                target.store(row * length + i, source.load(at + i, width))
            for i in kl.loop_range(whole, length):
                target[row * length + i] = source[at + i]
        else:
            for i in kl.loop_range(length):
                target[row * length + i] = source[at + i * over.step]


@kl.kernel
def gather_along(
    source: kl.In,
    indices: kl.In,
    target: kl.Out,
    status: Failures,
    over: GatheredElements[kl.Number],
    *,
    words: int,
    small: bool,
    together: int,
) -> None:
    """Write element (o, p, i) of the target: the source at (o, index at (o, p, i), i).

    An element is ``words`` items of memory. ``together``: the elements of a unit of a large cube,
    whose indices and items are on their way at the same time; 0 in other cubes.
    """
    if together:
        units = kl.cube_size(0)
        first = kl.cube_position(0) * (units * together) + kl.unit_index()
        numbers = [kl.min(first + t * units, over.count - 1) for t in range(together)]
        indexes = [indices[n] for n in numbers]
        places = [
            place_along(n, one, over, status, small)
            for n, one in zip(numbers, indexes, strict=True)
        ]
        found = [[source[at * words + word] for word in range(words)] for at in places]
        for t in range(together):
            n = first + t * units
            if n < over.count:
                for word in range(words):
                    target[n * words + word] = found[t][word]
        return
    begin = kl.absolute_position() * over.turns
    for n in kl.loop_range(begin, kl.min(begin + over.turns, over.count)):
        at = place_along(n, indices[n], over, status, small) * words
        for word in range(words):
            target[n * words + word] = source[at + word]


@kl.helper
def place_along(
    n: kl.Number,
    index: kl.Number,
    over: GatheredElements[kl.Number],
    status: Failures,
    small: bool,
) -> kl.Number:
    """Return the place in the source of element n of the target, whose index is given."""
    outer, _, i = quick_unravel(n, (1, over.picks, over.inner), small)
    position = checked(index, over.size, status, 1)
    return outer * over.outer_step + position * over.step + i * over.inner_step


def failures(sizes: Sequence[int], axes: Sequence[int]) -> tuple[Failure, ...]:
    """Return the errors of indices out of range, one per indexed axis, and one where none is.

    If there are more axes than numbers of failures, the last number stands for several.
    """
    message = "index {detail} is out of range"
    known = [
        Failure(ElementIndexError, message, axis, size)
        for axis, size in zip(axes, sizes, strict=True)
    ]
    if len(known) > LAST_FAILURE or not known:
        known[LAST_FAILURE - 1 :] = [Failure(ElementIndexError, message)]
    return tuple(known)


def lower_gather(request: Request) -> Sequence[Work]:
    """Take rows of x along an axis at indices of any shape."""
    x, indices = request.inputs
    axis = request.attributes["axis"]
    inner = prod(x.shape[axis + 1 :])
    outer = prod(x.shape[:axis])
    axes = IndexedAxes((x.shape[axis],), (inner,))
    return _rows(request, outer, indices.size, inner, axes, (axis,))


def lower_gather_nd(request: Request) -> Sequence[Work]:
    """Take parts of x at indices of its first axes."""
    x, indices = request.inputs
    depth = indices.shape[-1]
    inner = prod(x.shape[depth:])
    picks = prod(indices.shape[:-1])
    strides = x.strides[:depth] if x.size else (0,) * depth
    axes = IndexedAxes(x.shape[:depth], strides)
    return _rows(request, 1, picks, inner, axes, range(depth))


def _rows(
    request: Request,
    outer: int,
    picks: int,
    inner: int,
    axes: IndexedAxes[int],
    numbers: Sequence[int],
    own: Bound | None = None,
) -> Sequence[Work]:
    """Return the work that gathers rows; ``numbers``: those of the indexed axes.

    ``own``: indices of which each outer row has some of its own.
    """
    (x, indices), info = request.inputs, request.info
    rows = outer * picks
    bits = as_bits(x, info)
    count = x.dtype.itemsize // bits.dtype.itemsize
    length = inner * count
    if rows * length == 0:
        # Without elements or indices there is nothing to read, and no error.
        return [Work(())]
    wrong = failures(axes.sizes, numbers)
    axes = replace(axes, strides=tuple(s * count for s in axes.strides))
    if info.max_units > 1:
        return [
            Work((_cooperative(request, bits, rows, length, picks, axes, own),), failures=wrong)
        ]
    if len(axes.sizes) == length == 1:
        size = axes.sizes[0]
        given = operand(1, indices)
        made = columns_launch(bits, given, outer, picks, size, info, shared=True)
        return [Work((made,), failures=wrong)]
    width = max(1, info.vector_bytes // bits.dtype.itemsize)
    width = width if length >= width else 1
    units, turns = share(rows, length * bits.dtype.itemsize, info, _GRAIN)
    made = launch(
        gather_rows,
        Grid.line(-(-rows // (units * turns)), units),
        Effort("gather", 0, 2 * rows * length * bits.dtype.itemsize),
        source=operand(0, bits),
        indices=own or operand(1, indices),
        target=Bound(Output(), bits.dtype),
        status=STATUS,
        over=GatheredRows(
            rows=rows,
            turns=turns,
            length=length,
            picks=picks,
            outer_step=prod(axes.sizes) * length if outer > 1 else 0,
            step=1,
            pick_step=len(axes.sizes),
            part_step=1,
        ),
        axes=axes,
        width=width,
        vectors=length // width if width > 1 and length in [width * v for v in _ROWS] else 0,
        flat=outer == 1,
        own=own is not None,
    )
    return [Work((made,), failures=wrong)]


def _cooperative(
    request: Request,
    bits: View,
    rows: int,
    length: int,
    picks: int,
    axes: IndexedAxes[int],
    own: Bound | None,
) -> Launch:
    """Return the launch that writes ``rows`` rows of ``length`` elements of the source."""
    info, indices = request.info, request.inputs[1]
    width = max(1, info.vector_bytes // bits.dtype.itemsize)
    if bits.offset % width != 0 or length % width != 0:
        width = 1
    vectors = length // width
    flat = rows == picks
    read = rows if own else indices.size
    nbytes = rows * (2 * length * bits.dtype.itemsize) + read * indices.dtype.itemsize
    grid, split = row_grid(info, rows, vectors)
    return launch(
        gather_at_once,
        grid,
        Effort("gather", 0, nbytes),
        source=operand(0, bits),
        indices=own or operand(1, indices),
        target=Bound(Output(), bits.dtype),
        status=STATUS,
        rows=rows,
        length=vectors,
        picks=picks,
        outer_step=0 if flat else prod(axes.sizes) * length,
        axes=axes,
        width=width,
        flat=flat,
        own=own is not None,
        small=is_small(rows),
        split=split,
    )


def lower_take_along(request: Request) -> Sequence[Work]:
    """Take the element at each index along an axis.

    Indices that are the same for all elements behind the axis take rows of these.
    """
    x, indices = request.inputs
    axis = request.attributes["axis"]
    if indices.size == 0:
        return [Work(())]
    last = axis + 1
    beside = zip(indices.shape[last:], indices.strides[last:], strict=True)
    shared = all(step == 0 for n, step in beside if n > 1)
    if shared and prod(x.shape[last:]) > 1:
        view = View(indices.shape[:last], indices.strides[:last], indices.dtype, indices.offset)
        outer, picks, inner = prod(x.shape[:axis]), indices.shape[axis], prod(x.shape[last:])
        axes = IndexedAxes((x.shape[axis],), (inner,))
        return _dense_indices(
            request, view, lambda own: _rows(request, outer, picks, inner, axes, (axis,), own)
        )
    return _dense_indices(request, indices, lambda dense: _elements(request, dense))


def _dense_indices(
    request: Request, view: View, works: Callable[[Bound], Sequence[Work]]
) -> Sequence[Work]:
    """Return the works of dense indices, after a copy if those of a view are not."""
    if view.is_dense:
        return works(operand(1, view))
    steps = Steps()
    own = steps.room(view.size, view.dtype)
    steps.copy(view, Input(1), own.place, request.info)
    return [
        replace(made, launches=(*steps.launches, *made.launches), scratch=tuple(steps.scratch))
        for made in works(own)
    ]


def _elements(request: Request, dense: Bound) -> Sequence[Work]:
    """Return the work that takes an element at each of dense indices."""
    x, indices = request.inputs
    info = request.info
    axis = request.attributes["axis"]
    bits = as_bits(x, info)
    count = x.dtype.itemsize // bits.dtype.itemsize
    inner, size = prod(x.shape[axis + 1 :]), x.shape[axis]
    wrong = failures((size,), (axis,))
    if info.max_units == 1 and inner * count == 1:
        picks = indices.shape[axis]
        rows = prod(indices.shape[:axis])
        made = columns_launch(bits, dense, rows, picks, size, info, shared=False)
        return [Work((made,), failures=wrong)]
    units, turns = share(indices.size, x.dtype.itemsize, info, _GRAIN)
    together = 0
    if info.max_units >= _UNITS and exceeds(indices.size, info.cores * _UNITS * _TOGETHER):
        units, turns, together = _UNITS, _TOGETHER, _TOGETHER
    nbytes = 2 * indices.size * x.dtype.itemsize + indices.size * indices.dtype.itemsize
    made = launch(
        gather_along,
        Grid.line(-(-indices.size // (units * turns)), units),
        Effort("take along", 0, nbytes),
        source=operand(0, bits),
        indices=dense,
        target=Bound(Output(), bits.dtype),
        status=STATUS,
        over=GatheredElements(
            count=indices.size,
            turns=turns,
            picks=indices.shape[axis],
            inner=inner,
            size=size,
            outer_step=size * inner,
            step=inner,
            inner_step=1,
        ),
        words=count,
        small=info.max_units > 1 and indices.size < 1 << 30,
        together=together,
    )
    return [Work((made,), failures=wrong)]
