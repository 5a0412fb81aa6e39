"""Windows along dense rows: reads of their taps, and writes of alternating phases.

Requirements: a stride of two costs a shuffle and no copy. Masks for the ends of rows are made once
for all rows of a window. Memory is prefetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calor.dtypes import int32
from calor_kernel.language import (
    Index,
    Mask,
    Number,
    Pointer,
    Registers,
    cast,
    constant,
    helper,
    min,
    range,
    shuffle,
    splat,
)
from calor_kernel.library.conv.phase_planes import iota

# Bytes from a read to its prefetch.
AHEAD = 1 << 14


@dataclass(frozen=True, slots=True)
class Along:
    """Taps along a row, known at build time: their number, stride and dilation."""

    taps: int
    stride: int
    dilation: int

    def spread(self, lanes: int) -> int:
        """Return how many elements the window of a vector of pixels spans."""
        return lanes * self.stride + (self.taps - 1) * self.dilation


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


@helper
def ask_ahead(x: Pointer, at: Number, x_row: Number, rows: Index, along: Along, lanes: int) -> None:
    """Prefetch later rows; hardware does not predict alternating rows."""
    for row in range(rows):
        for part in range(along.stride):
            x.prefetch(at + row * x_row + part * lanes + AHEAD // x.dtype.itemsize)


@helper
def masks_of(
    left: Index, along: Along, lanes: int, width: Index, limit: Index | None = None
) -> list[list[Mask]]:
    """Return the masks for ``read_taps``: which elements of a row's taps exist.

    ``limit``: the maximum of elements to read for each tap.
    """
    made = []
    for k in range(along.taps):
        place = left + k * along.dilation
        end = width if limit is None else min(width, place + limit)
        if along.stride <= 2:
            firsts = [place + part * lanes for part in range(along.stride)]
            made.append([_between(first, 1, lanes, end) for first in firsts])
        else:
            made.append([_between(place, along.stride, lanes, end)])
    return made


def _between(first: Index, step: int, lanes: int, end: Index) -> Mask:
    place = splat(cast(first, int32), lanes) + constant(
        tuple(i * step for i in range(lanes)), int32
    )
    return (place >= 0) & (place < splat(cast(end, int32), lanes))


def read_taps(
    x: Pointer, at: Number, along: Along, lanes: int, masks: list[list[Mask]] | None
) -> list[Number]:
    """Return the elements of each tap of a row from a position on, masked if there are masks."""
    seen: list[Number] = []
    pair: list[Number] = []
    for k in range(along.taps):
        place = at + k * along.dilation
        mask: Sequence[Mask | None] = masks[k] if masks is not None else [None, None]
        if along.stride == 1:
            seen.append(x.load(place, lanes, mask=mask[0]))
        elif along.stride == 2:
            odd = along.dilation == 1 and k % 2 == 1
            if not odd:
                pair = [x.load(place + i * lanes, lanes, mask=mask[i]) for i in range(2)]
            order = tuple(range(1 if odd else 0, 2 * lanes, 2))
            seen.append(shuffle(pair[0], order, pair[1]))
        else:
            steps = constant(tuple(i * along.stride for i in range(lanes)), place.dtype)
            seen.append(x.load(place + steps, mask=mask[0]))
    return seen


@helper
def write_phases(acc: Registers, c: Pointer, to: Number, left: Index) -> None:
    """Write the alternating phases of a row, up to ``left`` elements."""
    lanes, span = acc.type.width, len(acc)
    lane, end = iota(lanes), splat(cast(left, int32), lanes)
    values = [value.to(c.dtype) for value in acc]
    if span == 1:
        c.store(to, values[0], mask=lane < end)
    elif span == 2:
        for half in range(2):
            order = [lanes * (i % 2) + (half * lanes + i) // 2 for i in range(lanes)]
            inside = lane + half * lanes < end
            c.store(to + half * lanes, shuffle(values[0], order, values[1]), mask=inside)
    else:
        for phase in range(span):
            steps = constant(tuple(i * span + phase for i in range(lanes)), int32)
            c.store(to + steps.to(to.dtype), values[phase], mask=steps < end)
