"""Launches of depthwise convolutions with large windows, and of their gradients.

Requirements: of the tiles that fit shared memory those are taken that give all cores work and whose
border is the smallest share of what is staged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import gcd, prod

from calor.dtypes import float32
from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest, hinted, is_size, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, operand
from calor_kernel.contract.work import Output, Request, Work, row_major
from calor_kernel.library.conv.depthwise_tiles import Share, Span, Tile
from calor_kernel.library.conv.depthwise_tiles_launch import read_by, shares_of, wide_of
from calor_kernel.library.conv.depthwise_windows import (
    depthwise_weight_windows,
    depthwise_windows,
)
from calor_kernel.library.conv.direct_blocks import Block, Line
from calor_kernel.library.conv.direct_blocks_launch import block_of, reach
from calor_kernel.library.conv.implicit_gemm_operands import two_axes
from calor_kernel.library.conv.problem import Axis, Convolution, Correlation, accumulator
from calor_kernel.library.conv.split_sums import WHOLE, ending, launch_sum, target_of
from calor_kernel.library.conv.vector_tiles import Strides
from calor_kernel.library.steps import Steps

# Units of a cube at most, and cubes of a core.
_UNITS, _TOGETHER = 256, 2
# Maxima: rows of a block, products of a column, which are unrolled, and taps of a column.
_ROWS, _UNROLLED, _TAPS = 16, 512, 64
# Rows and columns of a tile of the output gradient of a weight gradient.
_GIVEN = ((16, 32), (16, 16), (8, 32), (8, 16), (8, 8))
# Bytes of shared memory of a cube at most.
_BYTES = 49152
# What a unit does beside its products, in products: for a read of shared memory, a staged value,
# a block.
_READ, _STAGED, _FIXED = 4, 24, 256
# Cubes of a core for a weight gradient.
_CUBES = 4


def depthwise_windows_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a problem is not computed by columns of its window, None if it is."""
    p, info = one.seen, one.info
    if len(p.axes) > 2:
        return "it has more than two spatial axes"
    groups, outputs, _ = (p.leads[role] for role in p.roles)
    inputs = p.leads[2] if p.by_weight else p.depth
    if groups.size == 1 or outputs.size != 1 or inputs.size != 1:
        return "it is not depthwise"
    if info.max_units < _UNITS or not info.has("barrier"):
        return f"cubes have no {_UNITS} units that meet"
    if any(axis.divide != 1 for axis in p.axes):
        return "its stride divides positions"
    sizes = [axis.count if p.by_weight else axis.terms for axis in p.axes]
    if any(map(is_size, sizes)):
        return "the size of its window is not known"
    if next(_fitting(p, info), None) is None:
        return f"a column has more than {_TAPS} taps, or no tile fits shared memory"
    return None


def depthwise_windows_works(one: Convolution, request: Request) -> list[Work]:
    """Return the work of a problem that :func:`depthwise_windows_refusal` accepts."""
    steps = Steps()
    plan = min(_fitting(one.seen, one.info), key=lambda found: found[0])[1]
    (_weights if one.seen.by_weight else _pixels)(one, plan, steps)
    return [steps.work()]


@dataclass(frozen=True, slots=True)
class _Windows:
    """The tiles of a launch; ``given``: that of the factors of a weight gradient.

    ``turned``: whether the axes are in the other order, so that units have several outputs of a
    line.
    """

    turned: bool
    axes: tuple[Axis[int], Axis[int]]
    blocks: tuple[Block, Block]
    tile: Tile
    given: Tile | None
    share: Share
    units: int

    @property
    def counts(self) -> list[int]:
        """The tiles of an image down and across."""
        if self.given is None:
            sizes = [axis.count for axis in self.axes]
            wide = self.blocks[0].outputs * self.share.down, self.share.across
        else:
            sizes = [axis.terms for axis in self.axes]
            wide = self.given.rows.count, self.given.columns.count
        return [-(-size // n) for size, n in zip(sizes, wide, strict=True)]


def _fitting(p: Correlation, info: DeviceInfo) -> Iterator[tuple[float, _Windows]]:
    """Yield the tiles that fit, with their estimated time."""
    return _of_weight(p, info) if p.by_weight else _of_pixels(p, info)


def _of_pixels(p: Correlation, info: DeviceInfo) -> Iterator[tuple[float, _Windows]]:
    down, across = axes = two_axes(p)
    turned = bool(down.count == down.size == down.terms == 1)
    if turned:
        down, across = across, down
    images, groups = p.leads[0], p.leads[1]
    if down.terms > _TAPS:
        return
    wide = wide_of(p.a, (groups.size, groups.a), [images.a, *(axis.a for axis in axes)])
    size, taps = accumulator(p.a.dtype).itemsize, down.terms * across.terms
    # Units of a line, an odd distance apart, meet all banks of shared memory.
    step = 2 if hinted(across.count) == 1 else 1
    for n in range(1, min(_ROWS, _UNROLLED // down.terms) + 1, step):
        block, beside = block_of(down, n), block_of(across, 1)
        if n > 1 and n - 1 >= hinted(down.count):
            break
        blocks = -(-hinted(down.count) // n), hinted(across.count)
        reads, products = (Span.of(block), Span.of(beside)), across.terms * _column(block)
        for high, columns in product(shares_of(blocks[0]), shares_of(blocks[1])):
            each, share = high * columns, Share(high, columns)
            spans = reads[0].along(high), reads[1].along(columns)
            for channels in _channels(_UNITS // each, hinted(groups.size), wide):
                tile = Tile(channels, *spans, gcd(wide, channels))
                held = tile.size + channels * (taps | 1)
                if held * size > min(_BYTES, info.shared_of(_TOGETHER)):
                    continue
                units = -(-each * channels // 32) * 32
                made = _Windows(turned, (down, across), (block, beside), tile, None, share, units)
                tiles = prod(made.counts) * -(-hinted(groups.size) // channels)
                total = tiles * hinted(images.size) * units
                cost = held / units * _STAGED + products + _FIXED
                yield max(total, info.cores * _UNITS) * cost, made


def _of_weight(p: Correlation, info: DeviceInfo) -> Iterator[tuple[float, _Windows]]:
    down, across = axes = two_axes(p)
    images, groups = p.depth, p.leads[0]
    wide_x = wide_of(p.a, (groups.size, groups.a), [images.a, *(axis.a for axis in axes)])
    wide_g = wide_of(p.b, (groups.size, groups.b), [images.b, *(axis.b for axis in axes)])
    size = accumulator(p.a.dtype).itemsize
    for rows, columns in _GIVEN:
        tall, long = min(rows, hinted(down.terms)), min(columns, hinted(across.terms))
        for n in range(1, min(_ROWS, _UNROLLED // tall) + 1):
            if n > 1 and n - 1 >= down.count:
                break
            block = Block(n, tall, down.result, down.summed, down.start, 1)
            beside = Block(1, long, across.result, across.summed, across.start, 1)
            share = Share(-(-down.count // n), across.count)
            reads = Span.of(block).along(share.down), Span.of(beside).along(share.across)
            # Of the next tile of the output gradient, all taps read so much further on.
            spans = [
                Span(span.low, span.count, of.taps * of.summed)
                for span, of in zip(reads, (block, beside), strict=True)
            ]
            each, products = share.down * share.across, long * _column(block)
            for channels in _channels(_UNITS // each, hinted(groups.size), max(wide_x, wide_g)):
                tile = Tile(channels, spans[0], spans[1], gcd(wide_x, channels))
                of_g = Span(0, tall, tall), Span(0, long, long)
                given = Tile(channels, *of_g, gcd(wide_g, channels))
                held = tile.size + given.size
                if held * size > min(_BYTES, info.shared_of(_TOGETHER)):
                    continue
                units = -(-each * channels // 32) * 32
                made = _Windows(False, axes, (block, beside), tile, given, share, units)
                tiles = prod(made.counts) * -(-hinted(groups.size) // channels)
                total = tiles * hinted(images.size) * units
                cost = held / units * _STAGED + products + _FIXED
                yield max(total, info.cores * _UNITS) * cost, made


def _column(block: Block) -> int:
    """Return what a column costs: its reads and its products."""
    return _READ * (block.taps + len(block.pairs())) + block.taps * block.outputs


def _channels(most: int, groups: int, wide: int) -> Iterator[int]:
    """Yield numbers of channels of a cube: whole accesses, if there are as many."""
    channels = min(most, groups)
    while channels > 0:
        yield channels - (channels % wide if channels > wide else 0)
        channels //= 2


def _pixels(one: Convolution, plan: _Windows, steps: Steps) -> None:
    """Add the launch of a convolution or of an input gradient."""
    p, info = one.seen, one.info
    images, groups, _ = p.leads
    dtype, axes = p.a.dtype, plan.axes
    counts = [-(-groups.size // plan.tile.channels), *plan.counts]
    strides = row_major([*(lead.size for lead in p.leads), *(a.count for a in two_axes(p))])
    along = strides[:2:-1] if plan.turned else strides[3:]
    cubes = images.size * prod(counts)
    index = kl.index_dtype(reach(p.a), reach(p.b), p.size, cubes)
    nbytes = (p.a.size + p.b.size + p.size) * dtype.itemsize
    target, following = ending(Bound(Output(0), dtype), one.tail)
    steps.add(
            depthwise_windows,
            Grid((cubes, 1, 1), (plan.units, 1, 1), info.planes[0], index),
            Effort(_name("windows", plan), 2 * p.size * p.terms, nbytes),
            x=read_by(0, p.a, plan.tile), w=operand(1, p.b), c=target, groups=groups.size,
            parts=counts, x_steps=Strides(images.a, groups.a, 0), w_step=groups.b,
            c_steps=Strides(strides[0], strides[1], strides[2]),
            lines=[
                Line(axis.count, axis.size, axis.a, axis.b, to)
                for axis, to in zip(axes, along, strict=True)
            ],
            blocks=plan.blocks, tile=plan.tile, share=plan.share, units=plan.units,
            together=_TOGETHER, accumulate=accumulator(dtype), **following,
        )  # fmt: skip


def _weights(one: Convolution, plan: _Windows, steps: Steps) -> None:
    """Add the launches of a weight gradient."""
    p, info, given = one.seen, one.info, plan.given
    assert given is not None
    groups, images, dtype = p.leads[0], p.depth, p.a.dtype
    chunks = -(-groups.size // plan.tile.channels)
    items, accumulate = images.size * prod(plan.counts), accumulator(dtype)
    splits = 1
    if accumulate is float32:
        splits = greatest(1, least(_CUBES * info.cores // greatest(chunks, 1), items))
    turns = greatest(-(-items // splits), 1)
    size = p.size
    step = -(-size // WHOLE) * WHOLE
    target = Bound(Output(0), dtype)
    if splits > 1:
        target = target_of(steps, dtype, splits * step)
    index = kl.index_dtype(reach(p.a), reach(p.b), splits * step, items)
    nbytes = (p.a.size + p.b.size + p.size) * dtype.itemsize
    steps.add(
            depthwise_weight_windows,
            Grid((chunks, splits, 1), (plan.units, 1, 1), info.planes[0], index),
            Effort(_name("weight windows", plan), 2 * size * p.terms, nbytes),
            x=read_by(0, p.a, plan.tile), g=read_by(1, p.b, given), c=target, groups=groups.size,
            items=items, turns=turns, part_step=step, parts=plan.counts,
            x_steps=Strides(images.a, groups.a, 0), g_steps=Strides(images.b, groups.b, 0),
            lines=[Line(a.terms, a.size, a.a, 0, a.b) for a in plan.axes],
            blocks=plan.blocks, tile=plan.tile, given=given,
            taps=(plan.axes[0].count, plan.axes[1].count), share=plan.share, units=plan.units,
            together=_TOGETHER, accumulate=accumulate,
        )  # fmt: skip
    launch_sum(steps, target, dtype, (1, 1, size, step), splits, step, info)


def _name(kind: str, plan: _Windows) -> str:
    rows, share = plan.blocks[0].outputs, plan.share
    return f"depthwise {kind} {rows}x1 by {share.down}x{share.across}x{plan.tile.channels}"
