"""Writes at computed indices: scatter_nd and scatter_along with every update.

Requirements: parallel and bitwise reproducible: each cube owns a part of the result and reads the
indices in their order, so the last assignment wins and sums have one order; half types are updated
in float32 and rounded once, like the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Generic, TypeVar

from calor.dtypes import DType, bool_, float32, float64, uint8
from calor.specs import Spec
from calor_kernel.contract.choices import least, spec_of
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import (
    LOWERINGS,
    Argument,
    Failure,
    Input,
    Launch,
    Output,
    Refusal,
    Request,
    Scratch,
    View,
    Work,
    lowering,
)
from calor_kernel.language import (
    In,
    InOut,
    Number,
    Pointer,
    SizeOf,
    cube_position,
    helper,
    kernel,
    loop_range,
    min,
)
from calor_kernel.library.copying import as_bits
from calor_kernel.library.indexing.checked_index import Failures, IndexedAxes, checked
from calor_kernel.library.indexing.cooperative import AlongAxis, UpdatedRows
from calor_kernel.library.indexing.cooperative_launch import (
    STATUS,
    Scatter,
    at_once,
    strides_of,
)
from calor_kernel.library.indexing.gather import failures
from calor_kernel.library.indexing.regions import dense_copy
from calor_kernel.library.indexing.scatter_elements import UpdatedElements, scatter_elements
from calor_kernel.library.indexing.update_ops import updated
from calor_kernel.library.redirection import redirected

N = TypeVar("N")
_COMPLEX = {8: float32, 16: float64}


@dataclass(frozen=True, slots=True)
class ScatteredRows(Generic[N]):
    """Updates of ``rows`` rows of ``length`` elements, ``picks`` in all.

    Cube x owns ``share`` rows from x · share on, cube y ``columns`` elements of each row.
    ``pick_step`` and ``part_step``: strides of indices.
    """

    rows: SizeOf[N]
    picks: SizeOf[N]
    length: SizeOf[N]
    share: SizeOf[N]
    columns: SizeOf[N]
    pick_step: SizeOf[N]
    part_step: SizeOf[N]


@dataclass(frozen=True, slots=True)
class ScatteredElements(Generic[N]):
    """Updates (outer, pick, inner) along an axis of ``size``.

    Cube x owns ``outer_share`` outer rows, cube y ``share`` positions of the axis.
    """

    outers: SizeOf[N]
    picks: SizeOf[N]
    inner: SizeOf[N]
    size: SizeOf[N]
    outer_share: SizeOf[N]
    share: SizeOf[N]


@kernel
def scatter_rows(
    target: InOut,
    indices: In,
    updates: In,
    status: Failures,
    over: ScatteredRows[Number],
    axes: IndexedAxes[Number],
    *,
    width: int,
    update: str,
    pair: bool,
) -> None:
    """Update rows of the target from rows of the updates, in their order.

    Strides of ``axes`` are in rows. ``pair``: elements are (real, imaginary).
    """
    length = over.length
    first = cube_position(0) * over.share
    last = min(first + over.share, over.rows)
    begin = cube_position(1) * over.columns
    end = min(begin + over.columns, length)
    for pick in loop_range(0, over.picks):
        row = 0 * pick
        for part, size in enumerate(axes.sizes):
            at = pick * over.pick_step + part * over.part_step
            row = row + checked(indices[at], size, status, part + 1) * axes.strides[part]
        if (row >= first) and (row < last):
            update_row(
                target, row * length, updates, pick * length, begin, end, width, update, pair
            )


@helper
def update_row(
    target: Pointer,
    to: Number,
    updates: Pointer,
    at: Number,
    begin: Number,
    end: Number,
    width: int,
    update: str,
    pair: bool,
) -> None:
    """Update one row from ``begin`` to ``end``."""
    step = 2 if pair else width
    whole = begin + (end - begin) // step * step
    for i in loop_range(begin, whole, step):
        if pair:
            multiply_pair(target, to + i, updates, at + i)
        else:
            new = updates.load(at + i, width).to(target.dtype)
            if update != "assign":
                new = updated(update, target.load(to + i, width), new)
            target.store(to + i, new)
    if not pair:
        for i in loop_range(whole, end):
            new = updates[at + i].to(target.dtype)
            target[to + i] = new if update == "assign" else updated(update, target[to + i], new)


@helper
def multiply_pair(target: Pointer, to: Number, updates: Pointer, at: Number) -> None:
    """Multiply one complex number by another."""
    a, b = target[to], target[to + 1]
    c, d = updates[at].to(target.dtype), updates[at + 1].to(target.dtype)
    target[to] = a * c - b * d
    target[to + 1] = a * d + b * c


@kernel
def scatter_along(
    target: InOut,
    indices: In,
    updates: In,
    status: Failures,
    over: ScatteredElements[Number],
    *,
    words: int,
    update: str,
    pair: bool,
) -> None:
    """Update elements along an axis; an element is ``words`` items of memory."""
    size, inner = over.size, over.inner
    first_outer = cube_position(0) * over.outer_share
    first = cube_position(1) * over.share
    last = min(first + over.share, size)
    for outer in loop_range(first_outer, min(first_outer + over.outer_share, over.outers)):
        for pick in loop_range(0, over.picks):
            for i in loop_range(inner):
                n = (outer * over.picks + pick) * inner + i
                index = checked(indices[n], size, status, 1)
                if (index >= first) and (index < last):
                    to = ((outer * size + index) * inner + i) * words
                    if pair:
                        multiply_pair(target, to, updates, n * words)
                    else:
                        for word in range(words):
                            new = updates[n * words + word].to(target.dtype)
                            if update != "assign":
                                new = updated(update, target[to + word], new)
                            target[to + word] = new


class Target:
    """The memory that a scatter updates: the result, or a wide copy that is rounded at the end."""

    def __init__(self, request: Request, update: str) -> None:
        x, _, updates = request.inputs
        (result,) = request.outputs
        info = request.info
        self.request, self.update = request, update
        self.before: list[Launch] = []
        self.after: list[Launch] = []
        self.scratch: tuple[int, ...] = ()
        self.in_place: tuple[tuple[int, int], ...] = ((0, 0),)
        self.words, self.pair = 1, False
        self.updates = operand(2, updates)
        self.memory = Bound(Output(), x.dtype)
        if update == "assign":
            bits = as_bits(x, info)
            self.memory = Bound(Output(), bits.dtype)
            self.words = x.dtype.itemsize // bits.dtype.itemsize
            self.updates = Bound(Input(2, as_bits(updates, info).offset), bits.dtype)
        elif x.dtype.kind == "complex":
            part: DType = _COMPLEX[x.dtype.itemsize]
            self.memory = Bound(Output(), part)
            self.words, self.pair = 2, update == "mul"
            self.updates = Bound(Input(2, updates.offset * 2), part)
        elif x.dtype.kind == "float" and x.dtype.itemsize == 2:
            wide = spec_of(x.shape, float32)
            self.before = _cast(request, x, wide, {Output(0): Scratch(0)})
            view = View.dense(wide)
            self.after = _cast(request, view, result, {Input(0): Scratch(0)})
            self.scratch = (wide.nbytes,)
            self.memory = Bound(Scratch(0), float32)
            self.in_place = ()
            return
        elif x.dtype is bool_:
            # The greater of two truth values is their or.
            self.memory = Bound(Output(), uint8)
            self.updates = Bound(self.updates.place, uint8)
        self.before = dense_copy(x, 0, result, info)

    @property
    def given(self) -> dict[str, object]:
        """The memory of a scatter's own launch."""
        return {
            "target": self.memory,
            "indices": operand(1, self.request.inputs[1]),
            "updates": self.updates,
            "status": STATUS,
            "update": self.update,
        }

    def at_once(
        self,
        picks: int,
        count: int,
        length: int,
        rows: UpdatedRows[int],
        wrong: tuple[Failure, ...],
    ) -> list[Work] | Refusal:
        """Return the whole work of ``picks`` updates of rows by cubes of many units."""
        first = len(self.scratch)
        made = Scatter(self.request, self.memory, self.updates, picks, count, length, rows, first)
        own = made.launches()
        if isinstance(own, Refusal):
            return own
        launches = (*self.before, *own, *self.after)
        return [Work(launches, (*self.scratch, *made.scratch), self.in_place, wrong)]

    def work(self, launch: Launch | None, wrong: tuple[Failure, ...]) -> list[Work]:
        """Return the whole work around the scatter's own launch."""
        own = [] if launch is None else [launch]
        launches = (*self.before, *own, *self.after)
        return [Work(launches, self.scratch, self.in_place, wrong)]


def _cast(
    request: Request, view: View, result: Spec, memory: dict[Argument, Argument]
) -> list[Launch]:
    asked = replace(
        request, op="cast", attributes={"dtype": result.dtype}, inputs=(view,), outputs=(result,)
    )
    found = LOWERINGS["cast"](asked)
    assert not isinstance(found, Refusal)
    return [redirected(launch, memory) for launch in found[0].launches]


@lowering("scatter_nd", dense=(0, 1, 2))
def lower_scatter_nd(request: Request) -> Sequence[Work] | Refusal:
    """Update parts of x at indices of its first axes."""
    x, indices, _ = request.inputs
    update = request.attributes["update"]
    info = request.info
    depth = indices.shape[-1]
    sizes = x.shape[:depth]
    picks, rows = prod(indices.shape[:-1]), prod(sizes)
    target = Target(request, update)
    length = prod(x.shape[depth:]) * target.words
    wrong = failures(request.op, sizes, range(depth))
    if picks * length * rows == 0:
        return target.work(None, wrong)
    axes = IndexedAxes(sizes, strides_of(sizes))
    if at_once(info) and not target.pair:
        return target.at_once(picks, rows, length, UpdatedRows(axes=axes), wrong)
    itemsize = target.memory.dtype.itemsize
    width = max(1, info.vector_bytes // max(itemsize, target.updates.dtype.itemsize))
    width = width if length >= width else 1
    # Every cube reads all indices, so there are no more cubes than cores.
    across = min(info.cores, max(1, length // max(4 * width, 64)))
    columns = -(-length // across)
    columns = columns + columns % 2 if target.pair else -(-columns // width) * width
    down = min(rows, max(1, info.cores // across))
    share = -(-rows // down)
    made = launch(
        scatter_rows,
        Grid((-(-rows // share), -(-length // columns), 1)),
        Effort(f"scatter {update}", picks * length, 3 * picks * length * itemsize),
        over=ScatteredRows(rows, picks, length, share, columns, depth, 1),
        axes=axes,
        width=width,
        pair=target.pair,
        **target.given,
    )
    return target.work(made, wrong)


@lowering("scatter_along", dense=(0, 1, 2))
def lower_scatter_along(request: Request) -> Sequence[Work] | Refusal:
    """Update elements of x at indices along an axis."""
    x, indices, _ = request.inputs
    update, axis = request.attributes["update"], request.attributes["axis"]
    info = request.info
    target = Target(request, update)
    size, inner = x.shape[axis], prod(x.shape[axis + 1 :])
    outers, picks = prod(x.shape[:axis]), indices.shape[axis]
    wrong = failures(request.op, (size,), (axis,))
    if indices.size == 0:
        return target.work(None, wrong)
    if at_once(info) and not target.pair:
        rows = UpdatedRows(along=AlongAxis(picks, size, inner))
        return target.at_once(indices.size, outers * size * inner, target.words, rows, wrong)
    if info.max_units == 1 and inner * target.words == 1 and not target.pair:
        return target.work(_elements(target, outers, picks, size), wrong)
    across = least(outers, 4 * info.cores)
    outer_share = -(-outers // across)
    down = max(1, info.cores // across) if picks * inner > 1 << 12 else 1
    share = -(-max(size, 1) // down)
    made = launch(
        scatter_along,
        Grid((-(-outers // outer_share), -(-max(size, 1) // share), 1)),
        Effort(f"scatter along {update}", indices.size, 3 * indices.size * x.dtype.itemsize),
        over=ScatteredElements(outers, picks, inner, size, outer_share, share),
        words=target.words,
        pair=target.pair,
        **target.given,
    )
    return target.work(made, wrong)


def _elements(target: Target, outers: int, picks: int, size: int) -> Launch:
    """Return the launch that updates elements of rows, on cubes of one unit."""
    info = target.request.info
    across = least(outers, 4 * info.cores)
    outer_share = -(-outers // across)
    few = picks <= 1 << 12 or not info.has("compress") or size >= 1 << 31
    # Two cubes that read all indices take as long as one that reads and updates.
    down = 1 if few or info.cores < 4 else max(1, info.cores // across)
    share = -(-max(size, 1) // down)
    count = picks * outers
    return launch(
        scatter_elements,
        Grid((-(-outers // outer_share), -(-max(size, 1) // share), 1)),
        Effort(
            f"scatter elements {target.update}", count, 3 * count * target.memory.dtype.itemsize
        ),
        over=UpdatedElements(outers, picks, size, outer_share, share),
        owned=down > 1,
        **target.given,
    )
