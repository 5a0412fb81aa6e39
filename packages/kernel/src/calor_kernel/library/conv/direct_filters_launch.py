"""Launches of direct filters: which problems they suit, and the windows and filters of a cube.

Requirements: units have registers for their windows; a window that is longer leaves room for fewer
of them. Filters are shared among cubes until all cores have several cubes, since each cube reads
its windows anew.
"""

from __future__ import annotations

from math import prod

from calor.dtypes import bfloat16, float16, float32
from calor_kernel import language as kl
from calor_kernel.contract.choices import hinted, is_size
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, operand
from calor_kernel.contract.work import Output, Request, Work, row_major
from calor_kernel.library.conv.direct_blocks import Line
from calor_kernel.library.conv.direct_blocks_launch import block_of, reach
from calor_kernel.library.conv.direct_filters import GROUP, direct_filters
from calor_kernel.library.conv.implicit_gemm_operands import spatial_axes
from calor_kernel.library.conv.problem import Convolution, Correlation, accumulator
from calor_kernel.library.conv.split_sums import ending
from calor_kernel.library.conv.vector_tiles import Strides
from calor_kernel.library.steps import Steps

_UNITS = 128
# Maximum of terms, and of those of a unit's windows, which are in registers; windows of a unit.
_TERMS, _HELD, _WINDOWS = 48, 56, 4
# Minimum of filters, without groups and of a group, and of results: fewer filters have ways of
# their own, and fewer results end at once.
_FILTERS, _OF_GROUP, _RESULTS = GROUP + 1, 5, 1 << 14
# The elements between the pixels of neighbouring units up to which a plane's reads meet few lines.
_APART = 8
# Filters of a cube at most, and cubes that a core has at the same time.
_SHARE, _TOGETHER = 128, 4
# Bytes of shared memory of a cube at most.
_BYTES = 40960
# Of groups: maximum of channels, filters of a cube, terms that a unit reads at a time, and its
# windows.
_CHANNELS, _BESIDE, _PART, _PAIR = 64, 16, 18, 2
# What a unit does beside its products: for a term that it reads, and for a result.
_READ, _WRITTEN = 8, 6


def filters_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a problem is not computed from whole windows in registers, None if it is."""
    reason = _refusal(one)
    if reason is None and one.seen.terms > _TERMS:
        reason = f"it has more than {_TERMS} terms"
    return reason


def grouped_refusal(one: Convolution, request: Request) -> str | None:
    """Return why groups are not computed from parts of windows in registers, None if they are."""
    p, info = one.seen, one.info
    if p.leads[1].size == 1 or not 1 < hinted(p.depth.size) <= _CHANNELS:
        return f"it has one group, or groups of one or more than {_CHANNELS} channels"
    reason = _refusal(one)
    if reason is not None:
        return reason
    taps = prod(axis.terms for axis in p.axes)
    if taps > _TERMS or p.terms * _BESIDE * float32.itemsize > min(_BYTES, info.shared_bytes):
        return f"its window has more than {_TERMS} taps, or its filters exceed shared memory"
    return None


def _refusal(one: Convolution) -> str | None:
    """Return why windows in registers do not suit a problem, None if they do."""
    p, info = one.seen, one.info
    if p.by_weight or len(p.axes) > 3:
        return "it is a weight gradient, or has more than three spatial axes"
    if p.a.dtype not in (float16, bfloat16, float32):
        return f"it has no sums in float32 of {p.a.dtype}"
    if info.max_units < _UNITS or not info.has("barrier"):
        return f"cubes have no {_UNITS} units that meet"
    if is_size(p.depth.size) or any(is_size(axis.terms) for axis in p.axes):
        return "its terms are not known"
    if any(axis.divide != 1 for axis in p.axes):
        return "it has stride phases"
    least = _FILTERS if p.leads[1].size == 1 else _OF_GROUP
    if p.leads[2].size < least or p.size < _RESULTS:
        return f"it has fewer than {least} filters or {_RESULTS} results"
    across = p.axes[-1]
    apart = abs(across.a * across.result)
    return f"pixels are more than {_APART} elements apart" if apart > _APART else None


def filters_works(one: Convolution, request: Request) -> list[Work]:
    """Return the work of a problem that :func:`filters_refusal` accepts."""
    p, info, steps = one.seen, one.info, Steps()
    (images, groups, outputs), axes, dtype = p.leads, spatial_axes(p), p.a.dtype
    pixels = images.size * prod(axis.count for axis in axes)
    taps, taken = prod(axis.terms for axis in axes), int(p.depth.size)
    if p.terms > _TERMS:
        taken = next(n for n in range(max(_PART // taps, 1), 0, -1) if taken % n == 0)
    windows = max(min(_HELD // (taken * taps), _WINDOWS), 1)
    share = _BESIDE if hinted(outputs.size) > GROUP else GROUP
    if taken == p.depth.size:
        cubes = -(-pixels // (_UNITS * windows))
        share = _share(p, hinted(cubes * groups.size), windows, info)
    else:
        # More filters' sums would leave no registers.
        windows = min(windows, _PAIR)
    cubes = -(-pixels // (_UNITS * windows))
    strides = row_major([*(lead.size for lead in p.leads), *(axis.count for axis in axes)])
    index = kl.index_dtype(reach(p.a), reach(p.b), p.size, pixels + _UNITS * windows)
    nbytes = (p.a.size + p.b.size + p.size) * dtype.itemsize
    target, following = ending(Bound(Output(0), dtype), one.tail)
    steps.add(
        direct_filters,
        Grid(
            (cubes, -(-outputs.size // share), groups.size), (_UNITS, 1, 1), info.planes[0], index
        ),
        Effort(f"conv filters {windows}x{share}", 2 * p.size * p.terms, nbytes),
        x=operand(0, p.a),
        w=operand(1, p.b),
        c=target,
        pixels=pixels,
        outputs=outputs.size,
        parts=[axis.count for axis in axes],
        x_steps=Strides(images.a, groups.a, p.depth.a),
        w_steps=Strides(groups.b, outputs.b, p.depth.b),
        c_steps=Strides(*strides[:3]),
        lines=[
            Line(axis.count, axis.size, axis.a, axis.b, to)
            for axis, to in zip(axes, strides[3:], strict=True)
        ],
        blocks=tuple(block_of(axis, 1) for axis in axes),
        depth=p.depth.size,
        taken=taken,
        share=share,
        windows=windows,
        units=_UNITS,
        together=_TOGETHER,
        accumulate=accumulator(dtype),
        **following,
    )
    return [steps.work()]


def _share(p: Correlation, cubes: int, windows: int, info: DeviceInfo) -> int:
    """Return the filters of a cube with the least estimated time."""
    outputs: int = hinted(p.leads[2].size)
    slots = info.cores * _TOGETHER

    def cost(share: int) -> int:
        waves = -(-cubes * -(-outputs // share) // slots)
        own = p.terms * (windows * _READ + share) + share * windows * (p.terms + _WRITTEN)
        return int(waves * own)

    shares = {-(-outputs // (parts * GROUP)) * GROUP for parts in range(1, outputs // GROUP + 2)}
    room = min(_BYTES, info.shared_bytes) // (p.terms * float32.itemsize)
    most = max(GROUP, min(_SHARE, room))
    found: int = min(sorted((n for n in shares if n <= most), reverse=True), key=cost)
    return found
