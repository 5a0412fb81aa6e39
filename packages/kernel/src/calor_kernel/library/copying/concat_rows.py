"""Concatenation row by row, by cubes of one unit.

Requirements: the parts of a row that is a few lines of a cache are written one after another, so
that no line is fetched for each of them. Padding by reflections and copies of borders is such a
concatenation. Parts may have any strides; their rows may be reversed, or of one value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, Generic

from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds, greatest, is_size
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.movement import coalesced
from calor_kernel.contract.work import Input, Launch, Output, View
from calor_kernel.language.declared import N
from calor_kernel.library.copying.rows import ANY, GRAIN, copy_run, step_of
from calor_kernel.library.copying.transfer import as_bits

# Parts of a launch, bytes of a row that stays in the nearest cache, and rows of all cubes.
_PARTS: Final = 8
_ROW: Final = 1 << 14
_ROWS: Final = 16
# Elements of a part up to which each is copied by itself.
_SHORT: Final = 4


@dataclass(frozen=True, slots=True)
class Part(Generic[N]):
    """A part of a row: ``lines`` of ``length`` elements, and the strides of both.

    ``strides``: those of rows.
    """

    lines: kl.SizeOf[N]
    length: kl.SizeOf[N]
    line: kl.StrideOf[N]
    element: kl.StrideOf[N]
    strides: tuple[kl.StrideOf[N], ...]


@dataclass(frozen=True, slots=True)
class Build:
    """What the build knows of a part: its length if it is short, else 0, its step and vectors."""

    known: int
    step: int
    width: int


@kl.helper
def copy_line(
    source: kl.Pointer,
    at: kl.Index,
    target: kl.Pointer,
    to: kl.Index,
    length: kl.Number,
    step: kl.Index,
    by: Build,
) -> None:
    """Copy a line of a part; its last vector ends with it."""
    if by.known:
        for i in kl.range(by.known):
            target[to + i] = source[at + i * step]
    elif by.step == 1:
        for i in kl.loop_range(0, length - by.width, by.width):
            target.store(to + i, source.load(at + i, by.width))
        last = length - by.width
        target.store(to + last, source.load(at + last, by.width))
    else:
        copy_run(source, at, target, to, length, step, 1, by.width, by.step, True)


@kl.kernel
def concat_rows(
    sources: tuple[kl.In, ...],
    target: kl.Out,
    rows: kl.Size,
    turns: kl.Size,
    total: kl.Size,
    sizes: tuple[kl.FastDivmod, ...],
    parts: tuple[Part[kl.Number], ...],
    *,
    by: tuple[Build, ...],
) -> None:
    """Write ``turns`` rows of ``total`` elements."""
    row = kl.absolute_position() * turns
    end = kl.min(row + turns, rows)
    while row < end:
        place = kl.unravel(row, sizes)
        starts = [kl.offset_of(place, part.strides) for part in parts]
        run = kl.min(end - row, sizes[-1].divisor - place[-1])
        for k in kl.loop_range(run):
            to = (row + k) * total
            for source, start, part, build in zip(sources, starts, parts, by, strict=True):
                at = start + k * part.strides[-1]
                for j in kl.loop_range(part.lines):
                    here, there = at + j * part.line, to + j * part.length
                    copy_line(source, here, target, there, part.length, part.element, build)
                to = to + part.lines * part.length
        row = row + run


def concat_rows_launch(views: Sequence[View], axis: int, info: DeviceInfo) -> Launch | None:
    """Return the launch that concatenates views along an axis; None if their rows do not suit."""
    given = [(k, as_bits(view, info)) for k, view in enumerate(views) if view.size]
    if info.max_units > 1 or not 2 <= len(given) <= _PARTS or not axis:
        return None
    if any(len(bits.shape) != len(views[k].shape) for k, bits in given):
        return None
    (_, first), *_ = given
    lead, (*strides,) = coalesced(first.shape[:axis], *(v.strides[:axis] for _, v in given))
    rows, dtype = prod(lead), first.dtype
    total = sum(prod(v.shape[axis:]) for _, v in given)
    if exceeds(_ROWS, rows) or exceeds(total * dtype.itemsize, _ROW):
        return None
    found = [_part(v, axis, s) for (_, v), s in zip(given, strides, strict=True)]
    parts = [part for part in found if part is not None]
    if len(parts) < len(found):
        return None
    size = dtype.itemsize
    turns = greatest(GRAIN // (total * size), 1)
    return launch(
        concat_rows,
        Grid.line(-(-rows // turns)),
        Effort("concat rows", 0, 2 * rows * total * size),
        sources=[Bound(Input(k, v.offset), dtype) for k, v in given],
        target=Bound(Output(0), dtype),
        rows=rows,
        turns=turns,
        total=total,
        sizes=lead,
        parts=tuple(parts),
        by=tuple(_build(part, size, info) for part in parts),
    )


def _build(part: Part[int], size: int, info: DeviceInfo) -> Build:
    length = part.length
    if not is_size(length) and length <= _SHORT:
        return Build(length, ANY, 1)
    step, width = step_of(part.element, length, size, info), max(info.vector_bytes // size, 1)
    while step == 1 and width > length:
        width //= 2
    return Build(0, step, width if step != ANY else 1)


def _part(view: View, axis: int, strides: tuple[int, ...]) -> Part[int] | None:
    """Return a view as a part of each row, None if it has more than two axes in it."""
    sizes, (inner,) = coalesced(view.shape[axis:], view.strides[axis:])
    if not sizes:
        sizes, inner = (1,), (1,)
    if len(sizes) > 2:
        return None
    lines, line = (1, 0) if len(sizes) == 1 else (sizes[0], inner[0])
    return Part(lines, sizes[-1], line, inner[-1], strides)
