"""The ways of convolutions by TMA and asynchronous warp-group instructions: rows of "conv"."""

from __future__ import annotations

from typing import Final

from calor_cuda.kernels.conv.implicit_gemm_tma_launch import (
    stride2_refusal,
    stride2_works,
    tma_refusal,
    tma_works,
)
from calor_cuda.kernels.conv.pointwise_weight_gemm import (
    pointwise_weight_refusal,
    pointwise_weight_works,
)
from calor_cuda.kernels.conv.weight_gradient_gemm import (
    group_products_refusal,
    weight_product_refusal,
    weight_product_works,
)
from calor_cuda.kernels.conv.weight_gradient_tma_launch import (
    weight_tma_refusal,
    weight_tma_works,
)
from calor_kernel.contract.ways import Row, Way
from calor_kernel.library.conv.problem import Convolution

_BEFORE = "implicit GEMM by MMA"
ROWS: Final[tuple[Row[Convolution], ...]] = (
    # Those of few filters are before blocks of pixels, which read images for each filter.
    Row(
        "direct blocks", Way("products in place", pointwise_weight_refusal, pointwise_weight_works)
    ),
    Row(
        "implicit GEMM of groups",
        Way("weight products of groups", group_products_refusal, weight_product_works),
    ),
    Row(_BEFORE, Way("implicit GEMM by TMA", tma_refusal, tma_works)),
    Row(_BEFORE, Way("stride 2 by TMA", stride2_refusal, stride2_works)),
    Row(_BEFORE, Way("weights by TMA", weight_tma_refusal, weight_tma_works)),
    Row(_BEFORE, Way("weight products", weight_product_refusal, weight_product_works)),
)
