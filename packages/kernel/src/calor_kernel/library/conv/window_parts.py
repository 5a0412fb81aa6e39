"""Convolutions of float32 by tile registers: weights and windows are sums of parts of bfloat16.

Requirements: a cube packs a pass of windows as for FMA, and splits the panel in the first-level
cache. A panel with numbers whose parts would lose digits, and rows of weights with such, are
multiplied by FMA in that pass, so what a number is computed from decides and not where it lies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from calor.dtypes import int32, uint16, uint32
from calor_kernel import language as kl
from calor_kernel.language.declared import N
from calor_kernel.language.tiles import PARTS, TILE
from calor_kernel.library.conv.vector_tiles import below
from calor_kernel.library.conv.window_packing import PAIR, Packing, Terms, Windows, pack_windows
from calor_kernel.library.conv.window_panels import (
    Place,
    Results,
    add_panel,
    load_sums,
    store_sums,
)
from calor_kernel.library.gemm.epilogue import After, Epilogue
from calor_kernel.library.gemm.float_parts import halves_of, pairs_of, strange
from calor_kernel.library.matmul.blueprints import Packed

STEP = PAIR * TILE
"""The terms of a step of tiles."""
# Rows of a tile of FMA, which is seldom needed.
_ROWS = 8


@dataclass(frozen=True, slots=True)
class Split(Generic[N]):
    """Rows of weights, and their distances.

    Their parts lie as they are read: the ``passes`` of a group, blocks of rows, ``PARTS`` parts,
    rows of the terms of a pass.
    """

    group: kl.StrideOf[N]
    row: kl.StrideOf[N]
    passes: kl.SizeOf[N]


@kl.kernel
def split_weights(
    w: kl.In,
    parts: kl.Out,
    flags: kl.Out,
    rows: kl.Size,
    terms: kl.Size,
    of_w: Split[kl.Number],
    *,
    height: int,
    depth: int,
    lanes: int,
) -> None:
    """Write the parts of block x of ``height`` rows of group y, and whether it needs FMA.

    Zeros fill up rows and blocks.
    """
    block, group = kl.cube_position(0), kl.cube_position(1)
    blocks, size = (rows + (height - 1)) // height, height * depth
    found = kl.constant(0, uint32, lanes)
    for r in kl.loop_range(height):
        row = block * height + r
        at = group * of_w.group + kl.min(row, rows - 1) * of_w.row
        wide = kl.select(row < rows, terms, kl.constant(0, terms.dtype))
        for turn in kl.loop_range(of_w.passes):
            begin = turn * depth
            to = ((group * of_w.passes + turn) * blocks + block) * (PARTS * size) + r * depth
            for t in kl.loop_range(0, depth, lanes):
                value = w.load(at + begin + t, lanes, mask=below(wide - begin - t, lanes))
                found = found | strange(value)
                for i, half in enumerate(halves_of(value)):
                    parts.store(to + i * size + t, kl.bitcast(half.to(uint16), parts.dtype))
    number = group * blocks + block
    flags[number] = kl.bitcast(kl.vreduce("or", found), int32)


@kl.kernel
def multiply_window_parts(
    x: kl.In,
    offsets: kl.In,
    w: kl.In,
    parts: kl.In,
    flags: kl.In,
    panels: kl.Out,
    halves: kl.Out,
    sums: kl.Out,
    c: kl.Out,
    of: Windows[kl.Number],
    of_x: kl.Stride,
    of_w: Split[kl.Number],
    block: kl.Size,
    share: kl.Size,
    cubes: kl.Size,
    after: After | None,
    *,
    plan: Packed,
    how: Packing,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute blocks x, x + ``cubes``, … of all groups: of ``share`` panels and ``block`` rows.

    ``panels``: memory for windows of a pass, ``halves`` for their parts.
    """
    height, width, together = plan.rows, plan.width, how.width // plan.width
    room, line = plan.depth * width, (block + (height - 1)) // height * (height * width)
    panel_count, blocks = (of.count + (width - 1)) // width, (of.rows + (block - 1)) // block
    shares = (panel_count + (share - 1)) // share
    tiles = (of.rows + (height - 1)) // height
    for item in kl.loop_range(kl.cube_position(0), of.groups * shares * blocks, cubes):
        group, rest = item // (shares * blocks), item % (shares * blocks)
        number, first = rest // blocks * share, rest % blocks * block
        # Panels are packed in groups, of which the last one may be whole though it need not be.
        place = Place(
            kl.cube_position(0) * ((share + (together - 1)) // together * (together * room)),
            share * 0 + room,
            kl.cube_position(0) * share * line,
            line,
            group,
            (number, kl.min(number + share, panel_count)),
            first,
            kl.min(first + block, of.rows),
        )
        results = Results(c, of, after, epilogue, plan.lanes)
        source = Terms(x.at(group * of_x), offsets, panels)
        for begin in kl.loop_range(0, kl.max(of.terms, 1), plan.depth):
            terms = kl.min(of.terms - begin, plan.depth)
            some = Terms(source.x, offsets.at(begin), panels)
            steps = (terms + (STEP - 1)) // STEP
            found = kl.constant(0, uint32, plan.lanes)
            count = place.numbers[1] - place.numbers[0]
            for own in kl.loop_range(0, count, together):
                to = place.panel + own * room
                pack_windows(some, to, (number + own) * width, of, terms, how)
                for t in kl.loop_range(terms * how.width, steps * (STEP * how.width), plan.lanes):
                    panels.store(to + t, kl.constant(0, panels.dtype, plan.lanes))
                for p in kl.loop_range(kl.min(count - own, together)):
                    target = halves.at((to + p * room) * PARTS)
                    given = panels.at(to + p * width)
                    found = found | split_panel(given, target, steps, room, plan, how)
            plainly = kl.vreduce("or", found) != 0
            for row in kl.loop_range(place.first, place.last, height):
                tile = row // height
                turn = group * of_w.passes + begin // plan.depth
                left = parts.at((turn * tiles + tile) * (PARTS * height * plan.depth))
                by_fma = plainly | (flags[group * tiles + tile] != 0)
                w_at = group * of_w.group + begin
                for own in kl.loop_range(count):
                    panel = place.panel + own * room
                    right = halves.at(panel * PARTS)
                    to = place.sums + own * line + (row - place.first) * width
                    if by_fma:
                        first_of = place.panel + own // together * (together * room)
                        given = panels.at(first_of + own % together * width)
                        rows = row, place.last
                        add_plainly(
                            w, given, sums.at(to), (w_at, of_w.row), rows, (begin, terms), plan, how
                        )
                    else:
                        add_parts(sums.at(to), left, right, room, (begin, steps), plan)
                    if begin + terms >= of.terms:
                        here = row, kl.min(row + height, place.last)
                        results.write_sums(sums, to, here, place, (number + own) * width, width)


@kl.helper
def split_panel(
    panels: kl.Pointer,
    halves: kl.Pointer,
    steps: kl.Number,
    room: int,
    plan: Packed,
    how: Packing,
) -> kl.Number:
    """Write the parts of a panel in pairs of terms; return words that are 0 if it is ordinary."""
    width, lanes = plan.width, plan.lanes
    found = kl.constant(0, uint32, lanes)
    for p in kl.loop_range(0, steps * TILE):
        for v in kl.range(0, width, lanes):
            line = p * (PAIR * how.width) + v
            first, second = panels.load(line, lanes), panels.load(line + how.width, lanes)
            found = found | strange(first) | strange(second)
            for i, word in enumerate(pairs_of(first, second)):
                to = i * room + (p * width + v) * PAIR
                halves.store(to, kl.bitcast(word, halves.dtype))
    return found


@kl.helper
def add_parts(
    sums: kl.Pointer,
    left: kl.Pointer,
    right: kl.Pointer,
    room: int,
    some: tuple[kl.Number, kl.Number],
    plan: Packed,
) -> None:
    """Add the products of a pass to a block of sums in memory, or write them in the first one."""
    begin, steps = some
    high, wide = plan.rows // TILE, plan.width // TILE
    line, row = plan.width * PAIR, plan.depth
    apart = plan.rows * plan.depth, room
    if begin > 0:
        kl.tile_product(
            sums, left, row, right, line, steps, rows=high, columns=wide, add=True, parts=apart
        )
    else:
        kl.tile_product(sums, left, row, right, line, steps, rows=high, columns=wide, parts=apart)


@kl.helper
def add_plainly(
    w: kl.Pointer,
    panels: kl.Pointer,
    sums: kl.Pointer,
    left: tuple[kl.Number, kl.Number],
    rows: tuple[kl.Number, kl.Number],
    some: tuple[kl.Number, kl.Number],
    plan: Packed,
    how: Packing,
) -> None:
    """Add the products of a pass to a block of sums in memory by FMA."""
    (row, last), (begin, terms) = rows, some
    for r in kl.loop_range(0, kl.min(plan.rows, last - row), _ROWS):
        acc = kl.registers((_ROWS, plan.vectors), plan.accumulate, plan.lanes)
        if begin > 0:
            load_sums(acc, sums, r * plan.width)
        a_at = [left[0] + kl.min(row + r + i, last - 1) * left[1] for i in kl.range(_ROWS)]
        add_panel(w, panels, acc, a_at, terms * 0, terms, plan, (1, how.width))
        store_sums(acc, sums, r * plan.width)
