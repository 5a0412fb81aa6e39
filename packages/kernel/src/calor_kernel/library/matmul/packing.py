"""Packing an operand of a matrix product into panels that the inner loop reads in order.

Requirements: panels of ``width`` columns are adjacent. A panel has its rows of the K axis in order,
with groups of ``group`` rows interleaved (pairs of bfloat16, fours of int8), so that one vector
load feeds one instruction (Goto and van de Geijn, 2008). Elements beyond the matrix are zero.
Operands contiguous along the K axis are transposed in registers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from calor.dtypes import DType, uint32
from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest
from calor_kernel.contract.launching import Effort, Grid, launch
from calor_kernel.contract.work import Argument, Launch
from calor_kernel.library.matmul.problem import Operand
from calor_kernel.library.matmul.task import Matrices, memory
from calor_kernel.library.transposition import transpose

N = TypeVar("N", int, kl.Number)
# Rows of the K axis that a cube packs, with and without transposition.
_ROWS, _STREAMS = 256, 16


@kl.kernel
def pack(
    source: kl.In,
    panels: kl.Out,
    n: kl.Size,
    k: kl.Size,
    of: Matrices[kl.Number],
    *,
    width: int,
    lanes: int,
    group: int,
    order: str,
    rows: int,
    whole: int = 1,
) -> None:
    """Pack ``source[k, n]`` to panels: cube (x, y, z) packs ``rows`` groups of rows of batch z.

    ``order``: the axis with stride 1, "columns", "depth" or neither ("any"). A few rows at a time
    go through all panels of x's share, so that memory sees few long streams. Groups of zeros fill a
    panel up to a multiple of ``whole``.
    """
    first = kl.cube_position(1) * rows
    batch = kl.cube_position(2)
    start = of.start(batch)
    groups = filled((k + group - 1) // group, whole)
    panel_count = (n + width - 1) // width
    share = (panel_count + kl.cube_count(0) - 1) // kl.cube_count(0)
    first_panel = kl.cube_position(0) * share
    target = batch * panel_count * groups * (width * group)
    stop = kl.min(first + rows, groups)
    for panel in kl.range(first_panel, kl.min(first_panel + share, panel_count)):
        for g in kl.range(first, stop):
            for v in kl.range(width // lanes):
                column = panel * width + v * lanes
                at = target + ((panel * groups + g) * width + v * lanes) * group
                parts = [
                    load_row(source, start, g * group + i, column, n, k, of, lanes, order)
                    for i in kl.range(group)
                ]
                panels.store(at, interleave(parts).to(panels.dtype))


@kl.kernel
def pack_columns(
    source: kl.In,
    panels: kl.Out,
    n: kl.Size,
    k: kl.Size,
    of: Matrices[kl.Number],
    *,
    width: int,
    lanes: int,
    rows: int,
) -> None:
    """Pack as ``pack`` does if the columns are adjacent and a group is one row.

    Vectors may be wider than a panel: the next row overwrites what they store beyond it.
    """
    first = kl.cube_position(1) * rows
    batch = kl.cube_position(2)
    start = of.start(batch)
    panel_count = (n + width - 1) // width
    share = (panel_count + kl.cube_count(0) - 1) // kl.cube_count(0)
    first_panel = kl.cube_position(0) * share
    target = batch * panel_count * k * width
    stop = kl.min(first + rows, k)
    parts = [(at, min(lanes, width - at)) for at in range(0, width, lanes)]
    # Without rows there is nothing to pack.
    last_panel = kl.select(stop > first, kl.min(first_panel + share, panel_count), 0)
    for panel in kl.loop_range(first_panel, last_panel):
        column = panel * width
        to = target + panel * k * width
        from_ = start + column
        inside = column + len(parts) * lanes <= n
        if inside:
            for g in kl.loop_range(first, stop - 1):
                for at, _ in parts:
                    value = source.load(from_ + g * of.depth + at, lanes)
                    panels.store(to + g * width + at, value.to(panels.dtype))
        else:
            for g in kl.loop_range(first, stop - 1):
                pack_ends(source, panels, from_, to, g, n - column, of.depth, width, lanes)
        # The row behind the last one is another cube's.
        pack_ends(source, panels, from_, to, stop - 1, n - column, of.depth, width, lanes)


@kl.helper
def pack_ends(
    source: kl.Pointer,
    panels: kl.Pointer,
    from_: kl.Number,
    to: kl.Number,
    row: kl.Number,
    left: kl.Number,
    depth: kl.Number,
    width: int,
    lanes: int,
) -> None:
    """Pack a row of a panel, ``left`` of its elements or fewer; nothing beyond it is written."""
    for at in range(0, width, lanes):
        lane = iota(lanes, left)
        value = source.load(from_ + row * depth + at, lanes, mask=lane < left - at)
        mask = lane < min(lanes, width - at) if width - at < lanes else None
        panels.store(to + row * width + at, value.to(panels.dtype), mask=mask)


def filled(groups: N, whole: int) -> N:
    """Return the groups of a panel that is filled up to a multiple of ``whole``."""
    return groups if whole == 1 else (groups + whole - 1) // whole * whole


@kl.helper
def load_row(
    source: kl.Pointer,
    start: kl.Number,
    row: kl.Index,
    column: kl.Index,
    n: kl.Number,
    k: kl.Number,
    of: Matrices[kl.Number],
    lanes: int,
    order: str,
) -> kl.Number:
    """Return ``lanes`` elements of a row from a column on, with 0 beyond the matrix."""
    index = column + iota(lanes, n)
    inside = (index < n) & kl.splat(row < k, lanes)
    if order == "columns":
        return source.load(start + row * of.depth + column, lanes, mask=inside)
    place = start + row * of.depth + index * of.column
    return source.load(place, mask=inside)


def iota(lanes: int, like: kl.Number) -> kl.Number:
    """Return the vector 0, 1, … with the dtype of an index."""
    return kl.constant(tuple(kl.range(lanes)), like.dtype)


def interleave(parts: list[kl.Number]) -> kl.Number:
    """Return the interleaved elements of vectors: a0 b0 a1 b1 …"""
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [_pair(parts[i], parts[i + half]) for i in kl.range(half)]
    return parts[0]


def _pair(a: kl.Number, b: kl.Number) -> kl.Number:
    # Of four parts, first 0 with 2 and 1 with 3, so that the next round gives the right order.
    lanes = [lane for i in kl.range(a.width) for lane in (i, a.width + i)]
    return kl.shuffle(a, lanes, b)


@kl.kernel
def pack_transposed(
    source: kl.In,
    panels: kl.Out,
    n: kl.Size,
    k: kl.Size,
    of: Matrices[kl.Number],
    *,
    width: int,
    lanes: int,
    group: int,
    order: str,
    rows: int,
    whole: int = 1,
) -> None:
    """Pack as ``pack`` does if the K axis has stride 1, by transposing squares.

    ``rows`` is a multiple of ``lanes``; with a group, its elements count as one.
    """
    panel = kl.cube_position(0)
    first = kl.cube_position(1) * rows
    batch = kl.cube_position(2)
    start = of.start(batch)
    panel_count = (n + width - 1) // width
    lines = filled(k, whole)
    target = (batch * panel_count + panel) * lines * width
    stop = kl.min(first + rows, lines)
    for v in kl.loop_range(0, width, lanes):
        column = panel * width + v
        for row in kl.range(first, stop, lanes):
            place = start + row + column * of.column
            there = stop - row if whole == 1 else k - row
            square = load_square(source, place, of.column, n - column, there, lanes)
            for i in kl.range(lanes):
                if row + i < stop:
                    panels.store(target + (row + i) * width + v, square[i].to(panels.dtype))


@kl.helper
def load_square(
    source: kl.Pointer,
    start: kl.Number,
    step: kl.Number,
    columns: kl.Number,
    rows: kl.Number,
    lanes: int,
) -> list[kl.Number]:
    """Return the transpose of a square of columns that are dense, with 0 beyond the matrix.

    ``columns``, ``rows``: those of the matrix from the square's first element on.
    """
    inside = iota(lanes, rows) < kl.splat(kl.min(rows, lanes), lanes)
    square = []
    for i in kl.range(lanes):
        place = kl.min(i, columns - 1)  # it may be before the square, but is in the matrix
        taken = source.load(start + place * step, lanes, mask=inside)
        square.append(kl.select(i < columns, taken, kl.constant(0, taken.dtype, lanes)))
    return transpose(square)


@dataclass(frozen=True, slots=True)
class Block:
    """The panels of a block, the columns of the matrix, and the rows of a pass over the K axis."""

    first_panel: kl.Number
    last_panel: kl.Number
    n: kl.Number
    rows: kl.Number


@kl.helper
def pack_block(
    source: kl.Pointer,
    room: kl.Pointer,
    start: kl.Number,
    step: kl.Number,
    block: Block,
    vectors: int,
    lanes: int,
    order: str,
) -> None:
    """Pack a block of B to memory of the unit, from the first row of a pass on.

    ``order``: the axis with stride 1, "columns" or "depth"; ``step``: the stride of the other one.
    """
    width, n, rows = vectors * lanes, block.n, block.rows
    first, last = block.first_panel, block.last_panel
    if order == "columns":
        # Row by row, so that memory sees few long streams.
        whole = last * width <= n
        for g in kl.range(rows):
            for panel in kl.range(first, last):
                to = ((panel - first) * rows + g) * width
                at = start + g * step + panel * width
                if whole:
                    for v in kl.range(vectors):
                        taken = source.load(at + v * lanes, lanes)
                        room.store(to + v * lanes, taken.to(room.dtype))
                else:
                    for v in kl.range(vectors):
                        inside = panel * width + v * lanes + iota(lanes, n) < n
                        taken = source.load(at + v * lanes, lanes, mask=inside)
                        room.store(to + v * lanes, taken.to(room.dtype))
    else:
        for panel in kl.range(first, last):
            for v in kl.loop_range(0, width, lanes):
                column = panel * width + v
                to = (panel - first) * rows * width + v
                for row in kl.range(0, rows, lanes):
                    at = start + row + column * step
                    square = load_square(source, at, step, n - column, rows - row, lanes)
                    for i in kl.range(lanes):
                        if row + i < rows:
                            room.store(to + (row + i) * width, square[i].to(room.dtype))


def pack_operand(
    n: int,
    k: int,
    batch: tuple[int, int],
    operand: Operand,
    width: int,
    lanes: int,
    group: int,
    element: DType,
    source: Argument,
    target: Argument,
    whole: int = 1,
) -> Launch:
    """Return the launch that packs ``k`` by ``n`` elements to panels of ``width`` columns.

    The operand's free axis has ``n`` elements, and its K axis ``k``. Groups of zeros fill a panel
    up to a multiple of ``whole``; then a group has several elements.
    """
    if group > 1 and lanes > 1 and _in_groups(operand, batch, k, group):
        # A group along the K axis is one element of a transposition.
        batches, word = (operand.batch[0] // group, operand.batch[1] // group), uint32
        operand = Operand(batches, operand.free // group, 1, operand.offset // group, word)
        k, group, element = k // group, 1, word
    square = operand.depth == 1 and operand.free != 1 and group == 1 and lanes & (lanes - 1) == 0
    rows, matrices = _ROWS if square else _STREAMS, batch[0] * batch[1]
    across, groups = -(-n // width) if square else 1, filled(-(-k // group), whole)
    order = "columns" if operand.free == 1 else "any"
    more: dict[str, object] = {"group": group, "order": order, "whole": whole}
    kernel = pack_transposed if square else pack
    if operand.free == 1 and group == 1:
        # A panel of A has the rows of a tile, which are no vector.
        kernel, more, lanes = pack_columns, {}, min(1 << (lanes - 1).bit_length(), 16)
    nbytes: int = n * k * matrices * (operand.dtype.itemsize + element.itemsize)
    made = launch(
        kernel,
        Grid((across, greatest(1, -(-groups // rows)), matrices)),
        Effort("matmul pack", 0, nbytes),
        source=memory(source, operand.dtype), panels=memory(target, element), n=n, k=k,
        of=Matrices.of(operand, batch), width=width, lanes=lanes, rows=rows, **more,
    )  # fmt: skip
    return replace(made, prepares=True)


def _in_groups(operand: Operand, batch: tuple[int, int], k: int, group: int) -> bool:
    """Return whether groups of elements along a dense K axis are whole words of four bytes."""
    if operand.depth != 1 or operand.free == 1 or group * int(operand.dtype.itemsize) != 4:
        return False
    strides = [s for s, n in zip(operand.batch, batch, strict=True) if n > 1]
    return all(n % group == 0 for n in (k, operand.free, operand.offset, *strides))
