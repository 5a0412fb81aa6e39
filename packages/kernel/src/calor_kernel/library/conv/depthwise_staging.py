"""Staged tiles of depthwise convolutions: what blocks read, and the copy to shared memory.

Requirements: units copy along the axis whose elements are adjacent, pixels or channels; the place
of an access is computed once for all its channels. Padding is zeros in shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.library.conv.direct_blocks import Block, unraveled

# Loads of a unit that are under way together while it stages.
_AHEAD = 8


@dataclass(frozen=True, slots=True)
class Span:
    """Staged positions along an axis: ``count`` from ``low`` on, and ``step`` for each block."""

    low: int
    count: int
    step: int

    @staticmethod
    def of(block: Block) -> Span:
        """Return what a block reads."""
        if block.divide == 1 and block.taps:
            reach = block.summed * (block.taps - 1)
            count = block.result * (block.outputs - 1) + abs(reach) + 1
            return Span(block.start + min(reach, 0), count, block.step)
        places = list(block.pairs())
        low = min(places, default=0)
        high = max(places, default=0)
        return Span(low, high - low + 1, block.step)

    @staticmethod
    def outputs(block: Block) -> Span:
        """Return the outputs of a block."""
        return Span(0, block.outputs, block.outputs)

    def along(self, blocks: int) -> Span:
        """Return what adjacent blocks read, or their outputs, if this is that of one."""
        return Span(self.low, (blocks - 1) * self.step + self.count, self.step)


@dataclass(frozen=True, slots=True)
class Tile:
    """A staged tile: channels with their spans along each axis.

    ``wide``: the adjacent channels of an access, which divide all channels; 1 if the channels of
    the operand are not adjacent. ``whole``: the sizes of the image, if the tile has all of it; then
    the image alone is copied, and what is around it is cleared once.
    """

    channels: int
    spans: tuple[Span, ...]
    wide: int = 1
    whole: tuple[int, ...] = ()

    @property
    def plane(self) -> int:
        """The distance between channels: odd, so that adjacent channels meet other banks."""
        return self.area | 1

    @property
    def size(self) -> int:
        """The number of staged elements."""
        return self.channels * self.plane

    @property
    def area(self) -> int:
        """The staged positions of a channel."""
        return prod(self.counts)

    @property
    def counts(self) -> list[int]:
        """The staged positions along each axis."""
        return [span.count for span in self.spans]

    @property
    def copied(self) -> list[int]:
        """The positions along each axis that are copied."""
        return list(self.whole) or self.counts

    @property
    def pitches(self) -> list[int]:
        """The distances between positions along each axis."""
        return [prod(self.counts[k + 1 :]) for k in range(len(self.spans))]

    def at(self, numbers: Sequence[kl.Index]) -> kl.Index:
        """Return where the positions of a block begin in a channel."""
        found: kl.Index = 0
        for number, span, pitch in zip(numbers, self.spans, self.pitches, strict=True):
            found = found + number * (span.step * pitch)
        return found

    def far(self, place: Sequence[kl.Index]) -> kl.Index:
        """Return how far from there a position of the block is staged."""
        found: kl.Index = 0
        for i, span, pitch in zip(place, self.spans, self.pitches, strict=True):
            found = found + (i - span.low) * pitch
        return found

    def parts(self, units: int) -> int:
        """Return among how many units the channels of a position are shared."""
        return max(1, min(units // prod(self.copied), self.channels // self.wide))

    @kl.helper
    def clear(self, held: kl.Pointer, units: int, wide: DType) -> None:
        """Fill the tile with zeros, if what is around the image is not copied."""
        if self.whole:
            for at in kl.loop_range(kl.unit_index(), self.size, units):
                held[at] = kl.constant(0, wide)
            kl.barrier()

    @kl.helper
    def _met(
        self, number: kl.Index, first: Sequence[kl.Number], limits: Sequence[kl.Number]
    ) -> tuple[kl.Index, Sequence[kl.Index], kl.Mask]:
        """Return where a copied position is in the tile and in the image, and if it is in that.

        ``first``: the position at which the tile begins.
        """
        staged = unraveled(number, self.copied)
        if self.whole:
            return self.far(staged), staged, True
        place = [begun + i for begun, i in zip(first, staged, strict=True)]
        inside = place[0] >= 0
        for i in place[1:]:
            inside = inside & (i >= 0)
        for i, limit in zip(place, limits, strict=True):
            inside = inside & (i < limit)
        return number, place, inside

    @kl.helper
    def stage(
        self,
        held: kl.Pointer,
        x: kl.Pointer,
        at: kl.Number,
        channel_step: kl.Number,
        channels: kl.Number,
        tops: Sequence[kl.Number],
        limits: Sequence[kl.Number],
        steps: Sequence[kl.Number],
        units: int,
        wide: DType,
    ) -> None:
        """Copy the tile of the blocks at ``tops``; ``limits``: the sizes of the axes.

        ``at``: the first channel of the tile. There are ``channels`` from it on. A unit copies
        channels of a position, whose place is computed once.
        """
        first = [top * span.step + span.low for top, span in zip(tops, self.spans, strict=True)]
        parts, runs = self.parts(units), self.channels // self.wide
        area = prod(self.copied)
        each, total = -(-runs // parts), area * parts
        none = kl.constant(0, wide, self.wide)
        turns = max(1, min(_AHEAD // each, -(-total // units)))
        for begin in kl.loop_range(kl.unit_index(), total, units * turns):
            places = []
            for turn in kl.range(turns):
                e = begin + turn * units
                # Units beyond the end load the first position again and store nothing.
                e = kl.select(e < total, e, 0) if turns > 1 else e
                # One part has all positions; compilers do not see that the quotient is 0.
                part, pixel = (e // area, e % area) if parts > 1 else (e * 0, e)
                pixel, place, inside = self._met(pixel, first, limits)
                far = place[0] * steps[0]
                for i, step in zip(place[1:], steps[1:], strict=True):
                    far = far + i * step
                near = at + far if inside is True else at + kl.select(inside, far, 0)
                places.append((begin + turn * units < total, part * each, pixel, inside, near))
            for start in kl.range(0, each, _AHEAD):
                found = []
                for there, run, pixel, inside, near in places:
                    for k in kl.range(start, min(start + _AHEAD, each)):
                        channel = (run + k) * self.wide
                        # Channels beyond the last are read as the first and not used.
                        exists = channel < channels
                        if runs % each:
                            exists = exists & (channel < self.channels)
                        to = kl.assume_multiple(
                            near + kl.select(exists, channel * channel_step, 0), self.wide
                        )
                        value = x.load(to, self.wide).to(wide)
                        mask = exists if inside is True else exists & inside
                        mask = kl.splat(mask, self.wide) if self.wide > 1 else mask
                        found.append((there, channel, pixel, kl.select(mask, value, none)))
                for there, channel, pixel, value in found:
                    if there & (channel < self.channels):
                        for k in kl.range(self.wide):
                            to = (channel + k) * self.plane + pixel
                            held[to] = value[k] if self.wide > 1 else value


@dataclass(frozen=True, slots=True)
class Share:
    """The blocks of a channel among those of a cube, along each axis: one for each unit."""

    blocks: tuple[int, ...]

    @property
    def size(self) -> int:
        """The units of a channel."""
        return prod(self.blocks)

    @kl.helper
    def of_unit(self) -> list[kl.Index]:
        """Return the channel and the numbers of the unit's block along each axis."""
        unit = kl.unit_index()
        here = unit % self.size
        return [unit // self.size, *unraveled(here, self.blocks)]
