"""Launches of depthwise tiles: which problems they suit, and the choice of tiles and parts.

Requirements: a tile is large enough that its border is a small share of it, and small enough that
several cubes share a core, and that all cores have work. Where channels are adjacent, a cube has as
many of them as make a memory transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, prod

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.contract.choices import choice, hinted, is_size, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, operand
from calor_kernel.contract.work import Output, Request, View, Work, row_major
from calor_kernel.library.conv.depthwise_staging import Share, Span, Tile
from calor_kernel.library.conv.depthwise_tiles import depthwise_tiles, depthwise_weight_tiles
from calor_kernel.library.conv.direct_blocks import Block, Line
from calor_kernel.library.conv.direct_blocks_launch import block_of, reach
from calor_kernel.library.conv.implicit_gemm_operands import ACCESS, spatial_axes
from calor_kernel.library.conv.problem import Axis, Convolution, Correlation, accumulator
from calor_kernel.library.conv.split_sums import ending, launch_parts, parts_for, parts_of
from calor_kernel.library.conv.vector_tiles import Strides
from calor_kernel.library.steps import Steps

# Units of a cube at most, and cubes of a core; those that have sums of pixels alone, if these are
# of single words.
_UNITS, _TOGETHER = 256, 2
_OF_PIXELS, _WORD = 3, 4
# Maxima: taps of a window and stride phases of a block, which are unrolled; rows of a block.
_TAPS, _PHASES, _ROWS = 63, 16, 14
# Taps of a window along one axis from which a unit has several outputs of a line, at most so many.
_WINDOW, _LINE = 5, 5
# Of volumes: planes of a block, and blocks of planes of a cube, and rows of a block to choose from.
_PLANES, _OF_PLANES = (1, 2, 4), (1, 2, 4, 7, 14)
# Bytes of shared memory of a cube at most, and of a memory transaction.
_BYTES, _TRANSACTION = 40960, 32
# What a unit does beside its products: for a staged value, for a staged position, whose place is
# computed once for all channels, and for a block. On an H200 by Vulkan tiles of one channel take up
# to three times as long as tiles of four, and by the same measure a place is 20 to 60.
_STAGED, _PLACE, _FIXED = 6, 20, 64
# How much larger than an image a tile is that copies the image alone.
_AROUND = 1.25
# Cubes of a core for a weight gradient at most, the units of cubes of which a core has more, and
# the items that take as long as a cube's sums over its units.
_CUBES, _SMALL, _ADDED = 4, 64, 2


def depthwise_tiles_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a problem is not computed from staged tiles, None if it is."""
    p, info = one.seen, one.info
    if len(p.axes) > 3:
        return "it has more than three spatial axes"
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

    axes: tuple[Axis[int], ...]
    blocks: tuple[Block, ...]
    tile: Tile
    given: Tile
    share: Share
    units: int

    @property
    def counts(self) -> list[int]:
        """The tiles of an image along each axis."""
        wanted = zip(self.axes, self.blocks, self.share.blocks, strict=True)
        return [-(-axis.count // (block.outputs * blocks)) for axis, block, blocks in wanted]


def oriented(p: Correlation) -> tuple[Axis[int], ...]:
    """Return the axes of outputs; for a weight gradient, pixels of g; taps are summed.

    Of a line with a long window a unit has several outputs, which share weights and inputs.
    """
    axes = spatial_axes(p)
    if not p.by_weight:
        return axes[::-1] if _is_line(axes) else axes
    return tuple(
        Axis(a.terms, a.count, a.summed, a.result, a.start, 1, a.size, a.a, a.b) for a in axes
    )


def _is_line(axes: Sequence[Axis[int]]) -> bool:
    """Return whether outputs are a line, of dense inputs that a long window reads."""
    across = axes[-1]
    return _is_single(axes) and across.divide == across.a == 1 and across.terms >= _WINDOW


def _is_single(axes: Sequence[Axis[int]]) -> bool:
    """Return whether outputs are a line."""
    return all(axis.count == axis.size == axis.terms == 1 for axis in axes[:-1])


def _adjacent_channels(channel: int, axis: Axis[int], step: int) -> bool:
    """Return whether channels lie nearer than columns."""
    return abs(channel) < abs(step) or axis.size == 1


def _fitting(p: Correlation, info: DeviceInfo) -> Iterator[tuple[float, _Tiles]]:
    """Yield the tiles that fit, with their estimated time."""
    axes = oriented(p)
    images, groups = (p.depth, p.leads[0]) if p.by_weight else (p.leads[0], p.leads[1])
    line = _is_line(axes[::-1]) if not p.by_weight else _is_single(axes)
    if line and p.by_weight:
        # A unit has pixels of a line, as it has rows of an image.
        axes = axes[::-1]
    along = axes[0] if line else axes[-1]
    last = _adjacent_channels(groups.a, along, along.a)
    of_g = p.by_weight and _adjacent_channels(groups.b, along, along.b)
    wide_x = wide_of(p.a, (groups.size, groups.a), [images.a, *(axis.a for axis in axes)])
    wide_g = 1
    if p.by_weight:
        wide_g = wide_of(p.b, (groups.size, groups.b), [images.b, *(axis.b for axis in p.axes)])
    most = max(wide_x, wide_g)
    whole = _TRANSACTION // p.a.dtype.itemsize if last or of_g else 1
    size = accumulator(p.a.dtype).itemsize
    counts = [hinted(axis.count) for axis in axes]
    for block in _blocks(axes, counts, (_ROWS if p.by_weight else _LINE) if line else 0):
        reads = prod(len(one.pairs()) for one in block)
        taps, outputs = prod(one.taps for one in block), prod(one.outputs for one in block)
        products = taps * outputs // prod(axis.divide for axis in axes)
        weights = 2 * taps if not p.by_weight else outputs // axes[-1].divide
        read, made = [Span.of(one) for one in block], [Span.outputs(one) for one in block]
        for blocks in _shares(block, counts):
            share = Share(blocks)
            channels = min(max(_UNITS // share.size, 1), hinted(groups.size))
            # Accesses are whole, and the last tile has about as many channels as the others.
            channels -= channels % most if channels > most else 0
            tile = Tile(channels, _along(read, blocks), gcd(wide_x, channels))
            given = Tile(channels, _along(made, blocks), gcd(wide_g, channels))
            units = -(-share.size * channels // 32) * 32
            held = tile.size + (given.size + units * axes[-1].terms if p.by_weight else 0)
            # A core of one cube waits for what the cube stages.
            if held * size > min(_BYTES, info.shared_of(2)):
                continue
            tile = _of_image(tile, axes, [axis.size for axis in axes], block, blocks)
            given = _of_image(given, axes, [axis.count for axis in axes], block, blocks)
            plan = _Tiles(axes, block, tile, given, share, units)
            tiles = prod(plan.counts) * -(-hinted(groups.size) // channels)
            total = tiles * hinted(images.size) * units
            copied = tile.channels * prod(tile.copied)
            staged = (copied + (channels * prod(given.copied) if p.by_weight else 0)) / units
            places = 0 if p.by_weight else prod(tile.copied) * tile.parts(units) / units
            # Transactions of which a part is used are moved whole, as at the ends of rows.
            staged *= max(1, whole / channels)
            if whole == 1 and not p.by_weight:
                row = tile.counts[-1] * p.a.dtype.itemsize
                staged *= (row + _TRANSACTION - p.a.dtype.itemsize) / row
            cost = staged * _STAGED + places * _PLACE + reads + products + weights + _FIXED
            yield max(total, info.cores * _UNITS) * cost, plan


def _of_image(
    tile: Tile,
    axes: Sequence[Axis[int]],
    sizes: Sequence[int],
    block: Sequence[Block],
    blocks: Sequence[int],
) -> Tile:
    """Return a tile that copies a whole image of ``sizes`` alone, if it has much around that."""
    if any(map(is_size, sizes)):
        return tile
    given = zip(axes, sizes, tile.spans, block, blocks, strict=True)
    whole = all(
        axis.count <= one.outputs * n and span.low <= 0 and size <= span.low + span.count
        for axis, size, span, one, n in given
    )
    if not whole or not all(sizes) or _AROUND * prod(sizes) > tile.area:
        return tile
    return replace(tile, whole=tuple(sizes))


def _blocks(
    axes: Sequence[Axis[int]], counts: Sequence[int], line: int
) -> Iterator[tuple[Block, ...]]:
    """Yield the blocks of a unit: a column of outputs, of several rows and planes.

    ``line``: the most outputs of a line along the rows, 0 for images.
    """
    *above, rows, across = axes
    beside = block_of(across, across.divide)
    choices: Sequence[int] = range(1, max(_ROWS // rows.divide, 1) + 1)
    if line:
        # Units whose lines begin an odd distance apart meet all banks of shared memory.
        choices = range(1, line + 1, 2)
    elif above:
        choices = _OF_PLANES
    for n in choices:
        if n > 1 and ((n - 1) * rows.divide >= counts[-2] or n * rows.divide > _ROWS):
            break
        down = block_of(rows, n * rows.divide)
        if not above:
            yield down, beside
        for planes in _PLANES if above else ():
            # Planes of a window of one plane share nothing.
            more = above[0].terms > 1 and planes * above[0].divide <= counts[0]
            if planes == 1 or (more and planes * n <= _ROWS):
                yield block_of(above[0], planes * above[0].divide), down, beside


def _shares(block: Sequence[Block], counts: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield how many blocks of a channel a cube has along each axis."""
    most = [-(-count // one.outputs) for count, one in zip(counts, block, strict=True)]
    above = [[n for n in _PLANES if n == 1 or n <= blocks] for blocks in most[:-2]]
    for columns in shares_of(most[-1]):
        for high in shares_of(most[-2]):
            if high * columns <= _UNITS:
                for deep in product(*above):
                    if prod(deep) * high * columns <= _UNITS:
                        yield *deep, high, columns


def _along(spans: Sequence[Span], blocks: Sequence[int]) -> tuple[Span, ...]:
    """Return what adjacent blocks read, or their outputs, along each axis."""
    return tuple(span.along(n) for span, n in zip(spans, blocks, strict=True))


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


def _together(plan: _Tiles, info: DeviceInfo, accumulate: DType) -> int:
    """Return the cubes of a core that share its registers."""
    fits = plan.tile.size * accumulate.itemsize <= info.shared_of(_OF_PIXELS)
    return _OF_PIXELS if fits and accumulate.itemsize <= _WORD else _TOGETHER


@choice(low=1)
def _splits(chunks: int, items: int, cores: int) -> int:
    """Return the parts of the items of so many chunks that take the least time, in items.

    >>> _splits(22, 32, 132), _splits(43, 32, 132), _splits(160, 16, 132)
    (11, 6, 3)
    """

    def time(parts: int) -> int:
        waves = -(-chunks * parts // (_TOGETHER * cores))
        return waves * (-(-items // parts) + _ADDED)

    return min(range(1, max(1, min(items, _CUBES * cores // max(chunks, 1))) + 1), key=time)


def _name(kind: str, plan: _Tiles) -> str:
    block = "x".join(str(one.outputs) for one in plan.blocks)
    share = "x".join(map(str, (*plan.share.blocks, plan.tile.channels)))
    return f"depthwise {kind} {block} by {share}"


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
            together=_together(plan, info, accumulator(dtype)), accumulate=accumulator(dtype),
            **following,
        )  # fmt: skip


def _weights(one: Convolution, plan: _Tiles, steps: Steps) -> None:
    """Add the launches of a weight gradient."""
    p, info = one.seen, one.info
    groups, images, dtype = p.leads[0], p.depth, p.a.dtype
    chunks = -(-groups.size // plan.tile.channels)
    items, accumulate = images.size * prod(plan.counts), accumulator(dtype)
    most = parts_for(_CUBES, plan.units, chunks, info)
    if plan.units > _SMALL:
        most = least(most, _splits(hinted(chunks), hinted(items), info.cores))
    parts = parts_of(steps, p, items, most)
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
