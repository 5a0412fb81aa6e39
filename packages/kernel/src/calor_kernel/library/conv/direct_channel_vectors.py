"""Direct convolutions with vectors along output channels, for small images and strides.

Requirements: every computed pixel is needed, whatever the image size. Each input element is
broadcast, at any stride, so only padding needs a copy. Weights are packed to panels, once for
constant weights (the roles of Zhang, Franchetti and Low, "High performance zero-memory overhead
direct convolutions", 2018). Tiles are transposed in registers, because the result has channels
first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Generic

from calor.dtypes import DType, bool_, float32, int64
from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Grid
from calor_kernel.contract.work import Input, Output
from calor_kernel.language.declared import N
from calor_kernel.library.conv.blueprints import across_tile
from calor_kernel.library.conv.padded_rows import (
    Placement,
    adjacent,
    effort,
    three,
    vectors,
)
from calor_kernel.library.conv.pixel_lines import (
    dense_pixels,
    in_few_lines,
    of_single_pixels,
    with_dense_pixels,
    within_padding,
)
from calor_kernel.library.conv.problem import Correlation
from calor_kernel.library.conv.split_sums import ending
from calor_kernel.library.conv.vector_tiles import (
    Strides,
    add_products,
    below,
    end_pixels,
    end_transposed,
    store_transposed,
    unrolled,
)
from calor_kernel.library.gemm.epilogue import After, Epilogue, Tail, writer
from calor_kernel.library.matmul.packing import pack_operand
from calor_kernel.library.matmul.problem import Operand
from calor_kernel.library.steps import Steps


@dataclass(frozen=True, slots=True)
class TapAxis(Generic[N]):
    """An axis of ``taps``; their input pixels are ``tap`` elements apart."""

    taps: kl.SizeOf[N]
    tap: kl.StrideOf[N]


@kl.kernel
def channel_vectors(
    x: kl.In,
    w: kl.In,
    c: kl.Out,
    outputs: kl.Size,
    channels: kl.Size,
    groups: kl.Size,
    panels: kl.Size,
    x_steps: Strides[kl.Number],
    c_steps: Strides[kl.Number],
    height: kl.Size,
    width: kl.Size,
    lines: kl.Size,
    line_steps: tuple[kl.Stride, ...],
    c_plane: kl.Stride,
    c_pixel: kl.Stride,
    axes: tuple[TapAxis[kl.Number], ...],
    block_panels: kl.Size,
    block_lines: kl.Size,
    after: After | None,
    *,
    rows: int,
    vectors: int,
    lanes: int,
    accumulate: DType,
    room: int,
    step: int,
    by_image: bool,
    last: bool,
    ahead: int = 0,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute a block of the result: panels of channels from x, lines from y.

    A line is a row of ``width`` output pixels; a tile has ``rows`` of them by ``vectors`` vectors
    of channels. z counts images and groups. Planes and rows of input pixels are ``line_steps``
    apart, pixels ``step``, and planes of the result ``c_plane``. ``by_image``: whether the planes
    are images, and z counts groups alone. ``axes``: depth, height and width. ``room``: the taps
    that memory holds (1 for a window of one tap). ``last``: whether the result has channels last,
    and pixels ``c_pixel`` apart; it has one group then. ``ahead``: the lines of the next panel that
    each term of a tile prefetches, until all of the panel is.
    """
    image = kl.cube_position(2)
    outer, group = image // groups, image % groups
    deep, high, wide = axes
    taps = deep.taps * high.taps * wide.taps
    span = vectors * lanes
    line_size = _LINE // accumulate.itemsize
    at = kl.private(room, int64) if room > 1 else None
    if at is not None:
        tap = 0
        for kd in kl.range(deep.taps):
            for kh in kl.range(high.taps):
                for kw in kl.range(wide.taps):
                    at[tap] = kd * deep.tap + kh * high.tap + kw * wide.tap
                    tap += 1
    x_start, c_start = x_steps.at(outer, group), c_steps.at(outer, group)
    inside = (
        kl.constant(tuple(lane < rows for lane in kl.range(lanes)), bool_) if rows < lanes else None
    )

    def add(acc: kl.Registers, x_at: kl.Number, w_at: kl.Number) -> None:
        """Add the products of one term to a tile of sums."""
        columns = [w.load(w_at + v * lanes, lanes) for v in kl.range(vectors)]
        add_products(acc, (x[x_at + r * step] for r in kl.range(rows)), columns)

    def add_and_ask(
        acc: kl.Registers, x_at: kl.Number, w_at: kl.Number, next_at: kl.Number
    ) -> None:
        """Add the products of one term, and prefetch lines of the next panel."""
        for part in kl.range(ahead):
            w.prefetch(next_at + part * line_size, locality=2)
        add(acc, x_at, w_at)

    def add_terms(acc: kl.Registers, x_at: kl.Number, w_at: kl.Number, next_at: kl.Number) -> None:
        """Add the products of all terms to a tile of sums."""
        if at is None:
            unrolled(
                channels,
                2,
                lambda k: add_and_ask(
                    acc,
                    x_at + k * x_steps.inner,
                    w_at + k * span,
                    next_at + k * (ahead * line_size),
                ),
            )
        else:
            for channel in kl.range(channels):
                x_channel = x_at + channel * x_steps.inner
                for k in kl.range(taps):
                    add(acc, x_channel + at[k], w_at + k * span)
                w_at += taps * span

    square_size = rows * vectors * lanes if last else lanes * lanes
    held = None if epilogue is None else kl.private(square_size, epilogue.dtype, align=64)
    first_panel = kl.cube_position(0) * block_panels
    first_line = kl.cube_position(1) * block_lines
    last_line = kl.min(first_line + block_lines, lines)
    panel_size = channels * taps * span
    for panel in kl.range(first_panel, kl.min(first_panel + block_panels, panels)):
        w_start = (group * panels + panel) * panel_size
        asked = w_start + panel_size
        for line in kl.range(first_line, last_line):
            plane, row = line // height, line % height
            x_line = x_start + plane * line_steps[0] + row * line_steps[1]
            c_line = c_start + plane * c_plane + row * width * c_pixel
            ends = writer(epilogue, after, c, plane if by_image else outer)
            for place in kl.range(0, width, rows):
                # The last tile overlaps the one before where no whole tile is left.
                first = kl.min(place, width - rows)
                acc = kl.registers((rows, vectors), accumulate, lanes)
                # What is asked for twice is near, and costs little.
                next_at = kl.select(asked < w_start + 2 * panel_size, asked, w_start)
                add_terms(acc, x_line + first * step, w_start, next_at)
                asked += channels * (ahead * line_size)
                to = c_line + first * c_pixel
                if last:
                    pixel = (row if by_image else line) * width + first
                    output = panel * span
                    inside_of = [
                        below(outputs - output - v * lanes, lanes) for v in kl.range(vectors)
                    ]
                    end_pixels(ends, held, acc, c, to + output, c_pixel, pixel, output, inside_of)
                for v in kl.range(0 if last else vectors):
                    square = [acc[kl.min(r, rows - 1), v] for r in kl.range(lanes)]
                    output = panel * span + v * lanes
                    if ends is not None and held is not None:
                        of = (to, c_steps.inner)
                        pixel = (row if by_image else line) * width + first
                        numbers = (output, outputs, group * outputs)
                        end_transposed(ends, held, square, of, numbers, pixel, inside)
                    else:
                        store_transposed(square, c, to, c_steps.inner, output, outputs, inside)


# Bytes of a line of the caches.
_LINE = 64
# Maximum of the input stride that a kernel is built for, and of taps in a unit's list.
_STEPS, _TAPS = 4, 512
# With fewer output channels or pixels in a row, tiles would be partly empty.
_CHANNELS, _PLACES = 32, 4


def last_refusal(problem: Correlation, info: DeviceInfo) -> str | None:
    """Return why a convolution is not computed with channels last, None if it may be."""
    _, groups, outputs = problem.leads
    _, lanes = vectors(problem, info)
    if problem.a.dtype is not float32 or len(problem.axes) != 2:
        return "its dtype is not float32, or it has not two spatial axes"
    if groups.size != 1:
        return "it has groups"
    if outputs.size < lanes:
        return f"it has fewer than {lanes} output channels"
    return _refusal(problem, info)


def channel_vectors_refusal(problem: Correlation, info: DeviceInfo) -> str | None:
    """Return why vectors along output channels do not suit a convolution, None if they do."""
    if problem.leads[2].size < _CHANNELS:
        return f"it has fewer than {_CHANNELS} output channels"
    single = of_single_pixels(problem)
    if single is not None:
        return _refusal(single, info)
    seen = in_few_lines(dense_pixels(problem) or problem)
    if three(seen)[2].count < _PLACES:
        return f"an output row has fewer than {_PLACES} pixels"
    return _refusal(problem, info)


def _refusal(problem: Correlation, info: DeviceInfo) -> str | None:
    if any(a.divide != 1 or a.summed < 1 for a in problem.axes):
        return "its windows are those of a gradient"
    problem = in_few_lines(dense_pixels(problem) or problem)
    axes = three(problem)
    wide, taps = axes[2], prod(a.terms for a in axes)
    _, lanes = vectors(problem, info)
    if lanes < 4 or lanes & (lanes - 1):
        return f"the device has no vectors of {problem.a.dtype} for it"
    if wide.result > _STEPS:
        return f"its stride is more than {_STEPS}"
    if taps > _TAPS:
        return f"its window has more than {_TAPS} taps"
    return None if adjacent(axes, problem.depth) else "the weights of a channel are not contiguous"


def channel_vectors_steps(
    problem: Correlation,
    steps: Steps,
    info: DeviceInfo,
    tail: Tail | None = None,
    last: bool = False,
) -> None:
    """Add the launches of a convolution that :func:`channel_vectors_refusal` accepts.

    ``last``: whether the result has channels last.
    """
    single = of_single_pixels(problem)
    if single is not None:
        problem, last = single, True
        tail = None if tail is None else tail.of_batches()
    problem, source = with_dense_pixels(problem, steps, info)
    problem = in_few_lines(problem)
    axes = three(problem)
    images, groups, rows = problem.leads
    deep, high, wide = axes
    taps, planes, together = prod(a.terms for a in axes), deep.count, images.size * groups.size
    # Images take turns within a cube, which reads the weights once.
    by_image = deep.count == 1
    if by_image:
        planes, together = images.size, groups.size
    lines = planes * high.count
    accumulate, lanes = vectors(problem, info)
    p = across_tile(wide.count, rows.size, problem.terms, lines, together, lanes, info, last)
    seen = within_padding(problem, steps, info, source)
    width = p.vectors * lanes
    panels = -(-rows.size // width)
    packed = steps.memory(groups.size * panels * width * problem.terms * accumulate.itemsize)
    weights = Operand((0, groups.b), rows.b, 1, problem.b.offset, problem.b.dtype)
    pack = pack_operand(
        rows.size, problem.terms, (1, groups.size), weights, width, lanes, 1, accumulate,
        Input(1), packed,
    )  # fmt: skip
    steps.launches.append(replace(pack, label="conv pack", prepares=True))
    target, following = ending(Bound(Output(), problem.a.dtype), tail)
    tiles = p.block_lines * -(-wide.count // p.rows)
    of_result = Strides(*Placement.dense(problem).leads)
    c_pixel = rows.size if last else 1
    steps.add(
        channel_vectors,
        Grid(
            (
                -(-panels // p.block_panels),
                -(-lines // p.block_lines),
                together,
            )
        ),
        effort(problem, f"conv channel vectors {p.rows}x{width}"),
        x=seen.memory,
        w=Bound(packed, accumulate),
        c=target,
        outputs=rows.size,
        channels=problem.depth.size,
        groups=groups.size,
        panels=panels,
        x_steps=seen.steps,
        c_steps=of_result,
        height=high.count,
        width=wide.count,
        lines=lines,
        line_steps=(
            seen.steps.outer if by_image else deep.result * seen.strides[0],
            high.result * seen.strides[1],
        ),
        c_plane=of_result.outer if by_image else high.count * wide.count * c_pixel,
        c_pixel=c_pixel,
        axes=[TapAxis(a.terms, a.summed * s) for a, s in zip(axes, seen.strides, strict=True)],
        block_panels=p.block_panels,
        block_lines=p.block_lines,
        rows=p.rows,
        vectors=p.vectors,
        lanes=lanes,
        accumulate=accumulate,
        room=1 if taps == 1 else max(16, 1 << (taps - 1).bit_length()),
        step=wide.result * seen.strides[2],
        by_image=by_image,
        last=last,
        ahead=_lines_ahead(tiles, width * accumulate.itemsize // _LINE) if taps == 1 else 0,
        **following,
    )


def _lines_ahead(tiles: int, lines: int) -> int:
    """Return how many of a term's lines each tile of a panel prefetches, for all of them.

    >>> [_lines_ahead(tiles, 3) for tiles in (1, 2, 3, 50)]
    [3, 2, 1, 1]
    """
    return next((n for n in range(1, lines) if exceeds(tiles * n, lines - 1)), lines)
