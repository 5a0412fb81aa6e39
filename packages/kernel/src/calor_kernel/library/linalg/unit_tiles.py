"""Factorizations on processors: tiles of sums in the registers of one unit.

Requirements: nearly all of the work is products, which run at the processor's rate. So a tile has
some rows and some vectors of columns in registers; a vector of X serves all rows, and a coefficient
all vectors. Rows follow each other in memory, so that vectors need no copies. What is not part of
a triangle is read into no result.
"""

from __future__ import annotations

from dataclasses import dataclass

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.library.linalg.matrices import minus_product
from calor_kernel.library.matmul.packing import iota

# Columns of a panel, and of a cube's tile: a multiple of the width and the height of a tile.
BLOCK = 48
# Vectors of a tile.
_VECTORS = 3


@dataclass(frozen=True, slots=True)
class UnitTile:
    """A tile of ``rows`` rows by ``vectors`` vectors of ``lanes`` columns."""

    rows: int
    vectors: int
    lanes: int

    @staticmethod
    def of(info: DeviceInfo, dtype: DType) -> UnitTile:
        """Return the tile that the registers of a device hold."""
        lanes = max(1, info.vector_bytes // int(dtype.itemsize))
        rows = 8 if info.native.get("vector_registers", 16) >= 32 else 4
        while rows > _VECTORS * lanes:
            rows //= 2
        return UnitTile(rows, _VECTORS, lanes)

    @property
    def width(self) -> int:
        """The columns of a tile."""
        return self.vectors * self.lanes

    def for_columns(self, count: int) -> UnitTile:
        """Return the tile with no more vectors than ``count`` columns need.

        >>> UnitTile(8, 3, 16).for_columns(17)
        UnitTile(rows=8, vectors=2, lanes=16)
        """
        vectors = 1
        while vectors < self.vectors and vectors * self.lanes < count:
            vectors += 1
        return UnitTile(self.rows, vectors, self.lanes)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of numbers in memory: row i, column c is at ``start + i * pitch + c``."""

    memory: kl.Pointer
    start: kl.Index
    pitch: kl.Index

    def at(self, row: kl.Index, column: kl.Index) -> kl.Index:
        """Return the place of an element."""
        return self.start + row * self.pitch + column


@dataclass(frozen=True, slots=True)
class Coefficients:
    """A matrix in memory: row i, column k is at ``start + i * down + k * along``."""

    memory: kl.Pointer
    start: kl.Index
    down: kl.Index
    along: kl.Index

    def at(self, row: kl.Index, column: kl.Index) -> kl.Number:
        """Return an element."""
        return self.memory[self.start + row * self.down + column * self.along]


def masks_of(tile: UnitTile, column: kl.Number, end: kl.Number) -> list[kl.Number | None]:
    """Return which lanes of a tile's vectors are before a column."""
    return [column + v * tile.lanes + iota(tile.lanes, column) < end for v in range(tile.vectors)]


def no_masks(tile: UnitTile) -> list[kl.Number | None]:
    """Return the masks of a tile whose columns all exist."""
    return [None] * tile.vectors


@kl.helper
def remainder(
    tile: UnitTile,
    left: Coefficients,
    x: Rows,
    source: Rows,
    row: kl.Number,
    last: kl.Number,
    column: kl.Number,
    first: kl.Index,
    end: kl.Index,
    masks: list[kl.Number | None],
) -> kl.Registers:
    """Return rows of ``source`` from one on, without their products with rows of X.

    These are the sums over k from ``first`` to ``end`` of left[row, k] X[k, column]. Rows behind
    the ``last`` one are that row again.
    """
    rows, vectors, lanes = tile.rows, tile.vectors, tile.lanes
    sums = kl.registers((rows, vectors), source.memory.dtype, lanes)
    places = [kl.min(row + r, last) for r in range(rows)]
    for r in range(rows):
        for v in range(vectors):
            at = source.at(places[r], column + v * lanes)
            sums[r, v] = source.memory.load(at, lanes, mask=masks[v])
    starts = [left.start + place * left.down for place in places]
    for k in kl.loop_range(first, end):
        found = [
            x.memory.load(x.at(k, column + v * lanes), lanes, mask=masks[v]) for v in range(vectors)
        ]
        for r in range(rows):
            value = kl.splat(left.memory[starts[r] + k * left.along], lanes)
            for v in range(vectors):
                sums[r, v] = minus_product(value, found[v], sums[r, v])
    return sums


@kl.helper
def substituted(
    tile: UnitTile,
    sums: kl.Registers,
    left: Coefficients,
    row: kl.Number,
    last: kl.Number,
    unit: bool,
) -> None:
    """Solve for the rows of a tile by the triangle in left; ``unit``: its diagonal has ones."""
    places = [kl.min(row + r, last) for r in range(tile.rows)]
    for r in range(tile.rows):
        if not unit:
            pivot = kl.splat(left.at(places[r], places[r]), tile.lanes)
            for v in range(tile.vectors):
                sums[r, v] = sums[r, v] / pivot
        for below in range(r + 1, tile.rows):
            value = kl.splat(left.at(places[below], places[r]), tile.lanes)
            for v in range(tile.vectors):
                sums[below, v] = minus_product(value, sums[r, v], sums[below, v])


@kl.helper
def store_rows(
    tile: UnitTile,
    sums: kl.Registers,
    target: Rows,
    row: kl.Number,
    last: kl.Number,
    column: kl.Number,
    masks: list[kl.Number | None],
) -> None:
    """Write the rows of a tile, up to the ``last`` one."""
    for r in range(tile.rows):
        if row + r <= last:
            for v in range(tile.vectors):
                at = target.at(row + r, column + v * tile.lanes)
                target.memory.store(at, sums[r, v], mask=masks[v])
