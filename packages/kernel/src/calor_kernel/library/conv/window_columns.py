"""Convolutions as products of packed windows and packed weights: vectors run along channels.

Requirements: few windows fill no whole number of vectors, and nothing is multiplied in vain. So a
tile has some windows by vectors of output channels, whose weights are packed, once for constant
weights. A cube packs all windows and reads each of its weights once. Tiles of sums stay in the
first-level cache between passes over the terms, and are transposed last.
"""

from __future__ import annotations

from typing import Final

from calor_kernel import language as kl
from calor_kernel.library.conv.window_packing import Packing, Terms, Windows, pack_windows
from calor_kernel.library.conv.window_panels import (
    Place,
    Results,
    add_panel,
    load_sums,
    store_sums,
)
from calor_kernel.library.gemm.epilogue import After, Epilogue
from calor_kernel.library.matmul.blueprints import Packed
from calor_kernel.library.transposition import transpose

LINE: Final = 16
"""Elements of a line of a cache."""
WINDOWS: Final = 256
"""Maximum of windows, whose sums are in memory of the unit."""


@kl.kernel
def multiply_columns(
    x: kl.In,
    offsets: kl.In,
    w: kl.In,
    panels: kl.Out,
    c: kl.Out,
    of: Windows[kl.Number],
    of_x: kl.Stride,
    block: kl.Size,
    cubes: kl.Size,
    after: After | None,
    *,
    plan: Packed,
    how: Packing,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute blocks x, x + ``cubes``, … of all groups: all windows by ``block`` panels of weights.

    ``of_x``: the stride of groups. ``plan``: tiles of rows of windows by vectors of channels; rows
    divide the width of a panel of windows.
    """
    rows, lanes, span, width = plan.rows, plan.lanes, plan.width, how.width
    sums = kl.private((WINDOWS + max(rows, lanes)) * span, plan.accumulate, align=64)
    square = kl.private(lanes * lanes, plan.accumulate, align=64)
    room = of.terms * width
    packed = (of.count + (width - 1)) // width
    mine = kl.cube_position(0) * packed * room
    columns = (of.rows + (span - 1)) // span
    blocks = (columns + (block - 1)) // block
    for item in kl.loop_range(kl.cube_position(0), of.groups * blocks, cubes):
        group, first = item // blocks, item % blocks * block
        source = Terms(x.at(group * of_x), offsets, panels)
        for number in kl.loop_range(packed):
            pack_windows(source, mine + number * room, number * width, of, of.terms, how)
        place = Place(mine, room, mine * 0, room, group, (mine * 0, packed), first, of.rows)
        results = Results(c, of, after, epilogue, lanes)
        for column in kl.loop_range(first, kl.min(first + block, columns)):
            right = (group * columns + column) * (of.terms * span)
            for begin in kl.loop_range(0, of.terms, plan.depth):
                count = kl.min(of.terms - begin, plan.depth)
                # Each tile asks for a part of the weights that are next in memory.
                ahead = right + (begin + count) * span
                part = (count * span * rows) // of.count + LINE
                for window in kl.loop_range(0, of.count, rows):
                    acc = kl.registers((rows, plan.vectors), plan.accumulate, lanes)
                    if begin > 0:
                        load_sums(acc, sums, window * span)
                    at = mine + window // width * room + begin * width + window % width
                    left = [at + r for r in kl.range(rows)]
                    for i in kl.loop_range(0, part, LINE):
                        w.prefetch(ahead + window // rows * part + i, locality=2)
                    steps = width, span
                    add_panel(panels, w, acc, left, right + begin * span, count, plan, steps)
                    store_sums(acc, sums, window * span)
            for v in kl.loop_range(0, span, lanes):
                row = column * span + v
                for window in kl.loop_range(0, of.count, lanes):
                    # Beyond the last window, it is repeated, and not written.
                    near = [kl.min(window + i, of.count - 1) for i in kl.range(lanes)]
                    taken = [sums.load(one * span + v, lanes) for one in near]
                    for i, one in enumerate(transpose(taken)):
                        square.store(i * lanes, one)
                    some = row, kl.min(row + lanes, of.rows)
                    results.write_sums(square, mine * 0, some, place, window, lanes)
