"""Cholesky factors by panels of columns, one launch each.

Requirements: a panel subtracts the products of the panels before it, so that a matrix takes as many
launches as it has panels. Of a large matrix these are the panels of its group of columns alone: an
update subtracts a group's products from all that is behind it. Only the lower triangle is read. A
cube has a tile of a panel's rows, and computes the diagonal block too, because that takes no longer
than to wait for it. A matrix that is not positive definite gives NaN from its first bad pivot on.
"""

from __future__ import annotations

import math

from calor_kernel import language as kl
from calor_kernel.library.linalg.matrices import keep_registers, lanes_of, minus_product


@kl.kernel
def cholesky_panel(
    x: kl.In,
    factor: kl.InOut,
    n: kl.Size,
    begin: kl.Size,
    first: kl.Size,
    tiles: kl.Size,
    *,
    block: int,
    tall: bool,
) -> None:
    """Write the columns from ``first`` on of lower factors, for a tile of rows; 0 above them.

    In ``x`` the products of columns before ``begin`` are subtracted. The units of a cube are a
    square, and each has two rows by two columns of both blocks. ``tall``: whether there are rows
    below the diagonal block.
    """
    keep_registers()
    dtype, half = x.dtype, block // 2
    cube, unit = kl.cube_position(), kl.unit_index()
    base, tile = cube // tiles * (n * n), cube % tiles
    rows = [unit // half + i * half for i in range(2)]
    columns = [unit % half + j * half for j in range(2)]
    below = first + tile * block
    terms = begin, first
    square, rest = remainders(factor, base, n, terms, below, rows, columns, block, tall)
    for i in range(2):
        for j in range(2):
            row, column = first + rows[i], first + columns[j]
            # Beyond the end there is an identity, which changes nothing.
            value = kl.select(rows[i] == columns[j], kl.constant(1.0, dtype), 0.0)
            if (row < n) & (column <= row):
                value = x[base + row * n + column] - square[i, j]
            square[i, j] = value
            if tall:
                row = below + rows[i]
                value = kl.constant(0.0, dtype)
                if (row < n) & (column < n):
                    value = x[base + row * n + column] - rest[i, j]
                rest[i, j] = value
    pivots = eliminate(square, rest, rows, columns, block, tall)
    for j in range(2):
        root = kl.select(pivots[j] > 0.0, kl.sqrt(pivots[j]), math.nan)
        for i in range(2):
            row, column = first + rows[i], first + columns[j]
            if (tile == 0) & (row < n) & (column < n):
                value = kl.select(rows[i] == columns[j], root, square[i, j] / root)
                value = kl.select(rows[i] < columns[j], 0.0, value)
                factor[base + row * n + column] = value
            if tall:
                row = below + rows[i]
                if (tile > 0) & (row < n) & (column < n):
                    factor[base + row * n + column] = rest[i, j] / root
                row, column = first + rows[i], below + columns[j]
                if (tile > 0) & (row < n) & (column < n):
                    factor[base + row * n + column] = kl.constant(0.0, dtype)


@kl.helper
def remainders(
    factor: kl.Pointer,
    base: kl.Index,
    n: kl.Number,
    terms: tuple[kl.Number, kl.Number],
    below: kl.Number,
    rows: list[kl.Number],
    columns: list[kl.Number],
    block: int,
    tall: bool,
) -> tuple[kl.Registers, kl.Registers]:
    """Return a unit's products of the rows of both blocks with those of the diagonal block.

    ``terms``: the first column of the sums, and that behind their last, where the block begins.
    """
    dtype, (start, first) = factor.dtype, terms
    lanes = lanes_of(dtype)
    # A line more than its elements, so that lines begin in different banks.
    pitch = block + lanes
    sides = [first, below] if tall else [first]
    staged = [kl.shared(block * pitch, dtype, align=16) for _ in sides]
    sums = [kl.registers((2, 2), dtype, lanes) for _ in sides]
    held = [kl.registers((2, 2), dtype) for _ in sides]

    def take(begin: kl.Index) -> None:
        for s in range(len(sides)):
            for i in range(2):
                for j in range(2):
                    row = kl.min(sides[s] + rows[i], n - 1)
                    held[s][i, j] = factor[base + row * n + begin + columns[j]]

    if first > start:
        take(start)
    for begin in kl.loop_range(start, first, block):
        kl.barrier()
        for s in range(len(sides)):
            for i in range(2):
                for j in range(2):
                    staged[s][rows[i] * pitch + columns[j]] = held[s][i, j]
        kl.barrier()
        if begin + block < first:
            take(begin + block)
        for k in kl.loop_range(0, block, lanes):
            places = [kl.assume_multiple(c * pitch + k, lanes) for c in columns]
            right = [staged[0].load(at, lanes) for at in places]
            for s in range(len(sides)):
                for i in range(2):
                    at = kl.assume_multiple(rows[i] * pitch + k, lanes)
                    left = staged[s].load(at, lanes)
                    for j in range(2):
                        sums[s][i, j] = kl.fma(left, right[j], sums[s][i, j])
    found = [kl.registers((2, 2), dtype) for _ in range(2)]
    for s in range(len(sides)):
        for i in range(2):
            for j in range(2):
                found[s][i, j] = kl.vreduce("add", sums[s][i, j])
    return found[0], found[1]


@kl.helper
def eliminate(
    square: kl.Registers,
    rest: kl.Registers,
    rows: list[kl.Number],
    columns: list[kl.Number],
    block: int,
    tall: bool,
) -> kl.Registers:
    """Eliminate column by column, and return the pivots of a unit's columns.

    Columns stay unscaled: L has them divided by the roots of their pivots. Two places in shared
    memory for a column make one barrier a step enough.
    """
    dtype = square.type.dtype
    size = 2 * block if tall else block
    line = kl.shared(2 * size, dtype)
    pivots = kl.registers(2, dtype)

    def put(column: kl.Index) -> None:
        at = column % 2 * size
        for j in range(2):
            if columns[j] == column:
                for i in range(2):
                    line[at + rows[i]] = square[i, j]
                    if tall:
                        line[at + block + rows[i]] = rest[i, j]

    put(0)
    for k in kl.loop_range(0, block):
        kl.barrier()
        at = k % 2 * size
        pivot = line[at + k]
        inverse = kl.select(pivot > 0.0, 1.0 / pivot, math.nan)
        for j in range(2):
            pivots[j] = kl.select(columns[j] == k, pivot, pivots[j])
            factor = line[at + columns[j]] * inverse
            behind = columns[j] > k
            for i in range(2):
                value = minus_product(line[at + rows[i]], factor, square[i, j])
                square[i, j] = kl.select(behind, value, square[i, j])
                if tall:
                    value = minus_product(line[at + block + rows[i]], factor, rest[i, j])
                    rest[i, j] = kl.select(behind, value, rest[i, j])
        if k + 1 < block:
            put(k + 1)
    return pivots
