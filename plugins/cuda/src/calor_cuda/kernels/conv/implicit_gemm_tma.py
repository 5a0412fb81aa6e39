"""Implicit GEMM convolutions by warp-group matrix instructions, fed by TMA.

Requirements: as in :mod:`matmul.warpgroup_tma`, one unit issues the copies and the other warp
groups only multiply. The pixels of a tile are a box of images, rows and columns. A tap reads the
same box at an offset, and TMA fills positions outside of the tensor with zeros, which is the
padding. For an input gradient with a stride, two phases that alternate along a row are rows of one
tile, with zeros for a tap that only one of them has. A unit holds sums of many channels, whose
pixels are far apart, so sums go through shared memory to wide accesses. If only one pixel of each
stride cell has taps, whole cells are written, so that each memory line is written once. (Implicit
GEMM as in Chetlur et al., "cuDNN: efficient primitives for deep learning", 2014; boxes of images
instead of im2col tiles, NVIDIA, "CUDA Driver API", tensor maps.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Generic

from calor_cuda.kernels.conv.implicit_gemm_tma_plan import (
    PITCH,
    Cells,
    RowPhases,
    TmaPlan,
    Writes,
)
from calor_cuda.kernels.warpgroup import ASKING, MULTIPLYING, Ring
from calor_kernel import language as kl
from calor_kernel.language.declared import N
from calor_kernel.library.conv.implicit_gemm_mma import columns_of, rows_of
from calor_kernel.library.gemm.epilogue import After, Epilogue, Writer, writer

# Maximum of pixel groups before the first one that a window may reach.
_BEFORE = 1 << 16
# Columns of sums that are written at a time; lanes and planes of a warp group, and its rows.
_PART, _LANES, _PLANES, _ROWS = 64, 32, 4, 64
# The weight of an epilogue beyond which its turns are a loop, and turns that read together then.
_LONG, _READ = 16, 4


@dataclass(frozen=True, slots=True)
class Window(Generic[N]):
    """The ``taps`` of a window, in rows of ``columns``, and the rows of pixels that have it.

    Tap (i, j) has the index ``first + i * down + j * across`` in the weights, and reads at ``start
    + i * move`` from the stride times its pixel. ``steps``: of each part of the terms. ``high``:
    the rows of pixels; with alternating phases, the first is row ``top`` of the result.
    """

    steps: kl.SizeOf[N]
    high: kl.SizeOf[N]
    top: kl.SizeOf[N]
    taps: kl.SizeOf[N]
    columns: kl.SizeOf[N]
    first: kl.StrideOf[N]
    down: kl.StrideOf[N]
    across: kl.StrideOf[N]
    start_down: kl.StrideOf[N]
    start_across: kl.StrideOf[N]
    move_down: kl.StrideOf[N]
    move_across: kl.StrideOf[N]


@kl.kernel
def conv_tma(
    w: kl.In,
    x: kl.In,
    c: kl.Out,
    w_sizes: tuple[kl.Size, ...],
    w_row: kl.Size,
    x_sizes: tuple[kl.Size, ...],
    x_strides: tuple[kl.Size, ...],
    x_column: kl.Size,
    windows: tuple[Window[kl.Number], ...],
    pixels: tuple[kl.Size, ...],
    c_row: kl.Size,
    c_image: kl.Size,
    part_step: kl.Size,
    cells: tuple[kl.Size, ...],
    after: After | None,
    *,
    plan: TmaPlan,
    strides: tuple[int, int],
    epilogue: Epilogue | None = None,
) -> None:
    """Compute tiles of c; rows are output channels and columns are ``pixels`` of images.

    ``w``: rows of terms, a block of channels of each tap, then the next block. ``x``: images, and
    groups of rows and of columns by the convolution's ``strides``: (image, group, row, group,
    column and channel), ``x_column`` between columns. y selects a part of the terms. ``windows``:
    one, or those of rows that alternate, of which all tiles of one precede those of the next.
    ``cells``: rows and columns of the result if its pixels are cells; with alternating phases,
    their row stride in the result, and the columns.
    """
    kl.launch_attributes(cubes_per_core=1)
    depth, (some_images, some_rows, some_columns) = plan.depth, plan.box
    w_at = plan.swizzled(plan.rows, depth)
    # The rows of a phase in a warp group are one box.
    w_rows = plan.rows if plan.row_phases is None else 64 // plan.writes.phases
    w_map = kl.tensor_map(
        w, w_sizes, (w_row, 1), (w_rows, depth), plan.swizzled(w_rows, depth),
        rounded=plan.shape.tf32,
    )  # fmt: skip
    box = (some_images, some_rows, 1, some_columns, depth)
    x_map = kl.tensor_map(
        x, x_sizes, (*x_strides, 1), box, plan.swizzled(*box), rounded=plan.shape.tf32
    )
    w_size, x_size = plan.rows * depth, plan.columns * depth
    nbytes = (w_size + plan.pixels * depth) * plan.dtype.itemsize
    left = kl.shared(plan.stages * w_size, plan.dtype, align=1024)
    right = kl.shared(plan.stages * x_size, plan.dtype, align=1024)
    staged = kl.shared(plan.rows * PITCH, plan.result, align=16)
    # The rest of the columns has no box; it is multiplied but never written.
    rest = (plan.columns - plan.pixels) * depth
    for at in kl.range(kl.unit_index(), plan.stages * rest, plan.units) if rest else ():
        right[at // rest * x_size + plan.pixels * depth + at % rest] = 0
    full = kl.Mbarriers(plan.stages, 1, meet=False)
    empty = kl.Mbarriers(plan.stages, 4 * plan.groups)
    right_at = kl.Swizzled(w_at.swizzle, kl.Layout((depth, plan.columns), (1, depth)))
    ring = Ring(left, right, (w_size, x_size), right_at, full, empty, plan.stages, depth)
    (high, wide), (channels, terms), images = pixels, w_sizes, x_sizes[0]
    downs, acrosses = -(-high // some_rows), -(-wide // some_columns)
    rows = -(-channels // plan.channels)
    whole = rows * downs * acrosses * -(-images // some_images)
    every, split = kl.cube_count(0), kl.cube_position(1)

    def first_of(tile: kl.Number) -> tuple[kl.Number, kl.Number, kl.Number, kl.Number]:
        """Return the channel, image, row and column at which a tile begins."""
        row, place = tile % rows * plan.channels, tile // rows
        across = place % acrosses * some_columns
        down = place // acrosses % downs * some_rows
        return row, place // acrosses // downs * some_images, down, across

    def window_of(tile: kl.Number) -> tuple[Window[kl.Number], kl.Number]:
        """Return the window of a tile, and the tile among those of its window."""
        if len(windows) == 1:
            return windows[0], tile
        return chosen(windows, tile // whole), tile % whole

    with kl.role(0, registers=ASKING[plan.groups]):
        if kl.unit_index() == 0:

            def copy(
                stage: kl.Number,
                first: tuple[kl.Number, ...],
                window: Window[kl.Number],
                some: kl.Number,
                i: kl.Number,
                j: kl.Number,
            ) -> None:
                row, some_image, down, across = first
                rows_at = left.at(stage * w_size)
                if plan.row_phases is None:
                    term = some * window.taps + window.first + i * window.down + j * window.across
                    w_map.fetch(rows_at, (row, term * depth), full, stage)
                else:
                    tap = some * plan.row_phases.taps + window.first + i * window.down
                    found = terms_of(plan.row_phases, tap, j, window.across, terms // depth)
                    for piece in kl.range(plan.rows // w_rows):
                        group, phase = piece // len(found), piece % len(found)
                        of = row + group * w_rows, found[phase] * depth
                        w_map.fetch(rows_at.at(piece * w_rows * depth), of, full, stage)
                below, row_of = whole_and_rest(window.start_down + i * window.move_down, strides[0])
                beside, column_of = whole_and_rest(
                    window.start_across + j * window.move_across, strides[1]
                )
                channel = column_of * x_column + some * depth
                seen = (some_image, down + below, row_of, across + beside, channel)
                x_map.fetch(right.at(stage * x_size), seen, full, stage)

            stage, parity = images * 0, images * 0 + 1
            for tile in kl.range(kl.cube_position(0), whole * len(windows), every):
                window, number = window_of(tile)
                first = first_of(number)
                for turn in kl.range(window.steps):
                    step = split * window.steps + turn
                    some, tap = step // window.taps, step % window.taps
                    i, j = tap // window.columns, tap % window.columns
                    given = first, window, some, i, j
                    stage, parity = ring.load(stage, parity, nbytes, copy, *given)
    with kl.role(1, plan.groups, registers=MULTIPLYING[plan.groups]):
        shape = plan.shape
        top = (kl.unit_index() // 128 - 1) * 64
        stage, parity = images * 0, images * 0

        def left_of(stage: kl.Number) -> Callable[[int], kl.SharedMatrix]:
            lefts = kl.SharedMatrix(left.at(stage * w_size), w_at)
            return lambda p: lefts.tile((shape.m, shape.k), (top, p))

        for tile in kl.range(kl.cube_position(0), whole * len(windows), every):
            window, number = window_of(tile)
            row, *pixel = first_of(number)
            sums = kl.fragment(shape, "c")
            stage, parity = ring.multiply(sums, shape, window.steps, 1, stage, parity, left_of)
            start, part = split * part_step, staged.at(top * PITCH)
            own = row + top // plan.writes.phases
            limits = (channels, images, window.high, wide)
            to = (start, c_row, c_image, window.top)
            write(sums, part, c, to, (own, *pixel), limits, cells, (epilogue, after), plan)


@kl.helper
def chosen(windows: Sequence[Window[kl.Number]], number: kl.Number) -> Window[kl.Number]:
    """Return the window with a number."""
    found = []
    for field in fields(Window):
        several = [getattr(window, field.name) for window in windows]
        value = several[-1]
        for k in range(len(several) - 1)[::-1]:
            value = kl.select(number == k, several[k], value)
        found.append(value)
    return Window(*found)


@kl.helper
def terms_of(
    row_phases: RowPhases, tap: kl.Number, column: kl.Number, step: kl.Number, beyond: kl.Number
) -> list[kl.Number]:
    """Return the tap index of each phase that reads a window column.

    For a phase that does not read it the index is ``beyond`` all terms, where TMA reads zeros.
    """
    made = []
    for first, start, count in row_phases.phases:
        seen = (column >= start) & (column < start + count)
        made.append(kl.select(seen, tap + first + (column - start) * step, beyond))
    return made


@kl.helper
def whole_and_rest(place: kl.Number, stride: int) -> tuple[kl.Number, kl.Index]:
    """Return the group of a position, possibly before the first, and the position in the group."""
    if stride == 1:
        return place, place * 0
    safe = place + stride * _BEFORE
    return safe // stride - _BEFORE, safe % stride


@kl.helper
def write(
    sums: kl.Fragment,
    part: kl.Pointer,
    c: kl.Pointer,
    to: tuple[kl.Number, kl.Number, kl.Number, kl.Number],
    first: Sequence[kl.Number],
    limits: tuple[kl.Number, kl.Number, kl.Number, kl.Number],
    cells: Sequence[kl.Number],
    last: tuple[Epilogue | None, After | None],
    plan: TmaPlan,
) -> None:
    """Write a warp group's sums; ``first``: the channel, image, row and column of the tile.

    ``part``: shared memory of the warp group. ``to``: the start of the part in the result, the
    strides of channels and images, and the first row of alternating phases. ``limits``: the numbers
    of channels, images, rows and columns. ``last``: the epilogue and its memory.
    """
    (start, c_row, c_image, start_row), (channels, images, high, wide) = to, limits
    how, (_, some_rows, some_columns) = plan.writes, plan.box
    below, right = sums.lane_place()
    lane, plane = kl.lane_position(), kl.unit_index() // _LANES % _PLANES
    # Lanes with pixels of one channel, and channels that a plane writes at a time.
    side = min(_LANES, _PART // how.run)
    together = _LANES // side
    own, near, rows = plane, lane * how.run, _ROWS // how.phases
    if together > 1:
        own, near = plane * together + lane // side, lane % side * how.run
    for begin in kl.range(0, plan.columns, _PART):
        kl.barrier("warpgroup")
        for _, far in columns_of([sums]):
            if begin <= far < begin + _PART:
                for r, found in rows_of(sums, far):
                    place = (below + r) * PITCH + right + (far - begin)
                    part.store(kl.assume_multiple(place, 2), kl.pack(found).to(part.dtype))
        kl.barrier("warpgroup")
        for far in kl.range(0, min(_PART, plan.columns - begin), side * how.run):
            place = begin + far + near
            line, x = place // some_columns, place % some_columns + first[3]
            image, y = line // some_rows + first[1], line % some_rows + first[2]
            inside = (place < plan.pixels) & (image < images)
            inside = inside & (y < high) & (x < wide)
            # A mask would apply to each element and split the accesses.
            if inside:
                ends = writer(*last, c, image)
                lead = start + image * c_image + (first[0] + own) * c_row
                at = lead + (y * wide + x)
                if how.phases > 1:
                    at = lead + (y * cells[0] + start_row + x * how.phases)
                step = _PLANES * together
                if ends is not None:
                    pixel = kl.assume_multiple(y * wide + x, how.run)
                    ended = (at, first[0] + own, pixel)
                    end_rows(
                        ends, part, (own * PITCH + far + near, step), ended, c_row, channels, how
                    )
                for row in kl.range(0, rows, step) if ends is None else ():
                    value = alternating(part, (own + row) * PITCH + far + near, how)
                    if not how.ragged or (first[0] + own + row < channels):
                        if how.cells is None:
                            if how.cut:
                                store_cut(c, value, at + row * c_row, x * how.phases, cells[1])
                            else:
                                c.store(kl.assume_multiple(at + row * c_row, value.width), value)
                        else:
                            there = lead + row * c_row
                            store_cells(c, how.cells, value, there, (y, x), cells)


@kl.helper
def end_rows(
    ends: Writer,
    part: kl.Pointer,
    held: tuple[kl.Number, int],
    place: tuple[kl.Number, kl.Number, kl.Number],
    c_row: kl.Number,
    channels: kl.Number,
    how: Writes,
) -> None:
    """Write what follows the sums of a run of pixels, in every so many channels of a warp group.

    ``held``: the first sum in shared memory, and the distance of channels. ``place``: the element
    of the first result, its channel and its pixel.
    """
    (at, step), (to, first, pixel) = held, place
    turns = _ROWS // step
    # Operands of several channels are read together: a branch between them would wait for each.
    # Copies of a long epilogue for each turn would exceed the cache of instructions.
    long = ends.by.expression.weight > _LONG
    some = min(_READ, turns) if long else turns
    for begin in kl.loop_range(0, turns, some) if long else (0,):
        found = []
        for k in kl.range(some):
            row = (begin + k) * step
            channel = first + row
            near = kl.min(channel, channels - 1) if how.ragged else channel
            value = alternating(part, at + row * PITCH, how)
            found.append((row, value, ends.operands(near, pixel, value.width)))
        for row, value, read in found:
            if not how.ragged or (first + row < channels):
                there = kl.assume_multiple(to + row * c_row, value.width)
                ends.store(there, ends.results(value, read))


@kl.helper
def store_cut(
    c: kl.Pointer, value: kl.Number, at: kl.Number, column: kl.Number, columns: kl.Number
) -> None:
    """Write adjacent pixels from a column on that are within the ``columns`` of a row."""
    for k in kl.range(value.width):
        if column + k < columns:
            c.store(at + k, value[k])


@kl.helper
def alternating(part: kl.Pointer, at: kl.Number, how: Writes) -> kl.Number:
    """Return the sums of a run of pixels, with all phases of each pixel."""
    step = _ROWS // how.phases * PITCH
    found = [
        part.load(kl.assume_multiple(at + number * step, how.run), how.run)
        for number in kl.range(how.phases)
    ]
    if how.phases == 1:
        return found[0]
    return kl.pack([value[k] for k in kl.range(how.run) for value in found])


@kl.helper
def store_cells(
    c: kl.Pointer,
    cells: Cells,
    value: kl.Number,
    start: kl.Number,
    place: tuple[kl.Number, kl.Number],
    sizes: Sequence[kl.Number],
) -> None:
    """Write adjacent cells from a row and column of cells on.

    ``start``: the first element of a plane of the result; ``sizes``: its rows and columns.
    """
    (high, wide), across = sizes, cells.sizes[1]
    top, left = place[0] * cells.sizes[0], place[1] * across
    for down in kl.range(cells.sizes[0]):
        made = [kl.constant(0, value.dtype)] * (value.width * across)
        if down == cells.at[0]:
            made[cells.at[1] :: across] = [value[k] for k in kl.range(value.width)]
        y = top + down
        for far in kl.range(0, len(made), cells.access):
            x = left + far
            if not cells.cut or ((y < high) & (x < wide)):
                at = kl.assume_multiple(start + (y * wide + x), cells.access)
                c.store(at, kl.pack(made[far : far + cells.access]))
