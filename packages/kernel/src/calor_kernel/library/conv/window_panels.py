"""Convolutions as products of weights and windows, by dot instructions or tiles of half types.

Requirements: an instruction of a CPU adds two products a lane, so pairs of terms of a window are
adjacent. A cube packs the windows of a panel of pixels, which stay in its second-level cache, and
multiplies them with its rows of weights (Goto and van de Geijn, 2008; Chellapilla et al., 2006:
im2col). So memory for windows is that of a few panels. Tile registers take the same panels.
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
    cubes: kl.Size,
    after: After | None,
    *,
    plan: Packed,
    how: Packing,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute blocks x, x + ``cubes``, … of all groups: a panel's products with ``block`` rows.

    ``of_x``: the stride of groups; ``of_w``: those of groups and rows. Elements of x are bits.
    """
    width = plan.width
    mine = kl.cube_position(0) * (how.pairs(of.terms) * width * PAIR)
    tall = 1 if how.tiles else (block + (plan.rows - 1)) // plan.rows
    line = tall * (plan.rows * width)
    panel_count, blocks = (of.count + (width - 1)) // width, (of.rows + (block - 1)) // block
    for item in kl.loop_range(kl.cube_position(0), of.groups * panel_count * blocks, cubes):
        group, rest = item // (panel_count * blocks), item % (panel_count * blocks)
        panel, first = rest // blocks, rest % blocks * block
        pack_windows(Terms(x.at(group * of_x), offsets, panels), mine, panel * width, of, how)
        place = Place(
            mine, kl.cube_position(0) * line, group, panel, first, kl.min(first + block, of.rows)
        )
        results = Results(c, of, after, epilogue, plan.lanes)
        left = group * of_w[0], of_w[1]
        if how.tiles:
            add_tiles(w, panels, sums, left, place, results, plan, how)
        else:
            add_rows(w, panels, sums, left, place, results, plan, how)


@dataclass(frozen=True, slots=True)
class Place:
    """A block: the starts of its panel and sums, its group, the number of its panel, its rows."""

    panel: kl.Number
    sums: kl.Number
    group: kl.Number
    number: kl.Number
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
    w: kl.Pointer,
    panels: kl.Pointer,
    sums: kl.Pointer,
    left: tuple[kl.Number, kl.Number],
    place: Place,
    results: Results,
    plan: Packed,
    how: Packing,
) -> None:
    """Write the products of a packed panel with rows of weights, by dot instructions.

    ``left``: the start of the weights, and the stride of rows. Sums of all rows are in memory
    between parts of the terms.
    """
    rows, lanes, width, of = plan.rows, plan.lanes, plan.width, results.of
    pairs = of.terms // PAIR
    tile = Tile(w, panels, [None] * plan.vectors, lanes, PAIR)
    for begin in kl.loop_range(0, kl.max(pairs, 1), plan.depth):
        end = kl.min(begin + plan.depth, pairs)
        for row in kl.loop_range(place.first, place.last, rows):
            a_at = [left[0] + kl.min(row + r, place.last - 1) * left[1] for r in kl.range(rows)]
            to = place.sums + (row - place.first) * width
            acc = kl.registers((rows, plan.vectors), plan.accumulate, lanes)
            if begin > 0:
                for r in kl.range(rows):
                    for v in kl.range(plan.vectors):
                        acc[r, v] = sums.load(to + r * width + v * lanes, lanes)
            main = begin + (end - begin) // plan.unroll * plan.unroll
            for p in kl.loop_range(begin, main, plan.unroll):
                for u in kl.range(plan.unroll):
                    at = place.panel + (p + u) * (width * PAIR)
                    tile.multiply(acc, a_at, (p + u) * PAIR, at)
            for p in kl.loop_range(main, end):
                tile.multiply(acc, a_at, p * PAIR, place.panel + p * (width * PAIR))
            if end >= pairs and how.odd:
                add_last(tile, acc, a_at, of.terms - 1, place.panel + pairs * (width * PAIR))
            if end < pairs or results.heavy:
                for r in kl.range(rows):
                    for v in kl.range(plan.vectors):
                        sums.store(to + r * width + v * lanes, acc[r, v])
            if end >= pairs:
                if results.heavy:
                    some = row, kl.min(row + rows, place.last)
                    results.write_sums(sums, to, some, place, place.number * width, width)
                else:
                    for v in kl.range(plan.vectors):
                        column = [acc[r, v] for r in kl.range(rows)]
                        results.write(column, place, row, place.number * width + v * lanes)


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
    steps = how.pairs(results.of.terms) // TILE
    for begin in kl.loop_range(place.first, place.last, height):
        row = kl.min(begin, results.of.rows - height)
        kl.tile_product(
            sums.at(place.sums), w.at(left[0] + row * left[1]), left[1],
            panels.at(place.panel), width * PAIR, steps,
            rows=height // TILE, columns=width // TILE,
        )  # fmt: skip
        some = begin, kl.min(begin + height, place.last)
        at = place.sums + (begin - row) * width
        results.write_sums(sums, at, some, place, place.number * width, width)
