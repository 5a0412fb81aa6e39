"""The windows of an implicit GEMM without TMA: which pixel and weight each term reads.

Requirements: a pixel's coordinates are computed once and a step's tap once; the rest is additions
and comparisons. Terms are a block of channels of each tap, then the next block, so that overlapping
windows are read while their shared elements are cached. A phase is the output pixels with the same
taps; the phases of a launch differ in numbers alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Generic, TypeVar, cast

from calor_kernel import language as kl
from calor_kernel.language.declared import D, N

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ResultStrides(Generic[N]):
    """The strides of a result's channels, images, rows and pixels."""

    channel: kl.SizeOf[N]
    image: kl.SizeOf[N]
    row: kl.SizeOf[N]
    pixel: kl.SizeOf[N]


@dataclass(frozen=True, slots=True)
class WindowAxis(Generic[N]):
    """Tap j of output pixel i reads ``i * step + j * move + start``, if it is in the image."""

    step: kl.StrideOf[N]
    move: kl.StrideOf[N]
    start: kl.StrideOf[N]
    size: kl.SizeOf[N]


@dataclass(frozen=True, slots=True)
class Windows(Generic[N, D]):
    """Windows along two axes.

    Divisors: the output pixels of an image and of a row, the taps of a window and of its row, and
    the channels of a block.
    """

    down: WindowAxis[N]
    across: WindowAxis[N]
    pixels: kl.DivisorOf[D]
    row: kl.DivisorOf[D]
    taps: kl.DivisorOf[D]
    tap_row: kl.DivisorOf[D]
    channels: kl.DivisorOf[D]


@dataclass(frozen=True, slots=True)
class Phase(Generic[N, D]):
    """A phase: its pixels, terms, terms of a part, and first element in the result.

    ``first``: its first weight in a row; ``block``, ``down``, ``across``: the strides of weights.
    """

    columns: kl.SizeOf[N]
    terms: kl.SizeOf[N]
    share: kl.SizeOf[N]
    start: kl.SizeOf[N]
    first: kl.StrideOf[N]
    block: kl.StrideOf[N]
    down: kl.StrideOf[N]
    across: kl.StrideOf[N]
    windows: Windows[N, D]


WindowsOnDevice = Windows[kl.Number, kl.FastDivmod]
PhaseOnDevice = Phase[kl.Number, kl.FastDivmod]
# The start of a pixel's window: its position, row and column.
Start = tuple[kl.Number, kl.Number, kl.Number]


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads an operand through windows; the strides are those of images, rows and pixels."""

    windows: WindowsOnDevice
    strides: Sequence[kl.Number]

    @kl.helper
    def start(self, column: kl.Number, total: kl.Number) -> Start:
        """Return the start of a pixel's window; outside the image for columns from total on."""
        windows, strides = self.windows, self.strides
        lead, place = windows.pixels.divmod(column)
        down, across = windows.row.divmod(place)
        y = down * windows.down.step + windows.down.start
        x = across * windows.across.step + windows.across.start
        at = lead * strides[0] + y * strides[1] + x * strides[2]
        # No tap reaches the image from there.
        return at, kl.select(column < total, y, -(1 << 30)), x

    def place(self, term: kl.Number) -> tuple[kl.Number, kl.Number, kl.Number, kl.Number]:
        """Return the block of channels of a term, its tap's row and column, and the channel."""
        step, channel = self.windows.channels.divmod(term)
        some, tap = self.windows.taps.divmod(step)
        return some, *self.windows.tap_row.divmod(tap), channel

    @kl.helper
    def tap(self, term: kl.Number) -> Start:
        """Return a term's distance from the window's start: rows, columns and elements."""
        some, down, across, channel = self.place(term)
        y, x = down * self.windows.down.move, across * self.windows.across.move
        channel = some * self.windows.channels.divisor + channel
        return y, x, y * self.strides[1] + x * self.strides[2] + channel

    @kl.helper
    def of(self, term: kl.Number, phase: PhaseOnDevice) -> kl.Number:
        """Return a term's position in its row of weights."""
        some, down, across, channel = self.place(term)
        at = phase.first + some * phase.block
        return at + down * phase.down + across * phase.across + channel

    @kl.helper
    def inside(self, y: kl.Number, x: kl.Number) -> kl.Number:
        """Return whether a position is not padding."""
        high, wide = self.windows.down.size, self.windows.across.size
        return (y >= 0) & (y < high) & (x >= 0) & (x < wide)


def chosen(phases: Sequence[PhaseOnDevice], phase: kl.Index) -> PhaseOnDevice:
    """Return the numbers of one of several phases."""
    made = phases[0]
    for i in kl.range(1, len(phases)):
        made = _select(phase == i, phases[i], made)
    return made


def _select(here: kl.Mask, a: T, b: T) -> T:
    """Return ``a`` where a condition holds, else ``b``, for each number of a group."""
    if not is_dataclass(a) or isinstance(a, type):
        return cast(T, kl.select(here, a, b))
    pairs = ((getattr(a, field.name), getattr(b, field.name)) for field in fields(a))
    return type(a)(*(_select(here, one, other) for one, other in pairs))
