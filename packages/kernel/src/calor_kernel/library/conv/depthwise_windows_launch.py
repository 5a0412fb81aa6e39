"""Launches of grouped convolutions with large windows, and of their gradients.

Requirements: of the tiles that fit shared memory those are taken that give all cores work and whose
border is the smallest share of what is staged. An input gradient with a stride has a launch for
each phase of its pixels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, prod

from calor_kernel import language as kl
from calor_kernel.contract.choices import hinted, is_size
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, operand
from calor_kernel.contract.work import Output, Request, Work, row_major
from calor_kernel.library.conv.depthwise_staging import Share, Span, Tile
from calor_kernel.library.conv.depthwise_tiles_launch import read_by, shares_of, wide_of
from calor_kernel.library.conv.depthwise_windows import (
    depthwise_weight_windows,
    depthwise_windows,
)
from calor_kernel.library.conv.direct_blocks import Block, Line
from calor_kernel.library.conv.direct_blocks_launch import block_of, reach
from calor_kernel.library.conv.implicit_gemm_operands import spatial_axes, two_axes
from calor_kernel.library.conv.problem import (
    Axis,
    Convolution,
    Correlation,
    Part,
    accumulator,
    undivided,
)
from calor_kernel.library.conv.split_sums import ending, launch_parts, parts_for, parts_of
from calor_kernel.library.conv.vector_tiles import Strides
from calor_kernel.library.conv.volume_axis import Planes
from calor_kernel.library.steps import Steps

# Units of a cube at most, and cubes of a core.
_UNITS, _TOGETHER = 256, 2
# Maxima: rows of a block, products of a column, which are unrolled, and taps of a column, of which
# longer ones are added in pieces of so many.
_ROWS, _UNROLLED, _TAPS, _PIECE = 16, 512, 64, 32
# Rows and columns of a tile of the output gradient of a weight gradient; rows where it is a line.
_GIVEN = ((16, 32), (16, 16), (8, 32), (8, 16), (8, 8))
_LONG = (512, 256, 128, 64, 32, 16)
# Bytes of shared memory of a cube at most.
_BYTES = 49152
# What a unit does beside its products, in products: for a read of shared memory, a staged value,
# a block.
_READ, _STAGED, _FIXED = 4, 24, 256
# Cubes of a core for a weight gradient; stride phases of an input gradient at most.
_CUBES, _PHASES = 4, 16
# The least taps of a window, and the distance of windows up to which they share what is staged.
_LEAST, _APART = 64, 4


def depthwise_windows_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a depthwise problem is not computed by columns of its window, None if it is."""
    p = one.seen
    groups, outputs, _ = (p.leads[role] for role in p.roles)
    inputs = p.leads[2] if p.by_weight else p.depth
    if groups.size == 1 or outputs.size != 1 or inputs.size != 1:
        return "it is not depthwise"
    return _refusal(p, one.info)


def channel_windows_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a problem is not computed by columns, a channel at a time, None if it is."""
    p = one.seen
    sizes = _window(p)
    if len(p.axes) > 2:
        return "it has more than two spatial axes"
    if not any(map(is_size, sizes)) and prod(sizes) < _LEAST:
        return f"its window has fewer than {_LEAST} taps"
    if any((axis.summed if p.by_weight else axis.result) > _APART for axis in p.axes):
        return "its windows lie too far apart to share what they read"
    return _refusal(p, one.info)


def _refusal(p: Correlation, info: DeviceInfo) -> str | None:
    """Return why a problem is not computed by columns of its window, None if it is."""
    if len(p.axes) > 3:
        return "it has more than three spatial axes"
    if info.max_units < _UNITS or not info.has("barrier"):
        return f"cubes have no {_UNITS} units that meet"
    if any(map(is_size, _window(p))):
        return "the size of its window is not known"
    if prod(axis.divide for axis in p.axes) > _PHASES:
        return f"its stride has more than {_PHASES} phases"
    if any(next(_fitting(part.problem, info), None) is None for part in _parts(p)):
        return "no tile fits shared memory"
    return None


def _window(p: Correlation) -> list[int]:
    """Return the taps of a window along each axis."""
    return [axis.count if p.by_weight else axis.terms for axis in p.axes]


def _parts(p: Correlation) -> list[Part]:
    """Return the problems without divisors that a problem consists of, those with outputs."""
    if all(axis.divide == 1 for axis in p.axes):
        return [Part(p, (0,) * len(p.axes), (1,) * len(p.axes))]
    return [part for part in undivided(p) if hinted(part.problem.size)]


def depthwise_windows_works(one: Convolution, request: Request) -> list[Work]:
    """Return the work of a problem that the refusals here accept."""
    steps = Steps()
    for part in _parts(one.seen):
        p = part.problem
        plan = min(_fitting(p, one.info), key=lambda found: found[0])[1]
        if p.by_weight:
            _weights(one, plan, steps)
        else:
            _pixels(one, part, plan, steps)
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
            down, across = self.share.blocks
            wide = [self.blocks[0].outputs * down, across]
        else:
            sizes = [axis.terms for axis in self.axes]
            wide = self.given.counts
        return [-(-size // n) for size, n in zip(sizes, wide, strict=True)]


def _fitting(p: Correlation, info: DeviceInfo) -> Iterator[tuple[float, _Windows]]:
    """Yield the tiles that fit, with their estimated time."""
    return _of_weight(p, info) if p.by_weight else _of_pixels(p, info)


def _turned(p: Correlation) -> tuple[bool, Axis[int], Axis[int]]:
    """Return the axes of a column of taps and of the columns, and whether these are turned.

    Windows of one row have one column, along the line.
    """
    down, across = two_axes(p)
    one, other = (down.count, across.count) if p.by_weight else (down.terms, across.terms)
    # Lines of few taps in images are read along the adjacent pixels.
    flat = down.count == down.size == down.terms == 1
    turned = one == 1 and (flat or other >= _LEAST)
    return (True, across, down) if turned else (False, down, across)


def _of_pixels(p: Correlation, info: DeviceInfo) -> Iterator[tuple[float, _Windows]]:
    turned, down, across = _turned(p)
    images, groups, outputs = p.leads
    moves = [images.a, *(axis.a for axis in (down, across)), *([p.depth.a] * (p.depth.size != 1))]
    wide = wide_of(p.a, (groups.size, groups.a), moves)
    size, taps = accumulator(p.a.dtype).itemsize, down.terms * across.terms
    above = prod(hinted(axis.count) for axis in p.axes[:-2])
    piece = down.terms if down.terms <= _TAPS else _PIECE
    # Units of a line, an odd distance apart, meet all banks of shared memory.
    step = 2 if hinted(across.count) == 1 else 1
    beside, planes = block_of(across, 1), hinted(images.size) * hinted(outputs.size) * above
    most = min(_BYTES, info.shared_of(_TOGETHER))
    for n in range(1, min(_ROWS, _UNROLLED // piece) + 1, step):
        block = replace(block_of(down, n), taps=piece)
        if n > 1 and n - 1 >= hinted(down.count):
            break
        blocks = -(-hinted(down.count) // n), hinted(across.count)
        reads = Span.of(block_of(down, n)), Span.of(beside)
        products = across.terms * -(-_column(block) * down.terms // piece)
        for high, columns in product(shares_of(blocks[0]), shares_of(blocks[1])):
            each, share = high * columns, Share((high, columns))
            if each > _UNITS:
                continue
            spans = reads[0].along(high), reads[1].along(columns)
            area = spans[0].count * spans[1].count + taps
            for channels in _channels(_UNITS // each, hinted(groups.size), wide):
                if channels * area * size > most:
                    continue
                tile = Tile(channels, spans, gcd(wide, channels))
                held = tile.size + channels * (taps | 1)
                if held * size > most:
                    continue
                units = -(-each * channels // 32) * 32
                made = _Windows(turned, (down, across), (block, beside), tile, None, share, units)
                tiles = prod(map(hinted, made.counts)) * -(-hinted(groups.size) // channels)
                cost = held / units * _STAGED + products + _FIXED
                yield max(tiles * planes * units, info.cores * _UNITS) * cost, made
                # Fewer channels have the same border.
                if units < _UNITS // 2 or channels * 2 < _UNITS // each:
                    break


def _of_weight(p: Correlation, info: DeviceInfo) -> Iterator[tuple[float, _Windows]]:
    turned, down, across = _turned(p)
    images, (groups, outputs, inputs) = p.depth, p.leads
    x_moves = [images.a, *(axis.a for axis in (down, across)), *([inputs.a] * (inputs.size != 1))]
    g_moves = [images.b, *(axis.b for axis in (down, across)), *([outputs.b] * (outputs.size != 1))]
    wide_x = wide_of(p.a, (groups.size, groups.a), x_moves)
    wide_g = wide_of(p.b, (groups.size, groups.b), g_moves)
    size, planes = accumulator(p.a.dtype).itemsize, hinted(images.size) * hinted(outputs.size)
    planes *= hinted(inputs.size) * prod(hinted(a.count) * hinted(a.terms) for a in p.axes[:-2])
    lines = hinted(across.terms) == 1 and turned
    for rows, columns in ((rows, 1) for rows in _LONG) if lines else _GIVEN:
        tall, long = min(rows, hinted(down.terms)), min(columns, hinted(across.terms))
        piece = min(tall, _PIECE)
        tall = -(-tall // piece) * piece
        for n in range(1, min(_ROWS, _UNROLLED // piece) + 1, 2 if lines else 1):
            if n > 1 and n - 1 >= down.count:
                break
            block = Block(n, piece, down.result, down.summed, down.start, 1)
            beside = Block(1, long, across.result, across.summed, across.start, 1)
            high = -(-down.count // n)
            share = Share((high, across.count))
            each, products = share.size, long * (tall // piece) * _column(block)
            if each > _UNITS:
                continue
            whole = replace(block, taps=tall)
            reads = Span.of(whole).along(high), Span.of(beside).along(across.count)
            # Of the next tile of the output gradient, all taps read so much further on.
            spans = tuple(
                Span(span.low, span.count, of.taps * of.summed)
                for span, of in zip(reads, (whole, beside), strict=True)
            )
            for channels in _channels(_UNITS // each, hinted(groups.size), max(wide_x, wide_g)):
                tile = Tile(channels, spans, gcd(wide_x, channels))
                of_g = Span(0, tall, tall), Span(0, long, long)
                given = Tile(channels, of_g, gcd(wide_g, channels))
                held = tile.size + given.size
                if held * size > min(_BYTES, info.shared_of(_TOGETHER)):
                    continue
                units = -(-each * channels // 32) * 32
                made = _Windows(turned, (down, across), (block, beside), tile, given, share, units)
                tiles = prod(map(hinted, made.counts)) * -(-hinted(groups.size) // channels)
                cost = held / units * _STAGED + products + _FIXED
                yield max(tiles * planes * units, info.cores * _UNITS) * cost, made


def _column(block: Block) -> int:
    """Return what a column costs: its reads and its products."""
    return _READ * (block.taps + len(block.pairs())) + block.taps * block.outputs


def _channels(most: int, groups: int, wide: int) -> Iterator[int]:
    """Yield numbers of channels of a cube: whole accesses, if there are as many."""
    channels = min(most, groups)
    while channels > 0:
        yield channels - (channels % wide if channels > wide else 0)
        channels //= 2


def _pixels(one: Convolution, part: Part, plan: _Windows, steps: Steps) -> None:
    """Add the launch of a convolution, or of a phase of an input gradient."""
    p, info, whole = part.problem, one.info, one.seen
    images, groups, outputs = p.leads
    dtype, axes, depth = p.a.dtype, plan.axes, p.depth
    counts = [-(-groups.size // plan.tile.channels), outputs.size, *plan.counts]
    every = spatial_axes(whole)
    strides = row_major([*(lead.size for lead in p.leads), *(a.count for a in every)])
    single = len(every) - len(p.axes)
    begin = sum(n * step for n, step in zip(part.offsets, strides[3 + single :], strict=True))
    moves = zip(strides[3:], (1,) * single + part.steps, strict=True)
    *above, high, wide = (step * by for step, by in moves)
    along = [wide, high] if plan.turned else [high, wide]
    planes = _planes(p, above[0]) if above else None
    cubes = images.size * prod(counts) * (1 if planes is None else planes.count)
    index = kl.index_dtype(reach(p.a), reach(p.b), whole.size, cubes)
    nbytes = (p.a.size + p.b.size + p.size) * dtype.itemsize
    target, following = ending(Bound(Output(0, begin), dtype), one.tail)
    taps = axes[0].terms, axes[1].terms
    steps.add(
            depthwise_windows,
            Grid((cubes, 1, 1), (plan.units, 1, 1), info.planes[0], index),
            Effort(_name("windows", plan), 2 * p.size * p.terms, nbytes),
            x=read_by(0, p.a, plan.tile), w=operand(1, p.b), c=target, groups=groups.size,
            parts=counts, x_steps=Strides(images.a, groups.a, depth.a),
            depth=depth.size * (1 if planes is None else p.axes[0].terms),
            w_steps=Strides(groups.b, outputs.b, depth.b if planes is None else p.axes[0].b),
            c_steps=Strides(*strides[:3]), planes=planes,
            lines=[
                Line(axis.count, axis.size, axis.a, axis.b, to)
                for axis, to in zip(axes, along, strict=True)
            ],
            blocks=plan.blocks, tile=plan.tile, taps=taps, share=plan.share, units=plan.units,
            together=_TOGETHER, accumulate=accumulator(dtype), **following,
        )  # fmt: skip


def _weights(one: Convolution, plan: _Windows, steps: Steps) -> None:
    """Add the launches of a weight gradient."""
    p, info, given = one.seen, one.info, plan.given
    assert given is not None
    (groups, outputs, inputs), images, dtype = p.leads, p.depth, p.a.dtype
    planes, above = None, 1
    if len(p.axes) > 2:
        planes, above = _planes(p, p.axes[0].b), p.axes[0].count
        images = replace(images, size=images.size * planes.count)
    inner = inputs.size * above
    chunks = -(-groups.size // plan.tile.channels) * outputs.size * inner
    items, accumulate = images.size * prod(plan.counts), accumulator(dtype)
    parts = parts_of(steps, p, items, parts_for(_CUBES, plan.units, chunks, info))
    index = kl.index_dtype(reach(p.a), reach(p.b), parts.size, items)
    nbytes = (p.a.size + p.b.size + p.size) * dtype.itemsize
    taps = plan.axes[0].count, plan.axes[1].count
    steps.add(
            depthwise_weight_windows,
            Grid((chunks, parts.splits, 1), (plan.units, 1, 1), info.planes[0], index),
            Effort(_name("weight windows", plan), 2 * p.size * p.terms, nbytes),
            x=read_by(0, p.a, plan.tile), g=read_by(1, p.b, given), c=parts.target,
            groups=groups.size, items=parts.items, pair=[outputs.size, inner], planes=planes,
            parts=plan.counts, x_steps=Strides(images.a, groups.a, inputs.a),
            g_steps=Strides(images.b, groups.b, outputs.b),
            lines=[Line(a.terms, a.size, a.a, 0, a.b) for a in plan.axes],
            blocks=plan.blocks, tile=plan.tile, given=given, taps=taps,
            apart=(1, taps[0]) if plan.turned else (taps[1], 1), share=plan.share,
            units=plan.units, together=_TOGETHER, accumulate=accumulate,
        )  # fmt: skip
    launch_parts(steps, p, parts, info)


def _planes(p: Correlation, made: int) -> Planes[int, int]:
    """Return the first axis of volumes; ``made``: the stride of planes of the result or of g."""
    first = p.axes[0]
    if p.by_weight:
        return Planes(
            first.terms, first.summed, first.result, first.start, first.size, first.a, made
        )
    return Planes(first.count, first.result, first.summed, first.start, first.size, first.a, made)


def _name(kind: str, plan: _Windows) -> str:
    rows, (down, across) = plan.blocks[0].outputs, plan.share.blocks
    return f"depthwise {kind} {rows}x1 by {down}x{across}x{plan.tile.channels}"
