"""Parts of SIMT attention: tiles in shared memory, products, and scores.

Requirements: a cube reads operands from global memory once a step. Neighbouring units read along
the contiguous axis, and write neighbouring elements. Any strides and sizes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType
from calor_kernel.language import (
    barrier,
    constant,
    cube_size,
    fma,
    helper,
    loop_range,
    private,
    registers,
    select,
    shared,
    unit_index,
    unit_position,
)
from calor_kernel.library.attention.problem import Given
from calor_kernel.library.gemm.generic import fill_tile


def common(count: int, dtype: DType) -> Any:
    """Return memory shared by the units of a cube; private memory for a cube of one unit."""
    alone = cube_size(0) * cube_size(1) == 1
    return private(count, dtype) if alone else shared(count, dtype)


@dataclass(frozen=True, slots=True)
class Matrix:
    """``count`` rows of ``width`` elements in global memory; ``along``: elements are contiguous."""

    memory: Any
    at: Any
    count: Any
    width: Any
    row_step: Any
    step: Any
    along: bool


def head_of(
    memory: Any, strides: Any, n: Any, head: Any, count: Any, width: Any, along: bool
) -> Matrix:
    """Return the rows of a head of an operand with four axes."""
    at = n * strides[0] + head * strides[1]
    return Matrix(memory, at, count, width, strides[2], strides[3], along)


@dataclass(frozen=True, slots=True)
class Team:
    """A cube of ``across`` by ``down`` units, and their shared tiles of ``depth`` rows.

    In a tile of results a unit has rows ``down`` apart and columns ``across`` apart.
    """

    across: int
    down: int
    depth: int
    dtype: DType
    left: Any
    right: Any

    @property
    def units(self) -> int:
        """The number of units."""
        return self.across * self.down

    def row(self, i: int) -> Any:
        """Return the row of a unit's i-th results."""
        return unit_position(1) + i * self.down

    def column(self, j: int) -> Any:
        """Return the column of a unit's j-th results."""
        return unit_position(0) + j * self.across

    def fill(
        self, tile: Any, source: Matrix, first: Any, begin: Any, size: int, depth: int
    ) -> None:
        """Fill a tile, transposed: ``tile[p, i]`` is element begin + p of row first + i."""
        fill_tile(
            tile, 0, source.memory, source.at, first, source.count, begin, source.width,
            source.row_step, source.step, unit_index(), self.units, size, depth, source.along,
            self.dtype,
        )  # fmt: skip

    def fill_rows(
        self, tile: Any, source: Matrix, first: Any, begin: Any, size: int, depth: int
    ) -> None:
        """Fill a tile: ``tile[p, i]`` is element first + i of row begin + p."""
        fill_tile(
            tile, 0, source.memory, source.at, first, source.width, begin, source.count,
            source.step, source.row_step, unit_index(), self.units, size, depth, not source.along,
            self.dtype,
        )  # fmt: skip

    @helper
    def scores(self, a: Matrix, b: Matrix, first: Any, begin: Any, shape: tuple[int, int]) -> Any:
        """Return the products of rows of a from ``first`` on and rows of b from ``begin`` on."""
        rows, columns = shape
        acc = registers(shape, self.dtype)
        height, width = rows * self.down, columns * self.across
        for p in loop_range(0, a.width, self.depth):
            barrier()
            self.fill(self.left, a, first, p, height, self.depth)
            self.fill(self.right, b, begin, p, width, self.depth)
            barrier()
            self.multiply(acc, self.left, 1, height, self.right, self.depth)
        return acc

    @helper
    def multiply(
        self, acc: Any, left: Any, row_step: int, step: int, right: Any, depth: int
    ) -> None:
        """Add products of tiles: row i of the left begins at i · row_step, the right is dense."""
        rows, columns = acc.shape
        width = columns * self.across
        for p in loop_range(depth):
            xs = [right[p * width + self.column(j)] for j in range(columns)]
            for i in range(rows):
                value = left[self.row(i) * row_step + p * step]
                for j in range(columns):
                    acc[i, j] = fma(value, xs[j], acc[i, j])


def team(across: int, down: int, depth: int, dtype: DType, rows: int, columns: int) -> Team:
    """Return a cube's units, with shared tiles for results of ``rows`` by ``columns`` a unit."""
    left, right = common(depth * rows * down, dtype), common(depth * columns * across, dtype)
    return Team(across, down, depth, dtype, left, right)


@helper
def adjusted(
    x: Any, g: Given, kinds: tuple[str, ...], causal: bool, n: Any, head: Any, i: Any, j: Any
) -> Any:
    """Return a product as a score: scaled, with biases, and −inf if hidden or beyond the end."""
    x = x * g.scale
    there = (i < g.queries) & (j < g.keys)
    seen = there
    for kind, (memory, strides) in zip(kinds, g.extras, strict=True):
        at = n * strides[0] + head * strides[1] + i * strides[2] + j * strides[3]
        if kind == "bias":
            x = x + memory.load(at, mask=there).to(x.dtype)
        else:
            seen = seen & memory.load(at, mask=there, other=False)
    if causal:
        seen = seen & (j <= i)
    return select(seen, x, constant(-math.inf, x.dtype))
