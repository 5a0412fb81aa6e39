"""Convolutions as products of weights and windows, by FMA, dot instructions or tiles.

Requirements: tiles have the rate of a matrix product, whatever taps read. So the terms of a window
are adjacent in memory, for an instruction of half types in pairs. A cube packs the windows of some
panels of pixels, which stay in its second-level cache, and multiplies them with its rows of weights
(Goto and van de Geijn, 2008; Chellapilla et al., 2006: im2col). So memory for windows is that of a
few panels. Tile registers take the same panels.
"""

from __future__ import annotations

from dataclasses import dataclass

from calor.dtypes import int32
from calor_kernel import language as kl
from calor_kernel.language.tiles import TILE
from calor_kernel.library.conv.window_packing import PAIR, Packing, Terms, Windows, pack_windows
from calor_kernel.library.gemm.epilogue import After, Epilogue, writer
from calor_kernel.library.matmul.blueprints import Packed
from calor_kernel.library.matmul.packed import Tile
from calor_kernel.library.matmul.packing import iota


@kl.kernel
def multiply_windows(
    x: kl.In,
    offsets: kl.In,
    w: kl.In,
    panels: kl.Out,
    sums: kl.Out,
    c: kl.Out,
    of: Windows[kl.Number],
    of_x: kl.Stride,
    of_w: tuple[kl.Stride, ...],
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

    ``of_x``: the stride of groups; ``of_w``: those of groups and rows. The elements of pairs are
    bits.
    """
    width, tall = plan.width, 1 if how.tiles else (block + (plan.rows - 1)) // plan.rows
    line = tall * (plan.rows * width)
    room = panel_room(of, plan, how)
    panel_count, blocks = (of.count + (width - 1)) // width, (of.rows + (block - 1)) // block
    shares = (panel_count + (share - 1)) // share
    for item in kl.loop_range(kl.cube_position(0), of.groups * shares * blocks, cubes):
        group, rest = item // (shares * blocks), item % (shares * blocks)
        number, first = rest // blocks * share, rest % blocks * block
        place = Place(
            kl.cube_position(0) * share * room,
            room,
            kl.cube_position(0) * share * line,
            line,
            group,
            (number, kl.min(number + share, panel_count)),
            first,
            kl.min(first + block, of.rows),
        )
        results = Results(c, of, after, epilogue, plan.lanes)
        source = Terms(x.at(group * of_x), offsets, panels)
        left = group * of_w[0], of_w[1]
        if how.tiles:
            pack_windows(source, place.panel, number * width, of, of.terms, how)
            add_tiles(w, panels, sums, left, place, results, plan, how)
        else:
            add_rows(source, w, sums, left, place, results, plan, how)


def panel_room(of: Windows[kl.Number], plan: Packed, how: Packing) -> kl.Number:
    """Return the elements of a panel in memory: of all terms for tiles, else of those of a pass."""
    groups = how.groups(of.terms)
    if not how.tiles:
        groups = kl.min(groups, plan.depth + how.odd)
    return groups * (plan.width * how.group)


@dataclass(frozen=True, slots=True)
class Place:
    """A block: its panels' and their sums' starts and distances, its group, panels and rows."""

    panel: kl.Number
    room: kl.Number
    sums: kl.Number
    line: kl.Index
    group: kl.Number
    numbers: tuple[kl.Number, kl.Number]
    first: kl.Number
    last: kl.Number


@dataclass(frozen=True, slots=True)
class Results:
    """The result with its epilogue, written in vectors of ``lanes`` adjacent windows."""

    c: kl.Pointer
    of: Windows[kl.Number]
    after: After | None
    epilogue: Epilogue | None
    lanes: int

    @property
    def heavy(self) -> bool:
        """Whether the epilogue is too long to be written out for all sums of a unit."""
        ends = writer(self.epilogue, self.after, self.c, 0)
        return ends is not None and ends.heavy

    @kl.helper
    def write(
        self, column: list[kl.Number], place: Place, row: kl.Number, window: kl.Number
    ) -> None:
        """Write vectors of adjacent windows, maybe of several images, to rows of the result."""
        of, lanes = self.of, self.lanes
        image = window // of.pixels
        pixel = window - image * of.pixels
        if (window + lanes <= of.count) and (pixel + lanes <= of.pixels):
            self.write_image(column, place, row, image, pixel, None)
        else:
            last = kl.min(window + lanes, of.count) - 1
            for i in kl.loop_range(image, last // of.pixels + 1):
                begin = window - i * of.pixels
                pixels = begin + iota(lanes, begin)
                inside = (pixels >= 0) & (pixels < kl.splat(of.pixels, lanes))
                self.write_image(column, place, row, i, begin, inside)

    @kl.helper
    def write_image(
        self,
        column: list[kl.Number],
        place: Place,
        row: kl.Number,
        image: kl.Number,
        pixel: kl.Number,
        inside: kl.Mask | None,
    ) -> None:
        """Write vectors of pixels of an image."""
        of, c = self.of, self.c
        ends = writer(self.epilogue, self.after, c, image)
        start = image * of.to[0] + place.group * of.to[1] + pixel
        for r, value in enumerate(column):
            if row + r < place.last:
                at = start + (row + r) * of.to[2]
                if ends is None:
                    c.store(at, value.to(c.dtype), mask=inside)
                else:
                    ends.write(at, value, place.group * of.rows + row + r, pixel, inside)

    @kl.helper
    def write_sums(
        self,
        sums: kl.Pointer,
        at: kl.Number,
        rows: tuple[kl.Number, kl.Number],
        place: Place,
        window: kl.Number,
        width: int,
    ) -> None:
        """Write a block of sums in memory from ``at`` on: some rows, of ``width`` windows."""
        of, lanes = self.of, self.lanes
        for v in kl.loop_range(0, kl.min(of.count - window, width), lanes):
            image = (window + v) // of.pixels
            pixel = window + v - image * of.pixels
            if (window + v + lanes <= of.count) and (pixel + lanes <= of.pixels):
                for row in kl.loop_range(*rows):
                    total = sums.load(at + (row - rows[0]) * width + v, lanes)
                    self.write_image([total], place, row, image, pixel, None)
            else:
                for row in kl.loop_range(*rows):
                    total = sums.load(at + (row - rows[0]) * width + v, lanes)
                    self.write([total], place, row, window + v)


@kl.helper
def add_rows(
    source: Terms,
    w: kl.Pointer,
    sums: kl.Pointer,
    left: tuple[kl.Number, kl.Number],
    place: Place,
    results: Results,
    plan: Packed,
    how: Packing,
) -> None:
    """Write the products of panels with rows of weights, by FMA or dot instructions.

    ``left``: the start of the weights, and the stride of rows. A pass packs a part of the terms of
    all panels; sums of all rows are in memory between passes.
    """
    rows, width, of, group = plan.rows, plan.width, results.of, how.group
    groups = of.terms // group
    for begin in kl.loop_range(0, kl.max(groups, 1), plan.depth):
        end = kl.min(begin + plan.depth, groups)
        terms = kl.select(end < groups, end * group, of.terms) - begin * group
        some = Terms(source.x, source.offsets.at(begin * group), source.panels)
        for number in kl.loop_range(*place.numbers):
            to = place.panel + (number - place.numbers[0]) * place.room
            pack_windows(some, to, number * width, of, terms, how)
        for row in kl.loop_range(place.first, place.last, rows):
            a_at = [
                left[0] + kl.min(row + r, place.last - 1) * left[1] + begin * group
                for r in kl.range(rows)
            ]
            for number in kl.loop_range(*place.numbers):
                own = number - place.numbers[0]
                panel = place.panel + own * place.room
                to = place.sums + own * place.line + (row - place.first) * width
                acc = kl.registers((rows, plan.vectors), plan.accumulate, plan.lanes)
                if begin > 0:
                    load_sums(acc, sums, to)
                steps = group, width * group
                add_panel(w, source.panels, acc, a_at, panel, end - begin, plan, steps, group)
                if end >= groups and how.odd:
                    tile = Tile(w, source.panels, [], plan.lanes, group)
                    odd = panel + (end - begin) * (width * group)
                    add_last(tile, acc, a_at, terms - 1, odd)
                if end < groups or results.heavy:
                    store_sums(acc, sums, to)
                if end >= groups:
                    window = number * width
                    if results.heavy:
                        here = row, kl.min(row + rows, place.last)
                        results.write_sums(sums, to, here, place, window, width)
                    else:
                        for v in kl.range(plan.vectors):
                            column = [acc[r, v] for r in kl.range(rows)]
                            results.write(column, place, row, window + v * plan.lanes)


@kl.helper
def add_panel(
    a: kl.Pointer,
    b: kl.Pointer,
    acc: kl.Registers,
    a_at: list[kl.Number],
    b_at: kl.Number,
    count: kl.Number,
    plan: Packed,
    steps: tuple[int, int],
    group: int = 1,
) -> None:
    """Add the products of ``count`` groups of terms of rows of a and of vectors of b.

    ``steps``: the distances of groups in both.
    """
    tile = Tile(a, b, [None] * plan.vectors, plan.lanes, group)
    main = count // plan.unroll * plan.unroll
    for p in kl.loop_range(0, main, plan.unroll):
        tile.steps(acc, a_at, b_at, p, *steps, plan.unroll)
    if plan.unroll > 1:
        for p in kl.loop_range(main, count):
            tile.steps(acc, a_at, b_at, p, *steps, 1)


@kl.helper
def load_sums(acc: kl.Registers, sums: kl.Pointer, at: kl.Number) -> None:
    """Read a tile of sums from memory."""
    (rows, vectors), lanes = acc.shape, acc.type.width
    for r in kl.range(rows):
        for v in kl.range(vectors):
            acc[r, v] = sums.load(at + (r * vectors + v) * lanes, lanes)


@kl.helper
def store_sums(acc: kl.Registers, sums: kl.Pointer, at: kl.Number) -> None:
    """Write a tile of sums to memory."""
    (rows, vectors), lanes = acc.shape, acc.type.width
    for r in kl.range(rows):
        for v in kl.range(vectors):
            sums.store(at + (r * vectors + v) * lanes, acc[r, v])


@kl.helper
def add_last(
    tile: Tile, acc: kl.Registers, a_at: list[kl.Number], term: kl.Number, at: kl.Number
) -> None:
    """Add the products of a term without a partner, of which the panel has zeros."""
    rows, vectors = acc.shape
    w, span = tile.a, tile.lanes * PAIR
    columns = [tile.b.load(at + v * span, span) for v in kl.range(vectors)]
    for r in kl.range(rows):
        alone = kl.pack([w[a_at[r] + term], kl.constant(0, w.dtype)])
        value = kl.bitcast(kl.splat(kl.bitcast(alone, int32), tile.lanes), w.dtype)
        for v in kl.range(vectors):
            acc[r, v] = tile.add(value, columns[v], acc[r, v])


@kl.helper
def add_tiles(
    w: kl.Pointer,
    panels: kl.Pointer,
    sums: kl.Pointer,
    left: tuple[kl.Number, kl.Number],
    place: Place,
    results: Results,
    plan: Packed,
    how: Packing,
) -> None:
    """Write the products of a packed panel with rows of weights, by tile registers.

    The last tile of rows overlaps the one before; the terms of weights are whole steps.
    """
    height, width = plan.rows, plan.width
    steps = how.groups(results.of.terms) // TILE
    for begin in kl.loop_range(place.first, place.last, height):
        row = kl.min(begin, results.of.rows - height)
        kl.tile_product(
            sums.at(place.sums), w.at(left[0] + row * left[1]), left[1],
            panels.at(place.panel), width * PAIR, steps,
            rows=height // TILE, columns=width // TILE,
        )  # fmt: skip
        some = begin, kl.min(begin + height, place.last)
        at = place.sums + (begin - row) * width
        results.write_sums(sums, at, some, place, place.numbers[0] * width, width)
