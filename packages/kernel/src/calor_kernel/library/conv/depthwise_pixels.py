"""Depthwise convolutions with channels last: vectors along channels, tiles along rows of pixels.

Requirements: every lane computes whatever the image size, since small images have many channels. A
tile reads each pixel once for all windows that see it. Nothing is copied: a pixel that is padding
is left out, as a whole.
"""

from __future__ import annotations

from dataclasses import replace

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest, hinted, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Grid, operand
from calor_kernel.contract.work import Input, Output
from calor_kernel.library.conv.padded_rows import effort, is_flat, three, vectors
from calor_kernel.library.conv.problem import Correlation
from calor_kernel.library.conv.row_windows import Along, Extent, SeenRows
from calor_kernel.library.conv.split_sums import ending
from calor_kernel.library.conv.vector_tiles import Strides, below, end_pixels, multiply_add
from calor_kernel.library.gemm.epilogue import After, Epilogue, Tail, writer
from calor_kernel.library.matmul.packing import pack_operand
from calor_kernel.library.matmul.problem import Operand
from calor_kernel.library.steps import Steps


@kl.kernel
def depthwise_pixels(
    x: kl.In,
    w: kl.In,
    c: kl.Out,
    channels: kl.Size,
    panels: kl.Size,
    height: kl.Size,
    over: SeenRows[kl.Number],
    x_steps: Strides[kl.Number],
    after: After | None,
    *,
    along: Along,
    dilation: int,
    span: int,
    lanes: int,
    ragged: bool,
    accumulate: DType,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute rows of pixels of the result, which has channels last, as the weights have.

    The axes of x are images, rows and pixels. A tile has ``span`` pixels. ``dilation``: that down
    an image. ``ragged``: whether the last vector of channels is partly empty.
    """
    first = kl.cube_position(0) * over.turns
    wide = over.wide
    held = None
    if epilogue is not None:
        held = kl.private(span * lanes, epilogue.dtype, align=64)
    reach = max(along.seen(span)) + 1
    for line in kl.range(first, kl.min(first + over.turns, over.rows)):
        image, y = line // height, line % height
        top = y * over.stride + over.high.start
        rows = (*over.inside(top, dilation), dilation)
        ends = writer(epilogue, after, c, image)
        x_line = x_steps.at(image, top)
        for block in kl.range(0, wide.count, span):
            # The last tile overlaps the one before where no whole tile is left.
            place = kl.min(block, wide.count - span)
            left = place * along.stride + wide.start
            for panel in kl.range(panels):
                channel = panel * lanes
                inside = below(channels - channel, lanes) if ragged else None
                acc = kl.registers((span, 1), accumulate, lanes)

                x_at, w_at = x_line + channel, panel * over.window * along.taps * lanes
                if (left >= 0) & (left + reach <= wide.size):
                    add_rows(acc, x, w, x_at, w_at, rows, left, None, x_steps, along, inside)
                else:
                    seen = wide.size
                    add_rows(acc, x, w, x_at, w_at, rows, left, seen, x_steps, along, inside)
                pixel = y * wide.count + place
                to = (image * height * wide.count + pixel) * channels + channel
                end_pixels(ends, held, acc, c, to, channels, pixel, channel, [inside])


@kl.helper
def add_rows(
    acc: kl.Registers,
    x: kl.Pointer,
    w: kl.Pointer,
    x_at: kl.Number,
    w_at: kl.Number,
    rows: tuple[kl.Number, kl.Number, int],
    left: kl.Number,
    width: kl.Number | None,
    x_steps: Strides[kl.Number],
    along: Along,
    inside: kl.Mask | None,
) -> None:
    """Add the products of the filter rows ``rows``: the first, the one behind the last, dilation.

    ``left``: the column of the first tap. ``width``: the columns that are no padding, None if all
    are none.
    """
    begin, end, dilation = rows
    span, lanes = acc.shape[0], acc.type.width
    for k in kl.range(begin, end):
        at = w_at + k * (along.taps * lanes)
        weights = [w.load(at + j * lanes, lanes) for j in kl.range(along.taps)]
        row = x_at + k * dilation * x_steps.middle
        for far, pairs in along.seen(span).items():
            column = left + far
            if width is None or (column >= 0) & (column < width):
                seen = x.load(row + column * x_steps.inner, lanes, mask=inside)
                for i, j in pairs:
                    acc[i, 0] = multiply_add(weights[j], seen.to(acc.type.dtype), acc[i, 0])


# Maxima of the pixels of a tile, and of taps along a row.
_SPAN, _TAPS = 8, 11
# Bytes of the result of a cube.
_GRAIN = 1 << 16


def depthwise_pixels_refusal(problem: Correlation, info: DeviceInfo) -> str | None:
    """Return why vectors along channels do not suit a depthwise convolution, None if they do."""
    axes = three(problem)
    _, groups, outputs = problem.leads
    _, lanes = vectors(problem, info)
    if any(a.divide != 1 or a.summed < 1 for a in axes):
        return "its windows are those of a gradient"
    if problem.depth.size != 1 or outputs.size != 1:
        return "a group has several channels"
    if problem.a.dtype.kind != "float" or lanes < 4 or lanes & (lanes - 1):
        return "the device has no vectors of its dtype"
    if not is_flat(tuple(replace(a, a=1) for a in axes)):
        return "it has three spatial axes"
    if groups.size < lanes or groups.a != 1:
        return f"it has fewer than {lanes} channels, or they are not contiguous"
    most = _TAPS if info.native.get("vector_registers", 16) < 32 else 2 * _TAPS
    if axes[2].terms > most:
        return f"its window has more than {most} taps along a row"
    high, wide = axes[1:]
    dense = wide.b == 1 and (high.b == wide.terms or high.terms == 1)
    return None if dense else "the weights of a channel are not contiguous"


def depthwise_pixels_steps(
    problem: Correlation,
    steps: Steps,
    info: DeviceInfo,
    tail: Tail | None = None,
    source: Bound | None = None,
    result: Bound | None = None,
) -> None:
    """Add the launches of a convolution that :func:`depthwise_pixels_refusal` accepts.

    ``source`` and ``result``: the memory of the images and of the result, by default the operand's
    and the output.
    """
    images, groups, _ = problem.leads
    _, high, wide = three(problem)
    accumulate, lanes = vectors(problem, info)
    panels, taps = -(-groups.size // lanes), high.terms * wide.terms
    packed = steps.memory(panels * taps * lanes * accumulate.itemsize)
    weights = Operand((0, 0), groups.b, 1, problem.b.offset, problem.b.dtype)
    pack = pack_operand(
        groups.size, taps, (1, 1), weights, lanes, lanes, 1, accumulate, Input(1), packed
    )
    steps.launches.append(replace(pack, label="conv pack", prepares=True))
    lines = images.size * high.count
    row = greatest(1, wide.count * groups.size * problem.a.dtype.itemsize)
    turns = least(greatest(1, _GRAIN // row), greatest(1, lines // info.cores))
    target, following = ending(result or Bound(Output(), problem.a.dtype), tail)
    count = hinted(wide.count)
    fit = [n for n in range(1, _SPAN + 1) if n <= wide.count]
    span = min(fit, key=lambda n: (-(-count // n) * (n + 2), -n))
    steps.add(
        depthwise_pixels,
        Grid.line(-(-lines // turns)),
        effort(problem, f"conv depthwise pixels {span}x{lanes}"),
        x=source or operand(0, problem.a),
        w=Bound(packed, accumulate),
        c=target,
        channels=groups.size,
        panels=panels,
        height=high.count,
        over=SeenRows(
            lines,
            turns,
            high.terms,
            high.result,
            Extent(high.start, high.count, high.size),
            Extent(wide.start, wide.count, wide.size),
        ),
        x_steps=Strides(images.a, high.a, wide.a),
        along=Along(wide.terms, wide.result, wide.summed),
        dilation=high.summed,
        span=span,
        lanes=lanes,
        ragged=groups.size % lanes != 0,
        accumulate=accumulate,
        **following,
    )
