"""Ways of convolutions and their gradients for cubes of many units.

Requirements: processors, whose cubes have one unit, do not import them.
"""

from __future__ import annotations

from typing import Final

from calor_kernel.contract.ways import Table, Way
from calor_kernel.contract.work import Request
from calor_kernel.library.conv.depthwise_mma_launch import bands_refusal, bands_works
from calor_kernel.library.conv.depthwise_tiles_launch import (
    depthwise_tiles_refusal,
    depthwise_tiles_works,
)
from calor_kernel.library.conv.depthwise_windows_launch import (
    channel_windows_refusal,
    depthwise_windows_refusal,
    depthwise_windows_works,
)
from calor_kernel.library.conv.direct_blocks_launch import blocks_refusal, blocks_works
from calor_kernel.library.conv.direct_filters_launch import (
    filters_refusal,
    filters_works,
    grouped_refusal,
)
from calor_kernel.library.conv.disjoint_windows import patches_refusal, patches_works
from calor_kernel.library.conv.each_group import each_group_refusal, each_group_works
from calor_kernel.library.conv.folded_products import folded_refusal, folded_works
from calor_kernel.library.conv.generic_tiles import tiles_refusal, tiles_works
from calor_kernel.library.conv.group_tiles import group_tiles_refusal
from calor_kernel.library.conv.implicit_gemm_mma_launch import mma_refusal, mma_works
from calor_kernel.library.conv.implicit_gemm_simt_launch import (
    few_rows,
    groups_refusal,
    simt_refusal,
    simt_works,
)
from calor_kernel.library.conv.joined_groups import joined_refusal, joined_works
from calor_kernel.library.conv.mirrored_gradients import mirrored_refusal, mirrored_works
from calor_kernel.library.conv.one_unit_rows import DIRECT
from calor_kernel.library.conv.planar_images import planar_refusal, planar_works
from calor_kernel.library.conv.pointwise_gemm import product_refusal, product_works
from calor_kernel.library.conv.problem import Convolution
from calor_kernel.library.conv.volume_mma import volume_mma_refusal, volume_mma_works
from calor_kernel.library.conv.volume_planes import volumes_refusal, volumes_works
from calor_kernel.library.conv.window_views import views_refusal, views_works
from calor_kernel.library.conv.winograd_launch import winograd_refusal, winograd_works


def _fma_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a problem is not computed by tiles of FMA, None if it is."""
    reason = simt_refusal(one, request)
    if reason is None and few_rows(one.seen):
        spare = channel_windows_refusal(one, request), views_refusal(one, request)
        if None in spare:
            return "few filters of large windows, or of one tap, have ways of their own"
    return reason


# Ways for cubes of many units. Matrix instructions for full float32 are likely to be faster than
# FMA. SIMT ways are left out if TF32 is allowed and an instruction takes it.
WAYS: Final[Table[Convolution]] = Table(
    "conv",
    Way("products", product_refusal, product_works),
    Way("direct filters", filters_refusal, filters_works),
    Way("patches", patches_refusal, patches_works),
    Way("folded product", folded_refusal, folded_works),
    Way("mirrored gradient", mirrored_refusal, mirrored_works),
    Way("joined groups", joined_refusal, joined_works),
    Way("planar images", planar_refusal, planar_works),
    Way("tiles of groups", group_tiles_refusal, mma_works),
    Way("implicit GEMM of groups", groups_refusal, simt_works),
    Way("each group", each_group_refusal, each_group_works),
    Way("depthwise bands", bands_refusal, bands_works),
    Way("depthwise tiles", depthwise_tiles_refusal, depthwise_tiles_works),
    Way("depthwise windows", depthwise_windows_refusal, depthwise_windows_works),
    Way("direct filters of groups", grouped_refusal, filters_works),
    Way("direct blocks", blocks_refusal, blocks_works),
    Way("volumes in place", volume_mma_refusal, volume_mma_works),
    Way("planes of volumes", volumes_refusal, volumes_works),
    Way("implicit GEMM by MMA", mma_refusal, mma_works),
    Way("Winograd", winograd_refusal, winograd_works),
    Way(
        "implicit GEMM by FMA beside MMA",
        lambda one, request: "TF32 is allowed" if one.rounded else _fma_refusal(one, request),
        simt_works,
        tier=1,
    ),
    Way("implicit GEMM by FMA", _fma_refusal, simt_works, spare=True),
    Way("windows by channel", channel_windows_refusal, depthwise_windows_works, spare=True),
    Way("windows in place", views_refusal, views_works, tier=1, spare=True),
    Way("tiles", tiles_refusal, tiles_works, tier=2),
    DIRECT,
)
