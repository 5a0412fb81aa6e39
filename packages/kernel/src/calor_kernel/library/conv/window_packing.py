"""Packing the windows of adjacent output pixels to panels, in groups of terms of an instruction.

Requirements: a panel is written once and read for every row of weights, so its cost shows where
rows are few. Windows of a row of pixels that lie side by side, or two apart, are read in vectors;
those of a panel that is inside of a row, several vectors at a time. Other windows are gathered.
Where a term stands alone, no vector is stored in part: some processors store the selected lanes of
a vector slowly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from calor.dtypes import int64, uint32
from calor_kernel import language as kl
from calor_kernel.language.declared import N
from calor_kernel.language.tiles import TILE
from calor_kernel.library.conv.vector_tiles import below, within
from calor_kernel.library.matmul.packing import interleave

PAIR = 2
"""The terms of a dot instruction of half types, which are adjacent in a panel."""
_BITS = 16


@dataclass(frozen=True, slots=True)
class Windows(Generic[N]):
    """Windows of all images, one after another: ``images`` of ``pixels`` each, of ``terms`` terms.

    ``rows`` of weights for each of ``groups``. ``high`` and ``wide``: pixels along two axes.
    ``steps``: their distances in the operand, with depth first; the first window begins at
    ``start``. Images are ``image`` apart. ``to``: the strides of the result's images, groups and
    rows, whose pixels are dense.
    """

    images: kl.SizeOf[N]
    groups: kl.SizeOf[N]
    rows: kl.SizeOf[N]
    pixels: kl.SizeOf[N]
    terms: kl.SizeOf[N]
    high: kl.SizeOf[N]
    wide: kl.SizeOf[N]
    steps: tuple[kl.StrideOf[N], ...]
    start: kl.StrideOf[N]
    image: kl.StrideOf[N]
    to: tuple[kl.StrideOf[N], ...]

    @property
    def count(self: Windows[kl.Number]) -> kl.Number:
        """The number of windows of a group."""
        return self.images * self.pixels

    def line(self: Windows[kl.Number], number: kl.Number) -> kl.Number:
        """Return the position of the first window of a row of pixels, counted over all images."""
        lines = self.pixels // self.wide
        image, rest = number // lines, number % lines
        d, h = rest // self.high, rest % self.high
        return self.start + image * self.image + d * self.steps[0] + h * self.steps[1]

    def seen(self: Windows[kl.Number], first: kl.Number, count: int) -> list[kl.Number]:
        """Return the positions of adjacent windows; beyond the last that of the first."""
        image, pixel = first // self.pixels, first % self.pixels
        d, h, w = kl.unravel(pixel, (1, self.high, self.wide))
        found: list[kl.Number] = []
        for i in range(count):
            at = self.start + image * self.image
            at = at + d * self.steps[0] + h * self.steps[1] + w * self.steps[2]
            found.append(kl.select(first + i < self.count, at, found[0]) if i else at)
            # The next window, without a division.
            w, h = _carried(w + 1, h, self.wide)
            h, d = _carried(h, d, self.high)
            d, image = _carried(d, image, self.pixels // (self.high * self.wide))
        return found


def _carried(
    digit: kl.Number, next_digit: kl.Number, size: kl.Number
) -> tuple[kl.Number, kl.Number]:
    """Return a digit that may be its size, and the next one, with the carry."""
    over = digit == size
    zero, one = kl.constant(0, digit.dtype), kl.constant(1, digit.dtype)
    return kl.select(over, zero, digit), next_digit + kl.select(over, one, zero)


@kl.kernel
def window_offsets(
    offsets: kl.Out,
    depth: kl.Size,
    channel: kl.Stride,
    taps: tuple[kl.Size, ...],
    steps: tuple[kl.Stride, ...],
) -> None:
    """Write where the terms of a window lie from its begin: channels, and their taps."""
    at = kl.constant(0, int64)
    for c in kl.loop_range(depth):
        for d in kl.loop_range(taps[0]):
            for h in kl.loop_range(taps[1]):
                for w in kl.loop_range(taps[2]):
                    offsets[at] = c * channel + d * steps[0] + h * steps[1] + w * steps[2]
                    at = at + 1


@dataclass(frozen=True, slots=True)
class Packing:
    """A panel of ``width`` windows in vectors of ``lanes``.

    ``group``: the terms of an instruction, which are adjacent in a panel: a pair or one. ``unit``:
    the distance of adjacent windows if it is 1 or 2, else 0. ``odd``: whether the last term of a
    pair has no partner. ``tiles``: whether the pairs are filled up to whole steps of tiles.
    """

    width: int
    lanes: int
    group: int
    unit: int
    odd: bool
    tiles: bool

    def groups(self, terms: kl.Number) -> kl.Number:
        """Return the groups of terms of a panel in memory."""
        groups = terms // self.group + self.odd
        return (groups + (TILE - 1)) // TILE * TILE if self.tiles else groups


@dataclass(frozen=True, slots=True)
class Terms:
    """The operand of windows, the positions of terms, and the panels in memory.

    The elements of pairs are bits.
    """

    x: kl.Pointer
    offsets: kl.Pointer
    panels: kl.Pointer

    def word(
        self, at: kl.Number, term: kl.Number, how: Packing, mask: kl.Mask | None, alone: bool
    ) -> kl.Number:
        """Return two terms of adjacent windows in words, or one without its partner."""
        low = self._bits(at, term, how, mask)
        if how.unit == PAIR:
            low = low & kl.constant(0xFFFF, uint32, how.lanes)
        if alone:
            return low
        high = self._bits(at, term + 1, how, mask)
        return low | (high << kl.constant(_BITS, uint32, how.lanes))

    def _bits(
        self, at: kl.Number, term: kl.Number, how: Packing, mask: kl.Mask | None
    ) -> kl.Number:
        found = self.x.load(at + self.offsets[term], how.lanes * how.unit, mask=mask)
        return found.to(uint32) if how.unit == 1 else kl.bitcast(found, uint32)

    def vector(
        self, at: kl.Number, term: kl.Number, how: Packing, masks: list[kl.Mask] | None
    ) -> kl.Number:
        """Return a term of adjacent windows; nothing beyond the last window is read."""
        lanes, place = how.lanes, at + self.offsets[term]
        low, high = masks or (None, None)
        first = self.x.load(place, lanes, mask=low)
        if how.unit == 1:
            return first
        second = self.x.load(place + (lanes - 1), lanes, mask=high)
        order = [*kl.range(0, lanes, 2), *kl.range(lanes + 1, 2 * lanes, 2)]
        return kl.shuffle(first, order, second)


@kl.helper
def pack_windows(
    of_terms: Terms,
    to: kl.Number,
    first: kl.Number,
    of: Windows[kl.Number],
    terms: kl.Number,
    how: Packing,
) -> None:
    """Write ``terms`` of the panel of the windows from ``first`` on to element ``to``."""
    if how.unit == 0:
        gather_windows(of_terms, to, first, of, terms, how)
    elif how.group == 1:
        pack_vectors(of_terms, to, first, of, terms, how)
    else:
        stop = kl.min(first + how.width, of.count)
        for number in kl.loop_range(first // of.wide, (stop + (of.wide - 1)) // of.wide):
            begin = kl.max(first, number * of.wide)
            end = kl.min(stop, (number + 1) * of.wide)
            at = of.line(number) + (begin - number * of.wide) * how.unit
            if end - begin == how.width:
                pack_row(of_terms, to, at, terms, None, how)
            else:
                for i in kl.loop_range(0, end - begin, how.lanes):
                    column = begin - first + i
                    left = end - begin - i
                    to_row = to + column * PAIR
                    pack_row(of_terms, to_row, at + i * how.unit, terms, left, how)
    if how.tiles:
        fill = kl.constant(0, of_terms.panels.dtype, how.lanes * PAIR)
        for p in kl.loop_range((terms + (PAIR - 1)) // PAIR, how.groups(terms)):
            for v in kl.range(0, how.width, how.lanes):
                of_terms.panels.store(to + (p * how.width + v) * PAIR, fill)


@kl.helper
def pack_row(
    of_terms: Terms,
    to: kl.Number,
    at: kl.Number,
    terms: kl.Number,
    left: kl.Number | None,
    how: Packing,
) -> None:
    """Write windows side by side in a row: a whole panel, or of a vector those that are left."""
    lanes, panels = how.lanes, of_terms.panels
    inside, store = None, None
    if left is not None:
        seen = left if how.unit == 1 else left * PAIR - 1
        inside, store = below(seen, lanes * how.unit), below(left * PAIR, lanes * PAIR)
    vectors = kl.range(0, how.width if left is None else lanes, lanes)
    pairs = terms // PAIR
    for p in kl.loop_range(pairs):
        for v in vectors:
            word = of_terms.word(at + v * how.unit, p * PAIR, how, inside, False)
            place = to + (p * how.width + v) * PAIR
            panels.store(place, kl.bitcast(word, panels.dtype), mask=store)
    if how.odd and terms % PAIR > 0:
        for v in vectors:
            word = of_terms.word(at + v * how.unit, pairs * PAIR, how, inside, True)
            place = to + (pairs * how.width + v) * PAIR
            panels.store(place, kl.bitcast(word, panels.dtype), mask=store)


@kl.helper
def pack_vectors(
    of_terms: Terms,
    to: kl.Number,
    first: kl.Number,
    of: Windows[kl.Number],
    terms: kl.Number,
    how: Packing,
) -> None:
    """Write the panel of single terms: vectors begin at multiples of their lanes in the panel."""
    lanes, width, unit, panels = how.lanes, how.width, how.unit, of_terms.panels
    column = first % of.wide
    if column + width <= of.wide:
        at = of.line(first // of.wide) + column * unit
        for k in kl.loop_range(terms):
            for v in kl.range(0, width, lanes):
                panels.store(to + k * width + v, of_terms.vector(at + v * unit, k, how, None))
    else:
        for v in kl.loop_range(0, width, lanes):
            begin = first + v
            stop = kl.min(begin + lanes, of.count)
            number = begin // of.wide
            if stop <= (number + 1) * of.wide and stop - begin == lanes:
                at = of.line(number) + (begin - number * of.wide) * unit
                for k in kl.loop_range(terms):
                    panels.store(to + v + k * width, of_terms.vector(at, k, how, None))
            else:
                rows = (stop + (of.wide - 1)) // of.wide
                for two in kl.loop_range(number, rows, 2):
                    pack_lanes(of_terms, to + v, begin, two, of, terms, how)


@kl.helper
def pack_lanes(
    of_terms: Terms,
    to: kl.Number,
    begin: kl.Number,
    number: kl.Number,
    of: Windows[kl.Number],
    terms: kl.Number,
    how: Packing,
) -> None:
    """Write the windows of two rows of pixels to a vector that begins with window ``begin``.

    Lanes of rows before are kept.
    """
    lanes, width, unit, panels = how.lanes, how.width, how.unit, of_terms.panels
    places, masks, inside = [], [], []
    for row in kl.range(2):
        moved = (number + row) * of.wide - begin
        low = kl.max(moved, 0)
        count = kl.max(kl.min(kl.min(moved + of.wide, lanes), of.count - begin) - low, 0)
        places.append(of.line(number + row) - moved * unit)
        seen = count * unit - (unit - 1)
        masks.append([within(i - low * unit, lanes, seen) for i in (0, lanes - 1)])
        inside.append(within(-low, lanes, count))
    some = inside[0] | inside[1]
    for k in kl.loop_range(terms):
        first, second = (
            of_terms.vector(at, k, how, mask) for at, mask in zip(places, masks, strict=True)
        )
        value = kl.select(inside[0], first, second)
        if number * of.wide > begin:
            value = kl.select(some, value, panels.load(to + k * width, lanes))
        panels.store(to + k * width, value)


@kl.helper
def gather_windows(
    of_terms: Terms,
    to: kl.Number,
    first: kl.Number,
    of: Windows[kl.Number],
    terms: kl.Number,
    how: Packing,
) -> None:
    """Write the panel of windows at any distances, element by element."""
    lanes, width, group, panels = how.lanes, how.width, how.group, of_terms.panels
    windows = of.seen(first, width)
    places = [windows[v : v + lanes] for v in kl.range(0, width, lanes)]
    groups = terms // group
    for p in kl.loop_range(groups):
        ends = [of_terms.x.at(of_terms.offsets[p * group + i]) for i in kl.range(group)]
        for v, some in enumerate(places):
            parts = [kl.pack([end[place] for place in some]) for end in ends]
            place = to + (p * width + v * lanes) * group
            panels.store(place, kl.bitcast(interleave(parts), panels.dtype))
    if how.odd and terms % PAIR > 0:
        end = of_terms.x.at(of_terms.offsets[terms - 1])
        for v, some in enumerate(places):
            alone = kl.pack([end[place] for place in some])
            parts = [alone, kl.constant(0, of_terms.x.dtype, lanes)]
            place = to + (groups * width + v * lanes) * PAIR
            panels.store(place, kl.bitcast(interleave(parts), panels.dtype))
