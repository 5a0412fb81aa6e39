"""Depthwise convolutions, row by row.

Requirements: memory is the limit, so rows are read in place, with a stride of two as well, and
nothing is copied. Masks handle the ends of rows; the middle needs none.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import DType, int32
from calor_kernel.language import (
    cast,
    cube_position,
    fma,
    kernel,
    registers,
    splat,
)
from calor_kernel.library.conv.phase_planes import iota
from calor_kernel.library.conv.row_windows import Along, ask_ahead, masks_of, read_taps


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
    """Compute ``turns`` of the ``lines``, output rows, for ``outputs`` output channels each.

    ``taps``, ``stride``, ``start`` and ``height`` say which input rows an output row reads, with
    the ``dilation``.
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


def add_taps(acc: Any, seen: list[Any], w: Any, of: Any, w_width: Any, w_output: Any) -> None:
    """Add the products of a row's taps and their inputs."""
    wide = acc.type.dtype
    for k, value in enumerate(seen):
        value = value.to(wide)
        for r in range(len(acc)):
            weight = splat(w[of + k * w_width + r * w_output].to(wide), value.width)
            if wide.kind == "float":
                acc[r] = fma(weight, value, acc[r])
            else:
                acc[r] = acc[r] + weight * value
