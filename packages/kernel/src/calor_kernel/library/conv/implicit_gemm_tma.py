"""Implicit GEMM convolutions by warp-group matrix instructions, fed by TMA.

Requirements: as in :mod:`matmul.warpgroup_tma`, one unit issues the copies and the other warp
groups only multiply. The pixels of a tile are a box of images, rows and columns. A tap reads the
same box at an offset, and TMA fills positions outside of the tensor with zeros, which is the
padding. For an input gradient with a stride, two phases that alternate along a row are rows of one
tile, with zeros for a tap that only one of them has. Sums are written with channels first.
(Implicit GEMM as in Chetlur et al., "cuDNN: efficient primitives for deep learning", 2014; boxes of
images instead of im2col tiles, NVIDIA, "CUDA Driver API", tensor maps.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType
from calor_kernel.language import (
    Layout,
    Mbarriers,
    SharedMatrix,
    Swizzle,
    Swizzled,
    cube_count,
    cube_position,
    fragment,
    helper,
    kernel,
    launch_attributes,
    role,
    select,
    shared,
    tensor_map,
    unit_index,
)
from calor_kernel.language.matrices import MatrixShape, wgmma_64
from calor_kernel.library.conv.implicit_gemm_tma_store import ALONE, PITCH, Writes, write
from calor_kernel.library.gemm.warpgroup import ASKING, LINE, MULTIPLYING, Ring

# Maximum of pixel groups before the first one that a window may reach.
_BEFORE = 1 << 16


@dataclass(frozen=True, slots=True)
class Turns:
    """Phases that are computed together; their weights have ``taps`` taps.

    ``phases``: of each phase, the index of its first tap relative to that of the first phase, the
    window column that this tap reads, and the number of its columns.
    """

    taps: int
    phases: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class PlaceBoxes:
    """A plan: each warp group has 64 of the ``rows``, and all pixels of the tile.

    ``result``: the dtype of c. ``box``: the images, rows and columns of a tile's pixels. A step is
    one line of channels of a tap, and ``stages`` of them are in shared memory. ``writes``: the
    epilogue. ``turns``: the phases of the rows, if there are several.
    """

    dtype: DType
    result: DType
    rows: int
    box: tuple[int, int, int]
    stages: int
    cluster: int = 1
    writes: Writes = ALONE
    turns: Turns | None = None

    @property
    def depth(self) -> int:
        """The channels of a step."""
        return LINE // int(self.dtype.itemsize)

    @property
    def places(self) -> int:
        """The pixels of a tile."""
        return self.box[0] * self.box[1] * self.box[2]

    @property
    def columns(self) -> int:
        """The columns of sums: the instruction's width for the pixels."""
        return -(-self.places // 8) * 8

    @property
    def groups(self) -> int:
        """The warp groups that multiply."""
        return self.rows // 64

    @property
    def channels(self) -> int:
        """The output channels of a tile: each has one row per phase."""
        return self.rows // self.writes.phases

    @property
    def units(self) -> int:
        """The units of a cube."""
        return 128 * (self.groups + 1)

    @property
    def shape(self) -> MatrixShape:
        """The instruction."""
        return wgmma_64(self.columns, self.dtype)

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube."""
        staged = self.rows * PITCH * int(self.result.itemsize)
        return LINE * self.stages * (self.rows + self.columns) + staged + 1024

    def swizzled(self, *sizes: int) -> Swizzled:
        """Return the swizzled layout of lines along the last axis."""
        layout = Layout.rows(*sizes)
        bits = {2: 3, 4: 2}[int(self.dtype.itemsize)]
        return Swizzled(Swizzle(3, bits, 3), layout)


@kernel
def conv_boxes(
    w: Any,
    x: Any,
    c: Any,
    rows_total: Any,
    terms: Any,
    w_row: Any,
    images: Any,
    high: Any,
    rows_apart: Any,
    wide: Any,
    channels: Any,
    x_image: Any,
    x_down: Any,
    x_row: Any,
    x_across: Any,
    x_column: Any,
    taps: Any,
    across_taps: Any,
    first_tap: Any,
    down_tap: Any,
    across_tap: Any,
    start_down: Any,
    start_across: Any,
    move_down: Any,
    move_across: Any,
    c_high: Any,
    c_wide: Any,
    c_row: Any,
    c_lead: Any,
    share: Any,
    part_step: Any,
    *whole_sizes: Any,
    plan: PlaceBoxes,
    strides: tuple[int, int],
) -> None:
    """Compute tiles of c; rows are output channels and columns are pixels of images.

    ``w``: rows of ``terms``, a block of channels of each of ``taps``, then the next block. Tap (i,
    j) has the index ``first_tap + i * down_tap + j * across_tap``, and reads at ``start + i *
    move`` from ``strides`` times its pixel. Rows of x are grouped by stride, ``x_down`` and
    ``x_row`` apart, and so are columns; a group of columns is a line of ``channels``. ``share``:
    the steps of each part of the terms; y selects the part. ``whole_sizes``: rows and columns of
    the result if its pixels are cells; with alternating phases, their row stride in the result and
    the first row.
    """
    launch_attributes(cubes_per_core=1)
    depth, (some_images, some_rows, some_columns) = plan.depth, plan.box
    w_at = plan.swizzled(plan.rows, depth)
    # The rows of a phase in a warp group are one box.
    w_rows = plan.rows if plan.turns is None else 64 // plan.writes.phases
    w_map = tensor_map(
        w, (rows_total, terms), (w_row, 1), (w_rows, depth), plan.swizzled(w_rows, depth),
        rounded=plan.shape.tf32,
    )  # fmt: skip
    box = (some_images, some_rows, 1, some_columns, depth)
    sizes = (images, high, rows_apart, wide, channels)
    apart = (x_image, x_down, x_row, x_across, 1)
    x_map = tensor_map(x, sizes, apart, box, plan.swizzled(*box), rounded=plan.shape.tf32)
    w_size, x_size = plan.rows * depth, plan.columns * depth
    nbytes = (w_size + plan.places * depth) * plan.dtype.itemsize
    left = shared(plan.stages * w_size, plan.dtype, align=1024)
    right = shared(plan.stages * x_size, plan.dtype, align=1024)
    staged = shared(plan.rows * PITCH, plan.result, align=16)
    # The rest of the columns has no box; it is multiplied but never written.
    rest = (plan.columns - plan.places) * depth
    for at in range(unit_index(), plan.stages * rest, plan.units) if rest else ():
        right[at // rest * x_size + plan.places * depth + at % rest] = 0
    full = Mbarriers(plan.stages, 1, meet=False)
    empty = Mbarriers(plan.stages, 4 * plan.groups)
    right_at = Swizzled(w_at.swizzle, Layout((depth, plan.columns), (1, depth)))
    ring = Ring(left, right, (w_size, x_size), right_at, full, empty, plan.stages, depth)
    downs, acrosses = -(-c_high // some_rows), -(-c_wide // some_columns)
    rows = -(-rows_total // plan.channels)
    whole = rows * downs * acrosses * -(-images // some_images)
    every, split = cube_count(0), cube_position(1)
    with role(0, registers=ASKING[plan.groups]):
        if unit_index() == 0:

            def copy(
                stage: Any, row: Any, image: Any, down: Any, across: Any, some: Any, i: Any, j: Any
            ) -> None:
                rows_at = left.at(stage * w_size)
                if plan.turns is None:
                    term = some * taps + first_tap + i * down_tap + j * across_tap
                    w_map.fetch(rows_at, (row, term * depth), full, stage)
                else:
                    tap = some * plan.turns.taps + first_tap + i * down_tap
                    found = terms_of(plan.turns, tap, j, across_tap, terms // depth)
                    for piece in range(plan.rows // w_rows):
                        group, phase = piece // len(found), piece % len(found)
                        of = row + group * w_rows, found[phase] * depth
                        w_map.fetch(rows_at.at(piece * w_rows * depth), of, full, stage)
                below, row_of = whole_and_rest(start_down + i * move_down, strides[0])
                beside, column_of = whole_and_rest(start_across + j * move_across, strides[1])
                channel = column_of * x_column + some * depth
                seen = (image, down + below, row_of, across + beside, channel)
                x_map.fetch(right.at(stage * x_size), seen, full, stage)

            stage, parity = images * 0, images * 0 + 1
            for tile in range(cube_position(0), whole, every):
                row, place = tile % rows * plan.channels, tile // rows
                across = place % acrosses * some_columns
                down = place // acrosses % downs * some_rows
                image = place // acrosses // downs * some_images
                for number in range(share):
                    step = split * share + number
                    some, tap = step // taps, step % taps
                    i, j = tap // across_taps, tap % across_taps
                    stage, parity = ring.load(
                        stage, parity, nbytes, copy, row, image, down, across, some, i, j
                    )
    with role(1, plan.groups, registers=MULTIPLYING[plan.groups]):
        shape = plan.shape
        top = (unit_index() // 128 - 1) * 64
        stage, parity = images * 0, images * 0

        def left_of(stage: Any) -> Any:
            lefts = SharedMatrix(left.at(stage * w_size), w_at)
            return lambda p: lefts.tile((shape.m, shape.k), (top, p))

        for tile in range(cube_position(0), whole, every):
            row, place = tile % rows * plan.channels, tile // rows
            across = place % acrosses * some_columns
            down = place // acrosses % downs * some_rows
            image = place // acrosses // downs * some_images
            sums = fragment(shape, "c")
            stage, parity = ring.multiply(sums, shape, share, 1, stage, parity, left_of)
            limits = (rows_total, images, c_high, c_wide, *whole_sizes)
            to = (split * part_step, c_row, c_lead)
            part = staged.at(top * PITCH)
            first = row + top // plan.writes.phases, image, down, across
            write(sums, part, c, to, first, limits, plan, plan.writes)


@helper
def terms_of(turns: Turns, tap: Any, column: Any, step: Any, beyond: Any) -> list[Any]:
    """Return the tap index of each phase that reads a window column.

    For a phase that does not read it the index is ``beyond`` all terms, where TMA reads zeros.
    """
    made = []
    for first, start, count in turns.phases:
        seen = (column >= start) & (column < start + count)
        made.append(select(seen, tap + first + (column - start) * step, beyond))
    return made


@helper
def whole_and_rest(place: Any, stride: int) -> tuple[Any, Any]:
    """Return the group of a position, possibly before the first, and the position in the group."""
    if stride == 1:
        return place, place * 0
    safe = place + stride * _BEFORE
    return safe // stride - _BEFORE, safe % stride
