"""Matrix products on a CPU: register tiles over a packed operand.

Requirements: multiply-adds run at the processor's rate. So the accumulators (rows × vectors) stay
in registers, a vector load of B serves all rows, and a broadcast of A serves several vectors. A is
read in place by strides, or packed. The K axis is cut at ``depth``, so that a panel of B stays in
the second-level cache (Goto and van de Geijn, 2008; Van Zee and van de Geijn, 2015).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType, int8, int32, uint8
from calor_kernel.language import (
    bitcast,
    constant,
    cube_position,
    dot,
    fma,
    helper,
    kernel,
    loop_range,
    registers,
    splat,
)
from calor_kernel.library.matmul.packing import iota


@kernel
def packed_matmul(
    a: Any,
    b: Any,
    c: Any,
    m: Any,
    n: Any,
    k: Any,
    a_row: Any,
    a_inner: Any,
    a_outer_stride: Any,
    a_inner_stride: Any,
    a_base: Any,
    b_panel: Any,
    b_depth: Any,
    b_outer_stride: Any,
    b_inner_stride: Any,
    b_base: Any,
    block_rows: Any,
    block_panels: Any,
    depth: Any,
    *,
    rows: int,
    vectors: int,
    lanes: int,
    group: int,
    accumulate: DType,
    a_depth: int,
    a_panels: bool,
    packed: bool,
    ragged: bool,
    unroll: int,
) -> None:
    """Compute a block of C: panels from x and rows from y of batch z.

    ``b`` has panels of ``vectors * lanes`` columns ``b_panel`` apart, and rows of groups
    ``b_depth`` apart in a panel (known if it is ``packed``). ``a`` has rows ``a_row`` apart and
    terms ``a_depth`` apart, or panels of ``rows`` rows (``a_panels``); strides known at build time
    leave registers to the tile. ``ragged``: the last panel of B ends with the matrix, so its loads
    are masked. ``k`` counts groups.
    """
    width = vectors * lanes
    if packed:
        b_depth = width * group
    batch = cube_position(2)
    outer, inner = batch // a_inner, batch % a_inner
    a_start = a_base + outer * a_outer_stride + inner * a_inner_stride
    b_start = b_base + outer * b_outer_stride + inner * b_inner_stride
    c_start = batch * m * n
    panels = (n + width - 1) // width
    first_panel = cube_position(0) * block_panels
    last_panel = min(first_panel + block_panels, panels)
    first_row = cube_position(1) * block_rows
    last_row = min(first_row + block_rows, m)
    # An empty sum is 0 and is written too.
    for begin in range(0, max(k, 1), depth):
        count = min(k - begin, depth)
        for panel in range(first_panel, last_panel):
            b_at = b_start + panel * b_panel + begin * b_depth
            masks = [
                panel * width + v * lanes + iota(lanes, n) < n if ragged else None
                for v in range(vectors)
            ]
            tile = Tile(a, b, masks, lanes, group)
            start = registers((vectors,), accumulate, lanes)
            if a.dtype is int8 and group > 1:
                tile.correct(start, b_at, b_depth, count)
            for row in range(first_row, last_row, rows):
                if a_panels:
                    a_at = [
                        a_start + row * a_row + begin * a_depth + r * group for r in range(rows)
                    ]
                else:
                    a_at = [
                        a_start + min(row + r, last_row - 1) * a_row + begin * a_depth
                        for r in range(rows)
                    ]
                acc = registers((rows, vectors), accumulate, lanes)
                for r in range(rows):
                    for v in range(vectors):
                        acc[r, v] = start[v]
                main = count // unroll * unroll
                for p in loop_range(0, main, unroll):
                    for u in range(unroll):
                        tile.multiply(acc, a_at, (p + u) * a_depth, b_at + (p + u) * b_depth)
                for p in range(main, count):
                    tile.multiply(acc, a_at, p * a_depth, b_at + p * b_depth)
                store_tile(
                    acc, c, c_start, row, last_row, panel * width, n, begin, lanes, accumulate
                )


@dataclass(frozen=True, slots=True)
class Tile:
    """Parameters of the steps of one register tile: the operands and their access."""

    a: Any
    b: Any
    masks: list[Any]
    lanes: int
    group: int

    def multiply(self, acc: Any, a_at: list[Any], a_step: Any, b_at: Any) -> None:
        """Add the products of one group of the K axis to the accumulators."""
        rows, vectors = acc.shape
        span = self.lanes * self.group
        columns = [self.b.load(b_at + v * span, span, mask=self.masks[v]) for v in range(vectors)]
        for r in range(rows):
            value = self.broadcast(a_at[r] + a_step)
            for v in range(vectors):
                acc[r, v] = self.add(value, columns[v], acc[r, v])

    def add(self, x: Any, y: Any, total: Any) -> Any:
        """Return total + x · y."""
        if self.group > 1:
            return dot(x, y, total)
        x, y = x.to(total.dtype), y.to(total.dtype)
        return fma(x, y, total) if total.dtype.kind == "float" else total + x * y

    def broadcast(self, at: Any) -> Any:
        """Return one group of A in every group of lanes; bytes are shifted up by 128."""
        a = self.a
        if self.group == 1:
            return splat(a[at], self.lanes)
        bits = bitcast(a.load(at, self.group), int32)
        if a.dtype is int8:
            bits = bits ^ constant(0x80808080, int32)
        return bitcast(splat(bits, self.lanes), uint8 if a.dtype is int8 else a.dtype)

    @helper
    def correct(self, start: Any, b_at: Any, b_depth: Any, count: Any) -> None:
        """Subtract the effect of the shift of A's bytes: 128 times the sums of B's columns.

        The instruction takes unsigned bytes of A and signed bytes of B, as in oneDNN.
        """
        span = self.lanes * self.group
        moved = constant(128, uint8, span)
        for p in range(count):
            for v in range(start.shape[0]):
                columns = self.b.load(b_at + p * b_depth + v * span, span, mask=self.masks[v])
                start[v] = dot(moved, columns, start[v])
        for v in range(start.shape[0]):
            start[v] = -start[v]


@helper
def store_tile(
    acc: Any,
    c: Any,
    start: Any,
    row: Any,
    last_row: Any,
    column: Any,
    n: Any,
    begin: Any,
    lanes: int,
    accumulate: DType,
) -> None:
    """Write a tile; after the first pass over the K axis, add it to the result."""
    rows, vectors = acc.shape
    width = vectors * lanes
    whole = (column + width <= n) and (row + rows <= last_row)
    if whole:
        for r in range(rows):
            for v in range(vectors):
                at = start + (row + r) * n + column + v * lanes
                value = acc[r, v]
                if begin > 0:
                    value = value + c.load(at, lanes).to(accumulate)
                c.store(at, value.to(c.dtype))
    else:
        for r in range(rows):
            for v in range(vectors):
                at = start + (row + r) * n + column + v * lanes
                index = column + v * lanes + iota(lanes, column)
                inside = (index < n) & splat(row + r < last_row, lanes)
                value = acc[r, v]
                if begin > 0:
                    value = value + c.load(at, lanes, mask=inside).to(accumulate)
                c.store(at, value.to(c.dtype), mask=inside)
