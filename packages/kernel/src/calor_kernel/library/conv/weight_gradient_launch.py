"""Launches of weight gradients by packed panels, for FMA, dot instructions or tile registers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Final

from calor.dtypes import bfloat16, float32, int64
from calor_kernel.contract.choices import greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.movement import coalesced
from calor_kernel.contract.work import Input, Output, row_major
from calor_kernel.language.tiles import TILE
from calor_kernel.library.conv.blueprints import fma_tile, pair_tile
from calor_kernel.library.conv.padded_images import padded
from calor_kernel.library.conv.padded_rows import effort, lines_copied, pad, three
from calor_kernel.library.conv.problem import Axis, Correlation
from calor_kernel.library.conv.row_axes import AxisNumbers
from calor_kernel.library.conv.small_width_launch import small_width_weight_refusal
from calor_kernel.library.conv.weight_gradient_panels import (
    ROOM,
    Pixels,
    line_offsets,
    multiply_lines,
    pack_lines,
    tap_offsets,
)
from calor_kernel.library.conv.weight_gradient_rows import forward_of
from calor_kernel.library.conv.weight_gradient_tiles import PASS, SHARE, SIDE, multiply_line_tiles
from calor_kernel.library.conv.window_packing import PAIR
from calor_kernel.library.conv.window_panels_launch import (
    TILE_RATE,
    near_floats,
    packing_refusal,
)
from calor_kernel.library.copying import as_bits
from calor_kernel.library.matmul.blueprints import packed
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.steps import Steps

# Channels of the result, and weights of each, from which packing pays.
_FEWEST: Final = 8
# Weights of a channel from which packing pays where rows are also read in place.
_SEEN: Final = 48
# Pairs of pixels of a pass, whose panel stays in the second-level cache.
_PAIRS: Final = 512


def weight_panels_refusal(problem: Correlation, info: DeviceInfo) -> str | None:
    """Return why packed panels do not suit a weight gradient, or None.

    ``problem`` is the result of ``for_weight``.
    """
    dtype = problem.a.dtype
    reason = packing_refusal(dtype, info)
    if reason is not None or problem.b.dtype is not dtype:
        return reason or "its operands have two dtypes"
    forward = forward_of(problem)
    if min(forward.leads[2].size, forward.terms) < _FEWEST:
        return f"a group has fewer than {_FEWEST} output channels, or weights of a channel"
    if dtype is float32 and info.has("masked_access"):
        if small_width_weight_refusal(forward, info) is None:
            return "tiles of narrow images read them in place"
        if forward.terms < _SEEN:
            return f"rows in place suit fewer than {_SEEN} weights of a channel"
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
    offsets = _taps(seen, rows, forward.depth.size, steps)
    dtype = problem.a.dtype
    together = PAIR if dtype is bfloat16 else 1
    tiles = together > 1 and _by_tiles(rows, outputs.size, info)
    a, b = Operand((0, 0), 1, 1, 0, dtype), Operand((0, 0), 1, 0, 0, dtype)
    product = Product((1, groups.size), rows, outputs.size, lines * wide, a, b, dtype)
    plan = packed(product, info)
    choose = pair_tile if together > 1 else fma_tile
    high, vectors = choose(rows, outputs.size, plan.lanes, info)
    plan = replace(plan, rows=high, vectors=vectors)
    width = SIDE if tiles else plan.width
    count = -(-outputs.size // width)
    if tiles:
        line, turns, room = _passes(wide, lines)
    else:
        most = _PAIRS if together > 1 else near_floats(info) // width
        line, turns, room = _lines(wide, lines, together, most)
    of = Pixels(lines, wide, line, room, rows, outputs.size, seen.group)
    nbytes = groups.size * count * room * line * width * together * dtype.itemsize
    panels = Bound(steps.memory(nbytes), dtype)
    many = least(room, greatest(1, 2 * _PAIRS // line))
    steps.add(
        pack_lines,
        Grid((count, -(-room // many), groups.size)),
        Effort("conv pack", nbytes=2 * nbytes),
        g=g,
        starts=g_starts,
        panels=panels,
        of=of,
        group_step=g_group,
        step=g_row,
        turns=many,
        width=width,
        lanes=plan.lanes,
        together=together,
    )
    given: dict[str, object] = {"x": seen.memory, "offsets": offsets, "starts": x_starts}
    given |= {"panels": panels, "c": Bound(Output(), dtype), "of": of, "turns": turns}
    if tiles:
        high = -(-rows // SIDE)
        share = least(count, SHARE, greatest(1, high * count * groups.size // (4 * info.cores)))
        steps.add(
            multiply_line_tiles,
            Grid((-(-count // share), high, groups.size)),
            effort(problem, "conv weight tiles"),
            **given,
            share=share,
            lanes=plan.lanes,
        )
        return
    share = greatest(1, -(-rows // plan.rows) * count * groups.size // (4 * info.cores))
    block = least(share, greatest(1, ROOM // plan.rows)) * plan.rows
    steps.add(
        multiply_lines,
        Grid((count, -(-rows // block), groups.size)),
        effort(problem, f"conv weight panels {plan.rows}x{plan.width}"),
        **given,
        block=block,
        plan=replace(plan, pack_a=False, pack_b=True, depth=0, block_rows=0, block_panels=0),
        together=together,
        odd=wide % together > 0,
    )


def _by_tiles(rows: int, columns: int, info: DeviceInfo) -> bool:
    """Return whether tile registers compute a gradient sooner than dot instructions."""
    if not info.has("tile_bfloat16"):
        return False
    whole = -(-rows // SIDE) * SIDE * -(-columns // SIDE) * SIDE
    return whole <= TILE_RATE * rows * columns


def _lines(wide: int, lines: int, together: int, most: int) -> tuple[int, int, int]:
    """Return the groups of a line of panels, the lines of a pass, and the lines of a panel.

    ``most``: the groups of a pass, if a line has fewer.
    """
    line = -(-wide // together)
    return line, least(lines, greatest(1, most // line)), lines


def _passes(wide: int, lines: int) -> tuple[int, int, int]:
    """Return the pairs of a line of panels, the lines of a pass, and the lines of a panel.

    All passes are whole steps of tiles. Lines are filled up only as far as the fewest lines of a
    whole step would be too long for a pass otherwise.
    """
    pairs, unit = -(-wide // PAIR), 1
    while unit < TILE:
        line = -(-pairs // unit) * unit
        fewest = TILE // gcd(TILE, line)
        if fewest * line * PAIR <= PASS:
            turns = PASS // PAIR // (fewest * line) * fewest
            return line, turns, -(-lines // fewest) * fewest
        unit *= 2
    line = -(-pairs // TILE) * TILE
    return line, greatest(1, PASS // PAIR // line), lines


def _taps(seen: _Seen, rows: int, depth: int, steps: Steps) -> Bound:
    """Return what the weights of a channel read from the first pixel on."""
    offsets = Bound(steps.memory(rows * int64.itemsize), int64)
    table = launch(
        tap_offsets,
        Grid((1, 1, 1)),
        Effort("conv offsets", nbytes=rows * int64.itemsize),
        offsets=offsets,
        depth=depth,
        channel=seen.channel,
        axes=seen.axes,
        strides=seen.strides,
    )
    steps.launches.append(replace(table, prepares=True))
    return offsets


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
        memory = images.typed(forward.a.dtype)
        return _Seen(memory, images.image, images.group, images.channel, moves, numbers, ones)
    lines = lines_copied(forward, axes, False)
    source = operand(0, as_bits(forward.a, info))
    bits = pad(forward, axes, lines, source, steps, info, dtype=source.dtype)
    strides = (axes[0].result, axes[1].result, axes[2].result)
    moves = (lines.rows * lines.length, lines.length, 1)
    at = lines.steps
    made = lines.numbers(axes).axes
    memory = replace(bits, dtype=forward.a.dtype)
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
