"""Weight gradients by tile registers of a CPU: sums over steps of pixels.

Requirements: a tile has 16 rows of 32 adjacent terms, at equal distances. The rows of taps are not
at equal distances, so a cube copies its rows of pixels side by side, for a pass of few steps, and
multiplies them with all of its panels of the result's gradient. What fills a step up is zero in
both operands: zero times an infinite neighbour would be NaN.
"""

from __future__ import annotations

from typing import Final

from calor.dtypes import bfloat16
from calor_kernel import language as kl
from calor_kernel.language.tiles import SUMS, TILE, terms
from calor_kernel.library.conv.vector_tiles import below
from calor_kernel.library.conv.weight_gradient_panels import Pixels, store_weights
from calor_kernel.library.conv.window_packing import PAIR

SIDE: Final = 2 * TILE
"""The rows of weights of a cube, and the channels of a panel."""
STEP: Final = terms(bfloat16)
"""The pixels of a step."""
PASS: Final = 16 * STEP
"""Maximum of pixels of a pass: the copied rows stay in the first-level cache."""
SHARE: Final = 8
"""Maximum of panels of a cube."""


@kl.kernel
def multiply_line_tiles(
    x: kl.In,
    offsets: kl.In,
    starts: kl.In,
    panels: kl.In,
    c: kl.Out,
    of: Pixels[kl.Number],
    share: kl.Size,
    turns: kl.Size,
    *,
    lanes: int,
) -> None:
    """Compute rows y of weights for ``share`` panels from x on of output channels of group z.

    ``turns`` rows of pixels are a pass, or parts of one that is longer.
    """
    dtype, pitch = x.dtype, PASS + 2 * STEP
    left = kl.private(SIDE * pitch, dtype, align=64)
    product = kl.private(SIDE * SIDE, SUMS[dtype], align=64)
    sums = kl.private(SHARE * SIDE * SIDE, SUMS[dtype], align=64)
    group, first = kl.cube_position(2), kl.cube_position(1) * SIDE
    last = kl.min(first + SIDE, of.rows)
    first_panel = kl.cube_position(0) * share
    count = kl.min(of.panels(SIDE) - first_panel, share)
    for i in kl.loop_range(0, count * (SIDE * SIDE), lanes):
        sums.store(i, kl.constant(0, sums.dtype, lanes))
    for begin in kl.loop_range(0, of.lines, turns):
        end = kl.min(begin + turns, of.lines)
        for part in kl.loop_range(0, of.wide, PASS):
            wide = kl.min(of.wide - part, PASS)
            for r in kl.loop_range(SIDE):
                at = group * of.x_group + offsets[kl.min(first + r, of.rows - 1)] + part
                for number in kl.loop_range(begin, end):
                    to = r * pitch + (number - begin) * of.line * PAIR
                    for i in kl.loop_range(0, wide, STEP):
                        inside = below(wide - i, STEP)
                        left.store(to + i, x.load(at + starts[number] + i, STEP, mask=inside))
                # The rest of the last step.
                to = r * pitch + (end - begin - 1) * of.line * PAIR
                to = to + kl.min(of.line * PAIR - part, PASS)
                left.store(to, kl.constant(0, dtype, STEP))
            pairs = (end - begin - 1) * of.line + kl.min(of.line - part // PAIR, PASS // PAIR)
            steps = (pairs + (TILE - 1)) // TILE
            for panel in kl.loop_range(count):
                at = of.start(group, first_panel + panel, SIDE, PAIR)
                at = at + (begin * of.line + part // PAIR) * (SIDE * PAIR)
                kl.tile_product(
                    product, left, pitch, panels.at(at), SIDE * PAIR, steps, rows=2, columns=2
                )
                to = panel * (SIDE * SIDE)
                for i in kl.loop_range(0, SIDE * SIDE, lanes):
                    total = sums.load(to + i, lanes) + product.load(i, lanes)
                    sums.store(to + i, total)
    for panel in kl.loop_range(count):
        some = sums.at(panel * (SIDE * SIDE))
        store_weights(some, c, of, (first, last), group, first_panel + panel, SIDE, lanes)
