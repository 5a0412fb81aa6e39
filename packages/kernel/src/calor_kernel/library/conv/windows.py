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


@dataclass(frozen=True, slots=True)
class Volumes(Generic[N, D]):
    """The first axis of volumes, whose planes are images: of ``axis``, ``count`` output planes.

    ``blocks``: the blocks of channels of a plane, which follow those of the plane before; ``plane``
    and ``made``: the distances between planes of the operand and of the result.
    """

    axis: WindowAxis[N]
    count: kl.DivisorOf[D]
    blocks: kl.DivisorOf[D]
    plane: kl.StrideOf[N]
    made: kl.StrideOf[N]


WindowsOnDevice = Windows[kl.Number, kl.FastDivmod]
PhaseOnDevice = Phase[kl.Number, kl.FastDivmod]
VolumesOnDevice = Volumes[kl.Number, kl.FastDivmod]
# The start of a pixel's window: its position, row and column.
Start = tuple[kl.Number, kl.Number, kl.Number]


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads an operand through windows; the strides are those of images, rows and pixels.

    With ``volumes``, images are planes of these, and the first stride is that of volumes.
    """

    windows: WindowsOnDevice
    strides: Sequence[kl.Number]
    volumes: VolumesOnDevice | None = None

    @kl.helper
    def start(self, column: kl.Number, total: kl.Number) -> Start:
        """Return the start of a pixel's window; outside the image for columns from total on."""
        windows, strides = self.windows, self.strides
        lead, place = windows.pixels.divmod(column)
        down, across = windows.row.divmod(place)
        y = down * windows.down.step + windows.down.start
        x = across * windows.across.step + windows.across.start
        if self.volumes is not None:
            volume, plane = self.volumes.count.divmod(lead)
            first = plane * self.volumes.axis.step + self.volumes.axis.start
            at = volume * strides[0] + first * self.volumes.plane
            at = at + y * strides[1] + x * strides[2]
        else:
            at = lead * strides[0] + y * strides[1] + x * strides[2]
        # No tap reaches the image from there.
        return at, kl.select(column < total, y, -(1 << 30)), x

    @kl.helper
    def plane(self, column: kl.Number) -> kl.Number | None:
        """Return the plane of a volume at which a pixel's window begins."""
        volumes = self.volumes
        if volumes is None:
            return None
        lead, _ = self.windows.pixels.divmod(column)
        _, plane = volumes.count.divmod(lead)
        return plane * volumes.axis.step + volumes.axis.start

    @kl.helper
    def tap_plane(self, term: kl.Number) -> kl.Number | None:
        """Return a term's distance from that plane."""
        if self.volumes is None:
            return None
        some, *_ = self.place(term)
        plane, _ = self.volumes.blocks.divmod(some)
        return plane * self.volumes.axis.move

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
        far: kl.Index = 0
        if self.volumes is not None:
            plane, some = self.volumes.blocks.divmod(some)
            far = plane * (self.volumes.axis.move * self.volumes.plane)
        channel = some * self.windows.channels.divisor + channel
        return y, x, y * self.strides[1] + x * self.strides[2] + channel + far

    @kl.helper
    def of(self, term: kl.Number, phase: PhaseOnDevice) -> kl.Number:
        """Return a term's position in its row of weights."""
        some, down, across, channel = self.place(term)
        at = phase.first + some * phase.block
        return at + down * phase.down + across * phase.across + channel

    @kl.helper
    def inside(
        self,
        y: kl.Number,
        x: kl.Number,
        plane: kl.Number | None = None,
        tap: kl.Number | None = None,
    ) -> kl.Number:
        """Return whether a position is not padding; ``plane``, ``tap``: those of a volume."""
        high, wide = self.windows.down.size, self.windows.across.size
        found = (y >= 0) & (y < high) & (x >= 0) & (x < wide)
        if self.volumes is not None and plane is not None and tap is not None:
            place = plane + tap
            found = found & (place >= 0) & (place < self.volumes.axis.size)
        return found


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
