"""Products by matrix instructions of planes: tiles in shared memory, fragments in registers.

Requirements: operands of half types whose rows or columns lie dense, sums in float32; copies run
some stages ahead of the products; rows of a tile are padded by one access, so that the eight that
are loaded together begin in different banks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType
from calor_kernel.language import (
    Buffer,
    Layout,
    Pipeline,
    Tile,
    cube_position,
    fragment,
    helper,
    kernel,
    mma,
    plane_position,
    unit_index,
)
from calor_kernel.language.matrices import MatrixShape, mma_16x8

# The bytes of an access.
ACCESS = 16


@dataclass(frozen=True, slots=True)
class Fragments:
    """How a product is computed by planes: ``down`` by ``across`` of them share a tile.

    A tile has ``rows`` by ``columns`` sums, and takes ``depth`` of the summed axis at a time, which
    ``stages`` copies hold. ``a_along``, ``b_along``: whether the operand is dense along that axis.
    """

    dtype: DType
    rows: int
    columns: int
    depth: int
    down: int
    across: int
    stages: int
    a_along: bool
    b_along: bool

    @property
    def access(self) -> int:
        """The elements of an access."""
        return ACCESS // int(self.dtype.itemsize)

    @property
    def units(self) -> int:
        """The units of a cube."""
        return 32 * self.down * self.across

    @property
    def shape(self) -> MatrixShape:
        """The instruction."""
        return mma_16x8(self.dtype)

    def layout(self, first: bool) -> Layout:
        """Return where (row, column) of the tile of a, or of b, lie."""
        if first:
            size = self.rows, self.depth
            return Layout(size, self._strides(size, dense=1 if self.a_along else 0))
        size = self.depth, self.columns
        return Layout(size, self._strides(size, dense=0 if self.b_along else 1))

    def _strides(self, size: tuple[int, int], dense: int) -> tuple[int, int]:
        pitch = size[dense] + self.access
        return (pitch, 1) if dense == 1 else (1, pitch)

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube."""
        tiles = (Tile(self.dtype, self.layout(first)) for first in (True, False))
        return sum(self.stages * t.size * int(t.dtype.itemsize) for t in tiles)


@kernel
def matmul_fragments(
    a: Any,
    b: Any,
    c: Any,
    m: Any,
    n: Any,
    k: Any,
    a_stride: Any,
    b_stride: Any,
    inner: Any,
    a_outer_stride: Any,
    a_inner_stride: Any,
    a_base: Any,
    b_outer_stride: Any,
    b_inner_stride: Any,
    b_base: Any,
    *,
    plan: Fragments,
) -> None:
    """Compute a tile of c. ``a_stride``, ``b_stride``: of the axis that is not dense."""
    batch = cube_position(2)
    outer, within = batch // inner, batch % inner
    a_start = a_base + outer * a_outer_stride + within * a_inner_stride
    b_start = b_base + outer * b_outer_stride + within * b_inner_stride
    first_row, first_column = cube_position(1) * plan.rows, cube_position(0) * plan.columns
    left, right = plan.layout(True), plan.layout(False)
    pipe = Pipeline(plan.stages, Tile(plan.dtype, left), Tile(plan.dtype, right), how="async")
    plane = plane_position()
    high, wide = plan.rows // plan.down, plan.columns // plan.across
    row, column = plane // plan.across * high, plane % plan.across * wide
    shape = plan.shape
    sums = [[fragment(shape, "c") for _ in range(wide // shape.n)] for _ in range(high // shape.m)]
    for ahead in range(plan.stages - 1):
        pipe.acquire()
        take_tiles(
            pipe, plan, a, b, a_start, b_start, a_stride, b_stride, first_row, first_column,
            m, n, k, ahead * plan.depth,
        )  # fmt: skip
        pipe.commit()
    for begin in range(0, k, plan.depth):
        pipe.wait()
        pipe.acquire()
        take_tiles(
            pipe, plan, a, b, a_start, b_start, a_stride, b_stride, first_row, first_column,
            m, n, k, begin + (plan.stages - 1) * plan.depth,
        )  # fmt: skip
        pipe.commit()
        multiply(sums, pipe.stage(0), pipe.stage(1), left, right, row, column, plan)
        pipe.release()
    whole = (first_row + plan.rows <= m) & (first_column + plan.columns <= n)
    for i in range(high // shape.m):
        for j in range(wide // shape.n):
            top, start = first_row + row + i * shape.m, first_column + column + j * shape.n
            place = c.at((batch * m + top) * n + start)
            if whole:
                sums[i][j].store(place, (n, 1))
            else:
                sums[i][j].store(place, (n, 1), limits=(m - top, n - start))


@helper
def multiply(
    sums: Any, left: Any, right: Any, left_at: Any, right_at: Any, row: Any, column: Any, plan: Any
) -> None:
    """Add the products of a plane's rows and columns of two tiles."""
    shape = plan.shape
    a_piece = left_at.compose((shape.m, shape.k))
    b_piece = right_at.compose((shape.k, shape.n))
    for p in range(0, plan.depth, shape.k):
        lefts = [
            fragment(shape, "a").load(left.at(left_at(row + i * shape.m, p)), a_piece)
            for i in range(len(sums))
        ]
        rights = [
            fragment(shape, "b").load(right.at(right_at(p, column + j * shape.n)), b_piece)
            for j in range(len(sums[0]))
        ]
        for i in range(len(sums)):
            for j in range(len(sums[0])):
                mma(lefts[i], rights[j], sums[i][j])


@helper
def take_tiles(
    pipe: Any,
    plan: Any,
    a: Any,
    b: Any,
    a_start: Any,
    b_start: Any,
    a_stride: Any,
    b_stride: Any,
    first_row: Any,
    first_column: Any,
    m: Any,
    n: Any,
    k: Any,
    begin: Any,
) -> None:
    """Start copying the tiles of a step; what is beyond the operands becomes 0."""
    sides = (
        (0, a, a_start, a_stride, first_row, m, plan.rows, plan.a_along),
        (1, b, b_start, b_stride, first_column, n, plan.columns, plan.b_along),
    )
    for tile, source, start, stride, first, count, size, along in sides:
        at = plan.layout(tile == 0)
        pieces = size * plan.depth // plan.access
        lines = (plan.depth if along else size) // plan.access
        for turn in range(-(-pieces // plan.units)):
            piece = unit_index() + turn * plan.units
            line, access = piece // lines, piece % lines * plan.access
            if along:
                place, p = line, access
            else:
                place, p = access, line
            to = at(place, p) if tile == 0 else at(p, place)
            across, deep = first + place, begin + p
            if along:
                of = start + across * stride + deep
            else:
                of = start + deep * stride + across
            inside = (across < count) & (deep < k)
            if (pieces % plan.units == 0) or (piece < pieces):
                pipe.copy(tile, to, source, of, plan.access, inside)


def declared(dtype: DType, result: DType) -> tuple[Buffer, Buffer, Buffer]:
    """Return the buffers of the kernel."""
    read = Buffer(dtype, writable=False, align=16)
    return read, read, Buffer(result, align=16)
