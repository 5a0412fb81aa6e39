"""Prefetches of the block of B that a cube of register tiles packs next.

Requirements: a cube packs rows of B that no cube has read lately, and waits for memory at each. So
the register tiles of the pass before prefetch them into the second-level cache, while their
multiply-adds leave the processor's loads free: one part of a line in each turn of a tile's loop,
for a processor has few buffers for lines on their way, and many at once would stop its loads. A
turn is as long as the block allows, since its instructions take time from the multiply-adds. A
prefetch beyond the matrix is harmless.
"""

from __future__ import annotations

from dataclasses import dataclass

from calor_kernel import language as kl
from calor_kernel.library.matmul.packing import Block

# Bytes of a line of the caches.
_LINE = 64


@dataclass(frozen=True, slots=True)
class NextBlock:
    """Lines of adjacent elements of B: the first one, their distance and length.

    ``turn``: the steps of a tile for which it prefetches one part; ``before``: the parts that it
    prefetches before its first turn.
    """

    at: kl.Number
    step: kl.Number
    length: kl.Number
    turn: kl.Number
    before: kl.Number

    @kl.helper
    def step_on(
        self, b: kl.Pointer, at: kl.Number, along: kl.Number
    ) -> tuple[kl.Number, kl.Number]:
        """Prefetch a part of the line that begins at ``at``; return the place of the next one."""
        b.prefetch(at + along, locality=2)
        further = along + _LINE // b.dtype.itemsize
        ends = further >= self.length
        return kl.select(ends, at + self.step, at), kl.select(ends, along * 0, further)


def next_block(
    block: Block,
    begin: kl.Number,
    step: kl.Number,
    width: int,
    tiles: kl.Number,
    steps: kl.Number,
    unroll: int,
    order: str,
    itemsize: int,
) -> NextBlock:
    """Return the lines of the next block: panels of ``width`` columns, ``begin`` its first element.

    ``order``: the axis with stride 1, "columns" or "depth"; ``step``: the stride of the other one.
    ``tiles`` of the block before share the lines; each has so many ``steps``, and its turns are of
    a multiple of ``unroll`` of them.
    """
    columns = (block.last_panel - block.first_panel) * width
    by_rows = order == "columns"
    lines, length = (block.rows, columns) if by_rows else (columns, block.rows)
    parts = lines * ((length + (_LINE // itemsize - 1)) // (_LINE // itemsize))
    share = (parts + tiles - 1) // kl.max(tiles, 1)
    turn = kl.max(steps // kl.max(share, 1) // unroll * unroll, unroll)
    before = kl.max(share - (steps + turn - 1) // turn, 0)
    return NextBlock(begin, step, length, turn, before)
