"""Prefetches of the block of B that a cube of register tiles packs next.

Requirements: a cube packs rows of B that no cube has read lately, and waits for memory at each. So
each register tile of the pass before prefetches an equal share of them into the second-level cache,
while its multiply-adds leave the processor's loads free: one part of a line in each turn of its
loop, for a processor has few buffers for lines on their way, and many at once would stop its loads.
A prefetch beyond the matrix is harmless.
"""

from __future__ import annotations

from dataclasses import dataclass

from calor_kernel import language as kl
from calor_kernel.library.matmul.packing import Block

# Bytes of a line of the caches.
_LINE = 64


@dataclass(frozen=True, slots=True)
class NextBlock:
    """Lines of adjacent elements of B: the first one, their distance, number and length.

    ``share``: the lines that each tile prefetches, ``later`` of them while it computes.
    """

    at: kl.Number
    step: kl.Number
    lines: kl.Number
    length: kl.Number
    share: kl.Number
    later: kl.Number

    @kl.helper
    def prefetch(self, b: kl.Pointer, tile: kl.Number) -> kl.Number:
        """Return the start of the share of a tile, counted from 0.

        Prefetch what is left of the share without the lines that the tile prefetches by
        :meth:`step_on` while it computes.
        """
        first = tile * self.share
        for line in kl.loop_range(first + self.later, kl.min(first + self.share, self.lines)):
            for along in kl.loop_range(0, self.length, _LINE // b.dtype.itemsize):
                b.prefetch(self.at + line * self.step + along, locality=2)
        return self.at + first * self.step

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
    turns: kl.Number,
    order: str,
    itemsize: int,
) -> NextBlock:
    """Return the lines of the next block: panels of ``width`` columns, ``begin`` its first element.

    ``order``: the axis with stride 1, "columns" or "depth"; ``step``: the stride of the other one.
    ``tiles`` of the block before share the lines; the loop of each has so many ``turns``.
    """
    columns = (block.last_panel - block.first_panel) * width
    by_rows = order == "columns"
    lines, length = (block.rows, columns) if by_rows else (columns, block.rows)
    parts = (length + (_LINE // itemsize - 1)) // (_LINE // itemsize)
    # A division takes long, so there is none in a tile.
    share, later = (lines + tiles - 1) // kl.max(tiles, 1), turns // kl.max(parts, 1)
    return NextBlock(begin, step, lines, length, share, later)
