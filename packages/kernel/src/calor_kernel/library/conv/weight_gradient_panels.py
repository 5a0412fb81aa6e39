"""Weight gradients by dot instructions of half types on CPUs: sums over pairs of pixels.

Requirements: an instruction adds two products a lane, and pairs of adjacent pixels lie side by side
in both operands. The result's gradient is packed to panels of output channels, whose lines are the
rows of pixels; the input is read in place, a pair for all channels of a panel, shifted by a tap. So
nothing is copied for each tap. A row of an odd number of pixels ends with a single one: a zero
beside it would make NaN of an infinite neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Final, Generic

from calor.dtypes import bfloat16, int64, uint32
from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.movement import coalesced
from calor_kernel.contract.work import Input, Output, row_major
from calor_kernel.language.declared import N
from calor_kernel.library.conv.padded_images import padded
from calor_kernel.library.conv.padded_rows import effort, lines_copied, pad, three
from calor_kernel.library.conv.problem import Axis, Correlation
from calor_kernel.library.conv.row_axes import AxisNumbers, LineAxis
from calor_kernel.library.conv.vector_tiles import below, store_transposed
from calor_kernel.library.conv.weight_gradient_rows import forward_of
from calor_kernel.library.conv.window_packing import PAIR
from calor_kernel.library.conv.window_panels import add_last
from calor_kernel.library.copying import as_bits
from calor_kernel.library.matmul.blueprints import Packed, packed
from calor_kernel.library.matmul.packed import Tile
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.steps import Steps
from calor_kernel.library.transposition import transpose

# Channels of the result, and weights of each, from which packing pays.
_FEWEST: Final = 8
# Maximum of weights of a channel that a cube computes: their sums are in memory of the unit.
_ROOM: Final = 96
# Pairs of pixels of a pass, whose panel stays in the second-level cache.
_PAIRS: Final = 512


@dataclass(frozen=True, slots=True)
class Pixels(Generic[N]):
    """Rows of pixels of all images: ``lines`` of ``pairs`` pairs, and a single pixel if odd.

    ``rows`` weights for each of ``columns`` channels of a group. ``x_group``: the stride of groups.
    """

    lines: kl.SizeOf[N]
    pairs: kl.SizeOf[N]
    rows: kl.SizeOf[N]
    columns: kl.SizeOf[N]
    x_group: kl.StrideOf[N]


@kl.kernel
def line_offsets(starts: kl.Out, sizes: tuple[kl.Size, ...], steps: tuple[kl.Stride, ...]) -> None:
    """Write where the rows of pixels begin: of images, and of two further axes."""
    at = kl.constant(0, int64)
    for i in kl.loop_range(sizes[0]):
        for d in kl.loop_range(sizes[1]):
            for h in kl.loop_range(sizes[2]):
                starts[at] = i * steps[0] + d * steps[1] + h * steps[2]
                at = at + 1


@kl.kernel
def tap_offsets(
    offsets: kl.Out,
    depth: kl.Size,
    channel: kl.Stride,
    axes: tuple[AxisNumbers[kl.Number], ...],
    *,
    strides: tuple[int, int, int],
) -> None:
    """Write what the weights of a channel read from the first pixel on: input channels, taps."""
    at = kl.constant(0, int64)
    deep, high, wide = map(LineAxis, axes, strides)
    for c in kl.loop_range(depth):
        for d in kl.loop_range(deep.of.taps):
            for h in kl.loop_range(high.of.taps):
                for w in kl.loop_range(wide.of.taps):
                    offsets[at] = c * channel + deep.at(d) + high.at(h) + wide.at(w)
                    at = at + 1


@kl.kernel
def pack_lines(
    g: kl.In,
    starts: kl.In,
    panels: kl.Out,
    columns: kl.Size,
    lines: kl.Size,
    wide: kl.Size,
    group_step: kl.Stride,
    step: kl.Stride,
    turns: kl.Size,
    *,
    width: int,
    lanes: int,
) -> None:
    """Pack ``turns`` rows of pixels from y on of panel x of channels, which are ``step`` apart.

    The pairs of a row are lines of the panel: a pair of each channel. Elements of g are bits.
    """
    panel, group = kl.cube_position(0), kl.cube_position(2)
    panel_count = (columns + (width - 1)) // width
    pairs = (wide + (PAIR - 1)) // PAIR
    first = kl.cube_position(1) * turns
    base = (group * panel_count + panel) * lines
    for v in kl.loop_range(0, width, lanes):
        column = panel * width + v
        for line in kl.loop_range(first, kl.min(first + turns, lines)):
            at = group * group_step + starts[line]
            to = (base + line) * (pairs * (width * PAIR)) + v * PAIR
            for p in kl.loop_range(0, pairs, lanes):
                inside = below(wide - p * PAIR, lanes * PAIR)
                square = []
                for i in kl.range(lanes):
                    place = kl.min(column + i, columns - 1) * step
                    taken = g.load(at + place + p * PAIR, lanes * PAIR, mask=inside)
                    word = kl.bitcast(taken, uint32)
                    zero = kl.constant(0, uint32, lanes)
                    square.append(kl.select(column + i < columns, word, zero))
                square = transpose(square)
                for i in kl.range(lanes):
                    if p + i < pairs:
                        pair = kl.bitcast(square[i], panels.dtype)
                        panels.store(to + (p + i) * (width * PAIR), pair)


@kl.kernel
def multiply_lines(
    x: kl.In,
    offsets: kl.In,
    starts: kl.In,
    panels: kl.In,
    c: kl.Out,
    of: Pixels[kl.Number],
    block: kl.Size,
    turns: kl.Size,
    *,
    plan: Packed,
    odd: bool,
) -> None:
    """Compute ``block`` weights from y on, for panel x of output channels of group z.

    ``turns`` rows of pixels are a pass.
    """
    panel, group = kl.cube_position(0), kl.cube_position(2)
    rows, lanes, width = plan.rows, plan.lanes, plan.width
    sums = kl.private((_ROOM + rows) * width, plan.accumulate, align=64)
    panel_count = (of.columns + (width - 1)) // width
    line = (of.pairs + odd) * (width * PAIR)
    right = (group * panel_count + panel) * of.lines * line
    first = kl.cube_position(1) * block
    last = kl.min(first + block, of.rows)
    tile = Tile(x, panels, [None] * plan.vectors, lanes, PAIR)
    for begin in kl.loop_range(0, kl.max(of.lines, 1), turns):
        end = kl.min(begin + turns, of.lines)
        for row in kl.loop_range(first, last, rows):
            shifts = [
                group * of.x_group + offsets[kl.min(row + r, last - 1)] for r in kl.range(rows)
            ]
            acc = kl.registers((rows, plan.vectors), plan.accumulate, lanes)
            if begin > 0:
                for r in kl.range(rows):
                    for v in kl.range(plan.vectors):
                        acc[r, v] = sums.load((row - first + r) * width + v * lanes, lanes)
            for number in kl.loop_range(begin, end):
                start = starts[number]
                at = [shift + start for shift in shifts]
                add_line(tile, acc, at, right + number * line, of.pairs, plan, odd)
            for r in kl.range(rows):
                for v in kl.range(plan.vectors):
                    sums.store((row - first + r) * width + v * lanes, acc[r, v])
    for row in kl.loop_range(first, last, lanes):
        for v in kl.loop_range(0, width, lanes):
            square = []
            for i in kl.range(lanes):
                near = kl.min(row + i, last - 1) - first
                square.append(sums.load(near * width + v, lanes))
            column = panel * width + v
            to = (group * of.columns + column) * of.rows + row
            inside = below(last - row, lanes)
            store_transposed(square, c, to, of.rows, 0, of.columns - column, inside)


@kl.helper
def add_line(
    tile: Tile,
    acc: kl.Registers,
    at: list[kl.Number],
    right: kl.Number,
    pairs: kl.Number,
    plan: Packed,
    odd: bool,
) -> None:
    """Add the products of a row of pixels: of the input from ``at`` on, and a panel's lines."""
    step = plan.width * PAIR
    main = pairs // plan.unroll * plan.unroll
    for p in kl.loop_range(0, main, plan.unroll):
        for u in kl.range(plan.unroll):
            tile.multiply(acc, at, (p + u) * PAIR, right + (p + u) * step)
    for p in kl.loop_range(main, pairs):
        tile.multiply(acc, at, p * PAIR, right + p * step)
    if odd:
        add_last(tile, acc, at, pairs * PAIR, right + pairs * step)


def weight_panels_refusal(problem: Correlation, info: DeviceInfo) -> str | None:
    """Return why dot products of pairs of pixels do not suit a weight gradient, or None.

    ``problem`` is the result of ``for_weight``.
    """
    dtype = problem.a.dtype
    if dtype is not bfloat16 or problem.b.dtype is not dtype or not info.has("dot_bfloat16"):
        return "the device has no dot products of its dtype"
    forward = forward_of(problem)
    if min(forward.leads[2].size, forward.terms) < _FEWEST:
        return f"a group has fewer than {_FEWEST} output channels, or weights of a channel"
    return None


def weight_panels_steps(problem: Correlation, steps: Steps, info: DeviceInfo) -> None:
    """Add the launches of a weight gradient that :func:`weight_panels_refusal` accepts."""
    forward = forward_of(problem)
    images, groups, outputs = forward.leads
    seen = _seen(forward, three(forward), steps, info)
    g, (g_image, g_group, g_row), rows_of_g = _gradient(forward, steps, info)
    counts = [axis.count for axis in three(forward)]
    shape, (x_steps, g_steps) = coalesced(counts, seen.steps, rows_of_g)
    if not shape or x_steps[-1] != 1 or g_steps[-1] != 1:
        shape, x_steps, g_steps = (*shape, 1), (*x_steps, 1), (*g_steps, 1)
    outer, wide = shape[:-1], shape[-1]
    more = 2 - len(outer)
    sizes = [images.size, *[1] * more, *outer]
    lines = prod(sizes)
    x_starts = _table(steps, lines, sizes, [seen.image, *[0] * more, *x_steps[:-1]])
    g_starts = _table(steps, lines, sizes, [g_image, *[0] * more, *g_steps[:-1]])
    rows = forward.terms
    pairs, odd = divmod(wide, PAIR)
    a, b = Operand((0, 0), 1, 1, 0, bfloat16), Operand((0, 0), 1, 0, 0, bfloat16)
    product = Product((1, groups.size), rows, outputs.size, lines * wide, a, b, bfloat16)
    plan = packed(product, info)
    panel_count = -(-outputs.size // plan.width)
    nbytes = groups.size * panel_count * lines * (pairs + odd) * plan.width * PAIR * 2
    panels = Bound(steps.memory(nbytes), bfloat16)
    turns = least(lines, greatest(1, 2 * _PAIRS // (pairs + odd)))
    steps.add(
        pack_lines,
        Grid((panel_count, -(-lines // turns), groups.size)),
        Effort("conv pack", nbytes=2 * nbytes),
        g=g,
        starts=g_starts,
        panels=panels,
        columns=outputs.size,
        lines=lines,
        wide=wide,
        group_step=g_group,
        step=g_row,
        turns=turns,
        width=plan.width,
        lanes=plan.lanes,
    )
    offsets = Bound(steps.memory(rows * int64.itemsize), int64)
    table = launch(
        tap_offsets,
        Grid((1, 1, 1)),
        Effort("conv offsets", nbytes=rows * int64.itemsize),
        offsets=offsets,
        depth=forward.depth.size,
        channel=seen.channel,
        axes=seen.axes,
        strides=seen.strides,
    )
    steps.launches.append(replace(table, prepares=True))
    tiles = -(-rows // plan.rows)
    share = greatest(1, tiles * panel_count * groups.size // (4 * info.cores))
    block = least(share, greatest(1, _ROOM // plan.rows)) * plan.rows
    steps.add(
        multiply_lines,
        Grid((panel_count, -(-rows // block), groups.size)),
        effort(problem, f"conv weight panels {plan.rows}x{plan.width}"),
        x=seen.memory,
        offsets=offsets,
        starts=x_starts,
        panels=panels,
        c=Bound(Output(), bfloat16),
        of=Pixels(lines, pairs, rows, outputs.size, seen.group),
        block=block,
        turns=least(lines, greatest(1, _PAIRS // (pairs + odd))),
        plan=replace(plan, pack_a=False, pack_b=True, depth=0, block_rows=0, block_panels=0),
        odd=bool(odd),
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """The input, as its taps read it: strides, the steps of output pixels, and the axes of taps."""

    memory: Bound
    image: int
    group: int
    channel: int
    steps: tuple[int, ...]
    axes: tuple[AxisNumbers[int], ...]
    strides: tuple[int, int, int]


def _seen(
    forward: Correlation, axes: tuple[Axis[int], ...], steps: Steps, info: DeviceInfo
) -> _Seen:
    """Return the input with adjacent pixels for adjacent output pixels, copied if need be."""
    wide = axes[2]
    if wide.result == 1 or wide.count == 1:
        images = padded(forward, [axes], steps, info, dense=True)
        (axes,) = images.parts
        numbers = tuple(
            AxisNumbers(a.terms, 1, 0, a.summed, a.start, 0, a.a, a.size, 0, a.count) for a in axes
        )
        moves = tuple(a.result * a.a for a in axes)
        ones = (1, 1, 1)
        memory = images.typed(bfloat16)
        return _Seen(memory, images.image, images.group, images.channel, moves, numbers, ones)
    lines = lines_copied(forward, axes, False)
    source = operand(0, as_bits(forward.a, info))
    bits = pad(forward, axes, lines, source, steps, info, dtype=source.dtype)
    strides = (axes[0].result, axes[1].result, axes[2].result)
    moves = (lines.rows * lines.length, lines.length, 1)
    at = lines.steps
    made = lines.numbers(axes).axes
    memory = replace(bits, dtype=bfloat16)
    return _Seen(memory, at.outer, at.middle, at.inner, moves, made, strides)


def _gradient(
    forward: Correlation, steps: Steps, info: DeviceInfo
) -> tuple[Bound, tuple[int, int, int], list[int]]:
    """Return the result's gradient as bits, with dense rows, its strides, and those of pixels."""
    images, groups, outputs = forward.leads
    axes, view = three(forward), as_bits(forward.b, info)
    if axes[2].b == 1 or axes[2].count == 1:
        return operand(1, view), (images.b, groups.b, outputs.b), [a.b for a in axes]
    target = steps.memory(view.size * view.dtype.itemsize)
    steps.copy(forward.b, Input(1), target, info)
    shape = (images.size, groups.size, outputs.size, *(a.count for a in axes))
    at = row_major(shape)
    return Bound(target, view.dtype), (at[0], at[1], at[2]), list(at[3:])


def _table(steps: Steps, count: int, sizes: list[int], distances: list[int]) -> Bound:
    """Return the starts of rows of pixels."""
    starts = Bound(steps.memory(count * int64.itemsize), int64)
    table = launch(
        line_offsets,
        Grid((1, 1, 1)),
        Effort("conv offsets", nbytes=count * int64.itemsize),
        starts=starts,
        sizes=sizes,
        steps=distances,
    )
    steps.launches.append(replace(table, prepares=True))
    return starts
