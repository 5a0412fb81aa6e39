"""Groups whose tiles leave a part of the device idle: those of all groups are one launch.

Requirements: a launch for each group takes longer than its tiles, and units that multiply alone
take longer than matrix instructions whose tiles are half empty. Groups are adjacent channels of one
copy.
"""

from __future__ import annotations

from math import prod

from calor_kernel.contract.choices import exceeds, hinted
from calor_kernel.contract.work import Request
from calor_kernel.library.conv.implicit_gemm_mma_launch import mma_refusal
from calor_kernel.library.conv.problem import Convolution

# Minimum of channels of a group on each side, of fewer of which most of a tile is empty, and of
# operations of all groups; rows and columns of a small tile.
_CHANNELS, _FLOPS, _TILE = 24, 5 * 10**7, 64


def group_tiles_refusal(one: Convolution, request: Request) -> str | None:
    """Return why groups are not tiles of one launch, None if they are."""
    p = one.seen
    if p.by_weight or p.leads[1].size == 1:
        return "it has one group, or is a weight gradient"
    _, rows, images = (p.leads[role] for role in p.roles)
    if min(hinted(rows.size), hinted(p.depth.size)) < _CHANNELS:
        return f"a group has fewer than {_CHANNELS} channels on a side"
    phases = prod(axis.divide for axis in p.axes)
    if 2 * hinted(p.size) * hinted(p.terms) // phases < _FLOPS:
        return "it has few operations"
    pixels = images.size * prod(axis.count for axis in p.axes)
    tiles = -(-rows.size // _TILE) * -(-pixels // (_TILE * phases)) * phases
    if exceeds(tiles, one.info.cores):
        return "a group has tiles for all cores"
    return mma_refusal(one, request)
