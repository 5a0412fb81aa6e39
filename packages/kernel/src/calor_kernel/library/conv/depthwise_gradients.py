"""Gradients of depthwise convolutions, row by row.

Requirements: as in ``depthwise``, rows are read and written in place, with strides too, and nothing
is copied. The unit that writes an element of the input gradient computes its whole sum.
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
from calor_kernel.library.conv.row_windows import (
    AHEAD,
    Along,
    Back,
    ask_ahead,
    masks_of,
    read_taps,
    write_phases,
)
from calor_kernel.library.conv.weight_gradient_rows import sums


@kernel
def weigh_rows(
    x: Any,
    g: Any,
    c: Any,
    images: Any,
    outputs: Any,
    x_outer: Any,
    x_group: Any,
    x_row: Any,
    g_outer: Any,
    g_group: Any,
    g_output: Any,
    g_row: Any,
    start: Any,
    height: Any,
    out_height: Any,
    out_width: Any,
    width_start: Any,
    width: Any,
    *,
    along: Along,
    taps: int,
    stride: int,
    dilation: int,
    lanes: int,
    accumulate: DType,
) -> None:
    """Compute the weight gradient of output channel y and its input channel x.

    ``taps``, ``stride``, ``start``, ``dilation`` and ``height`` say which input rows an output row
    reads.
    """
    group, output = cube_position(0), cube_position(1)
    acc = registers((taps, along.taps), accumulate, lanes)
    for image in range(images):
        x_at = image * x_outer + group * x_group
        g_at = image * g_outer + group * g_group + output * g_output
        for y in range(out_height):
            top = y * stride + start
            for o in range(0, out_width, lanes):
                left = o * along.stride + width_start
                there = iota(lanes) < splat(cast(out_width - o, int32), lanes)
                value = g.load(g_at + y * g_row + o, lanes, mask=there).to(accumulate)
                # For the last, partial vector of an output row only the inputs of its pixels are
                # read.
                limit = min(out_width - o, lanes) * along.stride
                masks = masks_of(left, along, lanes, width, limit)
                ask_ahead(x, x_at + top * x_row + left, x_row, stride, along, lanes)
                g.prefetch(g_at + y * g_row + o + AHEAD // g.dtype.itemsize)
                for k in range(taps):
                    row = top + k * dilation
                    if (row >= 0) & (row < height):
                        seen = read_taps(x, x_at + row * x_row + left, along, lanes, masks)
                        for j in range(along.taps):
                            other = seen[j].to(accumulate)
                            if accumulate.kind == "float":
                                acc[k, j] = fma(value, other, acc[k, j])
                            else:
                                acc[k, j] = acc[k, j] + value * other
    at = (group * outputs + output) * (taps * along.taps)
    for number, total in enumerate(sums(list(acc))):
        c[at + number] = total.to(c.dtype)


@kernel
def spread_rows(
    g: Any,
    w: Any,
    c: Any,
    lines: Any,
    turns: Any,
    groups: Any,
    g_outer: Any,
    g_group: Any,
    g_output: Any,
    g_row: Any,
    w_group: Any,
    w_output: Any,
    w_height: Any,
    w_width: Any,
    start: Any,
    height: Any,
    width: Any,
    out_height: Any,
    out_width: Any,
    *,
    back: Back,
    taps: int,
    stride: int,
    dilation: int,
    outputs: int,
    lanes: int,
    accumulate: DType,
) -> None:
    """Compute ``turns`` of the ``lines``, rows of the dense input gradient.

    ``outputs`` output channels read a row; they have ``out_height`` rows of ``out_width`` pixels.
    """
    first = cube_position(0) * turns
    last = min(first + turns, lines)
    plane, y = first // height, first % height
    image, group = plane // groups, plane % groups
    span = back.stride
    for line in range(first, last):
        at = image * g_outer + group * g_group
        for j in range(0, (width + (span - 1)) // span, lanes):
            acc = registers(span, accumulate, lanes)
            for r in range(outputs):
                for k in range(taps):
                    place = y - start - k * dilation
                    if (place >= 0) & (place % stride == 0) & (place < out_height * stride):
                        row = at + r * g_output + place // stride * g_row
                        of = group * w_group + r * w_output + k * w_height
                        add_windows(acc, g, row, j, out_width, w, of, w_width, back)
            write_phases(acc, c, line * width + j * span, width - j * span)
        y += 1
        if y == height:
            y = y * 0
            group += 1
            if group == groups:
                group = group * 0
                image += 1


def add_windows(
    acc: Any, g: Any, row: Any, j: Any, out_width: Any, w: Any, of: Any, w_width: Any, back: Back
) -> None:
    """Add an output row's part to each stride phase of the elements from ``stride * j`` on."""
    lanes, wide = acc.type.width, acc.type.dtype
    read: dict[int, Any] = {}
    for phase in range(back.stride):
        for k, further in back.phase(phase):
            if further not in read:
                place = splat(cast(j + further, int32), lanes) + iota(lanes)
                inside = (place >= 0) & (place < splat(cast(out_width, int32), lanes))
                read[further] = g.load(row + j + further, lanes, mask=inside).to(wide)
            weight = splat(w[of + k * w_width].to(wide), lanes)
            if wide.kind == "float":
                acc[phase] = fma(weight, read[further], acc[phase])
            else:
                acc[phase] = acc[phase] + weight * read[further]
