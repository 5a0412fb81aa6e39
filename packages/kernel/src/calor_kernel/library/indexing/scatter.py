"""Writing at computed places: scatter_nd and scatter_along with every update.

Requirements: parallel, and the same bits each time: each cube owns a part of the result and goes
through the indices in their order, so the last assignment wins and sums have one order; half types
are updated in float32 and rounded once, as the reference says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from calor.dtypes import DType, bool_, float32, float64, uint8
from calor_kernel.contract.choices import least, spec_of
from calor_kernel.contract.work import (
    LOWERINGS,
    Argument,
    Build,
    Input,
    Launch,
    Output,
    Refusal,
    Request,
    Scratch,
    Status,
    View,
    Work,
    lowering,
)
from calor_kernel.ir.types import Buffer
from calor_kernel.language import cube_position, helper, kernel, loop_range
from calor_kernel.library.copying import as_bits
from calor_kernel.library.indexing.checked_index import checked
from calor_kernel.library.indexing.cooperative_launch import Scatter, at_once, strides_of
from calor_kernel.library.indexing.gather import SIZE, STATUS, failures
from calor_kernel.library.indexing.regions import dense_copy
from calor_kernel.library.indexing.scatter_elements import scatter_elements
from calor_kernel.library.indexing.update_ops import updated
from calor_kernel.library.redirection import redirected

_COMPLEX = {8: float32, 16: float64}


@kernel
def scatter_rows(
    target: Any,
    indices: Any,
    updates: Any,
    status: Any,
    rows: Any,
    picks: Any,
    length: Any,
    share: Any,
    columns: Any,
    pick_step: Any,
    part_step: Any,
    *axes: Any,
    width: int,
    parts: int,
    update: str,
    pair: bool,
) -> None:
    """Update rows of the target from rows of the updates, in their order.

    The target has ``rows`` rows of ``length`` elements. Cube x owns ``share`` rows from x · share
    on, cube y ``columns`` elements of each row. ``axes`` are sizes and strides, in rows, of the
    indexed axes; an index has ``parts`` numbers, ``part_step`` apart. ``pair``: elements are
    (real, imaginary).
    """
    sizes, strides = axes[:parts], axes[parts:]
    first = cube_position(0) * share
    last = min(first + share, rows)
    begin = cube_position(1) * columns
    end = min(begin + columns, length)
    for pick in loop_range(0, picks):
        row = 0 * pick
        for part in range(parts):
            at = pick * pick_step + part * part_step
            row = row + checked(indices[at], sizes[part], status, part + 1) * strides[part]
        if (row >= first) and (row < last):
            update_row(
                target, row * length, updates, pick * length, begin, end, width, update, pair
            )


@helper
def update_row(
    target: Any,
    to: Any,
    updates: Any,
    at: Any,
    begin: Any,
    end: Any,
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
def multiply_pair(target: Any, to: Any, updates: Any, at: Any) -> None:
    """Multiply one complex number by another."""
    a, b = target[to], target[to + 1]
    c, d = updates[at].to(target.dtype), updates[at + 1].to(target.dtype)
    target[to] = a * c - b * d
    target[to + 1] = a * d + b * c


@kernel
def scatter_along(
    target: Any,
    indices: Any,
    updates: Any,
    status: Any,
    outers: Any,
    picks: Any,
    inner: Any,
    size: Any,
    outer_share: Any,
    share: Any,
    *,
    words: int,
    update: str,
    pair: bool,
) -> None:
    """Update elements along an axis: cube x owns outer rows, cube y ``share`` places of the axis.

    An element is ``words`` items of memory.
    """
    first_outer = cube_position(0) * outer_share
    first = cube_position(1) * share
    last = min(first + share, size)
    for outer in range(first_outer, min(first_outer + outer_share, outers)):
        for pick in loop_range(0, picks):
            for i in range(inner):
                n = (outer * picks + pick) * inner + i
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
    """Where a scatter is done: in the result, or in a wide copy that is rounded at the end."""

    def __init__(self, request: Request, update: str) -> None:
        x, _, updates = request.inputs
        (result,) = request.outputs
        info = request.info
        self.before: list[Launch] = []
        self.after: list[Launch] = []
        self.scratch: tuple[int, ...] = ()
        self.place: Argument = Output(0)
        self.in_place: tuple[tuple[int, int], ...] = ((0, 0),)
        self.words, self.pair = 1, False
        self.update_dtype = updates.dtype
        self.dtype: DType = x.dtype
        self.update_offset = updates.offset
        if update == "assign":
            bits, more = as_bits(x, info), as_bits(updates, info)
            self.dtype = self.update_dtype = bits.dtype
            self.words = x.dtype.itemsize // bits.dtype.itemsize
            self.update_offset = more.offset
        elif x.dtype.kind == "complex":
            self.dtype = self.update_dtype = _COMPLEX[x.dtype.itemsize]
            self.words, self.pair = 2, update == "mul"
            self.update_offset *= 2
        elif x.dtype.kind == "float" and x.dtype.itemsize == 2:
            self.dtype = float32
            wide = spec_of(x.shape, float32)
            self.before = _cast(request, x, wide, {Output(0): Scratch(0)})
            view = View.dense(wide)
            self.after = _cast(request, view, result, {Input(0): Scratch(0)})
            self.scratch = (wide.nbytes,)
            self.place = Scratch(0)
            self.in_place = ()
            return
        elif x.dtype is bool_:
            # The greater of two truth values is their or.
            self.dtype = self.update_dtype = uint8
        self.before = dense_copy(x, 0, result, info)

    def at_once(
        self,
        request: Request,
        picks: int,
        rows: int,
        length: int,
        axes: tuple[int, ...],
        parts: int,
        wrong: Any,
    ) -> list[Work] | Refusal:
        """Return the whole work of ``picks`` updates of rows by cubes of many units."""
        updates = (self.update_offset, self.update_dtype)
        taken = len(self.scratch)
        given = (picks, rows, length, parts, axes, taken)
        made = Scatter(request, self.place, self.dtype, updates, *given)
        own = made.launches()
        if isinstance(own, Refusal):
            return own
        launches = (*self.before, *own, *self.after)
        return [Work(launches, (*self.scratch, *made.scratch), self.in_place, wrong)]

    def work(self, launch: Launch | None, wrong: Any) -> list[Work]:
        """Return the whole work around the scatter's own launch."""
        own = [] if launch is None else [launch]
        launches = (*self.before, *own, *self.after)
        return [Work(launches, self.scratch, self.in_place, wrong)]


def _cast(request: Request, view: View, result: Any, places: dict[Any, Any]) -> list[Launch]:
    asked = replace(
        request, op="cast", attributes={"dtype": result.dtype}, inputs=(view,), outputs=(result,)
    )
    found = LOWERINGS["cast"](asked)
    assert not isinstance(found, Refusal)
    return [redirected(launch, places) for launch in found[0].launches]


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
    strides = strides_of(sizes)
    if at_once(info) and not target.pair:
        return target.at_once(request, picks, rows, length, (*sizes, *strides), depth, wrong)
    width = max(1, info.vector_bytes // max(target.dtype.itemsize, target.update_dtype.itemsize))
    width = width if length >= width else 1
    # Every cube reads all indices, so there are only as many as run at the same time.
    across = min(info.cores, max(1, length // max(4 * width, 64)))
    columns = -(-length // across)
    columns = columns + columns % 2 if target.pair else -(-columns // width) * width
    down = min(rows, max(1, info.cores // across))
    share = -(-rows // down)
    numbers = (rows, picks, length, share, columns, depth, 1)
    build = Build(
        scatter_rows,
        (
            Buffer(target.dtype),
            Buffer(indices.dtype, writable=False),
            Buffer(target.update_dtype, writable=False),
            STATUS,
            *(SIZE,) * (len(numbers) + 2 * depth),
        ),
        (("pair", target.pair), ("parts", depth), ("update", update), ("width", width)),
    )
    launch = Launch(
        build,
        (-(-rows // share), -(-length // columns), 1),
        (
            target.place,
            Input(1, indices.offset),
            Input(2, target.update_offset),
            Status(),
            *numbers,
            *sizes,
            *strides,
        ),
        picks * length,
        3 * picks * length * target.dtype.itemsize,
        f"scatter {update}",
    )
    return target.work(launch, wrong)


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
        rows, axes = outers * size * inner, (picks, size, inner)
        return target.at_once(request, indices.size, rows, target.words, axes, -1, wrong)
    if info.max_units == 1 and inner * target.words == 1 and not target.pair:
        return target.work(_elements(request, target, outers, picks, size), wrong)
    across = least(outers, 4 * info.cores)
    outer_share = -(-outers // across)
    down = max(1, info.cores // across) if picks * inner > 1 << 12 else 1
    share = -(-max(size, 1) // down)
    numbers = (outers, picks, inner, size, outer_share, share)
    build = Build(
        scatter_along,
        (
            Buffer(target.dtype),
            Buffer(indices.dtype, writable=False),
            Buffer(target.update_dtype, writable=False),
            STATUS,
            *(SIZE,) * len(numbers),
        ),
        (("pair", target.pair), ("update", update), ("words", target.words)),
    )
    launch = Launch(
        build,
        (-(-outers // outer_share), -(-max(size, 1) // share), 1),
        (
            target.place,
            Input(1, indices.offset),
            Input(2, target.update_offset),
            Status(),
            *numbers,
        ),
        indices.size,
        3 * indices.size * x.dtype.itemsize,
        f"scatter along {update}",
    )
    return target.work(launch, wrong)


def _elements(request: Request, target: Target, outers: int, picks: int, size: int) -> Launch:
    """Return the launch that updates elements of rows, on cubes of one unit."""
    info, update = request.info, request.attributes["update"]
    indices = request.inputs[1]
    across = least(outers, 4 * info.cores)
    outer_share = -(-outers // across)
    few = picks <= 1 << 12 or not info.has("compress") or size >= 1 << 31
    # Two cubes that look at all indices take as long as one that looks and updates.
    down = 1 if few or info.cores < 4 else max(1, info.cores // across)
    share = -(-max(size, 1) // down)
    numbers = (outers, picks, size, outer_share, share)
    build = Build(
        scatter_elements,
        (
            Buffer(target.dtype),
            Buffer(indices.dtype, writable=False),
            Buffer(target.update_dtype, writable=False),
            STATUS,
            *(SIZE,) * len(numbers),
        ),
        (("owned", down > 1), ("update", update)),
    )
    return Launch(
        build,
        (-(-outers // outer_share), -(-max(size, 1) // share), 1),
        (
            target.place,
            Input(1, indices.offset),
            Input(2, target.update_offset),
            Status(),
            *numbers,
        ),
        picks * outers,
        3 * picks * outers * target.dtype.itemsize,
        f"scatter elements {update}",
    )
