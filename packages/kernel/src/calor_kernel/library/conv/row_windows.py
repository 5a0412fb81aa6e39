"""Windows along dense rows: reads of their taps, and writes of alternating phases.

Requirements: a stride of two costs a shuffle and no copy. Masks for the ends of rows are made once
for all rows of a window. Memory is prefetched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic

from calor.dtypes import int32
from calor_kernel import language as kl
from calor_kernel.language.declared import N
from calor_kernel.library.conv.vector_tiles import iota, within

# Bytes from a read to its prefetch.
AHEAD = 1 << 14


@dataclass(frozen=True, slots=True)
class Along:
    """Taps along a row, or down an image, known at build time: number, stride and dilation."""

    taps: int
    stride: int
    dilation: int

    def spread(self, lanes: int) -> int:
        """Return how many elements the window of a vector of pixels spans."""
        return lanes * self.stride + (self.taps - 1) * self.dilation

    def steps(self, k: int, lanes: int) -> tuple[int, ...]:
        """Return the elements of tap k for each pixel of a vector."""
        return tuple(i * self.stride + k * self.dilation for i in range(lanes))

    def seen(self, span: int) -> dict[int, list[tuple[int, int]]]:
        """Return the elements that the windows of ``span`` pixels read, each with (pixel, tap)."""
        found: dict[int, list[tuple[int, int]]] = {}
        for i in range(span):
            for k in range(self.taps):
                found.setdefault(i * self.stride + k * self.dilation, []).append((i, k))
        return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class Back:
    """Taps along a row as seen from the input; the first window begins at ``start``."""

    taps: int
    stride: int
    dilation: int
    start: int

    def phase(self, phase: int) -> list[tuple[int, int]]:
        """Return the taps that read elements ``stride * j + phase``, and their windows.

        A window is given by its distance from j.
        """
        found = []
        for k in range(self.taps):
            place = phase - self.start - k * self.dilation
            if place % self.stride == 0:
                found.append((k, place // self.stride))
        return found

    def reach(self) -> tuple[int, int]:
        """Return the nearest and the farthest window that an element's phases read."""
        found = [window for phase in range(self.stride) for _, window in self.phase(phase)]
        return min(found, default=0), max(found, default=0)


@dataclass(frozen=True, slots=True)
class Extent(Generic[N]):
    """An axis of ``size`` elements with ``count`` windows; the first begins at ``start``."""

    start: kl.StrideOf[N]
    count: kl.SizeOf[N]
    size: kl.SizeOf[N]


@dataclass(frozen=True, slots=True)
class SeenRows(Generic[N]):
    """Rows of windows; a cube has ``turns`` of the ``rows``.

    ``window``, ``stride`` and ``high`` say which rows of an operand a row of windows reads.
    """

    rows: kl.SizeOf[N]
    turns: kl.SizeOf[N]
    window: kl.SizeOf[N]
    stride: kl.SizeOf[N]
    high: Extent[N]
    wide: Extent[N]

    def inside(
        self: SeenRows[kl.Number], top: kl.Number, dilation: int
    ) -> tuple[kl.Number, kl.Number]:
        """Return the first row of a window that is not padding, and the first one beyond."""
        begin = (kl.max(-top, 0) + (dilation - 1)) // dilation
        end = (kl.max(self.high.size - top, 0) + (dilation - 1)) // dilation
        return begin, kl.min(self.window, end)


@dataclass(frozen=True, slots=True)
class GivenRows(Generic[N]):
    """Rows of ``width`` elements, and rows of ``out_width`` windows that read them.

    A cube has ``turns`` of the ``rows``.
    """

    rows: kl.SizeOf[N]
    turns: kl.SizeOf[N]
    high: Extent[N]
    width: kl.SizeOf[N]
    out_width: kl.SizeOf[N]


@kl.helper
def each_row(
    over: SeenRows[kl.Number] | GivenRows[kl.Number],
    of_plane: kl.Number,
    groups: kl.Number | None,
    body: Callable[[kl.Number, kl.Number, kl.Index, kl.Number], None],
) -> None:
    """Call ``body`` for each row of a cube: its number, its plane, and its row in the plane.

    With groups, a plane is an image and one of its groups; else its group is 0.
    """
    first = kl.cube_position(0) * over.turns
    last = kl.min(first + over.turns, over.rows)
    image, y = first // of_plane, first % of_plane
    group: kl.Index = 0
    if groups is not None:
        image, group = image // groups, image % groups
    for row in kl.range(first, last):
        body(row, image, group, y)
        y += 1
        if y == of_plane:
            y = y * 0
            if groups is None:
                image += 1
            else:
                group += 1
                if group == groups:
                    group = group * 0
                    image += 1


@kl.helper
def ask_ahead(
    x: kl.Pointer, at: kl.Number, x_row: kl.Number, rows: kl.Index, along: Along, lanes: int
) -> None:
    """Prefetch later rows; hardware does not predict alternating rows."""
    for row in kl.range(rows):
        for part in kl.range(along.stride):
            x.prefetch(at + row * x_row + part * lanes + AHEAD // x.dtype.itemsize)


@kl.helper
def masks_of(
    left: kl.Index, along: Along, lanes: int, width: kl.Index, limit: kl.Index | None = None
) -> list[list[kl.Mask]]:
    """Return the masks for ``read_taps``: which elements of a row's taps exist.

    ``limit``: the maximum of elements to read for each tap.
    """
    made = []
    for k in kl.range(along.taps):
        place = left + k * along.dilation
        end = width if limit is None else kl.min(width, place + limit)
        if along.stride <= 2:
            made.append([within(place + p * lanes, lanes, end) for p in kl.range(along.stride)])
        else:
            made.append([within(place, lanes, end, along.stride)])
    return made


def read_taps(
    x: kl.Pointer, at: kl.Number, along: Along, lanes: int, masks: list[list[kl.Mask]] | None = None
) -> Iterator[kl.Number]:
    """Yield the elements of each tap of a row from a position on, masked if there are masks."""
    pair: list[kl.Number] = []
    for k in kl.range(along.taps):
        place = at + k * along.dilation
        mask: Sequence[kl.Mask | None] = masks[k] if masks is not None else [None, None]
        if along.stride == 1:
            yield x.load(place, lanes, mask=mask[0])
        elif along.stride == 2:
            odd = along.dilation == 1 and k % 2 == 1
            if not odd:
                pair = [x.load(place + i * lanes, lanes, mask=mask[i]) for i in kl.range(2)]
            yield kl.shuffle(pair[0], tuple(kl.range(1 if odd else 0, 2 * lanes, 2)), pair[1])
        else:
            steps = kl.constant(tuple(i * along.stride for i in kl.range(lanes)), place.dtype)
            yield x.load(place + steps, mask=mask[0])


def write_phases(phases: Sequence[kl.Number], c: kl.Pointer, to: kl.Number, left: kl.Index) -> None:
    """Write the alternating phases of a row, up to ``left`` elements."""
    values = [value.to(c.dtype) for value in phases]
    span, lanes = len(values), values[0].width
    lane, end = iota(lanes), kl.splat(kl.cast(left, int32), lanes)
    if span == 1:
        c.store(to, values[0], mask=lane < end)
    elif span == 2:
        for half in kl.range(2):
            order = [lanes * (i % 2) + (half * lanes + i) // 2 for i in kl.range(lanes)]
            inside = lane + half * lanes < end
            c.store(to + half * lanes, kl.shuffle(values[0], order, values[1]), mask=inside)
    else:
        for phase in kl.range(span):
            steps = kl.constant(tuple(i * span + phase for i in kl.range(lanes)), int32)
            c.store(to + steps.to(to.dtype), values[phase], mask=steps < end)
