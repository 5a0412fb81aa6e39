"""Products of few rows: B is read once, at the speed of memory.

Requirements: B is never packed, and is read in order along its contiguous axis. Either vectors run
along the K axis and are reduced at the end, or they run along the columns, with several rows of B
together, so that the processor sees few long streams. The order of a sum depends on the blueprint
alone.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import DType
from calor_kernel.language import (
    constant,
    cube_position,
    fma,
    helper,
    kernel,
    loop_range,
    private,
    registers,
    splat,
    vreduce,
)
from calor_kernel.library.matmul.packing import iota


@kernel
def dot_rows(
    a: Any,
    b: Any,
    c: Any,
    m: Any,
    n: Any,
    k: Any,
    a_row: Any,
    b_column: Any,
    inner: Any,
    a_outer_stride: Any,
    a_inner_stride: Any,
    a_base: Any,
    b_outer_stride: Any,
    b_inner_stride: Any,
    b_base: Any,
    block: Any,
    *,
    rows: int,
    columns: int,
    lanes: int,
    accumulate: DType,
) -> None:
    """Compute ``block`` columns of c from x and ``rows`` rows from y on, of batch z."""
    batch = cube_position(2)
    outer, within = batch // inner, batch % inner
    a_start = a_base + outer * a_outer_stride + within * a_inner_stride
    b_start = b_base + outer * b_outer_stride + within * b_inner_stride
    row = cube_position(1) * rows
    a_at = [a_start + min(row + r, m - 1) * a_row for r in range(rows)]
    first = cube_position(0) * block
    last = min(first + block, n)
    whole = k // lanes * lanes
    for column in range(first, last, columns):
        b_at = [b_start + min(column + j, last - 1) * b_column for j in range(columns)]
        acc = registers((rows, columns), accumulate, lanes)
        for p in loop_range(0, whole, lanes):
            add_products(acc, a, a_at, b, b_at, p, None)
        if whole < k:
            inside = whole + iota(lanes, k) < k
            add_products(acc, a, a_at, b, b_at, whole, inside)
        for r in range(rows):
            for j in range(columns):
                if (row + r < m) and (column + j < last):
                    c[(batch * m + row + r) * n + column + j] = vreduce("add", acc[r, j]).to(
                        c.dtype
                    )


@helper
def add_products(
    acc: Any, a: Any, a_at: list[Any], b: Any, b_at: list[Any], p: Any, inside: Any
) -> None:
    """Add products of one vector of the summed axis."""
    rows, columns = acc.shape
    wide, lanes = acc.type.dtype, acc.type.width
    left = [a.load(a_at[r] + p, lanes, mask=inside).to(wide) for r in range(rows)]
    for j in range(columns):
        right = b.load(b_at[j] + p, lanes, mask=inside).to(wide)
        for r in range(rows):
            acc[r, j] = add_scaled(left[r], right, acc[r, j])


@kernel
def scaled_rows(
    a: Any,
    b: Any,
    c: Any,
    m: Any,
    n: Any,
    k: Any,
    a_row: Any,
    a_depth: Any,
    b_depth: Any,
    inner: Any,
    a_outer_stride: Any,
    a_inner_stride: Any,
    a_base: Any,
    b_outer_stride: Any,
    b_inner_stride: Any,
    b_base: Any,
    block: Any,
    *,
    rows: int,
    streams: int,
    lanes: int,
    vectors: int,
    room: int,
    accumulate: DType,
) -> None:
    """Compute ``block`` columns from x and ``rows`` rows from y on: rows of B times elements of A.

    ``streams`` rows of B are read together, once for all rows of C. Sums are kept in memory of the
    unit, with ``room`` for the elements of a row.
    """
    batch = cube_position(2)
    outer, within = batch // inner, batch % inner
    row = cube_position(1) * rows
    a_start = a_base + outer * a_outer_stride + within * a_inner_stride
    a_at = [a_start + min(row + r, m - 1) * a_row for r in range(rows)]
    first = cube_position(0) * block
    count = min(block, n - first)
    b_at = b_base + outer * b_outer_stride + within * b_inner_stride + first
    sums = private(rows * room, accumulate, align=64)
    span = lanes * vectors
    whole = count // span * span
    for r in range(rows):
        for i in loop_range(0, block, lanes):
            sums.store(r * room + i, constant(0, accumulate, lanes))
    main = k // streams * streams
    for p in loop_range(0, main, streams):
        factors = factors_of(a, a_at, a_depth, p, streams, lanes, accumulate)
        here = b_at + p * b_depth
        for i in loop_range(0, whole, span):
            for v in range(vectors):
                add_streams(sums, room, factors, b, here, b_depth, i + v * lanes, None)
        for at in range(whole, count, lanes):
            inside = at + iota(lanes, n) < count
            add_streams(sums, room, factors, b, here, b_depth, at, inside)
    for p in range(main, k):
        factors = factors_of(a, a_at, a_depth, p, 1, lanes, accumulate)
        here = b_at + p * b_depth
        for at in range(0, count, lanes):
            inside = at + iota(lanes, n) < count
            add_streams(sums, room, factors, b, here, b_depth, at, inside)
    for r in range(rows):
        if row + r < m:
            c_at = (batch * m + row + r) * n + first
            for at in range(0, count, lanes):
                inside = at + iota(lanes, n) < count
                c.store(c_at + at, sums.load(r * room + at, lanes).to(c.dtype), mask=inside)


@helper
def factors_of(
    a: Any, a_at: list[Any], a_depth: Any, p: Any, streams: int, lanes: int, accumulate: DType
) -> list[list[Any]]:
    """Return a list for each row: the elements of A that multiply the rows of B from p on."""
    return [
        [splat(a[start + (p + s) * a_depth].to(accumulate), lanes) for s in range(streams)]
        for start in a_at
    ]


@helper
def add_streams(
    sums: Any,
    room: int,
    factors: list[list[Any]],
    b: Any,
    b_at: Any,
    b_depth: Any,
    at: Any,
    inside: Any,
) -> None:
    """Add the products of one vector of each row of b."""
    lanes = factors[0][0].type.width
    totals = [sums.load(r * room + at, lanes) for r in range(len(factors))]
    for s in range(len(factors[0])):
        taken = b.load(b_at + s * b_depth + at, lanes, mask=inside).to(sums.dtype)
        for r in range(len(factors)):
            totals[r] = add_scaled(factors[r][s], taken, totals[r])
    for r in range(len(factors)):
        sums.store(r * room + at, totals[r])


def add_scaled(factor: Any, taken: Any, total: Any) -> Any:
    """Return total + factor · taken."""
    if total.dtype.kind == "float":
        return fma(factor, taken, total)
    return total + factor * taken
