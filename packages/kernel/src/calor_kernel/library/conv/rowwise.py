"""Convolutions of single channels, row by row: the body for depthwise convolutions.

Requirements: memory is the limit, so rows are read where they lie, also at stride two, and nothing
is copied; the ends of rows are told by masks, and the middle needs none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType, int32
from calor_kernel.language import (
    cast,
    constant,
    cube_position,
    fma,
    helper,
    kernel,
    registers,
    shuffle,
    splat,
)
from calor_kernel.library.conv.planes import iota

# Bytes between what is read and what is asked for ahead of time.
AHEAD = 1 << 14


@dataclass(frozen=True, slots=True)
class Along:
    """Taps along a row, as the build knows them: their number, stride and dilation."""

    taps: int
    stride: int
    dilation: int

    def spread(self, lanes: int) -> int:
        """Return how many elements a vector of places sees, or reads beside."""
        return lanes * self.stride + (self.taps - 1) * self.dilation


@kernel
def convolve_rows(
    x: Any,
    w: Any,
    c: Any,
    lines: Any,
    turns: Any,
    groups: Any,
    x_outer: Any,
    x_group: Any,
    x_row: Any,
    w_group: Any,
    w_output: Any,
    w_height: Any,
    w_width: Any,
    c_outer: Any,
    c_group: Any,
    c_output: Any,
    c_row: Any,
    taps: Any,
    stride: Any,
    start: Any,
    height: Any,
    out_height: Any,
    out_width: Any,
    width_start: Any,
    width: Any,
    *,
    along: Along,
    dilation: int,
    outputs: int,
    lanes: int,
    accumulate: DType,
) -> None:
    """Compute ``turns`` of the ``lines``, rows of the result, ``outputs`` channels of it each.

    ``taps``, ``stride``, ``start`` and ``height`` say which rows of the input a row of the result
    sees, with the ``dilation``.
    """
    first = cube_position(0) * turns
    last = min(first + turns, lines)
    plane, y = first // out_height, first % out_height
    image, group = plane // groups, plane % groups
    for _ in range(first, last):
        top = y * stride + start
        begin = (max(-top, 0) + (dilation - 1)) // dilation
        end = min(taps, (max(height - top, 0) + (dilation - 1)) // dilation)
        at = image * x_outer + group * x_group + top * x_row
        of = group * w_group
        to = image * c_outer + group * c_group + y * c_row
        for o in range(0, out_width, lanes):
            left = o * along.stride + width_start
            acc = registers(outputs, accumulate, lanes)
            ask_ahead(x, at + left, x_row, stride, along, lanes)
            middle = (left >= 0) and (left + along.spread(lanes) <= width)
            if middle:
                for k in range(begin, end):
                    row = at + k * dilation * x_row
                    seen = read_taps(x, row + left, along, lanes, None)
                    add_taps(acc, seen, w, of + k * w_height, w_width, w_output)
            else:
                masks = masks_of(left, along, lanes, width)
                for k in range(begin, end):
                    row = at + k * dilation * x_row
                    seen = read_taps(x, row + left, along, lanes, masks)
                    add_taps(acc, seen, w, of + k * w_height, w_width, w_output)
            inside = iota(lanes) < splat(cast(out_width - o, int32), lanes)
            for r in range(outputs):
                c.store(to + r * c_output + o, acc[r].to(c.dtype), mask=inside)
        y += 1
        if y == out_height:
            y = y * 0
            group += 1
            if group == groups:
                group = group * 0
                image += 1


@helper
def ask_ahead(x: Any, at: Any, x_row: Any, rows: Any, along: Along, lanes: int) -> None:
    """Ask for what is read some rows later; rows in turn are no stream that processors foresee."""
    for row in range(rows):
        for part in range(along.stride):
            x.prefetch(at + row * x_row + part * lanes + AHEAD // x.dtype.itemsize)


def add_taps(acc: Any, seen: list[Any], w: Any, of: Any, w_width: Any, w_output: Any) -> None:
    """Add what the taps of a row see, weighted."""
    wide = acc.type.dtype
    for k, value in enumerate(seen):
        value = value.to(wide)
        for r in range(len(acc)):
            weight = splat(w[of + k * w_width + r * w_output].to(wide), value.width)
            if wide.kind == "float":
                acc[r] = fma(weight, value, acc[r])
            else:
                acc[r] = acc[r] + weight * value


@helper
def masks_of(left: Any, along: Along, lanes: int, width: Any, limit: Any = None) -> list[list[Any]]:
    """Return which elements that the taps of a row read are there: masks for ``read_taps``.

    ``limit``: how many elements are read of each tap at most.
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


def _between(first: Any, step: int, lanes: int, end: Any) -> Any:
    place = splat(cast(first, int32), lanes) + constant(
        tuple(i * step for i in range(lanes)), int32
    )
    return (place >= 0) & (place < splat(cast(end, int32), lanes))


def read_taps(
    x: Any, at: Any, along: Along, lanes: int, masks: list[list[Any]] | None
) -> list[Any]:
    """Return what each tap of a row sees from an element on; masked where masks are given."""
    seen: list[Any] = []
    pair: list[Any] = []
    for k in range(along.taps):
        place = at + k * along.dilation
        mask = masks[k] if masks is not None else [None, None]
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
