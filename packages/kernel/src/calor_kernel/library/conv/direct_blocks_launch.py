"""Launches of direct blocks: which problems they suit, and the choice of blocks and parts.

Requirements: with few outputs, blocks are small, so that all units of the device have work; with
many, they are large, so that each input is read by few units.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest, hinted, is_size
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, operand
from calor_kernel.contract.work import Output, Request, View, Work, row_major
from calor_kernel.library.conv.direct_blocks import Block, Line, direct_blocks
from calor_kernel.library.conv.implicit_gemm_operands import spatial_axes
from calor_kernel.library.conv.problem import Axis, Convolution, Correlation, accumulator
from calor_kernel.library.conv.split_sums import ending, launch_parts, parts_of
from calor_kernel.library.conv.vector_tiles import Strides
from calor_kernel.library.conv.weight_blocks import direct_weight_blocks
from calor_kernel.library.gemm.epilogue import Tail
from calor_kernel.library.steps import Steps

_UNITS = 128
# Maxima: taps of a window, and of stride phases of a block; they are unrolled.
_TAPS, _PHASES = 63, 16
# Output channels of a group up to which most of a tile of other ways would be empty.
_FEW = 8
# Rows and columns of a block; columns where an image is one row.
_ROWS, _COLUMNS = 8, 4
# Output channels of a block at most, and registers of 32 bits for their weights and their sums.
_BESIDE, _WEIGHTS, _SUMS = 4, 36, 32
# The cubes of a core whose units have registers for so many weights of 32 bits.
_TOGETHER = ((9, 5), (25, 3), (2 * _TAPS, 2))
# The same of blocks of several channels.
_SEVERAL = 4
# Units that a core has at least, so that some compute while others wait for memory; what a unit
# does beside its products, in reads.
_BUSY, _FIXED = 1024, 12
# Cubes of a core for a weight gradient, and the least blocks of a unit.
_CUBES, _ITEMS = 8, 4


def blocks_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a problem is not computed block by block, None if it is."""
    p, info = one.seen, one.info
    if len(p.axes) > 3:
        return "it has more than three spatial axes"
    if p.leads[p.roles[0]].size == 1:
        reason = _alone_refusal(p, info)
        if reason is not None:
            return reason
    needed = ("barrier", "planes") if p.by_weight else ()
    if info.max_units < _UNITS or not all(map(info.has, needed)):
        return f"cubes have no planes, or no {_UNITS} units that meet"
    if _registers(p) > _TAPS or prod(axis.divide for axis in p.axes) > _PHASES:
        return f"its window has more than {_TAPS} taps, or its stride {_PHASES} phases"
    return None


def _alone_refusal(problem: Correlation, info: DeviceInfo) -> str | None:
    """Return why a problem of one group has better ways, None if it has none."""
    p = problem
    outputs = p.leads[1 if p.by_weight else 2]
    if outputs.size > _FEW:
        return f"it has one group, and more than {_FEW} output channels"
    short = p.by_weight or hinted(p.depth.size) <= _FEW or hinted(p.size) >= _BUSY * info.cores
    return None if short else "few units would have long sums"


def _registers(problem: Correlation) -> int:
    """Return the registers of 32 bits that hold the weights of a window."""
    taps = prod(axis.count if problem.by_weight else axis.terms for axis in problem.axes)
    words: int = max(accumulator(problem.a.dtype).itemsize // 4, 1)
    return int(taps) * words


def blocks_works(one: Convolution, request: Request) -> list[Work]:
    """Return the work of a problem that :func:`blocks_refusal` accepts."""
    steps = Steps()
    if one.seen.by_weight:
        _weights(one.seen, steps, one.info)
    else:
        _pixels(one.seen, steps, one.info, one.tail)
    return [steps.work()]


def block_of(axis: Axis[int], outputs: int) -> Block:
    """Return a block of some outputs of an axis."""
    return Block(outputs, axis.terms, axis.result, axis.summed, axis.start, axis.divide)


def _blocks(axes: Sequence[Axis[int]], planes: int, info: DeviceInfo) -> tuple[Block, ...]:
    """Return the blocks along each axis for a number of images of pixels.

    A block of a volume has one plane, or those of a phase of its stride.
    """
    *above, down, across = axes
    deep = tuple(block_of(axis, axis.divide) for axis in above)
    for axis in above:
        planes = planes * -(-axis.count // axis.divide)
    flat = hinted(down.count) == 1
    columns = _COLUMNS if flat else 1
    wide = block_of(across, -(-columns // across.divide) * across.divide)
    most = max(_ROWS // down.divide, 1) if not flat else 1
    choices = [block_of(down, n * down.divide) for n in range(1, most + 1)]
    beside = hinted(planes) * -(-hinted(across.count) // wide.outputs)

    def cost(block: Block) -> int:
        units = beside * -(-hinted(down.count) // block.outputs)
        every = *deep, block, wide
        reads = prod(len(one.pairs()) for one in every) + prod(one.taps for one in every) + _FIXED
        return int(max(units, info.cores * _BUSY) * reads)

    return *deep, min(choices, key=cost), wide


def _beside(
    p: Correlation, axes: Sequence[Axis[int]], info: DeviceInfo
) -> tuple[int, tuple[Block, ...]]:
    """Return the output channels of a block, and the blocks along each axis.

    Channels that share what they read are as many as registers hold, and leave all units work.
    """
    images, groups, outputs = p.leads
    planes = images.size * groups.size * outputs.size
    for beside in range(_BESIDE, 1, -1):
        if is_size(outputs.size) or outputs.size % beside or beside * _registers(p) > _WEIGHTS:
            continue
        blocks = _blocks(axes, planes // beside, info)
        sums = beside * prod(block.outputs for block in blocks)
        counts = [-(-hinted(a.count) // b.outputs) for a, b in zip(axes, blocks, strict=True)]
        units = hinted(planes) // beside * prod(counts)
        words = max(accumulator(p.a.dtype).itemsize // 4, 1)
        if sums * words <= _SUMS and units >= _BUSY * info.cores:
            return beside, blocks
    return 1, _blocks(axes, planes, info)


def _sizes(blocks: Sequence[Block]) -> str:
    return "x".join(str(block.outputs) for block in blocks)


def reach(view: View) -> int:
    """Return the distance between the first and the last element of a view."""
    return sum((n - 1) * abs(s) for n, s in zip(view.shape, view.strides, strict=True))


def _pixels(p: Correlation, steps: Steps, info: DeviceInfo, tail: Tail | None) -> None:
    """Add the launch of a convolution or of an input gradient."""
    (images, groups, outputs), axes, dtype = p.leads, spatial_axes(p), p.a.dtype
    beside, blocks = _beside(p, axes, info)
    counts = [-(-a.count // block.outputs) for a, block in zip(axes, blocks, strict=True)]
    channels = outputs.size // beside
    total = images.size * groups.size * channels * prod(counts)
    strides = row_major([*(lead.size for lead in p.leads), *(a.count for a in axes)])
    index = kl.index_dtype(reach(p.a), reach(p.b), p.size, total + _UNITS)
    nbytes = (p.a.size + p.b.size + p.size) * dtype.itemsize
    flops = 2 * p.size * p.terms // prod(axis.divide for axis in axes)
    target, following = ending(Bound(Output(0), dtype), tail)
    steps.add(
            direct_blocks,
            Grid.line(-(-total // _UNITS), _UNITS, info.planes[0], index),
            Effort(f"conv blocks {_sizes(blocks)}{f' of {beside}' * (beside > 1)}", flops, nbytes),
            x=operand(0, p.a), w=operand(1, p.b), c=target,
            total=total, depth=p.depth.size, parts=[groups.size, channels, *counts],
            x_steps=Strides(images.a, groups.a, p.depth.a),
            w_steps=Strides(groups.b, outputs.b, p.depth.b), c_steps=Strides(*strides[:3]),
            lines=[
                Line(a.count, a.size, a.a, a.b, to)
                for a, to in zip(axes, strides[3:], strict=True)
            ],
            blocks=blocks, beside=beside, accumulate=accumulator(dtype),
            together=_SEVERAL if beside > 1 else next(
                n for most, n in _TOGETHER if _registers(p) <= most
            ),
            **following,
        )  # fmt: skip


def _weights(p: Correlation, steps: Steps, info: DeviceInfo) -> None:
    """Add the launches of a weight gradient."""
    (groups, outputs, inputs), images, dtype = p.leads, p.depth, p.a.dtype
    # Output pixels and taps change places: those of g are the outputs of a block.
    axes = tuple(
        Axis(a.terms, a.count, a.summed, a.result, a.start, 1, a.size, a.a, a.b)
        for a in spatial_axes(p)
    )
    channels = groups.size * outputs.size * inputs.size
    accumulate = accumulator(dtype)
    blocks = _blocks(axes, channels * images.size, info)
    counts = [-(-a.count // block.outputs) for a, block in zip(axes, blocks, strict=True)]
    items, most = images.size * prod(counts), _CUBES * info.cores // greatest(channels, 1)
    shared = parts_of(steps, p, items, most, _ITEMS * _UNITS)
    index = kl.index_dtype(reach(p.a), reach(p.b), shared.size, items + _UNITS)
    nbytes = (p.a.size + p.b.size + p.size) * dtype.itemsize
    steps.add(
            direct_weight_blocks,
            Grid((channels, shared.splits, 1), (_UNITS, 1, 1), info.planes[0], index),
            Effort(
                f"conv blocks weights {_sizes(blocks)}", 2 * p.size * p.terms, nbytes,
            ),
            x=operand(0, p.a), g=operand(1, p.b), c=shared.target,
            pair=[outputs.size, inputs.size], items=shared.items, parts=counts,
            x_steps=Strides(images.a, groups.a, inputs.a),
            g_steps=Strides(images.b, groups.b, outputs.b),
            lines=[Line(a.count, a.size, a.a, 0, a.b) for a in axes],
            blocks=blocks, units=_UNITS, accumulate=accumulate,
            together=next(n for most, n in _TOGETHER if _registers(p) <= most),
        )  # fmt: skip
    launch_parts(steps, p, shared, info)
