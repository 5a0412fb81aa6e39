"""Convolutions by matrix instructions of planes: products whose operands are found on the fly.

Requirements: channels lie dense, so that a copy is a whole access of one place and one tap; what a
window sees of padding is zeros that the copy makes; a place's coordinates are found once and a
step's tap once, and the rest is additions and comparisons. Rows are channels of the result and
columns places, so that results are written as they lie, channels first. (Implicit GEMM, as in
Chetlur et al., "cuDNN: efficient primitives for deep learning", 2014.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType
from calor_kernel.language import (
    FastDivmod,
    Layout,
    Pipeline,
    SharedMatrix,
    Swizzle,
    Swizzled,
    Tile,
    assume_multiple,
    cube_position,
    fragment,
    group_of,
    helper,
    issue_mma,
    kernel,
    mma,
    pack,
    plane_position,
    select,
    unit_index,
    wait_mma,
)
from calor_kernel.language.matrices import MatrixShape, mma_16x8, wgmma_64

# Bytes of a line of shared memory as groups' products read it.
_LINE = 128


@dataclass(frozen=True, slots=True)
class Fragments:
    """How a convolution is computed: ``down`` by ``across`` planes share a tile of sums.

    A tile has ``rows`` by ``columns`` sums and takes ``depth`` terms at a time, of which ``stages``
    are in memory. ``turned``: whether operands are dense along rows and columns, not along terms.
    ``grouped``: whether four planes down compute 64 rows together, beside the units.
    """

    dtype: DType
    rows: int
    columns: int
    depth: int
    down: int
    across: int
    stages: int
    turned: bool = False
    grouped: bool = False

    @property
    def units(self) -> int:
        """The units of a cube."""
        return 32 * self.down * self.across

    @property
    def access(self) -> int:
        """The elements of an access of 16 bytes."""
        return 16 // int(self.dtype.itemsize)

    @property
    def shape(self) -> MatrixShape:
        """The instruction."""
        return wgmma_64(self.columns, self.dtype) if self.grouped else mma_16x8(self.dtype)

    def layout(self, first: bool) -> Layout | Swizzled:
        """Return where (row, term) or (term, column) of a tile lie.

        Lines of planes' tiles are padded, so that those loaded together differ in banks; those of
        groups' tiles are 128 bytes, swizzled as the instruction reads them.
        """
        size = self.rows if first else self.columns
        if self.grouped:
            line = _LINE // int(self.dtype.itemsize)
            place: tuple[Any, Any] = (size, line)
            term: tuple[Any, Any] = ((line, self.depth // line), (1, size * line))
            if self.turned:
                place, term = ((line, size // line), (1, self.depth * line)), (self.depth, line)
            sides = (place, term) if first else (term, place)
            # Accesses of a line are swizzled.
            swizzle = Swizzle(3, self.access.bit_length() - 1, 3)
            return Swizzled(swizzle, Layout(*map(tuple, zip(*sides, strict=True))))
        if self.turned:
            strides = (1, size + self.access)
        else:
            strides = (self.depth + self.access, 1)
        if first:
            return Layout((size, self.depth), strides)
        return Layout((self.depth, size), strides[::-1])

    @property
    def tiles(self) -> tuple[Tile, Tile]:
        """The tiles of a stage."""
        align = 1024 if self.grouped else 128
        first, second = (Tile(self.dtype, self.layout(side), align) for side in (True, False))
        return first, second

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube."""
        return self.stages * sum(t.size * int(t.dtype.itemsize) for t in self.tiles)


@helper
def sums_of(plan: Fragments) -> Any:
    """Return a plane's or group's sums, and the row and column at which they begin."""
    shape = plan.shape
    if plan.grouped:
        return [[fragment(shape, "c")]], group_of(shape) * shape.m, 0
    plane = plane_position()
    high, wide = plan.rows // plan.down, plan.columns // plan.across
    row, column = plane // plan.across * high, plane % plan.across * wide
    sums = [[fragment(shape, "c") for _ in range(wide // shape.n)] for _ in range(high // shape.m)]
    return sums, row, column


@helper
def multiply(sums: Any, pipe: Any, row: Any, column: Any, plan: Fragments) -> None:
    """Add the products of a plane's or group's rows and columns of a stage."""
    shape, left_at, right_at = plan.shape, plan.layout(True), plan.layout(False)
    left, right = pipe.stage(0), pipe.stage(1)
    if plan.grouped:
        rows, columns = SharedMatrix(left, left_at), SharedMatrix(right, right_at)
        issue_mma(
            sums[0][0],
            [
                (rows.tile((shape.m, shape.k), (row, p)), columns.tile((shape.k, shape.n), (p, 0)))
                for p in range(0, plan.depth, shape.k)
            ],
        )
        wait_mma(sums[0][0])
        return
    a_piece = left_at.compose((shape.m, shape.k))
    b_piece = right_at.compose((shape.k, shape.n))
    for p in range(0, plan.depth, shape.k):
        rights = [
            fragment(shape, "b").load(right.at(right_at(p, column + j * shape.n)), b_piece)
            for j in range(len(sums[0]))
        ]
        for i in range(len(sums)):
            a = fragment(shape, "a").load(left.at(left_at(row + i * shape.m, p)), a_piece)
            for j in range(len(sums[0])):
                mma(a, rights[j], sums[i][j])


@dataclass(frozen=True, slots=True)
class Windows:
    """Where windows lie in an operand whose channels are dense, along two axes.

    Terms are some channels of each tap, then the next channels, so that windows that overlap are
    read while what they share is near.
    """

    counts: Any
    taps: Any
    channels: Any
    axes: Any
    strides: Any

    @helper
    def start(self, column: Any, total: Any) -> Any:
        """Return where the window of a place begins, and its coordinates, outside if none is."""
        lead, place = self.counts[0].divmod(column)
        down, across = self.counts[1].divmod(place)
        y = down * self.axes[0][0] + self.axes[0][2]
        x = across * self.axes[1][0] + self.axes[1][2]
        at = lead * self.strides[0] + y * self.strides[1] + x * self.strides[2]
        # No tap reaches back from there.
        return at, select(column < total, y, -(1 << 30)), x

    @helper
    def tap(self, term: Any) -> Any:
        """Return how far a term lies from a window's start, along the axes and in elements."""
        step, channel = self.channels.divmod(term)
        some, tap = self.taps[0].divmod(step)
        down, across = self.taps[1].divmod(tap)
        y, x = down * self.axes[0][1], across * self.axes[1][1]
        channel = some * self.channels.divisor + channel
        return y, x, y * self.strides[1] + x * self.strides[2] + channel

    @helper
    def inside(self, y: Any, x: Any) -> Any:
        """Return whether a place is no padding."""
        high, wide = self.axes[0][3], self.axes[1][3]
        return (y >= 0) & (y < high) & (x >= 0) & (x < wide)


def windows_of(numbers: Any) -> Windows:
    """Return the windows that a kernel is given: three strides, two axes, five divisors."""
    axes = (numbers[3:7], numbers[7:11])
    counts = FastDivmod.groups(numbers[11:17])
    *taps, channels = FastDivmod.groups(numbers[17:26])
    return Windows(counts, taps, channels, axes, numbers[:3])


@kernel
def conv_fragments(
    w: Any,
    x: Any,
    c: Any,
    rows_total: Any,
    columns_total: Any,
    terms: Any,
    splits: Any,
    share: Any,
    part_step: Any,
    c_row: Any,
    c_lead: Any,
    c_down: Any,
    c_across: Any,
    *numbers: Any,
    plan: Fragments,
    pairs: bool,
) -> None:
    """Compute a tile: channels of the result from y, its places from x, a part of the terms from z.

    ``w``: a row of terms for each channel of the result. ``pairs``: whether places
    lie dense in the result and are even in number, so that two are one access.
    """
    windows = windows_of(numbers)
    split = cube_position(2)
    first_row, first_column = cube_position(1) * plan.rows, cube_position(0) * plan.columns
    begin, end = split * share, min((split + 1) * share, terms)
    pipe = Pipeline(plan.stages, *plan.tiles, how="async")
    sums, row, column = sums_of(plan)
    # A unit always copies the same terms of a step, of the same rows and columns.
    lines = plan.depth // plan.access
    line, term = unit_index() // lines, unit_index() % lines * plan.access
    apart = plan.units // lines
    starts = [
        windows.start(first_column + line + turn * apart, columns_total)
        for turn in range(plan.columns // apart)
    ]
    source = (w, x, windows, starts, rows_total, terms, end)
    for ahead in range(plan.stages - 1):
        pipe.acquire()
        take_step(pipe, source, plan, first_row, line, term, begin + ahead * plan.depth)
        pipe.commit()
    for at in range(begin, end, plan.depth):
        pipe.wait()
        pipe.acquire()
        take_step(pipe, source, plan, first_row, line, term, at + (plan.stages - 1) * plan.depth)
        pipe.commit()
        multiply(sums, pipe, row, column, plan)
        pipe.release()
    for j, far in columns_of(sums[0]):
        down, right = sums[0][j].lane_place()
        place = first_column + column + j * plan.shape.n + right + far
        ats = []
        for e in range(1 if pairs else 2):
            lead, within = windows.counts[0].divmod(place + e)
            high, wide = windows.counts[1].divmod(within)
            at = assume_multiple(within, 2) if pairs else high * c_down + wide * c_across
            ats.append(split * part_step + lead * c_lead + at)
        for i in range(len(sums)):
            for r, a, b in rows_of(sums[i][j], far):
                to = first_row + row + i * plan.shape.m + down + r
                if pairs:
                    there = (to < rows_total) & (place < columns_total)
                    c.store(ats[0] + to * c_row, pack([a, b]).to(c.dtype), mask=there)
                else:
                    for e, one in enumerate((a, b)):
                        there = (to < rows_total) & (place + e < columns_total)
                        c.store(ats[e] + to * c_row, one.to(c.dtype), mask=there)


def columns_of(tiles: Any) -> list[tuple[int, int]]:
    """Return the tiles' pairs of columns that a unit has: the tile, and how far in it."""
    places = [tiles[0].register_place(r) for r in range(0, tiles[0].count, 2)]
    fars = dict.fromkeys(column for _, column in places)
    return [(j, far) for j in range(len(tiles)) for far in fars]


def rows_of(tile: Any, far: int) -> list[tuple[int, Any, Any]]:
    """Return the rows of a unit's pair of columns, with both numbers."""
    found = []
    for r in range(0, tile.count, 2):
        row, column = tile.register_place(r)
        if column == far:
            found.append((row, tile.parts[0][r], tile.parts[0][r + 1]))
    return found


@helper
def take_step(
    pipe: Any, source: Any, plan: Fragments, first_row: Any, line: Any, term: Any, begin: Any
) -> None:
    """Start copying a step's tiles; padding, and what is beyond the operands, becomes 0."""
    w, x, windows, starts, rows_total, terms, end = source
    left_at, right_at = plan.layout(True), plan.layout(False)
    apart = plan.units * plan.access // plan.depth
    k = begin + term
    there = k < end
    for turn in range(plan.rows // apart):
        row = line + turn * apart
        inside = there & (first_row + row < rows_total)
        of = (first_row + row) * terms + k
        pipe.copy(0, left_at(row, term), w, of, plan.access, inside, near=True)
    far_y, far_x, far = windows.tap(k)
    for turn, (at, y, across) in enumerate(starts):
        place = line + turn * apart
        inside = there & windows.inside(y + far_y, across + far_x)
        pipe.copy(1, right_at(term, place), x, at + far, plan.access, inside, near=True)
