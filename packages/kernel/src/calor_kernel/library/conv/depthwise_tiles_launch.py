"""Launches of depthwise tiles: which problems they suit, and the choice of tiles and parts.

Requirements: a tile is large enough that its border is a small share of it, and small enough that
several cubes share a core, and that all cores have work. Where channels are adjacent, a cube has as
many of them as make a memory transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd, prod

from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest, hinted
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, operand
from calor_kernel.contract.work import Output, Request, View, Work, row_major
from calor_kernel.library.conv.depthwise_tiles import (
    Share,
    Span,
    Tile,
    depthwise_tiles,
    depthwise_weight_tiles,
)
from calor_kernel.library.conv.direct_blocks import Block, Line
from calor_kernel.library.conv.direct_blocks_launch import block_of, reach
from calor_kernel.library.conv.implicit_gemm_operands import ACCESS, two_axes
from calor_kernel.library.conv.problem import Axis, Convolution, Correlation, accumulator
from calor_kernel.library.conv.split_sums import ending, launch_parts, parts_of
from calor_kernel.library.conv.vector_tiles import Strides
from calor_kernel.library.steps import Steps

# Units of a cube at most, and cubes of a core.
_UNITS, _TOGETHER = 256, 2
# Maxima: taps of a window and stride phases of a block, which are unrolled; rows of a block.
_TAPS, _PHASES, _ROWS = 63, 16, 14
# Taps of a window along one axis from which a unit has several outputs of a line, at most so many.
_WINDOW, _LINE = 5, 5
# Bytes of shared memory of a cube at most, and of a memory transaction.
_BYTES, _TRANSACTION = 40960, 32
# What a unit does beside its products: for a staged value, and for a block.
_STAGED, _FIXED = 6, 64
# Cubes of a core for a weight gradient.
_CUBES = 4


def depthwise_tiles_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a problem is not computed from staged tiles, None if it is."""
    p, info = one.seen, one.info
    if len(p.axes) > 2:
        return "it has more than two spatial axes"
    groups, outputs, _ = (p.leads[role] for role in p.roles)
    inputs = p.leads[2] if p.by_weight else p.depth
    if groups.size == 1 or outputs.size != 1 or inputs.size != 1:
        return "it is not depthwise"
    if info.max_units < _UNITS or not info.has("barrier"):
        return f"cubes have no {_UNITS} units that meet"
    words = max(accumulator(p.a.dtype).itemsize // 4, 1)
    taps = prod(axis.count if p.by_weight else axis.terms for axis in p.axes)
    if taps * words > _TAPS or prod(axis.divide for axis in p.axes) > _PHASES:
        return f"its window has more than {_TAPS} taps, or its stride {_PHASES} phases"
    if next(_fitting(p, info), None) is None:
        return "no tile fits shared memory"
    return None


def depthwise_tiles_works(one: Convolution, request: Request) -> list[Work]:
    """Return the work of a problem that :func:`depthwise_tiles_refusal` accepts."""
    steps, fitting = Steps(), _fitting(one.seen, one.info)
    plan = min(fitting, key=lambda found: found[0])[1]
    (_weights if one.seen.by_weight else _pixels)(one, plan, steps)
    return [steps.work()]


@dataclass(frozen=True, slots=True)
class _Tiles:
    """The tiles of a launch: blocks, the tile of x, that of a weight gradient's g, and shares."""

    axes: tuple[Axis[int], Axis[int]]
    blocks: tuple[Block, Block]
    tile: Tile
    given: Tile
    share: Share
    units: int

    @property
    def counts(self) -> list[int]:
        """The tiles of an image down and across."""
        wanted = zip(self.axes, self.blocks, (self.share.down, self.share.across), strict=True)
        return [-(-axis.count // (block.outputs * blocks)) for axis, block, blocks in wanted]


def oriented(p: Correlation) -> tuple[Axis[int], Axis[int]]:
    """Return the axes of outputs; for a weight gradient, pixels of g; taps are summed.

    Of a line with a long window a unit has several outputs, which share weights and inputs.
    """
    down, across = two_axes(p)
    if not p.by_weight:
        return (across, down) if _is_line(down, across) else (down, across)
    turned = [
        Axis(a.terms, a.count, a.summed, a.result, a.start, 1, a.size, a.a, a.b)
        for a in (down, across)
    ]
    return turned[0], turned[1]


def _is_line(down: Axis[int], across: Axis[int]) -> bool:
    """Return whether outputs are a line, of dense inputs that a long window reads."""
    single = down.count == down.size == down.terms == 1
    return single and across.divide == across.a == 1 and across.terms >= _WINDOW


def _adjacent_channels(channel: int, axis: Axis[int], step: int) -> bool:
    """Return whether channels lie nearer than columns."""
    return abs(channel) < abs(step) or axis.size == 1


def _fitting(p: Correlation, info: DeviceInfo) -> Iterator[tuple[float, _Tiles]]:
    """Yield the tiles that fit, with their estimated time."""
    axes = oriented(p)
    images, groups = (p.depth, p.leads[0]) if p.by_weight else (p.leads[0], p.leads[1])
    line = not p.by_weight and _is_line(axes[1], axes[0])
    along = axes[0] if line else axes[1]
    last = _adjacent_channels(groups.a, along, along.a)
    of_g = p.by_weight and _adjacent_channels(groups.b, axes[1], axes[1].b)
    wide_x = wide_of(p.a, (groups.size, groups.a), [images.a, *(axis.a for axis in axes)])
    wide_g = 1
    if p.by_weight:
        wide_g = wide_of(p.b, (groups.size, groups.b), [images.b, *(axis.b for axis in p.axes)])
    most = max(wide_x, wide_g)
    whole = _TRANSACTION // p.a.dtype.itemsize if last or of_g else 1
    wide, size = axes[1].divide, accumulator(p.a.dtype).itemsize
    counts = [hinted(axis.count) for axis in axes]
    across = block_of(axes[1], wide)
    columns_read, columns_made = Span.of(across), Span.outputs(across)
    # Units whose lines begin an odd distance apart meet all banks of shared memory.
    rows = range(1, _LINE + 1, 2) if line else range(1, max(_ROWS // axes[0].divide, 1) + 1)
    for n in rows:
        down = block_of(axes[0], n * axes[0].divide)
        blocks = -(-counts[0] // down.outputs), -(-counts[1] // across.outputs)
        if n > 1 and (n - 1) * axes[0].divide >= counts[0]:
            break
        rows_read, rows_made = Span.of(down), Span.outputs(down)
        reads = len(down.pairs()) * len(across.pairs())
        products = down.taps * across.taps * down.outputs * across.outputs
        products //= axes[0].divide * axes[1].divide
        weights = 2 * down.taps * across.taps if not p.by_weight else down.outputs
        for columns in shares_of(blocks[1]):
            for high in shares_of(blocks[0]):
                each = high * columns
                if each > _UNITS:
                    continue
                channels = min(max(_UNITS // each, 1), hinted(groups.size))
                # Accesses are whole, and the last tile has about as many channels as the others.
                channels -= channels % most if channels > most else 0
                tile = Tile(
                    channels,
                    *(rows_read.along(high), columns_read.along(columns)),
                    gcd(wide_x, channels),
                )
                given = Tile(
                    channels,
                    *(rows_made.along(high), columns_made.along(columns)),
                    gcd(wide_g, channels),
                )
                units = -(-each * channels // 32) * 32
                held = tile.size + (given.size + units * axes[1].terms if p.by_weight else 0)
                # A core of one cube waits for what the cube stages.
                if held * size > min(_BYTES, info.shared_of(2)):
                    continue
                made = _Tiles(axes, (down, across), tile, given, Share(high, columns), units)
                tiles = prod(made.counts) * -(-hinted(groups.size) // channels)
                total = tiles * hinted(images.size) * units
                staged = (tile.size + (given.size if p.by_weight else 0)) / units
                # Transactions of which a part is used are moved whole.
                staged *= max(1, whole / channels)
                cost = staged * _STAGED + reads + products + weights + _FIXED
                yield max(total, info.cores * _UNITS) * cost, made


def wide_of(view: View, channels: tuple[int, int], strides: Sequence[int]) -> int:
    """Return the channels of an access of a view: a power of two that divides all positions.

    ``channels``: their number and stride; ``strides``: those of images, rows and columns.
    """
    count, step = channels
    if step != 1:
        return 1
    wide = ACCESS // int(view.dtype.itemsize)
    while wide > 1 and any(n % wide for n in (count, view.offset, *strides)):
        wide //= 2
    return max(wide, 1)


def read_by(number: int, view: View, tile: Tile) -> Bound:
    """Return an operand that is read in the accesses of a tile."""
    return operand(number, view).aligned(tile.wide * view.dtype.itemsize if tile.wide > 1 else 0)


def shares_of(blocks: int) -> Sequence[int]:
    """Return counts of adjacent blocks to choose from: equal shares of all."""
    return sorted({-(-blocks // parts) for parts in (1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128)})


def _name(kind: str, plan: _Tiles) -> str:
    down, across = plan.blocks
    return (
        f"depthwise {kind} {down.outputs}x{across.outputs} by "
        f"{plan.share.down}x{plan.share.across}x{plan.tile.channels}"
    )


def _pixels(one: Convolution, plan: _Tiles, steps: Steps) -> None:
    """Add the launch of a convolution or of an input gradient."""
    p, info = one.seen, one.info
    images, groups, _ = p.leads
    dtype, axes = p.a.dtype, plan.axes
    counts = [-(-groups.size // plan.tile.channels), *plan.counts]
    strides = row_major([*(lead.size for lead in p.leads), *(axis.count for axis in axes)])
    cubes = images.size * prod(counts)
    index = kl.index_dtype(reach(p.a), reach(p.b), p.size, cubes)
    nbytes = (p.a.size + p.b.size + p.size) * dtype.itemsize
    flops = 2 * p.size * p.terms // prod(axis.divide for axis in axes)
    target, following = ending(Bound(Output(0), dtype), one.tail)
    steps.add(
            depthwise_tiles,
            Grid((cubes, 1, 1), (plan.units, 1, 1), info.planes[0], index),
            Effort(_name("tiles", plan), flops, nbytes),
            x=read_by(0, p.a, plan.tile), w=operand(1, p.b), c=target, groups=groups.size,
            parts=counts, x_steps=Strides(images.a, groups.a, 0), w_step=groups.b,
            c_steps=Strides(strides[0], strides[1], strides[2]),
            lines=[
                Line(axis.count, axis.size, axis.a, axis.b, to)
                for axis, to in zip(axes, strides[3:], strict=True)
            ],
            blocks=plan.blocks, tile=plan.tile, share=plan.share, units=plan.units,
            together=_TOGETHER, accumulate=accumulator(dtype), **following,
        )  # fmt: skip


def _weights(one: Convolution, plan: _Tiles, steps: Steps) -> None:
    """Add the launches of a weight gradient."""
    p, info = one.seen, one.info
    groups, images, dtype = p.leads[0], p.depth, p.a.dtype
    chunks = -(-groups.size // plan.tile.channels)
    items, accumulate = images.size * prod(plan.counts), accumulator(dtype)
    parts = parts_of(steps, p, items, _CUBES * info.cores // greatest(chunks, 1))
    index = kl.index_dtype(reach(p.a), reach(p.b), parts.size, items)
    nbytes = (p.a.size + p.b.size + p.size) * dtype.itemsize
    steps.add(
            depthwise_weight_tiles,
            Grid((chunks, parts.splits, 1), (plan.units, 1, 1), info.planes[0], index),
            Effort(_name("weight tiles", plan), 2 * p.size * p.terms, nbytes),
            x=read_by(0, p.a, plan.tile), g=read_by(1, p.b, plan.given), c=parts.target,
            groups=groups.size, items=parts.items, parts=plan.counts,
            x_steps=Strides(images.a, groups.a, 0), g_steps=Strides(images.b, groups.b, 0),
            lines=[Line(a.count, a.size, a.a, 0, a.b) for a in plan.axes],
            blocks=plan.blocks, tile=plan.tile, given=plan.given, share=plan.share,
            units=plan.units, together=_TOGETHER, accumulate=accumulate,
        )  # fmt: skip
    launch_parts(steps, p, parts, info)
