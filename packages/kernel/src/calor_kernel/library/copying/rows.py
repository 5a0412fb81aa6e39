"""Copies by cubes of one unit: rows of vectors, in runs that cost no division.

Requirements: any strides on both sides; rows of a few elements are copied along the longer axis;
few long rows are cut into pieces, so that all cores work.
"""

from __future__ import annotations

from math import prod
from typing import Final

from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Effort, Grid, launch, operand
from calor_kernel.contract.work import Launch
from calor_kernel.library.copying.transfer import DynamicPart, Starts, Transfer, begin_of

# Bytes that a unit copies, enough to hide the cost of its start.
GRAIN: Final = 1 << 16
# Elements of rows that are copied across.
_SHORT: Final = 8
_VERY_SHORT: Final = 3
# Strides of a source that the build knows, and what stands for others.
STEPS: Final = (-1, 0, 1, 2, 3, 4)
ANY: Final = -2


@kl.helper
def copy_run(
    source: kl.Pointer,
    read: kl.Index,
    target: kl.Pointer,
    written: kl.Index,
    length: kl.Number,
    read_step: kl.Index,
    written_step: kl.Index,
    width: int,
    step: int,
    dense: bool,
) -> None:
    """Copy elements along one axis; ``step``: of the source, if it is in STEPS, else ANY."""
    if dense and step in (0, 1):
        one = source[read] if step == 0 else None
        done = length // width * width
        for i in kl.loop_range(0, done, width):
            vector = kl.splat(one, width) if step == 0 else source.load(read + i, width)
            target.store(written + i, vector)
        # The rest in halves, quarters and so on.
        part = width // 2
        while part:
            if length - done >= part:
                vector = kl.splat(one, part) if step == 0 else source.load(read + done, part)
                target.store(written + done, vector)
                done = done + part
            part = part // 2
    elif dense and step != ANY:
        # A vector is chosen from adjacent ones, which end with the last element but one.
        span = width * abs(step)
        lanes = [width - 1 - k if step < 0 else k * step for k in range(width)]
        done = kl.max(length - 1, 0) // width * width
        for i in kl.loop_range(0, done, width):
            at = read - i - (width - 1) if step < 0 else read + i * step
            target.store(written + i, kl.shuffle(source.load(at, span), lanes))
        for i in kl.loop_range(done, length):
            target[written + i] = source[read + i * step]
    else:
        for i in kl.loop_range(0, length, 1, unroll=4):
            target[written + i * written_step] = source[read + i * read_step]


@kl.kernel
def copy_rows(
    source: kl.In,
    starts: kl.In | None,
    target: kl.Out,
    rows: kl.Size,
    turns: kl.Size,
    span: kl.Size,
    sizes: tuple[kl.FastDivmod, ...],
    read: tuple[kl.Stride, ...],
    written: tuple[kl.Stride, ...],
    part: Starts[kl.Number] | None,
    *,
    width: int,
    step: int,
    dense: bool,
    across: bool,
    pieces: bool,
    into: bool,
) -> None:
    """Copy rows along the last axis, ``turns`` of them a unit, or ``pieces`` of ``span`` elements.

    ``step``: the stride in a row of the source if it is in STEPS, else ANY; ``dense``: that of the
    target is 1. ``across``: rows are short, and copied along the axis before.
    """
    length = sizes[-1].divisor
    begin: kl.Index = 0
    if starts is not None and part is not None:
        begin = begin_of(starts, part)
    source_begin, target_begin = (0, begin) if into else (begin, 0)
    if pieces:
        count = (length + span - 1) // span
        row = kl.absolute_position() // count
        first = (kl.absolute_position() - row * count) * span
        place = kl.unravel(row, sizes[:-1])
        copy_run(
            source,
            kl.offset_of(place, read[:-1], source_begin) + first * read[-1],
            target,
            kl.offset_of(place, written[:-1], target_begin) + first * written[-1],
            kl.min(span, length - first),
            read[-1],
            written[-1],
            width,
            step,
            dense,
        )
    else:
        row = kl.absolute_position() * turns
        end = kl.min(row + turns, rows)
        while row < end:
            place = kl.unravel(row, sizes[:-1])
            at = kl.offset_of(place, read[:-1], source_begin)
            to = kl.offset_of(place, written[:-1], target_begin)
            run = kl.min(end - row, sizes[-2].divisor - place[-1])
            if across:
                for j in kl.loop_range(length):
                    a, b = at + j * read[-1], to + j * written[-1]
                    for k in kl.loop_range(0, run, 1, unroll=4):
                        target[b + k * written[-2]] = source[a + k * read[-2]]
            else:
                for k in kl.loop_range(run):
                    a, b = at + k * read[-2], to + k * written[-2]
                    copy_run(
                        source, a, target, b, length, read[-1], written[-1], width, step, dense
                    )
            row = row + run


def few_long(rows: int, row_bytes: int, info: DeviceInfo) -> bool:
    """Return whether rows are cut into pieces, so that all cores work."""
    return info.cores > 1 and rows < 4 * info.cores and row_bytes >= 2 * GRAIN


def step_of(stride: int, length: int, size: int, info: DeviceInfo) -> int:
    """Return a source's stride if the build is to know it, else ANY."""
    if stride in (0, 1):
        return stride
    # Words of 8 bytes are as quick one by one.
    worth = size <= 4 and length >= 2 * max(info.vector_bytes // size, 1)
    return stride if worth and stride in STEPS else ANY


def rows_launch(
    over: Transfer, info: DeviceInfo, label: str, part: DynamicPart | None = None
) -> Launch:
    """Return the launch that copies by rows."""
    sizes, read, written = over.sizes, over.read, over.written
    if len(sizes) == 1:
        sizes, read, written = (1, *sizes), (0, *read), (0, *written)
    rows, length = prod(sizes[:-1]), sizes[-1]
    size = over.dtype.itemsize
    step, dense = step_of(read[-1], length, size, info), written[-1] == 1
    pieces = few_long(rows, length * size, info)
    span = GRAIN // size
    vectors = dense and step != ANY
    across = not pieces and sizes[-2] >= _SHORT
    across = across and length < (_VERY_SHORT + 1 if vectors else _SHORT)
    # What a unit copies across stays in the nearest cache.
    row = greatest(length, abs(read[-2]), abs(written[-2])) if across else length
    turns = greatest((GRAIN // 4 if across else GRAIN) // (row * size), 1)
    units = rows * -(-length // span) if pieces else -(-rows // turns)
    return launch(
        copy_rows,
        Grid.line(units),
        Effort(label or copy_rows.name, 0, over.nbytes),
        **over.places,
        starts=None if part is None else operand(part.number, part.starts),
        rows=rows,
        turns=turns,
        span=span,
        sizes=sizes,
        read=read,
        written=written,
        part=over.starts,
        width=max(info.vector_bytes // size, 1) if vectors else 1,
        step=step,
        dense=dense,
        across=across,
        pieces=pieces,
        into=part is not None and part.into,
    )
