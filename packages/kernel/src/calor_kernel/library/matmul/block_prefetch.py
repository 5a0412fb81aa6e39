"""Prefetches of the block of B that a cube of register tiles packs next.

Requirements: a cube packs rows of B that no cube has read lately, and waits for memory at each. So
each register tile of the pass before prefetches an equal share of them into the second-level cache,
while its multiply-adds leave the processor's loads free. A prefetch beyond the matrix is harmless.
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

    ``share``: the lines that each tile prefetches.
    """

    at: kl.Number
    step: kl.Number
    lines: kl.Number
    length: kl.Number
    share: kl.Number

    @kl.helper
    def prefetch(self, b: kl.Pointer, tile: kl.Number) -> None:
        """Prefetch the share of a tile of the block, counted from 0."""
        first = tile * self.share
        for line in kl.loop_range(first, kl.min(first + self.share, self.lines)):
            for along in kl.loop_range(0, self.length, _LINE // b.dtype.itemsize):
                b.prefetch(self.at + line * self.step + along, locality=2)


def next_block(
    block: Block, begin: kl.Number, step: kl.Number, width: int, tiles: kl.Number, order: str
) -> NextBlock:
    """Return the lines of the next block: panels of ``width`` columns, ``begin`` its first element.

    ``order``: the axis with stride 1, "columns" or "depth"; ``step``: the stride of the other one.
    ``tiles`` of the block before share the lines.
    """
    columns = (block.last_panel - block.first_panel) * width
    by_rows = order == "columns"
    lines, length = (block.rows, columns) if by_rows else (columns, block.rows)
    return NextBlock(begin, step, lines, length, (lines + tiles - 1) // kl.max(tiles, 1))
