"""Products of few rows: b is read once, at the speed of memory.

Requirements: b is never packed, and read in order along whichever axis is contiguous: vectors run
along the summed axis and are reduced at the end, or along the columns, several rows of b in step so
that the processor sees few long streams; sums have an order that depends on the blueprint alone.
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
    streams: int,
    lanes: int,
    vectors: int,
    room: int,
    accumulate: DType,
) -> None:
    """Compute ``block`` columns of row y of c from x on: rows of b times elements of a, summed.

    ``streams`` rows of b are read at the same time; sums wait in memory of the unit's own, which
    has ``room`` for so many.
    """
    batch = cube_position(2)
    outer, within = batch // inner, batch % inner
    row = cube_position(1)
    a_at = a_base + outer * a_outer_stride + within * a_inner_stride + row * a_row
    first = cube_position(0) * block
    count = min(block, n - first)
    b_at = b_base + outer * b_outer_stride + within * b_inner_stride + first
    c_at = (batch * m + row) * n + first
    sums = private(room, accumulate, align=64)
    span = lanes * vectors
    whole = count // span * span
    for i in loop_range(0, block, lanes):
        sums.store(i, constant(0, accumulate, lanes))
    main = k // streams * streams
    for p in loop_range(0, main, streams):
        factors = [splat(a[a_at + (p + s) * a_depth].to(accumulate), lanes) for s in range(streams)]
        for i in loop_range(0, whole, span):
            for v in range(vectors):
                at = i + v * lanes
                total = sums.load(at, lanes)
                for s in range(streams):
                    taken = b.load(b_at + (p + s) * b_depth + at, lanes).to(accumulate)
                    total = add_scaled(factors[s], taken, total)
                sums.store(at, total)
        for at in range(whole, count, lanes):
            inside = at + iota(lanes, n) < count
            total = sums.load(at, lanes)
            for s in range(streams):
                taken = b.load(b_at + (p + s) * b_depth + at, lanes, mask=inside).to(accumulate)
                total = add_scaled(factors[s], taken, total)
            sums.store(at, total)
    for p in range(main, k):
        factor = splat(a[a_at + p * a_depth].to(accumulate), lanes)
        for at in range(0, count, lanes):
            inside = at + iota(lanes, n) < count
            taken = b.load(b_at + p * b_depth + at, lanes, mask=inside).to(accumulate)
            sums.store(at, add_scaled(factor, taken, sums.load(at, lanes)))
    for at in range(0, count, lanes):
        inside = at + iota(lanes, n) < count
        c.store(c_at + at, sums.load(at, lanes).to(c.dtype), mask=inside)


def add_scaled(factor: Any, taken: Any, total: Any) -> Any:
    """Return total + factor · taken."""
    if total.dtype.kind == "float":
        return fma(factor, taken, total)
    return total + factor * taken
